"""Capability tokens of a bank: issued, listed, revoked, judged."""

from typing import Any

from fastapi import Response

from satchel.actions.tokens.issuing import audience_from_elsewhere
from satchel.seal.encoding.jcs import canonical
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner
from satchel.surfaces.http.bodies import NewToken, Reason, TokenText

_PREFIX = "blake3:"

router = routes(prefix="/v1/banks/{bank}/tokens", tags=["tokens"])


@router.post("", status_code=201)
def issue(bank: str, body: NewToken, caller: Owner) -> Response:
    """Sign a token as an owner of the bank, and note it in the log."""
    said = body.said()
    if body.audience is not None:
        said["audience"] = audience_from_elsewhere(caller.settings, body.audience)
    return answer(caller.bank(bank).tokens.issue(**said), 201)


@router.get("")
def list_tokens(bank: str, caller: Owner, everything: bool = False) -> Response:
    """List the tokens that were issued, the newest first."""
    return answer(caller.bank(bank).tokens.list(everything=everything))


@router.post("/verify")
def verify(bank: str, body: TokenText, caller: Owner) -> Response:
    """Tell whether a token holds now."""
    return answer(caller.bank(bank).tokens.verify(_json(body.token)))


@router.post("/{token}/revoke")
def revoke(bank: str, token: str, body: Reason, caller: Owner) -> Response:
    """End a token, and with it all that were made from it."""
    wanted = f"{_PREFIX}{token.removeprefix(_PREFIX)}"  # else it might name a file
    return answer(caller.bank(bank).tokens.revoke(wanted, reason=body.reason))


def _json(token: str | dict[str, Any]) -> str:
    """Return a token's JSON: a name of a file here would be a path from elsewhere."""
    if isinstance(token, dict):
        return canonical(token).decode()
    text = token
    return text if text.lstrip().startswith("{") else "{" + text
