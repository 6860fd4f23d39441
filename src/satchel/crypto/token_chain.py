"""Chains of capability tokens, from an owner's to the holder's, verified as a whole.

A request is allowed if every token of the chain allows it, so no scopes have to be compared, and no
token can extend what the one before allows. Source: docs/spec/6-keys-and-tokens.md, 6.6.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.keys import PayloadType, SigningKey, check, parse_signatures, sign
from satchel.crypto.sealed_records import digest, random_nonce
from satchel.crypto.tokens import (
    MOST_LISTED_IDS,
    Covers,
    Entries,
    Grant,
    Lists,
    Permission,
    SignedToken,
    is_signed,
    is_wildcard,
    list_digest,
    parse_token,
    scope_filter,
    shift_time,
    signed_token,
)
from satchel.errors import (
    LimitError,
    MalformedError,
    PermissionRefusedError,
    SigningKeyError,
    TokenError,
    TokenRevokedError,
    TokenTimeError,
    UsageError,
)
from satchel.model.records import KeyId
from satchel.model.values import Id, Nonce, Time, check_times, parse_as, resolved

FORMAT = "satchel-token/1"
MOST_TOKENS = 8
"""Maximum number of tokens in a chain."""

SKEW = timedelta(seconds=60)
"""Maximum difference of two machines' clocks."""

MOST_BYTES = 16 * 2**20
"""Maximum bytes of a file with a chain and its lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenContext:
    """The context in which a chain is verified."""

    bank: str
    owners: Collection[str]
    """Owners of the bank."""

    moment: str
    """The current time."""

    revoked: Collection[str] = ()
    """IDs of revoked tokens."""

    revoked_keys: Collection[str] = ()
    """Keys that were revoked."""

    artifact: str | None = None
    """Root hash of the requested artifact; None if the bank itself is requested."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The tokens of one presentation, with valid signatures and links.

    Only ``open_chain``, ``linked`` and ``attenuated`` create one, so it need not be verified again.
    """

    tokens: tuple[SignedToken, ...]
    """From the owner's to the holder's."""

    lists: Lists
    """Lists of IDs that are presented with the tokens, by their hash."""

    @property
    def leaf(self) -> SignedToken:
        """The holder's own token."""
        return self.tokens[-1]

    @property
    def bank(self) -> str:
        """ID of the bank of the chain."""
        return self.leaf.payload.bank

    @property
    def audience(self) -> str | None:
        """The key that may present it; None for a bearer token."""
        return self.leaf.payload.audience

    @property
    def is_wildcard(self) -> bool:
        """Whether it covers everything in the bank."""
        return all(is_wildcard(token.payload.scope) for token in self.tokens)

    @property
    def covers(self) -> Covers:
        """Returns whether an entry is in the scope of every token."""
        each = [scope_filter(token.payload.scope, self.lists) for token in self.tokens]
        return lambda entry: all(covers(entry) for covers in each)

    @property
    def permissions(self) -> frozenset[Permission]:
        """The permissions in every token."""
        each = (frozenset(token.payload.permissions) for token in self.tokens)
        return frozenset.intersection(*each)

    def require(self, needed: Collection[Permission], around: TokenContext) -> None:
        """Require that every token is valid now, and grants the needed permissions.

        Raises:
            TokenError: If it is for another bank or artifact, or its issuer is not an owner.
            TokenTimeError: If one has expired or is not valid yet.
            TokenRevokedError: If one was revoked, or the key of its issuer was.
            PermissionRefusedError: If one does not grant a permission.
        """
        self.require_valid(around)
        missing = sorted(set(needed) - self.permissions)
        if missing:
            raise PermissionRefusedError(
                f"the token does not allow: {', '.join(missing)}", field="permissions"
            )

    def require_valid(self, around: TokenContext) -> None:
        """Require that every token is valid now, with any permissions; see ``require``."""
        if self.bank != around.bank:
            raise TokenError("the token is for another bank", field="bank")
        root = self.tokens[0].payload.issuer
        if root not in around.owners:
            raise TokenError("the token was not issued by an owner of the bank", field="issuer")
        for token in self.tokens:
            _require_now(token, around)
            bound = token.payload.binding
            if bound is not None and bound.root_hash != around.artifact:
                raise TokenError("the token is bound to one artifact", field="binding")

    def value(self) -> dict[str, Any]:
        """Return what a holder presents, as JSON."""
        lists = {name: list(ids) for name, ids in self.lists.items()}
        return {
            "format": FORMAT,
            **({"lists": lists} if lists else {}),
            "tokens": [token.value() for token in self.tokens],
        }

    def encoded(self) -> bytes:
        """Return the bytes of a file with the chain."""
        return canonical_checked(self.value()) + b"\n"


