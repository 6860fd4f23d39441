"""Who has the slots after a commit, worked out before it is written."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from satchel.errors import SlotTakenError
from satchel.ports.rows import PENDING
from satchel.ports.store import Commit, Sweep, Was
from satchel.stores.ladybug.schema import SEQ_BITS

if TYPE_CHECKING:
    from satchel.stores.ladybug.reading import View

_HAVING = "MATCH (r:Record) WHERE r.place >= $first AND r.place <= $last AND r.slot IS NOT NULL"
_RETURN = "RETURN r.place, r.retired, r.slot"


class _Had(NamedTuple):
    retired: int | None
    slot: str


def slots_after(view: "View", number: int, commit: Commit) -> dict[str, int]:
    """Return the places of the rows that a commit writes or changes and that then have a slot.

    Takes memory for the slots of an import that becomes visible.

    Args:
        view: Of the one who writes.
        number: Of the bank.
        commit: What is to be written.

    Raises:
        SlotTakenError: If two rows would have the same.
    """
    first = number << SEQ_BITS
    having = _touched(view, first, commit)
    _swept(having, first, (sweep for sweep in commit.sweeps if sweep.retired is not None))
    for change in commit.changes:
        place = first + change.seq
        if place in having:
            having[place] = having[place]._replace(retired=change.retired)
    _swept(having, first, commit.sweeps)
    for seq in commit.erased:
        having.pop(first + seq, None)
    for row in commit.rows:
        if row.slot is not None:
            having[first + row.seq] = _Had(row.retired, row.slot)
    slots = dict[str, int]()
    for place, (retired, slot) in having.items():
        if retired is None and slots.setdefault(slot, place) != place:
            raise _taken()
    touched = having.keys() | {first + seq for seq in commit.erased}
    _refuse_held(view, number, slots, touched)
    return slots


def _touched(view: "View", first: int, commit: Commit) -> dict[int, _Had]:
    """Return how the rows with slots stand that a commit changes."""
    found = [
        had
        for sweep in commit.sweeps
        if sweep.was is not None
        for had in view._all(  # noqa: SLF001 - a part of the view
            f"{_HAVING} {_RETURN}", first=first + sweep.first, last=first + sweep.last
        )
    ]
    places = [first + change.seq for change in commit.changes]
    cypher = f"MATCH (r:Record) WHERE r.place = x AND r.slot IS NOT NULL {_RETURN}"
    found += view._in(cypher, places)  # noqa: SLF001 - a part of the view
    return {place: _Had(retired, slot) for place, retired, slot in found}


def _swept(having: dict[int, _Had], first: int, sweeps: Iterable[Sweep]) -> None:
    for sweep in sweeps:
        if sweep.was is None:
            continue
        for place, had in having.items():
            if sweep.first <= place - first <= sweep.last and _was(had) is sweep.was:
                having[place] = had._replace(retired=sweep.retired)


def _was(had: _Had) -> Was:
    if had.retired is None:
        return Was.CURRENT
    return Was.PENDING if had.retired == PENDING else Was.RETIRED


def _refuse_held(view: "View", number: int, slots: dict[str, int], touched: set[int]) -> None:
    """Refuse slots that a row has which the commit leaves alone."""
    held = view._slots(number, list(slots))  # noqa: SLF001 - a part of the view
    others = {place: slot for slot, place in held.items() if place not in touched}
    rows = view._at(others)  # noqa: SLF001 - a part of the view
    if any(row.retired is None and row.slot in slots for row in rows):
        raise _taken()


def _taken() -> SlotTakenError:
    return SlotTakenError("a current record for the same key or origin already exists")
