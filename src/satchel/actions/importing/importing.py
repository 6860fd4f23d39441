"""Importing a file into one bank, or into one for each owner in it."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.importing.accounts import plan_of_import
from satchel.actions.importing.alone import import_lock
from satchel.actions.importing.arriving import Arriving, arrived
from satchel.actions.importing.imported import BankImported, Imported, ImportOptions, Owners
from satchel.actions.importing.settling import settings_for, tell_imported
from satchel.actions.importing.work import Work
from satchel.actions.moving.connecting import Asked, connector_for, listed, shown
from satchel.actions.opened import called, chosen_bank, name_of
from satchel.actions.paths.permission import require_uncontained
from satchel.actions.permitted.owning import require_owner
from satchel.actions.receipts.keeping import keep, refuse_copy
from satchel.actions.receipts.sidecars import found as found_beside
from satchel.actions.receipts.sidecars import was_written_with_one
from satchel.actions.wiring import has_store, opened_store
from satchel.disk.reading import OpenFile
from satchel.errors import NoOwnerError, UnknownBankError, UsageError
from satchel.ports.store import Store
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.planned import OnConflict
from satchel.transfer.incoming.tenants import OneOwner
from satchel.transfer.receipts.account import unaccepted


def import_file(
    settings: Settings,
    source: Path | OpenFile | str | None,
    bank: str | None,
    owner: Owners,
    options: ImportOptions | None = None,
) -> Imported:
    """Import a file.

    All of it is read, checked and planned first; then it is logged in groups that nobody sees
    until the last is there. Whoever runs a killed import again goes on with it.

    Args:
        settings: Where the store and the keys are.
        source: The file, or the address or folder of a live product; None for the standard input.
        bank: The bank that everything goes into, made if it is not there; None for the one that
            is configured, or else one for each user, or agent where no user is named. A file that
            names neither, and an export of one person's account, goes into the default bank.
        owner: Gives the key that owns banks that are made.
        options: What is asked for.

    Raises:
        InputError: If the input cannot be read, is malformed or empty, or a memory's owner is not
            known and no bank was named. Nothing is changed.
        VerificationError: If a sealed input does not verify.
        ConflictError: With ``OnConflict.ERROR``, if there is one.
        ShortInputError: If the input says that it lacks something, and that was not accepted.
        UsageError: If an owner is sent somewhere who is not in it, or several owners' memory would
            go into one bank and nobody said so.
        LockedError: If another import into the store is running.
        StoreError: If the store cannot be written; the import can be gone on with.
    """
    require_owner(settings, "import")
    asked = options or ImportOptions()
    refuse_copy(settings, asked.receipt, *([_path_of(source)] if source is not None else []))
    wanted = bank or (None if asked.maps else settings.options.store.bank) or None
    with ExitStack() as stack:
        arriving = _arriving(settings, source, asked, stack)
        arriving.verify(asked.trusted_keys, asked.unsafe_accept, remember=not asked.dry_run)
        store: Store | None = None
        if not asked.dry_run:
            store = stack.enter_context(opened_store(settings))
            stack.enter_context(import_lock(settings, waits=True))
        elif has_store(settings):
            store = stack.enter_context(opened_store(settings, read_only=True))
        if asked.re_extract_entities:
            arriving.extract_entities()
        maker = None if asked.dry_run else owner
        work = _planned(settings, store, arriving, wanted, asked, maker, stack)
        arriving.require_unchanged()
        if not asked.dry_run:
            work.log()
            work.reuse_vectors()
            if asked.re_embed:
                work.embed()
            else:
                work.keep_up()
            tell_imported(settings, work.banks.values())
    accounts, receipts = work.accounted()
    ids, notes = keep(settings, receipts, asked.receipt) if asked.keeps_receipt else ([], [])
    return Imported(
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
        dry_run=asked.dry_run,
        plan=plan_of_import(work) if asked.dry_run else None,
        receipts=ids,
        accounts=accounts,
        unaccepted=unaccepted(arriving.report, asked.accept_loss),
        advice=None if _is_vouched_for(arriving) else _advice(list(work.banks.values())),
    )


def _by_settings(
    settings: Settings, wanted: str | None, asked: ImportOptions, arriving: Arriving
) -> ImportOptions:
    """Return what is asked for, completed by the settings of the bank that is meant."""
    says = settings_for(settings, wanted)
    if says.scrub_secrets:
        arriving.scrub_if_it_can_be()
    if asked.on_conflict is not None:
        return asked
    return replace(asked, on_conflict=OnConflict(says.on_conflict or OnConflict.SKIP))


def _planned(  # noqa: PLR0913 - of an import that is under way
    settings: Settings,
    store: Store | None,
    arriving: Arriving,
    wanted: str | None,
    asked: ImportOptions,
    owner: Owners | None,
    stack: ExitStack,
) -> Work:
    """Return the import into the bank that is named, each owner's, or the default bank, planned."""

    def planned(bank: str | None, one_owner: OneOwner | None) -> Work:
        chosen = _by_settings(settings, bank, asked, arriving)
        work = Work(settings, store, arriving, bank, chosen, owner, one_owner=one_owner)
        stack.callback(work.close)
        work.plan()
        return work

    if wanted is None and not asked.maps and arriving.is_personal:
        default = _default_bank(settings, store)
        if default is not None:
            return planned(default, "personal")
    try:
        return planned(wanted, None)
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
        return name if name is not None and called(reader, name) == [bank] else bank


def _is_vouched_for(arriving: Arriving) -> bool:
    """Tell whether a trusted key signed it, as the owner's does of their own backups."""
    verdict = arriving.verdict
    return verdict is not None and verdict.outcome in (Outcome.GOOD, Outcome.OLDER)


def _advice(banks: Sequence[BankImported]) -> str | None:
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
    asked: ImportOptions,
    stack: ExitStack,
) -> Arriving:
    """Return what arrives: a file, or what a live source lists."""
    name = "standard input" if source is None else str(source)
    scrub, tell = asked.scrub_secrets, asked.on_reading
    is_open = source is None or isinstance(source, OpenFile)
    live = None if is_open else connector_for(name, asked.source_format)
    if live is not None:
        require_uncontained(settings, name)
        how = Asked(
            include_deleted=asked.include_deleted,
            embeddings=asked.embeddings,
            skip_bad=asked.skip_bad,
        )
        found = stack.enter_context(listed(live, name, settings, how))
        arriving = Arriving(settings, found, shown(live, name), live, tell, scrub=scrub)
        arriving.skip_bad, arriving.text_member = asked.skip_bad, asked.text_member
        return arriving
    if asked.include_deleted or asked.embeddings:
        raise UsageError(
            "only a live source, such as a mem0-local folder, has deleted memories and vectors",
            field="include_deleted" if asked.include_deleted else "embeddings",
        )
    given = Path(source) if isinstance(source, str) else source
    file = stack.enter_context(arrived(settings, given))
    arriving = Arriving(settings, file, name, asked.source_format, tell, scrub=scrub)
    arriving.skip_bad, arriving.text_member = asked.skip_bad, asked.text_member
    arriving.agent, arriving.any_version = asked.agent, asked.any_version
    arriving.without = asked.without
    stack.callback(arriving.close)
    if isinstance(given, Path | OpenFile) and not asked.ignore_sidecar:
        path = _path_of(given)
        sidecar = stack.enter_context(found_beside(settings, path, asked.sidecar, arriving.digest))
        if sidecar is not None:
            arriving.restore_from(sidecar)
        elif was_written_with_one(settings, arriving.digest):
            arriving.lacks_sidecar = True
    return arriving
