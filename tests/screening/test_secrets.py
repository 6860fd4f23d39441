"""Secrets in texts: detected kinds, tokens that replace them, ordinary text, and attacks."""

import base64
import hashlib
import json
import random
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secrets_kit import Maker, card

from satchel.conformance.strategies import texts
from satchel.screening import secrets
from satchel.screening.prefilter import may_hold_secret
from satchel.screening.secrets import KINDS, Secret, find_secrets, scrub

_FRAGMENTS = (
    *(Maker(seed).make(kind)[0] for seed, kind in enumerate(KINDS)),
    *(Maker(seed).make(kind)[1] for seed, kind in enumerate(KINDS)),
    *("password", "password is ", "api_key=", "token: ", '"', "'", "://u:", "@h", "-----", "\\n"),
    *("[REDACTED:jwt:1]", "[REDACTED:url-password:7]", "-", "_", " ", "\n", "0", "Bearer ", "\0"),
    *("example", "order ", ".", "\u200b", "\uff1a", "sig=", "&", "://", "4"),
)


@st.composite
def hostile_texts(draw: st.DrawFn) -> str:
    """Draw secrets and related fragments in any order."""
    parts = draw(st.lists(st.one_of(st.sampled_from(_FRAGMENTS), texts()), max_size=8))
    return "".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_recognized_and_replaced(kind: str) -> None:
    """Exactly the secret; the surrounding text stays."""
    for seed in range(20):
        text, secret = Maker(seed).make(kind)
        [found] = find_secrets(text)

        assert (found.kind, text[found.start : found.end]) == (kind, secret)
        assert scrub(text) == (text.replace(secret, f"[REDACTED:{kind}:1]"), [found])


@pytest.mark.parametrize(
    "text",
    [
        "password: {}",
        "Password={}",
        "the wifi password is {}",
        "The password for Ada's laptop is {}.",
        "DB_PASSWORD_PROD='{}'",
        '{{"password": "{}"}}',
        '{{\\"password\\": \\"{}\\"}}',
        "https://x.test/login?user=ada&password={}&next=1",
        "--password {}".replace(" ", "="),
        "das Passwort ist {}",
        "パスワードは{}です",
        "密码\uff1a{}",
        "contraseña: {}",
        "senha: {}",
        "passphrase -> {}",
        "pw={}",
        "My Netflix password was changed to {}.",
    ],
)
def test_a_password_is_recognized_by_its_name(text: str) -> None:
    """As people, programs and files write it; only the value is replaced."""
    for value in ("Tr0ub4dor&3", "hunter2xyz", "p@sswörd!x"):
        if "&" in value and "?" in text:
            continue
        full = text.format(value)

        assert scrub(full)[0] == text.format("[REDACTED:assigned-secret:1]"), full


@pytest.mark.parametrize(
    "name", ["api_key", "OPENAI_API_KEY", "apiKey", "client_secret", "x-auth-token", "accessToken"]
)
def test_an_api_key_is_recognized_by_its_name(name: str) -> None:
    """Also a key without a recognizable form, such as 32 hexadecimal digits."""
    for value in (Maker(1).body(32, "0123456789abcdef"), Maker(2).body(24)):
        assert [found.kind for found in find_secrets(f"{name} = {value}")] == ["assigned-secret"]
        assert [found.kind for found in find_secrets(value, name)] == ["assigned-secret"]
        assert find_secrets(value, "revision") == []


@pytest.mark.parametrize(
    "number",
    [
        card(),
        card(separator=" "),
        card(separator="-"),
        card("5105"),
        card("2221"),
        card("6011"),
        card("3530"),
        card("6212"),
        card("34", 15),
        card("36", 14),
        "3782 822463 10005",
        card(separator="\u00a0"),
    ],
)
def test_card_numbers_of_known_issuers_are_recognized(number: str) -> None:
    """Plain and in groups; with another last digit it is not a card number."""
    assert [found.kind for found in find_secrets(f"pay with {number}, please")] == ["card-number"]
    wrong = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert find_secrets(f"pay with {wrong}, please") == []


