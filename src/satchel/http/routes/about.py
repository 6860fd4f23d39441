"""What the server says of itself: whether it works, what it counted, what it speaks."""

from functools import cache
from typing import Any

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from satchel.bank.checks import versions
from satchel.http.admission import Owner, Served, routes
from satchel.http.answers import answer, problem
from satchel.http.operations import of_server, serves
from satchel.transfer.verification import FormatsRequest, list_formats

router = routes(tags=["about"])


@router.get("/healthz")
@of_server("server health")
async def healthz() -> Response:
    """Report that the process answers, whatever it is busy with."""
    return answer({"status": "ok"})


@router.get("/readyz")
@of_server("server readiness")
async def readyz(request: Request, gateway: Served) -> Response:
    """Report whether requests can be served: the store can be read, and nothing is being ended.

    Anybody may ask: the store is looked at once a second at most, whoever does.
    """
    if request.app.state.ending:
        return problem(503, "ending", "the server is shutting down", {"Retry-After": "1"})
    await gateway.require_readable()
    return answer({"status": "ready"})


@router.get("/metrics")
@of_server("server metrics")
def metrics(request: Request, _: Owner) -> Response:
    """Return counts of requests, in Prometheus's text format."""
    return PlainTextResponse(request.app.state.counting.page())


@router.get("/v1/formats")
@serves(list_formats)
async def formats() -> Response:
    """List the formats that can be read and written, with what each can hold."""
    return answer(_formats())


@router.get("/v1/about")
@of_server("server about")
async def about(gateway: Served) -> Response:
    """Return versions, and the key that proofs of possession are made for."""
    return answer({"versions": _versions(), "verifier": gateway.verifier})


@router.get("/v1/openapi.json", include_in_schema=False)
async def document(request: Request) -> Response:
    """Return the OpenAPI document of this server."""
    return answer(request.app.openapi())


# Whoever asks for these need not say who they are, so they cost nothing: they are made once.
_versions = cache(versions)


@cache
def _formats() -> Any:
    return list_formats.json(list_formats.run(None, FormatsRequest()))
