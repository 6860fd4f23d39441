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


def _exchange_status(found: Exchange) -> int:
    return _OPEN if found.is_open else 0


def _show_exchange(found: Exchange, where: tuple[str, str]) -> None:
    source, target = where
    line(f"{found.name or found.bank}: ", _exchange_sentence(found, source, target))
    print_facts([("from", found.source), ("to", found.target)])
    if found.merged is not None:
        _show_merge(found.merged, target)
    if found.emptied:
        message(f"{count(found.emptied, 'record')} emptied: erased {source}")
    if found.trust == "untrusted":
        message(
            "the bank's owner is untrusted on this machine, so it is read-only; see: satchel bank"
            " admit, satchel bank adopt"
        )
    if found.is_open:
        message(f"nothing was changed; to merge what is new {source}: --merge", style="yellow")
    for note in found.notes:
        message("note: ", note)


def _exchange_sentence(found: Exchange, source: str, target: str) -> str:
    size, beyond = found.source_size, found.source_size - found.common
    would = "would be " if found.dry_run else ""
    if found.relation is Relation.SAME:
        return f"the copies are the same, {count(size, 'record')}"
    if found.relation is Relation.BEHIND:
        more = found.target_size - found.common
        return f"nothing new {source}; {count(more, 'record')} only {target}"
    if found.relation is Relation.NEW:
        return f"{would}copied, {count(size, 'record')}"
    if found.relation is Relation.AHEAD:
        return f"{would}copied, {count(beyond, 'record')} from {found.common:,} on"
    here = count(found.target_size - found.common, "record")
    only = f"{here} only {target}, {beyond:,} only {source}"
    new = found.new if found.merged is None else found.merged.records
    verb = "not merged" if found.merged is None else "merged"
    return f"diverged at {found.common:,}: {only}; {new:,} of them {verb}"


def _show_merge(done: MergeResult, target: str) -> None:
    taken = ", ".join(f"{number:,} {name}" for name, number in sorted(done.taken.items()))
    rows: list[tuple[str, object]] = [("merged", taken or "nothing")]
    if done.known:
        rows.append((f"{target} already", f"{done.known:,}"))
    if done.conflicts:
        rows.append(("changed in both", f"{done.conflicts:,}"))
    print_facts(rows)
    for conflict in done.first_conflicts:
        line(f"  {conflict.kept[7:19]} stays, {conflict.superseded[7:19]} is superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class BankNamesOptions(Options):
    """Another way to name banks."""

    banks_listed: Annotated[
        str | None, Option("The same, with commas between.", flag="--banks", metavar="NAME,...")
    ] = None


def _prepare_migration(given: dict[str, Any], listed: BankNamesOptions) -> None:
    if state.store is not None:
        raise UsageError(
            "a migration has two stores", field="store", hint="Use: satchel migrate FROM TO"
        )
    names = (listed.banks_listed or "").split(",")
    given["banks"] = (*given.get("banks", ()), *(name.strip() for name in names if name.strip()))
    given |= {"home": state.home, "config": state.config, "told": _print_migrated}


def _print_migrated(done: MigratedBank) -> None:
    if done.problem is None:
        message(f"{done.name or done.bank}: ", "verified" if done.verified else "compared")


def _show_migration(found: MigrationResult, _: BankNamesOptions) -> None:
    for one in found.banks:
        name = one.name or one.bank
        if one.problem is not None:
            line(f"{name}: failed: ", one.problem)
            for loss in one.losses:
                message(f"{name}: lost: {loss.name}, {loss.count:,}: {loss.reason}")
            continue
        size, would = count(one.size, "record"), "would be " if found.dry_run else ""
        now = f"{one.carried:,} {would}copied" if not found.dry_run else f"to do: {one.relation}"
        line(f"{name}: {size}, {now}" + (", verified" if one.verified else ""))
        for note in one.notes:
            message(f"{name}: note: ", note)
    done = len(found.banks) - len(found.failed)
    line(
        f"{done} of {count(len(found.banks), 'bank')} " + ("compared" if found.dry_run else "done")
    )
    if found.left:
        message(f"not migrated, and not in {found.target}: {', '.join(found.left)}", style="yellow")
    _show_switch(found)
    report_default_bank([one.name or one.bank for one in found.banks if one.default])
    for note in found.notes:
        message("note: ", note)
    report_receipts([one.receipt for one in found.banks if one.receipt], 0)


def _show_switch(found: MigrationResult) -> None:
    if found.switched is not None:
        was = "" if found.switched.changed else " (unchanged)"
        line(f"switched: {found.switched.file}{was}")
        if found.switched.kept is not None:
            message("the previous configuration is kept in ", found.switched.kept)
    elif (found.failed or found.left) and found.switch_wanted and not found.dry_run:
        hint = "" if found.failed else ": migrate the others as well, or use --leave-others"
        message(f"the configuration is unchanged{hint}", style="yellow")
    elif not found.dry_run and found.target.partition("://")[0] in STORES:
        message("to use it: ", f"satchel --store {found.target}")


sink = Group(help="Copy the logs of banks to a database or files, for analysis.")


def _show_sinks(found: list[SinkResult]) -> None:
    for one in found:
        line(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to position {one.seq}")
        if one.waiting:
            message(
                f"{count(one.waiting, 'record')} wait for an import to be complete: run it again,"
                " or satchel undo"
            )


def _print_sink(one: SinkResult) -> None:
    message(f"{one.name or one.bank}: {count(one.rows, 'row')}, up to position {one.seq}")


command(
    sink,
    run_sink,
    _show_sinks,
    label="following",
    internal=lambda options: {"on_result": _print_sink if options.follow else None},
)


store = Group(help="Manage whole stores, with all of their banks.")


def _show_store_copy(found: StoreCopy) -> None:
    for one in found.banks:
        name = one.name or one.bank
        line(f"{name}: {_copy_sentence(one, dry_run=found.dry_run)}")
        for note in one.notes:
            message(f"{name}: note: ", note)
    did = "compared" if found.dry_run else "copied and compared"
    line(f"{count(len(found.banks), 'bank')} {did}: {found.source} -> {found.target}")
    report_default_bank([one.name or one.bank for one in found.banks if one.default])
    for note in found.notes:
        message("note: ", note)
    report_receipts([one.receipt for one in found.banks if one.receipt], 0)


def _copy_sentence(one: CopiedBank, *, dry_run: bool) -> str:
    size = count(one.size, "record")
    if dry_run:
        left = one.size - one.earlier
        return f"{size}, the same there" if not left else f"{size}, {left:,} to copy"
    if one.relation is Relation.SAME:
        return f"{size}, the same before and now"
    parts = [f"{one.carried:,} copied now"]
    parts += [f"{one.vectors:,} vectors"] if one.vectors else []
    parts += [count(one.blobs, "blob")] if one.blobs else []
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


def _read_store_passphrase(given: dict[str, Any], encryption: Encryption) -> None:
    if encryption.encrypt_passphrase:
        given["passphrase"] = new_file_passphrase()


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
