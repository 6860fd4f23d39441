"""Whose tokens count: those of the owners, and those that former owners had issued by then."""

from satchel.ledger.view import View
from satchel.memory.records import Token
from satchel.ports.rows import Filter
from satchel.seal.encoding.jcs import canonical
from satchel.seal.records import digest
from satchel.seal.tokens.chain import Chain
from satchel.seal.tokens.token import SignedToken

_TOKENS = Filter(types=frozenset({"token"}), retired=True, held=True)


def issuers(view: View, chain: Chain) -> frozenset[str]:
    """Return the keys whose word counts for the first token of a chain.

    A key that was replaced or retired issues nothing more. What it had issued stays good: that is
    seen by the place of the token in the log, since any time that a token names may be made up.
    """
    return view.authority.owners | _former(view, chain.tokens[0])


def _former(view: View, root: SignedToken) -> frozenset[str]:
    issuer = root.payload.issuer
    until = view.authority.owner_until(issuer)
    if until is None or issuer in view.authority.owners:
        return frozenset()
    for logged in view.newest(_TOKENS):
        model = logged.model
        if logged.seq < until and isinstance(model, Token) and _id_of(model) == root.id:
            return frozenset({issuer})
    return frozenset()


def _id_of(record: Token) -> str:
    return digest(canonical(dict(record.payload)))
