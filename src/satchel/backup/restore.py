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
from satchel.backup.catalogue import Catalogue, StoredBackup
from satchel.backup.contents import put_files, require_free
from satchel.backup.destinations import (
    chosen_backup,
    is_trusted_signer,
    open_catalogue,
    require_trusted,
    source_said,
)
from satchel.backup.health import account_of, end_of, kept_receipts, numbers
from satchel.backup.manifests import BEFORE_RESTORE, AgentBackup, BankBackup
from satchel.backup.options import BackupOptions, RestoreOptions
from satchel.backup.restore_targets import (
    BankRestoreOptions,
    RestoredBank,
    RestoredFiles,
    RestoreResult,
    SessionRestore,
    authorize_replacement,
    put_back,
)
from satchel.backup.run import run_backup
from satchel.bank.connections import is_same, local_path, store_exists, temporary_store
from satchel.bank.keys import Owners
from satchel.bank.machine_keys import signers_of
from satchel.bank.open_bank import default_bank, inherit_default_bank, name_of
from satchel.bank.owner_rights import require_owner
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import (
    StoreError,
    UnknownBankError,
    UsageError,
    VerificationError,
    shown_address,
)
from satchel.files.bank_files import namespace_of
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

    What has been erased since the backup is erased again before anything is restored. Nothing that
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
    where = source_said(settings, path_text(options.destination))
    decide = owners or partial(signers_of, settings, options)
    with open_catalogue(settings, where) as catalogue:
        try:
            return RestoreTask(settings, catalogue, options, decide).done()
        except VerificationError as error:
            if error.hint is None:
                error.located(file=catalogue.name).hint = _ANOTHER
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
        catalogue: Catalogue,
        asked: RestoreOptions,
        owners: Callable[[], Owners],
    ) -> None:
        into = path_text(asked.into)
        self._settings = settings if into is None else settings.at(into)
        self._owners, self._keys = owners, texts(asked.trusted_keys)
        self._banks, self._agents_named = texts(asked.banks), texts(asked.agents)
        self._in_use, self._default = settings.store, default_bank(settings)
        self._catalogue, self._asked = catalogue, asked
        self._target = self._settings.store
        # With accept_loss, the target store is the one to use from now on.
        self._beside = not asked.accept_loss and not is_same(self._target, settings.store)
        self._safety: str | None = None
        self._recipients = tuple[str, ...]()
        self._done = self._total = 0
        self._began = now()

    def done(self) -> RestoreResult:
        """Perform the restore."""
        found, notes = self._chosen()
        require_trusted(self._settings, found, self._keys)
        require_lists(self._catalogue, found)
        self._recipients = tuple(found.manifest.recipients)
        parts = self._parts(found)
        self._total = 3 * sum(part.size for part in parts)
        if self._asked.session is not None:
            return self._session(found, parts, notes)
        wants_files = self._wants_files
        if wants_files:
            self._require_room(found)
        agents = self._agents(found)
        if self._asked.at is not None and (agents or (wants_files and found.manifest.files)):
            notes.append(f"files are restored as of {found.manifest.at}, when the backup was made")
        accounts = list[ReceiptBody]()
        with temporary_store() as store:
            made = [one for part in parts if (one := self._made(store, found, part)) is not None]
            # All checks come before anything is written.
            banks = [self._put(store, one, found, dry_run=True) for one in made]
            if not self._asked.dry_run:
                banks = [self._put(store, one, found, dry_run=False) for one in made]
                self._keep_default([one.bank for one in made])
                pairs = zip(made, banks, strict=True)
                accounts = [self._account(store, found, one, bank) for one, bank in pairs]
        return self._restored(
            found,
            [*notes, *(f"not in the backup: {one}" for one in found.manifest.missing)],
            accounts,
            banks=banks,
            files=list(self._files(found)) if wants_files else [],
            agents=list(agents.put()),
        )

    def _keep_default(self, banks: list[str]) -> None:
        """Set the default bank of a new store to that of the store in use, if it has none."""
        if not is_same(self._target, self._in_use):
            inherit_default_bank(self._settings, self._default, banks)

    @property
    def _wants_files(self) -> bool:
        """Whether memory files are restored: only with the whole backup, in place."""
        asked = self._asked
        return asked.files and not (asked.banks or asked.agents) and asked.into is None

    def _agents(self, found: StoredBackup) -> AgentsRestore:
        """Return the agents whose files and settings are restored."""
        asked, parts = self._asked, list[AgentBackup]()
        is_here = asked.into is None or asked.workspace is not None
        if asked.files and asked.agents and is_here:
            parts = agents_in(found.manifest, self._agents_named)
        elif self._wants_files:
            parts = found.manifest.agents
        return AgentsRestore(self._settings, parts, self._catalogue.packs(found), asked)

    def _restored(
        self, found: StoredBackup, notes: list[str], accounts: list[ReceiptBody], **done: Any
    ) -> RestoreResult:
        receipts, problems = kept_receipts(self._settings, accounts)
        return RestoreResult(
            source=shown_address(self._catalogue.name),
            backup=found.id,
            taken=found.manifest.at,
            at=self._asked.at,
            target=shown_address(self._target),
            dry_run=self._asked.dry_run,
            receipts=receipts,
            notes=[*notes, *problems],
            **done,
        )

    def _session(
        self, found: StoredBackup, parts: list[BankBackup], notes: list[str]
    ) -> RestoreResult:
        """Restore one conversation, without replacing anything."""
        if len(parts) != 1:
            raise UsageError(
                f"the backup has {len(parts)} banks; choose the one that has the session",
                field="bank",
                hint="Use --bank NAME.",
            )
        with temporary_store() as store:
            made = self._made(store, found, parts[0])
            if made is None:
                raise UsageError("the bank did not exist yet at that time", field="at")
            back = SessionRestore(self._settings, store, parts[0], self._asked, self._owners)
            end = end_of(found, parts[0])
            done = back.done(f"restored from the backup {found.id}")
            accounts = [] if self._asked.dry_run else [back.account(self._began, end, done)]
        return self._restored(found, notes, accounts, banks=[], session=done)

    def _account(
        self, store: Store, found: StoredBackup, made: StagedBank, bank: RestoredBank
    ) -> ReceiptBody:
        """Return the receipt body for one bank."""
        with store.reading() as reader:
            counts = dict(sorted(reader.counts(made.bank).items()))
        there = TransferEnd(
            name=receipt_text(bank.name or bank.bank),
            bank=bank.bank,
            store=receipt_text(shown_address(self._target)),
            size=bank.size,
            root=bank.root,
            records=bank.size,
        )
        account = account_of("restore", self._began, (end_of(found, made.part), there), counts)
        return msgspec.structs.replace(
            account,
            unchanged=bank.relation is Relation.SAME,
            done=numbers(
                carried=bank.carried, erased_again=bank.erased_again, given_up=bank.given_up
            ),
            notes=[receipt_text(one) for one in (*bank.notes, *_safe(bank))],
        )

    def _chosen(self) -> tuple[StoredBackup, list[str]]:
        """Return the backup to read: for a given time, the first one after it.

        Its log includes that time; if there is none, the newest backup is used.
        """
        every = self._catalogue.all()
        bank = self._banks[0] if len(self._banks) == 1 else None
        at, wanted = self._asked.at, self._asked.backup
        if at is None or wanted is not None:
            agents = self._agents_named
            found = chosen_backup(every, wanted, self._catalogue, bank=bank, agents=agents)
            return found, [] if found.verified else ["this backup has never been fully verified"]
        believed = [one for one in every if is_trusted_signer(self._settings, one.key, self._keys)]
        later = [one for one in believed if one.verified and one.manifest.at >= at]
        if bank is not None:
            later = [one for one in later if _named(one, bank)]
        if later:
            return later[0], []
        earlier = [one for one in believed if one.manifest.at <= at]
        found = chosen_backup(earlier or every, None, self._catalogue, bank=bank)
        return found, [f"no backup is newer than {at}; using the nearest"]

    def _parts(self, found: StoredBackup) -> list[BankBackup]:
        parts = found.manifest.banks
        if not (self._banks or self._agents_named):
            return parts
        agents = agents_in(found.manifest, self._agents_named)
        names = [*self._banks, *(one.bank for one in agents if one.bank is not None)]
        chosen = [_named(found, name) for name in names]
        for name, some in zip(names, chosen, strict=True):
            if len(some) != 1:
                raise UnknownBankError(
                    f"the backup has no bank {name!r}" if not some else f"{name!r} means several",
                    file=found.id,
                    hint="See: satchel backup list.",
                )
        wanted = {part.bank for (part,) in chosen}
        return [part for part in parts if part.bank in wanted]

    def _made(self, store: Store, found: StoredBackup, part: BankBackup) -> StagedBank | None:
        """Build a bank in a temporary store, without what was erased since."""
        at = self._asked.at
        if not make_bank(self._settings, self._catalogue, found, part, at, store, self._tell):
            return None
        with self._newer() as stores:
            erased = erased_since(self._settings, self._catalogue, part.bank, stores, self._keys)
        erased += erased_here(self._settings, store, part.bank)
        # Only the conversation is copied from the bank.
        is_put = self._asked.session is None
        given_up = is_put and authorize_replacement(
            self._settings, store, part.bank, self._how(found, dry_run=self._asked.dry_run)
        )
        again = reapply_erasures(self._settings, store, part.bank, erased, self._owners)
        return StagedBank(part.bank, again, part, given_up=given_up)

    def _how(self, found: StoredBackup, *, dry_run: bool) -> BankRestoreOptions:
        return BankRestoreOptions(
            address=self._target,
            over=self._asked.overwrite,
            beside=self._beside,
            accept_loss=self._asked.accept_loss or self._asked.overwrite,
            owners=self._owners,
            proposes=self._asked.propose is not None or self._asked.allow_unsigned,
            safety=self._kept_safe,
            reason=f"restored from the backup {found.id}",
            dry_run=dry_run,
        )

    def _put(
        self, store: Store, made: StagedBank, found: StoredBackup, *, dry_run: bool
    ) -> RestoredBank:
        asked = self._how(found, dry_run=dry_run)
        path = local_path(self._target)
        if not dry_run and path is not None and path.parent == self._settings.home:
            private_folder(self._settings.home)
        with store.reading() as reader:
            source = load_replica(reader, made.bank)
            assert source is not None  # noqa: S101 - it was made just now
            put = put_back(self._settings, source, asked, self._tell)
            return RestoredBank(
                bank=made.bank,
                name=name_of(reader, made.bank),
                size=source.size,
                root=source.found.head.root,
                relation=put.relation,
                carried=put.carried,
                erased_again=made.erased_again,
                trust=put.trust,
                given_up=made.given_up or put.given_up,
                safety=put.safety,
                notes=put.notes,
            )

    @contextmanager
    def _newer(self) -> Iterator[list[Store]]:
        """Open the stores that may know what was erased since: the target and the one in use."""
        with ExitStack() as opened:
            stores = list[Store]()
            for address in dict.fromkeys((self._target, self._in_use)):
                if store_exists(address):
                    one = opened_at(self._settings, address, read_only=True)
                    with suppress(StoreError):  # the list at the destination has it, too
                        stores.append(opened.enter_context(one))
            yield stores

    def _kept_safe(self) -> str:
        """Create a safety copy of the present store, once for all banks; return its location.

        It is another backup, or a copy of the file if the store cannot be backed up.

        Raises:
            VerificationError: If neither is possible.
        """
        if self._safety is None:
            options = BackupOptions(
                destinations=(self._catalogue.name,),
                files=False,
                prune=False,
                # Next to an encrypted backup, nothing is stored unencrypted.
                encrypt_to=self._catalogue.locking.recipients or self._recipients,
            )
            made = run_backup.run(self._settings, options, reason=BEFORE_RESTORE).made[0]
            self._safety = made.id if made.error is None else self._copied(made.error)
        return self._safety or ""

    def _copied(self, problem: str) -> str:
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

    def _require_room(self, found: StoredBackup) -> None:
        """Require that memory files can be restored in place."""
        folder = folder_of(namespace_of(self._settings).path("x"))
        if folder is None and found.manifest.files:
            raise UsageError(
                "memory files are configured in a location that backups cannot restore to",
                field="files.storage_root",
                hint="Skip them: --no-files.",
            )
        if folder is None:
            return
        for part in found.manifest.files:
            require_free(part, folder.parent, over=self._asked.overwrite)

    def _files(self, found: StoredBackup) -> Iterator[RestoredFiles]:
        folder = folder_of(namespace_of(self._settings).path("x"))
        packs = self._catalogue.packs(found)
        if folder is None:
            return
        for part in found.manifest.files:
            aside = None
            if not self._asked.dry_run:
                aside = put_files(part, packs, folder.parent, over=self._asked.overwrite)
            yield RestoredFiles(key=part.key, aside=None if aside is None else str(aside))

    def _tell(self, records: int) -> None:
        self._done += records
        if self._asked.progress is not None:
            self._asked.progress(min(self._done, self._total), self._total)


def _safe(bank: RestoredBank) -> Iterator[str]:
    if bank.safety:
        yield f"the previous bank is in {bank.safety}"


def _named(found: StoredBackup, name: str) -> list[BankBackup]:
    parts = found.manifest.banks
    return [part for part in parts if part.bank == name] or [
        part for part in parts if part.name == name
    ]
