"""The tokens of a bank: listed, revoked, and a signed list of those that are revoked."""

from pathlib import Path

import msgspec

from satchel.actions.opened import OpenBank
from satchel.actions.permitted.bearer import read_chain
from satchel.actions.permitted.owning import require_owner
from satchel.actions.tokens.issuing import moment, require_owner_key
from satchel.actions.tokens.told import TokenLine, line_of
from satchel.disk.writing import writing
from satchel.errors import MalformedError, UsageError
from satchel.ledger.authority import revoking
from satchel.ledger.view import View
from satchel.memory.parts import is_whole_id
from satchel.memory.records import Token
from satchel.memory.times import now
from satchel.ports.rows import Filter
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.revocations import signed_list
from satchel.seal.tokens.token import SignedToken, is_signed, parse_token

MOST = 10_000
"""Tokens of one listing."""

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


def list_tokens(bank: OpenBank, *, everything: bool = False, limit: int = 100) -> Tokens:
    """Return the tokens that owners issued, as the bank's log has them.

    Args:
        bank: The bank.
        everything: Also those that ended or were revoked.
        limit: How many at most.

    Raises:
        UsageError: If the limit is out of range.
    """
    require_owner(bank.settings, "tokens")
    if not 1 <= limit <= MOST:
        raise UsageError(f"from 1 to {MOST:,} tokens can be listed", field="limit")
    found, seen, moment_ = list[TokenLine](), set[str](), now()
    with bank.ledger.reading() as view:
        for token, seq in _issued(view):
            state = _state(token, seq, view, moment_)
            if everything or state in ("active", "not begun"):
                found.append(line_of(token, state))
                seen.add(token.id)
                if len(found) == limit:
                    break
        revoked = view.authority.revoked
    return Tokens(tokens=found, revoked=sorted(revoked - seen) if everything else [])


def revoke_token(
    bank: OpenBank, wanted: str, owner: SigningKey, *, reason: str | None = None
) -> Revoked:
    """Revoke a token, and with it all that were made from it; every machine sees it in the log.

    Args:
        bank: The bank, open for writing.
        wanted: Its id; the first six digits or more of one that was issued here; or its file, of
            which the last token is meant.
        owner: The owner's key.
        reason: For whoever reads the log.

    Raises:
        UsageError: If no token is meant.
        SigningKeyError: If the key is not that of an owner.
        TokenError: If the file is of another bank.
    """
    require_owner(bank.settings, "tokens")
    with bank.ledger.reading() as view:
        require_owner_key(view, owner)
        token = _meant(view, wanted)
        if token in view.authority.revoked:
            return Revoked(id=token, bank=bank.id, is_new=False)
    bank.ledger.append([revoking(bank.id, token, owner, now(), reason)])
    return Revoked(id=token, bank=bank.id, is_new=True)


def write_revocations(
    bank: OpenBank,
    output: Path,
    owner: SigningKey,
    *,
    expires: str = "7d",
    overwrite: bool = False,
) -> RevocationsWritten:
    """Write a signed list of the revoked tokens of a bank, for verifiers that do not have its log.

    Args:
        bank: The bank.
        output: The file.
        owner: The owner's key.
        expires: Until when it counts: a moment, or ``12h``, ``7d``, ``2w``; 90 days at most.
        overwrite: Whether a file that is there is replaced.

    Raises:
        SigningKeyError: If the key is not that of an owner.
        UsageError: If it cannot count for so long.
        TargetError: If it cannot be written.
    """
    require_owner(bank.settings, "tokens")
    with bank.ledger.reading() as view:
        require_owner_key(view, owner)
        number, tokens = view.head.size, view.authority.revoked | _of_revoked_keys(view)
    at = now()
    until = moment(expires, at, "expires")
    data = signed_list(bank.id, owner, number, tokens, (at, until))
    with writing(output, overwrite=overwrite) as stream:
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
        return "ended"
    return "not begun" if token.payload.not_before > at else "active"


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
            "no token of this bank, and no file",
            field="token",
            hint="See: satchel token list --all.",
        )
    chain = read_chain(wanted)
    if chain.bank != view.head.bank:
        raise UsageError("the token is for another bank", field="token")
    return chain.leaf.id
