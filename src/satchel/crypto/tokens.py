"""A capability token: its payload, its ID, its signature.

The ID is the hash of the payload and cannot be chosen. The received value is what is signed, and
each payload has one spelling, so an unknown member, which might restrict the token, is refused
instead of ignored. Source: docs/spec/6-keys-and-tokens.md, 6.5.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import (
    PayloadType,
    Signature,
    SigningKey,
    check,
    parse_signatures,
    public_key,
    sign,
)
from satchel.crypto.sealed_records import digest, random_nonce
from satchel.errors import MalformedError, UsageError
from satchel.model.records import Entry, KeyId
from satchel.model.values import (
    Component,
    Id,
    Nonce,
    Time,
    check_times,
    format_time,
    parse_as,
    resolved,
    to_datetime,
)

MOST_SHOWN_IDS = 64
"""Maximum number of IDs in a token; of more it contains the hash, and the list is separate."""

MOST_LISTED_IDS = 100_000
"""Maximum number of IDs in a separate list."""

_MOST_TAGS, _LONGEST_TAG = 64, 256

_Tags = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=_LONGEST_TAG)], ...],
    Meta(max_length=_MOST_TAGS),
]

Lists = Mapping[str, Sequence[str]]
"""Lists of IDs that are presented with tokens, by their hash."""

Covers = Callable[[Entry], bool]
"""Returns whether an entry, with its ID, is in a scope."""


class _Clause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One condition; members at their default are not written."""


class Wildcard(_Clause, frozen=True, kw_only=True, tag="wildcard", forbid_unknown_fields=True):
    """All memory of the bank, and every other record of its log."""


class Entries(
    _Clause,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag="entries",
    forbid_unknown_fields=True,
):
    """The listed entries."""

    ids: Annotated[tuple[Id, ...], Meta(max_length=MOST_SHOWN_IDS)] = ()
    """Sorted and unique; empty if the list is separate."""

    count: Annotated[int, Meta(gt=MOST_SHOWN_IDS, le=MOST_LISTED_IDS)] | None = None
    digest: Id | None = None
    """H(JCS(sorted ids)), if the list is separate."""

    def __post_init__(self) -> None:
        if bool(self.ids) is (self.digest is not None) or (self.count is None) is not (
            self.digest is None
        ):
            raise ValueError("a list of entries must have either `ids`, or `count` and `digest`")
        _require_sorted(self.ids, "ids")


