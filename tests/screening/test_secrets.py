"""Secrets in a text: which are recognized, and what takes their place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secrets_kit import Maker, card

from satchel.conformance.strategies import texts
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
    """Secrets and what belongs to them, put together in every order."""
    parts = draw(st.lists(st.one_of(st.sampled_from(_FRAGMENTS), texts()), max_size=8))
    return "".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_recognized_and_replaced(kind: str) -> None:
    """Exactly the secret, whoever made it up; what stands around it stays."""
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
def test_a_password_is_known_by_its_name(text: str) -> None:
    """As people, programs and files write it down; nothing but the value is taken."""
    for value in ("Tr0ub4dor&3", "hunter2xyz", "p@sswörd!x"):
        if "&" in value and "?" in text:
            continue
        full = text.format(value)

        assert scrub(full)[0] == text.format("[REDACTED:assigned-secret:1]"), full


@pytest.mark.parametrize(
    "name", ["api_key", "OPENAI_API_KEY", "apiKey", "client_secret", "x-auth-token", "accessToken"]
)
def test_a_key_is_known_by_its_name(name: str) -> None:
    """Also where its maker gives it no shape, such as 32 hexadecimal digits."""
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
def test_cards_of_the_known_issuers_are_recognized(number: str) -> None:
    """Plain and in groups; with another last digit it is no card."""
    assert [found.kind for found in find_secrets(f"pay with {number}, please")] == ["card-number"]
    wrong = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert find_secrets(f"pay with {wrong}, please") == []


def test_private_keys_of_every_sort_are_recognized() -> None:
    """Whichever way the line breaks were written, and cut off before the end as well."""
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


def test_an_aws_secret_beside_its_id_is_recognized_without_a_name() -> None:
    """Forty characters alone are nothing; in a text with an access key id they are its secret."""
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


def test_a_value_found_once_is_found_wherever_it_stands() -> None:
    """Its name says it is secret; it is no less so three words on. Inside a word it is another."""
    value = Maker(5).body(12)

    assert scrub(f"password: {value}. Use {value}, not x{value}x")[0] == (
        f"password: [REDACTED:assigned-secret:1]. Use [REDACTED:assigned-secret:1], not x{value}x"
    )


def test_numbers_of_an_earlier_scrubbing_are_not_reused() -> None:
    """A token that was there keeps its meaning beside a new one."""
    secret = Maker(6).make("jwt")[1]

    assert scrub(f"[REDACTED:jwt:3] {secret}")[0] == "[REDACTED:jwt:3] [REDACTED:jwt:4]"
    assert scrub(f"[REDACTED:jwt:999999999] {secret}")[0].endswith("[REDACTED:jwt:1]")


def test_a_token_is_no_secret_whatever_stands_around_it() -> None:
    """Neither as a password in an address, nor as the value of a name."""
    for text in (
        "://u:[REDACTED:url-password:1]@h.example9",
        "password=[REDACTED:assigned-secret:12]abc123",
        '{"token": "[REDACTED:stripe-key:123456789]"}',
    ):
        assert find_secrets(text) == []
        assert find_secrets("[REDACTED:assigned-secret:1]", "password") == []


@given(hostile_texts())
def test_after_scrubbing_nothing_is_found(text: str) -> None:
    """So scrubbing twice is scrubbing once."""
    clean, found = scrub(text)

    assert find_secrets(clean) == []
    assert scrub(clean) == (clean, [])
    assert (clean == text) == (not found)


@given(hostile_texts())
def test_what_is_found_lies_in_order_in_the_text(text: str) -> None:
    """Places are of the text that was given, apart from each other; the rest of it stays."""
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
def test_a_text_without_a_secret_is_unchanged(text: str) -> None:
    """The very same text, and nothing is reported."""
    if not find_secrets(text):
        assert scrub(text)[0] is text


def test_a_secret_reveals_nothing_of_its_value() -> None:
    """What is handed on is a kind and a place."""
    text, secret = Maker(7).make("stripe-key")

    assert Secret._fields == ("kind", "start", "end")
    assert secret not in repr(find_secrets(text))
