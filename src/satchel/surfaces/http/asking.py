"""Who asks, for each route: found out before it does anything, by ``satchel...http.admission``."""

from typing import Annotated

from fastapi import Depends, Request

from satchel.surfaces.http.admission import caller_of, owner_of
from satchel.surfaces.http.gateway import Caller, Gateway


def gateway_of(request: Request) -> Gateway:
    """Return what the server has open."""
    found = request.app.state.gateway
    assert isinstance(found, Gateway)  # noqa: S101 - whoever made the application has set it
    return found


Asking = Annotated[Caller, Depends(caller_of)]
Owner = Annotated[Caller, Depends(owner_of)]
Served = Annotated[Gateway, Depends(gateway_of)]
