"""Following banks into a sink: once, or for as long as somebody wants."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import find_bank, name_of, open_bank_in
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import UnknownBankError, UsageError
from satchel.errors.addresses import shown_address
from satchel.ports.outward.sink import Sink
from satchel.ports.store import Store
from satchel.transfer.whole_logs.following import Progress, drain

SCHEMES = ("sqlite", "postgresql", "parquet", "file", "s3", "gs", "az", "memory")
"""What the address of a sink may begin with; ``parquet+s3`` and the like, too."""

_PARQUET = "parquet"


class Followed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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

    told: Callable[[Followed], None] | None = None
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
        from satchel.remotes.sinks.sqlite import SqliteSink

        return SqliteSink(_path(address))
    if kind == "postgresql":
        from satchel.remotes.sinks.postgres import PostgresSink

        return PostgresSink(address)
    return _segments(address, kind, place)


def _segments(address: str, kind: str, place: str) -> Sink:
    from satchel.remotes.sinks.segments import (
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


def follow_once(settings: Settings, sink: Sink, options: FollowOptions) -> list[Followed]:
    """Write what a sink lacks of banks, and end.

    Raises:
        UnknownBankError: If there is none, or not this one.
        VerificationError: If a bank is not what was signed, or the sink followed another history.
        TargetError: If the sink cannot be written; what it has stays.
    """
    require_owner(settings, "sink")
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with opened_store(settings, read_only=True) as store:
        return [_followed(settings, store, bank, sink, options) for bank in _banks(store, options)]


def follow(settings: Settings, sink: Sink, options: FollowOptions) -> list[Followed]:
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
) -> Followed:
    opened = open_bank_in(settings, store, bank)
    with opened.ledger.reading() as view:
        done = drain(view, sink, options.progress)
    with store.reading() as reader:
        name = name_of(reader, bank)
    found = Followed(bank=bank, name=name, rows=done.rows, seq=done.seq, waiting=done.waiting)
    if options.told is not None and done.rows:
        options.told(found)
    return found