class Components(_Clause, frozen=True, kw_only=True, tag="components", forbid_unknown_fields=True):
    """The entries of some components."""

    components: Annotated[tuple[Component, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        _require_sorted(self.components, "components")


class Tags(
    _Clause, frozen=True, kw_only=True, omit_defaults=True, tag="tags", forbid_unknown_fields=True
):
    """The entries with matching tags, by each of the three conditions that is set."""

    any_of: _Tags = ()
    all_of: _Tags = ()
    none_of: _Tags = ()

    def __post_init__(self) -> None:
        if not (self.any_of or self.all_of or self.none_of):
            raise ValueError("empty tags would allow everything: use wildcard")
        for name in ("any_of", "all_of", "none_of"):
            _require_sorted(getattr(self, name), name)

    def fit(self, tags: Collection[str]) -> bool:
        """Return whether the tags of an entry match."""
        present = frozenset(tags)
        return (
            (not self.any_of or not present.isdisjoint(self.any_of))
            and present.issuperset(self.all_of)
            and present.isdisjoint(self.none_of)
        )


Clause = Wildcard | Entries | Components | Tags
Scope = Annotated[tuple[Clause, ...], Meta(min_length=1, max_length=4)]
"""Clauses that must all be met; at most one of each type."""

EVERYTHING: tuple[Clause, ...] = (Wildcard(),)
"""The scope without restrictions."""


def require_scope(scope: Sequence[Clause]) -> None:
    """Refuse a scope with two clauses of a type, or a wildcard and another clause.

    Raises:
        ValueError: If it does.
    """
    kinds = [type(clause) for clause in scope]
    if len(set(kinds)) < len(kinds):
        raise ValueError("a scope can have at most one clause of each type")
    if Wildcard in kinds and len(kinds) > 1:
        raise ValueError("a wildcard cannot be combined with other clauses")


def is_wildcard(scope: Sequence[Clause]) -> bool:
    """Return whether a scope has no restrictions."""
    return any(isinstance(clause, Wildcard) for clause in scope)


def takes_new(scope: Sequence[Clause]) -> bool:
    """Return whether a new entry can be in a scope."""
    return not any(isinstance(clause, Entries) for clause in scope)


def scope_filter(scope: Sequence[Clause], lists: Lists) -> Covers:
    """Return a function that returns whether an entry is in a scope.

    Args:
        scope: The clauses.
        lists: The lists presented with the token; a missing one allows nothing.
    """
    each = [_clause_filter(clause, lists) for clause in scope]
    return lambda entry: all(covers(entry) for covers in each)


def _clause_filter(clause: Clause, lists: Lists) -> Covers:
    if isinstance(clause, Entries):
        listed = lists.get(clause.digest, ()) if clause.digest is not None else clause.ids
        named = frozenset(listed)
        return lambda entry: entry.id in named
    if isinstance(clause, Components):
        types = frozenset(part.value for part in clause.components)
        return lambda entry: entry.__struct_config__.tag in types
    if isinstance(clause, Tags):
        return lambda entry: clause.fit(entry.tags)
    return lambda entry: True  # noqa: ARG005 - all of them


def entries_clause(ids: Collection[str]) -> tuple[Entries, dict[str, list[str]]]:
    """Return the clause for some entries, and the separate list if one is needed.

    Raises:
        MalformedError: If there are none, too many, or one is not an ID.
    """
    listed = sorted(set(ids))
    if not listed or len(listed) > MOST_LISTED_IDS:
        raise MalformedError(f"a token can list 1 to {MOST_LISTED_IDS:,} entries", field="entries")
    try:
        msgspec.convert(listed, resolved(list[Id]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not IDs of entries: {error}", field="entries") from None
    if len(listed) <= MOST_SHOWN_IDS:
        return Entries(ids=tuple(listed)), {}
    found = list_digest(listed)
    return Entries(count=len(listed), digest=found), {found: listed}


def list_digest(ids: Sequence[str]) -> str:
    """Return the hash of a list of sorted IDs in a token."""
    return digest(canonical(list(ids)))


def _require_sorted(values: Sequence[str], name: str) -> None:
    if any(one >= other for one, other in pairwise(values)):
        raise ValueError(f"`{name}` must be sorted, each once")


LONGEST = timedelta(days=90)
"""Maximum time from issue to expiry."""

LONGEST_BEARER = timedelta(hours=24)
"""The same for a bearer token, which anybody who has it may use."""

_ONE = 1


class Permission(StrEnum):
    """A permission that a token can grant; each is needed by the operation with its name."""

    DERIVE = "derive"
    EXPORT = "export"
    READ = "read"
    REDACT = "redact"
    REHYDRATE = "rehydrate"
    WRITE = "write"


class Binding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A restriction of a token besides its bank."""

    root_hash: Id
    """Root hash of the one artifact that it is valid for; it then opens no bank."""


class TokenPayload(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The payload of a token."""

    v: Literal[1]
    bank: Id
    issuer: KeyId
    audience: KeyId | None = None
    """The key that may present it, with a proof of possession; None for a bearer token."""

    scope: Scope
    permissions: Annotated[tuple[Permission, ...], Meta(min_length=1)]
    issued_at: Time
    not_before: Time
    expires_at: Time
    parent: Id | None = None
    """ID of the token that it was made from; None for an owner's own."""

    binding: Binding | None = None
    nonce: Nonce

    def __post_init__(self) -> None:
        check_times(self, ("issued_at", "not_before", "expires_at"))
        if list(self.permissions) != sorted(set(self.permissions)):
            raise ValueError("`permissions` must be sorted, each once")
        require_scope(self.scope)
        if not self.issued_at <= self.not_before < self.expires_at:
            raise ValueError("a token must start at or after its issue, and expire after that")
        life = to_datetime(self.expires_at) - to_datetime(self.issued_at)
        if life > LONGEST:
            raise ValueError(f"a token can be valid for at most {LONGEST.days} days")
        if self.audience is None and life > LONGEST_BEARER:
            raise ValueError("a token without an audience can be valid for at most 24 hours")
        if self.audience is None and self.parent is not None:
            raise ValueError("an attenuated token needs an audience")


class SignedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token with its signature and its ID."""

    id: str
    """H(JCS(payload))."""

    payload: TokenPayload
    signature: Signature

    def value(self) -> dict[str, Any]:
        """Return the envelope as JSON."""
        return {
            "payload": payload_value(self.payload),
            "signatures": [msgspec.to_builtins(self.signature)],
        }


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a new token."""

    scope: tuple[Any, ...]
    permissions: Iterable[str]
    issued_at: str
    expires_at: str
    audience: str | None = None
    not_before: str | None = None
    """None for its time of issue."""

    root_hash: str | None = None


def payload_value(payload: TokenPayload) -> dict[str, Any]:
    """Return a payload as JSON."""
    return msgspec.json.decode(msgspec.json.encode(payload))  # type: ignore[no-any-return]


def issue(bank: str, owner: SigningKey, grant: Grant) -> SignedToken:
    """Sign the first token of a chain, as an owner of its bank.

    Raises:
        UsageError: If its content is invalid: it lasts too long, grants nothing, or the like.
    """
    return signed_token(bank, owner, grant, None)


def signed_token(bank: str, key: SigningKey, grant: Grant, parent: str | None) -> SignedToken:
    """Sign a token.

    Args:
        bank: Id of the bank.
        key: The issuer's key.
        grant: The content of the token.
        parent: ID of the token that it is made from.

    Raises:
        UsageError: As ``issue``.
    """
    claims = {
        "v": 1,
        "bank": bank,
        "issuer": key.did,
        "scope": [msgspec.to_builtins(clause) for clause in grant.scope],
        "permissions": sorted(set(grant.permissions)),
        "issued_at": grant.issued_at,
        "not_before": grant.not_before or grant.issued_at,
        "expires_at": grant.expires_at,
        "nonce": random_nonce(),
    }
    if grant.audience is not None:
        public_key(grant.audience)
        claims["audience"] = grant.audience
    if parent is not None:
        claims["parent"] = parent
    if grant.root_hash is not None:
        claims["binding"] = {"root_hash": grant.root_hash}
    payload = parse_as(TokenPayload, claims, "not a valid token", UsageError)
    adds = {Permission.WRITE, Permission.DERIVE} & set(payload.permissions)
    if adds and not takes_new(payload.scope) and Permission.READ not in payload.permissions:
        raise UsageError(
            "a new memory is in no list of entries, so this token would allow nothing",
            field="permissions",
            hint="Set the scope by type or tag.",
        )
    (signature,) = sign(PayloadType.TOKEN, payload_value(payload), [key])
    return SignedToken(id=token_id(payload), payload=payload, signature=signature)


def token_id(payload: TokenPayload) -> str:
    """Return the id of a token."""
    return digest(canonical(payload_value(payload)))


def parse_token(value: Any) -> SignedToken:
    """Return a token from a value of a strict reader, without verifying its signature.

    Raises:
        MalformedError: If it is not a token, or not in its canonical spelling.
    """
    if not isinstance(value, dict) or value.keys() != {"payload", "signatures"}:
        raise MalformedError("a token has a payload and signatures", field="tokens")
    payload = parse_as(TokenPayload, value["payload"], "not a token")
    if payload_value(payload) != value["payload"]:
        raise MalformedError("a token must omit empty members", field="payload")
    signatures = parse_signatures(value["signatures"], _ONE)
    if len(signatures) != _ONE:
        raise MalformedError(
            "a token must have exactly the signature of its issuer", field="signatures"
        )
    for key in (payload.issuer, payload.audience):
        if key is not None:
            public_key(key)
    return SignedToken(id=token_id(payload), payload=payload, signature=signatures[0])


def is_signed(token: SignedToken) -> bool:
    """Return whether a token was signed by the key that it names as issuer."""
    if token.signature.key != token.payload.issuer:
        return False
    found = check(PayloadType.TOKEN, payload_value(token.payload), [token.signature])
    return found[0].valid


def shift_time(moment: str, by: timedelta) -> str:
    """Return a canonical time moved by a difference, limited to the range of times."""
    try:
        return format_time(to_datetime(moment) + by)
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z" if by > timedelta() else "0001-01-01T00:00:00.000000Z"
