"""Strict streaming of JSON documents, and the spelling of a source's numbers.

Duplicate keys, NaN and similar are refused. A document is read value by value, so a file of a
million records takes the memory of one. The C scanner of the standard library parses; its hooks
refuse. Canonical bytes cannot represent ``1.0`` and ``-0.0``, so these are recorded by JSON pointer
beside the value, and a writer of the same format restores them. Source:
docs/decisions/0003-exact-round-trips-by-difference.md.
"""

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NoReturn

import msgspec

from satchel.crypto.canonical import (
    ITEM_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    SMALLEST,
    carried_float,
    carried_int,
    escape_keys,
    represents,
)
from satchel.errors import LimitError, MalformedError, UnreadableError
from satchel.model.values import resolved

_CHUNK = 1 << 18
_SPACE = re.compile(r"[ \t\n\r]*")
_SAFE_DIGITS = 15
_MAX_DIGITS = 4300
_STEPS_SHOWN = 8
_DOLLARS = ('"$', '"\\u0024')
SURROGATE = re.compile("[\ud800-\udfff]")
_NEAR_END = 32
_SPLIT = 2  # the scanner reads the 1 of "1." and "1e-" as an integer
_BOM = "\ufeff"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise MalformedError("an object has the same key twice", field=_shown(twice))
    return members


def _escaping_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return _object(escape_keys(pairs))