def test_private_keys_of_every_kind_are_recognized() -> None:
    """With any form of line breaks, and truncated before the end."""
    maker = Maker(3)
    for sort in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        key = maker.pem(sort)
        for form in (
            key,
            key.replace("\n", "\\n"),
            key.replace("\n", "\r\n"),
            key.replace("\n", " "),
        ):
            assert scrub(f"a {form} b")[0] == "a [REDACTED:private-key:1] b"
    cut = maker.pem().split("-----END")[0].rstrip()
    assert scrub(f"{cut}\n\nand so on")[0] == "[REDACTED:private-key:1]\n\nand so on"
    assert (
        find_secrets("it begins with -----BEGIN RSA PRIVATE " + "KEY----- and some letters") == []
    )


def test_an_aws_secret_key_is_recognized_next_to_its_key_id() -> None:
    """Forty characters alone are not recognized."""
    maker = Maker(4)
    secret, [_, identity] = maker.body(40), maker.make("aws-access-key")

    assert find_secrets(f"see {secret}") == []
    assert {found.kind for found in find_secrets(f"{identity}:{secret}")} == {
        "aws-access-key",
        "aws-secret-key",
    }


def test_the_same_value_has_the_same_number() -> None:
    """Numbers count the values of a kind, in the order of the text."""
    one, two = (Maker(seed).make("github-token")[1] for seed in (1, 2))
    text, found = scrub(f"{one} {two} {one} {card()}")

    assert re.findall(r"\S+", text) == [
        "[REDACTED:github-token:1]",
        "[REDACTED:github-token:2]",
        "[REDACTED:github-token:1]",
        "[REDACTED:card-number:1]",
    ]
    assert len(found) == 4


def test_every_occurrence_of_a_found_secret_is_replaced() -> None:
    """Also without its name; but not inside a longer word."""
    value = Maker(5).body(12)

    assert scrub(f"password: {value}. Use {value}, not x{value}x")[0] == (
        f"password: [REDACTED:assigned-secret:1]. Use [REDACTED:assigned-secret:1], not x{value}x"
    )


def test_numbers_of_existing_tokens_are_not_reused() -> None:
    """An existing token keeps its meaning next to a new one."""
    secret = Maker(6).make("jwt")[1]

    assert scrub(f"[REDACTED:jwt:3] {secret}")[0] == "[REDACTED:jwt:3] [REDACTED:jwt:4]"
    assert scrub(f"[REDACTED:jwt:999999999] {secret}")[0].endswith("[REDACTED:jwt:1]")


def test_a_redaction_token_is_never_a_secret() -> None:
    """Neither as a password in an address, nor as the value of a name."""
    for text in (
        "://u:[REDACTED:url-password:1]@h.example9",
        "password=[REDACTED:assigned-secret:12]abc123",
        '{"token": "[REDACTED:stripe-key:123456789]"}',
    ):
        assert find_secrets(text) == []
        assert find_secrets("[REDACTED:assigned-secret:1]", "password") == []


@given(hostile_texts())
def test_a_scrubbed_text_contains_no_secret(text: str) -> None:
    """So scrubbing twice equals scrubbing once."""
    clean, found = scrub(text)

    assert find_secrets(clean) == []
    assert scrub(clean) == (clean, [])
    assert (clean == text) == (not found)


@given(hostile_texts())
def test_findings_are_ordered_and_do_not_overlap(text: str) -> None:
    """Their offsets are those of the original text; the other text stays."""
    clean, found = scrub(text)
    places = [place for secret in found for place in (secret.start, secret.end)]

    assert places == sorted(places)
    assert all(0 <= secret.start < secret.end <= len(text) for secret in found)
    rest = [
        text[start:end]
        for start, end in zip([0, *places[1::2]], [*places[::2], len(text)], strict=True)
    ]
    at = 0
    for part in rest:
        at = clean.index(part, at) + len(part)


@given(
    st.lists(st.one_of(texts(), st.text(alphabet="ab -_.:=", max_size=12)), max_size=8).map(
        " ".join
    )
)
def test_a_text_without_a_secret_is_returned_unchanged(text: str) -> None:
    """The same object, and no findings."""
    if not find_secrets(text):
        assert scrub(text)[0] is text


