"""What is kept of a bank beside its log, for a copy of it: vectors, blobs, unlogged values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from satchel.errors import VerificationError
from satchel.ledger.erasure.targets import BLOB, UNFINISHED, blobs_named
from satchel.ports.blobs import verified
from satchel.ports.rows import Filter
from satchel.ports.store import Reader, Store
from satchel.ports.vectors import Generation

_ALL = Filter(retired=True, held=True)
_TOGETHER = 256
_NUMBERS_IN_COMMIT = 1 << 20
"""Numbers of vectors that are committed together: 8 MiB at most."""


@dataclass(slots=True)
class Beside:
    """What there is beside a log, and how much of it came now."""

    vectors: int = 0
    vectors_now: int = 0
    vectors_other: int = 0
    """Vectors that the other store has of the same generations, with other numbers."""

    blobs: int = 0
    blobs_now: int = 0


def side_of(reader: Reader, bank: str) -> dict[str, bytes]:
    """Return the unlogged values of a bank that go with it wherever it goes.

    What speaks of the place does not: which erased bytes a store's files may still hold.
    """
    found = reader.side(bank)
    return {name: value for name, value in found.items() if not name.startswith(UNFINISHED)}


def bring_beside(source: Reader, bank: str, store: Store, found: Beside) -> None:
    """Bring the vectors and blobs that a copy of a bank lacks; may be done again at will.

    What is there stays, whatever it is.

    Args:
        source: A view of where they are.
        bank: The bank, whose rows are there.
        store: Where they go.
        found: Is told.

    Raises:
        VerificationError: If a blob is not what was put there.
    """
    for generation in source.vectors.generations(bank):
        _bring_vectors(source, bank, store, generation, found)
    for digest, _ in blobs_of(source, bank):
        found.blobs += 1
        with store.reading() as reader:
            there = reader.blobs.has(bank, digest)
        if not there:
            found.blobs_now += 1
            with store.writing() as writing:
                writing.blobs.put(bank, verified(source.blobs.get(bank, digest), digest))


def require_beside(source: Reader, bank: str, reader: Reader) -> None:
    """Read what is beside a log again where it went, and compare it.

    Raises:
        VerificationError: If a vector is missing or another, or a blob is not what it was.
    """
    for generation in source.vectors.generations(bank):
        for ids in _ids(source, bank):
            wanted = source.vectors.get(bank, generation, ids)
            if reader.vectors.get(bank, generation, ids) != wanted:
                raise VerificationError("vectors are missing or differ in the copy")
    for digest, _ in blobs_of(source, bank):
        if not reader.blobs.has(bank, digest):
            raise VerificationError(f"the blob {digest} is missing in the copy")
        for _ in verified(reader.blobs.get(bank, digest), digest):
            pass


def _bring_vectors(
    source: Reader, bank: str, store: Store, generation: Generation, found: Beside
) -> None:
    held = dict[str, tuple[float, ...]]()
    for ids in _ids(source, bank):
        own = source.vectors.get(bank, generation, ids)
        if not own:
            continue
        with store.reading() as reader:
            there = reader.vectors.get(bank, generation, list(own))
        found.vectors += len(own)
        found.vectors_other += sum(own[identity] != vector for identity, vector in there.items())
        held |= {identity: vector for identity, vector in own.items() if identity not in there}
        if len(held) * generation.dimensions > _NUMBERS_IN_COMMIT:
            _put(store, bank, generation, held, found)
    _put(store, bank, generation, held, found)


def _put(
    store: Store,
    bank: str,
    generation: Generation,
    held: dict[str, tuple[float, ...]],
    found: Beside,
) -> None:
    if held:
        with store.writing() as writing:
            writing.vectors.put(bank, generation, held)
        found.vectors_now += len(held)
        held.clear()


def _ids(reader: Reader, bank: str) -> Iterator[Sequence[str]]:
    """Yield the ids of a bank's records in the order of its log, some at a time."""
    held = list[str]()
    for row in reader.scan(bank, _ALL):
        held.append(row.id)
        if len(held) == _TOGETHER:
            yield held
            held = []
    if held:
        yield held


def blobs_of(reader: Reader, bank: str) -> list[tuple[str, int]]:
    """Return the digests and sizes of a bank's blobs, without what an erasure has still to drop."""
    erased = {name.removeprefix(BLOB) for name in reader.side(bank, BLOB)}
    for row in reader.scan(bank, _ALL) if erased else ():
        erased -= blobs_named(row.body or b"")
    return [one for one in reader.blobs.listed(bank) if one[0] not in erased]