def _shown(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:80]


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which are not JSON."""
    raise MalformedError(f"{name} is not JSON")


def _strict_int(token: str) -> int:
    if len(token) > _SAFE_DIGITS and (len(token) > _MAX_DIGITS or abs(int(token)) > MAX_INTEGER):
        raise MalformedError("an integer is beyond 2^53-1 in magnitude")
    return int(token)


def _strict_float(token: str) -> float | int:
    value = float(token)
    if not math.isfinite(value):
        raise MalformedError("a number is beyond the range of a double")
    if not value.is_integer():
        return value
    if abs(value) > MAX_INTEGER:
        raise MalformedError("an integral number is beyond 2^53-1 in magnitude")
    return int(value)


def _carried_int(token: str) -> int | dict[str, str]:
    if len(token) > _MAX_DIGITS:
        raise MalformedError(f"an integer has more than {_MAX_DIGITS} digits")
    value = int(token)
    return value if abs(value) <= MAX_INTEGER else carried_int(token)


def _carried_float(token: str) -> float | dict[str, str]:
    # An integral one stays a float, so that a format can write it as it was.
    value = float(token)
    return value if represents(token, value) else carried_float(token)


def _scanner(*, carrying: bool, escaping: bool = False) -> Callable[[str, int], tuple[Any, int]]:
    """Return the C scanner: (text, start) to (value, end); it raises StopIteration at the end."""
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_escaping_object if escaping else _object,
        parse_int=_carried_int if carrying else _strict_int,
        parse_float=_carried_float if carrying else _strict_float,
        parse_constant=carried_float if carrying else refuse_constant,
    )
    return decoder.scan_once  # type: ignore[no-any-return]  # typeshed leaves it out


_STRICT = _scanner(carrying=False)
_CARRYING = _scanner(carrying=True)
# Only for the rare value with a key that starts with "$".
_ESCAPING = _scanner(carrying=True, escaping=True)


def finite_number(token: str) -> float:
    """Return a number, and refuse one that a double cannot hold."""
    value = float(token)
    if not math.isfinite(value):
        raise MalformedError("a number is beyond the range of a double")
    return value


_PLAIN = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=finite_number, parse_constant=refuse_constant
)


def plain_value(data: bytes) -> Any:
    """Return the value of a JSON document from a network, as the standard library returns it.

    Raises:
        MalformedError: If it is not JSON, an object has a duplicate member, or a number is not
            finite.
    """
    try:
        return _PLAIN.decode(data.decode())
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", byte=error.start) from None
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg}", byte=error.pos) from None
    except RecursionError:
        raise MalformedError("it is nested too deeply") from None
    except ValueError:  # an integer of more digits than Python reads
        raise MalformedError("a number has too many digits") from None


class JsonReader:
    """Reads the values of a JSON document in order, with bounded memory.

    Args:
        stream: Bytes of the document; read, never closed.
        name: Its name in errors.
        carrying: True for foreign files: numbers outside the value domain get their reversible form
            instead of an error, and a byte order mark is skipped.
        item_bytes: Largest single value, in characters.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        carrying: bool = False,
        item_bytes: int = ITEM_BYTES,
    ) -> None:
        self._stream = stream
        self._name = name
        self._carrying = carrying
        self._scan_once = _CARRYING if carrying else _STRICT
        self._item_bytes = item_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("strict")
        self._read_bytes = 0
        self._text = ""
        self._at = 0
        self._counted = (0, 1)
        self._ended = False
        if self._peek() == _BOM:
            if not carrying:
                self._fail("the file starts with a byte order mark")
            self._at += 1

    @property
    def line(self) -> int:
        """The current line, from 1."""
        # Called for every record: only the text since the last call is searched.
        counted, lines = self._counted
        lines += self._text.count("\n", counted, self._at)
        self._counted = (self._at, lines)
        return lines

    def peek(self) -> str:
        """Return the first character of the next token, or "" at the end."""
        self._skip_space()
        return self._text[self._at : self._at + 1]

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that starts here; read each value before the next key."""
        seen: set[str] = set()
        self._take("{", "an object")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                self._fail("expected a key")
            key = self._scan()
            if key in seen:
                self._fail("an object has the same key twice", field=_shown(key))
            seen.add(key)
            self._take(":", "a colon after the key")
            yield key
            if self._next("}"):
                return

    def elements(self) -> Iterator[int]:
        """Yield 0, 1, ... for the array that starts here; read each element before the next."""
        self._take("[", "an array")
        if self.peek() == "]":
            self._at += 1
            return
        index = 0
        while True:
            yield index
            index += 1
            if self._next("]"):
                return

    def value(self) -> Any:
        """Read one complete value.

        Raises:
            MalformedError: With the line of the error.
            LimitError: If the value is larger than ``item_bytes``.
        """
        if self.peek() == "":
            self._fail("the file ends where a value should be")
        return self._scan()

    def end(self) -> None:
        """Require that only white space is left."""
        if self.peek() != "":
            self._fail("unexpected data after the end of the document")

    # -- reading ---------------------------------------------------------------------------

    def _next(self, closing: str) -> bool:
        """Skip a comma (return False) or the closing bracket (return True)."""
        char = self.peek()
        if char not in (",", closing) or char == "":
            self._fail(f"expected a comma or {closing!r}")
        self._at += 1
        return char == closing

    def _take(self, char: str, expected: str) -> None:
        if self.peek() != char:
            self._fail(f"expected {expected}")
        self._at += 1

    def _peek(self) -> str:
        if not self._text and not self._ended:
            self._fill(_CHUNK)
        return self._text[:1]

    def _skip_space(self) -> None:
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or self._ended:
                return
            self._fill(_CHUNK)

    def _scan(self) -> Any:
        want, edge = _CHUNK, not self._ended
        while True:
            try:
                value, end = self._scan_once(self._text, self._at)
            except StopIteration as error:
                self._more_or_fail(want, error.value, "not JSON")
            except json.JSONDecodeError as error:
                self._more_or_fail(want, error.pos, f"not JSON: {error.msg}", error.msg)
            except RecursionError:
                self._fail(f"nesting is deeper than {MAX_DEPTH} levels")
            except MalformedError as error:
                if not edge:
                    error.located(file=self._name, line=self.line)
                    raise
                # A number at the end of the buffer may be the start of a longer valid one.
                edge = False
                self._fill(want)
            else:
                if end + _SPLIT < len(self._text) or self._ended:
                    return self._taken(value, end)
                self._more_or_fail(want, end, "")
            want *= 2

    def _taken(self, value: Any, end: int) -> Any:
        start, self._at = self._at, end
        # Besides the scanner's own limit on recursion: the following code recurses as well.
        if _brackets(self._text, start, end) > MAX_DEPTH and (path := _too_deep(value, MAX_DEPTH)):
            where = "/".join(path[-1 : -1 - _STEPS_SHOWN : -1])
            self._fail(f"nesting is deeper than {MAX_DEPTH} levels", field=where)
        is_escaped = self._carrying and self._has_dollar_key(start, end)
        if self._text.find("\\u", start, end) >= 0 and _lone_surrogate(value):
            value = self._mended(_ESCAPING(self._text, start)[0] if is_escaped else value)
        elif is_escaped:
            value, _ = _ESCAPING(self._text, start)
        return value

    def _mended(self, value: Any) -> Any:
        """Return the replacement of a value with lone surrogates; here they are an error."""
        del value
        self._fail("text with a lone surrogate is not Unicode text")

    def _has_dollar_key(self, start: int, end: int) -> bool:
        """Return whether a text, which may or may not be a key, starts with a dollar sign."""
        return any(self._text.find(sign, start, end) >= 0 for sign in _DOLLARS)

    def _more_or_fail(self, want: int, position: int, problem: str, kind: str = "") -> None:
        available = len(self._text) - self._at
        at_edge = position >= len(self._text) - _NEAR_END or kind.startswith("Unterminated")
        if self._ended or not at_edge:
            self._at = min(position, len(self._text))
            self._fail(problem or "not JSON")
        if available > self._item_bytes:
            raise LimitError(
                f"a single value is larger than {self._item_bytes} characters",
                file=self._name,
                line=self.line,
            )
        self._fill(want)

    def _fill(self, want: int) -> None:
        """Discard the consumed text and read at least one more byte, or note the end."""
        self._counted = (0, self.line)
        self._text = self._text[self._at :]
        self._at = 0
        try:
            data = self._stream.read(want)
        except OSError as error:
            raise UnreadableError(f"reading failed: {error.strerror}", file=self._name) from None
        undecoded = len(self._decode.getstate()[0])
        try:
            self._text += self._decode.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise MalformedError(
                "the text is not UTF-8",
                file=self._name,
                byte=self._read_bytes - undecoded + error.start,
            ) from None
        self._read_bytes += len(data)
        self._ended = not data

    def _fail(self, message: str, *, field: str | None = None) -> NoReturn:
        raise MalformedError(message, file=self._name, line=self.line, field=field)


def _brackets(text: str, start: int, end: int) -> int:
    return text.count("[", start, end) + text.count("{", start, end)


def _too_deep(value: Any, levels: int) -> list[str] | None:
    """Return the path, last step first, to an array or object at depth ``levels``."""
    if isinstance(value, dict):
        parts: Any = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        return None
    if levels == 0:
        return []
    for step, part in parts:
        if isinstance(part, dict | list) and (path := _too_deep(part, levels - 1)) is not None:
            path.append(_shown(str(step)))
            return path
    return None


def _lone_surrogate(value: Any) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if SURROGATE.search(part):
                return True
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part
    return False


_MOST, _LEAST = 1 << 17, 1 << 12
_FEW = 8
_SPACES = " \t\r\n"
_WHITE = _SPACES.encode()
_FOREIGN_DOLLARS = (b'"$', b'"\\u0024')
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN = b"0" * 16
# A number of sixteen digits, after digits are made equal, signs removed, and all characters that
# can precede a number made a colon.
_FLAT = bytes.maketrans(b"123456789[, \t\r\n", b"000000000::::::")
_LONG = b":" + _SIXTEEN


class ForeignReader(JsonReader):
    """Reads a document of another product.

    Numbers outside the value domain get their reversible form, and a byte order mark is skipped.

    Args:
        stream: Bytes of the document; read, never closed.
        name: Its name in errors.
        item_bytes: Largest single value, in characters.
        mending: Called for each value with lone surrogates, which then become U+FFFD; without it
            they are an error.
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
        """The line, from 1, at which the last value of ``values`` starts."""
        at = 0
        for _ in range(self._index):
            _, at = self._scan_once(self._several, at)
            while self._several[at] in _SPACES + ",":
                at += 1
        return self._first_line + self._several.count("\n", 0, at)

    def values(self) -> Iterator[Any]:
        """Yield the elements of the array at the current position.

        Raises:
            MalformedError: With the line of the error.
            LimitError: If an element is larger than ``item_bytes``.
        """
        # The text between two objects; a program writes it the same way throughout.
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
        """Yield the values after the current one, as in a file with one on each line.

        Raises:
            MalformedError: With the line of the error.
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
        values = ordinary_values(self._text[start:end]) if end else None
        if values is None:
            self._window, self._singly = max(_LEAST, self._window // 4), _FEW
            return
        self._window = min(_MOST, self._window * 2)
        self._several, self._at = self._text[start:end], end
        for self._index, value in enumerate(values):
            yield value


def ordinary_values(text: str) -> list[Any] | None:
    """Return the values of an array from the text between its brackets.

    None if they may differ from the strict reader's: for malformed text, a duplicate key, a number
    that no double represents, a lone surrogate, nesting beyond the limit, a key that starts with
    ``$``.
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
    # Without white space a colon follows each key, and a duplicate key is counted once.
    return values if flat.count(b'":') == keys else None