def _require_now(token: SignedToken, around: TokenContext) -> None:
    payload = token.payload
    if token.id in around.revoked or payload.issuer in around.revoked_keys:
        raise TokenRevokedError("the token was revoked", field=token.id)
    latest, earliest = shift_time(around.moment, SKEW), shift_time(around.moment, -SKEW)
    if payload.not_before > latest:
        raise TokenTimeError("the token is not valid yet", field="not_before")
    if payload.expires_at <= earliest:
        raise TokenTimeError("the token has expired", field="expires_at")


def open_chain(data: bytes) -> Chain:
    """Return the chain in the bytes of a file, with every signature and link verified.

    Raises:
        LimitError: If it is too large, or too long.
        MalformedError: If the bytes are not canonical, or not a chain.
        TokenError: If a signature or a link is invalid.
    """
    if len(data) > MOST_BYTES:
        raise LimitError(f"a token file can have at most {MOST_BYTES:,} bytes")
    return chain_from_value(decode_canonical(data.strip(b"\r\n")))


def chain_from_value(value: Any) -> Chain:
    """As ``open_chain``, for a value from a strict reader."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise MalformedError(f"not a token file: no format {FORMAT!r}", field="format")
    unknown = sorted(value.keys() - {"format", "lists", "tokens"})
    if unknown:
        raise MalformedError("a token file has no such member", field=unknown[0])
    envelopes = value.get("tokens")
    if not isinstance(envelopes, list) or not envelopes:
        raise MalformedError("it contains no token", field="tokens")
    if len(envelopes) > MOST_TOKENS:
        raise LimitError(f"a chain can have at most {MOST_TOKENS} tokens", field="tokens")
    return link_tokens(tuple(map(parse_token, envelopes)), _lists(value.get("lists", {})))


def link_tokens(tokens: tuple[SignedToken, ...], lists: Lists) -> Chain:
    """Return tokens as a chain, with every signature and link verified.

    Raises:
        TokenError: Naming the first invalid one.
        MalformedError: If a list is not named by a token.
    """
    for position, token in enumerate(tokens):
        if not is_signed(token):
            raise TokenError("the signature of a token is not valid", field=f"tokens/{position}")
        before = tokens[position - 1] if position else None
        if not _may_follow(token, before):
            raise TokenError(
                "a token was not attenuated from the one before it",
                field=f"tokens/{position}/parent",
            )
    named = {
        clause.digest: clause.count
        for token in tokens
        for clause in token.payload.scope
        if isinstance(clause, Entries) and clause.digest is not None
    }
    for name, ids in lists.items():
        if named.get(name) != len(ids):
            raise MalformedError("no token names this list", field=f"lists/{name}")
    return Chain(tokens, lists)


def _may_follow(token: SignedToken, before: SignedToken | None) -> bool:
    """Return whether a token may follow another one, or be the first if there is none."""
    if before is None:
        return token.payload.parent is None
    return (
        token.payload.parent == before.id
        and token.payload.issuer == before.payload.audience
        and token.payload.bank == before.payload.bank
    )


def _lists(value: Any) -> dict[str, list[str]]:
    try:
        lists = msgspec.convert(value, resolved(dict[Id, list[Id]]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not lists of IDs: {error}", field="lists") from None
    for name, ids in lists.items():
        if len(ids) > MOST_LISTED_IDS:
            raise LimitError(f"a list can have at most {MOST_LISTED_IDS:,} IDs", field="lists")
        if list_digest(ids) != name or ids != sorted(set(ids)):
            raise MalformedError("a list does not match its hash", field=f"lists/{name}")
    return lists


def attenuate(chain: Chain, holder: SigningKey, grant: Grant, lists: Lists) -> Chain:
    """Return a chain with a further token, signed by the holder of the last one.

    Args:
        chain: The holder's chain.
        holder: The key of its audience.
        grant: The content of the new token; it can only restrict the chain.
        lists: Lists of IDs that the new token names.

    Raises:
        UsageError: If it would allow more than the chain, which would have no effect.
        SigningKeyError: If the key is not that of the audience.
        LimitError: If the chain is too long.
    """
    if chain.audience is None:
        raise UsageError("a bearer token cannot be attenuated", field="audience")
    if grant.audience is None:
        raise UsageError("an attenuated token needs an audience")
    if holder.did != chain.audience:
        raise SigningKeyError("this key does not belong to the token's holder", field="audience")
    if len(chain.tokens) >= MOST_TOKENS:
        raise LimitError(f"a chain can have at most {MOST_TOKENS} tokens", field="tokens")
    more = sorted(set(grant.permissions) - chain.permissions)
    if more:
        raise UsageError(f"the token itself does not allow: {', '.join(more)}", field="permissions")
    if grant.expires_at > min(token.payload.expires_at for token in chain.tokens):
        raise UsageError("it would expire after its parent token", field="expires_at")
    token = signed_token(chain.bank, holder, grant, chain.leaf.id)
    return link_tokens((*chain.tokens, token), {**chain.lists, **lists})


SESSION = "session"
"""The action of a proof for a whole process, which created its verifier's key itself."""

