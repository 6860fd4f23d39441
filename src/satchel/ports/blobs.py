"""Blobs: bytes of any size, kept beside the log under the hash of the whole.

A store cuts them into pieces and gives the pieces back. Whether they are still what the digest
says is judged in ``verified``, the same for every store: what a store hands out is hashed before
its end is taken for the end.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from blake3 import blake3

from satchel.crypto.sealed_records import PREFIX
from satchel.errors import VerificationError

PIECE_BYTES = 1 << 20
"""A store keeps and gives back no larger piece; every one but the last of a blob has this size."""


class BlobPieces:
    """A stream cut into pieces of one size, and hashed as it passes.

    Args:
        chunks: The bytes, cut in whatever way.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._hasher = blake3()
        self.size = 0
        """Bytes that have passed."""

    @property
    def digest(self) -> str:
        """``blake3:`` and the hash of what has passed."""
        return PREFIX + self._hasher.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        held = bytearray()
        for chunk in self._chunks:
            rest = memoryview(chunk)
            while len(held) + len(rest) >= PIECE_BYTES:
                room = PIECE_BYTES - len(held)
                yield self._passed(bytes(held + rest[:room]))
                held.clear()
                rest = rest[room:]
            held += rest
        if held:
            yield self._passed(bytes(held))

    def _passed(self, piece: bytes) -> bytes:
        self._hasher.update(piece)
        self.size += len(piece)
        return piece


class Blobs(Protocol):
    """The blobs of a store, for reading.

    Every method raises ``UnknownBankError`` for a bank that is not here.
    """

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        """Yield the digest and the size in bytes of each blob of a bank, by digest."""
        ...

    def has(self, bank: str, digest: str) -> bool:
        """Tell whether a blob is there."""
        ...

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        """Yield the pieces of a blob, as they are kept: nothing says yet that they are right.

        Raises:
            UnknownBlobError: If it is not there, before the first piece is asked for.
        """
        ...


class BlobsWriter(Blobs, Protocol):
    """The blobs of a store, for the one who may write; committed with the block around."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        """Keep bytes, and return ``blake3:`` and their hash; one that is there is replaced.

        Takes memory for a few pieces, however much comes. When it fails, also because ``chunks``
        does, nothing of it is left in the transaction.
        """
        ...

    def drop(self, bank: str, digest: str) -> None:
        """Remove a blob, where it is there."""
        ...


def verified_pieces(pieces: Iterable[bytes], digest: str) -> Iterator[bytes]:
    """Yield the pieces of a blob; the last one only when all of them have the digest.

    So whoever got to the end without an error has the right bytes, and whoever keeps what he gets
    in the meantime has to let go of it after one.

    Args:
        pieces: What a store gives.
        digest: ``blake3:`` and the hash of the whole.

    Raises:
        VerificationError: If a byte was changed, or a piece is missing, moved or added.
    """
    hasher, held = blake3(), b""
    for piece in filter(None, pieces):  # an empty one would let go of the last
        if held:
            yield held
        hasher.update(piece)
        held = piece
    if PREFIX + hasher.hexdigest() != digest:
        raise VerificationError(
            f"the blob {digest} does not match its digest",
            hint="The store was changed by another program. Store it again from its source.",
        )
    if held:
        yield held
