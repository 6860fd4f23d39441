"""Ed25519 public keys as ``did:key`` text, in the one canonical form.

Source: the did:key method, multicodec 0xed01, base58btc. A key that libsodium's valid-point
check refuses (small order, mixed order, non-canonical) is refused when it is read.
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


def did_of(public: bytes) -> str:
    """Return the did:key of 32 public key bytes.

    Raises:
        MalformedError: If they are not a point that may sign.
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


@lru_cache(256)  # a program meets few keys, each many times
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
    if did_of(public) != did:
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
    """An Ed25519 key that can sign; its secret never shows in a repr, a log or an error."""

    did: str
    _secret: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """Return the key of a 32-byte seed.

        Raises:
            ValueError: If it has another length.
        """
        public, secret = bindings.crypto_sign_seed_keypair(seed)
        return cls(did_of(public), secret)

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
    """What may be signed; one signature never counts as another kind."""

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
    """What became of one signature."""

    key: str
    valid: bool
    problem: str | None = None


def pae(payload_type: PayloadType, payload: bytes) -> bytes:
    """Return the bytes that are signed (DSSE v1)."""
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
    """Check every signature of a payload; nothing is raised for a bad one.

    Args:
        payload_type: The expected kind, a constant of the caller.
        payload: A value from a strict reader.
        signatures: As found beside it.
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
    """Return what the signatures inside a signed record cover: all but themselves and the id."""
    return {name: part for name, part in record.items() if name not in ("id", "signatures")}


def parse_signatures(value: Any, limit: int) -> list[Signature]:
    """Return the signatures of a file.

    Raises:
        MalformedError: If they are not a list of exactly ``key`` and ``sig``, or too many.
    """
    if isinstance(value, list) and len(value) > limit:
        raise MalformedError(f"more than {limit} signatures", field="signatures")
    try:
        found = msgspec.convert(value, resolved(list[Signature]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not signatures: {error}", field="signatures") from None
    if len({signature.key for signature in found}) != len(found):
        raise MalformedError("a key signed twice", field="signatures")
    return found


SUCCEEDED = "key_succession"
"""The action of the config record by which an owner's key is replaced: signed by both."""

RETIRED = "key_retired"
"""The action of the config record by which an owner lets a key go whose word was good."""

REVOKED = "key_revoked"
"""The action of the config record by which an owner takes a key's word back."""

ENDING = frozenset({SUCCEEDED, RETIRED, REVOKED})

_MEMBERS = {
    SUCCEEDED: frozenset({"bank", "old", "new"}),
    RETIRED: frozenset({"bank", "key"}),
    REVOKED: frozenset({"bank", "key"}),
}


class KeyEnd(NamedTuple):
    """That a key counts no more."""

    key: str
    place: int
    """Of the record that says so; what the key signed before it stays."""

    action: str
    heir: str | None = None
    """Who took its place."""


class OwnerAddition(NamedTuple):
    """That owners made a key one of theirs."""

    key: str
    by: frozenset[str]
    """The owners who signed it."""

    owners: frozenset[str]
    """All of that moment."""


class KeyState(NamedTuple):
    """The keys of a bank at one place of its log."""

    owners: frozenset[str]
    writers: frozenset[str]
    ended: tuple[KeyEnd, ...] = ()
    """In the order of the log; a key that is retired may be revoked later."""

    forked: tuple[KeyEnd, ...] = ()
    """Further successions of a key that had one; they count for nothing."""

    threshold: int = 1
    """How many owners have to sign what is decided about the bank."""

    turns: int = 0
    """How often that number was set."""

    added: tuple[OwnerAddition, ...] = ()
    """Owners that the others took in, in the order of the log."""

    def enough(self, by: frozenset[str], *, but: str | None = None) -> bool:
        """Tell whether enough owners signed; what one says of itself may be left out."""
        return len(by & (self.owners - {but})) >= self.threshold

    def ending(self, key: str) -> KeyEnd | None:
        """Return how a key ended last; None for one that did not."""
        return next((one for one in reversed(self.ended) if one.key == key), None)

    @property
    def revoked(self) -> frozenset[str]:
        """Keys whose word was taken back."""
        return frozenset(one.key for one in self.ended if one.action == REVOKED)

    def line_of(self, owner: str) -> frozenset[str]:
        """Return an owner's key and those that it took the place of, one after the other.

        Not those of before a key that was revoked: its word for an heir is worth nothing to
        whoever did not see it in time.
        """
        before = {one.heir: one.key for one in self.ended if one.action == SUCCEEDED}
        found, revoked = {owner}, self.revoked
        while (key := before.get(owner)) is not None and key not in revoked:
            found.add(key)
            owner = key
        return frozenset(found)

    def believed(self, known: frozenset[str]) -> frozenset[str]:
        """Return some keys, and those whom owners took in who are all of these, or heirs of them.

        Not somebody whom a key took in that was revoked since: see ``line_of``.
        """
        found, revoked = set(known), self.revoked
        for one in self.added:
            if not one.by & revoked and all(self.line_of(owner) & found for owner in one.owners):
                found.add(one.key)
        return frozenset(found)