_LONGEST_ACTION = 64


class ProofRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload that a holder signs."""

    v: Literal[1]
    action: Annotated[str, Meta(min_length=1, max_length=_LONGEST_ACTION)]
    args: Id
    """H(JCS(arguments))."""

    audience: KeyId
    """The verifier's key: a proof for one verifier is invalid for others."""

    bank: Id
    token: Id
    """ID of the last token of the chain."""

    at: Time
    nonce: Nonce

    def __post_init__(self) -> None:
        check_times(self, ("at",))


def http_proof_request(method: str, target: str, body: str) -> tuple[str, dict[str, str]]:
    """Return the action and arguments of a proof for an HTTP request.

    Args:
        method: Such as ``POST``.
        target: The path with its query, as sent.
        body: BLAKE3 of the body, in hex; that of no bytes for no body.
    """
    return f"http {method.upper()}", {"target": target, "body": body}


def prove(
    chain: Chain,
    holder: SigningKey,
    verifier: str,
    at: str,
    request: tuple[str, Any] = (SESSION, {}),
) -> dict[str, Any]:
    """Return the proof that a holder sends with a request, as JSON.

    Args:
        chain: The presented chain.
        holder: The key of its audience.
        verifier: The verifier's key.
        at: The current time.
        request: The action, and its arguments.
    """
    action, args = request
    payload = {
        "v": 1,
        "action": action,
        "args": digest(canonical(args)),
        "audience": verifier,
        "bank": chain.bank,
        "token": chain.leaf.id,
        "at": at,
        "nonce": random_nonce(),
    }
    signatures = sign(PayloadType.REQUEST, payload, [holder])
    return {"payload": payload, "signatures": msgspec.to_builtins(signatures)}


def require_possession(
    chain: Chain,
    proof: Any,
    verifier: str,
    moment: str,
    expected: tuple[str, Any] = (SESSION, {}),
) -> ProofRequest:
    """Require that a proof was made by the audience of a chain, for this request, just now.

    A server stores the nonces of writes, in the transaction of each write, as long as their proof
    is valid.

    Args:
        chain: The presented chain; a bearer token needs no proof.
        proof: The proof, from a strict reader.
        verifier: The verifier's own key.
        moment: The current time.
        expected: The action, and its arguments.

    Raises:
        MalformedError: If it is not a proof.
        TokenError: If it is invalid.
        TokenTimeError: If it is too old, or from the future.
    """
    action, args = expected
    possession = verify_proof(chain, proof, verifier, moment, action)
    require_arguments(possession, args)
    return possession


def verify_proof(chain: Chain, proof: Any, verifier: str, moment: str, action: str) -> ProofRequest:
    """As ``require_possession``, without the arguments, which may not be received yet.

    The cheapest verification is first, and the signature last.
    """
    if not isinstance(proof, dict) or proof.keys() != {"payload", "signatures"}:
        raise MalformedError("a proof has a payload and signatures", field="request")
    request = parse_as(ProofRequest, proof["payload"], "not a proof of possession")
    expected = verifier, chain.bank, chain.leaf.id
    if (request.audience, request.bank, request.token) != expected or request.action != action:
        raise TokenError("the proof of possession is for another request", field="request")
    if not shift_time(moment, -SKEW) <= request.at <= shift_time(moment, SKEW):
        raise TokenTimeError("the proof of possession has expired", field="at")
    signatures = parse_signatures(proof["signatures"], 1)
    if [signature.key for signature in signatures] != [chain.audience]:
        raise TokenError("the proof of possession is not signed by the audience", field="audience")
    if not check(PayloadType.REQUEST, proof["payload"], signatures)[0].valid:
        raise TokenError("the signature of the proof is not valid", field="request")
    return request


