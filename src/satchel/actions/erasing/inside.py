"""What is inside files that are packed or encrypted: texts are in them, and none of their bytes.

What is unpacked or decrypted for a look is in nameless temporary files, gone with the process.
"""

import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from satchel.disk.spool import CHUNK
from satchel.errors import LimitError, MalformedError, SatchelError
from satchel.ports.store import Extent
from satchel.seal.encryption.age import HEAD_BYTES, decrypt, is_encrypted
from satchel.seal.encryption.unlocking import Unlocking
from satchel.seal.limits import DEFAULT_LIMITS, Limits

_GZIP, _ZIP, _ZSTANDARD = b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"
_MOST_DEEP = 3
_MOST_MEMBERS = 10_000


class Inside:
    """Looks into files for others.

    Args:
        unlocking: What to decrypt with; nobody is asked for a passphrase.
        limits: How far something may expand.
    """

    def __init__(self, unlocking: Unlocking, limits: Limits = DEFAULT_LIMITS) -> None:
        self._unlocking, self._limits = unlocking, limits
        self.closed = list[str]()
        """In words, what could not be looked into."""

    def within(self, extent: Extent, deep: int = 0) -> Iterator[Extent]:
        """Yield what is inside an extent, and inside that; each is gone when the next is asked for.

        What cannot be looked into is noted, with the reason.
        """
        try:
            head = next(iter(extent.pieces()), b"")[:HEAD_BYTES]
            kind = _kind(head)
            if kind is None:
                return
            if deep == _MOST_DEEP:
                self.closed.append(f"contents of {extent.name}: nested in too many archives")
            elif kind == "zip":
                yield from self._members(extent, deep)
            else:
                with _temporary() as plain:
                    self._unpack(kind, extent, plain)
                    inner = Extent(f"{extent.name} ({kind})", lambda: _pieces(plain))
                    yield inner
                    yield from self.within(inner, deep + 1)
        except (SatchelError, OSError, zipfile.BadZipFile, zlib.error) as error:
            why = error.message if isinstance(error, SatchelError) else str(error)
            self.closed.append(f"contents of {extent.name}: {why}")

    def _unpack(self, kind: str, extent: Extent, plain: BinaryIO) -> None:
        if kind == "gzip":
            self._gunzip(extent, plain)
        elif kind == "age":
            with _temporary() as kept:
                _copy(extent, kept)
                decrypt(kept, plain, self._unlocking)
        else:
            raise MalformedError("this kind of file cannot be unpacked")
        plain.flush()

    def _gunzip(self, extent: Extent, plain: BinaryIO) -> None:
        inflate, taken, size = zlib.decompressobj(wbits=31), 0, 0
        for piece in extent.pieces():
            taken += len(piece)
            data = piece
            while data:
                found = inflate.decompress(data, CHUNK)
                plain.write(found)
                size += len(found)
                self._require_fits(size, taken)
                data = inflate.unconsumed_tail
                if inflate.eof:  # another member may follow, and zeros that pad
                    data = inflate.unused_data.lstrip(b"\0")
                    inflate = zlib.decompressobj(wbits=31)

    def _members(self, extent: Extent, deep: int) -> Iterator[Extent]:
        with _temporary() as kept:
            taken = _copy(extent, kept)
            with zipfile.ZipFile(kept) as archive:
                names = archive.infolist()
                if len(names) > _MOST_MEMBERS:
                    raise LimitError(f"it has more than {_MOST_MEMBERS} members")
                size = 0
                for place, one in enumerate(names):
                    if one.is_dir():
                        continue
                    with _temporary() as plain, archive.open(one) as stream:
                        while piece := stream.read(CHUNK):
                            plain.write(piece)
                            size += len(piece)
                            self._require_fits(size, taken)
                        # Not by its name, which may be what was erased.
                        name = f"{extent.name} (member {place})"
                        inner = Extent(name, lambda plain=plain: _pieces(plain))  # type: ignore[misc]
                        yield inner
                        yield from self.within(inner, deep + 1)

    def _require_fits(self, size: int, taken: int) -> None:
        most = max(self._limits.expansion_free_bytes, self._limits.expansion * taken)
        if size > most:
            raise LimitError(f"it expands to more than {self._limits.expansion} times its size")


def _kind(head: bytes) -> str | None:
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZIP):
        return "zip"
    if head.startswith(_ZSTANDARD):
        return "zstd"
    return "age" if is_encrypted(head) else None


def _copy(extent: Extent, sink: BinaryIO) -> int:
    size = sum(sink.write(piece) for piece in extent.pieces())
    sink.seek(0)
    return size


def _pieces(plain: BinaryIO) -> Iterator[bytes]:
    plain.seek(0)
    while piece := plain.read(CHUNK):
        yield piece


@contextmanager
def _temporary() -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as plain:
        yield cast("BinaryIO", plain)
