"""The tokens of a bank: listed, revoked, and a signed list of those that are revoked."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from satchel.actions.opened import OpenBank
from satchel.actions.permitted.bearer import read_chain
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import signer_of
from satchel.actions.tokens.issuing import moment, require_owner_key
from satchel.actions.tokens.options import (
    NOT_FOR_MODELS,
    TokenListOptions,
    TokenRevocationsOptions,
    TokenRevokeOptions,
)
from satchel.actions.tokens.told import TokenLine, line_of
from satchel.disk.writing import writing
from satchel.errors import MalformedError, UsageError
from satchel.ledger.authority import revoking
from satchel.ledger.view import View
from satchel.memory.parts import is_whole_id
from satchel.memory.records import Token
from satchel.memory.times import now
from satchel.ports.operations import operation
from satchel.ports.rows import Filter
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.revocations import signed_list
from satchel.seal.tokens.token import SignedToken, is_signed, parse_token

_TOKENS = Filter(types=frozenset({"token"}))
_LEAST_DIGITS, _PREFIX = 6, "blake3:"


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a bank, the newest first."""

    tokens: list[TokenLine]
    revoked: list[str] = []
    """Ids of revoked tokens that are not in the listing: those that holders made, for example."""


class Revoked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a token that was to be revoked."""

    id: str
    bank: str
    is_new: bool
    """False where it was revoked already."""


class RevocationsWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A signed list of revoked tokens."""

    bank: str
    output: str
    number: int
    """Higher in each later list."""

    tokens: int
    expires_at: str


@operation(
    TokenListOptions,
    name="token list",
    example="satchel token list --all",
    absent=NOT_FOR_MODELS,
)
def list_tokens(bank: OpenBank, options: TokenListOptions) -> Tokens:
    """List the tokens that were issued for a bank, newest first.

    Args:
        bank: The bank.
        options: Which tokens.
    """
    require_owner(bank.settings, "tokens")
    found, seen, moment_ = list[TokenLine](), set[str](), now()
    with bank.ledger.reading() as view:
        for token, seq in _issued(view):
            state = _state(token, seq, view, moment_)
            if options.all or state in ("active", "not yet valid"):
                found.append(line_of(token, state))
                seen.add(token.id)
                if len(found) == options.limit:
                    break
        revoked = view.authority.revoked
    return Tokens(tokens=found, revoked=sorted(revoked - seen) if options.all else [])


@operation(
    TokenRevokeOptions,
    name="token revoke",
    example='satchel token revoke specialist.token --reason "the work is done"',
    absent=NOT_FOR_MODELS,
)
def revoke_token(
    bank: OpenBank,
    options: TokenRevokeOptions,
    *,
    owner: Callable[[], SigningKey] | None = None,
) -> Revoked:
    """Revoke a token, and with it every token that was made from it.

    Args:
        bank: The bank, open for writing.
        options: Which token. Of a file the last token is meant.
        owner: Returns the owner's key.

    Raises:
        UsageError: If there is no such token.
        SigningKeyError: If the key is not that of an owner.
        TokenError: If the file is of another bank.
    """
    require_owner(bank.settings, "tokens")
    key = signer_of(bank.settings, options, owner)
    with bank.ledger.reading() as view:
        require_owner_key(view, key)
        token = _meant(view, str(options.token))
        if token in view.authority.revoked:
            return Revoked(id=token, bank=bank.id, is_new=False)
    bank.ledger.append([revoking(bank.id, token, key, now(), options.reason)])
    return Revoked(id=token, bank=bank.id, is_new=True)


@operation(
    TokenRevocationsOptions,
    name="token revocations",
    example="satchel token revocations --output revoked.json --expires 7d",
    absent={**NOT_FOR_MODELS, "http": "It writes a file."},
)
def write_revocations(
    bank: OpenBank,
    options: TokenRevocationsOptions,
    *,
    owner: Callable[[], SigningKey] | None = None,
) -> RevocationsWritten:
    """Write a signed list of a bank's revoked tokens, for verifiers without its log.

    Each list has a higher number than those before; a verifier that has seen a newer one refuses an
    older one.

    Args:
        bank: The bank.
        options: Where to, and how long the list is valid.
        owner: Returns the owner's key.

    Raises:
        SigningKeyError: If the key is not that of an owner.
        UsageError: If it would be valid for too long.
        TargetError: If it cannot be written.
    """
    require_owner(bank.settings, "tokens")
    key = signer_of(bank.settings, options, owner)
    with bank.ledger.reading() as view:
        require_owner_key(view, key)
        number, tokens = view.head.size, view.authority.revoked | _of_revoked_keys(view)
    at, output = now(), Path(options.output)
    until = moment(options.expires, at, "expires")
    data = signed_list(bank.id, key, number, tokens, (at, until))
    with writing(output, overwrite=options.overwrite) as stream:
        stream.write(data)
    return RevocationsWritten(
        bank=bank.id, output=str(output), number=number, tokens=len(tokens), expires_at=until
    )


def _issued(view: View) -> list[tuple[SignedToken, int]]:
    """Return the tokens in the log that are what they say they are, the newest first."""
    found = list[tuple[SignedToken, int]]()
    for logged in view.newest(_TOKENS):
        model = logged.model
        if isinstance(model, Token):
            value = {"payload": model.payload, "signatures": [dict(s) for s in model.signatures]}
            try:
                token = parse_token(value)
            except MalformedError:  # what a later version wrote has no meaning here
                continue
            if token.payload.bank == view.head.bank and is_signed(token):
                found.append((token, logged.seq))
    return found


def _of_revoked_keys(view: View) -> set[str]:
    """Return the tokens that are worth nothing because the key of their issuer was revoked."""
    revoked = view.authority.revoked_keys
    return {token.id for token, _ in _issued(view) if token.payload.issuer in revoked}


def _state(token: SignedToken, seq: int, view: View, at: str) -> str:
    authority, issuer = view.authority, token.payload.issuer
    until = authority.owner_until(issuer)
    is_issued = issuer in authority.owners or (until is not None and seq < until)
    if token.id in authority.revoked or not is_issued:
        return "revoked"
    if token.payload.expires_at <= at:
        return "expired"
    return "not yet valid" if token.payload.not_before > at else "active"


def _meant(view: View, wanted: str) -> str:
    if is_whole_id(wanted):
        return wanted
    digits = wanted.removeprefix(_PREFIX)
    if len(digits) >= _LEAST_DIGITS:
        there = [token.id for token, _ in _issued(view) if token.id.startswith(_PREFIX + digits)]
        if len(there) == 1:
            return there[0]
        if there:
            raise UsageError(f"several tokens start with {wanted!r}", field="token")
    is_file = not wanted.startswith(_PREFIX) and Path(wanted).is_file()
    if not wanted.lstrip().startswith("{") and not is_file:
        raise UsageError(
            "no token of this bank has this ID, and no such file exists",
            field="token",
            hint="See: satchel token list --all.",
        )
    chain = read_chain(wanted)
    if chain.bank != view.head.bank:
        raise UsageError("the token is for another bank", field="token")
    return chain.leaf.id
