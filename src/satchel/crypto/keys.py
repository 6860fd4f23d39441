"""Ed25519 keys: ``did:key`` texts, signatures, and the keys of a bank.

A key has one canonical text: the did:key method, multicodec 0xed01, base58btc. A key that
libsodium's valid-point check refuses (small order, mixed order, non-canonical) is refused on
reading. The keys of a bank change by ``config`` records: an owner's key is succeeded by another,
retired or revoked; owners are added; a threshold is set. Each applies from its log position on:
earlier records stay valid, whatever a clock says. Source: docs/spec/6-keys-and-tokens.md, 6.3, 6.4
and 6.8.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

import msgspec
from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.crypto.canonical import canonical, canonical_checked
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, ThresholdError
from satchel.model.records import Config
from satchel.model.values import resolved

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {char: value for value, char in enumerate(_ALPHABET)}
_PREFIX = "did:key:z"
_CODEC = b"\xed\x01"
_KEY_BYTES = 32
_TEXT_LENGTH = 64


def did_key(public: bytes) -> str:
    """Return the did:key of 32 public key bytes.

    Raises:
        MalformedError: If they are not a valid point.
    """
    check_point(public)
    return _PREFIX + _base58(_CODEC + public)


def public_key(did: str) -> bytes:
    """Return the 32 bytes of a did:key.

    Raises:
        MalformedError: If the text is not the canonical did:key of a usable Ed25519 key.
    """
    if len(did) > _TEXT_LENGTH or not did.startswith(_PREFIX):
        raise MalformedError(f"not a did:key of an Ed25519 key: {did[:80]!r}", field="key")
    return _public_key(did)


@lru_cache(256)  # a program uses few keys, each many times
def _public_key(did: str) -> bytes:
    body = did.removeprefix(_PREFIX)
    if not set(body) <= _VALUES.keys():
        raise MalformedError(f"not a did:key of an Ed25519 key: {did!r}", field="key")
    number = 0
    for char in body:
        number = number * 58 + _VALUES[char]
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if len(raw) != len(_CODEC) + _KEY_BYTES or not raw.startswith(_CODEC):
        raise MalformedError("not a did:key of an Ed25519 key", field="key")
    public = raw[len(_CODEC) :]
    if did_key(public) != did:
        raise MalformedError("not the canonical did:key of this key", field="key")
    return public


def check_point(public: bytes) -> None:
    """Refuse bytes that are not a public key in the main subgroup.

    Raises:
        MalformedError: If they are not.
    """
    if len(public) != _KEY_BYTES:
        raise MalformedError(f"an Ed25519 key must have 32 bytes, not {len(public)}", field="key")
    if not bindings.crypto_core_ed25519_is_valid_point(public):
        raise MalformedError("the public key is not a valid signing point", field="key")


def _base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))  # the codec's first byte is never zero


SEED_BYTES = 32
"""Length of an Ed25519 seed."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key that can sign; its secret is never in a repr, a log or an error."""

    did: str
    _secret: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """Return the key of a 32-byte seed.

        Raises:
            ValueError: If it has another length.
        """
        public, secret = bindings.crypto_sign_seed_keypair(seed)
        return cls(did_key(public), secret)

    @classmethod
    def generate(cls) -> "SigningKey":
        """Return a new random key."""
        return cls.from_seed(bindings.randombytes(SEED_BYTES))

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes; only for writing the key file."""
        return self._secret[:SEED_BYTES]

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of ``message``."""
        return bindings.crypto_sign(message, self._secret)[:64]


_SIGNATURE_BYTES = 64


