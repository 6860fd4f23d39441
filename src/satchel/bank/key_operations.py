"""Operations on signing keys, trust, and identities for encryption."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import msgspec
from msgspec.structs import replace

from satchel.bank import keys, machine_keys
from satchel.bank.keys import (
    BankKeyResult,
    KeyEndResult,
    KeyHandover,
    KeyRotation,
    OwnerList,
    Owners,
    ProposedAction,
    write_proposal,
)
from satchel.bank.machine_keys import (
    IdentityLine,
    KeyLine,
    require_owner,
    signer_of,
    signers_of,
    signing_key,
)
from satchel.config.options import (
    NOT_FOR_MODELS,
    PROMPT,
    SECRETS,
    DryRun,
    OutputOptions,
    OwnerOptions,
    Reason,
    SigningOptions,
)
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical
from satchel.crypto.key_files import Profile, Role, TrustedKey
from satchel.crypto.keys import SigningKey as Key
from satchel.errors import UsageError
from satchel.ports import absent_options
from satchel.ports.operations import (
    Absent,
    NoOptions,
    Option,
    Options,
    PathText,
    operation,
    path_text,
    texts,
)
from satchel.ports.store import Store
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input

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
    """A key as others need it to trust it."""

    key: str
    name: str
    role: str
    created_at: str
    output: str | None = None
    """File that was written."""


@dataclass(frozen=True, slots=True)
class KeyCreateOptions(Options):
    """The key to create."""

    name: KeyName = "default"
    _: KW_ONLY
    role: Annotated[Role, Option("Use: owner signs artifacts; writer signs log heads.")] = "owner"
    protect: Protect = absent_options.field(default=False, init=False)
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
        settings: Settings with the key ring.
        options: The key to create.
        new_passphrase: Returns the passphrase that protects it.

    Raises:
        TargetExistsError: If there is a key of that name.
        UsageError: If it is to be protected and the passphrase is empty.
    """
    require_owner(settings, "keys")
    passphrase = options.passphrase
    if options.protect and passphrase is None:
        if new_passphrase is None:
            raise UsageError("the passphrase must not be empty", field="passphrase")
        passphrase = new_passphrase()
    machine_keys.create_key(settings, options.name, role=options.role, passphrase=passphrase)
    return _public(settings, options.name)


@operation(NoOptions, name="key list", example="satchel key list", items="keys", absent=_NOT_SERVED)
def list_keys(settings: Settings, _: NoOptions) -> list[KeyLine]:
    """List the keys stored here, and the trusted keys of others."""
    require_owner(settings, "keys")
    return machine_keys.list_keys(settings)


@dataclass(frozen=True, slots=True)
class KeyExportOptions(OutputOptions):
    """The key to export, and the file to write."""

    name: KeyName = "default"
    _: KW_ONLY
    secret: Annotated[
        bool,
        Option(
            "Export the secret key itself; needs --output.",
            python=Absent(why="Secret keys are exported on the command line only."),
        ),
    ] = absent_options.field(default=False, init=False)


@operation(
    KeyExportOptions,
    name="key export",
    example="satchel key export laptop --secret -o laptop.key.json",
    absent=_NOT_SERVED,
)
def export_key(settings: Settings, options: KeyExportOptions) -> KeyExport:
    """Export what others need to trust a key, or, with `--secret`, the key itself.

    Anyone who has the secret key can sign as you. Its file has mode 0600.

    Args:
        settings: Settings with the key ring.
        options: The key, and the file to write.

    Raises:
        SigningKeyError: If there is no such key.
        UsageError: If no file is given for the secret.
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
        machine_keys.export_secret(
            settings, options.name, Path(output), overwrite=options.overwrite
        )
        return replace(_public(settings, options.name), output=output)
    exported = _public(settings, options.name)
    if output is not None:
        with atomic_write(Path(output), overwrite=options.overwrite, mode=PRIVATE_FILE) as stream:
            stream.write(canonical(msgspec.to_builtins(exported)) + b"\n")
    return replace(exported, output=output)


class KeyImport(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was imported."""

    key: str
    name: str
    role: str
    created_at: str
    protected: bool
    """Whether it needs a passphrase."""

    imported: bool
    """False if it was here before; nothing was changed then."""


@dataclass(frozen=True, slots=True)
class KeyImportOptions(Options):
    """The file with the key, and its name here."""

    file: Annotated[
        PathText,
        Option(
            "File that `key export --secret` wrote; - for standard input.",
            argument=True,
            metavar="FILE",
            values="file",
        ),
    ]
    _: KW_ONLY
    name: Annotated[str | None, Option("Name to store it under. Default: as in the file.")] = None
    passphrase: Annotated[
        str | None, Option("Passphrase of the key, if it has one.", cli=PROMPT)
    ] = None


