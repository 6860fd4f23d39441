"""A fast check that skips ordinary texts, and disguised characters.

Every rule for secrets requires one of a few byte patterns, which are searched at the speed of C. A
text without them contains nothing that the rules would find.
"""

import re
import string
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = (string.ascii_letters + string.digits + "_-").encode()
_SPACERS = b" .-"
_ORNAMENTS = b"!@#$%^*+=~|"
RUN = b"a" * 20
"""Every token with a fixed form has this many letters, digits, ``_`` or ``-`` in a row."""

CARD = b"0" * 14
"""Every card number has this many digits, without separators."""

_WORDS = (b"key", b"pass", b"oken", b"ecret", b"pw", b"authoriz", b"senha")
_OTHER_WORDS = tuple(
    (word[:1].encode()[:1], word.encode())
    for word in ("парол", "密码", "密碼", "パスワード", "비밀번호")
)
"""With the first byte of each, which is fast to search."""

FOR_PASSWORDS = (
    r"pass[ _-]?(?:word|phrase|code|wort)|passwd|pwd|(?<![a-z])pw|mot de passe|contraseña|senha"
    r"|пароль|密码|密碼|パスワード|비밀번호"
)
_KEYS = (
    *("api", "access", "auth", "private", "secret", "signing", "encryption", "master", "account"),
    *("service", "client", "app"),
)
_JOINS = (b" ", b"_", b"-")
FOR_KEYS = rf"secret|token|(?:{'|'.join(_KEYS)})[ _-]?key"
"""Patterns of the names of passwords, and of keys."""
_is_name = re.compile(f"{FOR_PASSWORDS}|{FOR_KEYS}|authoriz".encode()).search
_keys = tuple(word.encode() for word in _KEYS)
# Non-ASCII letters that lower case turns into letters of the words: Cyrillic, and forms of k and s.
_WITH_SMALL = (b"\xd0", b"\xd1", "\u212a".encode(), "\u017f".encode())
_BEFORE, _AFTER = 16, 16
"""Maximum bytes of a name before and after the start of a word in it."""


_runs = bytes(97 if code in _TOKEN else 32 for code in range(256))
_signs = bytes(
    48 if 48 <= code <= 57 else 33 if code in _ORNAMENTS else 10 if code == 10 else 32  # noqa: PLR2004 - 0 to 9, LF
    for code in range(256)
)


# Values of members that are not secrets: a UUID, a digest, an ID of Satchel.
is_identifier = re.compile(
    r"(?:blake3:)?[0-9a-f]{32,64}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
).fullmatch


def runs_of(data: bytes) -> bytes:
    """Return UTF-8 with ``a`` for every byte that a token may have, and spaces for others."""
    return data.translate(_runs)


def signs_of(data: bytes) -> bytes:
    """Return UTF-8 with ``0`` for digits, without separators between them."""
    return data.translate(_signs, _SPACERS)


def may_hold_secret(text: str) -> bool:
    """Return whether a visible text may contain a secret."""
    data = text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")
    if runs_of(data).find(RUN) >= 0:
        return is_identifier(text) is None
    if "@" in text and "://" in text:
        return True
    signs = signs_of(data)
    if signs.isspace():
        return False
    return signs.find(CARD) >= 0 or has_name(text)


def folded(data: bytes) -> bytes:
    """Return UTF-8 in lower case, for ``names_in``; it may be shorter."""
    if data.isascii() or not any(sign[:1] in data and sign in data for sign in _WITH_SMALL):
        return data.lower()
    low = data.decode("utf-8", "surrogatepass").lower().replace("\u017f", "s")
    return low.encode("utf-8", "surrogatepass")


def has_name(text: str) -> bool:
    """Return whether a text may contain the name of a secret."""
    return next(names_in(folded(text.encode("utf-8", "surrogatepass"))), None) is not None


def names_in(low: bytes) -> Iterator[int]:
    """Yield the positions of possible names of secrets in ``folded`` UTF-8."""
    for word in _WORDS:
        at = low.find(word)
        while at >= 0:
            if _is_name_at(low, word, at):
                yield at
            at = low.find(word, at + 1)
    others = [word for first, word in _OTHER_WORDS if first in low]
    others += [b"contrase"] * (not low.isascii()) + [b"sig="] * (b"=" in low)
    for word in others:
        at = low.find(word)
        while at >= 0:
            yield at
            at = low.find(word, at + 1)


def _is_name_at(low: bytes, word: bytes, at: int) -> bool:
    """Return whether a word is part of a name of a secret, unlike in ``keyboard`` or ``monkey``."""
    start = max(0, at - _BEFORE)
    if word != b"key":
        return _is_name(low, start, at + _AFTER) is not None
    before = low[start:at]
    return before.endswith(_keys) or (before[-1:] in _JOINS and before[:-1].endswith(_keys))


_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
_SPACES = "\u00a0\u2000-\u200a\u202f\u205f\u3000"
_invisible = re.compile(f"[{_INVISIBLE}]+")
_disguised = re.compile(f"[{_INVISIBLE}{_SPACES}\uff01-\uff5e]").search
_FULL_WIDTH_OFFSET = 0xFEE0
_SHOWN: dict[int, int | str] = {
    **{code: code - _FULL_WIDTH_OFFSET for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}

_STARTS = {  # UTF-8 prefixes of disguised characters, by first byte
    b"\xc2": (b"\xc2\xa0", b"\xc2\xad"),
    b"\xcd": (b"\xcd\x8f",),
    b"\xd8": (b"\xd8\x9c",),
    b"\xe1": (b"\xe1\x85", b"\xe1\x9e", b"\xe1\xa0"),
    b"\xe2": (b"\xe2\x80", b"\xe2\x81"),
    b"\xe3": (b"\xe3\x80\x80",),
    b"\xef": (b"\xef\xb8", b"\xef\xbb", b"\xef\xbc", b"\xef\xbd"),
    b"\xf3": (b"\xf3\xa0",),
}


def may_be_disguised(data: bytes) -> bool:
    """Return whether UTF-8 may contain disguised characters; False is certain."""
    if data.isascii():
        return False
    # Searching a single byte is fast, and ordinary text has few of them.
    candidates = [starts for first, starts in _STARTS.items() if first in data]
    return any(start in data for starts in candidates for start in starts)


class VisibleText(NamedTuple):
    """A text as it is displayed."""

    text: str
    gaps: tuple[tuple[int, int], ...] = ()
    """Positions in ``text`` of removed characters, with the number removed so far; both ascend."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a non-empty span of the visible text."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, at: int) -> int:
        after = bisect_left(self.gaps, (at + 1, 0))
        return at + (self.gaps[after - 1][1] if after else 0)


def visible_text(text: str) -> VisibleText:
    """Return a text without invisible characters, and with full-width ones as ASCII."""
    if text.isascii() or not _disguised(text):
        return VisibleText(text)
    gaps, removed = [], 0
    for match in _invisible.finditer(text):
        at = match.start() - removed
        removed += match.end() - match.start()
        gaps.append((at, removed))
    return VisibleText(_invisible.sub("", text).translate(_SHOWN), tuple(gaps))
