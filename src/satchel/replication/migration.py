"""Migrate all banks of a store to another, verify them, and switch the configuration to it."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from satchel.bank.banks import note_default_bank
from satchel.bank.connections import (
    configured_store,
    has_store,
    local_path,
    open_ledger,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, chosen_bank, find_bank, name_of, open_bank_in
from satchel.config.files import STORES, activate
from satchel.config.settings import Settings, load_settings
from satchel.errors import (
    EmptyInputError,
    SatchelError,
    StoreBusyError,
    UnknownBankError,
    UsageError,
    VerificationError,
    shown_address,
)
from satchel.ledger.heads import verified_head
from satchel.model.values import now
from satchel.ports.store import Progress, Reader, Store
from satchel.receipts.receipt import (
    REFUSED,
    FieldLoss,
    ReceiptBody,
    TransferEnd,
    is_accepted,
    receipt_text,
)
from satchel.receipts.steps import (
    MigratedBank,
    MigrateOptions,
    MigrationResult,
    account_of_log,
    end_in,
    end_of_bank,
    with_receipt,
)
from satchel.replication.copies import (
    TOGETHER,
    Relation,
    Replica,
    read_log_from,
    require_replica,
)
from satchel.replication.operations import Exchange, ExchangeOptions, opened_at, push, require_other
from satchel.replication.store_copy import inherited_default
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import BankImportResult, ImportOptions, Owners
from satchel.transfer.imports import import_file
from satchel.transfer.providers import provider_path, read_provider

_DIFFERS = 1


def migrate_live(source: Settings, target: Settings, options: MigrateOptions) -> list[MigratedBank]:
    """Migrate memory from or to a product; return the result for each bank.

    IDs, and whatever else the product cannot hold, are among the losses.

    Raises:
        UnknownBankError: If a named bank does not exist; nothing is written then.
        ConfigError: If no connector for the product is installed.
        InputError: If it cannot be read.
    """
    if options.owner is None:
        raise UsageError("creating banks requires an owner key", field="owner")
    if source.provider is None:
        return _to_product(source, target, options, None)
    if target.provider is None and not options.banks:
        return _from_product(source, target, options, options.owner)
    if target.provider is None:
        raise UsageError(
            "a provider can only be migrated as a whole", field="banks", hint="Drop --banks."
        )
    with read_provider(source, source.provider, options.owner, options.accept_loss) as provider:
        return _to_product(provider.stage, target, options, provider.end())


def _from_product(
    source: Settings, target: Settings, options: MigrateOptions, owner: Owners
) -> list[MigratedBank]:
    """Import everything, then import it again to verify that nothing is new."""
    if source.provider is None:
        raise UsageError("no provider given", field="provider")
    product = provider_path(source.provider)
    import_options = ImportOptions(
        dry_run=options.dry_run, accept_loss=options.accept_loss, keeps_receipt=False
    )
    done = import_file(target, product, None, owner, import_options)
    if options.dry_run:
        refusal = _not_migrated(done.unaccepted) if done.unaccepted else None
        return [_imported(imported, None, refusal, done.notes) for imported in done.banks]
    seen = import_file(target, product, None, owner, ImportOptions(dry_run=True))
    again = {imported.name: imported for imported in seen.banks}
    migrated = list[MigratedBank]()
    for imported, account in zip(done.banks, done.accounts, strict=True):
        lost = [*account.lost, *_missing_records(imported, again.get(imported.name), options)]
        receipt = msgspec.structs.replace(
            account,
            kind="migrate",
            output=end_in(target, imported.name, imported.bank or ""),
            lost=lost,
        )
        problem = next((loss.reason for loss in lost[len(account.lost) :] if not loss.accepted), "")
        problem = problem or (_not_migrated(account.unaccepted) if account.unaccepted else "")
        bank = _imported(imported, again.get(imported.name), problem or None, done.notes)
        bank = msgspec.structs.replace(bank, losses=done.losses)
        migrated.append(with_receipt(target, bank, receipt))
        _tell(bank, options)
    return migrated


def _not_migrated(number: int) -> str:
    return f"{number} records could not be migrated"


def _missing_records(
    imported: BankImportResult, again: BankImportResult | None, options: MigrateOptions
) -> list[FieldLoss]:
    """Return the losses: what is in the product and not in the bank."""
    losses = list[FieldLoss]()
    new = 0 if again is None else again.done.added + again.done.others
    if again is None or new:
        reason = f"on reading it again, {new} of its records are not in the bank"
        losses.append(FieldLoss(field=REFUSED, count=max(1, new), reason=reason))
    if imported.done.skipped:
        reason = f"{imported.done.skipped} records skipped, as the bank has other versions"
        accepted = is_accepted(REFUSED, options.accept_loss)
        losses.append(
            FieldLoss(field=REFUSED, count=imported.done.skipped, reason=reason, accepted=accepted)
        )
    return losses


def _imported(
    imported: BankImportResult,
    again: BankImportResult | None,
    problem: str | None,
    notes: list[str],
) -> MigratedBank:
    return MigratedBank(
        bank=imported.bank or "",
        name=imported.name,
        relation="imported",
        size=imported.done.read,
        carried=imported.done.added,
        read_back={} if again is None else {"known": again.done.known},
        verified=problem is None and again is not None,
        notes=notes,
        problem=problem,
        code=None if problem is None else "transfer.loss",
        exit_status=0 if problem is None else _DIFFERS,
    )


def _to_product(
    source: Settings, target: Settings, options: MigrateOptions, input_: TransferEnd | None
) -> list[MigratedBank]:
    """Export each bank to the product, and read each back.

    Args:
        source: Settings with the store of the banks.
        target: Settings with the product.
        options: Options of the migration.
        input_: The source, if the store of the banks is a temporary one.
    """
    if target.provider is None:
        raise UsageError("no provider given", field="provider")
    product = provider_path(target.provider)
    if not has_store(source):
        raise UnknownBankError("no store to migrate from", file=source.store)
    export_options = ExportOptions(
        dry_run=options.dry_run,
        overwrite=True,
        accept_loss=options.accept_loss,
        keeps_receipt=False,
    )
    migrated = list[MigratedBank]()
    with configured_store(source, read_only=True) as store:
        for bank in [
            open_bank_in(source, store, result) for result in _selected_banks(store, options.banks)
        ]:
            began, account = now(), None
            try:
                done = export(bank, product, export_options)
            except SatchelError as error:
                result = _failed(bank, error)
                if not options.dry_run:
                    ends = _end(bank, input_), TransferEnd(name=receipt_text(str(product)))
                    account = account_of_log(result, ends, began)
            else:
                result = _exported(bank, done)
                if done.account is not None:
                    account = _as_migration(done.account, _end(bank, input_))
            if account is not None:
                result = with_receipt(target, result, account)
            _tell(result, options)
            migrated.append(result)
    return migrated


def _end(bank: OpenBank, input_: TransferEnd | None) -> TransferEnd:
    """Return the source end: a bank, or a user of the product that it was read from."""
    if input_ is None:
        return end_of_bank(bank.name, bank.id, bank.settings.store)
    name = receipt_text(f"{input_.name} of {bank.name or bank.id}")
    return msgspec.structs.replace(input_, name=name, records=None)


def _as_migration(account: ReceiptBody, end: TransferEnd) -> ReceiptBody:
    """Return the receipt body of an export as that of a migration."""
    if end.bank is None:
        return msgspec.structs.replace(account, kind="migrate", input=end)
    read = msgspec.structs.replace(account.input, store=end.store)
    return msgspec.structs.replace(account, kind="migrate", input=read)


def _selected_banks(store: Store, names: Sequence[str]) -> list[str]:
    """Return the IDs of the named banks, or of all, without duplicates."""
    if names:
        return list(dict.fromkeys(find_bank(store, name) for name in names))
    with store.reading() as reader:
        banks = reader.banks()
    if not banks:
        raise EmptyInputError("no banks to migrate", file=store.name)
    return banks


def _failed(bank: OpenBank, error: SatchelError) -> MigratedBank:
    return MigratedBank(
        bank=bank.id,
        name=bank.name,
        problem=str(error),
        code=error.code,
        exit_status=error.exit_status,
    )


def _exported(bank: OpenBank, done: Export) -> MigratedBank:
    problem = f"{done.unaccepted} records cannot be stored there" if done.unaccepted else None
    account = done.account
    counts = {} if account is None else account.counts
    return MigratedBank(
        bank=bank.id,
        name=bank.name,
        relation="exported",
        size=done.entries,
        carried=done.written or 0,
        read_back={name: number.read_back for name, number in counts.items()},
        verified=problem is None and account is not None,
        losses=done.losses,
        notes=done.notes,
        problem=problem,
        code=None if problem is None else "transfer.loss",
        exit_status=0 if problem is None else _DIFFERS,
    )


def _tell(done: MigratedBank, options: MigrateOptions) -> None:
    if options.on_bank is not None:
        options.on_bank(done)


MOST_JOBS = 64
_TRIES = 3
_VARIABLES = ("SATCHEL_STORE", "SATCHEL_PROVIDER", "SATCHEL_PROVIDER_CONFIG")


def migrate(
    source: Settings, target: Settings, options: MigrateOptions | None = None
) -> MigrationResult:
    """Migrate the banks of one store to another, with the same IDs, logs and heads.

    Each bank is copied in one transaction and read back completely. What an earlier run copied is
    not copied again, so a killed run can be repeated. If one bank fails, the others are still
    migrated. The configuration is switched only when all banks are done.

    Args:
        source: Settings with the source store.
        target: Settings with the target store, which is created if missing.
        options: Options of the migration.

    Raises:
        UnknownBankError: If a named bank does not exist; nothing is written then.
        EmptyInputError: If there is no bank.
        UsageError: If both are the same store.
        TargetError: If the configuration cannot be switched; the banks are migrated then.
    """
    require_owner(source, "migrate")
    options = options or MigrateOptions()
    if not 1 <= options.jobs <= MOST_JOBS:
        raise UsageError(f"the number of banks at a time must be 1 to {MOST_JOBS}", field="jobs")
    notes = _notes()
    if source.provider is not None or target.provider is not None:
        banks = migrate_live(source, target, options)
    else:
        require_other(source, target.store)
        _note_default(target, options)
        banks = _MigrationTask(source, target, options).all(_migrated_banks(source, options.banks))
        if not options.dry_run and any(bank.problem is None for bank in banks):
            banks = _with_default(source, target, banks, notes)
    result = MigrationResult(
        source=_shown_target(source),
        target=_shown_target(target),
        banks=banks,
        dry_run=options.dry_run,
        notes=notes,
    )
    if source.provider is None and target.provider is None:
        result = msgspec.structs.replace(result, left=_uncopied_banks(source, target, banks))
    stays = result.failed or options.dry_run or (result.left and not options.leaves_others)
    if options.new is not None and options.active is not None and not stays:
        result = msgspec.structs.replace(result, switched=activate(options.new, options.active))
    return result


def _note_default(target: Settings, options: MigrateOptions) -> None:
    """Make the only bank of the target store its default, before others are added."""
    with suppress(SatchelError):  # a store that cannot be opened is reported for each bank
        if not options.dry_run and has_store(target):
            with opened_at(target, target.store, read_only=True) as store:
                note_default_bank(target, store)


def _with_default(
    source: Settings, target: Settings, done: Sequence[MigratedBank], notes: list[str]
) -> list[MigratedBank]:
    """Set the default bank of the target store to that of the source, if it has none."""
    with configured_store(source, read_only=True) as store:
        chosen = None
        with suppress(SatchelError):  # several banks, and no default
            chosen = chosen_bank(source, store, None)
    banks = [bank.bank for bank in done if bank.problem is None]
    with opened_at(target, target.store, read_only=True) as store:
        default, more = inherited_default(target, store, chosen, banks)
    notes += more
    return [msgspec.structs.replace(bank, default=bank.bank == default) for bank in done]


def _shown_target(settings: Settings) -> str:
    return (
        settings.provider.address
        if settings.provider is not None
        else shown_address(settings.store)
    )


def _migrated_banks(source: Settings, names: Sequence[str]) -> list[str]:
    if not has_store(source):
        raise UnknownBankError("no store to migrate from", file=shown_address(source.store))
    with configured_store(source, read_only=True) as store:
        return _selected_banks(store, names)


def _uncopied_banks(source: Settings, target: Settings, done: Sequence[MigratedBank]) -> list[str]:
    """Return the names of banks that are in the old store, but not in the new one."""
    copied = {result.bank for result in done}
    with suppress(SatchelError):  # an unreadable bank counts as missing
        if has_store(target):
            with (
                opened_at(target, target.store, read_only=True) as store,
                store.reading() as reader,
            ):
                copied.update(reader.banks())
    with configured_store(source, read_only=True) as store, store.reading() as reader:
        return [name_of(reader, bank) or bank for bank in reader.banks() if bank not in copied]


class _MigrationTask:
    """The migration of several banks."""

    def __init__(self, source: Settings, target: Settings, options: MigrateOptions) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._progress = _Progress(options.progress)
        self._turn = threading.Lock()
        """Serializes writers of a file, so that none of them fails with a busy store."""

    def all(self, banks: Sequence[str]) -> list[MigratedBank]:
        """Migrate banks concurrently; return the results in their order."""
        results = dict[str, MigratedBank]()
        if self._options.progress is not None:
            self._progress.begin(self._source, banks)
        with ThreadPoolExecutor(min(self._options.jobs, len(banks))) as pool:
            running = {pool.submit(self._migrate_bank, bank): bank for bank in banks}
            try:
                for future in as_completed(running):
                    done = results[running[future]] = future.result()
                    if self._options.on_bank is not None:
                        self._options.on_bank(done)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [results[bank] for bank in banks]

    def _migrate_bank(self, bank: str) -> MigratedBank:
        began = now()
        try:
            done = self._copy_and_verify(bank)
        except SatchelError as error:
            done = MigratedBank(
                bank=bank,
                name=self._name(bank),
                problem=str(error),
                code=error.code,
                exit_status=error.exit_status,
            )
        if self._options.dry_run:
            return done
        source, target = (
            end_of_bank(done.name, bank, settings.store)
            for settings in (self._source, self._target)
        )
        return with_receipt(self._source, done, account_of_log(done, (source, target), began))

    def _copy_and_verify(self, bank: str) -> MigratedBank:
        carried, blobs = 0, 0
        for _ in range(_TRIES):
            exchange = self._pushed(bank)
            carried, blobs = carried + exchange.carried, blobs + exchange.blobs
            _require_no_own_records(exchange)
            if self._options.dry_run:
                return _migrated_bank(exchange, carried, blobs)
            try:
                done = self._read_back(exchange, carried, blobs)
            except StoreBusyError:
                continue  # the source has grown during the run: copy the rest
            counts = {"records": done.size, "carried": done.carried}
            self._source.hooks.tell("on_migrate", bank=(bank, done.name), counts=counts)
            return done
        raise StoreBusyError(
            "the bank is changed continuously",
            hint="Stop the programs that write to it, and run again.",
        )

    def _pushed(self, bank: str) -> Exchange:
        options = ExchangeOptions(
            bank=bank, dry_run=self._options.dry_run, progress=self._progress.of(bank, "copied")
        )
        if local_path(self._target.store) is None:
            return push(self._source, self._target.store, options)
        with self._turn:
            return push(self._source, self._target.store, options)

    def _read_back(self, exchange: Exchange, carried: int, blobs: int) -> MigratedBank:
        """Read a bank back from the target and copy its vectors.

        Raises:
            StoreBusyError: If the source has grown during the run.
            VerificationError: If the copies differ.
        """
        bank = exchange.bank
        with (
            configured_store(self._source, read_only=True) as source_store,
            opened_at(self._target, self._target.store, read_only=False) as target_store,
            source_store.reading() as reader,
        ):
            source = require_replica(reader, bank)
            with target_store.reading() as other:
                target = require_replica(other, bank)
                if source.size > target.size:
                    raise StoreBusyError("the bank has grown")
                check = verify_copy(source, target, self._progress.of(bank, "read back"))
                lacking = lacks_vectors(reader, other, bank)
            if lacking:
                with self._turn:
                    check.vectors = _vectors(source, target_store)
        done = _migrated_bank(exchange, carried, blobs)
        open_imports = self._open_imports(bank)
        return msgspec.structs.replace(
            done,
            size=source.size,
            root=source.trusted.head.root,
            vectors=check.vectors,
            read_back=check.records,
            verified=True,
            notes=[*done.notes, *open_imports],
        )

    def _open_imports(self, bank: str) -> list[str]:
        with (
            configured_store(self._source, read_only=True) as store,
            open_ledger(self._source, store, bank).reading() as view,
        ):
            number = len(view.open_imports())
        if not number:
            return []
        return [f"{number} imports into it are incomplete; see: satchel bank imports"]

    def _name(self, bank: str) -> str | None:
        with configured_store(self._source, read_only=True) as store, store.reading() as reader:
            return name_of(reader, bank)


class _Progress:
    """Combined progress of all banks.

    Args:
        report: Called with the number of records done and the total; each is copied and read back.
    """

    def __init__(self, report: Callable[[int, int], None] | None) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._sizes = dict[str, int]()
        self._done = dict[tuple[str, str], int]()

    def begin(self, source: Settings, banks: Sequence[str]) -> None:
        """Count the records of all banks."""
        with configured_store(source, read_only=True) as store, store.reading() as reader:
            for bank in banks:
                stored = reader.head(bank)
                if stored is not None:
                    with suppress(SatchelError):  # reported when the bank is migrated
                        self._sizes[bank] = verified_head(bank, stored)[0].size

    def of(self, bank: str, step: str) -> Callable[[int, int], None] | None:
        """Return the progress function for a step of one bank."""
        if self._report is None:
            return None

        def tell(done: int, size: int) -> None:
            assert self._report is not None  # noqa: S101 - see above
            with self._lock:  # banks are migrated concurrently
                whole = self._sizes.setdefault(bank, size)
                self._done[bank, step] = min(whole, max(0, whole - size) + done)
                self._report(sum(self._done.values()), 2 * sum(self._sizes.values()))

        return tell


def _require_no_own_records(exchange: Exchange) -> None:
    """Require that the target copy has no records of its own.

    Raises:
        VerificationError: If it has; the error names the relation.
    """
    if exchange.relation is Relation.DIVERGED:
        raise VerificationError(
            f"the copy there diverged after {exchange.common} records",
            hint=f"See: satchel push {exchange.target} --bank {exchange.bank[7:19]} --merge",
        )
    if exchange.relation is Relation.BEHIND:
        raise VerificationError(
            f"the copy there has {exchange.target_size - exchange.common} records more",
            hint=f"Pull them first: satchel pull {exchange.target}",
        )
    if exchange.blobs_missing:
        raise VerificationError(
            f"{exchange.blobs_missing} blobs that records refer to are missing here"
        )


def _migrated_bank(exchange: Exchange, carried: int, blobs: int) -> MigratedBank:
    return MigratedBank(
        bank=exchange.bank,
        name=exchange.name,
        relation=str(exchange.relation),
        size=exchange.source_size,
        carried=carried,
        blobs=blobs,
        notes=[note for note in exchange.notes if "blobs" not in note],
    )


def _vectors(source: Replica, store: Store) -> int:
    """Copy the vectors of all records of a log, in batches."""
    number = 0
    for records in read_log_from(source, 0):
        ids = [row.id for row, logged in records if logged is not None]
        for start in range(0, len(ids), TOGETHER):
            part = ids[start : start + TOGETHER]
            number += copy_vectors(source.reader, store, source.bank, part)
    return number


def _notes() -> list[str]:
    """Return a note if another setting overrides the configuration file that was switched."""
    return [
        f"the environment variable {name} is set, and overrides the configuration file"
        for name in _VARIABLES
        if os.environ.get(name)
    ]


_STORE_VARIABLES = frozenset(
    {
        "SATCHEL_STORE",
        "SATCHEL_MEMORY_BACKEND",
        "SATCHEL_GRAPH_DB_PATH",
        "AMPLIHACK_MEMORY_BACKEND",
        "AMPLIHACK_GRAPH_DB_PATH",
        "AMPLIHACK_KUZU_DB_PATH",
        "SATCHEL_BANK",
        "SATCHEL_PROVIDER",
        "SATCHEL_PROVIDER_TIER",
        "SATCHEL_PROVIDER_CONFIG",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationEnds:
    """Source and target: as configuration files or as addresses."""

    from_config: Path | None = None
    to_config: Path | None = None
    from_store: str | None = None
    to_store: str | None = None


def resolve_ends(
    ends: MigrationEnds, *, home: Path | None = None, config: Path | None = None
) -> tuple[Settings, ...]:
    """Return the settings of both ends; the store in the environment is ignored.

    Args:
        ends: The ends.
        home: Folder of keys and trust, as for ``load_settings``.
        config: The configuration to use with addresses.

    Raises:
        UsageError: If one end is missing, or given in both ways.
        ConfigError: If a configuration is invalid.
    """
    configs, stores = (ends.from_config, ends.to_config), (ends.from_store, ends.to_store)
    env = {name: value for name, value in os.environ.items() if name not in _STORE_VARIABLES}
    if all(configs) and not any(stores):
        return tuple(_settings(home, end, None, env) for end in configs)
    if all(stores) and not any(configs):
        return tuple(_settings(home, config, end, env) for end in stores)
    raise UsageError(
        "the current and the new store are required",
        hint="Use --from-config and --to-config, or FROM and TO.",
    )


def _settings(
    home: Path | None, config: Path | None, store: str | None, env: Mapping[str, str]
) -> Settings:
    scheme, is_address, path = (store or "").partition("://")
    if is_address and scheme not in STORES:
        provider_config = {"path": path.removeprefix("/")}
        provider = {"PROVIDER": scheme, "PROVIDER_CONFIG": json.dumps(provider_config)}
        env = {**env, **{f"SATCHEL_{name}": value for name, value in provider.items()}}
        store = None
    return load_settings(home=home, config=config, store=store, environment=env)


@dataclass(slots=True)
class ReplicaCheck:
    """Result of reading a copy back."""

    records: dict[str, int] = field(default_factory=dict)
    """Number of records of each type."""

    vectors: int = 0


def verify_copy(source: Replica, target: Replica, progress: Progress | None = None) -> ReplicaCheck:
    """Read and verify all records of a copy, and compare it with another.

    Raises:
        VerificationError: If it is not the same log, or a record of it is missing or not what was
            logged.
    """
    if target.trusted.stored != source.trusted.stored:
        raise VerificationError("the heads of the two copies differ")
    counts = Counter[str]()
    for records in read_log_from(target, 0):
        counts.update(row.type for row, _ in records)
        if progress is not None:
            progress(counts.total(), target.size)
    if counts != source.trusted.head.counts:
        raise VerificationError("the record counts of the copy differ from the signed ones")
    return ReplicaCheck(records=dict(sorted(counts.items())))


def copy_vectors(source: Reader, store: Store, bank: str, ids: list[str]) -> int:
    """Copy the vectors of records, with their generations.

    Args:
        source: A view of the source store.
        store: The target store; existing vectors are replaced.
        bank: The bank, which is in both.
        ids: IDs of the records, in batches.
    """
    number = 0
    for generation in source.vectors.generations(bank):
        vectors = source.vectors.get(bank, generation, ids)
        if vectors:
            with store.writing() as writing:
                writing.vectors.put(bank, generation, vectors)
            number += len(vectors)
    return number


def lacks_vectors(source: Reader, target: Reader, bank: str) -> bool:
    """Return whether one copy has vectors that the other lacks."""
    existing = target.vectors.generations(bank)
    own = source.vectors.generations(bank)
    return any(existing.get(generation, 0) < number for generation, number in own.items())
