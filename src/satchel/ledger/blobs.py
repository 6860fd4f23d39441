"""Believing a blob: what a store hands out is hashed before its end is taken for the end."""

from collections.abc import Iterable, Iterator

from blake3 import blake3

from satchel.errors import VerificationError
from satchel.seal.records import PREFIX


def verified(pieces: Iterable[bytes], digest: str) -> Iterator[bytes]:
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
            f"the blob {digest} is not what was put there",
            hint="The store was changed from outside. Put it there again from its source.",
        )
    if held:
        yield held
