"""What a view of a bank gives."""

from collections.abc import Callable
from dataclasses import dataclass

from satchel.errors import VerificationError
from satchel.memory.records import Model
from satchel.ports.rows import Row
from satchel.seal.records import Sealed

Likely = Callable[[bytes], bool]
"""Tells whether a record with these canonical bytes could be wanted."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A record, proved to stand at its place in the log of its bank."""

    record: Sealed
    model: Model
    """Its typed value."""

    row: Row
    """Its columns, derived again from the bytes and the log; as they were at the moment asked."""

    @property
    def seq(self) -> int:
        """Its place in the log."""
        return self.row.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import into a bank."""

    source: str
    """Id of its source record."""

    place: int
    """Place of that in the log."""

    records: int
    """How many records came with it so far, statuses included."""

    complete: bool
    """Whether its records were made visible."""

    undone: bool
    """Whether it was taken back."""


def misled(row: Row) -> VerificationError:
    """Return the error of a store whose columns are not those of a record."""
    return VerificationError(
        f"the index says something else of record {row.seq} than the record does",
        hint="The store was changed from outside. See: satchel doctor.",
    )
