"""Migrate all banks of a store to another, verify them, and switch the configuration to it."""

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.bank.banks import note_default_bank
from satchel.bank.connections import configured_store, has_store, local_path, open_ledger
from satchel.bank.open_bank import OpenBank, chosen_bank, find_bank, name_of, open_bank_in
from satchel.bank.owner_rights import require_owner
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
from satchel.ports.store import Reader, Store
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
from satchel.replication.copies import TOGETHER, Relation, Replica, load_replica, read_log_from
from satchel.replication.log_copy import carry_vectors, read_again, vectors_lacking
from satchel.replication.operations import Exchange, ExchangeOptions, opened_at, push, require_other
from satchel.replication.store_copy import inherited_default
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import BankImportResult, ImportOptions, Owners
from satchel.transfer.imports import import_file
from satchel.transfer.providers import place_of, read_provider

_DIFFERS = 1


def migrate_live(source: Settings, target: Settings, asked: MigrateOptions) -> list[MigratedBank]:
    """Migrate memory from or to a product; return the result for each bank.

    IDs, and whatever else the product cannot hold, are among the losses.

    Raises:
        UnknownBankError: If a named bank does not exist; nothing is written then.
        ConfigError: If no connector for the product is installed.
        InputError: If it cannot be read.
    """
    if asked.owner is None:
        raise UsageError("creating banks requires an owner key", field="owner")
    if source.provider is None:
        return _to_product(source, target, asked, None)
    if target.provider is None and not asked.banks:
        return _from_product(source, target, asked, asked.owner)
    if target.provider is None:
        raise UsageError(
            "a provider can only be migrated as a whole", field="banks", hint="Drop --banks."
        )
    with read_provider(source, source.provider, asked.owner, asked.accept_loss) as found:
        return _to_product(found.stage, target, asked, found.end())


def _from_product(
    source: Settings, target: Settings, asked: MigrateOptions, owner: Owners
) -> list[MigratedBank]:
    """Import everything, then import it again to verify that nothing is new."""
    if source.provider is None:
        raise UsageError("no provider given", field="provider")
    place = place_of(source.provider)
    options = ImportOptions(
        dry_run=asked.dry_run, accept_loss=asked.accept_loss, keeps_receipt=False
    )
    done = import_file(target, place, None, owner, options)
    if asked.dry_run:
        why = _could_not(done.unaccepted) if done.unaccepted else None
        return [_imported(one, None, why, done.notes) for one in done.banks]
    seen = import_file(target, place, None, owner, ImportOptions(dry_run=True))
    again = {one.name: one for one in seen.banks}
    found = list[MigratedBank]()
    for one, account in zip(done.banks, done.accounts, strict=True):
        lost = [*account.lost, *_missing_records(one, again.get(one.name), asked)]
        told_of = msgspec.structs.replace(
            account,
            kind="migrate",
            output=end_in(target, one.name, one.bank or ""),
            lost=lost,
        )
        problem = next((loss.reason for loss in lost[len(account.lost) :] if not loss.accepted), "")
        problem = problem or (_could_not(account.unaccepted) if account.unaccepted else "")
        bank = _imported(one, again.get(one.name), problem or None, done.notes)
        bank = msgspec.structs.replace(bank, losses=done.losses)
        found.append(with_receipt(target, bank, told_of))
        _tell(bank, asked)
    return found


def _could_not(number: int) -> str:
    return f"{number} records could not be migrated"


def _missing_records(
    one: BankImportResult, again: BankImportResult | None, asked: MigrateOptions
) -> list[FieldLoss]:
    """Return the losses: what is in the product and not in the bank."""
    found = list[FieldLoss]()
    new = 0 if again is None else again.done.added + again.done.others
    if again is None or new:
        reason = f"on reading it again, {new} of its records are not in the bank"
        found.append(FieldLoss(field=REFUSED, count=max(1, new), reason=reason))
    if one.done.skipped:
        reason = f"{one.done.skipped} records skipped, as the bank has other versions"
        said = is_accepted(REFUSED, asked.accept_loss)
        found.append(FieldLoss(field=REFUSED, count=one.done.skipped, reason=reason, accepted=said))
    return found


