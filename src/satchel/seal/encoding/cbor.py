"""Deterministic CBOR (RFC 8949, section 4.2.1) of values in the JSON domain, strictly read.

``cbor2`` accepts more than we do (non-shortest lengths, unsorted keys, byte strings, tags), so a
reader decodes and then compares the bytes with what the value encodes to.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

import cbor2

from satchel.errors import MalformedError, UnreadableError, ValueRefusedError
from satchel.seal.encoding.domain import MAX_DEPTH, checked

_ARRAY, _MAP = 4, 5
_DIRECT = 24


class _EveryTag(dict[int, Any]):
    """Stands for a handler on every tag there is: all of them refuse."""

    def __contains__(self, tag: object) -> bool:
        return True

    def get(self, tag: int, default: object = None) -> Any:  # noqa: ARG002
        return _refuse_tag

    def __getitem__(self, tag: int) -> Any:
        return _refuse_tag


def _refuse_tag(*_: object) -> NoReturn:
    raise cbor2.CBORDecodeError("a tag")


def encode(value: Any) -> bytes:
    """Return the deterministic CBOR of a checked value (integral floats are integers there)."""
    return cbor2.dumps(value, canonical=True)


def map_head(members: int) -> bytes:
    """Return the bytes that open a map."""
    return _head(_MAP, members)


def array_head(items: int) -> bytes:
    """Return the bytes that open an array."""
    return _head(_ARRAY, items)


def _head(major: int, argument: int) -> bytes:
    if argument < _DIRECT:
        return bytes([major << 5 | argument])
    for extra, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << 8 * size:
            return bytes([major << 5 | extra]) + argument.to_bytes(size, "big")
    raise ValueRefusedError("a length beyond 64 bits")


class CborReader:
    """Pulls values out of one deterministic CBOR item, in order, with bounded memory.

    Every byte consumed is compared with what the values read so far encode to.

    Args:
        stream: A seekable binary file that stands at the item.
        again: A second handle on the same bytes, at the same position.
        name: What to call the file in errors.
    """

    def __init__(self, stream: BinaryIO, again: BinaryIO, name: str) -> None:
        self._stream = stream
        self._again = again
        self._name = name
        self._decoder = cbor2.CBORDecoder(
            stream,
            tag_hook=_refuse_tag,
            semantic_decoders=_EveryTag(),
            max_depth=MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
        )

    def members(self) -> Iterator[str]:
        """Yield the keys of the map that starts here, which must be in canonical order."""
        last = b""
        for _ in range(self._open(_MAP, "a map")):
            key = self.value()
            if not isinstance(key, str):
                self._fail("a key that is not text")
            encoded = encode(key)
            if encoded <= last:
                self._fail(f"the key {key[:40]!r} is repeated or out of order")
            last = encoded
            yield key

    def elements(self) -> Iterator[int]:
        """Yield 0, 1, ... for the array that starts here; read each element before the next."""
        yield from range(self._open(_ARRAY, "an array"))

    def value(self) -> Any:
        """Read one whole value.

        Raises:
            MalformedError: With the byte at which the value starts.
        """
        start = self._again.tell()
        try:
            value = checked(self._decoder.decode())
        except ValueRefusedError as error:
            self._fail(error.message, field=error.field, byte=start)
        except (cbor2.CBORError, RecursionError, UnicodeDecodeError) as error:
            self._fail(f"not strict CBOR: {error}", byte=start)
        except OSError as error:
            raise UnreadableError(f"reading failed: {error.strerror}", file=self._name) from None
        self._compare(encode(value), start)
        return value

    def end(self) -> None:
        """Require that nothing is left."""
        if self._again.read(1):
            self._fail("there is something after the end of the document")

    def _open(self, major: int, what: str) -> int:
        start = self._again.tell()
        first = self._stream.read(1)
        if not first or first[0] >> 5 != major:
            self._fail(f"expected {what}", byte=start)
        low = first[0] & 31
        if low < _DIRECT:
            count = low
        elif low <= 27:  # noqa: PLR2004 - 24 to 27: the length follows in 1, 2, 4, 8 bytes
            count = int.from_bytes(self._stream.read(1 << low - _DIRECT), "big")
        else:
            self._fail("an indefinite length", byte=start)
        self._compare(_head(major, count), start)
        return count

    def _compare(self, expected: bytes, start: int) -> None:
        if self._again.read(len(expected)) != expected:
            self._fail("not deterministic CBOR (RFC 8949 4.2.1)", byte=start)

    def _fail(self, message: str, *, field: str | None = None, byte: int | None = None) -> NoReturn:
        raise MalformedError(
            message,
            file=self._name,
            byte=self._again.tell() if byte is None else byte,
            field=field,
        )
