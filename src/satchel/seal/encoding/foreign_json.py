"""Reading other products' JSON: as strict as ``strict_json``, with long arrays at the speed of C.

What is refused or carried there is only recognised here, not judged: text with something out of
the ordinary in it is read again, value by value.
"""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from satchel.seal.encoding.carry import holds
from satchel.seal.encoding.domain import ITEM_BYTES, MAX_DEPTH
from satchel.seal.encoding.strict_json import SURROGATE, JsonReader
from satchel.type_info import resolved

_MOST, _LEAST = 1 << 17, 1 << 12
_FEW = 8
_SPACES = " \t\r\n"
_WHITE = _SPACES.encode()
_DOLLARS = (b'"$', b'"\\u0024')
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN = b"0" * 16
# A number of sixteen digits, once digits are alike, signs gone, and what can stand before a number
# is a colon.
_FLAT = bytes.maketrans(b"123456789[, \t\r\n", b"000000000::::::")
_LONG = b":" + _SIXTEEN


class ForeignReader(JsonReader):
    """Reads a document that another product wrote.

    Numbers that the value domain cannot hold become their reversible form, and a byte order mark
    is skipped.

    Args:
        stream: Bytes of the document; read, never closed.
        name: What to call it in errors.
        item_bytes: Largest single value, in characters.
        mending: Called for each value with halves of characters (lone surrogates), which then
            become U+FFFD; without it they are an error.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        item_bytes: int = ITEM_BYTES,
        mending: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(stream, name, carrying=True, item_bytes=item_bytes)
        self._mending = mending
        self._window = _MOST
        self._singly = 0
        self._first_line = 1
        self._several, self._index = "", 0

    @property
    def value_line(self) -> int:
        """The line, from 1, on which the last one of ``values`` starts."""
        at = 0
        for _ in range(self._index):
            _, at = self._scan_once(self._several, at)
            while self._several[at] in _SPACES + ",":
                at += 1
        return self._first_line + self._several.count("\n", 0, at)

    def values(self) -> Iterator[Any]:
        """Yield the elements of the array that starts here.

        Raises:
            MalformedError: With the line at fault.
            LimitError: If an element is larger than ``item_bytes``.
        """
        # How one object ends and the next starts; a program writes that alike all through.
        joint = ""
        text, end = "", 0
        for _ in self.elements():
            opening = self.peek()
            self._first_line, self._several = self.line, ""
            if self._text is text and opening == "{" and text[end - 1] == "}":
                joint = text[end - 1 : self._at + 1]
            if opening == "{" and joint:
                yield from self._ordinary(joint)
            if not self._several:
                self._index = 0
                yield self.value()
            text, end = self._text, self._at

    def following(self) -> Iterator[Any]:
        """Yield the values that come after the last one, as in a file with one on each line.

        Raises:
            MalformedError: With the line at fault.
            LimitError: If one is larger than ``item_bytes``.
        """
        while self.peek():
            self._first_line, self._several, self._index = self.line, "", 0
            yield self.value()

    def _mended(self, value: Any) -> Any:
        if self._mending is None:
            return super()._mended(value)
        self._mending()
        return _without_halves(value)

    def _ordinary(self, joint: str) -> Iterator[Any]:
        """Yield the next elements, as many as can be read at once; perhaps none."""
        if self._singly:
            self._singly -= 1
            return
        if len(self._text) - self._at < self._window and not self._ended:
            self._fill(_MOST)
        start = self._at
        end = self._text.rfind(joint, start, start + self._window) + 1
        found = ordinary_values(self._text[start:end]) if end else None
        if found is None:
            self._window, self._singly = max(_LEAST, self._window // 4), _FEW
            return
        self._window = min(_MOST, self._window * 2)
        self._several, self._at = self._text[start:end], end
        for self._index, value in enumerate(found):
            yield value


def ordinary_values(text: str) -> list[Any] | None:
    """Return the values of an array from what is between its brackets.

    None when they may not be what the strict reader gives: for malformed text, a key twice in an
    object, a number that a double does not hold, a lone surrogate, nesting beyond the bound, a key
    that starts with ``$``.
    """
    data = text.encode()
    flat = data.translate(_ALIKE, _WHITE)
    if _has_dollar_key(data) or (_SIXTEEN in flat and _LONG in data.translate(_FLAT, b"-")):
        return None
    try:
        values = _decode(b"[%b]" % data)
        keys = _keys(values, MAX_DEPTH)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    # Without white space a colon follows each key, and a key that an object has twice is held once.
    return values if flat.count(b'":') == keys else None


def _has_dollar_key(data: bytes) -> bool:
    """Tell whether there may be one."""
    # To look for a single byte takes a tenth of the time.
    return (b"$" in data or b"\\" in data) and any(sign in data for sign in _DOLLARS)


def _without_halves(value: Any) -> Any:
    if type(value) is str:
        return SURROGATE.sub("\ufffd", value)
    if type(value) is list:
        return [_without_halves(part) for part in value]
    if type(value) is dict:
        return {_without_halves(key): _without_halves(part) for key, part in value.items()}
    return value


def _float(token: str) -> float:
    value = float(token)
    if not holds(token, value):
        raise ValueError(token)
    return value


def _keys(value: Any, room: int) -> int:
    """Return how many members all objects in a value have.

    Raises:
        ValueError: If more levels are nested in it than ``room``.
    """
    count = 0
    if type(value) is dict:
        count = len(value)
        value = value.values()
    for part in value:
        kind = type(part)
        if kind is not str and (kind is dict or kind is list):
            if not room:
                raise ValueError(room)
            count += _keys(part, room - 1)
    return count


_decode = msgspec.json.Decoder(resolved(list[Any]), float_hook=_float).decode
