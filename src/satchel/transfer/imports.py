"""Import files; list, undo, resume and cancel imports."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome
from satchel.bank.connections import configured_store, has_store
from satchel.bank.jobs import (
    ImportJournal,
    Job,
    JobPart,
    job_id,
    jobs_of,
    journals,
    revert_import,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import (
    OpenBank,
    chosen_bank,
    find_by_name,
    name_of,
    open_bank,
    open_bank_in,
)
from satchel.config.options import require_uncontained
from satchel.config.settings import Settings
from satchel.errors import (
    LockedError,
    NoOwnerError,
    UnknownBankError,
    UnknownImportError,
    UnknownJobError,
    UsageError,
)
from satchel.ledger.projection import LogImport
from satchel.model.values import (
    ID_PREFIX,
    id_digits,
    require_one,
)
from satchel.ports.format import ConnectorOptions
from satchel.ports.operations import OnStep
from satchel.ports.store import Store
from satchel.recall.duplicates import NearDuplicateMode
from satchel.receipts.archive import refuse_copy, save_receipts
from satchel.receipts.receipt import unaccepted
from satchel.runtime.files import OpenFile
from satchel.transfer.folders import connector_for, display_address, list_source
from satchel.transfer.import_job import (
    ImportJob,
    import_lock,
    plan_of_import,
    settings_for,
    tell_imported,
)
from satchel.transfer.import_plan import OneOwner
from satchel.transfer.import_results import (
    BankImportResult,
    ConflictPolicy,
    ImportOptions,
    ImportSummary,
    Owners,
)
from satchel.transfer.import_source import ImportSource, open_rereadable
from satchel.transfer.outputs import open_sidecar as found_beside
from satchel.transfer.outputs import was_written_with_one


def import_file(
    settings: Settings,
    source: Path | OpenFile | str | None,
    bank: str | None,
    owner: Owners,
    options: ImportOptions | None = None,
) -> ImportSummary:
    """Import a file.

    The input is read, checked and planned completely; then the records are logged, and become
    visible together. Running a killed import again resumes it.

    Args:
        settings: Settings with the store and the keys.
        source: The file, or the address or folder of a live product; None for standard input.
        bank: The bank for everything, created if missing; None for the configured one, or else one
            for each user, or agent where no user is named. A file that names neither, and the
            export of a personal account, goes into the default bank.
        owner: Returns the key that owns new banks.
        options: Options of the import.

    Raises:
        InputError: If the input cannot be read, is malformed or empty, or the owner of a memory is
            unknown and no bank was named. Nothing is changed.
        VerificationError: If a sealed input does not verify.
        ConflictError: With ``ConflictPolicy.ERROR``, if there is a conflict.
        ShortInputError: If the input is incomplete by its own count, and that was not accepted.
        UsageError: If a mapped owner is not in the input, or several owners would share a bank
            without being mapped to it.
        LockedError: If another import into the store is running.
        StoreError: If the store cannot be written; the import can be resumed.
    """
    require_owner(settings, "import")
    requested = options or ImportOptions()
    refuse_copy(settings, requested.receipt, *([_path_of(source)] if source is not None else []))
    target = bank or (None if requested.maps else settings.options.store.bank) or None
    with ExitStack() as stack:
        arriving = _arriving(settings, source, requested, stack)
        arriving.verify(
            requested.trusted_keys, requested.unsafe_accept, remember=not requested.dry_run
        )
        store: Store | None = None
        if not requested.dry_run:
            store = stack.enter_context(configured_store(settings))
            stack.enter_context(import_lock(settings, waits=True))
        elif has_store(settings):
            store = stack.enter_context(configured_store(settings, read_only=True))
        if requested.re_extract_entities:
            arriving.extract_entities()
        maker = None if requested.dry_run else owner
        work = _planned(settings, store, arriving, target, requested, maker, stack)
        arriving.require_unchanged()
        if not requested.dry_run:
            work.log()
            work.reuse_vectors()
            if requested.re_embed:
                work.embed()
            else:
                work.keep_up()
            tell_imported(settings, work.banks.values())
    accounts, receipts = work.accounted()
    ids, notes = (
        save_receipts(settings, receipts, requested.receipt)
        if requested.keeps_receipt
        else ([], [])
    )
    return ImportSummary(
        input=arriving.name,
        source_format=arriving.format,
        input_digest=arriving.digest,
        input_bytes=arriving.size,
        banks=list(work.banks.values()),
        losses=list(arriving.report.losses.values()),
        notes=[*arriving.report.notes, *work.notes, *notes],
        refused=arriving.report.refused,
        agent=arriving.reading.container.get("agent_name"),
        near_found=work.near.found,
        near=work.near.pairs,
        secrets=arriving.screening.found,
        secrets_kept=arriving.screening.kept,
        source_outcome=arriving.verdict.outcome.value if arriving.verdict else None,
        dry_run=requested.dry_run,
        plan=plan_of_import(work) if requested.dry_run else None,
        receipts=ids,
        accounts=accounts,
        unaccepted=unaccepted(arriving.report, requested.accept_loss),
        advice=None if _is_vouched_for(arriving) else _advice(list(work.banks.values())),
    )


def _by_settings(
    settings: Settings, bank: str | None, options: ImportOptions, arriving: ImportSource
) -> ImportOptions:
    """Return the options, completed by the settings of the bank."""
    bank_settings = settings_for(settings, bank)
    if bank_settings.scrub_secrets:
        arriving.scrub_if_possible()
    if options.on_conflict is not None:
        return options
    return replace(
        options, on_conflict=ConflictPolicy(bank_settings.on_conflict or ConflictPolicy.SKIP)
    )


def _planned(  # noqa: PLR0913 - parts of one import
    settings: Settings,
    store: Store | None,
    arriving: ImportSource,
    target: str | None,
    options: ImportOptions,
    owner: Owners | None,
    stack: ExitStack,
) -> ImportJob:
    """Return the planned import: into the named bank, each owner's bank, or the default bank."""

    def planned(bank: str | None, one_owner: OneOwner | None) -> ImportJob:
        chosen = _by_settings(settings, bank, options, arriving)
        work = ImportJob(settings, store, arriving, bank, chosen, owner, one_owner=one_owner)
        stack.callback(work.close)
        work.plan()
        return work

    if target is None and not options.maps and arriving.is_personal:
        default = _default_bank(settings, store)
        if default is not None:
            return planned(default, "personal")
    try:
        return planned(target, None)
    except NoOwnerError:
        default = _default_bank(settings, store)
        if default is None:
            raise
        return planned(default, "unowned")


