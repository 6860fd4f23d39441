"""``satchel store``: a whole store, with all of its banks: copied, encrypted."""

from typing import Any

from satchel.cli import _passphrase
from satchel.cli._console import count, line, message, state
from satchel.cli._encryption import Encryption
from satchel.cli._operations import command
from satchel.cli._options import report_default_bank, report_receipts
from satchel.cli._tree import Group
from satchel.replication.copies import Relation
from satchel.replication.store_copy import CopiedBank, StoreCopy
from satchel.replication.store_operations import (
    StoreEncryption,
    copy_store,
    decrypt_store,
    encrypt_store,
)

store = Group(help="Whole stores, with all of their banks.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(store, name="store")


def _show(found: StoreCopy) -> None:
    for one in found.banks:
        name = one.name or one.bank
        line(f"{name}: {_sentence(one, dry_run=found.dry_run)}")
        for note in one.notes:
            message(f"{name}: note: ", note)
    did = "compared" if found.dry_run else "copied and compared"
    line(f"{count(len(found.banks), 'bank')} {did}: {found.source} -> {found.target}")
    report_default_bank([one.name or one.bank for one in found.banks if one.default])
    for note in found.notes:
        message("note: ", note)
    report_receipts([one.receipt for one in found.banks if one.receipt], 0)


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


def _read_passphrase(given: dict[str, Any], encryption: Encryption) -> None:
    if encryption.encrypt_passphrase:
        given["passphrase"] = _passphrase.new_of_file(state.passphrase_file)


command(store, copy_store, _show, label="copying")
command(
    store,
    encrypt_store,
    _show_encrypted,
    label="encrypting",
    unit="bytes",
    extra=Encryption,
    prepare=_read_passphrase,
)
command(store, decrypt_store, _show_decrypted, label="decrypting", unit="bytes")