class PayloadType(StrEnum):
    """The types of signed payloads; a signature is valid for one of them only."""

    ARTIFACT = "application/vnd.satchel.artifact.v1+json"
    HEAD = "application/vnd.satchel.head.v1+json"
    TOKEN = "application/vnd.satchel.token.v1+json"  # noqa: S105 - a media type
    REQUEST = "application/vnd.satchel.request.v1+json"
    RECEIPT = "application/vnd.satchel.receipt.v1+json"
    REDACTION = "application/vnd.satchel.redaction.v1+json"
    ERASURE = "application/vnd.satchel.erasure.v1+json"
    CONFIG = "application/vnd.satchel.config.v1+json"
    REVOCATIONS = "application/vnd.satchel.revocations.v1+json"
    BACKUP = "application/vnd.satchel.backup.v1+json"


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature beside a payload."""

    key: str
    """The signer, as did:key."""

    sig: str
    """64 bytes, base64, standard alphabet, padded."""


class SignatureCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying one signature."""

    key: str
    valid: bool
    problem: str | None = None


def pae(payload_type: PayloadType, payload: bytes) -> bytes:
    """Return the bytes to sign (DSSE v1)."""
    kind = payload_type.value.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(
    payload_type: PayloadType, payload: Mapping[str, Any], keys: Iterable[SigningKey]
) -> list[Signature]:
    """Sign a payload with each of ``keys``."""
    data = canonical(dict(payload))
    return [signature_of(payload_type, data, key) for key in keys]


def signature_of(payload_type: PayloadType, payload: bytes, key: SigningKey) -> Signature:
    """Sign the canonical bytes of a payload."""
    raw = key.sign(pae(payload_type, payload))
    return Signature(key=key.did, sig=base64.b64encode(raw).decode())


def check(
    payload_type: PayloadType, payload: Mapping[str, Any], signatures: Sequence[Signature]
) -> list[SignatureCheck]:
    """Verify every signature of a payload; none raises.

    Args:
        payload_type: The expected type, a constant of the caller.
        payload: A value from a strict reader.
        signatures: The signatures beside it.
    """
    message = pae(payload_type, canonical_checked(dict(payload)))
    return [_check(message, signature) for signature in signatures]


def _check(message: bytes, signature: Signature) -> SignatureCheck:
    try:
        public = public_key(signature.key)
        raw = _signature_bytes(signature.sig)
        bindings.crypto_sign_open(raw + message, public)
    except MalformedError as error:
        return SignatureCheck(key=signature.key, valid=False, problem=error.message)
    except BadSignatureError:
        return SignatureCheck(
            key=signature.key, valid=False, problem="does not match the signed content"
        )
    return SignatureCheck(key=signature.key, valid=True)


