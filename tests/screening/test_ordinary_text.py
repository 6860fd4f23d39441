"""Texts in which nothing is secret, though some of it looks so."""

import base64
import hashlib
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from secrets_kit import card

from satchel.screening.secrets import find_secrets

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
def test_ordinary_text_holds_no_secret(text: str) -> None:
    """Ids, digests, prices, numbers, placeholders, code, prose in several scripts."""
    assert find_secrets(text) == []


def test_ids_and_digests_are_no_secrets_however_they_fall() -> None:
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


def test_a_card_after_the_word_order_is_an_order() -> None:
    """The same digits elsewhere are a card."""
    assert find_secrets(f"order no. {card()}") == []
    assert len(find_secrets(f"card no. {card()}")) == 1


def _texts(value: Any, name: str | None = None) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, str):
        yield value, name
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key, None
            yield from _texts(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, name)


def _values(path: Path) -> Iterator[Any]:
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
def test_in_the_sample_files_only_the_real_secrets_are_found(shared_data: Path) -> None:
    """Texts of providers, conversations and attacks: nothing in them but what is there.

    One attack steals a session token, and one conversation is about code with passwords in it.
    """
    found = [
        (path.name, secret.kind)
        for path in sorted(shared_data.rglob("*"))
        if path.suffix in {".json", ".jsonl", ".af", ".pam"}
        for value in _values(path)
        for text, name in _texts(value)
        for secret in find_secrets(text, name)
    ]

    passwords = [("chat.json", "assigned-secret")] * 5
    assert found == [*passwords, ("small_packs.jsonl", "jwt")]
