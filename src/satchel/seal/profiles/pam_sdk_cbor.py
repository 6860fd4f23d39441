"""Profile ``pam-sdk-1.0``: CBOR that need not be deterministic, but holds nothing beyond JSON.

The SDK's files have no magic bytes and any lengths and orders, so they cannot be compared with a
re-encoding, as ours are. What let its own reader be fooled is refused item by item instead: tags
(shared references, big numbers, dates), byte strings, undefined, keys that are not text.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any, NoReturn

from satchel.errors import LimitError, MalformedError
from satchel.seal.encoding.domain import MAX_DEPTH
from satchel.seal.profiles.pam_sdk_shape import shown

_TEXT, _ARRAY, _MAP, _SIMPLE = 3, 4, 5, 7
_REFUSED = {2: "a byte string", 6: "a tag"}
_DIRECT, _LONGEST, _INDEFINITE = 24, 27, 31
_BREAK = 0xFF
_CONSTANTS = {0xF4: False, 0xF5: True, 0xF6: None}
_FLOATS = {0xF9: ">e", 0xFA: ">f", 0xFB: ">d"}
# A one-byte item costs fifty bytes or more as a Python value; no real file comes near this.
_MAX_ITEMS = 4_000_000


class LooseCborReader:
    """Pulls values out of one CBOR item, in order.

    Args:
        data: The whole file.
        name: What to call it in errors.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0
        self._items = 0

    def where(self) -> dict[str, int]:
        """Return the place at which reading stands."""
        return {"byte": self._at}

    def members(self) -> Iterator[str]:
        """Yield the keys of the map that starts here; read each value before the next key."""
        seen: set[str] = set()
        for _ in self._open(_MAP, "a map"):
            start = self._at
            key = self._item(MAX_DEPTH)
            if type(key) is not str:
                self._fail("a key that is not text", start)
            if key in seen:
                self._fail("a map has the same key twice", start, field=shown(key))
            seen.add(key)
            yield key

    def elements(self) -> Iterator[int]:
        """Yield 0, 1, ... for the array that starts here; read each element before the next."""
        yield from enumerated(self._open(_ARRAY, "an array"))

    def value(self) -> Any:
        """Read one whole value.

        Raises:
            MalformedError: With the byte at fault.
        """
        return self._item(0)

    def end(self) -> None:
        """Require that nothing is left."""
        if self._at != len(self._data):
            self._fail("there is something after the end of the document", self._at)

    # -- reading ---------------------------------------------------------------------------

    def _open(self, major: int, what: str) -> Iterator[None]:
        start = self._at
        first = self._take(1)[0]
        if first >> 5 != major:
            self._fail(f"expected {what}", start)
        return self._count(first & 31, start)

    def _count(self, low: int, start: int) -> Iterator[None]:
        """Yield once for each part of a map or array; a claimed length reserves nothing."""
        if low == _INDEFINITE:
            while self._peek() != _BREAK:
                yield
            self._at += 1
        else:
            for _ in range(self._argument(low, start)):
                yield

    def _item(self, depth: int) -> Any:
        start = self._at
        self._items += 1
        if self._items > _MAX_ITEMS:
            raise LimitError(f"more than {_MAX_ITEMS} values", file=self._name, byte=start)
        first = self._take(1)[0]
        major, low = first >> 5, first & 31
        if major in _REFUSED:
            self._fail(_REFUSED[major], start)
        if major in (_ARRAY, _MAP):
            if depth >= MAX_DEPTH:
                self._fail(f"nesting is deeper than {MAX_DEPTH} levels", start)
            return (
                self._list(low, start, depth) if major == _ARRAY else self._dict(low, start, depth)
            )
        if major == _TEXT:
            return self._text(low, start)
        if major == _SIMPLE:
            return self._simple(first, start)
        number = self._argument(low, start)
        return -1 - number if major else number

    def _list(self, low: int, start: int, depth: int) -> list[Any]:
        return [self._item(depth + 1) for _ in self._count(low, start)]

    def _dict(self, low: int, start: int, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for _ in self._count(low, start):
            at = self._at
            key = self._item(MAX_DEPTH)
            if type(key) is not str:
                self._fail("a key that is not text", at)
            if key in out:
                self._fail("a map has the same key twice", at, field=shown(key))
            out[key] = self._item(depth + 1)
        return out

    def _text(self, low: int, start: int) -> str:
        if low != _INDEFINITE:
            return self._utf8(self._argument(low, start), start)
        parts = []
        while (first := self._take(1)[0]) != _BREAK:
            if first >> 5 != _TEXT or first & 31 == _INDEFINITE:
                self._fail("a text in pieces with something else between them", start)
            parts.append(self._utf8(self._argument(first & 31, start), start))
        return "".join(parts)

    def _utf8(self, length: int, start: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            self._fail("the text is not UTF-8", start)

    def _simple(self, first: int, start: int) -> float | bool | None:
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        shape = _FLOATS.get(first)
        if shape is None:
            self._fail("undefined, or another value that JSON does not have", start)
        (number,) = struct.unpack(shape, self._take(struct.calcsize(shape)))
        if not math.isfinite(number):
            self._fail("a number that is not finite", start)
        return float(number)

    def _argument(self, low: int, start: int) -> int:
        if low < _DIRECT:
            return low
        if low > _LONGEST:
            self._fail("a head that CBOR does not have here", start)
        return int.from_bytes(self._take(1 << low - _DIRECT), "big")

    def _peek(self) -> int:
        if self._at >= len(self._data):
            self._fail("the file ends too early", self._at)
        return self._data[self._at]

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            self._fail("the file ends too early", self._at)
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _fail(self, message: str, byte: int, *, field: str | None = None) -> NoReturn:
        raise MalformedError(message, file=self._name, byte=byte, field=field)


def enumerated(steps: Iterator[None]) -> Iterator[int]:
    """Yield 0, 1, ... once for each step."""
    for index, _ in enumerate(steps):
        yield index