def _signature_bytes(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("the signature is not base64", field="sig") from None
    if len(raw) != _SIGNATURE_BYTES or base64.b64encode(raw).decode() != text:
        raise MalformedError("the signature is not 64 bytes in canonical base64", field="sig")
    return raw


def signed_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a record that its signatures cover: all but themselves and the ID."""
    return {name: part for name, part in record.items() if name not in ("id", "signatures")}


def parse_signatures(value: Any, limit: int) -> list[Signature]:
    """Return the signatures of a file.

    Raises:
        MalformedError: If they are not a list of exactly ``key`` and ``sig``, or too many.
    """
    if isinstance(value, list) and len(value) > limit:
        raise MalformedError(f"more than {limit} signatures", field="signatures")
    try:
        signatures = msgspec.convert(value, resolved(list[Signature]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not signatures: {error}", field="signatures") from None
    if len({signature.key for signature in signatures}) != len(signatures):
        raise MalformedError("a key signed twice", field="signatures")
    return signatures


SUCCEEDED = "key_succession"
"""The action of the config record that replaces an owner's key, signed by both keys."""

RETIRED = "key_retired"
"""The action of the config record that retires a key whose signatures stay valid."""

REVOKED = "key_revoked"
"""The action of the config record that revokes a key."""

ENDING = frozenset({SUCCEEDED, RETIRED, REVOKED})

_MEMBERS = {
    SUCCEEDED: frozenset({"bank", "old", "new"}),
    RETIRED: frozenset({"bank", "key"}),
    REVOKED: frozenset({"bank", "key"}),
}


class KeyEnd(NamedTuple):
    """The end of a key."""

    key: str
    place: int
    """Log position of the record that ended it; earlier signatures stay valid."""

    action: str
    heir: str | None = None
    """The key that replaced it."""


class OwnerAddition(NamedTuple):
    """The addition of an owner."""

    key: str
    by: frozenset[str]
    """The owners who signed it."""

    owners: frozenset[str]
    """All owners at that time."""


class KeyState(NamedTuple):
    """The keys of a bank at a log position."""

    owners: frozenset[str]
    writers: frozenset[str]
    ended: tuple[KeyEnd, ...] = ()
    """In log order; a retired key may be revoked later."""

    forked: tuple[KeyEnd, ...] = ()
    """Further successions of a key that had one; they have no effect."""

    threshold: int = 1
    """Number of owners that must sign a decision about the bank."""

    turns: int = 0
    """Number of times that the threshold was set."""

    added: tuple[OwnerAddition, ...] = ()
    """Owners that others added, in log order."""

    def has_enough(self, by: frozenset[str], *, but: str | None = None) -> bool:
        """Return whether enough owners signed; the signature of ``but`` does not count."""
        return len(by & (self.owners - {but})) >= self.threshold

    def last_end(self, key: str) -> KeyEnd | None:
        """Return the last end of a key; None if it has not ended."""
        return next((one for one in reversed(self.ended) if one.key == key), None)

    @property
    def revoked(self) -> frozenset[str]:
        """The revoked keys."""
        return frozenset(one.key for one in self.ended if one.action == REVOKED)

    def lineage(self, owner: str) -> frozenset[str]:
        """Return an owner's key and its predecessors.

        Predecessors of a revoked key are excluded: its signature of a succession has no value for a
        reader that did not see it in time.
        """
        before = {one.heir: one.key for one in self.ended if one.action == SUCCEEDED}
        keys, revoked = {owner}, self.revoked
        while (key := before.get(owner)) is not None and key not in revoked:
            keys.add(key)
            owner = key
        return frozenset(keys)

    def trusted_with(self, known: frozenset[str]) -> frozenset[str]:
        """Return some keys with the owners that were added by owners who are all among them.

        A successor counts as its predecessor; additions by a key that was revoked since do not
        count.
        """
        keys, revoked = set(known), self.revoked
        for one in self.added:
            if not one.by & revoked and all(self.lineage(owner) & keys for owner in one.owners):
                keys.add(one.key)
        return frozenset(keys)


def keys_after(
    keys: KeyState, position: int, decision: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record that ends one; unchanged if it has no effect.

    Args:
        keys: The keys before it.
        position: Its log position.
        decision: Its action, and its payload, which names the bank.
        by: The keys with valid signatures.
    """
    action, payload = decision
    if not _MEMBERS[action] <= payload.keys() <= _MEMBERS[action] | {"reason"}:
        return keys
    if action == SUCCEEDED:
        return _after_succession(keys, position, payload, by)
    key = payload["key"]
    if not is_key(key) or key in keys.revoked:
        return keys
    if action == RETIRED and (key not in keys.owners | keys.writers or not keys.has_enough(by)):
        return keys
    # A key cannot revoke others by claiming that it was stolen: a thief could claim that, too.
    if action == REVOKED and not keys.has_enough(by, but=key):
        return keys
    owners = keys.owners - {key}
    if len(owners) < keys.threshold:  # no further decision would be possible
        return keys
    return keys._replace(
        owners=owners,
        writers=keys.writers - {key},
        ended=(*keys.ended, KeyEnd(key, position, action)),
    )


def _after_succession(
    keys: KeyState, position: int, payload: Mapping[str, Any], by: frozenset[str]
) -> KeyState:
    old, new = payload["old"], payload["new"]
    if not is_key(old) or not is_key(new) or old == new or not {old, new} <= by:
        return keys
    end = KeyEnd(old, position, SUCCEEDED, new)
    if old not in keys.owners:
        heirs = {one.heir for one in keys.ended if one.key == old and one.heir is not None}
        return keys._replace(forked=(*keys.forked, end)) if heirs - {new} else keys
    if not is_new(keys, new) or not keys.has_enough(by):
        return keys
    owners = (keys.owners - {old}) | {new}
    return keys._replace(owners=owners, ended=(*keys.ended, end))


def is_new(keys: KeyState, key: str) -> bool:
    """Return whether a key had no role in a bank: an ended key is not admitted again."""
    return key not in keys.owners | keys.writers and keys.last_end(key) is None


def is_key(value: object) -> TypeGuard[str]:
    """Return whether a value is a valid key."""
    if not isinstance(value, str):
        return False
    try:
        public_key(value)
    except MalformedError:
        return False
    return True


def unrevoked_end(keys: KeyState, key: str, since: int) -> int | None:
    """Return the log position up to which an unrevoked former key was an owner's; None otherwise.

    Args:
        keys: The keys of the bank.
        key: The key.
        since: Log position of the last adoption, before which others were owners; 0 for none.
    """
    end = keys.last_end(key)
    if end is None or end.action == REVOKED or end.place < since:
        return None
    return end.place


OWNER_ADDED = "owner_added"
"""The action of the config record that adds an owner, who signs it as well."""

THRESHOLD_SET = "threshold_set"
"""The action of the config record that sets how many owners must sign."""

OWNING = frozenset({OWNER_ADDED, THRESHOLD_SET})

MOST_OWNERS = 15
"""With a successor of one of them, as many as may sign one record."""

_OWNER_MEMBERS = {
    OWNER_ADDED: frozenset({"bank", "key"}),
    THRESHOLD_SET: frozenset({"bank", "threshold", "turn"}),
}


_ELSEWHERE = (
    "If the key is on another machine: add --propose FILE, sign it there with satchel bank owner "
    "sign FILE, then run satchel bank owner enact FILE."
)


def owners_after(
    keys: KeyState, decision: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record about its owners; unchanged if it has no effect.

    Args:
        keys: The keys before it.
        decision: Its action, and its payload, which names the bank.
        by: The keys with valid signatures.
    """
    action, payload = decision
    if payload.keys() - {"reason"} != _OWNER_MEMBERS[action] or not keys.has_enough(by):
        return keys
    if action == OWNER_ADDED:
        key = payload["key"]
        # A writer may become an owner; an ended key may not.
        fits = is_key(key) and key in by and key not in keys.owners and keys.last_end(key) is None
        if not fits or len(keys.owners) >= MOST_OWNERS:
            return keys
        took_in = OwnerAddition(key, by & keys.owners, keys.owners)
        return keys._replace(owners=keys.owners | {key}, added=(*keys.added, took_in))
    number, turn = payload["threshold"], payload["turn"]
    # The turn: otherwise an old record could be replayed, and lower it.
    if type(number) is not int or type(turn) is not int or turn != keys.turns:
        return keys
    if not 1 <= number <= len(keys.owners):
        return keys
    return keys._replace(threshold=number, turns=keys.turns + 1)


def require_enough(
    keys: KeyState, record: Sealed, by: frozenset[str], drawn: Sequence[Sealed]
) -> None:
    """Require that enough owners signed a record.

    Args:
        keys: The keys of the bank before it.
        record: The record of the decision.
        by: The keys with valid signatures.
        drawn: The record and those to log with it, for others to sign.

    Raises:
        ThresholdError: If not; it contains ``drawn``.
    """
    action, key = "", ""
    if isinstance(model := record.model, Config):
        action, key = model.action, str(model.payload.get("key"))
    but = key if action == REVOKED else None
    if keys.has_enough(by, but=but):
        if action == OWNER_ADDED and key not in by:
            raise ThresholdError(
                "a new owner must agree, and did not sign this",
                field="key",
                hint=_ELSEWHERE,
                drawn=[item.body for item in drawn],
            )
        return
    signers = len(by & (keys.owners - {but}))
    raise ThresholdError(
        f"{keys.threshold} of the {len(keys.owners)} owners of the bank must sign this, and "
        f"{signers} did",
        field="key",
        hint=f"Add more of their keys: --co-signer NAME. {_ELSEWHERE}",
        drawn=[item.body for item in drawn],
    )
