"""Links by many names at once, for walks along them."""

from collections.abc import Sequence
from typing import Any

from satchel.ports.rows import Link
from satchel.ports.traversal import Linked
from satchel.stores.sqlite.schema import SEQ_MASK
from satchel.stores.sqlite.statements import Statements


def linked(
    view: Statements,
    number: int,
    ends: Sequence[str],
    *,
    incoming: bool,
    kinds: frozenset[str] | None,
    limit: int,
) -> list[Linked]:
    """Return links of a bank as ``ports.traversal.Walked.links``.

    Args:
        view: Of the store.
        number: Of the bank.
        ends: Names.
        incoming: Whether they are the targets.
        kinds: The types that are wanted; None for all.
        limit: How many at most.
    """
    column, wanted = "target" if incoming else "source", sorted(kinds or ())
    narrowed = "" if kinds is None else f" AND link.kind IN ({', '.join('?' * len(wanted))})"
    sql = (
        "SELECT link.place, source, target, link.kind FROM link"  # noqa: S608 - our own names
        " CROSS JOIN record ON record.place = link.place"
        f" WHERE link.bank = ? AND {column} IN ({', '.join('?' * len(ends))}){narrowed}"
        " AND record.retired IS NULL AND record.hold = 0"
        " ORDER BY link.place, link.kind, source, target LIMIT ?"
    )
    values: list[Any] = [number, *ends, *wanted, limit]
    found = view._all(sql, *values, kinds=(int, str, str, str))  # noqa: SLF001 - a part of the view
    return [
        Linked(place & SEQ_MASK, Link(source, target, kind))
        for place, source, target, kind in found
    ]
