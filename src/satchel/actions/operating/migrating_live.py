"""Migrating where one end is a product that is talked to: imported or exported, and read again."""

from collections import Counter
from collections.abc import Iterator

from blake3 import blake3

from satchel.actions.config import Settings
from satchel.actions.importing.imported import BankImported, Imported, ImportOptions
from satchel.actions.importing.importing import import_file
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.moving.exporting import export
from satchel.actions.opened import OpenBank, find_bank, open_bank_in
from satchel.actions.operating.migrated import MigratedBank, MigrateOptions
from satchel.actions.operating.providing import Owners, drawn, place_of
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import EmptyInputError, SatchelError, UnknownBankError, UsageError
from satchel.memory.entries import Entry
from satchel.ports.rows import Filter
from satchel.ports.store import Store
from satchel.recall.showing import text_of

_DIFFERS = 1


def migrate_live(source: Settings, target: Settings, asked: MigrateOptions) -> list[MigratedBank]:
    """Bring memory from or to a product; return what became of each bank.

    Its ids, and whatever else it has no place for, stay behind: that is in the losses.

    Raises:
        UnknownBankError: If a bank that is named is not there; nothing is written then.
        ConfigError: If nothing that is installed can talk to the product.
        InputError: If it cannot be read.
    """
    if asked.owner is None:
        raise UsageError("banks that are made need an owner's key", field="owner")
    if source.provider is None:
        return _to_product(source, target, asked, asked.owner)
    if target.provider is None and not asked.banks:
        return _from_product(source, target, asked, asked.owner)
    if target.provider is None:
        raise UsageError(
            "what comes from a provider comes whole", field="banks", hint="Leave --banks out."
        )
    with drawn(source, source.provider, asked.owner) as stage:
        return _to_product(stage, target, asked, asked.owner)


def _from_product(
    source: Settings, target: Settings, asked: MigrateOptions, owner: Owners
) -> list[MigratedBank]:
    """Import everything, and read it again: then nothing of it may be new."""
    if source.provider is None:
        raise UsageError("there is no provider", field="provider")
    place = place_of(source.provider)
    done = import_file(target, place, None, owner, ImportOptions(dry_run=asked.dry_run))
    again = {one.name: one for one in done.banks}
    if not asked.dry_run:
        seen = import_file(target, place, None, owner, ImportOptions(dry_run=True))
        again = {one.name: one for one in seen.banks}
    return [_imported(one, again.get(one.name), done, asked) for one in done.banks]


def _imported(
    one: BankImported, again: BankImported | None, whole: Imported, asked: MigrateOptions
) -> MigratedBank:
    left = one.done.skipped
    open_ = 0 if again is None else again.done.added + again.done.overwritten + again.done.others
    missing = again is None or (open_ > 0 and not asked.dry_run)
    problem = None
    if missing:
        problem = f"read again, {open_} records of it are not in the bank"
    elif left:
        problem = f"{left} other versions of what the bank has were left out"
    elif whole.losses:
        problem = f"{sum(loss.count for loss in whole.losses)} things could not be taken over"
    return MigratedBank(
        bank=one.bank or "",
        name=one.name,
        relation="imported",
        size=one.done.read,
        carried=one.done.added,
        read_back={} if again is None else {"known": again.done.known},
        verified=problem is None and not asked.dry_run,
        losses=whole.losses,
        notes=whole.notes,
        problem=problem,
        code=None if problem is None else "transfer.loss",
        exit_status=0 if problem is None else _DIFFERS,
    )


def _to_product(
    source: Settings, target: Settings, asked: MigrateOptions, owner: Owners
) -> list[MigratedBank]:
    """Export each bank to the product, and read all of it again."""
    if target.provider is None:
        raise UsageError("there is no provider", field="provider")
    place = place_of(target.provider)
    if not has_store(source):
        raise UnknownBankError("there is no store to migrate from", file=source.store)
    with opened_store(source, read_only=True) as store:
        banks = _wanted(store, asked)
        written = dict[str, Export | SatchelError]()
        for bank in banks:
            try:
                options = ExportOptions(dry_run=asked.dry_run, overwrite=True)
                written[bank] = export(open_bank_in(source, store, bank), place, options)
            except SatchelError as error:
                written[bank] = error
        there = Counter[bytes]()
        if not asked.dry_run and any(isinstance(one, Export) for one in written.values()):
            with drawn(target, target.provider, owner) as stage:
                there = _texts_of(stage)
        return [
            _exported(open_bank_in(source, store, bank), written[bank], there, asked)
            for bank in banks
        ]


def _wanted(store: Store, asked: MigrateOptions) -> list[str]:
    if asked.banks:
        return list(dict.fromkeys(find_bank(store, name) for name in asked.banks))
    with store.reading() as reader:
        banks = reader.banks()
    if not banks:
        raise EmptyInputError("there is no bank to migrate", file=store.name)
    return banks


def _exported(
    bank: OpenBank, done: Export | SatchelError, there: Counter[bytes], asked: MigrateOptions
) -> MigratedBank:
    if isinstance(done, SatchelError):
        status, code = done.exit_status, done.code
        return MigratedBank(
            bank=bank.id, name=bank.name, problem=str(done), code=code, exit_status=status
        )
    wanted = Counter[bytes]() if asked.dry_run else Counter(_digests(bank))
    missing = (wanted - there).total()
    problem = None
    if missing:
        problem = f"read again, {missing} memories of it are not there"
    elif done.lost:
        problem = f"{done.lost} things have no place there"
    return MigratedBank(
        bank=bank.id,
        name=bank.name,
        relation="exported",
        size=done.entries,
        carried=done.entries,
        read_back={} if asked.dry_run else {"memories": wanted.total() - missing},
        verified=problem is None and not asked.dry_run,
        losses=done.losses,
        notes=done.notes,
        problem=problem,
        code=None if problem is None else "transfer.loss",
        exit_status=0 if problem is None else _DIFFERS,
    )


def _texts_of(stage: Settings) -> Counter[bytes]:
    """Count what all banks of a store say, by a digest of the owner and the words."""
    found = Counter[bytes]()
    with opened_store(stage, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        for bank in banks:
            found.update(_digests(open_bank_in(stage, store, bank)))
    return found


def _digests(bank: OpenBank) -> Iterator[bytes]:
    with bank.ledger.reading() as view:
        for logged in view.scan(Filter()):
            model, row = logged.model, logged.row
            if isinstance(model, Entry):
                text = model.text if model.text is not None else text_of(model)
                owner = f"{row.user or ''}\0{row.agent or ''}\0{text}"
                yield blake3(owner.encode("utf-8", "surrogatepass")).digest(16)
