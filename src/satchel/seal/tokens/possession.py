"""Proof that who presents a token is its audience: a request signed for one verifier, for a minute.

Source: docs/spec/6-keys-and-tokens.md, 6.6.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.errors import MalformedError, TokenError, TokenTimeError
from satchel.memory.parts import Id, Nonce, Time, check_times
from satchel.memory.records import KeyId
from satchel.seal.encoding.jcs import canonical
from satchel.seal.records import digest, shape_problem
from satchel.seal.sealing import random_nonce
from satchel.seal.signing.envelope import PayloadType, check, parse_signatures, sign
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.chain import SKEW, Chain
from satchel.seal.tokens.token import shifted
from satchel.type_info import resolved

SESSION = "session"
"""The action of a proof that counts for a whole process, which made its verifier's key itself."""

_LONGEST_ACTION = 64


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a holder signs."""

    v: Literal[1]
    action: Annotated[str, Meta(min_length=1, max_length=_LONGEST_ACTION)]
    args: Id
    """H(JCS(arguments))."""

    audience: KeyId
    """The verifier's key: what was signed for one counts at no other."""

    bank: Id
    token: Id
    """Of the last token of the chain."""

    at: Time
    nonce: Nonce

    def __post_init__(self) -> None:
        check_times(self, ("at",))


def request_of(method: str, target: str, body: str) -> tuple[str, dict[str, str]]:
    """Return the action and arguments that a proof for a request over HTTP is made for.

    Args:
        method: Such as ``POST``.
        target: The path with its query, as it is sent.
        body: The BLAKE3 of the body, in hex; that of no bytes where there is none.
    """
    return f"http {method.upper()}", {"target": target, "body": body}


def prove(
    chain: Chain, holder: SigningKey, verifier: str, at: str, asked: tuple[str, Any] = (SESSION, {})
) -> dict[str, Any]:
    """Return the proof that a holder sends along, as JSON.

    Args:
        chain: What is presented.
        holder: The key of its audience.
        verifier: The key of whoever is asked.
        at: Now.
        asked: The action, and its arguments.
    """
    action, args = asked
    said = {
        "v": 1,
        "action": action,
        "args": digest(canonical(args)),
        "audience": verifier,
        "bank": chain.bank,
        "token": chain.leaf.id,
        "at": at,
        "nonce": random_nonce(),
    }
    signatures = sign(PayloadType.REQUEST, said, [holder])
    return {"payload": said, "signatures": msgspec.to_builtins(signatures)}


def require_possession(
    chain: Chain,
    proof: Any,
    verifier: str,
    moment: str,
    asked: tuple[str, Any] = (SESSION, {}),
) -> Request:
    """Require that a proof was made by the audience of a chain, for this very request, just now.

    Whoever takes requests from elsewhere keeps the nonces of writes, in the transaction of each
    write, for as long as a proof counts.

    Args:
        chain: What is presented; one without an audience needs no proof.
        proof: As ``prove`` returns it, from a strict reader.
        verifier: The verifier's own key.
        moment: Now.
        asked: The action, and its arguments.

    Raises:
        MalformedError: If the proof has another shape.
        TokenError: If it does not hold.
        TokenTimeError: If it is too old, or from the future.
    """
    action, args = asked
    found = proved_request(chain, proof, verifier, moment, action)
    require_arguments(found, args)
    return found


def proved_request(chain: Chain, proof: Any, verifier: str, moment: str, action: str) -> Request:
    """Do what ``require_possession`` does, but for the arguments, which may not be here yet.

    What costs least is looked at first, and the signature last.
    """
    if not isinstance(proof, dict) or proof.keys() != {"payload", "signatures"}:
        raise MalformedError("a proof has a payload and signatures", field="request")
    try:
        found = msgspec.convert(proof["payload"], resolved(Request))
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise MalformedError(f"not a proof of possession: {problem}", field=field) from None
    expected = verifier, chain.bank, chain.leaf.id
    if (found.audience, found.bank, found.token) != expected or found.action != action:
        raise TokenError("the proof of possession is for another request", field="request")
    if not shifted(moment, -SKEW) <= found.at <= shifted(moment, SKEW):
        raise TokenTimeError("the proof of possession has expired", field="at")
    signatures = parse_signatures(proof["signatures"], 1)
    if [signature.key for signature in signatures] != [chain.audience]:
        raise TokenError("the proof of possession is not signed by the audience", field="audience")
    if not check(PayloadType.REQUEST, proof["payload"], signatures)[0].valid:
        raise TokenError("the signature of the proof is not valid", field="request")
    return found


def require_arguments(request: Request, args: Any) -> None:
    """Require that a request was signed for these arguments.

    Raises:
        TokenError: If it was signed for others.
    """
    if request.args != digest(canonical(args)):
        raise TokenError("the proof of possession is for other arguments", field="args")
