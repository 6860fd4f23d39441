"""Keys, banks and tokens that are the same in every run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bank_kit import owner

from satchel.bank.open_bank import OpenBank
from satchel.bank.permissions import Bearer
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import PayloadType, SigningKey, sign
from satchel.crypto.sealed_records import digest
from satchel.crypto.token_chain import Chain, TokenContext, attenuate, link_tokens
from satchel.crypto.tokens import Clause, Components, Grant, Wildcard, issue, shift_time
from satchel.ledger.scope import VerifiedChain
from satchel.model.values import now

NOW = "2026-03-01T12:00:00.000000Z"
BANK, OTHER_BANK = "blake3:" + "11" * 32, "blake3:" + "22" * 32


def key_of(number: int) -> SigningKey:
    """Return a key that is the same in every run."""
    return SigningKey.from_seed(bytes([number]) * 32)


OWNER, HOLDER, SECOND, OUTSIDER = (key_of(number) for number in (1, 2, 3, 4))


def later(hours: float = 0, *, seconds: float = 0, since: str = NOW) -> str:
    """Return a time after the start time of the tests."""
    return shift_time(since, timedelta(hours=hours, seconds=seconds))


def grant(*scope: Clause, **members: Any) -> Grant:
    """Return the content of a token that may read everything for an hour, with changes."""
    usual = {
        "scope": scope or (Wildcard(),),
        "permissions": ["read"],
        "issued_at": NOW,
        "expires_at": later(1),
        "audience": HOLDER.did,
    }
    return Grant(**usual | members)


def chain_of(*scope: Clause, bank: str = BANK, owner: SigningKey = OWNER, **members: Any) -> Chain:
    """Return a chain of one token."""
    return link_tokens((issue(bank, owner, grant(*scope, **members)),), {})


def child_of(chain: Chain, *scope: Clause, key: SigningKey = HOLDER, **members: Any) -> Chain:
    """Return a chain with one more token, for the next holder."""
    return attenuate(chain, key, grant(*scope, **{"audience": SECOND.did} | members), {})


def around(**members: Any) -> TokenContext:
    """Return a verification context in which a token of the owner is valid."""
    return TokenContext(**{"bank": BANK, "owners": {OWNER.did}, "moment": NOW} | members)


def signed_anyhow(payload: dict[str, Any], key: SigningKey) -> dict[str, Any]:
    """Return an envelope around any payload, as another program could create it."""
    (signature,) = sign(PayloadType.TOKEN, payload, [key])
    return {
        "payload": payload,
        "signatures": [{"key": signature.key, "sig": signature.sig}],
    }


def id_of(payload: dict[str, Any]) -> str:
    """Return the ID of any payload."""
    return digest(canonical(payload))


SEMANTIC = Components(components=("semantic",))  # type: ignore[arg-type]  # a plain word will do
WORKING = Components(components=("working",))  # type: ignore[arg-type]


def held(bank: OpenBank, chain: Chain, clock: Callable[[], str] = now) -> OpenBank:
    """Return an open bank for the holder of a chain, whose possession is proved."""
    bearer = Bearer(VerifiedChain(chain, clock=clock))
    return replace(bank, ledger=bearer.unasked(bank.ledger), bearer=bearer)


def may(bank: OpenBank, *scope: Clause, allow: Sequence[str] = ("read",)) -> OpenBank:
    """Return an open bank for the holder of a token that its owner issued now."""
    at = now()
    chain = chain_of(
        *scope,
        bank=bank.id,
        owner=owner(),
        permissions=list(allow),
        issued_at=at,
        expires_at=later(1, since=at),
    )
    return held(bank, chain)
