"""Packs: the pieces that a backup is made of, each named by the hash of what it holds.

What two backups have in common is one pack, written once. A pack is a few bytes that say how it is
packed and how much is in it, then that, compressed or not. It is believed by its name: whoever
reads one gets what was put there, or an error; never more than it says, and never more than a pack
may hold.
"""

import gzip
import re
import struct
import zlib
from collections.abc import Callable, Collection
from typing import Annotated

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.shelves import Shelf
from satchel.errors import VerificationError

MOST_BYTES = 64 << 20
"""What a pack may hold."""

PIECE_BYTES = 4 << 20
"""Where what is larger is cut."""

_HEADER = struct.Struct(">4scQ")
_MAGIC, _GZIP, _PLAIN = b"SBP1", b"g", b"p"
_MOST_STORED = MOST_BYTES + (MOST_BYTES >> 8) + 1024
_LEVEL = 6
_AS_GZIP = 31
_DIGEST = re.compile(r"[0-9a-f]{64}")

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class Ref(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A pack, as a backup names it."""

    digest: Digest
    """BLAKE3 of what is in it."""

    bytes: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    """How much is in it."""

    stored: Annotated[int, Meta(ge=0, le=_MOST_STORED)]
    """How much it takes."""


def place_of(series: str, digest: str) -> str:
    """Return the name of a pack on a shelf."""
    return f"packs/{series}/{digest[:2]}/{digest}"


def digest_in(place: str) -> str | None:
    """Return which pack is at a place on a shelf; None where it is no pack's."""
    name = place.rsplit("/", 1)[-1]
    return name if _DIGEST.fullmatch(name) else None


def packed(data: bytes, *, compress: bool) -> bytes:
    """Return a pack with some bytes; the same bytes give the same pack."""
    if not compress:
        return _HEADER.pack(_MAGIC, _PLAIN, len(data)) + data
    return _HEADER.pack(_MAGIC, _GZIP, len(data)) + gzip.compress(data, _LEVEL, mtime=0)


def unpacked(stored: bytes, digest: str) -> bytes:
    """Return what is in a pack.

    Raises:
        VerificationError: If it is not what its name says, however it came about.
    """
    try:
        magic, how, size = _HEADER.unpack_from(stored)
        body = memoryview(stored)[_HEADER.size :]
        is_whole = magic == _MAGIC and how in (_GZIP, _PLAIN) and size <= MOST_BYTES
        data = b""
        if is_whole and how == _PLAIN:
            data = bytes(body)
        elif is_whole:
            unpacking = zlib.decompressobj(_AS_GZIP)
            data = unpacking.decompress(body, size + 1)
            is_whole = unpacking.eof and not unpacking.unused_data
    except (struct.error, zlib.error):
        raise _damaged(digest) from None
    if not is_whole or len(data) != size or blake3(data).hexdigest() != digest:
        raise _damaged(digest)
    return data


class Packs:
    """The packs of one series on a shelf.

    Args:
        shelf: Where they are.
        series: Whose they are.
        compress: Whether new ones are compressed.
        known: Packs that are there for sure: not written again.
    """

    def __init__(
        self, shelf: Shelf, series: str, *, compress: bool = True, known: Collection[Ref] = ()
    ) -> None:
        self._shelf, self._series, self._compress = shelf, series, compress
        self._known = {ref.digest: ref for ref in known}
        self.written = 0
        """Packs that were written."""

        self.bytes_written = 0
        self.watch: Callable[[int], None] | None = None
        """Is told of the bytes of each pack that is read or written."""

    def put(self, data: bytes) -> Ref:
        """Keep bytes, unless they are there, and return what names them.

        Raises:
            TargetError: If they cannot be written.
        """
        digest = blake3(data).hexdigest()
        found = self._known.get(digest)
        if found is None:
            stored = packed(data, compress=self._compress)
            found = self._known[digest] = Ref(digest, len(data), len(stored))
            self._shelf.put(place_of(self._series, digest), stored)
            self.written += 1
            self.bytes_written += len(stored)
        self._tell(found)
        return found

    def get(self, ref: Ref) -> bytes:
        """Return what was kept.

        Raises:
            VerificationError: If it is gone, or is not what was kept.
            TargetError: If it cannot be read.
        """
        stored = self._shelf.get(place_of(self._series, ref.digest), _MOST_STORED)
        if stored is None:
            raise VerificationError(f"the pack {ref.digest[:16]} of the backup is gone")
        if len(stored) != ref.stored:
            raise _damaged(ref.digest)
        data = unpacked(stored, ref.digest)
        if len(data) != ref.bytes:
            raise _damaged(ref.digest)
        self._tell(ref)
        return data

    def require(self, ref: Ref) -> None:
        """Require that a pack is there in its size; it is not read.

        Raises:
            VerificationError: If it is not.
        """
        if self._shelf.size(place_of(self._series, ref.digest)) != ref.stored:
            raise VerificationError(f"the pack {ref.digest[:16]} of the backup is gone or cut")

    def _tell(self, ref: Ref) -> None:
        if self.watch is not None:
            self.watch(ref.bytes)


def _damaged(digest: str) -> VerificationError:
    return VerificationError(f"the pack {digest[:16]} of the backup is not what was kept in it")