def require_arguments(request: ProofRequest, args: Any) -> None:
    """Require that a request was signed for these arguments.

    Raises:
        TokenError: If it was signed for others.
    """
    if request.args != digest(canonical(args)):
        raise TokenError("the proof of possession is for other arguments", field="args")


REVOCATIONS_FORMAT = "satchel-revocations/1"
MOST_REVOKED = 100_000
LONGEST = timedelta(days=90)


class RevocationList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The revoked tokens of a bank at a time."""

    v: Literal[1]
    bank: Id
    issuer: KeyId
    number: Annotated[int, Meta(ge=1)]
    """Higher in each later list; the size of the log that it was read from."""

    issued_at: Time
    expires_at: Time
    """Expiry, after which the list must not be relied on."""

    tokens: Annotated[tuple[Id, ...], Meta(max_length=MOST_REVOKED)]
    """Sorted IDs."""

    def __post_init__(self) -> None:
        check_times(self, ("issued_at", "expires_at"))
        if not self.issued_at < self.expires_at <= shift_time(self.issued_at, LONGEST):
            raise ValueError(f"a revocation list can be valid for at most {LONGEST.days} days")
        if list(self.tokens) != sorted(set(self.tokens)):
            raise ValueError("`tokens` must be sorted, each once")


def signed_list(
    bank: str, owner: SigningKey, number: int, tokens: Collection[str], times: tuple[str, str]
) -> bytes:
    """Return the bytes of a file with a signed revocation list.

    Args:
        bank: ID of the bank.
        owner: The key that signs it.
        number: Higher than in every earlier list.
        tokens: IDs of the revoked tokens.
        times: Time of issue, and expiry.

    Raises:
        UsageError: If the values are invalid.
    """
    issued_at, expires_at = times
    payload = {
        "v": 1,
        "bank": bank,
        "issuer": owner.did,
        "number": number,
        "issued_at": issued_at,
        "expires_at": expires_at,
        "tokens": sorted(set(tokens)),
    }
    parse_as(RevocationList, payload, "not a valid revocation list", UsageError)
    signatures = msgspec.to_builtins(sign(PayloadType.REVOCATIONS, payload, [owner]))
    return (
        canonical_checked(
            {"format": REVOCATIONS_FORMAT, "payload": payload, "signatures": signatures}
        )
        + b"\n"
    )


def open_revocation_list(
    data: bytes, bank: str, owners: Collection[str], *, moment: str, least: int = 0
) -> RevocationList:
    """Return a revocation list that is valid now.

    Args:
        data: The bytes of its file.
        bank: ID of the bank.
        owners: Owners of the bank.
        moment: The current time.
        least: Number of the newest list that was seen before.

    Raises:
        MalformedError: If it is not a revocation list.
        TokenError: If it is another bank's, not an owner's, not signed, or older than one seen.
        TokenTimeError: If it has expired, or is from the future.
    """
    value: Any = decode_canonical(data.strip(b"\r\n")) if len(data) <= MOST_BYTES else None
    members = {"format", "payload", "signatures"}
    if (
        not isinstance(value, dict)
        or value.keys() != members
        or value["format"] != REVOCATIONS_FORMAT
    ):
        raise MalformedError("not a revocation list", field="format")
    revocations = parse_as(RevocationList, value["payload"], "not a revocation list")
    signatures = parse_signatures(value["signatures"], 1)
    if [signature.key for signature in signatures] != [revocations.issuer]:
        raise TokenError("the list is not signed by its issuer", field="signatures")
    if revocations.bank != bank or revocations.issuer not in owners:
        raise TokenError("the list is not issued by an owner of this bank", field="issuer")
    if not check(PayloadType.REVOCATIONS, value["payload"], signatures)[0].valid:
        raise TokenError("the signature of the list is not valid", field="signatures")
    if revocations.number < least:
        raise TokenError("a newer revocation list was seen here", field="number")
    if revocations.issued_at > shift_time(moment, SKEW) or revocations.expires_at <= shift_time(
        moment, -SKEW
    ):
        raise TokenTimeError("the revocation list is not valid now", field="expires_at")
    return revocations
