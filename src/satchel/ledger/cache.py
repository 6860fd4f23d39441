"""What a log said of its records when this machine read it last, remembered outside the store.

To open a bank is to know what its log says of its records. Without this, all of these records are
read and verified each time, which is linear in how much was ever retired, held or imported.

What is remembered counts for the log that begins with the very head for which it was made, which
the tree proves. What the log says since is read from the store and verified, and that nothing of it
is hidden is seen by the counts of both heads. So an edit of an older record that speaks of others
has no effect here; ``satchel doctor`` believes nothing of this, reads them again, and finds it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from blake3 import blake3

from satchel.crypto.log import Head
from satchel.crypto.merkle import VerifiedTree
from satchel.crypto.sealed_records import PREFIX
from satchel.errors import SatchelError, VerificationError
from satchel.ledger.projection import FOLDED, Fold, SavedFold
from satchel.model.values import resolved
from satchel.runtime.atomic_files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import open_unshared

_SEAL = 32
_T = TypeVar("_T")


class CacheFile:
    """One file.

    Args:
        path: Where; None for remembering nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, type_: type[_T]) -> _T | None:
        """Return what was written last; None where it cannot be read."""
        if self._path is None:
            return None
        with suppress(OSError, SatchelError, msgspec.DecodeError):
            with (
                open_unshared(self._path, os.O_RDONLY) as handle,
                os.fdopen(os.dup(handle), "rb") as file,
            ):
                data = file.read()
            seal, body = data[:_SEAL], data[_SEAL:]
            if blake3(body).digest() == seal:
                return msgspec.msgpack.decode(body, type=resolved(type_))
        return None

    def write(self, value: object) -> None:
        """Remember a value instead of the one before."""
        if self._path is None:
            return
        body = msgspec.msgpack.encode(value)
        with suppress(OSError, SatchelError), atomic_write(self._path, mode=PRIVATE_FILE) as stream:
            stream.write(blake3(body).digest() + body)


_FORMAT = "satchel-fold/1"
_MANY = 256
"""Records that are worth remembering."""

_PART = 8
"""What is remembered is written again when it has grown by one in so many."""


class KnownFold(NamedTuple):
    """What is known of the beginning of a log."""

    fold: Fold
    size: int
    counts: dict[str, int]
    """Of its records, by type."""


class FoldCache:
    """What is remembered of one bank.

    Args:
        bank: Its id.
        path: The file, outside the store; None for remembering nothing.
    """

    def __init__(self, bank: str, path: Path | None) -> None:
        self._bank = bank
        self._file = CacheFile(path)

    def read(self, tree: VerifiedTree) -> KnownFold:
        """Return what is remembered, if the log under a head goes on from it."""
        kept = self._file.read(_Remembered)
        if kept is None or (kept.format, kept.bank) != (_FORMAT, self._bank):
            return KnownFold(Fold(), 0, {})
        try:
            is_start = kept.size <= tree.size and _root_at(tree, kept.size) == kept.root
        except VerificationError:
            is_start = False
        if not is_start:
            return KnownFold(Fold(), 0, {})
        return KnownFold(Fold.restored(kept.fold, kept.size), kept.size, kept.counts)

    def write(self, head: Head, fold: Fold, known: KnownFold) -> None:
        """Remember what a log says, where that is much more than is remembered.

        Args:
            head: The head under which it is so.
            fold: What it says.
            known: What is remembered.
        """
        before = _speaking(known.counts)
        if _speaking(head.counts) - before < max(_MANY, before // _PART):
            return
        self._file.write(
            _Remembered(
                format=_FORMAT,
                bank=self._bank,
                size=head.size,
                root=head.root,
                counts=head.counts,
                fold=fold.saved(head.size),
            )
        )


class _Remembered(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    bank: str
    size: int
    root: str
    counts: dict[str, int]
    fold: SavedFold


def _root_at(tree: VerifiedTree, size: int) -> str:
    return PREFIX + tree.root_at(size).hex()


def _speaking(counts: dict[str, int]) -> int:
    return sum(counts.get(name, 0) for name in FOLDED)
