"""Routes about the server: health, metrics, versions, settings, and the web page."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from satchel.bank.checks import versions
from satchel.bank.connections import is_encrypted, shown_address
from satchel.bank.machine_keys import require_owner
from satchel.config.settings import Settings, Value, sections
from satchel.errors import SatchelError, shown_host, shown_place, shown_text
from satchel.http.admission import Owner, Served, routes
from satchel.http.answers import answer, problem
from satchel.http.operations import of_server, serves
from satchel.ports.operations import NoOptions, operation
from satchel.recall.models import embedder_of, server_of
from satchel.transfer.verification import FormatsRequest, list_formats

_RUNNING = "`satchel config show` prints the settings; this is about a running server."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A running server, for its settings."""

    settings: Settings
    verifier: str
    has_operator_token: bool
    bounds: Mapping[str, float]
    """The limits on requests, by name."""


class StoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The store of the server."""

    kind: str
    address: str
    """Without passwords."""

    chosen_by: str
    """Origin of the choice: a flag, a variable, the configuration file, or the default."""

    is_encrypted: bool
    requires_encryption: bool
    """Whether an unencrypted store is refused."""


class EmbedderSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The embedder, and whether it is available."""

    name: str
    """Without passwords."""

    state: Literal["ready", "configured", "not available"]
    """``configured``: a server, which was not contacted."""

    server: str | None = None
    """Kind and host of the server; None for a model on this machine."""

    is_automatic: bool
    """Whether vectors are computed automatically."""

    reranker: str | None = None
    problem: str | None = None
    hint: str | None = None


class AccessSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Access to the server, and trusted signatures."""

    operator_token: bool
    """Whether one is required; without one, every local user is the operator."""

    verifier: str
    """The key that proofs of possession are made for."""

    signing_key: str
    """Name of the key that signs for this machine."""

    threshold: int
    """Number of trusted keys that must have signed a file."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a server and its store."""

    versions: dict[str, str]
    file: str
    """The configuration file, which may not exist."""

    file_exists: bool
    notes: list[str]
    """Unknown settings in the file."""

    store: StoreSummary
    embedder: EmbedderSummary
    access: AccessSummary
    values: list[Value]
    """The settings and their origins."""

    requests: dict[str, float]
    """The limits on requests."""


@operation(
    NoOptions,
    name="server settings",
    absent=dict.fromkeys(("cli", "python", "mcp"), _RUNNING),
)
def server_settings(server: RunningServer, _: NoOptions) -> ServerSettings:
    """Show what a server and its store are configured with, as read when it was started.

    Passwords and keys are not shown.
    """
    settings = server.settings
    require_owner(settings, "serve")
    options, chosen = settings.options, settings.chosen
    return ServerSettings(
        versions=versions(),
        file=str(settings.file),
        file_exists=settings.file.exists(),
        notes=settings.notes,
        store=StoreSummary(
            kind=str(chosen.backend or "unknown"),
            address=shown_address(chosen.address),
            chosen_by=chosen.why,
            is_encrypted=is_encrypted(chosen.address),
            requires_encryption=options.store.encrypted,
        ),
        embedder=_embedder(settings),
        access=AccessSummary(
            operator_token=server.has_operator_token,
            verifier=server.verifier,
            signing_key=options.keys.name,
            threshold=options.verify.threshold,
        ),
        values=_values(settings),
        requests=dict(server.bounds),
    )


def _embedder(settings: Settings) -> EmbedderSummary:
    inference = settings.options.inference
    server = server_of(inference)
    summary = EmbedderSummary(
        name=shown_place(inference.embedder),
        state="ready" if server is None else "configured",
        server=shown_host(server) if server else None,
        is_automatic=inference.automatic,
        reranker=shown_place(inference.reranker) or None,
    )
    try:
        embedder_of(settings)
    except SatchelError as error:
        hint = None if error.hint is None else shown_text(error.hint)
        return msgspec.structs.replace(
            summary, state="not available", problem=shown_text(error.message), hint=hint
        )
    return summary


def _values(settings: Settings) -> list[Value]:
    """Return the settings of all tables that hold plain values; passwords are masked."""
    tables = sections()
    return [value for value in settings.values if value.name.partition(".")[0] in tables]


router = routes(tags=["about"])


@router.get("/healthz")
@of_server("server health")
async def healthz() -> Response:
    """Report that the process answers, whatever it is busy with."""
    return answer({"status": "ok"})


@router.get("/readyz")
@of_server("server readiness")
async def readyz(request: Request, gateway: Served) -> Response:
    """Report whether requests can be served: the store is readable, and no shutdown is in progress.

    Requires no permission: the store is checked at most once a second.
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


# These require no permission, so they must be cheap: they are built once.
_versions = cache(versions)


@cache
def _formats() -> Any:
    return list_formats.json(list_formats.run(None, FormatsRequest()))


settings_router = routes(tags=["about"])


@settings_router.get("/v1/settings")
@serves(server_settings)
def settings_route(request: Request, gateway: Served, _: Owner) -> Response:
    """Show what this server and its store are configured with. Secrets are not shown."""
    bounds = asdict(request.app.state.bounds)
    server = RunningServer(
        settings=gateway.settings,
        verifier=gateway.verifier,
        has_operator_token=gateway.has_operator_token,
        bounds={name: value for name, value in bounds.items() if isinstance(value, int | float)},
    )
    return answer(server_settings.run(server, NoOptions()))


page_router = routes(include_in_schema=False)

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOLDER = files("satchel.web")
_PAGES = {
    one.name: one.read_bytes() for one in _FOLDER.iterdir() if one.name.rpartition(".")[2] in _KINDS
}
_NOT_FOUND = 404

# The contents of memories cannot become a part of the page: no script, style or address but those
# of these files is allowed, text cannot become markup, and no other page can frame this one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


@page_router.get("/")
async def page() -> Response:
    """Return the page."""
    return _page_file("index.html")


@page_router.get("/page/{name}")
async def part(name: str) -> Response:
    """Return a file that the page is made of."""
    return _page_file(name)


def _page_file(name: str) -> Response:
    content = _PAGES.get(name)
    if content is None:
        raise HTTPException(_NOT_FOUND)
    headers = {
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
    return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)
