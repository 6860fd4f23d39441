"""Migrating where one end is a product that is talked to: imported or exported, and read again."""

import msgspec

from satchel.bank.connections import configured_store, has_store
from satchel.bank.open_bank import OpenBank, find_bank, open_bank_in
from satchel.config.settings import Settings
from satchel.errors import EmptyInputError, SatchelError, UnknownBankError, UsageError
from satchel.model.values import now
from satchel.ports.store import Store
from satchel.receipts.account import (
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
    account_of_log,
    end_in,
    end_of_bank,
    with_receipt,
)
from satchel.transfer.export_results import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import BankImportResult, ImportOptions
from satchel.transfer.imports import import_file
from satchel.transfer.providers import Owners, place_of, read_provider

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
    """Import everything, and read it again: then nothing of it may be new."""
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
        lost = [*account.lost, *_left(one, again.get(one.name), asked)]
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


def _left(
    one: BankImportResult, again: BankImportResult | None, asked: MigrateOptions
) -> list[FieldLoss]:
    """Return what is not in the bank, though it is in the product."""
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
    """Export each bank to the product, each read again there.

    Args:
        source: Where the banks are.
        target: The surroundings with the product.
        asked: What is asked.
        input_: Where they come from, if their store is only one of the moment.
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
        for bank in [open_bank_in(source, store, one) for one in _wanted(store, asked)]:
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
    """Return what is read: a bank, or whose it is in the product that it was drawn from."""
    if input_ is None:
        return end_of_bank(bank.name, bank.id, bank.settings.store)
    name = receipt_text(f"{input_.name} of {bank.name or bank.id}")
    return msgspec.structs.replace(input_, name=name, records=None)


def _as_migration(account: ReceiptBody, end: TransferEnd) -> ReceiptBody:
    """Return the account of an export as that of a migration, whose input has a store."""
    if end.bank is None:
        return msgspec.structs.replace(account, kind="migrate", input=end)
    read = msgspec.structs.replace(account.input, store=end.store)
    return msgspec.structs.replace(account, kind="migrate", input=read)


def _wanted(store: Store, asked: MigrateOptions) -> list[str]:
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
