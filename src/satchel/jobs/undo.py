"""Undoing an import in the log of its bank."""

from collections.abc import Callable, Iterator

from satchel.jobs.journal import SIDE
from satchel.ledger.erasure.targets import FINGERPRINTS
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Import
from satchel.ledger.view import View
from satchel.memory.records import Status
from satchel.memory.times import now
from satchel.seal.sealing import seal

_TOLD_AFTER = 500
"""Records of an import that is taken back, between two reports of progress."""


def side_name(place: int) -> str:
    """Return the name of the value that an import leaves.

    Args:
        place: Of its source record in the log.
    """
    return f"{FINGERPRINTS}{place}"


def take_back(
    ledger: Ledger,
    source: str,
    reason: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Undo an import: what came with it goes, what it replaced or deleted is there again.

    What was replaced once more since then, by something else, stays replaced.

    Args:
        ledger: The bank.
        source: Id of the import's source record.
        reason: For whoever reads the log.
        progress: Called with the records of it that were looked at, and all of them.

    Returns:
        The ids of what stays replaced.
    """
    at = now()
    with ledger.reading() as view:
        found = next(one for one in view.imports() if one.source == source)
        again = list(_taken_over(view, found, progress)) if found.complete else []
    state = "deleted" if found.complete else "rejected"
    records = [seal(Status(target=source, state=state, reason=reason, at=at))]  # type: ignore[arg-type]
    for target, by in again:
        status = Status(target=target, state="superseded", by=by, reason=reason, at=at)
        records.append(seal(status))
    ledger.append(records, side={side_name(found.place): None, SIDE + source: None})
    return [target for target, _ in again]


def _taken_over(
    view: View, found: Import, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, str]]:
    """Yield what the import retired and somebody else has put another thing in the place of."""
    for number, one in enumerate(view.imported(found.source), 1):
        if progress is not None and number % _TOLD_AFTER == 0:
            progress(number, max(number, found.records))
        if not isinstance(one.model, Status) or one.model.state not in ("superseded", "deleted"):
            continue
        target = view.get([one.model.target]).get(one.model.target)
        if target is None or target.row.slot is None:
            continue
        current = view.current(target.row.slot)
        if current is not None and current.row.batch != found.place:
            yield target.record.id, current.record.id
