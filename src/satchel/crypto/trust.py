"""Whose signatures count: the registry of trusted keys, and what was seen before.

The registry says which keys this machine believes, for which banks, and since when one is
revoked. The record of what was seen tells an older copy from the newest, and lets a signature
count that was checked before its key was revoked.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from satchel.crypto.canonical import canonical_checked, decode_canonical
from satchel.crypto.signatures import public_key
from satchel.errors import MalformedError, TargetError, UsageError
from satchel.model.values import now, resolved
from satchel.runtime.atomic_files import PRIVATE_FILE, atomic_write
from satchel.runtime.input import open_input
from satchel.runtime.private_files import private_folder

_MAX_FILE = 16 * 2**20

Role = Literal["owner", "writer"]
"""Owner keys sign artifacts, tokens and configuration; writer keys sign log heads."""

Profile = Literal["satchel", "pam-sdk-1.0"]
"""Which kind of file a key may vouch for."""


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key of the registry."""

    key: str
    name: str
    added_at: str
    state: Literal["trusted", "retired", "revoked"] = "trusted"
    own: bool = False
    """Whether this machine made it."""

    banks: list[str] = []
    """Banks it may vouch for; empty means any."""

    profile: Profile = "satchel"
    role: Role = "owner"
    """An owner's word counts for artifacts, a writer's for log heads only."""

    replaces: str | None = None
    changed_at: str | None = None
    reason: str | None = None


class _Registry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-trust/1"]
    keys: list[TrustedKey]


class TrustRegistry:
    """The keys this machine believes.

    Args:
        path: The registry file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: dict[str, TrustedKey] | None = None

    def listed(self) -> list[TrustedKey]:
        """Return all keys, in the order they were added."""
        return list(self._loaded().values())

    def find(self, key: str) -> TrustedKey | None:
        """Return what is known of a key."""
        return self._loaded().get(key)

    def trust(self, entry: TrustedKey) -> None:
        """Add a key; with ``replaces``, retire the other.

        Raises:
            UsageError: If the key was revoked, or the key it replaces is unknown or was replaced
                by another already (two successions of one key are a fork).
        """
        public_key(entry.key)
        keys = self._loaded()
        known = keys.get(entry.key)
        if known is not None and known.state == "revoked":
            raise UsageError("this key was revoked and cannot be trusted again", field=entry.key)
        if entry.replaces is not None:
            self._retire(entry.replaces, entry.key)
            old = keys[entry.replaces]
            if not entry.banks:  # the word of an heir reaches as far as that of who came before
                entry = msgspec.structs.replace(entry, banks=old.banks)
        keys[entry.key] = entry
        self._save()

    def retire(self, key: str, reason: str | None = None) -> TrustedKey:
        """Note that a key signs no more; what it signed stays good.

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
        """Stop believing a key, for good.

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
            data = stream.read(_MAX_FILE)
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
    """One statement that verified here with a trusted signer."""

    at: str
    statement: str
    """H(JCS(statement))."""

    key: str
    bank: str | None = None
    epoch: int | None = None
    size: int | None = None
    root: str | None = None


class StatementHistory:
    """What verified before, in an append-only file; a torn last line is ignored.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> Iterator[KnownStatement]:
        """Yield everything seen, oldest first."""
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
        """Tell whether a statement by ``key`` verified here before."""
        return any(seen.statement == statement and seen.key == key for seen in self.all())

    def remember(self, seen: KnownStatement) -> None:
        """Append one line and force it to disk; what is known already is not repeated.

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
    """Return the line end that a torn last line lacks, so that the next one stays readable."""
    size = os.fstat(handle).st_size
    return b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
