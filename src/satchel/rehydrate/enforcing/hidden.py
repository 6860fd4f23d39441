"""Text that is hidden in text: what an encoded part of it says once it is decoded."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from satchel.rehydrate.enforcing.imperatives import STEMS

_LONGEST = 1 << 14
"""Characters in which encoded parts are looked for, from the start."""

_MOST = 16
"""Encoded parts of each sort that are decoded."""

_PRINTABLE = 0.85
_LEAST = 8

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,4096}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{24,4096}={0,6}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){12,4096}")
_BINARY = re.compile(r"(?:[01]{8}\s*){4,}")
_MORSE = re.compile(r"(?:[.\-]{1,6}[ /]+){8,}[.\-]{1,6}")
_ASCII85 = re.compile(r"<~(.{8,}?)~>", re.DOTALL)
_BASE85 = re.compile(r"[0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~]{40,4096}")
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}){4,}")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_SPACED = re.compile(r"\b(?:[^\W\d_] ){3,}[^\W\d_]\b")
_TAGGED = re.compile("[\U000e0020-\U000e007e]{4,}")

_LEAST_TOKEN = 16
_HEX_ONLY = bytes(ord("h") if chr(one) in "0123456789abcdefABCDEF" else 32 for one in range(256))
_MORSE_ONLY = bytes(ord("m") if chr(one) in ".-" else 120 for one in range(256))
_LETTERS_ONLY = bytes(
    one if one == ord(" ") else ord("l") if chr(one).isalpha() else 120 for one in range(256)
)
_ROTATED = tuple(codecs.encode(one, "rot13") for one in STEMS)
_BACKWARDS = tuple(one[::-1] for one in STEMS)

_LETTERS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .--"
    " -..- -.-- --.."
)
_CODE = dict(zip(_LETTERS.split(" "), "abcdefghijklmnopqrstuvwxyz", strict=True))


def hidden_in(text: str) -> Iterator[str]:
    """Yield what may be hidden in a text, as texts; most of ordinary text gives nothing."""
    some = text[:_LONGEST]
    if some.isascii() and not _may_hide(some):
        return
    for pattern, decode in _WAYS:
        for number, found in enumerate(pattern.finditer(some)):
            if number == _MOST:
                break
            said = _decoded(decode, found.group())
            if said:
                yield said
    if len(_PERCENT.findall(some)) > 1:
        yield unquote(some)
    if _ESCAPED.search(some):
        yield _ESCAPED.sub(lambda one: _unescaped(one.group()), some)
    if _SPACED.search(some):
        yield _SPACED.sub(lambda one: one.group().replace(" ", ""), some)


def _may_hide(text: str) -> bool:
    """Tell whether there can be an encoded part in an ASCII text; looks much faster than patterns.

    Each condition holds wherever the pattern of that sort has a match.
    """
    if max(map(len, text.split()), default=0) >= _LEAST_TOKEN:
        return True  # base 64, 32 and 85
    if text.count("%") > 1 or "<~" in text or "\\u" in text or "\\x" in text:
        return True
    raw = text.encode()
    return (
        b"h" * 24 in raw.translate(_HEX_ONLY, b" \t\n\r\v\f\x1c\x1d\x1e\x1f:")  # and binary
        or b"m" * 9 in raw.translate(_MORSE_ONLY, b" /")
        or b"l l l l" in raw.translate(_LETTERS_ONLY)
    )


def turned(seen: str) -> Iterator[str]:
    """Yield a folded text read otherwise, where that may tell something.

    That is with letters moved by thirteen, and from its end.
    """
    some = seen[:_LONGEST]
    if any(map(some.__contains__, _ROTATED)):
        yield codecs.encode(some, "rot13")
    if any(map(some.__contains__, _BACKWARDS)):
        yield some[::-1]


def _decoded(decode: Callable[[str], bytes | str], found: str) -> str:
    try:
        raw = decode(found)
    except (ValueError, binascii.Error, KeyError):
        return ""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    shown = sum(one.isprintable() or one in "\n\t" for one in text) - text.count("\ufffd")
    return text if len(text) >= _LEAST and shown / len(text) >= _PRINTABLE else ""


def _base64(found: str) -> bytes:
    plain = found.rstrip("=").replace("-", "+").replace("_", "/")
    plain = plain[: len(plain) // 4 * 4 + (len(plain) % 4 if len(plain) % 4 > 1 else 0)]
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def _base32(found: str) -> bytes:
    plain = found.rstrip("=")
    return base64.b32decode(plain + "=" * (-len(plain) % 8))


def _hex(found: str) -> bytes:
    digits = re.sub(r"[\s:]", "", found)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def _binary(found: str) -> bytes:
    return bytes(int(one, 2) for one in re.findall("[01]{8}", found))


def _morse(found: str) -> str:
    words = re.split(r"\s*/\s*", found)
    return " ".join("".join(_CODE.get(one, "") for one in word.split()) for word in words)


def _ascii85(found: str) -> bytes:
    return base64.a85decode(found[2:-2])


def _base85(found: str) -> bytes:
    return base64.b85decode(found)


def _tagged(found: str) -> str:
    return "".join(chr(ord(one) - 0xE0000) for one in found)


def _unescaped(found: str) -> str:
    return "".join(
        chr(int(one, 16))
        for one in re.findall(r"\\u([0-9a-fA-F]{4})|\\x[0-9a-fA-F]{2}", found)
        if one
    )


_WAYS: tuple[tuple[re.Pattern[str], Callable[[str], bytes | str]], ...] = (
    (_BASE64, _base64),
    (_BASE32, _base32),
    (_HEX, _hex),
    (_BINARY, _binary),
    (_MORSE, _morse),
    (_ASCII85, _ascii85),
    (_BASE85, _base85),
    (_TAGGED, _tagged),
)