def _default_bank(settings: Settings, store: Store | None) -> str | None:
    """Return the name or ID of the default bank; None if there is no bank yet.

    Raises:
        UsageError: If there are several, and none is the default.
    """
    if store is None:
        return None
    try:
        bank = chosen_bank(settings, store, None)
    except UnknownBankError:
        return None
    with store.reading() as reader:
        name = name_of(reader, bank)
        return name if name is not None and find_by_name(reader, name) == [bank] else bank


def _is_vouched_for(arriving: ImportSource) -> bool:
    """Return whether a trusted key signed the input."""
    verdict = arriving.verdict
    return verdict is not None and verdict.outcome in (Outcome.GOOD, Outcome.OLDER)


def _advice(banks: Sequence[BankImportResult]) -> str | None:
    """Return how to scan for instructions in imported memories; None if nothing was imported."""
    names = [one.name or one.bank for one in banks if one.source is not None]
    if not names:
        return None
    where = f"--bank {shlex.quote(str(names[0]))}" if len(names) == 1 else "--bank NAME, for each"
    return f"to scan imported memories for instructions: satchel quarantine scan {where}"


def _path_of(source: Path | OpenFile | str) -> Path:
    return source.path if isinstance(source, OpenFile) else Path(source)


def _arriving(
    settings: Settings,
    source: Path | OpenFile | str | None,
    options: ImportOptions,
    stack: ExitStack,
) -> ImportSource:
    """Return the input: a file, or the listing of a live source."""
    name = "standard input" if source is None else str(source)
    scrub, tell = options.scrub_secrets, options.on_reading
    is_open = source is None or isinstance(source, OpenFile)
    live = None if is_open else connector_for(name, options.source_format)
    if live is not None:
        require_uncontained(settings, name)
        how = ConnectorOptions(
            include_deleted=options.include_deleted,
            embeddings=options.embeddings,
            skip_bad=options.skip_bad,
        )
        listing = stack.enter_context(list_source(live, name, settings, how))
        arriving = ImportSource(
            settings, listing, display_address(live, name), live, tell, scrub=scrub
        )
        arriving.skip_bad, arriving.text_member = options.skip_bad, options.text_member
        return arriving
    if options.include_deleted or options.embeddings:
        raise UsageError(
            "only a live source, such as a mem0-local folder, has deleted memories and vectors",
            field="include_deleted" if options.include_deleted else "embeddings",
        )
    path_or_file = Path(source) if isinstance(source, str) else source
    file = stack.enter_context(open_rereadable(settings, path_or_file))
    arriving = ImportSource(settings, file, name, options.source_format, tell, scrub=scrub)
    arriving.skip_bad, arriving.text_member = options.skip_bad, options.text_member
    arriving.agent, arriving.any_version = options.agent, options.any_version
    arriving.without = options.without
    stack.callback(arriving.close)
    if isinstance(path_or_file, Path | OpenFile) and not options.ignore_sidecar:
        path = _path_of(path_or_file)
        sidecar = stack.enter_context(
            found_beside(settings, path, options.sidecar, arriving.digest)
        )
        if sidecar is not None:
            arriving.restore_from(sidecar)
        elif was_written_with_one(settings, arriving.digest):
            arriving.lacks_sidecar = True
    return arriving


