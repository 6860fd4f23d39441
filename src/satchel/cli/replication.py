"""``satchel pull``, ``push``, ``migrate``, ``sink`` and ``store``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from satchel.cli._console import count, line, message, new_file_passphrase, print_facts, state
from satchel.cli._operations import command
from satchel.cli._options import Encryption, owner_key, report_default_bank, report_receipts
from satchel.cli._tree import Group
from satchel.config.files import STORES
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options
from satchel.receipts.steps import MigratedBank, MigrationResult
from satchel.replication.copies import Relation
from satchel.replication.merge import MergeResult
from satchel.replication.operations import Exchange
from satchel.replication.sinks import SinkResult
from satchel.replication.store_copy import CopiedBank, StoreCopy
from satchel.replication.store_operations import (
    StoreEncryption,
    copy_store,
    decrypt_store,
    encrypt_store,
    migrate,
    pull,
    push,
    run_sink,
)

_OPEN = 1


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        pull,
        partial(_show_exchange, where=("there", "here")),
        label="pulling",
        status=_exchange_status,
    )
    command(
        app,
        push,
        partial(_show_exchange, where=("here", "there")),
        label="pushing",
        status=_exchange_status,
    )
    command(
        app,
        migrate,
        _show_migration,
        label="migrating",
        internal=lambda _: {"key": lambda: owner_key(None)},
        extra=BankNamesOptions,
        prepare=_prepare_migration,
        status=lambda found: found.exit_status,
    )
    app.add(sink, name="sink")
    app.add(store, name="store")


def _exchange_status(exchange: Exchange) -> int:
    return _OPEN if exchange.is_open else 0


def _show_exchange(exchange: Exchange, where: tuple[str, str]) -> None:
    source, target = where
    line(f"{exchange.name or exchange.bank}: ", _exchange_sentence(exchange, source, target))
    print_facts([("from", exchange.source), ("to", exchange.target)])
    if exchange.merged is not None:
        _show_merge(exchange.merged, target)
    if exchange.emptied:
        message(f"{count(exchange.emptied, 'record')} emptied: erased {source}")
    if exchange.trust == "untrusted":
        message(
            "the bank's owner is untrusted on this machine, so it is read-only; see: satchel bank"
            " admit, satchel bank adopt"
        )
    if exchange.is_open:
        message(f"nothing was changed; to merge what is new {source}: --merge", style="yellow")
    for note in exchange.notes:
        message("note: ", note)


def _exchange_sentence(exchange: Exchange, source: str, target: str) -> str:
    size, beyond = exchange.source_size, exchange.source_size - exchange.common
    would = "would be " if exchange.dry_run else ""
    if exchange.relation is Relation.SAME:
        return f"the copies are the same, {count(size, 'record')}"
    if exchange.relation is Relation.BEHIND:
        more = exchange.target_size - exchange.common
        return f"nothing new {source}; {count(more, 'record')} only {target}"
    if exchange.relation is Relation.NEW:
        return f"{would}copied, {count(size, 'record')}"
    if exchange.relation is Relation.AHEAD:
        return f"{would}copied, {count(beyond, 'record')} from {exchange.common:,} on"
    here = count(exchange.target_size - exchange.common, "record")
    only = f"{here} only {target}, {beyond:,} only {source}"
    new = exchange.new if exchange.merged is None else exchange.merged.records
    verb = "not merged" if exchange.merged is None else "merged"
    return f"diverged at {exchange.common:,}: {only}; {new:,} of them {verb}"


def _show_merge(merge: MergeResult, target: str) -> None:
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(merge.taken.items()))
    rows: list[tuple[str, object]] = [("merged", counts or "nothing")]
    if merge.known:
        rows.append((f"{target} already", f"{merge.known:,}"))
    if merge.conflicts:
        rows.append(("changed in both", f"{merge.conflicts:,}"))
    print_facts(rows)
    for conflict in merge.first_conflicts:
        line(f"  {conflict.kept[7:19]} stays, {conflict.superseded[7:19]} is superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class BankNamesOptions(Options):
    """Another way to name banks."""

    banks_listed: Annotated[
        str | None,
        Option(
            "Names of banks, separated by commas; like --bank.", flag="--banks", metavar="NAME,..."
        ),
    ] = None


def _prepare_migration(values: dict[str, Any], listed: BankNamesOptions) -> None:
    if state.store is not None:
        raise UsageError(
            "a migration needs two stores", field="store", hint="Use: satchel migrate FROM TO"
        )
    names = (listed.banks_listed or "").split(",")
    values["banks"] = (*values.get("banks", ()), *(name.strip() for name in names if name.strip()))
    values |= {"home": state.home, "config": state.config, "on_bank": _print_migrated}


def _print_migrated(done: MigratedBank) -> None:
    if done.problem is None:
        message(f"{done.name or done.bank}: ", "verified" if done.verified else "compared")


def _show_migration(result: MigrationResult, _: BankNamesOptions) -> None:
    for bank in result.banks:
        name = bank.name or bank.bank
        if bank.problem is not None:
            line(f"{name}: failed: ", bank.problem)
            for loss in bank.losses:
                message(f"{name}: lost: {loss.name}, {loss.count:,}: {loss.reason}")
            continue
        size, would = count(bank.size, "record"), "would be " if result.dry_run else ""
        now = f"{bank.carried:,} {would}copied" if not result.dry_run else f"to do: {bank.relation}"
        line(f"{name}: {size}, {now}" + (", verified" if bank.verified else ""))
        for note in bank.notes:
            message(f"{name}: note: ", note)
    done = len(result.banks) - len(result.failed)
    line(
        f"{done} of {count(len(result.banks), 'bank')} "
        + ("compared" if result.dry_run else "done")
    )
    if result.left:
        message(
            f"not migrated, and not in {result.target}: {', '.join(result.left)}", style="yellow"
        )
    _show_switch(result)
    report_default_bank([bank.name or bank.bank for bank in result.banks if bank.default])
    for note in result.notes:
        message("note: ", note)
    report_receipts([bank.receipt for bank in result.banks if bank.receipt], 0)


def _show_switch(result: MigrationResult) -> None:
    if result.switched is not None:
        was = "" if result.switched.changed else " (unchanged)"
        line(f"switched: {result.switched.file}{was}")
        if result.switched.kept is not None:
            message("the previous configuration is kept in ", result.switched.kept)
    elif (result.failed or result.left) and result.switch_wanted and not result.dry_run:
        hint = "" if result.failed else ": migrate the others as well, or use --leave-others"
        message(f"the configuration is unchanged{hint}", style="yellow")
    elif not result.dry_run and result.target.partition("://")[0] in STORES:
        message("to use it: ", f"satchel --store {result.target}")


sink = Group(help="Copy the logs of banks to a database or files, for analysis.")


def _show_sinks(results: list[SinkResult]) -> None:
    for bank in results:
        line(f"{bank.name or bank.bank}: {count(bank.rows, 'row')}, up to position {bank.seq}")
        if bank.waiting:
            message(
                f"{count(bank.waiting, 'record')} wait until an import is complete: run it again,"
                " or satchel undo"
            )


def _print_sink(bank: SinkResult) -> None:
    message(f"{bank.name or bank.bank}: {count(bank.rows, 'row')}, up to position {bank.seq}")


command(
    sink,
    run_sink,
    _show_sinks,
    label="following",
    internal=lambda options: {"on_result": _print_sink if options.follow else None},
)


store = Group(help="Manage whole stores, with all of their banks.")


def _show_store_copy(copy: StoreCopy) -> None:
    for bank in copy.banks:
        name = bank.name or bank.bank
        line(f"{name}: {_copy_sentence(bank, dry_run=copy.dry_run)}")
        for note in bank.notes:
            message(f"{name}: note: ", note)
    did = "compared" if copy.dry_run else "copied and compared"
    line(f"{count(len(copy.banks), 'bank')} {did}: {copy.source} -> {copy.target}")
    report_default_bank([bank.name or bank.bank for bank in copy.banks if bank.default])
    for note in copy.notes:
        message("note: ", note)
    report_receipts([bank.receipt for bank in copy.banks if bank.receipt], 0)


def _copy_sentence(bank: CopiedBank, *, dry_run: bool) -> str:
    size = count(bank.size, "record")
    if dry_run:
        left = bank.size - bank.earlier
        return f"{size}, the same there" if not left else f"{size}, {left:,} to copy"
    if bank.relation is Relation.SAME:
        return f"{size}, the same before and now"
    parts = [f"{bank.carried:,} copied now"]
    parts += [f"{bank.vectors:,} vectors"] if bank.vectors else []
    parts += [count(bank.blobs, "blob")] if bank.blobs else []
    return f"{size}, {', '.join(parts)}; all read again, the same"


def _show_encrypted(done: StoreEncryption, _: Encryption) -> None:
    line(f"{done.store}: {'created, encrypted' if done.begun else 'encrypted'}")
    for recipient in done.recipients:
        message(f"for {recipient}")
    if done.passphrase:
        message("for anyone with the passphrase")
    message(f"keep a copy of {done.key}: the store cannot be opened without it")
    if not done.begun:
        message("earlier unencrypted data may remain in free disk blocks and snapshots")
    for path in done.plain:
        message(f"not encrypted: {path}")


def _show_decrypted(done: StoreEncryption) -> None:
    line(f"{done.store}: not encrypted")


def _read_store_passphrase(values: dict[str, Any], encryption: Encryption) -> None:
    if encryption.encrypt_passphrase:
        values["passphrase"] = new_file_passphrase()


command(store, copy_store, _show_store_copy, label="copying")
command(
    store,
    encrypt_store,
    _show_encrypted,
    label="encrypting",
    unit="bytes",
    extra=Encryption,
    prepare=_read_store_passphrase,
)
command(store, decrypt_store, _show_decrypted, label="decrypting", unit="bytes")
