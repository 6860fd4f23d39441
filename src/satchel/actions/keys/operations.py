"""Operations on signing keys, trust, and identities for encryption."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from satchel.actions import signing
from satchel.actions.config import Settings
from satchel.actions.encrypting import identities
from satchel.actions.encrypting.identities import IdentityLine
from satchel.actions.keys import ending, rotating
from satchel.actions.keys.ending import KeyEnded
from satchel.actions.keys.proposing import write_proposal
from satchel.actions.keys.rotating import HandedOver, Rotated
from satchel.actions.keys.told import BankTold, Owners
from satchel.actions.options import (
    NOT_FOR_MODELS,
    PROMPT,
    SECRETS,
    OutputOptions,
    OwnerOptions,
    Reason,
)
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import KeyLine
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import UsageError
from satchel.ports import unoffered
from satchel.ports.operations import Absent, Option, Options, operation, path_text, texts
from satchel.seal.encoding.jcs import canonical
from satchel.seal.signing.key import SigningKey as Key
from satchel.seal.signing.trust import Profile, Role, TrustedKey

_ABSENT = {**NOT_FOR_MODELS, "python": SECRETS, "http": SECRETS}
_NOT_SERVED = {**NOT_FOR_MODELS, "http": SECRETS}

KeyName = Annotated[str, Option("Name of the key.", argument=True, values="key")]
AnyKey = Annotated[
    str,
    Option("Key: a did:key, or the name of a key.", argument=True, metavar="KEY", values="key"),
]
Protect = Annotated[
    bool,
    Option(
        "Protect it with a passphrase (prompted for, or SATCHEL_PASSPHRASE).",
        flag="--passphrase",
        python=Absent(why="A program gives the passphrase itself."),
    ),
]
Ask = Callable[[], str]
"""Returns a passphrase that a person chooses."""


class KeyExport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What others need to trust a key."""

    key: str
    name: str
    role: str
    created_at: str
    output: str | None = None
    """The file that was written."""


@dataclass(frozen=True, slots=True)
class KeyCreateOptions(Options):
    """What key to create."""

    name: KeyName = "default"
    _: KW_ONLY
    role: Annotated[Role, Option("Use: owner signs artifacts; writer signs log heads.")] = "owner"
    protect: Protect = unoffered.field(default=False, init=False)
    passphrase: Annotated[
        str | None, Option("Passphrase that protects it. Default: none.", cli=PROMPT)
    ] = None


