"""``satchel key``: signing keys, and whose word counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

from satchel.actions import signing
from satchel.actions.encrypting import identities
from satchel.actions.keys import ending, rotating
from satchel.actions.keys.told import BankTold
from satchel.errors import UsageError
from satchel.seal.signing.key import SigningKey
from satchel.seal.signing.trust import Profile, Role
from satchel.surfaces.cli import _passphrase
from satchel.surfaces.cli._console import line, message, print_json, state, table
from satchel.surfaces.cli._options import Also, Json, Owner, Propose, export_of, owner_key
from satchel.surfaces.cli._stdout import file_or_none
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.operating._proposing import propose_all

Name = Annotated[str, Argument(help="Name of the key.", values="key")]

keys = Group(help="Manage signing keys and trust.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(keys, name="key")


@keys.command("create")
def create_command(
    name: Name = "default",
    role: Annotated[str, Option(help="owner signs artifacts; writer signs log heads.")] = "owner",
    passphrase: Annotated[
        bool, Option("--passphrase", help="Protect it; asked for, or SATCHEL_PASSPHRASE.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a signing key and trust it.

    Example: `satchel key create laptop --passphrase`
    """
    if role not in ("owner", "writer"):
        raise UsageError("owner or writer", field="--role")
    key = signing.create_key(
        state.settings,
        name,
        role=cast("Role", role),
        passphrase=_passphrase.new() if passphrase else None,
    )
    if as_json:
        print_json(signing.export_public(state.settings, name))
    else:
        line(key.did)
        folder = state.settings.keyring.folder
        message(f"The secret key is in {folder}. Keep a copy elsewhere: {export_of(name)}")


@keys.command("list")
def list_command(as_json: Json = False) -> None:
    """List the keys that are here, and those that are believed.

    Example: `satchel key list`
    """
    found = signing.list_keys(state.settings)
    if as_json:
        print_json(found)
        return
    if not found:
        message("No keys yet. The first artifact makes one, or: satchel key create")
        return
    table(
        ["name", "state", "", "key"],
        [
            [
                key.name,
                key.state,
                " ".join(
                    word
                    for word in (
                        "own" if key.own else "",
                        key.role or "",
                        "passphrase" if key.protected else "",
                        "" if key.profile == "satchel" else key.profile,
                    )
                    if word
                ),
                key.key,
            ]
            for key in found
        ],
    )


@keys.command("export")
def export_command(
    name: Name = "default",
    secret: Annotated[
        bool, Option("--secret", help="With the secret, into --output only.")
    ] = False,
    output: Annotated[
        Path | None, Option("--output", "-o", help="File to write, mode 0600.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace the file.")] = False,
    as_json: Json = False,
) -> None:
    """Print what others need to trust a key, or copy the key itself to a file.

    Example: `satchel key export laptop > laptop.public.json`
    """
    output = file_or_none(output)
    if secret:
        if output is None:
            raise UsageError("a secret goes to a file: --output", field="--secret")
        path = signing.export_secret(state.settings, name, output, overwrite=force)
        message(f"Wrote the key to {path} (mode 0600). Whoever has it can sign as you.")
        if as_json:
            print_json({"output": str(path), **signing.export_public(state.settings, name)})
        return
    print_json(signing.export_public(state.settings, name))  # JSON, asked for or not


