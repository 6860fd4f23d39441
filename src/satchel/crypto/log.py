"""Leaves and heads of a bank's append-only log.

A store keeps the log; here is what its bytes are, so that a file can prove that its records were
in it. Source: docs/spec/5-log.md.
"""

from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from satchel.crypto.canonical import canonical, encode_sorted, has_plain_layout
from satchel.crypto.merkle import leaf_hash
from satchel.crypto.signatures import (
    PayloadType,
    Signature,
    SignatureCheck,
    SigningKey,
    check,
    parse_signatures,
    signature_of,
)
from satchel.errors import MalformedError
from satchel.model.values import Id, Time, is_canonical_time, resolved

_Count = Annotated[int, Meta(ge=0)]
_HEAD_VERSION = 1
_MAX_PATH = 64


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed state of a log: how long it is and the root over it."""

    v: int
    bank: Id
    epoch: _Count
    size: _Count
    root: Id
    counts: dict[str, _Count]
    at: Time
    key: str

    def __post_init__(self) -> None:
        if self.v != _HEAD_VERSION:
            raise ValueError(f"head version {self.v} is unknown")
        if not is_canonical_time(self.at):
            raise ValueError("`at` is not a time")
        if sum(self.counts.values()) != self.size:
            raise ValueError("the counts do not add up to the size")


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A head with its one signature."""

    signed: Head
    signatures: list[Signature]


class LeafProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That one record stands at one place of a log."""

    id: Id
    seq: _Count
    type: str
    at: Time
    path: Annotated[
        list[Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", max_length=64)]],
        Meta(max_length=_MAX_PATH),
    ]

    def path_bytes(self) -> list[bytes]:
        """The sibling hashes."""
        return [bytes.fromhex(part) for part in self.path]

    def leaf(self, bank: str) -> bytes:
        """The leaf hash of the record in the log of ``bank``."""
        return record_leaf(bank, self.seq, self.type, self.id, self.at)


def record_leaf(bank: str, seq: int, record_type: str, identity: str, at: str) -> bytes:
    """Return the leaf hash of record ``seq`` of a bank's log."""
    # Texts and a small integer: sorted encoding is the canonical one.
    return leaf_hash(encode_sorted([bank, seq, record_type, identity, at]))


def sign_head(head: Head, key: SigningKey) -> dict[str, Any]:
    """Return a head and its signature as the JSON that goes into a statement.

    Raises:
        ValueError: If the head names another key.
    """
    return cast("dict[str, Any]", msgspec.json.decode(signed_head(head, key)))


def signed_head(head: Head, key: SigningKey) -> bytes:
    """Return the canonical bytes of what ``sign_head`` returns.

    Raises:
        ValueError: As ``sign_head``.
    """
    if head.key != key.did:
        raise ValueError("a head must be signed by the key it names")
    # Texts and small integers as a rule: sorted encoding is the canonical one then.
    payload = encode_sorted(head)
    if not has_plain_layout(payload):
        payload = canonical(msgspec.to_builtins(head))
    signature = signature_of(PayloadType.HEAD, payload, key)
    return b'{"signatures":[%b],"signed":%b}' % (encode_sorted(signature), payload)


def parse_head(value: Any) -> SignedHead:
    """Return the signed head found in a statement.

    Raises:
        MalformedError: If it has another shape.
    """
    try:
        found = msgspec.convert(value, resolved(SignedHead))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a signed head: {error}", field="head") from None
    parse_signatures(value["signatures"], 1)
    return found


def check_head(value: dict[str, Any], head: SignedHead) -> SignatureCheck:
    """Check that a head was signed by the key it names.

    Args:
        value: The JSON the head was parsed from.
        head: The head.
    """
    if len(head.signatures) != 1 or head.signatures[0].key != head.signed.key:
        return SignatureCheck(
            key=head.signed.key, valid=False, problem="not signed by the key it names"
        )
    return check(PayloadType.HEAD, value["signed"], head.signatures)[0]
