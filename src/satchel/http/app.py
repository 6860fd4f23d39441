"""The application: routes behind the guard, errors as problems."""

import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache

import msgspec
from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from satchel.bank.checks import versions
from satchel.errors import SatchelError
from satchel.http.admission import Admission, RefusedBodyError, gateway_of
from satchel.http.answers import problem, problem_of
from satchel.http.gateway import TOKEN, Gateway
from satchel.http.guard import ClientConnections, Guard, ServerLimits
from satchel.http.metrics import RequestMetrics
from satchel.http.operations import with_examples
from satchel.http.rate_limits import RateLimiter
from satchel.http.routes import about, artifacts, backups, banks, files, jobs, memories, transfer
from satchel.mcp import has_extra

_ROUTERS = (
    about.router,
    about.settings_router,
    banks.router,
    memories.router,
    transfer.router,
    artifacts.router,
    banks.token_router,
    files.router,
    jobs.router,
    memories.context_router,
    memories.session_router,
    backups.router,
    banks.bank_router,
    memories.bulk_router,
    backups.restore_router,
    about.page_router,
)
_TITLES = {404: "not found", 405: "method not allowed"}
_LONGEST, _GONE = 200, 499
_THREADS = 8


def application(
    gateway: Gateway,
    *,
    bounds: ServerLimits | None = None,
    counting: RequestMetrics | None = None,
    rates: RateLimiter | None = None,
    connections: ClientConnections | None = None,
    only_mcp: bool = False,
) -> FastAPI:
    """Return an application that serves an open store.

    Args:
        gateway: The open store and its permissions; closed when the application ends.
        bounds: Limits on requests.
        counting: Counts and logs requests.
        rates: Limits the requests of each address; required if there are several workers.
        connections: The open connections, if known.
        only_mcp: Whether to serve MCP only.
    """
    counting, bounds = counting or RequestMetrics(), bounds or ServerLimits()
    rates = rates or RateLimiter(bounds.per_second)
    app = FastAPI(
        title="Satchel",
        version=versions()["satchel"],
        summary="Portable, verifiable memory for AI agents.",
        lifespan=_lifespan,
        docs_url=None,  # its page loads scripts from other origins
        redoc_url=None,
        openapi_url=None,  # ours is built once and cached
    )
    if connections is None:
        connections = ClientConnections(bounds.unknown)
    admission = Admission(gateway, bounds, connections)
    app.state.gateway, app.state.counting, app.state.ending = gateway, counting, False
    app.state.admission, app.state.bounds = admission, bounds
    # Add the routes themselves: including a router builds each of them again.
    for router in routers(only_mcp=only_mcp):
        app.router.routes.extend(router.routes)
    plain = app.openapi
    app.openapi = cache(lambda: with_examples(plain()))  # type: ignore[method-assign]  # as FastAPI has it
    app.add_exception_handler(SatchelError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(ClientDisconnect, _client_disconnected)
    app.add_exception_handler(RefusedBodyError, _refused_body)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(
        Guard,
        bounds=bounds,
        counting=counting,
        rates=rates,
        is_operator=admission.is_operator,
    )
    return app


def begin_shutdown(app: FastAPI) -> None:
    """Refuse new requests, and end the streams that follow jobs.

    Running requests are finished. Clients that followed a job connect to another worker, or later.
    """
    app.state.ending = True
    app.state.gateway.jobs.end_streams()


def routers(*, only_mcp: bool = False) -> Iterator[APIRouter]:
    """Yield the routers; MCP if its SDK is installed."""
    yield from (about.router,) if only_mcp else _ROUTERS
    if has_extra():
        from satchel.http.routes import mcp

        yield mcp.router


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # More threads wait for each other and not for the disk, and each request costs more.
    current_default_thread_limiter().total_tokens = _THREADS
    yield
    begin_shutdown(app)
    app.state.gateway.close()
    app.state.counting.share()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SatchelError)  # noqa: S101 - it is only called for these
    gateway = gateway_of(request)
    trusted = TOKEN not in request.headers and gateway is not None
    return problem_of(error, trusted=trusted)


async def _refused_body(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedBodyError)  # noqa: S101 - idem
    return error.response


async def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - idem
    errors = [
        {
            "field": "/".join(str(part) for part in detail["loc"])[:_LONGEST],
            "message": str(detail["msg"])[:_LONGEST],
        }
        for detail in error.errors()
    ]
    first = errors[0] if errors else {"field": "", "message": "it cannot be read"}
    return problem(400, "usage", first["message"], field=first["field"], errors=errors)


async def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - idem
    title = _TITLES.get(error.status_code, str(error.detail))
    return problem(error.status_code, f"http.{error.status_code}", title, dict(error.headers or {}))


async def _client_disconnected(_: Request, __: Exception) -> Response:
    """Return the status for a client that disconnected, for the log and the metrics."""
    return Response(status_code=_GONE)


async def _failed(request: Request, error: Exception) -> Response:
    """Respond to an unexpected error; details are logged and not returned."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    line = {
        "error": type(error).__name__,
        "where": f"{where.name}:{where.lineno}",
        "route": getattr(request.scope.get("route"), "path", None),
    }
    sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
    return problem(500, "internal", "internal error; see the server's log")
