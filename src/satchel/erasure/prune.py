"""Prune: erase records that have not been current for long, with a record of it in the log."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from satchel.backup.erasures import list_erased
from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.config.options import NOT_FOR_MODELS
from satchel.crypto.sealed_records import seal
from satchel.erasure.selection import PruneMemoryOptions
from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.repair import DAMAGED
from satchel.ledger.transaction import ERASABLE, UNFINISHED, finish_erasure
from satchel.ledger.view import View
from satchel.model.records import Erasure
from satchel.model.values import format_time, now, read_time
from satchel.ports.operations import operation
from satchel.ports.rows import Filter, Row

GROUP = 1_000
"""Number of records in a group."""

SUPERSEDED = frozenset({"superseded"})
UNWANTED = frozenset({"superseded", "deleted", "expired", "rejected"})
"""Reasons for which a record is no longer current."""

_AGE = re.compile(r"(\d{1,6})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}

Progress = Callable[[int, int], None]
"""Called with the number of log positions read, and the total."""


class MemoryPruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of pruning, or of a dry run."""

    bank: str
    before: str
    """Time before which the records were no longer current."""

    erased: int = 0
    """Number of erased records."""

    bytes: int = 0
    """Their size in bytes, without columns and indexes."""

    blobs: int = 0
    """Number of blobs that no record names any more."""

    types: dict[str, int] = {}
    """Number of records by type."""

    notes: list[str] = []
    dry_run: bool = False


def moment_of(text: str) -> str:
    """Return the time for a date, a time or an age: ``2026-01-31``, ``90d``, ``12h``.

    An age is a whole number of hours (h), days (d), weeks (w) or years of 365 days (y) from now.

    Raises:
        UsageError: If it is invalid.
    """
    age = _AGE.fullmatch(text.strip())
    try:
        if age is not None:
            back = timedelta(hours=int(age[1]) * _HOURS[age[2]])
            return format_time(datetime.now(UTC) - back)
    except OverflowError:
        raise UsageError(f"the date is too early: {text}", field="superseded-before") from None
    moment = read_time(text.strip())
    if moment is None:
        raise UsageError(
            f"not a date or an age: {text}",
            field="superseded-before",
            hint="Write 2026-01-31, 2026-01-31T12:00:00Z, 12h, 90d, 8w or 2y.",
        )
    return moment


@operation(
    PruneMemoryOptions,
    name="prune",
    example="satchel prune --superseded-before 90d --dry-run",
    absent=NOT_FOR_MODELS,
)
def prune_memories(bank: OpenBank, options: PruneMemoryOptions) -> MemoryPruneResult:
    """Erase memories that were superseded long ago. Their contents are deleted.

    The log still verifies, and records when and why each was erased. Current memories
    are not touched. Earlier copies of the store still have the contents.

    Args:
        bank: The bank, open for writing; or for reading, for a dry run.
        options: Which versions.

    Raises:
        UsageError: If the time is neither a time nor an age.
        VerificationError: If the store is not what was signed.
        StoreError: If it cannot be written; groups that were erased before stay erased.
    """
    require_owner(bank.settings, "prune")
    return prune(
        bank,
        moment_of(options.superseded_before),
        deleted=options.include_deleted,
        reason=options.reason,
        dry_run=options.dry_run,
        progress=options.progress,
    )


def prune(
    bank: OpenBank,
    before: str,
    *,
    deleted: bool = False,
    reason: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> MemoryPruneResult:
    """Erase the records that were superseded before a time, according to the log.

    Each group is erased completely or not at all; an interrupted call is resumed by the next. At
    the end, the bytes are removed from the files of the store.

    Args:
        bank: The bank, open for writing; or for reading, for a dry run.
        before: The time, from ``moment_of``.
        deleted: Whether to erase deleted, expired and rejected records, too.
        reason: Reason, for the log.
        dry_run: Only count.
        progress: Called with the progress.

    Raises:
        ReadOnlyStoreError: If no key here may append to the bank.
        VerificationError: If the store is not what was signed.
        StoreError: If it cannot be written; groups that were erased before stay erased.
    """
    require_owner(bank.settings, "prune")
    states = UNWANTED if deleted else SUPERSEDED
    types, erased, size, position, end = dict[str, int](), 0, 0, -1, 0
    by = None if dry_run else writer_key(bank.settings).did
    while True:
        with bank.ledger.reading() as view:
            end = end or view.head.size
            records, position = _next_group(view, before, states, position, end)
        if not dry_run:
            _erase(bank, records, reason, by)
        erased += len(records)
        for logged in records:
            types[logged.row.type] = types.get(logged.row.type, 0) + 1
            size += len(logged.record.body)
        if progress is not None:
            progress(min(position + 1, end), end)
        if position >= end - 1:
            break
    blobs, notes = 0, list[str]()
    if not dry_run:
        notes = list_erased(bank)
        _drop_damaged(bank, before, states)
        blobs = finish_erasure(bank.store, bank.id)
    return MemoryPruneResult(
        bank=bank.id,
        before=before,
        erased=erased,
        bytes=size,
        blobs=blobs,
        types=dict(sorted(types.items())),
        notes=notes,
        dry_run=dry_run,
    )


def _next_group(
    view: View, before: str, states: frozenset[str], position: int, end: int
) -> tuple[list[VerifiedRecord], int]:
    """Return the next group of records to erase, and the log position reached."""
    records = list[VerifiedRecord]()
    conditions = Filter(types=ERASABLE, retired=True, held=True)
    for batch in _together(view.scan(conditions, after=position), end):
        outdated = _outdated(view, [logged.row for logged in batch], before, states)
        records += [logged for logged in batch if logged.seq in outdated]
        position = batch[-1].seq
        if len(records) >= GROUP:
            return records, position
    return records, end - 1


def _together(records: Iterator[VerifiedRecord], end: int) -> Iterator[list[VerifiedRecord]]:
    """Yield the retired ones of some records, in batches."""
    batch = list[VerifiedRecord]()
    for logged in records:
        if logged.seq >= end:
            break
        if logged.row.retired is not None:
            batch.append(logged)
        if len(batch) == GROUP:
            yield batch
            batch = []
    if batch:
        yield batch


def _outdated(view: View, rows: Sequence[Row], before: str, states: frozenset[str]) -> set[int]:
    """Return the positions of records retired for given reasons before a time."""
    ended = [(row.seq, view.retirement(row)) for row in rows]
    matching = [
        (seq, retirement.place)
        for seq, retirement in ended
        if retirement is not None and retirement.state in states
    ]
    at = view.log_records_at([position for _, position in matching])
    return {seq for seq, position in matching if at[position].row.at < before}


def _erase(
    bank: OpenBank, records: Sequence[VerifiedRecord], reason: str | None, by: str | None
) -> None:
    at = now()
    drafts = (Erasure(entry=each.record.id, reason=reason, by=by, at=at) for each in records)
    bank.ledger.append([seal(draft) for draft in drafts])


def _drop_damaged(bank: OpenBank, before: str, states: frozenset[str]) -> None:
    """Drop what a repair set aside of damaged records that would be erased now."""
    with bank.store.reading() as reader:
        aside = {int(name.removeprefix(DAMAGED)): name for name in reader.side(bank.id, DAMAGED)}
    if not aside:
        return
    with bank.ledger.reading() as view:
        outdated = _outdated(view, view.rows(list(aside)), before, states)
    if outdated:
        with bank.store.writing() as writing:
            dropped: dict[str, bytes | None] = {aside[position]: None for position in outdated}
            writing.put_side(bank.id, {**dropped, UNFINISHED: b""})