@operation(
    KeyCreateOptions,
    name="key create",
    example="satchel key create laptop --passphrase",
    absent=_NOT_SERVED,
)
def create_key(
    settings: Settings, options: KeyCreateOptions, *, new_passphrase: Ask | None = None
) -> KeyExport:
    """Create a signing key and trust it.

    Args:
        settings: Where keys are.
        options: Which.
        new_passphrase: Returns the passphrase that protects it.

    Raises:
        TargetExistsError: If there is a key of that name.
        UsageError: If it is to be protected, and there is no passphrase.
    """
    require_owner(settings, "keys")
    passphrase = options.passphrase
    if options.protect and passphrase is None:
        if new_passphrase is None:
            raise UsageError("the passphrase must not be empty", field="passphrase")
        passphrase = new_passphrase()
    signing.create_key(settings, options.name, role=options.role, passphrase=passphrase)
    return _public(settings, options.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyListOptions(Options):
    """No options."""


@operation(
    KeyListOptions, name="key list", example="satchel key list", items="keys", absent=_NOT_SERVED
)
def list_keys(settings: Settings, _: KeyListOptions) -> list[KeyLine]:
    """List the keys stored here, and the trusted keys of others."""
    require_owner(settings, "keys")
    return signing.list_keys(settings)


@dataclass(frozen=True, slots=True)
class KeyExportOptions(OutputOptions):
    """Which key to export, and where to."""

    name: KeyName = "default"
    _: KW_ONLY
    secret: Annotated[
        bool,
        Option(
            "Export the secret key itself; needs --output.",
            python=Absent(why="Secret keys are exported on the command line only."),
        ),
    ] = unoffered.field(default=False, init=False)


@operation(
    KeyExportOptions,
    name="key export",
    example="satchel key export laptop --secret -o laptop.key.json",
    absent=_NOT_SERVED,
)
def export_key(settings: Settings, options: KeyExportOptions) -> KeyExport:
    """Export what others need to trust a key, or, with `--secret`, the key itself.

    Whoever has the secret key can sign as you. Its file has mode 0600.

    Args:
        settings: Where keys are.
        options: Which, and where to.

    Raises:
        SigningKeyError: If there is no such key.
        UsageError: If the secret has no file to go to.
        TargetError: If the file cannot be written.
    """
    require_owner(settings, "keys")
    output = path_text(options.output)
    if options.secret:
        if output is None:
            raise UsageError(
                "a secret key must be written to a file",
                field="--secret",
                hint="Add --output FILE.",
            )
        signing.export_secret(settings, options.name, Path(output), overwrite=options.overwrite)
        return replace(_public(settings, options.name), output=output)
    exported = _public(settings, options.name)
    if output is not None:
        with writing(Path(output), overwrite=options.overwrite, mode=PRIVATE_FILE) as stream:
            stream.write(canonical(msgspec.to_builtins(exported)) + b"\n")
    return replace(exported, output=output)


def _public(settings: Settings, name: str) -> KeyExport:
    return KeyExport(**signing.export_public(settings, name))


@dataclass(frozen=True, slots=True)
class KeyRotateOptions(OwnerOptions):
    """Which key to replace, and who signs it."""

    name: KeyName = "default"
    _: KW_ONLY


@operation(KeyRotateOptions, name="key rotate", example="satchel key rotate laptop", absent=_ABSENT)
def rotate_key(
    settings: Settings,
    options: KeyRotateOptions,
    *,
    passphrase: str | None = None,
    signers: Owners = (),
) -> Rotated:
    """Replace a key by a new one, here and in the banks of the store.

    What the old key signed stays valid. A writer key is replaced by an owner: `--signing-key`.

    Args:
        settings: Where the keys and the store are.
        options: Which key.
        passphrase: That of the old key, which the new one has too.
        signers: Keys of the owners who sign it.

    Raises:
        SigningKeyError: If there is no such key, its passphrase is wrong, or it was revoked.
    """
    passphrase = passphrase or options.passphrase
    done = rotating.rotate_key(settings, options.name, passphrase=passphrase, owners=signers)
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


@operation(
    KeyRotateOptions,
    name="key hand-over",
    example="satchel --store /mnt/other.db key hand-over laptop",
    absent=_ABSENT,
)
def hand_over_key(
    settings: Settings,
    options: KeyRotateOptions,
    *,
    passphrase: str | None = None,
    signers: Owners = (),
) -> HandedOver:
    """Record in the banks of the store which keys a key replaced, where they do not have it yet.

    For a store other than that of the rotation, or where the rotation was interrupted.

    Args:
        settings: Where the keys and the store are.
        options: Which key.
        passphrase: That of the keys.
        signers: Keys of the owners who sign it.

    Raises:
        SigningKeyError: If there is no such key, or its passphrase is wrong.
        UsageError: If it replaced no other.
    """
    passphrase = passphrase or options.passphrase
    done = rotating.hand_over(settings, options.name, passphrase=passphrase, owners=signers)
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


def _proposal(settings: Settings, path: object, banks: Sequence[BankTold]) -> str | None:
    """Write what more owners have to sign, where that is wanted; return the file."""
    records = [canonical(record) for bank in banks for record in bank.to_sign]
    if path is None or not records:
        return None
    write_proposal(settings, Path(str(path)), records)
    return str(path)


@dataclass(frozen=True, slots=True)
class KeyTrustOptions(Options):
    """Which key to trust, and for what."""

    key: Annotated[
        str,
        Option(
            "Key: a did:key, 64 hex digits, a file with a key, or a statement of succession.",
            argument=True,
            metavar="KEY",
            values="file",
        ),
    ]
    _: KW_ONLY
    name: Annotated[str | None, Option("Name to show for it.")] = None
    profile: Annotated[Profile, Option("Kind of file that it may sign.")] = "satchel"
    banks: Annotated[
        str | Sequence[str],
        Option("Only for this bank: its ID. Repeatable.", flag="--bank", values="bank"),
    ] = ()
    replaces: Annotated[
        str | None, Option("Key that this one succeeds; it is retired.", values="key")
    ] = None


@operation(
    KeyTrustOptions,
    name="key trust",
    example="satchel key trust did:key:z6Mk... --name ada",
    absent=_ABSENT,
)
def trust_key(settings: Settings, options: KeyTrustOptions) -> TrustedKey:
    """Trust a key from now on.

    Verify it with its owner first, over another channel: the key is what you trust.

    Args:
        settings: Where trust is stored.
        options: Which key.

    Raises:
        UsageError: If it was revoked.
        MalformedError: If it is not a usable key.
    """
    return signing.trust_key(
        settings,
        options.key,
        name=options.name,
        profile=options.profile,
        banks=texts(options.banks),
        replaces=options.replaces,
    )


@dataclass(frozen=True, slots=True)
class KeyRetireOptions(OwnerOptions):
    """Which key to retire, and who signs it."""

    key: AnyKey
    _: KW_ONLY
    reason: Reason = None


@operation(
    KeyRetireOptions,
    name="key retire",
    example='satchel key retire did:key:z6Mk... --reason "the machine was given away"',
    absent=_ABSENT,
)
def retire_key(settings: Settings, options: KeyRetireOptions, *, signers: Owners = ()) -> KeyEnded:
    """Retire a key: it signs no more, and what it signed stays valid.

    In banks where it is a key, another owner signs this: `--signing-key`.

    Args:
        settings: Where trust and the store are.
        options: Which key.
        signers: Keys of other owners, for the banks.

    Raises:
        UsageError: If no key, or more than one, has that name, or it was revoked.
    """
    done = ending.retire_key(settings, options.key, reason=options.reason, owners=signers)
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


@dataclass(frozen=True, slots=True)
class KeyRevokeOptions(KeyRetireOptions):
    """Which key to revoke, and who signs it."""

    statement_key: Annotated[
        str | None,
        Option("Sign a statement of revocation for others with this key.", values="key"),
    ] = None


@operation(
    KeyRevokeOptions,
    name="key revoke",
    example='satchel key revoke laptop --reason "stolen"',
    absent=_ABSENT,
)
def revoke_key(
    settings: Settings,
    options: KeyRevokeOptions,
    *,
    signers: Owners = (),
    statement_signer: Callable[[str], Key] | None = None,
) -> KeyEnded:
    """Revoke a key for good, here and in the banks where it is a key.

    Files by it that were verified here before still count; other files by it do not, nor does any
    token that it issued. In a bank, what its log has of the key stays, and nothing is added after;
    another owner signs this: `--signing-key`.

    Args:
        settings: Where trust and the store are.
        options: Which key.
        signers: Keys of other owners, for the banks.
        statement_signer: Returns the key that signs the statement, by its name.

    Raises:
        UsageError: If no key, or more than one, has that name.
    """
    signer = None
    if options.statement_key is not None:
        load = statement_signer or (lambda name: signing.signing_key(settings, name)[0])
        signer = load(options.statement_key)
    done = ending.revoke_key(
        settings, options.key, reason=options.reason, signer=signer, owners=signers
    )
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


@dataclass(frozen=True, slots=True)
class IdentityCreateOptions(Options):
    """What identity to create."""

    name: Annotated[str, Option("Letters, digits, dot, dash and underscore.", argument=True)]
    _: KW_ONLY
    protect: Protect = unoffered.field(default=False, init=False)


@operation(
    IdentityCreateOptions,
    name="key identity create",
    example="satchel key identity create laptop",
    absent=_ABSENT,
)
def create_identity(
    settings: Settings, options: IdentityCreateOptions, *, new_file_passphrase: Ask | None = None
) -> IdentityLine:
    """Create an identity that files can be encrypted to.

    What is printed is its recipient, for others: `satchel export --encrypt-to age1...` An identity
    with a passphrase is used only where it is named: `satchel --identity FILE`.

    Args:
        settings: Where identities are.
        options: Which.
        new_file_passphrase: Returns the passphrase that protects it.

    Raises:
        UsageError: If the name is not allowed.
        TargetExistsError: If there is an identity of that name.
        MissingExtraError: If the extra for encryption is not installed.
    """
    ask = new_file_passphrase if options.protect else None
    return identities.create_identity(settings, options.name, None if ask is None else ask())


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityListOptions(Options):
    """No options."""


@operation(
    IdentityListOptions,
    name="key identity list",
    example="satchel key identity list",
    items="identities",
    absent=_ABSENT,
)
def list_identities(settings: Settings, _: IdentityListOptions) -> list[IdentityLine]:
    """List the identities stored here, with their recipients."""
    require_owner(settings, "keys")
    return identities.list_identities(settings)
