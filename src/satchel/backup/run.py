"""``satchel backup run``: back up the store to each destination, and verify each backup.

If one destination fails, the run continues with the others, and reports the failure at the end: by
its exit status, to hooks, and in ``doctor`` until a later run succeeds.
"""

import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from satchel.agents.agents import agent_called
from satchel.backup.agents import take_agents
from satchel.backup.catalog import Catalog, StoredBackup, new_id, read_erasures
from satchel.backup.contents import (
    PreviousBackup,
    VerificationCounts,
    keys_in,
    put_log,
    take_files,
    verify_contents,
)
from satchel.backup.destinations import (
    backup_lock,
    destinations,
    failed,
    open_catalog,
    selected_agents,
    series_of,
    succeeded,
)
from satchel.backup.manifests import (
    AgentBackup,
    BackupBlob,
    BankBackup,
    BankIndex,
    FilesBackup,
    Manifest,
    put_index,
)
from satchel.backup.options import BackupOptions
from satchel.backup.prune import BackupPruneResult, drop_old
from satchel.backup.storage import PIECE_BYTES, Compression, Packs, Ref, require_compression
from satchel.bank.connections import (
    again_if_disturbed,
    configured_store,
    has_store,
    open_ledger,
    writer_key,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import find_bank
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import (
    ConfigError,
    EmptyInputError,
    SatchelError,
    UnknownBankError,
    VerificationError,
    shown_address,
)
from satchel.files.catch_up import namespace_of
from satchel.files.paths import folder_of
from satchel.ledger.heads import read_bank_name
from satchel.model.values import format_time, now, tool_version
from satchel.ports.operations import operation, texts
from satchel.ports.store import Reader, Store, verified_pieces
from satchel.replication.copies import Replica, blobs_of, load_replica, side_of

_SIDE_TOGETHER = 1 << 20


def take_bank(reader: Reader, bank: str, before: PreviousBackup | None, packs: Packs) -> BankBackup:
    """Write a bank, and return its part of the manifest.

    Args:
        reader: A view of the store.
        bank: ID of the bank.
        before: The bank in the last backup, whose packs exist.
        packs: Packs to write.

    Raises:
        UnknownBankError: If there is no such bank.
        VerificationError: If it is not what was signed.
        TargetError: If it cannot be written.
    """
    source = load_replica(reader, bank)
    if source is None:
        raise UnknownBankError(f"there is no bank {bank}")
    index = BankIndex(
        segments=put_log(source, before, packs),
        blobs=list(_blobs(source, before, packs)),
        side=list(_side(source, packs)),
    )
    stored = source.trusted.stored
    return BankBackup(
        bank=bank,
        name=read_bank_name(reader, bank),
        size=source.size,
        root=source.trusted.head.root,
        head=stored.signed.decode(),
        peaks=stored.peaks.hex(),
        index=put_index(packs, index),
    )


def _blobs(source: Replica, before: PreviousBackup | None, packs: Packs) -> Iterator[BackupBlob]:
    known = {blob.digest: blob for blob in before.index.blobs} if before is not None else {}
    reader, bank = source.reader, source.bank
    for digest, size in blobs_of(reader, bank):
        if digest in known:
            yield known[digest]
            continue
        pieces = verified_pieces(reader.blobs.get(bank, digest), digest)
        yield BackupBlob(digest=digest, size=size, packs=put_stream(pieces, packs))


def put_stream(pieces: Iterator[bytes], packs: Packs) -> list[Ref]:
    """Write a stream of bytes as packs."""
    refs, buffer = list[Ref](), bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= PIECE_BYTES:
            refs.append(packs.put(bytes(buffer[:PIECE_BYTES])))
            del buffer[:PIECE_BYTES]
    if buffer:
        refs.append(packs.put(bytes(buffer)))
    return refs


def _side(source: Replica, packs: Packs) -> Iterator[Ref]:
    """Write the unlogged values, several in each pack; a large one has its own."""
    held, size = dict[str, bytes](), 0
    for name, value in sorted(side_of(source.reader, source.bank).items()):
        if held and size + len(value) > _SIDE_TOGETHER:
            yield packs.put(msgspec.msgpack.encode(held))
            held, size = {}, 0
        held[name] = value
        size += len(value) + len(name)
    if held:
        yield packs.put(msgspec.msgpack.encode(held))


class DestinationResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a backup to one destination."""

    destination: str
    id: str | None = None
    at: str | None = None
    banks: int = 0
    records: int = 0
    files: int = 0
    """Number of keys with memory files."""

    agents: int = 0
    """Number of agents with settings and files."""

    packs: int = 0
    """Number of packs of the backup."""

    written: int = 0
    """Number of new packs."""

    bytes_written: int = 0
    verified: str | None = None
    encrypted: bool = False
    unopened: int = 0
    """Number of packs that no identity here decrypts: only their encrypted bytes were verified."""

    missing: list[str] = []
    notes: list[str] = []
    dropped: list[str] = []
    """Older backups that were removed."""

    error: str | None = None
    """The error; None on success."""

    code: str | None = None
    exit_status: int = 0


class BackupRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a run."""

    store: str
    made: list[DestinationResult]

    @property
    def exit_status(self) -> int:
        """That of the first failed destination; 0 if none failed."""
        return next((one.exit_status for one in self.made if one.exit_status), 0)


@operation(
    BackupOptions,
    name="backup run",
    example="satchel backup run --destination /mnt/backups",
    absent=NOT_FOR_MODELS,
)
def run_backup(
    settings: Settings,
    options: BackupOptions,
    *,
    reason: str = "",
    moment: datetime | None = None,
) -> BackupRun:
    """Back up the store to each destination, then read each backup back and verify it.

    Other programs may write to the store during the run. What an earlier backup holds is not copied
    again. Older backups are only removed after the new one has been verified. If one destination
    fails, the others are still written, and the command exits with an error.

    Args:
        settings: Settings of the machine.
        options: What to back up, and to which destinations.
        reason: Reason for the manifest.
        moment: The current time; by default that of the clock.

    Raises:
        ConfigError: If there is no destination.
        EmptyInputError: If there is nothing to back up.
        UnknownBankError: If there is no bank with a given name.
        UnknownAgentError: If a given agent is not configured.
    """
    require_owner(settings, "backup")
    addresses = destinations(settings, texts(options.destinations))
    results = list[DestinationResult]()
    for destination in addresses:
        try:
            with backup_lock(settings, destination, "backup"):
                results.append(_Run(settings, destination, options, reason, moment).done())
        except SatchelError as error:
            results.append(
                DestinationResult(
                    destination=shown_address(destination),
                    error=str(error).replace(destination, shown_address(destination)),
                    code=error.code,
                    exit_status=error.exit_status,
                )
            )
        _report(settings, destination, results[-1])
    return BackupRun(store=shown_address(settings.store), made=results)


def compression_setting(settings: Settings) -> Compression:
    """Return the configured compression of packs.

    Raises:
        MissingExtraError: If its library is not installed.
    """
    setting = str(settings.options.backup.compress).lower()
    compression = Compression({"true": "gzip", "false": "none"}.get(setting, setting))
    require_compression(compression)
    return compression


def _report(settings: Settings, destination: str, result: DestinationResult) -> None:
    counts = {
        name: getattr(result, name) for name in ("banks", "records", "files", "agents", "written")
    }
    if result.error is None:
        succeeded(settings, destination, result.id or "", result.at or now())
        settings.hooks.tell("on_backup", ids=[result.id or ""], counts=counts)
    else:
        failed(settings, destination, result.error)
        settings.hooks.tell("on_backup_failed", counts=counts, content=lambda: [result])


@dataclass(slots=True)
class _Run:
    """A run to one destination."""

    settings: Settings
    destination: str
    options: BackupOptions
    reason: str
    moment: datetime | None

    def done(self) -> DestinationResult:
        """Write a backup, verify it, mark it, and prune older ones."""
        key, series = writer_key(self.settings), series_of(self.settings)
        with self._opened() as catalog:
            catalog.shelf.tidy()
            self._require_encryption(catalog, series)
            before, known = ({}, set[Ref]()) if self.options.full else catalog.before(series)
            packs = self._packs(catalog, series, known)
            backup, notes = self._take_backup(catalog, before, packs, key)
            try:
                counts = verify_contents(
                    backup.manifest, catalog.packs(backup), self.options.progress
                )
            except VerificationError as error:
                catalog.drop(backup)
                if not known:
                    raise
                notes.append(
                    f"earlier backups failed verification, so everything was written again: {error}"
                )
                packs = self._packs(catalog, series, set())
                backup, _ = self._take_backup(catalog, {}, packs, key)
                counts = verify_contents(
                    backup.manifest, catalog.packs(backup), self.options.progress
                )
            missing, dropped = (
                backup.manifest.missing,
                BackupPruneResult(destination=self.destination),
            )
            if not missing:
                backup = catalog.mark(backup, counts, key)
                if self.options.prune:
                    moment = self.moment or datetime.now(UTC)
                    dropped = drop_old(self.settings, catalog, moment)
            return self._result(backup, packs, counts, [*notes, *dropped.notes], dropped.dropped)

    def _packs(self, catalog: Catalog, series: str, known: set[Ref]) -> Packs:
        how = compression_setting(self.settings)
        return Packs(catalog.shelf, series, how=how, known=known, locking=catalog.locking)

    def _opened(self) -> AbstractContextManager[Catalog]:
        options = self.options
        is_said = bool(options.encrypt_to) or options.unencrypted
        to = texts(options.encrypt_to) if is_said else None
        return open_catalog(self.settings, self.destination, create=True, recipients=to)

    def _require_encryption(self, catalog: Catalog, series: str) -> None:
        """Require ``unencrypted`` to write unencrypted backups next to encrypted ones.

        Raises:
            ConfigError: If it is missing.
        """
        if catalog.locking.locks or self.options.unencrypted:
            return
        backups = catalog.all(series)
        if catalog.closed or (backups and backups[-1].cover is not None):
            raise ConfigError(
                "existing backups there are encrypted, but no recipient is given for this one",
                field="backup.encrypt_to",
                hint=(
                    "Add --encrypt-to, or set [backup] encrypt_to. To stop encrypting: "
                    "--unencrypted."
                ),
            )

    def _result(
        self,
        backup: StoredBackup,
        packs: Packs,
        counts: VerificationCounts,
        notes: list[str],
        dropped: list[str],
    ) -> DestinationResult:
        manifest = backup.manifest
        missing = manifest.missing
        return DestinationResult(
            destination=shown_address(self.destination),
            id=manifest.id,
            at=manifest.at,
            banks=len(manifest.banks),
            records=sum(part.size for part in manifest.banks),
            files=len(manifest.files),
            agents=len(manifest.agents),
            packs=counts.packs,
            unopened=counts.unopened,
            encrypted=backup.cover is not None,
            written=packs.written,
            bytes_written=packs.bytes_written,
            verified=backup.verified,
            missing=missing,
            notes=notes,
            dropped=dropped,
            error=f"incomplete: {missing[0]}" if missing else None,
            code=VerificationError.code if missing else None,
            exit_status=VerificationError.exit_status if missing else 0,
        )

    def _take_backup(
        self, catalog: Catalog, before: dict[str, PreviousBackup], packs: Packs, key: SigningKey
    ) -> tuple[StoredBackup, list[str]]:
        moment = self.moment
        at = now() if moment is None else format_time(moment)
        banks, missing, notes = list[BankBackup](), list[str](), list[str]()

        def take_banks() -> None:
            for collected in (banks, missing, notes):
                collected.clear()
            with store.reading() as reader:
                for bank in self._banks(store, reader):
                    notes.extend(self._bank_notes(store, bank))
                    try:
                        self._note_erased(catalog, reader, bank, key)
                        banks.append(take_bank(reader, bank, before.get(bank), packs))
                    except VerificationError as error:
                        missing.append(f"the bank {bank}: {error.message}")

        if has_store(self.settings):
            with configured_store(self.settings, read_only=True) as store:
                again_if_disturbed(take_banks)
        files, agents = list[FilesBackup](), list[AgentBackup]()
        if self._takes_files:
            files += self._files(packs, missing, notes)
            selected = selected_agents(self.settings, *self._named())
            agents += take_agents(self.settings, selected, banks, packs, missing, notes)
        if not (banks or files or agents or missing):
            raise EmptyInputError("there is nothing to back up", file=self.settings.store)
        manifest = Manifest(
            id=new_id(at),
            series=series_of(self.settings),
            at=at,
            tool=tool_version(),
            store=shown_address(self.settings.store),
            host=platform.node()[:255],
            reason=self.reason,
            banks=banks,
            files=files,
            agents=agents,
            missing=missing,
            recipients=list(catalog.locking.recipients),
        )
        return catalog.add(manifest, key), notes

    def _named(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the named banks and agents; both are empty for all."""
        options, configured = self.options, self.settings.options.backup
        if options.banks or options.agents:
            return texts(options.banks), texts(options.agents)
        return configured.banks or (), configured.agents or ()

    def _banks(self, store: Store, reader: Reader) -> list[str]:
        names, agents = self._named()
        names = (*names, *(agent_called(self.settings, agent).bank for agent in agents))
        if names:
            return list(dict.fromkeys(find_bank(store, name) for name in names))
        return reader.banks()

    def _bank_notes(self, store: Store, bank: str) -> list[str]:
        """Return notes of this machine on a bank.

        A bank that was rolled back is still backed up: what it lacks is in earlier backups.
        """
        try:
            with open_ledger(self.settings, store, bank).reading() as view:
                return [f"{bank}: {note}" for note in view.notes]
        except SatchelError as error:
            return [f"{bank}: {error.message}"]

    def _note_erased(self, catalog: Catalog, reader: Reader, bank: str, key: SigningKey) -> None:
        source = load_replica(reader, bank)
        if source is not None and source.trusted.head.counts.get("erasure"):
            catalog.lists.note(series_of(self.settings), bank, read_erasures(source), key)

    @property
    def _takes_files(self) -> bool:
        requested = self.options.files
        return self.settings.options.backup.files if requested is None else requested

    def _files(self, packs: Packs, missing: list[str], notes: list[str]) -> Iterator[FilesBackup]:
        storage_path = namespace_of(self.settings).path("x")
        folder = folder_of(storage_path)
        if folder is None:  # elsewhere: backing it up is the task of that place
            location = shown_address(storage_path.rpartition("/")[0])
            notes.append(f"memory files are in {location}, which is not backed up")
            return
        for key in keys_in(folder.parent):
            try:
                yield take_files(folder.parent, key, packs)
            except SatchelError as error:
                missing.append(f"the memory files of {key}: {error.message}")