def _imported(
    one: BankImportResult, again: BankImportResult | None, problem: str | None, notes: list[str]
) -> MigratedBank:
    return MigratedBank(
        bank=one.bank or "",
        name=one.name,
        relation="imported",
        size=one.done.read,
        carried=one.done.added,
        read_back={} if again is None else {"known": again.done.known},
        verified=problem is None and again is not None,
        notes=notes,
        problem=problem,
        code=None if problem is None else "transfer.loss",
        exit_status=0 if problem is None else _DIFFERS,
    )


def _to_product(
    source: Settings, target: Settings, asked: MigrateOptions, input_: TransferEnd | None
) -> list[MigratedBank]:
    """Export each bank to the product, and read each back.

    Args:
        source: Settings with the store of the banks.
        target: Settings with the product.
        asked: Options of the migration.
        input_: The source, if the store of the banks is a temporary one.
    """
    if target.provider is None:
        raise UsageError("no provider given", field="provider")
    place = place_of(target.provider)
    if not has_store(source):
        raise UnknownBankError("no store to migrate from", file=source.store)
    options = ExportOptions(
        dry_run=asked.dry_run,
        overwrite=True,
        accept_loss=asked.accept_loss,
        keeps_receipt=False,
    )
    found = list[MigratedBank]()
    with configured_store(source, read_only=True) as store:
        for bank in [open_bank_in(source, store, one) for one in _selected_banks(store, asked)]:
            began, account = now(), None
            try:
                done = export(bank, place, options)
            except SatchelError as error:
                one = _failed(bank, error)
                if not asked.dry_run:
                    ends = _end(bank, input_), TransferEnd(name=receipt_text(str(place)))
                    account = account_of_log(one, ends, began)
            else:
                one = _exported(bank, done)
                if done.account is not None:
                    account = _as_migration(done.account, _end(bank, input_))
            if account is not None:
                one = with_receipt(target, one, account)
            _tell(one, asked)
            found.append(one)
    return found


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


def _selected_banks(store: Store, asked: MigrateOptions) -> list[str]:
    if asked.banks:
        return list(dict.fromkeys(find_bank(store, name) for name in asked.banks))
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


def _tell(done: MigratedBank, asked: MigrateOptions) -> None:
    if asked.told is not None:
        asked.told(done)


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
    asked = options or MigrateOptions()
    if not 1 <= asked.jobs <= MOST_JOBS:
        raise UsageError(f"the number of banks at a time must be 1 to {MOST_JOBS}", field="jobs")
    notes = _notes()
    if source.provider is not None or target.provider is not None:
        done = migrate_live(source, target, asked)
    else:
        require_other(source, target.store)
        _note_default(target, asked)
        done = _MigrationTask(source, target, asked).all(_wanted(source, asked.banks))
        if not asked.dry_run and any(one.problem is None for one in done):
            done = _with_default(source, target, done, notes)
    found = MigrationResult(
        source=_place(source),
        target=_place(target),
        banks=done,
        dry_run=asked.dry_run,
        notes=notes,
    )
    if source.provider is None and target.provider is None:
        found = msgspec.structs.replace(found, left=_uncopied_banks(source, target, done))
    stays = found.failed or asked.dry_run or (found.left and not asked.leaves_others)
    if asked.new is not None and asked.active is not None and not stays:
        found = msgspec.structs.replace(found, switched=activate(asked.new, asked.active))
    return found


def _note_default(target: Settings, asked: MigrateOptions) -> None:
    """Make the only bank of the target store its default, before others are added."""
    with suppress(SatchelError):  # a store that cannot be opened is reported for each bank
        if not asked.dry_run and has_store(target):
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
    banks = [one.bank for one in done if one.problem is None]
    with opened_at(target, target.store, read_only=True) as store:
        default, more = inherited_default(target, store, chosen, banks)
    notes += more
    return [msgspec.structs.replace(one, default=one.bank == default) for one in done]


