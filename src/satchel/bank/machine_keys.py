"""Keys of this machine: signing keys, trust in the keys of others, and encryption identities.

Also which actions only the owner of the machine may do.
"""

import binascii
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from satchel.config.options import CoSigningOptions, SigningOptions
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical
from satchel.crypto.encryption import (
    IDENTITY_SUFFIX,
    Lock,
    check_recipients,
    identity_value,
    new_identity,
    parse_identity_file,
)
from satchel.crypto.key_files import (
    MAX_KEY_FILE,
    KeyFile,
    Profile,
    Role,
    TrustedKey,
    key_from_text,
    parse_key_file,
    read_succession,
    refuse_exposed,
    unlock,
)
from satchel.crypto.keys import SigningKey, did_key, public_key
from satchel.errors import (
    EmptyInputError,
    LimitError,
    MalformedError,
    PermissionRefusedError,
    SigningKeyError,
    TargetExistsError,
    UsageError,
)
from satchel.model.values import is_canonical_time, now
from satchel.ports.operations import texts
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.private_files import private_folder

KEY_VARIABLE = "SATCHEL_SIGNING_KEY"
"""Environment variable with a 32-byte seed in base64; it takes precedence over key files."""

_RAW_KEY_BYTES = 32
_MAX_KEY_FILE = 4096


class KeyLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One key in a listing."""

    key: str
    name: str
    state: str
    own: bool
    signs: bool
    """Whether its secret is on this machine."""

    role: str | None = None
    protected: bool = False
    profile: str = "satchel"
    banks: list[str] = []
    added_at: str | None = None
    reason: str | None = None


def signing_key(
    settings: Settings,
    name: str | None = None,
    *,
    passphrase: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[SigningKey, bool]:
    """Return the key to sign with, and whether it was just created.

    The first of: the holder's key, if a token is presented; the named key; the key in the
    environment; the default key, created on first use.

    Raises:
        SigningKeyError: If the key is missing, revoked, or needs a passphrase.
    """
    env = os.environ if environment is None else environment
    if settings.token is not None:  # the holder of a token never signs as the owner
        from satchel.bank.permissions import own_key

        return own_key(settings, env), False
    if name is None and env.get(KEY_VARIABLE):
        key = key_from_text(env[KEY_VARIABLE])
        _trust_own(settings, key, "environment")
        return key, False
    key_name = name or settings.options.keys.name
    if name is None and key_name not in settings.keyring.names():
        return create_key(settings, key_name, passphrase=passphrase), True
    if settings.keyring.read(key_name).role != "owner":
        raise SigningKeyError(
            f"{key_name!r} is a writer key, which signs log heads only",
            hint="Use an owner key: satchel key create NAME",
        )
    key = settings.keyring.load(key_name, passphrase=passphrase)
    known = settings.registry.find(key.did)
    if known is not None and known.state != "trusted":
        raise SigningKeyError(
            f"the key {key_name!r} was {known.state}",
            hint="Create another: satchel key create NAME",
        )
    return key, False


def owner_keys(
    settings: Settings,
    name: str | None = None,
    also: Sequence[str] = (),
    *,
    passphrase: str | None = None,
) -> tuple[SigningKey, ...]:
    """Return the keys of one or several owners who sign together.

    Args:
        settings: Settings with the key ring.
        name: Name of the first key; None for the default key, created on first use.
        also: Names of the other keys.
        passphrase: Passphrase of the protected keys.

    Raises:
        SigningKeyError: If a key is missing, revoked, or needs another passphrase.
    """
    return tuple(signing_key(settings, each, passphrase=passphrase)[0] for each in (name, *also))


def signer_of(
    settings: Settings, options: SigningOptions, supplied: Callable[[], SigningKey] | None = None
) -> SigningKey:
    """Return the signing key that the caller supplies, else the one of the options.

    Raises:
        SigningKeyError: If it is missing, revoked, or needs a passphrase.
    """
    if supplied is not None:
        return supplied()
    return signing_key(settings, options.signing_key, passphrase=options.passphrase)[0]


def signers_of(
    settings: Settings,
    options: CoSigningOptions,
    supplied: Callable[[], tuple[SigningKey, ...]] | None = None,
) -> tuple[SigningKey, ...]:
    """Return the owners' keys that the caller supplies, else those of the options.

    Raises:
        SigningKeyError: If a key is missing, revoked, or needs a passphrase.
    """
    if supplied is not None:
        return supplied()
    name, others = options.signing_key, texts(options.co_signers)
    return owner_keys(settings, name, others, passphrase=options.passphrase)


def create_key(
    settings: Settings, name: str, *, role: Role = "owner", passphrase: str | None = None
) -> SigningKey:
    """Create a signing key and trust it.

    Raises:
        TargetExistsError: If there is a key of that name.
    """
    key = settings.keyring.create(name, role=role, passphrase=passphrase)
    _trust_own(settings, key, name, role)
    return key


def _trust_own(settings: Settings, key: SigningKey, name: str, role: Role = "owner") -> None:
    registry = settings.registry
    if registry.find(key.did) is None:
        registry.trust(TrustedKey(key=key.did, name=name, added_at=now(), own=True, role=role))


def list_keys(settings: Settings) -> list[KeyLine]:
    """Return all keys on this machine and all trusted keys, own keys first."""
    files: dict[str, KeyFile] = {}
    for name in settings.keyring.names():
        stored = settings.keyring.read(name)
        files[stored.key] = stored
    lines = []
    for known in settings.registry.listed():
        file = files.pop(known.key, None)
        lines.append(
            KeyLine(
                key=known.key,
                name=known.name,
                state=known.state,
                own=known.own,
                signs=file is not None,
                role=file.role if file else None,
                protected=file.protected if file else False,
                profile=known.profile,
                banks=known.banks,
                added_at=known.added_at,
                reason=known.reason,
            )
        )
    lines.extend(
        KeyLine(
            key=file.key,
            name=file.name,
            state="not trusted",
            own=True,
            signs=True,
            role=file.role,
            protected=file.protected,
            added_at=file.created_at,
        )
        for file in files.values()
    )
    return sorted(lines, key=lambda line: (not line.own, line.name))


def export_public(settings: Settings, name: str) -> dict[str, str]:
    """Return what others need to trust a key."""
    file = settings.keyring.read(name)
    return {"key": file.key, "name": file.name, "role": file.role, "created_at": file.created_at}


def export_secret(settings: Settings, name: str, output: Path, *, overwrite: bool = False) -> Path:
    """Copy a key file, with its secret, to a file that only its owner may read.

    Raises:
        TargetError: If it cannot be written.
    """
    require_owner(settings, "keys")
    content = msgspec.to_builtins(settings.keyring.read(name))
    content = {field: part for field, part in content.items() if part is not None}
    with atomic_write(output, overwrite=overwrite, mode=PRIVATE_FILE) as stream:
        stream.write(canonical(content) + b"\n")
    return output


def read_secret(source: BinaryIO, *, path: Path | None) -> KeyFile:
    """Return a key file as ``export_secret`` writes it.

    Args:
        source: The open file.
        path: Its path, which others must not be able to read; None for standard input.

    Raises:
        EmptyInputError: If it is empty.
        LimitError: If it is too large for a key file.
        MalformedError: If it is not a key file, or has no secret.
        SigningKeyError: If others may read it.
    """
    data = source.read(MAX_KEY_FILE + 1)
    if len(data) > MAX_KEY_FILE:
        raise LimitError(f"not a key file: it has more than {MAX_KEY_FILE:,} bytes")
    if not data:
        raise EmptyInputError("the key file is empty", hint=_EXPORTED)
    _refuse_other(data)
    if path is not None:
        refuse_exposed(path, os.fstat(source.fileno()))
    file = parse_key_file(data)
    public_key(file.key)
    if (file.seed is None) is (file.wrapped is None):
        raise MalformedError("not a key file: it must have one of `seed` and `wrapped`")
    if not is_canonical_time(file.created_at):
        raise MalformedError("not a key file: `created_at` is not a time")
    return file


def _refuse_other(data: bytes) -> None:
    """Refuse content that is no key file, or has no secret, whatever the mode of the file.

    Damaged JSON passes: it may hold a secret, so the mode is checked first.
    """
    text = data.strip()
    is_public = text.startswith(b"did:")
    is_secret = False
    if text.startswith(b"{"):
        try:
            members = msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        is_public = "format" not in members and ("key" in members or "signed" in members)
        is_secret = not members.keys().isdisjoint(("seed", "wrapped"))
    if is_public:
        raise MalformedError(
            "this is a public key or a statement, without a secret",
            hint="To trust it: satchel key trust FILE. To import a key, export it with --secret.",
        )
    if not is_secret:
        raise MalformedError("this is not a key file with a secret", hint=_EXPORTED)


_EXPORTED = "Pass a file that `satchel key export --secret` wrote."


def import_secret(
    settings: Settings, file: KeyFile, passphrase: Callable[[], str | None]
) -> tuple[KeyFile, bool]:
    """Store a key with its secret and trust it; return it, and whether it is new here.

    Args:
        settings: Settings with the key ring.
        file: The key, with the name to store it under.
        passphrase: Returns its passphrase; called if it has one and is new here.

    Raises:
        SigningKeyError: If the name is invalid, a passphrase is missing or wrong, the secret does
            not belong to the public key, or the key was retired or revoked here.
        TargetExistsError: If another key has the name, or this key another name.
    """
    require_owner(settings, "keys")
    known = settings.registry.find(file.key)
    if known is not None and known.state != "trusted":
        raise SigningKeyError(f"the key {known.name!r} was {known.state} on this machine")
    for name in settings.keyring.names():
        with suppress(MalformedError, SigningKeyError):  # another key's file is damaged
            if name != file.name and settings.keyring.read(name).key == file.key:
                raise TargetExistsError(
                    f"this key is already here, as {name!r}", hint=f"Use it: --signing-key {name}"
                )
    key = unlock(file, passphrase() if file.protected else None)
    is_new = settings.keyring.add(file)
    if known is None:
        _trust_own(settings, key, file.name, file.role)
    elif not known.own or known.role != file.role:
        settings.registry.trust(replace(known, own=True, role=file.role))
    return settings.keyring.read(file.name), is_new


def trust_key(
    settings: Settings,
    key: str,
    *,
    name: str | None = None,
    profile: Profile = "satchel",
    banks: tuple[str, ...] = (),
    replaces: str | None = None,
) -> TrustedKey:
    """Trust a key from now on.

    Args:
        settings: Settings with the key registry.
        key: A did:key, 64 hex digits, or a file with one of them or with 32 raw bytes; or a file
            with a statement of succession, which names the key it replaces.
        name: Name of the key.
        profile: Kind of file that it may sign.
        banks: Banks that it may sign for; empty for any.
        replaces: The key that it succeeds, which is retired.

    Raises:
        UsageError: If it was revoked.
        MalformedError: If it is not a usable key.
    """
    require_owner(settings, "keys")
    stated = _succession_in(key)
    old, new = stated or (read_public_key(replaces) if replaces else None, read_public_key(key))
    if stated and replaces and read_public_key(replaces) != old:
        raise UsageError("the statement is for another key", field="replaces")
    entry = TrustedKey(
        key=new,
        name=name or (Path(key).stem if not key.startswith("did:") else key[-8:]),
        added_at=now(),
        profile=profile,
        banks=list(banks),
        replaces=old,
    )
    settings.registry.trust(entry)
    return settings.registry.find(new) or entry


def _succession_in(text: str) -> tuple[str, str] | None:
    """Return the old and the new key in a statement of succession; None for other input."""
    if text.startswith("did:") or not Path(text).is_file():
        return None
    with open_input(Path(text)) as stream:
        data = stream.read(_MAX_KEY_FILE)
    if not data.startswith(b"{"):
        return None
    try:
        return read_succession(msgspec.json.decode(data))
    except msgspec.MsgspecError:
        raise MalformedError("neither a key nor a statement of succession", file=text) from None


def named_key(settings: Settings, key: str) -> str:
    """Return the did:key of a did:key, or of the name of a key on this machine or a trusted key.

    Raises:
        UsageError: If no key, or more than one, has that name.
        MalformedError: If it is not a usable did:key.
    """
    if key.startswith("did:"):
        public_key(key)
        return key
    if key in settings.keyring.names():
        return settings.keyring.read(key).key
    matches = [known.key for known in settings.registry.listed() if known.name == key]
    if len(matches) != 1:
        raise UsageError(f"{len(matches)} keys are named {key!r}", hint="Give the did:key instead.")
    return matches[0]


def read_public_key(text: str) -> str:
    """Return the did:key of a text or a file.

    Raises:
        MalformedError: If it is not a usable key.
        UnreadableError: If it looks like a file and cannot be read.
    """
    stated = stated_key(text)
    if stated is not None:
        return stated
    with open_input(Path(text)) as stream:
        data = stream.read(_MAX_KEY_FILE)
    if len(data) == _RAW_KEY_BYTES:
        return did_key(data)
    try:
        content = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise MalformedError("not a public key", file=text) from None
    if content.startswith("{"):
        return _from_json(content, text)
    if content.startswith("did:") or len(content) == 2 * _RAW_KEY_BYTES:
        return read_public_key(content)
    raise MalformedError(
        "not a public key", file=text, hint="Give a did:key, 64 hex digits, or 32 raw bytes."
    )


def stated_key(text: str) -> str | None:
    """Return the did:key of a did:key or hex digits; None if the text is neither.

    Raises:
        MalformedError: If it is a DID, but not a usable key.
    """
    if text.startswith("did:"):
        public_key(text)
        return text
    if len(text) == 2 * _RAW_KEY_BYTES:
        with suppress(binascii.Error, ValueError):
            return did_key(binascii.unhexlify(text))
    return None


def _from_json(content: str, name: str) -> str:
    try:
        key = msgspec.json.decode(content)["key"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        raise MalformedError("not a public key: no member `key`", file=name) from None
    public_key(str(key))
    return str(key)


_IDENTITY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_MOST_IDENTITY_BYTES = 65_536


class IdentityLine(msgspec.Struct, frozen=True, kw_only=True):
    """One identity of this machine."""

    name: str
    recipient: str
    protected: bool
    created_at: str


def create_identity(settings: Settings, name: str, passphrase: str | None = None) -> IdentityLine:
    """Create an identity and its file, with mode 0600.

    Args:
        settings: Settings with the home.
        name: Letters, digits, dot, dash and underscore.
        passphrase: Protects it; a protected identity is used only where it is named.

    Raises:
        UsageError: If the name is not allowed.
        TargetExistsError: If there is an identity of that name.
        MissingExtraError: If the extra for encryption is not installed.
    """
    require_owner(settings, "keys")
    path = _identity_path(settings, name)
    identity, recipient = new_identity()
    private_folder(path.parent)
    value = identity_value(identity, recipient, passphrase)
    try:
        with atomic_write(path, overwrite=False, mode=PRIVATE_FILE) as stream:
            stream.write(canonical(value) + b"\n")
    except TargetExistsError:
        raise TargetExistsError(
            f"an identity named {name!r} already exists", file=str(path)
        ) from None
    return _identity_line(path)


def list_identities(settings: Settings) -> list[IdentityLine]:
    """Return the identities of this machine, by name."""
    folder = settings.home / "identities"
    return [_identity_line(path) for path in sorted(folder.glob(f"*{IDENTITY_SUFFIX}"))]


def lock_for(settings: Settings, recipients: Sequence[str], passphrase: str | None = None) -> Lock:
    """Return the recipients and passphrase that a file is encrypted to.

    Args:
        settings: Settings with the identities of this machine.
        recipients: Each is ``age1...``, a file with one per line, or the name of an identity.
        passphrase: A passphrase that also decrypts the file.

    Raises:
        UsageError: If one is not a recipient.
        UnreadableError: If one is a file that cannot be read.
    """
    if isinstance(recipients, str):
        raise TypeError("recipients must be a list, not one string")
    keys = list[str]()
    names = {line.name: line.recipient for line in list_identities(settings)} if recipients else {}
    for text in recipients:
        if text in names:
            keys.append(names[text])
        elif text.startswith("age1") or text.upper().startswith("AGE-SECRET"):
            keys.append(text)
        else:
            keys += _recipients_in_file(Path(text))
    return Lock(recipients=check_recipients(keys), passphrase=passphrase)


def _recipients_in_file(path: Path) -> list[str]:
    with open_input(path) as stream:
        lines = stream.read(_MOST_IDENTITY_BYTES).decode("ascii", "replace").splitlines()
    recipients = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not recipients:
        raise UsageError("it contains no recipient", file=str(path))
    return recipients


def _identity_path(settings: Settings, name: str) -> Path:
    if not _IDENTITY_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid identity name",
            hint="Use letters, digits, dot, dash and underscore.",
        )
    return settings.home / "identities" / f"{name}{IDENTITY_SUFFIX}"


def _identity_line(path: Path) -> IdentityLine:
    with open_input(path) as stream:
        identity = parse_identity_file(stream.read(_MOST_IDENTITY_BYTES))
    return IdentityLine(
        name=path.name.removesuffix(IDENTITY_SUFFIX),
        recipient=identity.recipient,
        protected=identity.wrapped is not None,
        created_at=identity.created_at,
    )


OWNERS = frozenset(
    {
        "init",
        "import",
        "undo",
        "jobs",
        "quarantine",
        "promote",
        "embed",
        "prune",
        "erase",
        "recover",
        "everything",
        "pull",
        "push",
        "migrate",
        "store",
        "agent",
        "amplihack",
        "code",
        "sessions",
        "files",
        "evaluate",
        "provider",
        "sink",
        "backup",
        "banks",
        "bank settings",
        "receipts",
        "keys",
        "tokens",
        "doctor",
        "serve",
        "connect",
        "watch",
        "log",
    }
)
"""Actions on a bank, a store or a machine as a whole."""


def require_owner(settings: Settings, action: str) -> None:
    """Refuse an owner's action if a token was presented.

    Raises:
        PermissionRefusedError: If a token was presented.
    """
    if action not in OWNERS:
        raise ValueError(f"not an owner action: {action}")
    if settings.token is not None:
        raise PermissionRefusedError(
            f"only the owner can do this, without a token: {action}",
            hint="As the owner, drop --token and unset SATCHEL_TOKEN.",
        )
