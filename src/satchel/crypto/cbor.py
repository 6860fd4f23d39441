"""Deterministic CBOR (RFC 8949, section 4.2.1) of values in the JSON domain, strictly read.

``cbor2`` accepts more (non-shortest lengths, unsorted keys, byte strings, tags), so a reader
decodes and then compares the bytes with the encoding of the value.
"""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn, cast

import cbor2

from satchel.crypto.canonical import ITEM_BYTES, MAX_DEPTH, check_value
from satchel.errors import LimitError, MalformedError, UnreadableError, ValueRefusedError

_ARRAY, _MAP = 4, 5
_DIRECT, _LONGEST, _INDEFINITE = 24, 27, 31
_BREAK = b"\xff"


class _EveryTag(dict[int, Any]):
    """A dictionary with a handler for every tag; each of them refuses."""

    def __contains__(self, tag: object) -> bool:
        return True

    def get(self, tag: int, default: object = None) -> Any:  # noqa: ARG002
        return _refuse_tag

    def __getitem__(self, tag: int) -> Any:
        return _refuse_tag


def _refuse_tag(*_: object) -> NoReturn:
    raise cbor2.CBORDecodeError("a tag")


def encode(value: Any) -> bytes:
    """Return the deterministic CBOR of a verified value (whose integral floats are integers)."""
    return cbor2.dumps(value, canonical=True)


def map_head(members: int) -> bytes:
    """Return the first bytes of a map."""
    return _head(_MAP, members)


def array_head(items: int) -> bytes:
    """Return the first bytes of an array."""
    return _head(_ARRAY, items)


def _head(major: int, argument: int) -> bytes:
    if argument < _DIRECT:
        return bytes([major << 5 | argument])
    for extra, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << 8 * size:
            return bytes([major << 5 | extra]) + argument.to_bytes(size, "big")
    raise ValueRefusedError("a length beyond 64 bits")


class CborReader:
    """Reads the values of one CBOR item in order, with bounded memory.

    Args:
        stream: A seekable binary file, positioned at the item.
        name: Name of the file in errors.
        again: A second handle on the same bytes, at the same position. With it the item must be
            deterministic: every byte is compared with the encoding of the values, and the values
            are verified. Without it any layout is read, and the caller verifies the types: byte
            strings and the like are returned as they are.
        item_bytes: Largest single value.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        again: BinaryIO | None = None,
        item_bytes: int = ITEM_BYTES,
    ) -> None:
        self._window = _Window(stream)
        self._again = again
        self._name = name
        self._item_bytes = item_bytes
        self._decoder = cbor2.CBORDecoder(
            cast("BinaryIO", self._window),
            tag_hook=_refuse_tag,
            semantic_decoders=_EveryTag(),
            max_depth=MAX_DEPTH,
            allow_indefinite=again is None,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )

    @property
    def byte(self) -> int:
        """The current offset."""
        return self._window.tell()

    def members(self) -> Iterator[str]:
        """Yield the keys of the map at the current position; read each value before the next key.

        No key may be repeated; in deterministic CBOR they must be in order.
        """
        last, seen = b"", set[str]()
        for _ in self._parts(_MAP, "a map"):
            key = self.value()
            if type(key) is not str:
                self._fail("a key that is not text")
            encoded = encode(key)
            if key in seen or (self._again is not None and encoded <= last):
                self._fail(f"the key {key[:40]!r} is repeated or out of order")
            last = encoded
            seen.add(key)
            yield key

    def elements(self) -> Iterator[int]:
        """Yield 0, 1, ... for the array that starts here; read each element before the next."""
        for index, _ in enumerate(self._parts(_ARRAY, "an array")):
            yield index

    def value(self) -> Any:
        """Read one complete value.

        Raises:
            MalformedError: With the offset of the value.
            LimitError: If the value is larger than ``item_bytes``.
        """
        start = self.byte
        self._window.end = start + self._item_bytes
        try:
            value = self._decoder.decode()
            if self._again is not None:
                value = check_value(value)
        except ValueRefusedError as error:
            self._fail(error.message, field=error.field, byte=start)
        except _WindowEndedError:
            raise LimitError(
                f"a single value is larger than {self._item_bytes} bytes",
                file=self._name,
                byte=start,
            ) from None
        except (cbor2.CBORError, RecursionError, UnicodeDecodeError) as error:
            self._fail(f"not strict CBOR: {error}", byte=start)
        except OSError as error:
            raise UnreadableError(f"reading failed: {error.strerror}", file=self._name) from None
        self._compare(lambda: encode(value), start)
        return value

    def end(self) -> None:
        """Require the end of the data."""
        if self._window.stream.read(1):
            self._fail("unexpected data after the end of the document")

    def _parts(self, major: int, kind: str) -> Iterator[None]:
        """Yield once for each part of a map or array; a claimed length reserves no memory."""
        start, stream = self.byte, self._window.stream
        first = stream.read(1)
        if not first or first[0] >> 5 != major:
            self._fail(f"expected {kind}", byte=start)
        low = first[0] & 31
        if low == _INDEFINITE and self._again is None:
            while (following := stream.read(1)) != _BREAK:
                stream.seek(-len(following), 1)
                yield
            return
        if low < _DIRECT:
            count = low
        elif low <= _LONGEST:
            count = int.from_bytes(stream.read(1 << low - _DIRECT), "big")
        else:
            self._fail("an indefinite length", byte=start)
        self._compare(lambda: _head(major, count), start)
        for _ in range(count):
            yield

    def _compare(self, expected: Callable[[], bytes], start: int) -> None:
        if self._again is None:
            return
        encoded = expected()
        if self._again.read(len(encoded)) != encoded:
            self._fail("not deterministic CBOR (RFC 8949 4.2.1)", byte=start)

    def _fail(self, message: str, *, field: str | None = None, byte: int | None = None) -> NoReturn:
        raise MalformedError(
            message, file=self._name, byte=self.byte if byte is None else byte, field=field
        )


class _WindowEndedError(Exception):
    """A value needs more bytes than it may have."""


class _Window:
    """A file as the decoder sees it: nothing beyond ``end`` can be read.

    An item of one byte costs fifty bytes or more as a Python value, so limiting the bytes of a
    value limits the memory.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.end = 0

    def read(self, size: int) -> bytes:
        left = self.end - self.stream.tell()
        if left <= 0:
            raise _WindowEndedError
        return self.stream.read(min(size, left))

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