def _place(settings: Settings) -> str:
    return (
        settings.provider.address
        if settings.provider is not None
        else shown_address(settings.store)
    )


def _wanted(source: Settings, names: Sequence[str]) -> list[str]:
    """Return the IDs of the selected banks, without duplicates."""
    if not has_store(source):
        raise UnknownBankError("no store to migrate from", file=shown_address(source.store))
    with configured_store(source, read_only=True) as store:
        if names:
            return list(dict.fromkeys(find_bank(store, name) for name in names))
        with store.reading() as reader:
            banks = reader.banks()
    if not banks:
        raise EmptyInputError("no banks to migrate", file=shown_address(source.store))
    return banks


def _uncopied_banks(source: Settings, target: Settings, done: Sequence[MigratedBank]) -> list[str]:
    """Return the names of banks that are in the old store, but not in the new one."""
    there = {one.bank for one in done}
    with suppress(SatchelError):  # an unreadable bank counts as missing
        if has_store(target):
            with (
                opened_at(target, target.store, read_only=True) as store,
                store.reading() as reader,
            ):
                there.update(reader.banks())
    with configured_store(source, read_only=True) as store, store.reading() as reader:
        return [name_of(reader, bank) or bank for bank in reader.banks() if bank not in there]


class _MigrationTask:
    """The migration of several banks."""

    def __init__(self, source: Settings, target: Settings, asked: MigrateOptions) -> None:
        self._source = source
        self._target = target
        self._asked = asked
        self._progress = _Progress(asked.progress)
        self._turn = threading.Lock()
        """Serializes writers of a file, so that none of them fails with a busy store."""

    def all(self, banks: Sequence[str]) -> list[MigratedBank]:
        """Migrate banks concurrently; return the results in their order."""
        found = dict[str, MigratedBank]()
        if self._asked.progress is not None:
            self._progress.begin(self._source, banks)
        with ThreadPoolExecutor(min(self._asked.jobs, len(banks))) as pool:
            running = {pool.submit(self._one, bank): bank for bank in banks}
            try:
                for future in as_completed(running):
                    done = found[running[future]] = future.result()
                    if self._asked.told is not None:
                        self._asked.told(done)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [found[bank] for bank in banks]

    def _one(self, bank: str) -> MigratedBank:
        began = now()
        try:
            done = self._migrated(bank)
        except SatchelError as error:
            done = MigratedBank(
                bank=bank,
                name=self._name(bank),
                problem=str(error),
                code=error.code,
                exit_status=error.exit_status,
            )
        if self._asked.dry_run:
            return done
        here, there = (
            end_of_bank(done.name, bank, settings.store)
            for settings in (self._source, self._target)
        )
        return with_receipt(self._source, done, account_of_log(done, (here, there), began))

    def _migrated(self, bank: str) -> MigratedBank:
        carried, blobs = 0, 0
        for _ in range(_TRIES):
            found = self._pushed(bank)
            carried, blobs = carried + found.carried, blobs + found.blobs
            _require_brought(found)
            if self._asked.dry_run:
                return _migrated_bank(found, carried, blobs)
            try:
                done = self._read_back(found, carried, blobs)
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
            bank=bank, dry_run=self._asked.dry_run, progress=self._progress.of(bank, "copied")
        )
        if local_path(self._target.store) is None:
            return push(self._source, self._target.store, options)
        with self._turn:
            return push(self._source, self._target.store, options)

    def _read_back(self, found: Exchange, carried: int, blobs: int) -> MigratedBank:
        """Read a bank back from the target and copy its vectors.

        Raises:
            StoreBusyError: If the source has grown during the run.
            VerificationError: If the copies differ.
        """
        bank = found.bank
        with (
            configured_store(self._source, read_only=True) as here,
            opened_at(self._target, self._target.store, read_only=False) as there,
            here.reading() as reader,
        ):
            source = _copy(reader, bank)
            with there.reading() as other:
                target = _copy(other, bank)
                if source.size > target.size:
                    raise StoreBusyError("the bank has grown")
                along = read_again(source, target, self._progress.of(bank, "read back"))
                lacking = vectors_lacking(reader, other, bank)
            if lacking:
                with self._turn:
                    along.vectors = _vectors(source, there)
        done = _migrated_bank(found, carried, blobs)
        open_imports = self._open_imports(bank)
        return msgspec.structs.replace(
            done,
            size=source.size,
            root=source.found.head.root,
            vectors=along.vectors,
            read_back=along.records,
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
        told: Called with the number of records done and the total; each is copied and read back.
    """

    def __init__(self, told: Callable[[int, int], None] | None) -> None:
        self._report = told
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


def _require_brought(found: Exchange) -> None:
    """Require that the target copy has no records of its own.

    Raises:
        VerificationError: If it has; the error names the relation.
    """
    if found.relation is Relation.DIVERGED:
        raise VerificationError(
            f"the copy there diverged after {found.common} records",
            hint=f"See: satchel push {found.target} --bank {found.bank[7:19]} --merge",
        )
    if found.relation is Relation.BEHIND:
        raise VerificationError(
            f"the copy there has {found.target_size - found.common} records more",
            hint=f"Pull them first: satchel pull {found.target}",
        )
    if found.blobs_missing:
        raise VerificationError(
            f"{found.blobs_missing} blobs that records refer to are missing here"
        )


def _migrated_bank(found: Exchange, carried: int, blobs: int) -> MigratedBank:
    return MigratedBank(
        bank=found.bank,
        name=found.name,
        relation=str(found.relation),
        size=found.source_size,
        carried=carried,
        blobs=blobs,
        notes=[note for note in found.notes if "blobs" not in note],
    )


def _copy(reader: Reader, bank: str) -> Replica:
    found = load_replica(reader, bank)
    if found is None:
        raise UnknownBankError(f"there is no bank {bank}")
    return found


def _vectors(source: Replica, store: Store) -> int:
    """Copy the vectors of all records of a log, in batches."""
    number = 0
    for some in read_log_from(source, 0):
        ids = [row.id for row, logged in some if logged is not None]
        for start in range(0, len(ids), TOGETHER):
            part = ids[start : start + TOGETHER]
            number += carry_vectors(source.reader, store, source.bank, part)
    return number


def _notes() -> list[str]:
    """Return a note if another setting overrides the configuration file that was switched."""
    return [
        f"the environment variable {name} is set, and overrides the configuration file"
        for name in _VARIABLES
        if os.environ.get(name)
    ]


_OF_A_STORE = frozenset(
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
    said: MigrationEnds, *, home: Path | None = None, config: Path | None = None
) -> tuple[Settings, ...]:
    """Return the settings of both ends; the store in the environment is ignored.

    Args:
        said: The ends.
        home: Folder of keys and trust, as for ``load_settings``.
        config: The configuration to use with addresses.

    Raises:
        UsageError: If one end is missing, or given in both ways.
        ConfigError: If a configuration is invalid.
    """
    configs, stores = (said.from_config, said.to_config), (said.from_store, said.to_store)
    env = {name: value for name, value in os.environ.items() if name not in _OF_A_STORE}
    if all(configs) and not any(stores):
        return tuple(_settings(home, one, None, env) for one in configs)
    if all(stores) and not any(configs):
        return tuple(_settings(home, config, one, env) for one in stores)
    raise UsageError(
        "two stores or two configurations are required",
        hint="Use --from-config and --to-config, or FROM and TO.",
    )


def _settings(
    home: Path | None, config: Path | None, store: str | None, env: Mapping[str, str]
) -> Settings:
    scheme, is_address, there = (store or "").partition("://")
    if is_address and scheme not in STORES:
        place = {"path": there.removeprefix("/")}
        provider = {"PROVIDER": scheme, "PROVIDER_CONFIG": json.dumps(place)}
        env = {**env, **{f"SATCHEL_{name}": value for name, value in provider.items()}}
        store = None
    return load_settings(home=home, config=config, store=store, environment=env)