@operation(
    KeyImportOptions,
    name="key import",
    example="satchel key import laptop.key.json",
    absent=_NOT_SERVED,
)
def import_key(
    settings: Settings,
    options: KeyImportOptions,
    *,
    passphrase: Callable[[], str | None] | None = None,
    standard_input: BinaryIO | None = None,
) -> KeyImport:
    """Import a signing key with its secret, as `key export --secret` wrote it.

    The key is verified, stored with mode 0600 and trusted. Importing the same key again changes
    nothing. A public key is not imported but trusted: `satchel key trust FILE`.

    Args:
        settings: Settings with the key ring.
        options: The file, and the name of the key.
        passphrase: Returns the passphrase of the key.
        standard_input: Read if the file is ``-``; without it, ``-`` is a file name.

    Raises:
        UnreadableError: If the file cannot be read.
        EmptyInputError: If it is empty.
        LimitError: If it is too large for a key file.
        MalformedError: If it is not a key file, or has no secret.
        SigningKeyError: If others may read it, its name is invalid, the passphrase is missing or
            wrong, the secret does not belong to the public key, or the key was retired or revoked.
        TargetExistsError: If another key has the name, or this key another name.
    """
    require_owner(settings, "keys")
    path = Path(options.file)
    if standard_input is not None and options.file == "-":
        file = machine_keys.read_secret(standard_input, path=None)
    else:
        with open_input(path) as source:
            file = machine_keys.read_secret(source, path=path)
    if options.name is not None:
        file = replace(file, name=options.name)
    ask = passphrase or (lambda: options.passphrase)
    stored, is_new = machine_keys.import_secret(settings, file, ask)
    return KeyImport(
        key=stored.key,
        name=stored.name,
        role=stored.role,
        created_at=stored.created_at,
        protected=stored.protected,
        imported=is_new,
    )


def _public(settings: Settings, name: str) -> KeyExport:
    return KeyExport(**machine_keys.export_public(settings, name))


@dataclass(frozen=True, slots=True)
class KeyRotateOptions(OwnerOptions):
    """The key to replace, and the keys that sign it."""

    name: KeyName = "default"
    _: KW_ONLY


@operation(KeyRotateOptions, name="key rotate", example="satchel key rotate laptop", absent=_ABSENT)
def rotate_key(
    settings: Settings,
    options: KeyRotateOptions,
    *,
    passphrase: str | None = None,
    signers: Owners = (),
) -> KeyRotation:
    """Replace a key by a new one, here and in the banks of the store.

    What the old key signed stays valid. A writer key is replaced by an owner: `--signing-key`.

    Args:
        settings: Settings with the keys and the store.
        options: The key.
        passphrase: Passphrase of the old key, which the new one gets too.
        signers: Keys of the owners who sign it.

    Raises:
        SigningKeyError: If there is no such key, its passphrase is wrong, or it was revoked.
    """
    passphrase = passphrase or options.passphrase
    done = keys.rotate_key(settings, options.name, passphrase=passphrase, owners=signers)
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
) -> KeyHandover:
    """Record in the banks of the store which keys a key replaced, if they lack that record.

    For a store other than that of the rotation, or if the rotation was interrupted.

    Args:
        settings: Settings with the keys and the store.
        options: The key.
        passphrase: Passphrase of the keys.
        signers: Keys of the owners who sign it.

    Raises:
        SigningKeyError: If there is no such key, or its passphrase is wrong.
        UsageError: If it did not replace another key.
    """
    passphrase = passphrase or options.passphrase
    done = keys.hand_over(settings, options.name, passphrase=passphrase, owners=signers)
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


def _proposal(settings: Settings, path: object, banks: Sequence[BankKeyResult]) -> str | None:
    """Write the records that more owners must sign, if a file is given; return the file."""
    records = [canonical(record) for bank in banks for record in bank.to_sign]
    if path is None or not records:
        return None
    write_proposal(settings, Path(str(path)), records)
    return str(path)


