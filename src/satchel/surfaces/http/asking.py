"""Who asks: found out for each route before it does anything."""

import hmac
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from satchel.errors import PermissionRefusedError
from satchel.surfaces.http.gateway import ADMIN, PROOF, TOKEN, Caller, Gateway, asked_of
from satchel.surfaces.http.guard import is_loopback

_BEARER = "bearer "


def gateway_of(request: Request) -> Gateway:
    """Return what the server has open."""
    found = request.app.state.gateway
    assert isinstance(found, Gateway)  # noqa: S101 - whoever made the application has set it
    return found


async def caller_of(request: Request) -> Caller:
    """Return on whose behalf a request acts.

    Raises:
        PermissionRefusedError: If nothing says that it may.
        TokenError: If a token does not hold, or it is not proved to be theirs.
    """
    gateway = gateway_of(request)
    gateway.look_again()
    token = request.headers.get(TOKEN)
    if token is not None:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        action, args = asked_of(request.method, target, await request.body())
        # In a thread: what was presented is noted on disk, which takes its time.
        proof = request.headers.get(PROOF)
        return await run_in_threadpool(gateway.holder, token, proof, action, args)
    if gateway.is_admin(_admin_token(request)):
        return gateway.owner
    here = is_loopback(request.client.host if request.client else None)
    if here and not gateway.has_admin:
        return gateway.owner
    raise PermissionRefusedError(
        "say who you are: the operator's token, or a capability token with its proof",
        hint=f"Headers: Authorization: Bearer ..., or {TOKEN} and {PROOF}.",
    )


def _admin_token(request: Request) -> str | None:
    said = request.headers.get("authorization", "")
    if hmac.compare_digest(said[: len(_BEARER)].lower().encode(), _BEARER.encode()):
        return said[len(_BEARER) :].strip()
    return request.headers.get(ADMIN)


async def owner_of(caller: "Asking") -> Caller:
    """Return the owner who asks.

    Raises:
        PermissionRefusedError: If it is somebody else.
    """
    if not caller.is_owner:
        raise PermissionRefusedError("no token allows this, only the owner may do it")
    return caller


Asking = Annotated[Caller, Depends(caller_of)]
Owner = Annotated[Caller, Depends(owner_of)]
Served = Annotated[Gateway, Depends(gateway_of)]
