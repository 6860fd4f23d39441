"""Following a bank's log into a sink: at least once, in its order, each record proved."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from satchel.errors import VerificationError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Origin
from satchel.memory.records import Edge, Erasure, Status
from satchel.memory.showing import text_of
from satchel.ports.outward.sink import Sink, SinkRow

TOGETHER = 1000
"""Rows that are written at a time."""

_BYTES_TOGETHER = 8 * 2**20

Progress = Callable[[int, int], None]
"""Called now and then with the places of the log done and those there are."""

_TIMES = (
    *("created_at", "updated_at", "occurred_at"),
    *("valid_from", "valid_until", "expires_at"),
)
_OWNERS = ("user", "agent", "run", "app", "session")


@dataclass(slots=True)
class Drained:
    """What went into a sink."""

    rows: int = 0
    seq: int = -1
    """The last place of the log that is there; -1 for none."""

    waiting: int = 0
    """Places from the first import on that is not complete: they go when it is."""


def drain(view: View, sink: Sink, progress: Progress | None = None) -> Drained:
    """Write what a sink lacks of a bank.

    What comes after the beginning of an import that is not complete waits: nobody sees it yet, and
    the order of the log is kept.

    Raises:
        VerificationError: If the sink followed another history of the bank, or the bank is not
            what was signed.
        TargetError: If the sink cannot be written.
    """
    bank, last = view.head.bank, sink.last(view.head.bank)
    if last is not None:
        _require_same(view, last.seq, last.id, sink.name)
    found = Drained(seq=last.seq if last is not None else -1)
    end = min((one.place for one in view.imports() if not one.complete), default=view.head.size)
    found.waiting = view.head.size - end
    for rows in _together(_rows(view, found.seq, end)):
        sink.write(bank, rows)
        found.rows += len(rows)
        found.seq = rows[-1].seq
        if progress is not None:
            progress(found.seq + 1, end)
    return found


def _require_same(view: View, seq: int, identity: str, name: str) -> None:
    same = seq < view.head.size and view.rows([seq])[0].id.startswith(identity)
    if not same:
        raise VerificationError(
            f"the sink followed another history: its last row is {seq}, which is not in this log",
            file=name,
            hint="The bank was rolled back to before that. Use a new sink for it.",
        )


def _rows(view: View, after: int, end: int) -> Iterator[SinkRow]:
    if after + 1 >= end:
        return
    for logged in view.scan(after=after):
        if logged.seq >= end:
            return
        yield row_of(view.head.bank, logged)


def _together(rows: Iterator[SinkRow]) -> Iterator[list[SinkRow]]:
    held, size = list[SinkRow](), 0
    for row in rows:
        held.append(row)
        size += len(row.text or "") + len(row.metadata or "")
        if len(held) == TOGETHER or size > _BYTES_TOGETHER:
            yield held
            held, size = [], 0
    if held:
        yield held


def row_of(bank: str, logged: Logged) -> SinkRow:
    """Return a record as the columns of a sink."""
    model, row = logged.model, logged.row
    members: dict[str, Any] = {}
    if isinstance(model, Entry):
        members = {name: getattr(model, name) for name in _TIMES}
        members |= {"component": row.type, "kind": model.kind}
        members["text"] = text_of(model) if model.text is None else model.text
        members["tags"] = _json(list(model.tags))
    elif isinstance(model, Status):
        names = ("target", "state", "by", "reason", "actor")
        members = {name: getattr(model, name) for name in names}
    elif isinstance(model, Edge):
        members = {"source": model.source, "target": model.target, "kind": model.kind}
    elif isinstance(model, Erasure):
        members = {"target": model.entry, "reason": model.reason}
    else:
        members["text"] = getattr(model, "text", None)
    members["metadata"] = _json(dict(model.metadata))
    members |= {name: getattr(row, name) for name in _OWNERS}
    origin = getattr(model, "origin", None)
    if isinstance(origin, Origin):
        members |= {
            "origin_provider": origin.provider,
            "origin_source": origin.source,
            "origin_id": origin.id,
        }
    return SinkRow(
        bank=bank,
        seq=row.seq,
        id=row.id,
        type=row.type,
        arrived_at=row.at,
        batch=row.batch or None,
        **members,
    )


def _json(value: Any) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
