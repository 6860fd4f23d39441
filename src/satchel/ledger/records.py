"""What a view of a bank gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from satchel.crypto.sealed_records import Sealed
from satchel.errors import VerificationError
from satchel.model.records import Model
from satchel.ports.rows import Row

Likely = Callable[[bytes], bool]
"""Tells whether a record with these canonical bytes could be wanted."""


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
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
class LogImport:
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


class StatusEvent(NamedTuple):
    """What one status record says of a record."""

    place: int
    """From where on it counts."""

    seq: int
    """Where it stands; not the same where it came with an import."""

    state: str
    by: str | None
    """Id of the record that takes the place of the one it speaks of."""


class Promotion(NamedTuple):
    """What raises the trust in a record."""

    trust: str | None
    """The class that it names; None for none."""

    batch: int
    """Number of the import that it came with; 0 for none."""


class Precondition(NamedTuple):
    """What somebody saw, and builds on."""

    size: int
    """Records in the log then."""

    records: Sequence[tuple[str, int]]
    """Ids and places of the records whose standing counts."""

    sessions: Sequence[str] = ()
    """Sessions that nothing may have been added to."""


def misled(row: Row) -> VerificationError:
    """Return the error of a store whose columns are not those of a record."""
    return VerificationError(
        f"the index contradicts record {row.seq}",
        hint="The store was changed by another program. See: satchel doctor.",
    )
