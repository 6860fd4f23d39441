"""``satchel backup restore``: restore a bank to a new store or replace the present one.

The bank is first built in a temporary store from verified bytes, and what was erased since is
erased there again. Then it is copied to a store that does not have it, or replaces the existing
bank in one transaction, after a safety copy.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from satchel.backup.agents import AgentsRestore, agents_in
from satchel.backup.assembly import (
    erased_here,
    erased_since,
    make_bank,
    reapply_erasures,
    require_lists,
)
from satchel.backup.catalog import Catalog, StoredBackup
from satchel.backup.contents import put_files, require_free
from satchel.backup.destinations import (
    backup_end,
    chosen_backup,
    is_trusted_signer,
    nonzero_counts,
    open_catalog,
    receipt_body,
    require_trusted,
    source_destination,
    store_receipts,
)
from satchel.backup.manifests import BEFORE_RESTORE, AgentBackup, BankBackup
from satchel.backup.options import BackupOptions, RestoreOptions
from satchel.backup.restore_targets import (
    BankRestoreOptions,
    RestoredBank,
    RestoredFiles,
    RestoreResult,
    SessionRestore,
    authorize_replacement,
    restore_bank,
)
from satchel.backup.run import run_backup
from satchel.bank.connections import (
    is_same,
    local_path,
    store_exists,
    temporary_store,
)
from satchel.bank.keys import Owners
from satchel.bank.machine_keys import require_owner, signers_of
from satchel.bank.open_bank import default_bank, inherit_default_bank, name_of
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import (
    StoreError,
    UnknownBankError,
    UsageError,
    VerificationError,
    shown_address,
)
from satchel.files.catch_up import namespace_of
from satchel.files.paths import folder_of
from satchel.model.values import now
from satchel.ports.operations import operation, path_text, texts
from satchel.ports.store import RawCopyStore, Store
from satchel.receipts.receipt import ReceiptBody, TransferEnd, receipt_text
from satchel.replication.copies import Relation, load_replica
from satchel.replication.operations import opened_at
from satchel.runtime.private_files import private_folder

_ANOTHER = "Restore another backup (see: satchel backup list), or use another --destination."


@operation(
    RestoreOptions,
    name="backup restore",
    example="satchel backup restore --at 2026-01-31T12:00:00Z --into old.db",
    absent=NOT_FOR_MODELS,
)
def restore_backup(
    settings: Settings, options: RestoreOptions, *, owners: Callable[[], Owners] | None = None
) -> RestoreResult:
    """Restore a backup: everything, some banks, an agent, one conversation, or a point in time.

    Memories erased since the backup are erased again before anything is visible. Nothing that
    exists is replaced without `--overwrite`, and then it is backed up first. A conversation needs
    no `--overwrite`: missing messages are added, deleted ones return, and later ones stay. A signed
    receipt is stored.

    Args:
        settings: Settings of the machine: keys, trust, witness.
        options: What to restore, and to which store.
        owners: Returns the keys of owners, if a decision must be signed.

    Raises:
        EmptyInputError, UnknownBackupError: If there is no such backup.
        UnknownBankError: If it does not have the bank.
        VerificationError: If it is not what was signed, or its signer is not trusted.
        TargetExistsError: If something exists that lacks nothing of the backup, or has other
            records, and may not be replaced. Nothing is written then.
        SigningKeyError: If a decision must be signed, and the owner's key is not here.
        TargetError, StoreError: If something cannot be read or written.
    """
    require_owner(settings, "backup")
    destination = source_destination(settings, path_text(options.destination))
    decide = owners or partial(signers_of, settings, options)
    with open_catalog(settings, destination) as catalog:
        try:
            return RestoreTask(settings, catalog, options, decide).done()
        except VerificationError as error:
            if error.hint is None:
                error.located(file=catalog.name).hint = _ANOTHER
            raise


class StagedBank(NamedTuple):
    """A bank in a temporary store."""

    bank: str
    erased_again: int
    part: BankBackup
    given_up: bool
    """Whether records that this machine has seen are lost."""


class RestoreTask:
    """One restore."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        options: RestoreOptions,
        owners: Callable[[], Owners],
    ) -> None:
        address = path_text(options.into)
        self._settings = settings if address is None else settings.at(address)
        self._owners, self._keys = owners, texts(options.trusted_keys)
        self._banks, self._agent_names = texts(options.banks), texts(options.agents)
        self._in_use, self._default = settings.store, default_bank(settings)
        self._catalog, self._options = catalog, options
        self._target = self._settings.store
        # With accept_loss, the target store is the one to use from now on.
        self._beside = not options.accept_loss and not is_same(self._target, settings.store)
        self._safety: str | None = None
        self._recipients = tuple[str, ...]()
        self._done = self._total = 0
        self._began = now()

    def done(self) -> RestoreResult:
        """Perform the restore."""
        backup, notes = self._chosen()
        require_trusted(self._settings, backup, self._keys)
        require_lists(self._catalog, backup)
        self._recipients = tuple(backup.manifest.recipients)
        parts = self._parts(backup)
        self._total = 3 * sum(part.size for part in parts)
        if self._options.session is not None:
            return self._session(backup, parts, notes)
        wants_files = self._wants_files
        if wants_files:
            self._require_room(backup)
        agents = self._agents(backup)
        if self._options.at is not None and (agents or (wants_files and backup.manifest.files)):
            notes.append(f"files are restored as of {backup.manifest.at}, when the backup was made")
        accounts = list[ReceiptBody]()
        with temporary_store() as store:
            staged = [
                bank for part in parts if (bank := self._stage(store, backup, part)) is not None
            ]
            # All checks come before anything is written.
            banks = [self._put(store, bank, backup, dry_run=True) for bank in staged]
            if not self._options.dry_run:
                banks = [self._put(store, bank, backup, dry_run=False) for bank in staged]
                self._keep_default([bank.bank for bank in staged])
                pairs = zip(staged, banks, strict=True)
                accounts = [self._account(store, backup, bank, result) for bank, result in pairs]
        return self._restored(
            backup,
            [*notes, *(f"not in the backup: {problem}" for problem in backup.manifest.missing)],
            accounts,
            banks=banks,
            files=list(self._files(backup)) if wants_files else [],
            agents=list(agents.put()),
        )

    def _keep_default(self, banks: list[str]) -> None:
        """Set the default bank of a new store to that of the store in use, if it has none."""
        if not is_same(self._target, self._in_use):
            inherit_default_bank(self._settings, self._default, banks)

    @property
    def _wants_files(self) -> bool:
        """Whether memory files are restored: only with the whole backup, in place."""
        options = self._options
        return options.files and not (options.banks or options.agents) and options.into is None

    def _agents(self, backup: StoredBackup) -> AgentsRestore:
        """Return the agents whose files and settings are restored."""
        options, parts = self._options, list[AgentBackup]()
        is_here = options.into is None or options.workspace is not None
        if options.files and options.agents and is_here:
            parts = agents_in(backup.manifest, self._agent_names)
        elif self._wants_files:
            parts = backup.manifest.agents
        return AgentsRestore(self._settings, parts, self._catalog.packs(backup), options)

    def _restored(
        self, backup: StoredBackup, notes: list[str], accounts: list[ReceiptBody], **done: Any
    ) -> RestoreResult:
        receipts, problems = store_receipts(self._settings, accounts)
        return RestoreResult(
            source=shown_address(self._catalog.name),
            backup=backup.id,
            taken=backup.manifest.at,
            at=self._options.at,
            target=shown_address(self._target),
            dry_run=self._options.dry_run,
            receipts=receipts,
            notes=[*notes, *problems],
            **done,
        )

    def _session(
        self, backup: StoredBackup, parts: list[BankBackup], notes: list[str]
    ) -> RestoreResult:
        """Restore one conversation, without replacing anything."""
        if len(parts) != 1:
            raise UsageError(
                f"the backup has {len(parts)} banks; choose the one that has the session",
                field="bank",
                hint="Use --bank NAME.",
            )
        with temporary_store() as store:
            staged = self._stage(store, backup, parts[0])
            if staged is None:
                raise UsageError("the bank did not exist yet at that time", field="at")
            task = SessionRestore(self._settings, store, parts[0], self._options, self._owners)
            end = backup_end(backup, parts[0])
            done = task.done(f"restored from the backup {backup.id}")
            accounts = [] if self._options.dry_run else [task.account(self._began, end, done)]
        return self._restored(backup, notes, accounts, banks=[], session=done)

    def _account(
        self, store: Store, backup: StoredBackup, staged: StagedBank, bank: RestoredBank
    ) -> ReceiptBody:
        """Return the receipt body for one bank."""
        with store.reading() as reader:
            counts = dict(sorted(reader.counts(staged.bank).items()))
        target = TransferEnd(
            name=receipt_text(bank.name or bank.bank),
            bank=bank.bank,
            store=receipt_text(shown_address(self._target)),
            size=bank.size,
            root=bank.root,
            records=bank.size,
        )
        account = receipt_body(
            "restore", self._began, (backup_end(backup, staged.part), target), counts
        )
        return msgspec.structs.replace(
            account,
            unchanged=bank.relation is Relation.SAME,
            done=nonzero_counts(
                carried=bank.carried, erased_again=bank.erased_again, given_up=bank.given_up
            ),
            notes=[receipt_text(note) for note in (*bank.notes, *_safe(bank))],
        )

    def _chosen(self) -> tuple[StoredBackup, list[str]]:
        """Return the backup to read: for a given time, the first one after it.

        Its log includes that time; if there is none, the newest backup is used.
        """
        every = self._catalog.all()
        bank = self._banks[0] if len(self._banks) == 1 else None
        at, requested = self._options.at, self._options.backup
        if at is None or requested is not None:
            agents = self._agent_names
            chosen = chosen_backup(every, requested, self._catalog, bank=bank, agents=agents)
            return chosen, [] if chosen.verified else ["this backup has never been fully verified"]
        trusted = [
            backup for backup in every if is_trusted_signer(self._settings, backup.key, self._keys)
        ]
        later = [backup for backup in trusted if backup.verified and backup.manifest.at >= at]
        if bank is not None:
            later = [backup for backup in later if _banks_called(backup, bank)]
        if later:
            return later[0], []
        earlier = [backup for backup in trusted if backup.manifest.at <= at]
        chosen = chosen_backup(earlier or every, None, self._catalog, bank=bank)
        return chosen, [f"no backup is newer than {at}; using the nearest"]

    def _parts(self, backup: StoredBackup) -> list[BankBackup]:
        parts = backup.manifest.banks
        if not (self._banks or self._agent_names):
            return parts
        agents = agents_in(backup.manifest, self._agent_names)
        names = [*self._banks, *(agent.bank for agent in agents if agent.bank is not None)]
        chosen = [_banks_called(backup, name) for name in names]
        for name, matching in zip(names, chosen, strict=True):
            if len(matching) != 1:
                raise UnknownBankError(
                    f"the backup has no bank {name!r}"
                    if not matching
                    else f"{name!r} means several",
                    file=backup.id,
                    hint="See: satchel backup list.",
                )
        ids = {part.bank for (part,) in chosen}
        return [part for part in parts if part.bank in ids]

    def _stage(self, store: Store, backup: StoredBackup, part: BankBackup) -> StagedBank | None:
        """Build a bank in a temporary store, without what was erased since."""
        at = self._options.at
        if not make_bank(self._settings, self._catalog, backup, part, at, store, self._tell):
            return None
        with self._newer() as stores:
            erased = erased_since(self._settings, self._catalog, part.bank, stores, self._keys)
        erased += erased_here(self._settings, store, part.bank)
        # Only the conversation is copied from the bank.
        is_put = self._options.session is None
        given_up = is_put and authorize_replacement(
            self._settings,
            store,
            part.bank,
            self._bank_options(backup, dry_run=self._options.dry_run),
        )
        again = reapply_erasures(self._settings, store, part.bank, erased, self._owners)
        return StagedBank(part.bank, again, part, given_up=given_up)

    def _bank_options(self, backup: StoredBackup, *, dry_run: bool) -> BankRestoreOptions:
        return BankRestoreOptions(
            address=self._target,
            overwrite=self._options.overwrite,
            beside=self._beside,
            accept_loss=self._options.accept_loss or self._options.overwrite,
            owners=self._owners,
            proposes=self._options.propose is not None or self._options.allow_unsigned,
            safety=self._safety_copy,
            reason=f"restored from the backup {backup.id}",
            dry_run=dry_run,
        )

    def _put(
        self, store: Store, staged: StagedBank, backup: StoredBackup, *, dry_run: bool
    ) -> RestoredBank:
        options = self._bank_options(backup, dry_run=dry_run)
        path = local_path(self._target)
        if not dry_run and path is not None and path.parent == self._settings.home:
            private_folder(self._settings.home)
        with store.reading() as reader:
            source = load_replica(reader, staged.bank)
            assert source is not None  # noqa: S101 - it was made just now
            result = restore_bank(self._settings, source, options, self._tell)
            return RestoredBank(
                bank=staged.bank,
                name=name_of(reader, staged.bank),
                size=source.size,
                root=source.trusted.head.root,
                relation=result.relation,
                carried=result.carried,
                erased_again=staged.erased_again,
                trust=result.trust,
                given_up=staged.given_up or result.given_up,
                safety=result.safety,
                notes=result.notes,
            )

    @contextmanager
    def _newer(self) -> Iterator[list[Store]]:
        """Open the stores that may know what was erased since: the target and the one in use."""
        with ExitStack() as opened:
            stores = list[Store]()
            for address in dict.fromkeys((self._target, self._in_use)):
                if store_exists(address):
                    opening = opened_at(self._settings, address, read_only=True)
                    with suppress(StoreError):  # the list at the destination has it, too
                        stores.append(opened.enter_context(opening))
            yield stores

    def _safety_copy(self) -> str:
        """Create a safety copy of the present store, once for all banks; return its location.

        It is another backup, or a copy of the file if the store cannot be backed up.

        Raises:
            VerificationError: If neither is possible.
        """
        if self._safety is None:
            options = BackupOptions(
                destinations=(self._catalog.name,),
                files=False,
                prune=False,
                # Next to an encrypted backup, nothing is stored unencrypted.
                encrypt_to=self._catalog.locking.recipients or self._recipients,
            )
            result = run_backup.run(self._settings, options, reason=BEFORE_RESTORE).made[0]
            self._safety = result.id if result.error is None else self._copy_file(result.error)
        return self._safety or ""

    def _copy_file(self, problem: str) -> str:
        path = local_path(self._target)
        with opened_at(self._settings, self._target, read_only=True) as store:
            if path is None or not isinstance(store, RawCopyStore) or not store.traits.raw_copy:
                raise VerificationError(
                    f"cannot back up the current store first: {problem}",
                    hint="Nothing was changed. Restore into another store: --into ADDRESS.",
                )
            stamp = now().replace(":", "").replace("-", "").partition(".")[0]
            safe = path.with_name(f"{path.name}.before-restore-{stamp}")
            store.copy_to(safe)
            return str(safe)

    def _require_room(self, backup: StoredBackup) -> None:
        """Require that memory files can be restored in place."""
        folder = folder_of(namespace_of(self._settings).path("x"))
        if folder is None and backup.manifest.files:
            raise UsageError(
                "memory files are configured in a location that backups cannot restore to",
                field="files.storage_root",
                hint="Skip them: --no-files.",
            )
        if folder is None:
            return
        for part in backup.manifest.files:
            require_free(part, folder.parent, overwrite=self._options.overwrite)

    def _files(self, backup: StoredBackup) -> Iterator[RestoredFiles]:
        folder = folder_of(namespace_of(self._settings).path("x"))
        packs = self._catalog.packs(backup)
        if folder is None:
            return
        for part in backup.manifest.files:
            aside = None
            if not self._options.dry_run:
                aside = put_files(part, packs, folder.parent, overwrite=self._options.overwrite)
            yield RestoredFiles(key=part.key, aside=None if aside is None else str(aside))

    def _tell(self, records: int) -> None:
        self._done += records
        if self._options.progress is not None:
            self._options.progress(min(self._done, self._total), self._total)


def _safe(bank: RestoredBank) -> Iterator[str]:
    if bank.safety:
        yield f"the previous bank is in {bank.safety}"


def _banks_called(backup: StoredBackup, name: str) -> list[BankBackup]:
    parts = backup.manifest.banks
    return [part for part in parts if part.bank == name] or [
        part for part in parts if part.name == name
    ]
