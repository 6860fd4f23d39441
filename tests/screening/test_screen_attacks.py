"""Texts that are made to slip through, to take for ever, or to lead astray."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from secrets_kit import Maker, card

from satchel.screening import secrets
from satchel.screening.prefilter import may_hold_secret
from satchel.screening.secrets import KINDS, find_secrets, scrub

_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


@pytest.mark.parametrize("kind", KINDS)
def test_attack_a_secret_with_invisible_characters_in_it(kind: str) -> None:
    """Zero-width spaces and joiners hide nothing; they go with the secret they were in."""
    text, secret = Maker(1).make(kind)
    hidden = "\u200b".join(secret[:5]) + "\u2060" + secret[5:-1] + "\ufeff\u00ad" + secret[-1]

    assert scrub(text.replace(secret, hidden))[0] == text.replace(secret, f"[REDACTED:{kind}:1]")


@pytest.mark.parametrize("kind", KINDS)
def test_attack_a_secret_in_full_width_letters(kind: str) -> None:
    """As an input method may write it: the same secret, with the same number as its plain form."""
    text, _ = Maker(2).make(kind)
    clean, found = scrub(text.translate(_FULL_WIDTH))

    assert [secret.kind for secret in found] == [kind]
    both = scrub(f"{text} \n {text.translate(_FULL_WIDTH)}")[0]
    assert f":{kind}:1]" in clean
    assert f":{kind}:2]" not in both


def test_attack_a_line_break_in_a_token_is_not_undone() -> None:
    """A limit that we state: only in private keys are lines taken together."""
    text, secret = Maker(3).make("github-token")
    broken = text.replace(secret, f"{secret[:20]}\n{secret[20:]}")

    assert find_secrets(broken) == []


def test_attack_a_token_that_pretends_to_be_scrubbed() -> None:
    """Only what has the exact form of our tokens is passed over."""
    _, secret = Maker(4).make("github-token")
    for wrapped in (f"[REDACTED:{secret}:1]", f"[REDACTED:x:1 {secret}]", f"[REDACTED: {secret}"):
        assert secret not in scrub(wrapped)[0]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in {"card-number", "url-password"}]
)
def test_attack_a_secret_glued_to_escapes_and_marks(kind: str) -> None:
    """A line break written as two characters, a percent escape, quotes, brackets: a word ends."""
    text, secret = Maker(5).make(kind)
    for before, after in (("\\n", "\\n"), ("%20", "%20"), ("(", ")"), ("**", "**"), ("<", ">")):
        glued = text.replace(secret, f"{before}{secret}{after}")
        if text.startswith("She wrote"):
            assert secret not in scrub(glued)[0], glued


def _repeated(part: str, size: int) -> str:
    return (part * (size // len(part) + 1))[:size]


_REPEATED = (
    *("a", "A1", "4", "4111 ", " 4539719382645071", " \u200b", "-----BEGIN ", "eyJ", "AKIA", "\\n"),
    *(
        "password=",
        "password is a ",
        "password for a b c d e ",
        "api_key=s" + "k-ant-",
        "token:a1 ",
    ),
    *(
        "://a:",
        "a.b@c://x:y@",
        "ghp" + "_",
        "eyJaaaaaaaaaaaaaaaaaaaaa.",
        "s" + "k-let-/",
        "xoxb" + "-",
    ),
    *("[REDACTED:x:1]", "Bearer ", "password=a1b2c3d4 ", "glpat" + "-", ".eyJ", "0" * 13 + " "),
    "-----BEGIN PRIVATE " + "KEY-----",
    "-----BEGIN PRIVATE " + "KEY----- AAAAAAAAAAAAAAAAAAAAAAAA ",
    "PuTTY-User-Key-File-2 Private-Lines: 9 AAAAAAAAAAAAAAAAAAAA",
    "password='",
    'password: \\"',
    "secret-" * 3 + "=",
    "Authorization: Basic ",
    "token=abc123def456ghi7://u:example1@h ",
)


@pytest.mark.parametrize("part", _REPEATED, ids=lambda part: repr(part)[-24:])
def test_attack_a_pattern_without_end_costs_time_in_proportion(part: str) -> None:
    """Four times the text takes about four times the steps of the interpreter, not sixteen.

    Steps inside one call of a regular expression do not count here; that each of them is linear
    is what the next test looks at.
    """
    few = _steps(lambda: scrub(_repeated(part, 2**12)))
    many = _steps(lambda: scrub(_repeated(part, 2**14)))

    assert many < 6 * few + 2_000


def _steps(act: Callable[[], object]) -> int:
    """Return how many lines of Python an act runs."""
    count = 0

    def trace(_frame: FrameType, _event: str, _value: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("part", _REPEATED, ids=lambda part: repr(part)[-24:])
def test_attack_half_a_mebibyte_of_a_pattern_is_scanned(part: str) -> None:
    """With a quadratic expression among the rules this would not end before the test is stopped."""
    text = _repeated(part, 2**19)
    clean, _ = scrub(text)

    assert find_secrets(clean) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_look_lets_no_secret_pass(kind: str) -> None:
    """The sieve in front of the rules only ever saves time."""
    for seed in range(50):
        text, secret = Maker(seed).make(kind)
        assert may_hold_secret(text)
        if text.startswith("She wrote"):
            assert may_hold_secret(secret)


@pytest.mark.parametrize("shape", secrets.SHAPES, ids=lambda shape: shape.kind)
def test_every_shape_is_found_by_its_marks(shape: secrets.Shape) -> None:
    """A mark that no text of the kind has would switch the kind off."""
    for seed in range(50):
        assert any(mark in Maker(seed).make(shape.kind)[0] for mark in shape.marks)


def test_attack_secrets_nested_without_end() -> None:
    """What is uncovered by taking another away is taken as well, to the last."""
    part, secret = "password=", Maker(6).body(12)
    for depth in (1, 5, 50, 500):
        text = part * depth + secret + "://u:" * depth + secret + "@h" * depth
        assert secret not in scrub(text)[0]
        assert find_secrets(scrub(text)[0]) == []


def test_attack_a_text_that_never_settles_is_replaced_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the rounds run out, more goes than has to, never less."""
    monkeypatch.setattr(secrets, "_ROUNDS", 1)
    text, _ = Maker(8).make("jwt")

    assert scrub(text) == ("[REDACTED:jwt:1]", [secrets.Secret("jwt", 0, len(text))])


def test_attack_lookalikes_of_other_scripts_are_not_undone() -> None:
    """A limit that we state: a Cyrillic letter is another letter."""
    _, secret = Maker(7).make("aws-access-key")

    assert find_secrets(secret.replace("A", "\u0410")) == []


def test_the_check_digit_is_the_rule_of_luhn() -> None:
    """One wrong digit and most exchanged neighbors are noticed."""
    number = card()
    assert secrets.is_card(number)
    for place in range(4, 16):
        for digit in "0123456789":
            changed = number[:place] + digit + number[place + 1 :]
            assert secrets.is_card(changed) == (digit == number[place])


def test_names_are_judged_whole() -> None:
    """A member is secret by its name, not by part of a longer word."""
    for name in ("password", "db_password", "userPassword", "API-Key", "client_secret", "token"):
        assert secrets.names_secret(name), name
    for name in ("secretary", "tokens", "token_count", "password_hash", "next_page_token", "key"):
        assert not secrets.names_secret(name), name
