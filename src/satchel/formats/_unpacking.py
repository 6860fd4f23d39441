"""Reading what is inside a gzip file as it comes, never more than a bound times its size."""

import zlib
from typing import BinaryIO

from satchel.errors import LimitError, MalformedError
from satchel.seal.artifact.opening import GZIP_MAGIC
from satchel.seal.limits import Limits

CHUNK = 1 << 18
"""Bytes that are asked for at a time."""


class Unpacked:
    """The bytes of a file, decompressed where it is gzip; nothing is written anywhere.

    Args:
        stream: The file; read, never closed.
        limits: How far it may expand.
    """

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._taken = self._given = 0
        start = b""
        while len(start) < len(GZIP_MAGIC) and (more := self._more()):
            start += more
        self._waiting = start
        self._inflate = zlib.decompressobj(wbits=31) if start.startswith(GZIP_MAGIC) else None

    def read(self) -> bytes:
        """Return some bytes more; none at the end.

        Raises:
            MalformedError: If the file is cut, damaged, or goes on behind the compressed data.
            LimitError: If it expands too far.
        """
        if self._inflate is None:
            waiting, self._waiting = self._waiting, b""
            return waiting or self._more()
        while not self._inflate.eof:
            data = self._waiting or self._more()
            if not data:
                raise MalformedError("the compressed file is truncated", byte=self._taken)
            try:
                found = self._inflate.decompress(data, CHUNK)
            except zlib.error as error:
                raise MalformedError(f"not gzip: {error}", byte=self._taken) from None
            self._waiting = self._inflate.unconsumed_tail
            if found:
                return self._bounded(found)
        if self._inflate.unused_data or self._more():
            raise MalformedError("unexpected data after the compressed data", byte=self._taken)
        return b""

    def _bounded(self, found: bytes) -> bytes:
        self._given += len(found)
        bounds = self._limits
        if self._given > max(bounds.expansion_free_bytes, bounds.expansion * self._taken):
            raise LimitError(f"the file expands to more than {bounds.expansion} times its size")
        return found

    def _more(self) -> bytes:
        data = self._stream.read(CHUNK)
        self._taken += len(data)
        return data