def test_a_finding_does_not_contain_the_secret() -> None:
    """Only its kind and offsets."""
    text, secret = Maker(7).make("stripe-key")

    assert Secret._fields == ("kind", "start", "end")
    assert secret not in repr(find_secrets(text))


_RANDOM = random.Random(20240501)  # noqa: S311 - nothing here is secret

ORDINARY = [
    "",
    " ",
    "Ada prefers oolong tea; she works from the library in Porto on Thursdays.",
    "The meeting is on 2024-05-01 at 10:30, not 2024-05-02T10:30:00.000000Z.",
    "Call +49 30 901820 or (555) 010-9999 or 0044 20 7946 0958, extension 4111.",
    "It costs 1,299.00 EUR, 1 299,00 or $4,111.11; the total is 4 111 111.11.",
    "ISBN 978-3-16-148410-0, EAN 4006381333931, IMEI 490154203237518",
    "Flight TP1234 leaves 41.1579438 -8.6291053 at gate 22.",
    "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd signed it",
    "blake3:" + hashlib.sha256(b"1").hexdigest(),
    "commit " + hashlib.sha1(b"1").hexdigest() + " and 9c1d3ae",  # noqa: S324 - it is what git has
    "sha256:" + hashlib.sha256(b"2").hexdigest(),
    "integrity sha512-" + base64.b64encode(hashlib.sha512(b"3").digest()).decode(),
    "data:image/png;base64," + base64.b64encode(_RANDOM.randbytes(900)).decode(),
    base64.b64encode(_RANDOM.randbytes(30_000)).decode(),
    "https://example.org/a/very-long-title-of-an-article-about-tokens?id=123456789&page=2#top",
    "git@github.com:ada/project.git and https://ada@github.com/ada/project.git",
    "postgres://localhost:5432/db and postgres://ada:password@db and redis://:${REDIS_PASSWORD}@r",
    "AKIA" + "IOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "set OPENAI_API_KEY=<YOUR_KEY> or API_KEY=your_key_here_1234567890 or sk-xxxxxxxxxxxxxxxx",
    "s" + "k-" + "x" * 48 + " and gh" + "p_" + "*" * 36 + " and gh" + "p_" + "x" * 36,
    "password: ******** and password: <password> and password = None and password: ${PASS_1}",
    'password = os.environ["DB_PASSWORD_1"] and token = get_token_v2(user_id=42)',
    "password: Optional[str] = None; password: string; password = input()",
    "The password is case-sensitive and the password is 8-characters; the password is required!",
    "Your password must have 8+ characters. Password: changed on 2024-05-01. Password reset: yes.",
    "token_count: 4096, max_tokens=128000, tokens: 1234567890123456, tokenizer: cl100k_base_v1",
    "next_page_token: CAUQAA9f8e7d6c5b4a and pad_token='<|endoftext|>' and eos_token: 50256",
    "primary_key = user_account_id_v2_2024 and cache_key: a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6",
    "password_hash: a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6 and secret_name: prod1/db2/main3/x4y5z6",
    "The secret: fold the dough 3 times. The key is to rest it 24h. Secretary: Bob2024x of floor 7",
    "api_key_id: a1b2c3d4e5f6a7b8c9d0 and token type: Bearer and basic understanding is enough",
    "Bearer of good news; the bearer token-based-authentication-is-explained-in-chapter-twelve",
    "float 0.4539719382645078 and 3.4539719382645078 and [0.4111111111111111, -0.5105105105105100]",
    "Order number 4539719382645078, invoice 5105105105105100, tracking #6011000990139424",
    "1717243200000 1717243200000000 1717243200000000000 739281734650123456 4539719382645",
    "years 1990 2000 2010 2020 and 4000 4000 4000 4000",
    "0000 0000 0000 0000 or 4444444444444444444444444444",
    "eyJ is how a token begins; AIza too, and xoxb-, SG., ghp_, sk-ant- and -----BEGIN",
    "risk-adjusted-return-on-capital-employed-2024, task-management-system-2, disk-1234567890",
    "def key(self) -> str:\n    return self._token[0:16].hexdigest()  # password",
    "SELECT password, token FROM users WHERE id = '7f3b2c1d'; -- secret",
    "太郎は毎朝コーヒーを飲みます。会議は２０２４年５月１日の１０時からです。暗証番号は秘密。",
    "パスワードは毎月変更してください。密码必须包含8个字符。비밀번호는 8자 이상이어야 합니다.",
    "👩🏽\u200d🚀 wrote: ½ of 4⁴ ≠ ١٢٣٤ ١٢٣٤ ١٢٣٤ ١٢٣٤",
    "AC" + "0123456789abcdef" * 2 + " is an account, pk_live_" + "51HxY2bKjd83hs92kd is public",
]


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text[:24])
def test_ordinary_text_contains_no_secret(text: str) -> None:
    """Ids, digests, prices, numbers, placeholders, code, prose in several scripts."""
    assert find_secrets(text) == []