UndoProgress = Callable[[int, int], None]


class ImportLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One import in a listing."""

    source: str
    format: str
    at: str | None
    records: int
    state: str
    """``complete``, ``begun`` (killed, or running) or ``undone``."""

    digest: str | None = None


class UndoResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of undoing an import."""

    source: str
    records: int
    already: bool = False
    """Whether it was already undone."""

    replaced: list[str] = []
    """Memories that stay replaced, since later records replaced them again."""

    agent: str | None = None
    """The agent whose files and settings were undone, too; None for memory only."""

    stays: list[str] = []
    """Files of that agent that were changed since, and are kept."""

    dry_run: bool = False


def list_imports(settings: Settings, bank: str | None) -> list[ImportLine]:
    """Return the imports into a bank, in the order of their start."""
    with open_bank(settings, bank) as opened:
        return list_imports_in(opened)


def list_imports_in(bank: OpenBank) -> list[ImportLine]:
    """Return the imports into an open bank, in the order of their start."""
    require_owner(bank.settings, "undo")
    with bank.ledger.reading() as view:
        imports = view.imports()
        sources = view.get([imported.source for imported in imports])
        lines = []
        for imported in imports:
            value = sources[imported.source].record.value
            lines.append(
                ImportLine(
                    source=imported.source,
                    format=value["format"],
                    at=value.get("at"),
                    records=imported.records,
                    state=_state(imported),
                    digest=value.get("digest"),
                )
            )
        return lines


def undo_import(
    settings: Settings,
    bank: str | None,
    source: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
) -> UndoResult:
    """Undo an import: its records are retired, and those that it replaced are restored.

    Args:
        settings: Settings with the store and the keys.
        bank: The bank; see ``open_bank``.
        source: ID of the source record, or a prefix; None for the last import that is not undone.
        reason: Reason, for the log.
        dry_run: Change nothing.

    Raises:
        UnknownImportError: If there is no such import.
    """
    require_owner(settings, "undo")
    with open_bank(settings, bank, writes=not dry_run) as opened:
        return undo_in(opened, source, reason=reason, dry_run=dry_run)


def undo_in(
    bank: OpenBank,
    source: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
    progress: UndoProgress | None = None,
) -> UndoResult:
    """Undo an import into an open bank; see ``undo_import``.

    Args:
        bank: The bank.
        source: As ``undo_import``.
        reason: Reason, for the log.
        dry_run: Change nothing.
        progress: Called with the number of its records done, and the total.
    """
    require_owner(bank.settings, "undo")
    with bank.ledger.reading() as view:
        imported = _chosen_import(bank, view.imports(), source)
    replaced = list[str]()
    if not imported.undone and not dry_run:
        replaced = revert_import(bank.ledger, imported.source, reason, progress)
        bank.tell("on_undo", [imported.source], {"records": imported.records})
    return UndoResult(
        source=imported.source,
        records=imported.records,
        already=imported.undone,
        replaced=replaced,
        dry_run=dry_run,
    )


def _chosen_import(bank: OpenBank, imports: list[LogImport], source: str | None) -> LogImport:
    if source is None:
        matches = [imported for imported in imports if not imported.undone][-1:]
    else:
        digits = id_digits(source)
        start = f"{ID_PREFIX}{digits}"
        matches = [each for each in imports if digits and each.source.startswith(start)]
        ids = {each.source for each in matches}
        require_one(ids, source, "source", noun="imports", error=UnknownImportError)
    if not matches:
        wanted = "import to undo" if source is None else f"import {source[:80]!r}"
        raise UnknownImportError(
            f"the bank {bank.name or bank.id!r} has no {wanted}",
            field="source",
            hint="See: satchel bank imports. For another bank, add --bank NAME.",
        )
    return matches[0]


