"""Capability tokens as people and programs are shown them."""

from typing import Any

import msgspec

from satchel.seal.encoding.jcs import canonical
from satchel.seal.tokens.chain import Chain
from satchel.seal.tokens.scope import Clause, Components, Entries, Tags
from satchel.seal.tokens.token import SignedToken


class TokenLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one token says."""

    id: str
    bank: str
    issuer: str
    audience: str | None = None
    """Who may present it; None for whoever has it."""

    permissions: list[str]
    scope: list[str]
    """In words, one for each clause; all have to hold."""

    issued_at: str
    not_before: str
    expires_at: str
    parent: str | None = None
    root_hash: str | None = None
    state: str | None = None
    """``active``, ``not yet valid``, ``expired`` or ``revoked``; None where it is unknown."""


class TokenChain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token file allows; its signatures and links are verified."""

    id: str
    """Of the last token."""

    bank: str
    audience: str | None = None
    permissions: list[str]
    """What all its tokens allow."""

    expires_at: str
    """When the first of them ends."""

    tokens: list[TokenLine]
    token: dict[str, Any]
    """The file itself, as JSON, its names in the order that the file has to have."""

    output: str | None = None
    """Where it was written."""

    @property
    def text(self) -> str:
        """The file's text, which a holder presents; not secret, but for a bearer token."""
        return canonical(self.token).decode()


def chain_told(chain: Chain, output: str | None = None) -> TokenChain:
    """Return what a chain says."""
    return TokenChain(
        id=chain.leaf.id,
        bank=chain.bank,
        audience=chain.audience,
        permissions=sorted(chain.permissions),
        expires_at=min(token.payload.expires_at for token in chain.tokens),
        tokens=[line_of(token) for token in chain.tokens],
        token=msgspec.json.decode(chain.encoded()),
        output=output,
    )


def line_of(token: SignedToken, state: str | None = None) -> TokenLine:
    """Return what a token says."""
    payload = token.payload
    return TokenLine(
        id=token.id,
        bank=payload.bank,
        issuer=payload.issuer,
        audience=payload.audience,
        permissions=[str(each) for each in payload.permissions],
        scope=[words_of(clause) for clause in payload.scope],
        issued_at=payload.issued_at,
        not_before=payload.not_before,
        expires_at=payload.expires_at,
        parent=payload.parent,
        root_hash=None if payload.binding is None else payload.binding.root_hash,
        state=state,
    )


def words_of(clause: Clause) -> str:
    """Return a clause of a scope in words."""
    if isinstance(clause, Components):
        return "type " + " or ".join(clause.components)
    if isinstance(clause, Entries):
        return f"{clause.count or len(clause.ids):,} listed entries"
    if isinstance(clause, Tags):
        parts = [("any", clause.any_of), ("all", clause.all_of), ("none", clause.none_of)]
        return "tags " + ", ".join(f"{word} of {'/'.join(tags)}" for word, tags in parts if tags)
    return "everything"
