"""Beside a log that was carried: its vectors, and the proof that all of it is there."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from satchel.errors import VerificationError
from satchel.ports.store import Reader, Store
from satchel.transfer.copies import Copy, tail

Progress = Callable[[int, int], None]
"""Called now and then with the records done and the records there are."""


@dataclass(slots=True)
class Along:
    """What was found when a copy was read again."""

    records: dict[str, int] = field(default_factory=dict)
    """How many of each type, counted one by one."""

    vectors: int = 0


def read_again(source: Copy, target: Copy, progress: Progress | None = None) -> Along:
    """Read a copy from its first record to its last, each proved, and compare it with another.

    Raises:
        VerificationError: If it is not the same log, or a record of it is missing or not what was
            logged.
    """
    if target.found.stored != source.found.stored:
        raise VerificationError("the heads of the two copies differ")
    counts = Counter[str]()
    for some in tail(target, 0):
        counts.update(row.type for row, _ in some)
        if progress is not None:
            progress(counts.total(), target.size)
    if counts != source.found.head.counts:
        raise VerificationError("the record counts of the copy differ from the signed ones")
    return Along(records=dict(sorted(counts.items())))


def carry_vectors(source: Reader, store: Store, bank: str, ids: list[str]) -> int:
    """Carry the vectors of records, with their generations; they are beside the log.

    Args:
        source: Where they are.
        store: Where they go; those that are there are set again.
        bank: The bank, which is in both.
        ids: Of the records, some at a time.
    """
    number = 0
    for generation in source.vectors.generations(bank):
        found = source.vectors.get(bank, generation, ids)
        if found:
            with store.writing() as writing:
                writing.vectors.put(bank, generation, found)
            number += len(found)
    return number


def vectors_lacking(source: Reader, target: Reader, bank: str) -> bool:
    """Tell whether one copy has vectors that the other lacks."""
    there = target.vectors.generations(bank)
    own = source.vectors.generations(bank)
    return any(there.get(generation, 0) < number for generation, number in own.items())
