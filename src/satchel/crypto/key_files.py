"""Keys on disk: signing keys, trusted keys, and the history of verified statements.

Each signing key is a file with mode 0600, the secret wrapped by a passphrase or plain. Losing the
keys never loses the memory, only the ability to sign as before. The registry lists the keys that
this machine trusts, for which banks, and which are revoked. The history distinguishes an older copy
from the newest, and accepts a signature that was verified before its key was revoked.
"""

import base64
import binascii
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from nacl import bindings, pwhash
from nacl.exceptions import CryptoError

from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.keys import (
    SEED_BYTES,
    PayloadType,
    SigningKey,
    check,
    parse_signatures,
    public_key,
    sign,
)
from satchel.crypto.sealed_records import random_nonce
from satchel.errors import (
    MalformedError,
    SigningKeyError,
    TargetError,
    TargetExistsError,
    UnreadableError,
    UsageError,
)
from satchel.model.values import now, resolved
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.private_files import private_folder, require_secret

_MAX_REGISTRY = 16 * 2**20

Role = Literal["owner", "writer"]
"""Owner keys sign artifacts, tokens and configuration; writer keys sign log heads."""

Profile = Literal["satchel", "pam-sdk-1.0"]
"""The kind of file that a key may sign."""


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key of the registry."""

    key: str
    name: str
    added_at: str
    state: Literal["trusted", "retired", "revoked"] = "trusted"
    own: bool = False
    """Whether this machine created it."""

    banks: list[str] = []
    """Banks that it may sign for; empty means any."""

    profile: Profile = "satchel"
    role: Role = "owner"
    """Owner keys are trusted for artifacts, writer keys for log heads only."""

    replaces: str | None = None
    changed_at: str | None = None
    reason: str | None = None


class _Registry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-trust/1"]
    keys: list[TrustedKey]


class TrustRegistry:
    """The keys that this machine trusts.

    Args:
        path: The registry file, which may not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: dict[str, TrustedKey] | None = None

    def listed(self) -> list[TrustedKey]:
        """Return all keys, in the order they were added."""
        return list(self._loaded().values())

    def find(self, key: str) -> TrustedKey | None:
        """Return the entry of a key; None if there is none."""
        return self._loaded().get(key)

    def trust(self, entry: TrustedKey) -> None:
        """Add a key; with ``replaces``, retire the other.

        Raises:
            UsageError: If the key was revoked, or the key it replaces is unknown or was replaced by
                another (two successions of one key are a fork).
        """
        public_key(entry.key)
        keys = self._loaded()
        known = keys.get(entry.key)
        if known is not None and known.state == "revoked":
            raise UsageError("this key was revoked and cannot be trusted again", field=entry.key)
        if entry.replaces is not None:
            self._retire(entry.replaces, entry.key)
            old = keys[entry.replaces]
            if not entry.banks:  # a successor is trusted for the same banks
                entry = msgspec.structs.replace(entry, banks=old.banks)
        keys[entry.key] = entry
        self._save()

    def retire(self, key: str, reason: str | None = None) -> TrustedKey:
        """Retire a key: it signs no more, and its signatures stay valid.

        Raises:
            UsageError: If it is not in the registry, or was revoked.
        """
        known = self.find(key)
        if known is None:
            raise UsageError(f"no such key in the registry: {key}", hint="See: satchel key list")
        if known.state == "revoked":
            raise UsageError("this key was revoked", field=key)
        retired = msgspec.structs.replace(
            known, state="retired", changed_at=now(), reason=reason or known.reason
        )
        self._loaded()[key] = retired
        self._save()
        return retired

    def revoke(self, key: str, reason: str | None = None) -> TrustedKey:
        """Revoke a key permanently.

        Raises:
            UsageError: If it is not in the registry.
        """
        known = self.find(key)
        if known is None:
            raise UsageError(f"no such key in the registry: {key}", hint="See: satchel key list")
        revoked = msgspec.structs.replace(
            known, state="revoked", changed_at=now(), reason=reason or known.reason
        )
        self._loaded()[key] = revoked
        self._save()
        return revoked

    def _retire(self, old: str, new: str) -> None:
        keys = self._loaded()
        known = keys.get(old)
        if known is None:
            raise UsageError(f"the key to be replaced is not in the registry: {old}")
        heirs = (key for key in keys.values() if key.replaces == old and key.state != "revoked")
        heir = next((key.key for key in heirs), new)
        if heir != new:
            raise UsageError(
                f"{old} was already replaced by {heir}; two successors are a fork",
                hint="Revoke the one that is not yours.",
            )
        if known.state == "trusted":
            keys[old] = msgspec.structs.replace(known, state="retired", changed_at=now())

    def _loaded(self) -> dict[str, TrustedKey]:
        if self._keys is None:
            self._keys = {key.key: key for key in self._read()}
        return self._keys

    def _read(self) -> list[TrustedKey]:
        if not self.path.exists():
            return []
        with open_input(self.path) as stream:
            data = stream.read(_MAX_REGISTRY)
            try:
                return msgspec.convert(
                    decode_canonical(data.rstrip(b"\n")), resolved(_Registry)
                ).keys
            except msgspec.ValidationError as error:
                raise MalformedError(f"not a trust registry: {error}") from None

    def _save(self) -> None:
        private_folder(self.path.parent)
        content = msgspec.to_builtins(_Registry(format="satchel-trust/1", keys=self.listed()))
        with atomic_write(self.path, mode=PRIVATE_FILE) as stream:
            stream.write(canonical_checked(content) + b"\n")