def _state(one: LogImport) -> str:
    if one.undone:
        return "undone"
    return "complete" if one.complete else "begun"


class JobCancelResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of cancelling a job."""

    job: Job
    records: int
    """Number of records that were removed; they were never visible."""


def list_jobs(settings: Settings) -> list[Job]:
    """Return the incomplete imports, oldest first.

    Raises:
        VerificationError: If a bank is not what was signed.
    """
    require_owner(settings, "jobs")
    if not has_store(settings):
        return []
    with configured_store(settings, read_only=True) as store:
        parts = [(journal, _part(bank, journal)) for bank, journal in _journals(settings, store)]
    running = _is_running(settings) if parts else False
    newest = max((journal.at for journal, _ in parts), default="")
    # Only one import runs at a time: assume that it is the one that began last, since a resumed one
    # cannot be identified.
    active = {job_id(journal): running and journal.at == newest for journal, _ in parts}
    return jobs_of(parts, active)


def resume_job(
    settings: Settings,
    prefix: str,
    owner: Owners,
    *,
    on_reading: Progress | None = None,
    on_step: OnStep | None = None,
) -> ImportSummary:
    """Resume an interrupted import with its original options.

    Args:
        settings: Settings with the store and the keys.
        prefix: ID of the job, or a prefix.
        owner: Returns the key that owns new banks.
        on_reading: As in ``ImportOptions``.
        on_step: As in ``ImportOptions``.

    Raises:
        UnknownJobError: If there is no such job.
        UsageError: If its input is unknown or has changed, or an option is unknown.
        SatchelError: As ``import_file``.
    """
    require_owner(settings, "jobs")
    job = _chosen(list_jobs(settings), prefix)
    if job.input is None:
        raise UsageError(
            "it was read from standard input, or was started by an older version",
            field=job.id,
            hint=f"Run the same import again to resume it, or: satchel job cancel {job.id}",
        )
    try:
        options = replace(
            _options(job.options), resumes=job.id, on_reading=on_reading, on_step=on_step
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
        on_conflict=ConflictPolicy(stored.get("on_conflict", "skip")),
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


def _near(stored: str | None) -> NearDuplicateMode | None:
    return None if stored is None else NearDuplicateMode(stored)


def cancel_job(settings: Settings, prefix: str, *, reason: str | None = None) -> JobCancelResult:
    """Remove what an interrupted import logged; it was never visible.

    Raises:
        UnknownJobError: If there is no such job.
        LockedError: If it is running.
    """
    require_owner(settings, "jobs")
    job = _chosen(list_jobs(settings), prefix)
    records = 0
    with configured_store(settings) as store, import_lock(settings):
        for bank, journal in list(_journals(settings, store, writes=True)):
            if job_id(journal) == job.id:
                records += _part(bank, journal).done
                revert_import(bank.ledger, journal.source, reason or "cancelled")
    return JobCancelResult(job=job, records=records)


def _chosen(jobs: list[Job], prefix: str) -> Job:
    digits = id_digits(prefix)
    matches = [
        job
        for job in jobs
        if digits is not None
        and any(
            name.removeprefix(ID_PREFIX).startswith(digits)
            for name in (job.id, *(part.source for part in job.parts))
        )
    ]
    ids = [job.id for job in matches]
    require_one(ids, prefix, "job", noun="jobs", error=UnknownJobError)
    if not matches:
        raise UnknownJobError(
            f"there is no job {prefix[:80]!r}", field="job", hint="See: satchel job list"
        )
    return matches[0]


def _journals(
    settings: Settings, store: Store, *, writes: bool = False
) -> Iterator[tuple[OpenBank, ImportJournal]]:
    with store.reading() as reader:
        banks = reader.banks()
    for bank in banks:
        opened = open_bank_in(settings, store, bank, writes=writes)
        with opened.ledger.reading() as view:
            found = list(journals(view))
        for journal in found:
            yield opened, journal


def _part(bank: OpenBank, journal: ImportJournal) -> JobPart:
    with bank.ledger.reading() as view:
        done = next(one.records for one in view.imports() if one.source == journal.source)
    return JobPart(
        bank=bank.id, name=bank.name, source=journal.source, done=done, total=journal.records
    )


def _is_running(settings: Settings) -> bool:
    """Return whether an import is running."""
    try:
        with import_lock(settings):
            return False
    except LockedError:
        return True
