"""The imports that are under way or were cut short: listed, gone on with, taken back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.importing.alone import import_lock
from satchel.actions.importing.imported import Imported, ImportOptions, Owners
from satchel.actions.importing.importing import import_file
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.opened import OpenBank, open_bank_in
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import LockedError, UnknownJobError, UsageError
from satchel.jobs.job import Job, Part, job_id, jobs_of
from satchel.jobs.journal import Journal, journals
from satchel.jobs.steps import OnStep
from satchel.jobs.undo import take_back
from satchel.ports.store import Store
from satchel.seal.artifact.body import Progress
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.planned import OnConflict

_LEAST_DIGITS = 6


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """What cancelling a job did."""

    job: Job
    records: int
    """Records that were taken back; nobody had seen them."""


def list_jobs(settings: Settings) -> list[Job]:
    """Return the imports that are not complete, the oldest first.

    Raises:
        VerificationError: If a bank is not what was signed.
    """
    require_owner(settings, "jobs")
    if not has_store(settings):
        return []
    with opened_store(settings, read_only=True) as store:
        found = [(journal, _part(bank, journal)) for bank, journal in _journals(settings, store)]
    running = _is_running(settings) if found else False
    newest = max((journal.at for journal, _ in found), default="")
    # One import runs at a time, and it is the one that began last or was gone on with; which of
    # the others that would be, nothing tells.
    return jobs_of(found, {job_id(one): running and one.at == newest for one, _ in found})


def resume_job(
    settings: Settings,
    wanted: str,
    owner: Owners,
    *,
    on_reading: Progress | None = None,
    on_step: OnStep | None = None,
) -> Imported:
    """Go on with an import that was cut short, as it was begun.

    Args:
        settings: Where the store and the keys are.
        wanted: The job's id, or the start of it.
        owner: Gives the key that owns banks that are made.
        on_reading: As in ``ImportOptions``.
        on_step: As in ``ImportOptions``.

    Raises:
        UnknownJobError: If there is no such job.
        UsageError: If its input is not known, or is another one now, or an option is not known.
        SatchelError: As ``import_file``.
    """
    require_owner(settings, "jobs")
    job = _chosen(list_jobs(settings), wanted)
    if job.input is None:
        raise UsageError(
            "it was read from standard input, or was started by an older version",
            field=job.id,
            hint="Run the same import again to resume it. Or cancel it: satchel job cancel.",
        )
    try:
        options = replace(
            _options(job.options), goes_on=job.id, on_reading=on_reading, on_step=on_step
        )
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"this version does not know an option of the job: {error}",
            field=job.id,
            hint=f"Cancel it, and import the file again: satchel job cancel {job.id}",
        ) from None
    return import_file(settings, Path(job.input), job.options.get("bank"), owner, options)


def _options(stored: Mapping[str, Any]) -> ImportOptions:
    """Return the options of an import from its journal."""
    return ImportOptions(
        source_format=stored.get("from"),
        on_conflict=OnConflict(stored.get("on_conflict", "skip")),
        include_deleted=bool(stored.get("include_deleted")),
        embeddings=bool(stored.get("embeddings")),
        mirror=bool(stored.get("mirror")),
        scrub_secrets=bool(stored.get("scrub_secrets")),
        skip_bad=bool(stored.get("skip_bad")),
        text_member=stored.get("text_member"),
        agent=stored.get("agent"),
        any_version=bool(stored.get("any_version")),
        without=frozenset(stored.get("without", ())),
        sidecar=Path(stored["sidecar"]) if stored.get("sidecar") else None,
        ignore_sidecar=bool(stored.get("ignore_sidecar")),
        re_embed=bool(stored.get("re_embed")),
        re_extract_entities=bool(stored.get("re_extract_entities")),
        near_duplicates=_near(stored.get("near_duplicates")),
        maps=tuple(stored.get("map", ())),
        accept_loss=tuple(stored.get("accept_loss", ())),
        unsafe_accept=frozenset(map(Outcome, stored.get("unsafe_accept", ()))),
        trusted_keys=tuple(stored.get("trusted", ())),
    )


def _near(stored: str | None) -> NearDuplicates | None:
    return None if stored is None else NearDuplicates(stored)


def cancel_job(settings: Settings, wanted: str, *, reason: str | None = None) -> Cancelled:
    """Take back what an import logged that was cut short; nobody had seen any of it.

    Raises:
        UnknownJobError: If there is no such job.
        LockedError: If it is running.
    """
    require_owner(settings, "jobs")
    job = _chosen(list_jobs(settings), wanted)
    records = 0
    with opened_store(settings) as store, import_lock(settings):
        for bank, journal in list(_journals(settings, store, writes=True)):
            if job_id(journal) == job.id:
                records += _part(bank, journal).done
                take_back(bank.ledger, journal.source, reason or "cancelled")
    return Cancelled(job=job, records=records)


def _chosen(found: list[Job], wanted: str) -> Job:
    digits = wanted.removeprefix("blake3:")
    there = [
        job
        for job in found
        if len(digits) >= _LEAST_DIGITS
        and any(
            name.removeprefix("blake3:").startswith(digits)
            for name in (job.id, *(part.source for part in job.parts))
        )
    ]
    if len(there) != 1:
        raise UnknownJobError(f"no single job matches {wanted!r}", hint="See: satchel job.")
    return there[0]


def _journals(
    settings: Settings, store: Store, *, writes: bool = False
) -> Iterator[tuple[OpenBank, Journal]]:
    with store.reading() as reader:
        banks = reader.banks()
    for bank in banks:
        opened = open_bank_in(settings, store, bank, writes=writes)
        with opened.ledger.reading() as view:
            found = list(journals(view))
        for journal in found:
            yield opened, journal


def _part(bank: OpenBank, journal: Journal) -> Part:
    with bank.ledger.reading() as view:
        done = next(one.records for one in view.imports() if one.source == journal.source)
    return Part(
        bank=bank.id, name=bank.name, source=journal.source, done=done, total=journal.records
    )


def _is_running(settings: Settings) -> bool:
    """Tell whether an import is running now."""
    try:
        with import_lock(settings):
            return False
    except LockedError:
        return True
