"""Following a bank's log into a sink: at least once, in its order, each record proved."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from satchel.bank.connections import configured_store, has_store
from satchel.bank.open_bank import find_bank, name_of, open_bank_in
from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.errors import UnknownBankError, UsageError, VerificationError, shown_address
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, Erasure, Status
from satchel.model.text import memory_text
from satchel.model.values import Origin
from satchel.ports.sinks import Sink, SinkRow
from satchel.ports.store import Store

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
class DrainResult:
    """What went into a sink."""

    rows: int = 0
    seq: int = -1
    """The last place of the log that is there; -1 for none."""

    waiting: int = 0
    """Places from the first import on that is not complete: they go when it is."""


def drain(view: View, sink: Sink, progress: Progress | None = None) -> DrainResult:
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
    found = DrainResult(seq=last.seq if last is not None else -1)
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


def row_of(bank: str, logged: VerifiedRecord) -> SinkRow:
    """Return a record as the columns of a sink."""
    model, row = logged.model, logged.row
    members: dict[str, Any] = {}
    if isinstance(model, Entry):
        members = {name: getattr(model, name) for name in _TIMES}
        members |= {"component": row.type, "kind": model.kind}
        members["text"] = memory_text(model) if model.text is None else model.text
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


SCHEMES = ("sqlite", "postgresql", "parquet", "file", "s3", "gs", "az", "memory")
"""What the address of a sink may begin with; ``parquet+s3`` and the like, too."""

_PARQUET = "parquet"


class SinkResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went into a sink of one bank."""

    bank: str
    name: str | None = None
    rows: int = 0
    """Rows that were written now."""

    seq: int = -1
    """The last place of the log that is there; -1 for none."""

    waiting: int = 0
    """Places that wait for an import to be complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How banks are followed."""

    bank: str | None = None
    """Which, as ``find_bank`` takes it; all when None."""

    interval: float = 2.0
    """Seconds between looking again."""

    told: Callable[[SinkResult], None] | None = None
    """Is told of what went, when something did."""

    progress: Progress | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends the following when it is set."""


def open_sink(settings: Settings, address: str) -> Sink:
    """Open the sink at an address.

    Args:
        settings: Of this machine.
        address: ``sqlite:///FILE``, ``postgresql://...``, ``parquet:///FOLDER``, ``file:///FOLDER``
            (JSON lines), ``s3://BUCKET/PREFIX`` and other object storage (JSON lines), or
            ``parquet+s3://...``.

    Raises:
        UsageError: If it cannot be meant, or an extra is missing.
        TargetError: If it cannot be opened.
    """
    require_owner(settings, "sink")
    scheme, _, rest = address.partition("://")
    kind, _, place = scheme.partition("+")
    if not rest and not scheme.endswith("memory"):
        kind = ""
    if kind not in SCHEMES or (place and (kind != _PARQUET or place not in SCHEMES)):
        raise UsageError(
            f"not a sink address: {shown_address(address)}",
            field="target",
            hint=f"It must start with one of {', '.join(f'{name}://' for name in SCHEMES)}.",
        )
    if kind == "sqlite":
        from satchel.replication.sink_targets import SqliteSink

        return SqliteSink(_path(address))
    if kind == "postgresql":
        from satchel.replication.sink_targets import PostgresSink

        return PostgresSink(address)
    return _segments(address, kind, place)


def _segments(address: str, kind: str, place: str) -> Sink:
    from satchel.replication.sink_targets import (
        LocalFiles,
        ObjectFiles,
        SegmentSink,
        as_jsonl,
        as_parquet,
    )

    is_parquet = kind == _PARQUET
    where = place or ("file" if is_parquet else kind)
    inner = f"{where}://{address.partition('://')[2]}"
    files = LocalFiles(_path(inner)) if where == "file" else ObjectFiles(inner)
    if is_parquet:
        as_parquet([])  # what is missing is said before anything is read
        return SegmentSink(files, as_parquet, "parquet")
    return SegmentSink(files, as_jsonl, "jsonl")


def _path(address: str) -> Path:
    try:
        parts = urlsplit(address)
    except ValueError:
        raise UsageError("not a file address", field="target") from None
    if parts.netloc or parts.query or parts.fragment or len(parts.path) <= 1:
        raise UsageError(
            f"not a file address: {shown_address(address)}",
            field="target",
            hint=f"Write it as {parts.scheme}:///relative or {parts.scheme}:////absolute.",
        )
    return Path(unquote(parts.path.removeprefix("/"))).expanduser()


def follow_once(settings: Settings, sink: Sink, options: FollowOptions) -> list[SinkResult]:
    """Write what a sink lacks of banks, and end.

    Raises:
        UnknownBankError: If there is none, or not this one.
        VerificationError: If a bank is not what was signed, or the sink followed another history.
        TargetError: If the sink cannot be written; what it has stays.
    """
    require_owner(settings, "sink")
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with configured_store(settings, read_only=True) as store:
        return [_followed(settings, store, bank, sink, options) for bank in _banks(store, options)]


def follow(settings: Settings, sink: Sink, options: FollowOptions) -> list[SinkResult]:
    """Write what a sink lacks of banks, again and again, until ``options.stop`` is set.

    Raises:
        UsageError: If the interval is no time.
        SatchelError: As ``follow_once``.
    """
    require_owner(settings, "sink")
    if options.interval <= 0:
        raise UsageError("the interval must be more than 0 seconds", field="interval")
    while True:
        found = follow_once(settings, sink, options)
        if options.stop.wait(options.interval):
            return found


def _banks(store: Store, options: FollowOptions) -> list[str]:
    if options.bank is not None:
        return [find_bank(store, options.bank)]
    with store.reading() as reader:
        return reader.banks()


def _followed(
    settings: Settings, store: Store, bank: str, sink: Sink, options: FollowOptions
) -> SinkResult:
    opened = open_bank_in(settings, store, bank)
    with opened.ledger.reading() as view:
        done = drain(view, sink, options.progress)
    with store.reading() as reader:
        name = name_of(reader, bank)
    found = SinkResult(bank=bank, name=name, rows=done.rows, seq=done.seq, waiting=done.waiting)
    if options.told is not None and done.rows:
        options.told(found)
    return found