@dataclass(frozen=True, slots=True)
class KeyTrustOptions(Options):
    """The key to trust, and for what."""

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
        settings: Settings with the key registry.
        options: The key.

    Raises:
        UsageError: If it was revoked.
        MalformedError: If it is not a usable key.
    """
    return machine_keys.trust_key(
        settings,
        options.key,
        name=options.name,
        profile=options.profile,
        banks=texts(options.banks),
        replaces=options.replaces,
    )


@dataclass(frozen=True, slots=True)
class KeyRetireOptions(OwnerOptions):
    """The key to retire, and the keys that sign it."""

    key: AnyKey
    _: KW_ONLY
    reason: Reason = None


@operation(
    KeyRetireOptions,
    name="key retire",
    example='satchel key retire did:key:z6Mk... --reason "the machine was given away"',
    absent=_ABSENT,
)
def retire_key(
    settings: Settings, options: KeyRetireOptions, *, signers: Owners = ()
) -> KeyEndResult:
    """Retire a key: it signs no more, and what it signed stays valid.

    In banks where it is a key, another owner signs this: `--signing-key`.

    Args:
        settings: Settings with the key registry and the store.
        options: The key.
        signers: Keys of other owners, for the banks.

    Raises:
        UsageError: If no key, or more than one, has that name, or it was revoked.
    """
    done = keys.retire_key(settings, options.key, reason=options.reason, owners=signers)
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


@dataclass(frozen=True, slots=True)
class KeyRevokeOptions(KeyRetireOptions):
    """The key to revoke, and the keys that sign it."""

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
) -> KeyEndResult:
    """Revoke a key permanently, here and in the banks where it is a key.

    Files that it signed stay valid only if they were verified on this machine before, and the
    tokens that it issued are revoked. In a bank, its earlier records stay valid and later ones are
    refused; another owner must sign the revocation: `--signing-key`.

    Args:
        settings: Settings with the key registry and the store.
        options: The key.
        signers: Keys of other owners, for the banks.
        statement_signer: Returns the key that signs the statement, by its name.

    Raises:
        UsageError: If no key, or more than one, has that name.
    """
    signer = None
    if options.statement_key is not None:
        load = statement_signer or (lambda name: machine_keys.signing_key(settings, name)[0])
        signer = load(options.statement_key)
    done = keys.revoke_key(
        settings, options.key, reason=options.reason, signer=signer, owners=signers
    )
    return replace(done, proposal=_proposal(settings, options.propose, done.banks))


@dataclass(frozen=True, slots=True)
class IdentityCreateOptions(Options):
    """The identity to create."""

    name: Annotated[str, Option("Letters, digits, dot, dash and underscore.", argument=True)]
    _: KW_ONLY
    protect: Protect = absent_options.field(default=False, init=False)


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
        settings: Settings with the home.
        options: The identity to create.
        new_file_passphrase: Returns the passphrase that protects it.

    Raises:
        UsageError: If the name is not allowed.
        TargetExistsError: If there is an identity of that name.
        MissingExtraError: If the extra for encryption is not installed.
    """
    ask = new_file_passphrase if options.protect else None
    return machine_keys.create_identity(settings, options.name, None if ask is None else ask())


@operation(
    NoOptions,
    name="key identity list",
    example="satchel key identity list",
    items="identities",
    absent=_ABSENT,
)
def list_identities(settings: Settings, _: NoOptions) -> list[IdentityLine]:
    """List the identities stored here, with their recipients."""
    require_owner(settings, "keys")
    return machine_keys.list_identities(settings)


_DECIDED_ELSEWHERE = {**NOT_FOR_MODELS, "http": "Owners decide on the machines that have the keys."}


class OwnedBank(NamedTuple):
    """A bank of an open store, as its owners decide about it."""

    settings: Settings
    store: Store
    bank: str


File = Annotated[
    PathText,
    Option("File that --propose wrote.", argument=True, metavar="FILE", values="file"),
]


@operation(
    NoOptions,
    name="bank owner list",
    example="satchel bank owner list assistant",
    absent=NOT_FOR_MODELS,
)
def list_owners(owned: OwnedBank, _: NoOptions) -> OwnerList:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    return keys.owners_in(owned.settings, owned.store, owned.bank)


@dataclass(frozen=True, slots=True)
class OwnerAddOptions(OwnerOptions):
    """The key that becomes an owner, and the keys that sign it."""

    key: Annotated[
        str,
        Option("Key: a did:key, or the name of a key.", argument=True, metavar="KEY", values="key"),
    ]
    _: KW_ONLY


