"""JSON of other programs as it is read: strictly, and decompressed where it is gzip."""

from typing import BinaryIO, cast

from satchel.errors import InputError
from satchel.formats._unpacking import Unpacked
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.seal.encoding.foreign_json import ForeignReader


def reader_of(stream: BinaryIO, place: Place, reading: Reading) -> ForeignReader:
    """Return what reads a file, compressed or not."""
    source = cast("BinaryIO", _Source(stream, place.name, reading))
    return ForeignReader(source, place.name, item_bytes=reading.limits.line_bytes)


class _Source:
    """A file, decompressed where it is gzip."""

    def __init__(self, stream: BinaryIO, name: str, reading: Reading) -> None:
        self._stream = stream
        self._name = name
        self._limits = reading.limits
        self._unpacked: Unpacked | None = None

    def read(self, size: int = -1) -> bytes:
        """Return some bytes more, however many; none at the end."""
        del size
        try:
            if self._unpacked is None:
                self._unpacked = Unpacked(self._stream, self._limits)
            return self._unpacked.read()
        except InputError as error:
            raise error.located(file=self._name) from None
