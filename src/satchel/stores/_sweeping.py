"""A log in memory as the tables of other stores keep it: swept rows, and nothing twice."""

from collections.abc import Iterable, Sequence

from satchel.errors import SlotTakenError, StoreError
from satchel.ports.rows import PENDING, Row, Standing
from satchel.ports.store import Sweep, Was


def sweep(rows: list[Row], sweeps: Iterable[Sweep]) -> None:
    """Do the same change to many rows, sweep by sweep."""
    for one in sweeps:
        places = slice(one.first, one.last + 1)
        rows[places] = [_swept(row, one) for row in rows[places]]


def _swept(row: Row, sweep: Sweep) -> Row:
    hold = row.hold if sweep.hold is None else sweep.hold
    retired = sweep.retired if _was(row) is sweep.was else row.retired
    return row.changed(Standing(retired, hold))


def _was(row: Row) -> Was:
    if row.retired is None:
        return Was.CURRENT
    return Was.PENDING if row.retired == PENDING else Was.RETIRED


def refuse_doubles(rows: Sequence[Row]) -> None:
    """Refuse a log in which a record is twice, or a slot has two current rows."""
    seen: set[str] = set()
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise StoreError(f"a record is logged twice: {row.id}")
        ids.add(row.id)
        if row.slot is not None and row.retired is None:
            if row.slot in seen:
                raise SlotTakenError(f"a current record for {row.slot} already exists")
            seen.add(row.slot)
