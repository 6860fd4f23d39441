"""Tokens from an owner's to the holder's: made narrower link by link, and judged as a whole.

A request is allowed when every token of the chain allows it, so nothing has to be compared for
width, and nothing can widen. Source: docs/spec/6-keys-and-tokens.md, 6.6.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

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
from satchel.memory.parts import Id
from satchel.seal.encoding.jcs import canonical_checked, decode_canonical
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.scope import (
    MOST_LISTED_IDS,
    Covers,
    Entries,
    Lists,
    covering,
    is_wildcard,
    list_digest,
)
from satchel.seal.tokens.token import (
    Grant,
    Permission,
    SignedToken,
    is_signed,
    parse_token,
    shifted,
    signed_token,
)
from satchel.type_info import resolved

FORMAT = "satchel-token/1"
MOST_TOKENS = 8
"""Tokens of one chain."""

SKEW = timedelta(seconds=60)
"""How far the clocks of two machines may differ."""

MOST_BYTES = 16 * 2**20
"""Of a file with a chain, and the lists that go beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a chain is judged against."""

    bank: str
    owners: Collection[str]
    """Keys that own the bank."""

    moment: str
    """What the clock says."""

    revoked: Collection[str] = ()
    """Ids of tokens that were revoked."""

    revoked_keys: Collection[str] = ()
    """Keys whose word does not count any more."""

    artifact: str | None = None
    """Root hash of the artifact that is asked for; None where it is the bank itself."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The tokens of one presentation, whose signatures and links hold.

    Only ``opened`` and ``attenuated`` make one, so who has one need not check it again.
    """

    tokens: tuple[SignedToken, ...]
    """From the owner's to the holder's."""

    lists: Lists
    """Lists of ids that are shown beside the tokens, by their hash."""

    @property
    def leaf(self) -> SignedToken:
        """The holder's own token."""
        return self.tokens[-1]

    @property
    def bank(self) -> str:
        """Id of the bank that it is for."""
        return self.leaf.payload.bank

    @property
    def audience(self) -> str | None:
        """Who may present it; None for whoever has it."""
        return self.leaf.payload.audience

    @property
    def is_wildcard(self) -> bool:
        """Whether it speaks of everything in the bank."""
        return all(is_wildcard(token.payload.scope) for token in self.tokens)

    @property
    def covers(self) -> Covers:
        """What tells whether an entry is in the scope of every token."""
        each = [covering(token.payload.scope, self.lists) for token in self.tokens]
        return lambda entry: all(covers(entry) for covers in each)

    @property
    def permissions(self) -> frozenset[Permission]:
        """What every token allows."""
        each = (frozenset(token.payload.permissions) for token in self.tokens)
        return frozenset.intersection(*each)

    def require(self, needed: Collection[Permission], around: Surroundings) -> None:
        """Require that every token holds now, and allows what is asked for.

        Raises:
            TokenError: If it is for another bank or artifact, or its issuer is not an owner.
            TokenTimeError: If one has ended, or not begun.
            TokenRevokedError: If one was revoked, or the key of its issuer was.
            PermissionRefusedError: If one does not allow it.
        """
        self.require_valid(around)
        missing = sorted(set(needed) - self.permissions)
        if missing:
            raise PermissionRefusedError(
                f"the token does not allow: {', '.join(missing)}", field="permissions"
            )

    def require_valid(self, around: Surroundings) -> None:
        """Require that every token holds now, whatever it allows; as ``require``."""
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
        """Return the bytes of a file with it."""
        return canonical_checked(self.value()) + b"\n"


def _require_now(token: SignedToken, around: Surroundings) -> None:
    payload = token.payload
    if token.id in around.revoked or payload.issuer in around.revoked_keys:
        raise TokenRevokedError("the token was revoked", field=token.id)
    latest, earliest = shifted(around.moment, SKEW), shifted(around.moment, -SKEW)
    if payload.not_before > latest:
        raise TokenTimeError("the token is not valid yet", field="not_before")
    if payload.expires_at <= earliest:
        raise TokenTimeError("the token has expired", field="expires_at")


def opened(data: bytes) -> Chain:
    """Return the chain in the bytes of a file, after checking every signature and link.

    Raises:
        LimitError: If it is too large, or too long.
        MalformedError: If the bytes are not canonical, or the shape is wrong.
        TokenError: If a signature or a link does not hold.
    """
    if len(data) > MOST_BYTES:
        raise LimitError(f"a token file can have at most {MOST_BYTES:,} bytes")
    return opened_value(decode_canonical(data.strip(b"\r\n")))


def opened_value(value: Any) -> Chain:
    """Do what ``opened`` does with a value that a strict reader gave."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise MalformedError(f"not a token file: no format {FORMAT!r}", field="format")
    unknown = sorted(value.keys() - {"format", "lists", "tokens"})
    if unknown:
        raise MalformedError("a token file has no such member", field=unknown[0])
    found = value.get("tokens")
    if not isinstance(found, list) or not found:
        raise MalformedError("it contains no token", field="tokens")
    if len(found) > MOST_TOKENS:
        raise LimitError(f"a chain can have at most {MOST_TOKENS} tokens", field="tokens")
    return linked(tuple(map(parse_token, found)), _lists(value.get("lists", {})))


def linked(tokens: tuple[SignedToken, ...], lists: Lists) -> Chain:
    """Return tokens as a chain, after checking every signature and link.

    Raises:
        TokenError: Naming the first that does not hold.
        MalformedError: If a list beside them is not one that a token names.
    """
    for place, token in enumerate(tokens):
        if not is_signed(token):
            raise TokenError("the signature of a token is not valid", field=f"tokens/{place}")
        before = tokens[place - 1] if place else None
        if not _follows(token, before):
            raise TokenError(
                "a token was not attenuated from the one before it", field=f"tokens/{place}/parent"
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


def _follows(token: SignedToken, before: SignedToken | None) -> bool:
    """Tell whether a token may stand after another one; as the first, where there is none."""
    if before is None:
        return token.payload.parent is None
    return (
        token.payload.parent == before.id
        and token.payload.issuer == before.payload.audience
        and token.payload.bank == before.payload.bank
    )


def _lists(value: Any) -> dict[str, list[str]]:
    try:
        found = msgspec.convert(value, resolved(dict[Id, list[Id]]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not lists of IDs: {error}", field="lists") from None
    for name, ids in found.items():
        if len(ids) > MOST_LISTED_IDS:
            raise LimitError(f"a list can have at most {MOST_LISTED_IDS:,} IDs", field="lists")
        if list_digest(ids) != name or ids != sorted(set(ids)):
            raise MalformedError("a list does not match its hash", field=f"lists/{name}")
    return found


def attenuated(chain: Chain, holder: SigningKey, grant: Grant, lists: Lists) -> Chain:
    """Return a chain with one more token, which the holder of the last one signs.

    Args:
        chain: What the holder has.
        holder: The key of its audience.
        grant: What the new token says; it can only narrow.
        lists: Lists that go beside it.

    Raises:
        UsageError: If it would say more than the chain allows, which it could not do anyhow.
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
    return linked((*chain.tokens, token), {**chain.lists, **lists})