class KnownStatement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement that was verified here with a trusted signer."""

    at: str
    statement: str
    """H(JCS(statement))."""

    key: str
    bank: str | None = None
    epoch: int | None = None
    size: int | None = None
    root: str | None = None


class StatementHistory:
    """Earlier verifications, in an append-only file; a torn last line is ignored.

    Args:
        path: The file, which may not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> Iterator[KnownStatement]:
        """Yield all statements, oldest first."""
        if not self.path.exists():
            return
        decoder = msgspec.json.Decoder(resolved(KnownStatement))
        with open_input(self.path) as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError:
                    continue

    def has(self, statement: str, key: str) -> bool:
        """Return whether a statement by ``key`` was verified here before."""
        return any(seen.statement == statement and seen.key == key for seen in self.all())

    def remember(self, seen: KnownStatement) -> None:
        """Append a statement and sync it; nothing happens if it is in the file.

        Raises:
            TargetError: If the file cannot be written.
        """
        if self.has(seen.statement, seen.key):
            return
        private_folder(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(self.path, flags, PRIVATE_FILE)
            try:
                os.write(handle, _mend(handle) + msgspec.json.encode(seen) + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise TargetError(f"cannot write: {error.strerror}", file=str(self.path)) from error


def _mend(handle: int) -> bytes:
    """Return the missing line end of a torn last line, so that the next one stays readable."""
    size = os.fstat(handle).st_size
    return b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""


# libsodium's "moderate" level: about a second and 256 MiB.
_OPS, _MEMORY = pwhash.argon2id.OPSLIMIT_MODERATE, pwhash.argon2id.MEMLIMIT_MODERATE


class WrappedSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret that a passphrase protects, as stored in a file."""

    kdf: Literal["argon2id"]
    # A hostile file may not require more work than this.
    ops: Annotated[int, Meta(ge=1, le=16)]
    memory_bytes: Annotated[
        int, Meta(ge=8192, le=2**30, multiple_of=1024)
    ]  # libsodium counts in KiB
    salt: str
    nonce: str
    box: str


def wrap(secret: bytes, bound: bytes, passphrase: str) -> dict[str, Any]:
    """Return a secret protected by a passphrase, as JSON.

    Args:
        secret: The secret.
        bound: Data that it belongs to, such as its public key; it opens only with the same data.
        passphrase: The passphrase.
    """
    salt = bindings.randombytes(pwhash.argon2id.SALTBYTES)
    nonce = bindings.randombytes(bindings.crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
    under = pwhash.argon2id.kdf(32, passphrase.encode(), salt, _OPS, _MEMORY)
    box = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(secret, bound, nonce, under)
    return {
        "kdf": "argon2id",
        "ops": _OPS,
        "memory_bytes": _MEMORY,
        "salt": base64.b64encode(salt).decode(),
        "nonce": base64.b64encode(nonce).decode(),
        "box": base64.b64encode(box).decode(),
    }


def unwrap(wrapped: WrappedSecret, bound: bytes, passphrase: str) -> bytes | None:
    """Return the secret; None if the passphrase is wrong or the file is damaged."""
    try:
        salt, nonce, box = map(_bytes, (wrapped.salt, wrapped.nonce, wrapped.box))
        under = pwhash.argon2id.kdf(
            32, passphrase.encode(), salt, wrapped.ops, wrapped.memory_bytes
        )
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(box, bound, nonce, under)
    except (binascii.Error, CryptoError, TypeError, ValueError):
        return None


def _bytes(text: str) -> bytes:
    decoded = base64.b64decode(text, validate=True)
    if base64.b64encode(decoded).decode() != text:  # unused bits
        raise ValueError("not canonical base64")
    return decoded


FORMAT = "satchel-key/1"
SUFFIX = ".key"
DEFAULT_NAME = "default"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
MAX_KEY_FILE = 16_384
"""Size of the largest key file, in bytes."""


class KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a key file."""

    format: Literal["satchel-key/1"]
    name: str
    role: Role
    key: str
    """The public key, as did:key."""

    created_at: str
    seed: str | None = None
    wrapped: WrappedSecret | None = None

    def __repr__(self) -> str:
        return f"KeyFile({self.name!r}, {self.key})"  # the seed is never shown

    @property
    def protected(self) -> bool:
        """Whether a passphrase is needed."""
        return self.wrapped is not None


class KeyRing:
    """The signing keys of one home folder.

    Args:
        folder: The folder of the key files; created with mode 0700 together with the first key.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Return the names of all keys, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(path.stem for path in self.folder.glob(f"*{SUFFIX}"))

    def create(
        self,
        name: str = DEFAULT_NAME,
        *,
        role: Role = "owner",
        passphrase: str | None = None,
        key: SigningKey | None = None,
        replace: bool = False,
    ) -> SigningKey:
        """Create a key and its file.

        Args:
            name: Letters, digits, dot, dash and underscore.
            role: Its role.
            passphrase: Protects the secret, if given.
            key: An existing key to store; a new one by default.
            replace: Whether to replace a key that was set aside.

        Raises:
            TargetExistsError: If a key with the name exists.
        """
        signing_key = key or SigningKey.generate()
        secret: dict[str, Any] = (
            {"seed": base64.b64encode(signing_key.seed).decode()}
            if passphrase is None
            else {"wrapped": wrap(signing_key.seed, signing_key.did.encode(), passphrase)}
        )
        content = {
            "format": FORMAT,
            "name": name,
            "role": role,
            "key": signing_key.did,
            "created_at": now(),
            **secret,
        }
        path = self._path(name)
        private_folder(self.folder)
        try:
            with atomic_write(path, overwrite=replace, mode=PRIVATE_FILE) as stream:
                stream.write(canonical(content) + b"\n")
        except TargetExistsError:
            raise TargetExistsError(
                f"a key named {name!r} already exists",
                file=str(path),
                hint="Choose another name, or rotate this one: satchel key rotate.",
            ) from None
        return signing_key

    def read(self, name: str) -> KeyFile:
        """Return a key's file, without unlocking the secret.

        Raises:
            SigningKeyError: If it does not exist, or others can read it.
            MalformedError: If it is not a key file.
        """
        path = self._path(name)
        try:
            with open_input(path) as stream:
                require_secret(path, os.fstat(stream.fileno()), "this key", SigningKeyError)
                return parse_key_file(stream.read(MAX_KEY_FILE))
        except UnreadableError as error:
            if path.exists():
                raise
            raise SigningKeyError(
                f"no key named {name!r}",
                file=str(path),
                hint=f"Create it: satchel key create {name}. Or import it: satchel key import FILE",
            ) from error

    def load(self, name: str = DEFAULT_NAME, *, passphrase: str | None = None) -> SigningKey:
        """Return a key that can sign.

        Raises:
            SigningKeyError: If it is missing, a passphrase is missing or wrong, or the secret
                does not belong to the public key.
        """
        key_file = self.read(name)
        try:
            return unlock(key_file, passphrase)
        except SigningKeyError as error:
            raise error.located(file=str(self._path(name))) from None

    def add(self, key_file: KeyFile) -> bool:
        """Store a key under the name in its file; return False if the same key has that name.

        Raises:
            SigningKeyError: If the name is invalid.
            TargetExistsError: If another key has that name, or the same key another role.
        """
        path = self._path(key_file.name)
        content = msgspec.to_builtins(key_file)
        private_folder(self.folder)
        try:
            with atomic_write(path, overwrite=False, mode=PRIVATE_FILE) as stream:
                stream.write(canonical({name: part for name, part in content.items() if part}))
                stream.write(b"\n")
        except TargetExistsError:
            existing = self.read(key_file.name)
            if (existing.key, existing.role) == (key_file.key, key_file.role):
                return False
            raise TargetExistsError(
                f"another key is named {key_file.name!r}",
                file=str(path),
                hint="Import this one under another name: --name NAME.",
            ) from None
        return True

    def set_aside(self, name: str) -> str:
        """Store a key under another name, which is returned, so that a new key can replace it."""
        held = self.read(name)
        retired = f"{name[:40]}.retired-{held.key[-8:]}"
        with suppress(FileExistsError):  # set aside before, then interrupted
            os.link(self._path(name), self._path(retired))
        return retired

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise SigningKeyError(
                f"{name!r} is not a valid key name",
                hint="Use letters, digits, dot, dash and underscore.",
            )
        return self.folder / f"{name}{SUFFIX}"


def unlock(key_file: KeyFile, passphrase: str | None = None) -> SigningKey:
    """Return the key of a key file, which can sign.

    Raises:
        SigningKeyError: If a passphrase is missing or wrong, or the secret does not belong to the
            public key.
    """
    seed = _unwrap(key_file, passphrase) if key_file.wrapped else _base64(key_file.seed or "")
    if len(seed) != SEED_BYTES:
        raise SigningKeyError("the secret has the wrong length")
    key = SigningKey.from_seed(seed)
    if key.did != key_file.key:
        raise SigningKeyError("the secret does not belong to the public key in the file")
    return key


def key_from_text(text: str) -> SigningKey:
    """Return the key of a base64 seed, as in an environment variable.

    Raises:
        SigningKeyError: If it is not 32 bytes in base64; the error does not contain the text.
    """
    seed = _base64(text.strip())
    if len(seed) != SEED_BYTES:
        raise SigningKeyError(f"a signing key must be {SEED_BYTES} bytes in base64")
    return SigningKey.from_seed(seed)


def succession(old: SigningKey, new: SigningKey) -> dict[str, Any]:
    """Return the statement, signed by both keys, that ``new`` replaces ``old``."""
    payload = {
        "type": "config",
        "action": "key_succession",
        "payload": {"old": old.did, "new": new.did},
        "at": now(),
        "nonce": random_nonce(),
    }
    signatures = sign(PayloadType.CONFIG, payload, [old, new])
    return {"signed": payload, "signatures": msgspec.to_builtins(signatures)}


def read_succession(value: Any) -> tuple[str, str] | None:
    """Return the old and the new key of a statement of succession; None for another value.

    Raises:
        MalformedError: If it is damaged, or not signed by both keys.
    """
    if not isinstance(value, dict) or value.keys() != {"signed", "signatures"}:
        return None
    signed = value["signed"]
    if not isinstance(signed, dict) or signed.get("action") != "key_succession":
        return None
    payload = signed.get("payload")
    old, new = (payload.get(name) if isinstance(payload, dict) else None for name in ("old", "new"))
    if not isinstance(old, str) or not isinstance(new, str):
        raise MalformedError("a succession must name an old and a new key", field="payload")
    checks = check(PayloadType.CONFIG, signed, parse_signatures(value["signatures"], 2))
    if {found.key for found in checks if found.valid} != {old, new} or old == new:
        raise MalformedError("the succession is not signed by both its keys", field="signatures")
    return old, new


def revocation(key: SigningKey, revoked: Sequence[str], reason: str | None) -> dict[str, Any]:
    """Return the signed statement that revokes keys."""
    payload: dict[str, Any] = {
        "type": "config",
        "action": "key_revocation",
        "payload": {"keys": list(revoked)} | ({"reason": reason} if reason else {}),
        "at": now(),
        "nonce": random_nonce(),
    }
    signatures = sign(PayloadType.CONFIG, payload, [key])
    return {"signed": payload, "signatures": msgspec.to_builtins(signatures)}


def parse_key_file(data: bytes) -> KeyFile:
    """Return the content of a key file; its secret is not verified.

    Raises:
        MalformedError: If it is not a key file.
    """
    try:
        return msgspec.convert(decode_canonical(data.rstrip(b"\n")), resolved(KeyFile))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a key file: {error}") from None


def _unwrap(key_file: KeyFile, passphrase: str | None) -> bytes:
    wrapped = key_file.wrapped
    if wrapped is None or passphrase is None:
        raise SigningKeyError(
            f"the key {key_file.name!r} is protected by a passphrase",
            hint="Set SATCHEL_PASSPHRASE, or run it in a terminal to be asked.",
        )
    seed = unwrap(wrapped, key_file.key.encode(), passphrase)
    if seed is None:
        raise SigningKeyError(f"the passphrase for {key_file.name!r} is wrong")
    return seed


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SigningKeyError("the secret is not base64") from None