def _has_dollar_key(data: bytes) -> bool:
    """Return whether there may be one."""
    # Searching for a single byte takes a tenth of the time.
    return (b"$" in data or b"\\" in data) and any(sign in data for sign in _FOREIGN_DOLLARS)


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
    if not represents(token, value):
        raise ValueError(token)
    return value


def _keys(value: Any, room: int) -> int:
    """Return the number of members of all objects in a value.

    Raises:
        ValueError: If it has more than ``room`` levels.
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


NUMBERS = "$numbers"
"""The member that records which integral numbers were written as floats, by JSON pointer.

RFC 8785 writes ``1.0`` as ``1``, so the record cannot represent it. No source has a member of this
name: in the reversible form a key that starts with ``$`` has one more.
"""

_ALL = "float[]"
_INTEGRAL = re.compile(r"-?[0-9]+\.0")


def float_spellings(row: dict[str, Any]) -> dict[str, Any]:
    """Return the member that records which numbers a source wrote as ``1.0``."""
    numbers = dict[str, str]()
    if not has_odd_numbers(row.values()):  # most rows; only others need pointers
        return {}
    for name, part in row.items():
        if type(part) is float or type(part) is dict or type(part) is list:
            _note_numbers(part, _step(name), numbers)
    return {NUMBERS: numbers} if numbers else {}


def with_numbers(row: dict[str, Any], numbers: Any) -> dict[str, Any]:
    """Write numbers as a source wrote them, if they have the same value.

    Args:
        row: The row to write; it is changed, except for parts that it shares with a record.
        numbers: The value of ``NUMBERS``; None if there is none.
    """
    if type(numbers) is dict:
        for pointer, text in numbers.items():
            _write_number(row, pointer, text)
    return row


def has_odd_numbers(parts: Iterable[Any]) -> bool:
    """Return whether canonical bytes and an encoder write a float in JSON values differently.

    That is an integral one, or one with an exponent.
    """
    for part in parts:
        kind = type(part)
        if kind is str:
            continue
        if kind is float:
            if part.is_integer() or not SMALLEST <= abs(part) <= MAX_INTEGER:
                return True
        elif kind is dict:
            if has_odd_numbers(part.values()):
                return True
        elif kind is list and has_odd_numbers(part):
            return True
    return False


def _note_numbers(value: Any, pointer: str, numbers: dict[str, str]) -> None:
    """Record the integral floats in a value, which canonical bytes write as integers."""
    if type(value) is float:
        if value.is_integer():
            numbers[pointer] = repr(value)
    elif type(value) is dict:
        for name, part in value.items():
            _note_numbers(part, pointer + _step(name), numbers)
    elif type(value) is list:
        if _is_vector(value):
            numbers[pointer] = _ALL
            return
        for index, part in enumerate(value):
            if type(part) is float or type(part) is dict or type(part) is list:
                _note_numbers(part, f"{pointer}/{index}", numbers)


def _write_number(row: dict[str, Any], pointer: str, text: Any) -> None:
    """Restore a number if it has the same value; only the row is changed."""
    steps = [item.replace("~1", "/").replace("~0", "~") for item in pointer.split("/")[1:]]
    if type(text) is not str or not steps or not (text == _ALL or _INTEGRAL.fullmatch(text)):
        return
    holder: Any = row
    try:
        for step in steps[:-1]:
            key = int(step) if type(holder) is list else step
            part = holder[key]
            # Parts that are shared with the record stay unchanged.
            holder[key] = part = part.copy() if type(part) in (dict, list) else part
            holder = part
        key = int(steps[-1]) if type(holder) is list else steps[-1]
        existing = holder[key]
        if text == _ALL and type(existing) is list:
            holder[key] = [float(item) if type(item) is int else item for item in existing]
        elif type(existing) in (int, float) and existing == float(text):
            holder[key] = float(text)
    except (KeyError, IndexError, TypeError, ValueError):
        return


def _is_vector(value: list[Any]) -> bool:
    """Return whether a list has only floats, none of them -0.0 and one integral."""
    if not all(type(one) is float for one in value):
        return False
    return any(one.is_integer() for one in value) and not any(
        one == 0 and math.copysign(1, one) < 0 for one in value
    )


def _step(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
