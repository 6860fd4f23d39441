"""Packs: the pieces that a backup is made of, each named by a hash.

What two backups have in common is one pack, written once. A pack is a few bytes that say how it is
packed and how much is in it, then that, compressed or not. It is believed by its hash: whoever
reads one gets what was put there, or an error; never more than it says, and never more than a pack
may hold.

An encrypted pack is all of that as an age file. Its name is the hash of the encrypted bytes, which
are other ones each time: the name tells nothing of what is in it, and whoever can open nothing can
still tell whether it is what was written. What is in it is named by those alone who can open the
index.
"""

import re
import struct
from collections.abc import Callable, Collection
from typing import Annotated

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.pieces.locking import PLAIN, Locking
from satchel.backup.pieces.squeezing import Squeeze, squeezed, unsqueezed
from satchel.backup.shelves import Shelf
from satchel.errors import VerificationError

MOST_BYTES = 64 << 20
"""What a pack may hold."""

PIECE_BYTES = 4 << 20
"""Where what is larger is cut."""

_HEADER = struct.Struct(">4scQ")
_MAGIC = b"SBP1"
_MOST_STORED = MOST_BYTES + (MOST_BYTES >> 6) + 65_536
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

    locked: Digest | None = None
    """BLAKE3 of the encrypted bytes, where it is encrypted."""

    @property
    def name(self) -> str:
        """What it is called on a shelf: the hash of what anybody may know."""
        return self.locked or self.digest


def place_of(series: str, name: str) -> str:
    """Return the name of a pack on a shelf."""
    return f"packs/{series}/{name[:2]}/{name}"


def digest_in(place: str) -> str | None:
    """Return which pack is at a place on a shelf; None where it is no pack's."""
    name = place.rsplit("/", 1)[-1]
    return name if _DIGEST.fullmatch(name) else None


def packed(data: bytes, how: Squeeze) -> bytes:
    """Return a pack with some bytes; the same bytes give the same pack.

    Raises:
        MissingExtraError: If what compresses is not installed.
    """
    return _HEADER.pack(_MAGIC, how.letter, len(data)) + squeezed(data, how)


def unpacked(stored: bytes, digest: str) -> bytes:
    """Return what is in a pack.

    Raises:
        VerificationError: If it is not what its hash says, however it came about.
        MissingExtraError: If what it was compressed with is not installed.
    """
    try:
        magic, letter, size = _HEADER.unpack_from(stored)
    except struct.error:
        raise _damaged(digest) from None
    how = Squeeze.of(letter)
    if magic != _MAGIC or how is None or size > MOST_BYTES:
        raise _damaged(digest)
    data = unsqueezed(memoryview(stored)[_HEADER.size :], how, size)
    if data is None or blake3(data).hexdigest() != digest:
        raise _damaged(digest)
    return data


class Packs:
    """The packs of one series on a shelf.

    Args:
        shelf: Where they are.
        series: Whose they are.
        how: How new ones are compressed.
        known: Packs that are there for sure: not written again.
        locking: For whom new ones are encrypted, and what opens those that are.
    """

    def __init__(
        self,
        shelf: Shelf,
        series: str,
        *,
        how: Squeeze = Squeeze.GZIP,
        known: Collection[Ref] = (),
        locking: Locking = PLAIN,
    ) -> None:
        self._shelf, self._series, self._how, self._locking = shelf, series, how, locking
        self._known = {ref.digest: ref for ref in known}
        self.written = 0
        """Packs that were written."""

        self.bytes_written = 0
        self.watch: Callable[[int], None] | None = None
        """Is told of the bytes of each pack that is read or written."""

    def put(self, data: bytes, *, is_index: bool = False) -> Ref:
        """Keep bytes, unless they are there, and return what names them.

        Args:
            data: The bytes.
            is_index: Whether they say where things are, not what these are: that opens for the
                machine that goes on with it as well.

        Raises:
            TargetError: If they cannot be written.
        """
        digest = blake3(data).hexdigest()
        found = self._known.get(digest)
        if found is None:
            stored, locked = packed(data, self._how), None
            if self._locking.locks:
                stored = self._locking.closed(stored, is_index=is_index)
                locked = blake3(stored).hexdigest()
            found = self._known[digest] = Ref(digest, len(data), len(stored), locked)
            self._shelf.put(place_of(self._series, found.name), stored)
            self.written += 1
            self.bytes_written += len(stored)
        self._tell(found)
        return found

    def get(self, ref: Ref) -> bytes:
        """Return what was kept.

        Raises:
            VerificationError: If it is gone, or is not what was kept.
            EncryptionError: If it is what was written, and nothing here opens it.
            TargetError: If it cannot be read.
        """
        stored = self.stored(ref.name, ref.stored, is_hash=ref.locked is not None)
        if ref.locked is not None:
            stored = self._locking.opened(stored)
        data = unpacked(stored, ref.digest)
        if len(data) != ref.bytes:
            raise _damaged(ref.digest)
        self._tell(ref)
        return data

    def stored(self, name: str, size: int, *, is_hash: bool = True) -> bytes:
        """Return a pack as it is kept.

        Args:
            name: What it is called.
            size: How many bytes it takes.
            is_hash: Whether its name is the hash of these bytes, which are held to it.

        Raises:
            VerificationError: If it is gone, or is not what was written.
        """
        stored = self._shelf.get(place_of(self._series, name), _MOST_STORED)
        if stored is None:
            raise VerificationError(f"the pack {name[:16]} of the backup is missing")
        if len(stored) != size or (is_hash and blake3(stored).hexdigest() != name):
            raise _damaged(name)
        return stored

    def require(self, ref: Ref) -> None:
        """Require that a pack is there in its size; it is not read.

        Raises:
            VerificationError: If it is not.
        """
        if self._shelf.size(place_of(self._series, ref.name)) != ref.stored:
            raise VerificationError(
                f"the pack {ref.name[:16]} of the backup is missing or truncated"
            )

    def _tell(self, ref: Ref) -> None:
        if self.watch is not None:
            self.watch(ref.bytes)


def _damaged(digest: str) -> VerificationError:
    return VerificationError(f"the pack {digest[:16]} of the backup does not match its digest")