@operation(
    OwnerAddOptions,
    name="bank owner add",
    example="satchel bank owner add assistant did:key:z6Mk... --propose ben.json",
    absent=_DECIDED_ELSEWHERE,
)
def add_owner(
    owned: OwnedBank,
    options: OwnerAddOptions,
    *,
    owners: Callable[[], Owners] | None = None,
    newcomer: Callable[[str], Key] | None = None,
) -> OwnerList:
    """Make a key an owner of a bank. The key has to agree, so it signs too.

    If its secret is on another machine, add `--propose` and sign the file there.

    Args:
        owned: The bank.
        options: The key.
        owners: Returns the keys of the owners who sign it.
        newcomer: Returns the new owner's key, if its secret is here.

    Raises:
        ThresholdError: If more owners must sign, or the new key itself on another machine.
        UsageError: If the key was retired or revoked in the bank, or the bank has too many owners.
        SigningKeyError: If the key that signs is not that of an owner.
    """
    settings, key = owned.settings, None
    if options.key in settings.keyring.names():
        load = newcomer or (
            lambda name: signing_key(settings, name, passphrase=options.passphrase)[0]
        )
        key = load(options.key)
    signers, place = signers_of(settings, options, owners), (owned.store, owned.bank)
    return keys.add_owner(settings, place, signers, options.key, key)


@dataclass(frozen=True, slots=True)
class OwnerThresholdOptions(OwnerOptions):
    """The number of owners who must sign, and the keys that sign it."""

    threshold: Annotated[
        int, Option("Number of owners who must sign.", argument=True, metavar="N", minimum=1)
    ]
    _: KW_ONLY


@operation(
    OwnerThresholdOptions,
    name="bank owner threshold",
    example="satchel bank owner threshold assistant 2 --co-signer ben",
    absent=_DECIDED_ELSEWHERE,
)
def set_threshold(
    owned: OwnedBank,
    options: OwnerThresholdOptions,
    *,
    owners: Callable[[], Owners] | None = None,
) -> OwnerList:
    """Set how many owners must sign a decision about a bank.

    Decisions are: who owns it, which machines may add to it, its name, and resuming after a loss.
    As many as before must sign this, also to lower it. Storing memories needs no owner.

    Args:
        owned: The bank.
        options: The number of owners.
        owners: Returns the keys of the owners who sign it.

    Raises:
        ThresholdError: If more owners must sign.
        UsageError: If there are fewer owners.
        SigningKeyError: If the key that signs is not that of an owner.
    """
    signers, place = signers_of(owned.settings, options, owners), (owned.store, owned.bank)
    return keys.set_threshold(owned.settings, place, signers, options.threshold)


@dataclass(frozen=True, slots=True)
class OwnerSignOptions(SigningOptions):
    """The proposal to sign, and the key that signs it."""

    file: File
    _: KW_ONLY
    dry_run: DryRun = False


@operation(
    OwnerSignOptions,
    name="bank owner sign",
    example="satchel bank owner sign proposal.json --signing-key ben",
    items="decisions",
    absent=_DECIDED_ELSEWHERE,
)
def sign_proposal(
    context: Settings | OwnedBank,
    options: OwnerSignOptions,
    *,
    owner: Callable[[], Key] | None = None,
) -> list[ProposedAction]:
    """Sign a proposal about a bank. This does not enact it.

    Read it first, and check that it is about the bank you mean: `--dry-run` signs nothing.

    Args:
        context: Settings with the key ring, or a bank.
        options: The proposal.
        owner: Returns the key that signs it.

    Raises:
        MalformedError: If it is not a proposal.
        SigningKeyError: If the key is not on this machine.
    """
    settings = context if isinstance(context, Settings) else context.settings
    require_owner(settings, "banks")
    path = Path(options.file)
    if options.dry_run:
        return list(keys.read_proposal(settings, path))
    key = signer_of(settings, options, owner)
    return list(keys.sign_proposal(settings, path, key))


@dataclass(frozen=True, slots=True)
class OwnerEnactOptions(Options):
    """The proposal to enact."""

    file: File


@operation(
    OwnerEnactOptions,
    name="bank owner enact",
    example="satchel bank owner enact proposal.json",
    items="decisions",
    absent=_DECIDED_ELSEWHERE,
)
def enact_proposal(
    context: Settings | OwnedBank, options: OwnerEnactOptions
) -> Sequence[ProposedAction]:
    """Record in the log of a bank what enough of its owners have signed.

    Args:
        context: Settings with the store, or the bank that the proposal must be about.
        options: The proposal.

    Raises:
        ThresholdError: If more owners must sign.
        UsageError: If it is about another bank, or was made for another state of it.
    """
    path = Path(options.file)
    if isinstance(context, Settings):
        require_owner(context, "banks")
        return keys.enact_proposal(context, path)
    require_owner(context.settings, "banks")
    return keys.enact_in(context.settings, context.store, context.bank, path)
