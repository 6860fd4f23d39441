"""Capability tokens of a bank: issued, listed, revoked, judged."""

from dataclasses import replace
from typing import Annotated

from fastapi import Response

from satchel.api.operations import run_on
from satchel.bank.token_operations import (
    audience_from_elsewhere,
    issue_token,
    list_tokens,
    revoke_token,
)
from satchel.bank.tokens import (
    TokenIssueOptions,
    TokenRevokeOptions,
    TokenVerifyOptions,
    verify_token,
)
from satchel.http.admission import Owner, routes
from satchel.http.answers import answer
from satchel.http.bank_routes import add_route
from satchel.http.operations import body

_PREFIX = "blake3:"
_IN_PATH = {"token": "token"}

router = routes(prefix="/v1/banks/{bank}/tokens", tags=["tokens"])

add_route(router, "GET", "", list_tokens)


@router.post("", status_code=201)
def issue(
    bank: str, options: Annotated[TokenIssueOptions, body(issue_token)], caller: Owner
) -> Response:
    """Issue a token as an owner of the bank, and record it in its log."""
    if options.audience is not None:
        known = audience_from_elsewhere(caller.settings, options.audience)
        options = replace(options, audience=known)
    return answer(run_on(caller.bank(bank).tokens, issue_token, options), 201)


@router.post("/verify")
def verify(
    bank: str, options: Annotated[TokenVerifyOptions, body(verify_token)], caller: Owner
) -> Response:
    """Verify a token: its signatures, issuer and times, and that it is not revoked."""
    options = replace(options, token=_json(str(options.token)))
    return answer(run_on(caller.bank(bank).tokens, verify_token, options))


@router.post("/{token}/revoke")
def revoke(
    bank: str,
    options: Annotated[TokenRevokeOptions, body(revoke_token, **_IN_PATH)],
    caller: Owner,
) -> Response:
    """Revoke a token, and with it every token that was made from it."""
    wanted = f"{_PREFIX}{str(options.token).removeprefix(_PREFIX)}"  # else it might name a file
    options = replace(options, token=wanted)
    return answer(run_on(caller.bank(bank).tokens, revoke_token, options))


def _json(token: str) -> str:
    """Return a token's JSON: the name of a file here would be a path from elsewhere."""
    return token if token.lstrip().startswith("{") else "{" + token
