"""``satchel store``: a whole store, with all of its banks: copied, encrypted."""

from typing import Annotated

from satchel.actions.operating.at_rest import AtRest, decrypt_store, encrypt_store
from satchel.actions.operating.copying_stores import CopiedBank, CopyOptions, StoreCopy, copy_store
from satchel.surfaces.cli._console import count, line, message, print_json, progress, state
from satchel.surfaces.cli._options import DryRun, Json, lock_of, tell_receipts
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.transfer.copies import Relation

store = Group(help="Whole stores, with all of their banks.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(store, name="store")


@store.command("copy")
def copy_command(
    source: Annotated[
        str, Argument(metavar="FROM", help="The store that is read, as for --store.")
    ],
    target: Annotated[
        str, Argument(metavar="TO", help="The other; it is made if it is not there.")
    ],
    bank: Annotated[
        list[str] | None,
        Option("--bank", help="Only this bank: its name or id. Repeatable.", values="bank"),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Copy a whole store to another one, of the same kind or of any other.

    Each bank keeps its ids, its log, its signed head, and what is beside the log: vectors, blobs,
    unlogged values. All of it is read again and compared before the bank is there, and each has a
    signed receipt. Cut short, the same command goes on. A bank that is there already with another
    log is refused; one that is behind is brought up to date.

    Example: `satchel store copy satchel.db postgresql://me@db.example/memory`
    """
    with progress("copying", True, records=True) as tell:
        options = CopyOptions(banks=tuple(bank or ()), dry_run=dry_run, progress=tell)
        found = copy_store(state.settings, source, target, options)
    if as_json:
        print_json(found)
    else:
        _show(found)
    tell_receipts([one.receipt for one in found.banks if one.receipt], 0)


@store.command("encrypt")
def encrypt_command(
    to: Annotated[
        list[str] | None,
        Option(help="age1..., a file with recipients, or an identity here. Repeatable."),
    ] = None,
    passphrase: Annotated[
        bool,
        Option("--passphrase", help="Have a passphrase open it, which is asked for."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Encrypt the store at rest: its file, its log, and what SQLite lays out beside it.

    It gets a new key, which is kept encrypted beside it, and is written anew; a store that is
    encrypted already is put under another key, and one that is not there is begun. An identity
    without a passphrase opens it with nobody there; one with a passphrase has to be named (satchel
    --identity FILE). Nobody else may have the store open meanwhile.

    Example: `satchel store encrypt --to mine`
    """
    with progress("encrypting", True) as tell:
        done = encrypt_store(state.settings, lock_of(to, passphrase), progress=tell)
    if as_json:
        print_json(done)
        return
    line(f"{done.store}: {'begun, encrypted' if done.begun else 'encrypted'}")
    _tell(done)


@store.command("decrypt")
def decrypt_command(as_json: Json = False) -> None:
    """Put an encrypted store in plain again. Nobody else may have it open meanwhile.

    Example: `satchel store decrypt`
    """
    with progress("decrypting", True) as tell:
        done = decrypt_store(state.settings, progress=tell)
    if as_json:
        print_json(done)
        return
    line(f"{done.store}: in plain")


def _show(found: StoreCopy) -> None:
    for one in found.banks:
        name = one.name or one.bank
        line(f"{name}: {_sentence(one, dry_run=found.dry_run)}")
        for note in one.notes:
            message(f"{name}: note: ", note)
    did = "looked at" if found.dry_run else "copied and compared"
    line(f"{count(len(found.banks), 'bank')} {did}: {found.source} -> {found.target}")


def _sentence(one: CopiedBank, *, dry_run: bool) -> str:
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


def _tell(done: AtRest) -> None:
    for recipient in done.recipients:
        message(f"for {recipient}")
    if done.passphrase:
        message("for whoever knows the passphrase")
    message(f"keep a copy of {done.key}: without it nothing opens the store")
    if not done.begun:
        message("what was on the disk before may still be in its free blocks, and in snapshots")
    for path in done.plain:
        message(f"still in plain: {path}")
