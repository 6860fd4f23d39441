"""``satchel key``: signing keys, trust, and identities for encryption."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from satchel.bank import key_operations, machine_keys
from satchel.bank.key_operations import KeyExport, KeyImport
from satchel.bank.keys import BankKeyResult, KeyEndResult, KeyHandover, KeyRotation
from satchel.bank.machine_keys import IdentityLine, KeyLine
from satchel.cli._console import (
    key_passphrase,
    line,
    message,
    new_file_passphrase,
    new_key_passphrase,
    print_json,
    state,
    table,
)
from satchel.cli._operations import command
from satchel.cli._options import NAME, key_export_command, owner_key, report_proposal
from satchel.cli._tree import Group
from satchel.crypto.key_files import TrustedKey
from satchel.crypto.keys import SigningKey
from satchel.ports.operations import texts

key = Group(help="Manage signing keys and trust.")
identity = Group(help="Manage identities that files are encrypted to.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(key, name="key")


key.add(identity, name="identity")


def _new_passphrases(_: Any) -> Mapping[str, Any]:
    return {
        "new_passphrase": new_key_passphrase,
        "new_file_passphrase": new_file_passphrase,
    }


def _unlocked(name: str) -> str | None:
    """Return the passphrase of a protected key."""
    return key_passphrase(needed=state.settings.keyring.read(name).protected)


def _other_owner(name: str | None, excluded: str) -> SigningKey | None:
    """Return the key of an owner who signs a decision about another key; None if there is none."""
    settings = state.settings
    key_name = name or settings.options.keys.name
    if name is None and (key_name == excluded or key_name not in settings.keyring.names()):
        return None
    return owner_key(key_name)


def _signers(options: Any, but: str) -> tuple[SigningKey, ...]:
    first = _other_owner(options.signing_key, but)
    others = map(owner_key, texts(options.co_signers))
    return (*([] if first is None else [first]), *others)


def _for_rotation(options: Any) -> Mapping[str, Any]:
    return {
        "passphrase": _unlocked(options.name),
        "signers": _signers(options, options.name),
    }


def _for_ending(options: Any) -> Mapping[str, Any]:
    return {"signers": _signers(options, options.key)}


def _for_revocation(options: Any) -> Mapping[str, Any]:
    def signer(name: str) -> SigningKey:
        return machine_keys.signing_key(state.settings, name, passphrase=_unlocked(name))[0]

    return {**_for_ending(options), "statement_signer": signer}


def _show_created(created: KeyExport) -> None:
    line(created.key)
    folder = state.settings.keyring.folder
    message(
        f"The secret key is in {folder}. Keep a copy elsewhere: {key_export_command(created.name)}"
    )


def _show_keys(keys: Sequence[KeyLine]) -> None:
    if not keys:
        message("No keys yet. The first signature creates one; or: satchel key create")
        return
    table(
        ["name", "state", "owned", "role", "passphrase", "signs", "key"],
        [
            [
                each.name,
                each.state,
                "yes" if each.own else "no",
                each.role or "",
                "yes" if each.protected else "no",
                "" if each.profile == "satchel" else each.profile,
                each.key,
            ]
            for each in keys
        ],
    )


def _show_exported(exported: KeyExport) -> None:
    if exported.output is None:
        print_json(exported)  # always JSON
    elif exported.output != NAME:
        message(f"written to {exported.output} (mode 0600)")


def _for_import(_: Any) -> Mapping[str, Any]:
    return {"passphrase": key_passphrase, "standard_input": sys.stdin.buffer}


def _show_imported(imported: KeyImport) -> None:
    line(imported.key)
    if not imported.imported:
        message(f"the key {imported.name!r} was already here; nothing was changed")
        return
    message(f"imported as {imported.name!r}, in {state.settings.keyring.folder}")
    if imported.name != state.settings.options.keys.name and imported.role == "owner":
        message(f"To sign with it: --signing-key {imported.name}")


def _show_rotated(rotated: KeyRotation) -> int:
    line(rotated.key)
    if rotated.role == "owner":
        message("The statement of succession, signed by both keys, is beside the key files.")
    return _show_banks(rotated, f"Then run: satchel key hand-over {rotated.name}")


def _show_handed_over(handed: KeyHandover) -> int:
    if not handed.banks:
        message("No bank of this store has one of its earlier keys.")
    return _show_banks(handed, f"Then run: satchel key hand-over {handed.name}")


def _show_banks(done: KeyRotation | KeyHandover | KeyEndResult, next_step: str) -> int:
    """Print the result for each bank, and return the exit status."""
    banks: Sequence[BankKeyResult] = done.banks
    for bank in banks:
        text = "recorded in its log" if bank.noted else bank.problem or "already in its log"
        message(f"{bank.name or bank.id}: {text}")
        if bank.hint:
            message(f"  {bank.hint}")
    if done.proposal is not None:
        report_proposal(done.proposal)
    if not done.is_whole:
        message(next_step)
    return int(not done.is_whole)


def _show_trusted(trusted: TrustedKey) -> None:
    line(f"trusted {trusted.name}: {trusted.key}")


def _show_retired(ended: KeyEndResult) -> int:
    line(f"{ended.entry.state} {ended.entry.name}: {ended.entry.key}")
    return _show_banks(ended, "The key is not retired on this machine either.")


def _show_revoked(ended: KeyEndResult) -> int:
    line(f"revoked {ended.entry.name}: {ended.entry.key}")
    if ended.statement is not None:
        print_json(ended.statement)
    return _show_banks(ended, "The key is revoked on this machine, but not in these banks.")


def _show_identity(created: IdentityLine) -> None:
    line(created.recipient)
    message("Keep a copy of its file: nothing else decrypts what is encrypted to it.")


def _show_identities(identities: Sequence[IdentityLine]) -> None:
    if not identities:
        message("No identities yet: satchel key identity create NAME")
        return
    rows: list[list[object]] = [
        [each.name, "yes" if each.protected else "no", each.recipient] for each in identities
    ]
    table(["name", "passphrase", "recipient"], rows)


def _status(done: KeyRotation | KeyHandover | KeyEndResult) -> int:
    return int(not done.is_whole)


command(key, key_operations.create_key, _show_created, internal=_new_passphrases)
command(key, key_operations.list_keys, _show_keys)
command(key, key_operations.export_key, _show_exported)
command(key, key_operations.import_key, _show_imported, internal=_for_import)
command(key, key_operations.rotate_key, _show_rotated, internal=_for_rotation, status=_status)
command(
    key, key_operations.hand_over_key, _show_handed_over, internal=_for_rotation, status=_status
)
command(key, key_operations.trust_key, _show_trusted)
command(key, key_operations.retire_key, _show_retired, internal=_for_ending, status=_status)
command(key, key_operations.revoke_key, _show_revoked, internal=_for_revocation, status=_status)
command(identity, key_operations.create_identity, _show_identity, internal=_new_passphrases)
command(identity, key_operations.list_identities, _show_identities)