def test_random_ids_and_digests_are_not_secrets() -> None:
    """A thousand of each, alone and in a sentence."""
    for _ in range(1_000):
        data = _RANDOM.randbytes(64)
        for text in (
            str(uuid.UUID(bytes=data[:16])),
            str(uuid.UUID(bytes=data[:16])).upper(),
            data[:16].hex(),
            data[:20].hex(),
            data[:32].hex(),
            f"blake3:{data[:32].hex()}",
            data.hex(),
        ):
            assert find_secrets(text) == []
            assert find_secrets(f"see {text}, made by 4 people") == []


def test_a_card_number_after_the_word_order_is_not_a_secret() -> None:
    """Elsewhere the same digits are a card number."""
    assert find_secrets(f"order no. {card()}") == []
    assert len(find_secrets(f"card no. {card()}")) == 1


def _named_texts(value: Any, name: str | None = None) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, str):
        yield value, name
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key, None
            yield from _named_texts(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _named_texts(part, name)


def _json_values(path: Path) -> Iterator[Any]:
    raw = path.read_text("utf-8")
    try:
        yield json.loads(raw)
    except ValueError:
        for line in raw.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                yield line


@pytest.mark.shared
def test_only_the_real_secrets_of_the_sample_files_are_found(shared_data: Path) -> None:
    """Texts of providers, conversations and attacks.

    One attack steals a session token, and one conversation is about code with passwords.
    """
    found = [
        (path.name, secret.kind)
        for path in sorted(shared_data.rglob("*"))
        if path.suffix in {".json", ".jsonl", ".af", ".pam"}
        for value in _json_values(path)
        for text, name in _named_texts(value)
        for secret in find_secrets(text, name)
    ]

    passwords = [("chat.json", "assigned-secret")] * 5
    assert found == [*passwords, ("small_packs.jsonl", "jwt")]


_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


@pytest.mark.parametrize("kind", KINDS)
def test_attack_a_secret_with_invisible_characters_is_found(kind: str) -> None:
    """Zero-width spaces and joiners are removed with the secret."""
    text, secret = Maker(1).make(kind)
    hidden = "\u200b".join(secret[:5]) + "\u2060" + secret[5:-1] + "\ufeff\u00ad" + secret[-1]

    assert scrub(text.replace(secret, hidden))[0] == text.replace(secret, f"[REDACTED:{kind}:1]")


@pytest.mark.parametrize("kind", KINDS)
def test_attack_a_secret_in_full_width_letters_is_found(kind: str) -> None:
    """It gets the same number as its plain form."""
    text, _ = Maker(2).make(kind)
    clean, found = scrub(text.translate(_FULL_WIDTH))

    assert [secret.kind for secret in found] == [kind]
    both = scrub(f"{text} \n {text.translate(_FULL_WIDTH)}")[0]
    assert f":{kind}:1]" in clean
    assert f":{kind}:2]" not in both


def test_attack_a_secret_with_a_line_break_is_not_found() -> None:
    """A documented limit: only in private keys are lines joined."""
    text, secret = Maker(3).make("github-token")
    broken = text.replace(secret, f"{secret[:20]}\n{secret[20:]}")

    assert find_secrets(broken) == []


def test_attack_a_secret_that_imitates_a_redaction_token_is_found() -> None:
    """Only the exact form of a token is skipped."""
    _, secret = Maker(4).make("github-token")
    for wrapped in (f"[REDACTED:{secret}:1]", f"[REDACTED:x:1 {secret}]", f"[REDACTED: {secret}"):
        assert secret not in scrub(wrapped)[0]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in {"card-number", "url-password"}]
)
def test_attack_a_secret_next_to_escapes_and_punctuation_is_found(kind: str) -> None:
    """A line break as two characters, a percent escape, quotes and brackets end a word."""
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
def test_attack_a_repeated_pattern_takes_linear_steps(part: str) -> None:
    """Four times the text takes about four times the interpreter steps, not sixteen.

    Steps inside one regular expression are not counted here; the next test covers them.
    """
    few = _steps(lambda: scrub(_repeated(part, 2**12)))
    many = _steps(lambda: scrub(_repeated(part, 2**14)))

    assert many < 6 * few + 2_000