def keys_after(
    keys: KeyState, place: int, said: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record that ends one; as they were where it does not count.

    Args:
        keys: Those before it.
        place: Where it stands.
        said: Its action, and its payload, which names the bank.
        by: Whose signatures in it hold.
    """
    action, payload = said
    if not _MEMBERS[action] <= payload.keys() <= _MEMBERS[action] | {"reason"}:
        return keys
    if action == SUCCEEDED:
        return _succeeded(keys, place, payload, by)
    key = payload["key"]
    if not is_key(key) or key in keys.revoked:
        return keys
    if action == RETIRED and (key not in keys.owners | keys.writers or not keys.enough(by)):
        return keys
    # A key cannot say of itself that it was stolen: whoever stole it could say so of the others.
    if action == REVOKED and not keys.enough(by, but=key):
        return keys
    owners = keys.owners - {key}
    if len(owners) < keys.threshold:  # the bank could never be decided about again
        return keys
    return keys._replace(
        owners=owners,
        writers=keys.writers - {key},
        ended=(*keys.ended, KeyEnd(key, place, action)),
    )


def _succeeded(
    keys: KeyState, place: int, payload: Mapping[str, Any], by: frozenset[str]
) -> KeyState:
    old, new = payload["old"], payload["new"]
    if not is_key(old) or not is_key(new) or old == new or not {old, new} <= by:
        return keys
    found = KeyEnd(old, place, SUCCEEDED, new)
    if old not in keys.owners:
        heirs = {one.heir for one in keys.ended if one.key == old and one.heir is not None}
        return keys._replace(forked=(*keys.forked, found)) if heirs - {new} else keys
    if not is_new(keys, new) or not keys.enough(by):
        return keys
    owners = (keys.owners - {old}) | {new}
    return keys._replace(owners=owners, ended=(*keys.ended, found))


def is_new(keys: KeyState, key: str) -> bool:
    """Tell whether a key had no part in a bank yet: one that ended does not come back."""
    return key not in keys.owners | keys.writers and keys.ending(key) is None


def is_key(value: object) -> TypeGuard[str]:
    """Tell whether a value is a usable key."""
    if not isinstance(value, str):
        return False
    try:
        public_key(value)
    except MalformedError:
        return False
    return True


def honest_end(keys: KeyState, key: str, since: int) -> int | None:
    """Return the place up to which a key that ended in honour was an owner's; None otherwise.

    Args:
        keys: The keys of the bank.
        key: The key.
        since: The place of the last adoption, before which owners were others; 0 for none.
    """
    found = keys.ending(key)
    if found is None or found.action == REVOKED or found.place < since:
        return None
    return found.place


OWNER_ADDED = "owner_added"
"""The action of the config record by which owners take in another, who signs it as well."""

THRESHOLD_SET = "threshold_set"
"""The action of the config record that says how many owners have to sign."""

OWNING = frozenset({OWNER_ADDED, THRESHOLD_SET})

MOST_OWNERS = 15
"""With the heir of one of them as many as may sign one record."""

_OWNER_MEMBERS = {
    OWNER_ADDED: frozenset({"bank", "key"}),
    THRESHOLD_SET: frozenset({"bank", "threshold", "turn"}),
}


_ELSEWHERE = (
    "If the key is on another machine: add --propose FILE, sign it there with satchel bank owner "
    "sign FILE, then run satchel bank owner enact FILE."
)


def owners_after(
    keys: KeyState, said: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record about its owners; as they were if it counts not.

    Args:
        keys: Those before it.
        said: Its action, and its payload, which names the bank.
        by: Whose signatures in it hold.
    """
    action, payload = said
    if payload.keys() - {"reason"} != _OWNER_MEMBERS[action] or not keys.enough(by):
        return keys
    if action == OWNER_ADDED:
        key = payload["key"]
        # Who was admitted as a writer may become an owner; who ended does not come back.
        fits = is_key(key) and key in by and key not in keys.owners and keys.ending(key) is None
        if not fits or len(keys.owners) >= MOST_OWNERS:
            return keys
        took_in = OwnerAddition(key, by & keys.owners, keys.owners)
        return keys._replace(owners=keys.owners | {key}, added=(*keys.added, took_in))
    number, turn = payload["threshold"], payload["turn"]
    # The turn: else an old record could be brought again, and lower it.
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
        record: What was decided.
        by: Whose signatures in it hold.
        drawn: It and what goes with it, for others to sign.

    Raises:
        ThresholdError: If not; it has what was drawn.
    """
    action, key = "", ""
    if isinstance(model := record.model, Config):
        action, key = model.action, str(model.payload.get("key"))
    but = key if action == REVOKED else None
    if keys.enough(by, but=but):
        if action == OWNER_ADDED and key not in by:
            raise ThresholdError(
                "a new owner must agree, and did not sign this",
                field="key",
                hint=_ELSEWHERE,
                drawn=[one.body for one in drawn],
            )
        return
    there = len(by & (keys.owners - {but}))
    raise ThresholdError(
        f"{keys.threshold} of the {len(keys.owners)} owners of the bank must sign this, and "
        f"{there} did",
        field="key",
        hint=f"Add more of their keys: --co-signer NAME. {_ELSEWHERE}",
        drawn=[one.body for one in drawn],
    )
