"""Counts of a bank."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.bank.connections import local_path
from satchel.bank.listings import Progress
from satchel.bank.memory import CURRENT, notes_of, state_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import FEW_FOR_MODELS, OnProgress
from satchel.model.records import Entry
from satchel.model.values import Component, now
from satchel.ports.operations import Options, operation
from satchel.ports.rows import Filter
from satchel.recall.vector_updates import VectorCounter, VectorStats
from satchel.runtime.private_files import database_files

_MONTH = len("2026-01")


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a bank."""

    id: str
    name: str | None
    records: int
    """Records in its log, of all types; for the holder of a token, the visible ones."""

    memories: int
    """Current memories that are not quarantined."""

    types: dict[str, int]
    """Memories by type."""

    users: dict[str, int]
    """Memories by user, most first."""

    providers: dict[str, int]
    """Memories by source product, most first."""

    tags: dict[str, int]
    """Memories by label, most first."""

    states: dict[str, int]
    """All memories by state, including those that are not current."""

    held: int
    """Number of memories in quarantine."""

    logged: dict[str, int]
    """Records of the log by type, from the signed head."""

    imports: int
    oldest: str | None
    """Time of the earliest current memory."""

    newest: str | None
    months: dict[str, int]
    """Current memories by month (``2026-01``)."""

    changed_at: str
    """Time of the last record of the log."""

    bytes: int
    """Bytes of all memories as sealed, including those that are not current."""

    store_bytes: int | None
    """Bytes of the store's files, with all banks; None if not local, or for a token's holder."""

    vectors: VectorStats | None = None
    """Vectors in use; None if there are none."""

    notes: list[str] = []
    """Notes: accepted losses, and whether the bank is untrusted."""


def stats(bank: OpenBank, *, progress: Progress | None = None) -> Stats:
    """Count the memories of a bank; each is verified to be in the log.

    Args:
        bank: The bank.
        progress: Receives the number of log positions that were read, and their total.
    """
    with bank.asked("stats").ledger.reading() as view:
        head, moment = view.head, now()
        types, users, providers = Counter[str](), Counter[str](), Counter[str]()
        tags, states, months = Counter[str](), Counter[str](), Counter[str]()
        held, size, oldest, newest = 0, 0, None, None
        lacking, logged_types = (
            VectorCounter(view),
            Counter[str](head.counts if view.is_whole else {}),
        )
        wanted = Filter(types=frozenset(Component), retired=True, held=True)
        for logged in view.scan(wanted):
            row, entry = logged.row, logged.model
            if progress is not None:
                progress(row.seq, head.size)
            state = state_of(view, logged, moment=moment)
            states[state] += 1
            held += row.hold
            if not view.is_whole:
                logged_types[row.type] += 1
            size += len(logged.record.body)
            if state != CURRENT or row.hold or not isinstance(entry, Entry):
                continue
            types[row.type] += 1
            lacking.take(row.id)
            if row.user is not None:
                users[row.user] += 1
            if entry.origin is not None and entry.origin.provider is not None:
                providers[entry.origin.provider] += 1
            tags.update(set(entry.tags))
            if row.moment is not None:
                oldest = row.moment if oldest is None else min(oldest, row.moment)
                newest = row.moment if newest is None else max(newest, row.moment)
                months[row.moment[:_MONTH]] += 1
        vectors, notes = lacking.stats, notes_of(view)
    return Stats(
        id=bank.id,
        name=bank.name,
        records=logged_types.total(),
        memories=types.total(),
        types=_most_first(types),
        users=_most_first(users),
        providers=_most_first(providers),
        tags=_most_first(tags),
        states=_most_first(states),
        held=held,
        logged=dict(sorted(logged_types.items())),
        imports=logged_types["source"],
        oldest=oldest,
        newest=newest,
        months=dict(sorted(months.items())),
        changed_at=head.at,
        bytes=size,
        store_bytes=_store_bytes(local_path(bank.settings.store)) if bank.bearer is None else None,
        vectors=vectors,
        notes=notes,
    )


def _most_first(counted: Counter[str]) -> dict[str, int]:
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def _store_bytes(path: Path | None) -> int | None:
    if path is None:
        return None
    if path.is_dir():
        return sum(found.stat().st_size for found in path.iterdir() if found.is_file())
    return sum(found.st_size for found in database_files(path).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions(Options):
    """Options of counting."""

    progress: OnProgress = None


@operation(StatsOptions, name="stats", example="satchel stats", absent={"mcp": FEW_FOR_MODELS})
def show_stats(bank: OpenBank, options: StatsOptions) -> Stats:
    """Count what a bank holds. Every memory is verified."""
    return stats(bank, progress=options.progress)