def _steps(act: Callable[[], object]) -> int:
    """Return the number of lines of Python that a call runs."""
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


@pytest.mark.in_check(9)
@pytest.mark.parametrize("part", _REPEATED, ids=lambda part: repr(part)[-24:])
def test_attack_half_a_mebibyte_of_a_repeated_pattern_is_scanned(part: str) -> None:
    """With a quadratic expression among the rules this test would time out."""
    text = _repeated(part, 2**19)
    clean, _ = scrub(text)

    assert find_secrets(clean) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_prefilter_passes_every_secret(kind: str) -> None:
    """The prefilter only saves time."""
    for seed in range(50):
        text, secret = Maker(seed).make(kind)
        assert may_hold_secret(text)
        if text.startswith("She wrote"):
            assert may_hold_secret(secret)


@pytest.mark.parametrize("shape", secrets.SHAPES, ids=lambda shape: shape.kind)
def test_every_shape_has_a_mark_that_its_secrets_contain(shape: secrets.Shape) -> None:
    """A wrong mark would switch the kind off."""
    for seed in range(50):
        assert any(mark in Maker(seed).make(shape.kind)[0] for mark in shape.marks)


def test_attack_deeply_nested_secrets_are_all_found() -> None:
    """A secret that appears when another one is replaced is replaced as well."""
    part, secret = "password=", Maker(6).body(12)
    for depth in (1, 5, 50, 500):
        text = part * depth + secret + "://u:" * depth + secret + "@h" * depth
        assert secret not in scrub(text)[0]
        assert find_secrets(scrub(text)[0]) == []


def test_attack_a_text_that_needs_too_many_rounds_is_replaced_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the rounds run out, too much is replaced, never too little."""
    monkeypatch.setattr(secrets, "_ROUNDS", 1)
    text, _ = Maker(8).make("jwt")

    assert scrub(text) == ("[REDACTED:jwt:1]", [secrets.Secret("jwt", 0, len(text))])


def test_attack_a_secret_with_lookalike_letters_is_not_found() -> None:
    """A documented limit: a Cyrillic letter is another letter."""
    _, secret = Maker(7).make("aws-access-key")

    assert find_secrets(secret.replace("A", "\u0410")) == []


def test_card_numbers_are_checked_with_the_luhn_algorithm() -> None:
    """One wrong digit is detected."""
    number = card()
    assert secrets.is_card(number)
    for place in range(4, 16):
        for digit in "0123456789":
            changed = number[:place] + digit + number[place + 1 :]
            assert secrets.is_card(changed) == (digit == number[place])


def test_a_secret_name_is_matched_as_a_whole_word() -> None:
    """Not as part of a longer word."""
    for name in ("password", "db_password", "userPassword", "API-Key", "client_secret", "token"):
        assert secrets.names_secret(name), name
    for name in ("secretary", "tokens", "token_count", "password_hash", "next_page_token", "key"):
        assert not secrets.names_secret(name), name