@keys.command("rotate")
def rotate_command(
    name: Name = "default",
    owner: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> int:
    """Put a new key in the place of one, in the banks of the store as well.

    What the old one signed stays good. A writer's key is replaced by an owner: --key.

    Example: `satchel key rotate laptop`
    """
    passphrase, signers = _unlocked(name), _other_owners(owner, name, also)
    done = rotating.rotate_key(state.settings, name, passphrase=passphrase, owners=signers)
    _propose(propose, done.banks)
    if as_json:
        print_json(done)
        return int(not done.is_whole)
    line(done.key)
    if done.role == "owner":
        message("The statement of succession, signed by both keys, is beside the key files.")
    return _tell_banks(done.banks, f"Once that is put right: satchel key hand-over {name}")


@keys.command("hand-over")
def hand_over_command(
    name: Name = "default",
    owner: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> int:
    """Note in the banks of the store what a key replaced, where they do not know it yet.

    For another store than that of the rotation, or where it was cut short.

    Example: `satchel --store /mnt/other.db key hand-over laptop`
    """
    passphrase, signers = _unlocked(name), _other_owners(owner, name, also)
    done = rotating.hand_over(state.settings, name, passphrase=passphrase, owners=signers)
    _propose(propose, done.banks)
    if as_json:
        print_json(done)
        return int(not done.is_whole)
    if not done.banks:
        message("No bank here was ever its.")
    return _tell_banks(done.banks, f"Once that is put right: satchel key hand-over {name}")


def _unlocked(name: str) -> str | None:
    """Return the passphrase of a key, where it has one."""
    return _passphrase.existing(needed=state.settings.keyring.read(name).protected)


def _other_owner(name: str | None, but: str) -> SigningKey | None:
    """Return the key of an owner who says something of another key; None where there is none."""
    settings = state.settings
    wanted = name or settings.options.keys.name
    if name is None and (wanted == but or wanted not in settings.keyring.names()):
        return None
    return owner_key(wanted)


def _other_owners(name: str | None, but: str, also: Sequence[str] | None) -> tuple[SigningKey, ...]:
    first = _other_owner(name, but)
    return (*([first] if first is not None else []), *(owner_key(one) for one in also or ()))


def _propose(path: Path | None, banks: Sequence[BankTold]) -> None:
    """Write what more owners have to sign, where that was asked for."""
    wanted = [record for bank in banks for record in bank.to_sign]
    if path is not None and wanted:
        propose_all(path, wanted)


def _tell_banks(banks: Sequence[BankTold], again: str) -> int:
    """Say what became of the banks, and return the exit status."""
    for bank in banks:
        said = "noted in its log" if bank.noted else bank.problem or "its log says so already"
        message(f"{bank.name or bank.id}: {said}")
        if bank.hint:
            message(f"  {bank.hint}")
    left = any(bank.problem for bank in banks)
    if left:
        message(again)
    return int(left)


@keys.command("trust")
def trust_command(
    key: Annotated[
        str,
        Argument(help="did:key, 64 hex digits, a file with a key, or a statement of succession."),
    ],
    name: Annotated[str | None, Option(help="What to call it.")] = None,
    profile: Annotated[
        str, Option(help="What it may vouch for: satchel or pam-sdk-1.0.")
    ] = "satchel",
    bank: Annotated[list[str] | None, Option(help="Only for this bank. Repeatable.")] = None,
    replaces: Annotated[
        str | None, Option(help="The key that this one succeeds; it is retired.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Believe a key from now on.

    Check it with its owner first, on another channel: the key is what you trust.

    Example: `satchel key trust did:key:z6Mk... --name ada`
    """
    if profile not in ("satchel", "pam-sdk-1.0"):
        raise UsageError("satchel or pam-sdk-1.0", field="--profile")
    entry = signing.trust_key(
        state.settings,
        key,
        name=name,
        profile=cast("Profile", profile),
        banks=tuple(bank or ()),
        replaces=replaces,
    )
    if as_json:
        print_json(entry)
    else:
        line(f"trusted {entry.name}: {entry.key}")


@keys.command("retire")
def retire_command(
    key: Annotated[str, Argument(help="did:key, or the name of a key.")],
    reason: Annotated[str | None, Option(help="Why.")] = None,
    owner: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> int:
    """Let a key go whose word was good: it signs no more, and what it signed stays good.

    In the banks that it is a key of, another owner says so: --key.

    Example: `satchel key retire did:key:z6Mk... --reason "the machine was given away"`
    """
    signers = _other_owners(owner, key, also)
    done = ending.retire_key(state.settings, key, reason=reason, owners=signers)
    _propose(propose, done.banks)
    if as_json:
        print_json(done)
        return int(not done.is_whole)
    line(f"{done.entry.state} {done.entry.name}: {done.entry.key}")
    return _tell_banks(done.banks, "It is not retired on this machine either.")


@keys.command("revoke")
def revoke_command(
    key: Annotated[str, Argument(help="did:key, or the name of a key.")],
    reason: Annotated[str | None, Option(help="Why.")] = None,
    sign_with: Annotated[
        str | None, Option(help="Sign a statement for others with this key.")
    ] = None,
    owner: Owner = None,
    also: Also = None,
    propose: Propose = None,
    as_json: Json = False,
) -> int:
    """Stop believing a key, for good, here and in the banks that it is a key of.

    Files that verified here before it was revoked still count; others by it no longer do, nor
    does any token that it issued. In a bank, what its log has of the key stays, and nothing comes
    after it; another owner says so: --key.

    Example: `satchel key revoke laptop --reason "stolen"`
    """
    signer = None
    if sign_with:
        signer, _ = signing.signing_key(state.settings, sign_with, passphrase=_unlocked(sign_with))
    owners = _other_owners(owner, key, also)
    done = ending.revoke_key(state.settings, key, reason=reason, signer=signer, owners=owners)
    _propose(propose, done.banks)
    if as_json:
        print_json(done)
        return int(not done.is_whole)
    line(f"revoked {done.entry.name}: {done.entry.key}")
    if done.statement is not None:
        print_json(done.statement)
    return _tell_banks(done.banks, "On this machine it is revoked; in these banks it is not.")


@keys.command("identity")
def identity_command(
    name: Annotated[str | None, Argument(help="Makes one of this name.")] = None,
    passphrase: Annotated[
        bool, Option("--passphrase", help="Protect it; it is then used where it is named.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an identity that files can be encrypted to, or list those that are here.

    What is printed is the recipient, which others need: `satchel export --encrypt-to age1...`

    Example: `satchel key identity laptop`
    """
    if name is None:
        found = identities.list_identities(state.settings)
        if as_json:
            print_json(found)
        else:
            table(
                ["name", "", "recipient"],
                [[one.name, "passphrase" if one.protected else "", one.recipient] for one in found],
            )
        return
    said = _passphrase.new_of_file(state.passphrase_file) if passphrase else None
    made = identities.create_identity(state.settings, name, said)
    if as_json:
        print_json(made)
    else:
        line(made.recipient)
        message("Keep a copy of its file: what is encrypted to it can be read by nothing else.")
