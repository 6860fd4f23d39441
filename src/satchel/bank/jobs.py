"""Imports that are running or were interrupted, how to revert one, and progress callbacks."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from blake3 import blake3

from satchel.crypto.sealed_records import seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import LogImport
from satchel.ledger.transaction import FINGERPRINTS
from satchel.ledger.view import View
from satchel.model.records import Status
from satchel.model.values import now, resolved

SIDE = "import/"
"""Prefix of the side values of journals; the ID of the source record follows."""


class ImportJournal(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """State of an incomplete import, stored beside the log until it is complete."""

    asked: str
    """Digest of the input and the options."""

    seed: bytes
    """Seed of all nonces."""

    at: str
    """When it began."""

    source: str = ""
    """ID of its source record, once that is logged."""

    records: int = 0
    """Number of records that it will log."""

    request: dict[str, Any] = {}
    """The request, for resuming: the file, and the options by name."""


def new_journal(asked: str, request: dict[str, Any] | None = None) -> ImportJournal:
    """Return the journal of a new import."""
    return ImportJournal(asked=asked, seed=os.urandom(32), at=now(), request=request or {})


def journals(view: View) -> Iterator[ImportJournal]:
    """Yield the journals of imports into a bank that are running or were killed."""
    incomplete = {each.source for each in view.imports() if not (each.complete or each.undone)}
    for name, value in view.side(SIDE).items():
        journal = msgspec.json.decode(value, type=resolved(ImportJournal))
        if name == SIDE + journal.source and journal.source in incomplete:
            yield journal


_DIGITS = 12


class JobPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a job in one bank."""

    bank: str
    """ID of the bank."""

    source: str
    """ID of the source record of the import."""

    done: int
    """Records that are logged, but not visible yet."""

    total: int
    """Records to log; 0 if not known."""

    name: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An incomplete import."""

    id: str
    kind: Literal["import"]
    state: Literal["running", "waiting"]
    """``waiting`` means that it can be resumed or cancelled."""

    at: str
    """When it began."""

    input: str | None
    """The input, if it is known."""

    options: dict[str, Any]
    """Options that differ from the defaults."""

    parts: list[JobPart]

    @property
    def done(self) -> int:
        """Records that are logged."""
        return sum(part.done for part in self.parts)

    @property
    def total(self) -> int:
        """Records to log, in the banks that it has reached."""
        return sum(part.total for part in self.parts)


def job_id(journal: ImportJournal) -> str:
    """Return the ID of a job, which its parts in several banks share."""
    return blake3(journal.seed, derive_key_context="satchel 2026 job id").hexdigest()[:_DIGITS]


def jobs_of(
    journal_parts: Iterable[tuple[ImportJournal, JobPart]],
    running: Mapping[str, bool] | None = None,
) -> list[Job]:
    """Return the jobs of journals, oldest first.

    Args:
        journal_parts: Journals, each with its part of a job.
        running: Whether a process works on a job, by job ID.
    """
    parts = dict[str, list[JobPart]]()
    first = dict[str, ImportJournal]()
    for journal, part in journal_parts:
        name = job_id(journal)
        parts.setdefault(name, []).append(part)
        first.setdefault(name, journal)
    jobs = [
        Job(
            id=name,
            kind="import",
            state="running" if (running or {}).get(name) else "waiting",
            at=journal.at,
            input=journal.request.get("input"),
            options={k: v for k, v in journal.request.items() if k != "input"},
            parts=parts[name],
        )
        for name, journal in first.items()
    ]
    return sorted(jobs, key=lambda job: (job.at, job.id))


_REPORT_AFTER = 500
"""Records between two progress reports while an import is reverted."""


def side_name(position: int) -> str:
    """Return the name of the side value with the fingerprints of an import.

    Args:
        position: Log position of its source record.
    """
    return f"{FINGERPRINTS}{position}"


def revert_import(
    ledger: Ledger,
    source: str,
    reason: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Revert an import: delete what it brought, and restore what it replaced or deleted.

    Memories that were replaced again since then stay replaced.

    Args:
        ledger: The bank.
        source: ID of the import's source record.
        reason: Reason, for readers of the log.
        progress: Called with the records of the import that were read, and all of them.

    Returns:
        The IDs of the memories that stay replaced.
    """
    at = now()
    with ledger.reading() as view:
        reverted = next(each for each in view.imports() if each.source == source)
        still = list(_still_superseded(view, reverted, progress)) if reverted.complete else []
    state = "deleted" if reverted.complete else "rejected"
    records = [seal(Status(target=source, state=state, reason=reason, at=at))]  # type: ignore[arg-type]
    for target, by in still:
        status = Status(target=target, state="superseded", by=by, reason=reason, at=at)
        records.append(seal(status))
    ledger.append(records, side={side_name(reverted.place): None, SIDE + source: None})
    return [target for target, _ in still]


def _still_superseded(
    view: View, reverted: LogImport, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, str]]:
    """Yield the memories that an import retired and others replaced since, with the current IDs."""
    for number, logged in enumerate(view.imported(reverted.source), 1):
        if progress is not None and number % _REPORT_AFTER == 0:
            progress(number, max(number, reverted.records))
        status = logged.model
        if not isinstance(status, Status) or status.state not in ("superseded", "deleted"):
            continue
        target = view.get([status.target]).get(status.target)
        if target is None or target.row.slot is None:
            continue
        current = view.current(target.row.slot)
        if current is not None and current.row.batch != reverted.place:
            yield target.record.id, current.record.id
