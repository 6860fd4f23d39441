"""What the server says of itself: whether it works, what it counted, what it speaks."""

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from satchel.actions.diagnosing import versions
from satchel.ports.registry import formats
from satchel.surfaces.http.answers import answer, problem
from satchel.surfaces.http.asking import Owner, Served

router = APIRouter(tags=["about"])


@router.get("/healthz")
async def healthz() -> Response:
    """Tell that the process answers, whatever it is busy with."""
    return answer({"status": "ok"})


@router.get("/readyz")
def readyz(request: Request, gateway: Served) -> Response:
    """Tell whether requests can be served: the store can be read, and nothing is being ended."""
    if request.app.state.ending:
        return problem(503, "ending", "the server is being ended", {"Retry-After": "1"})
    gateway.owner.satchel.list_banks()
    return answer({"status": "ready"})


@router.get("/metrics")
def metrics(request: Request, _: Owner) -> Response:
    """Return counts of requests, in Prometheus's text format."""
    return PlainTextResponse(request.app.state.counting.page())


@router.get("/v1/formats")
def list_formats() -> Response:
    """List the formats that can be read and written, with what each can hold."""
    found = [{"name": name, **msgspec.to_builtins(formats[name].info)} for name in formats]
    return answer({"formats": found})


@router.get("/v1/about")
def about(gateway: Served) -> Response:
    """Return versions, and the key that proofs of possession are made for."""
    return answer({"versions": versions(), "verifier": gateway.verifier})
