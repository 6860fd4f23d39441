"""Routes of memories, rehydration, quarantine and sessions."""

from functools import partial
from typing import Annotated

from fastapi import Header, Response

from satchel.agents.imports import undo
from satchel.bank import operations
from satchel.bank.listings import log
from satchel.bank.operations import RememberOptions, UpdateOptions
from satchel.erasure.erase import erase
from satchel.erasure.prune import moment_of, prune_memories
from satchel.erasure.redaction import redact
from satchel.errors import RetiredMemoryError, UsageError
from satchel.http.admission import AnyCaller, BodyKind, Owner, Served, routes, takes
from satchel.http.answers import answer
from satchel.http.operations import add_job, add_route, body, first_on_bank, query, serves
from satchel.recall.duplicates import duplicates
from satchel.recall.search import recall_in
from satchel.recall.vector_updates import EmbedOptions, embed_bank
from satchel.rehydrate import operations as rehydrate_operations
from satchel.rehydrate import quarantine
from satchel.sessions import branches, distillation
from satchel.sessions import queries as sessions_queries
from satchel.sessions import record as session_operations
from satchel.transfer.comparison import DiffOptions, diff
from satchel.transfer.import_operations import list_imports

router = routes(prefix="/v1/banks/{bank}", tags=["entries"])

_add = partial(add_route, router, caller=AnyCaller)
_add("GET", "/entries", operations.list_memories)
_add("GET", "/entries/{entry}/history", operations.history, memory="entry")
_add("GET", "/entries/{entry}/links", operations.links, memory="entry")
_add("GET", "/entries/{entry}/path", operations.path, start="entry", end="to")
_add("GET", "/graph", operations.graph)
_add("GET", "/log", log, caller=Owner)
_add(
    "POST", "/entries/{entry}/correct", operations.correct, body_size=BodyKind.TEXT, memory="entry"
)
_add("DELETE", "/entries/{entry}", operations.forget, run=first_on_bank, memories="entry")
_add("POST", "/entries/{entry}/restore", operations.restore, run=first_on_bank, memories="entry")
_add("POST", "/recall", recall_in)

IfMatch = Annotated[str | None, Header(alias="If-Match")]


@router.post("/entries", status_code=201)
@takes(BodyKind.TEXT)
def remember(
    bank: str, options: Annotated[RememberOptions, body(operations.remember)], caller: AnyCaller
) -> Response:
    """Store a memory. It is durable when the response is sent."""
    made = caller.run(bank, operations.remember, options)
    where = {"Location": f"/v1/banks/{bank}/entries/{made.id}"}
    return answer(made, 201 if made.is_new else 200, where)


@router.get("/entries/{entry}")
@serves(operations.show)
def show(bank: str, entry: str, caller: AnyCaller) -> Response:
    """Show a memory. Its ETag is its ID."""
    found = caller.bank(bank).show(entry)
    return answer(found, headers={"ETag": f'"{found.record["id"]}"'})


@router.get("/entries/{entry}/raw")
@serves(operations.raw)
def raw(bank: str, entry: str, caller: AnyCaller) -> Response:
    """Return the canonical bytes of a record; its ID is their hash."""
    return Response(caller.bank(bank).raw(entry), media_type="application/json")


@router.get("/diff")
def compare_banks(
    bank: str,
    options: Annotated[
        DiffOptions, query(diff, a="bank", b="other", a_as_of="as_of", b_as_of="other_as_of")
    ],
    caller: Owner,
    gateway: Served,
) -> Response:
    """Compare a bank with another one, or with an earlier state of itself."""
    del bank, caller
    return answer(diff.run(gateway.settings, options, banks_only=True))


@router.patch("/entries/{entry}")
@takes(BodyKind.TEXT)
def update(
    bank: str,
    entry: str,
    options: Annotated[UpdateOptions, body(operations.update, memory="entry")],
    caller: AnyCaller,
    if_match: IfMatch = None,
) -> Response:
    """Store a new version of a memory; with ``If-Match``, only if that version is current."""
    _require_same(entry, if_match)
    return answer(caller.run(bank, operations.update, options))


def _require_same(entry: str, if_match: str | None) -> None:
    """Require that a change is of the version in ``If-Match``."""
    if if_match is not None and if_match.strip().strip('"') not in ("*", entry):
        raise RetiredMemoryError("the memory has a newer version than the one you saw")


bulk_router = routes(prefix="/v1/banks/{bank}", tags=["upkeep"])

_LOCAL = (None, "static", "static-idf", "minilm")


def _require_local(options: EmbedOptions) -> None:
    """Refuse a model on another machine."""
    if options.model not in _LOCAL:
        raise UsageError(
            "remote models, which cost money, are configured by the operator",
            field="model",
            hint="Choose from: static, static-idf, minilm.",
        )


add_job(bulk_router, "/embed", embed_bank, check=_require_local)
add_route(bulk_router, "GET", "/duplicates", duplicates, caller=AnyCaller)
add_job(bulk_router, "/erase", erase)
add_job(bulk_router, "/redact", redact)
add_job(
    bulk_router,
    "/prune",
    prune_memories,
    check=lambda options: moment_of(options.superseded_before),
)
add_route(bulk_router, "GET", "/imports", list_imports)
add_route(bulk_router, "POST", "/undo", undo)


context_router = routes(prefix="/v1/banks/{bank}", tags=["rehydrate"])

_add_context = partial(add_route, context_router)
_add_context(
    "POST",
    "/rehydrate",
    rehydrate_operations.rehydrate_memories,
    caller=AnyCaller,
    body_size=BodyKind.TEXT,
)
_add_context("GET", "/quarantine", quarantine.list_quarantine)
_add_context("GET", "/quarantine/{memory}", quarantine.show_held)
_add_context("POST", "/quarantine/scan", quarantine.screen_bank)
_add_context("POST", "/quarantine/add", quarantine.quarantine)
_add_context("POST", "/quarantine/release", quarantine.release)
_add_context("POST", "/quarantine/reject", quarantine.reject)
_add_context("POST", "/promote", quarantine.promote)


session_router = routes(prefix="/v1/banks/{bank}/sessions", tags=["sessions"])

_add_session = partial(add_route, session_router)
_add_session("GET", "", sessions_queries.list_sessions)
_add_session("POST", "", session_operations.record_session, status=201, body_size=BodyKind.TEXT)
_add_session("GET", "/{session}", sessions_queries.show_session)
_add_session("PATCH", "/{session}", branches.rename_session)
_add_session("POST", "/{session}/archive", branches.archive_session)
_add_session("PATCH", "/{session}/state", session_operations.set_state, body_size=BodyKind.TEXT)
_add_session("POST", "/{session}/distill", distillation.distill)
_add_session(
    "POST",
    "/{session}/messages",
    session_operations.record_session,
    status=201,
    body_size=BodyKind.TEXT,
)
_add_session("GET", "/{session}/checkpoints", sessions_queries.list_checkpoints)
_add_session("POST", "/{session}/checkpoints", branches.create_checkpoint, status=201)
_add_session("POST", "/{session}/fork", branches.fork, status=201)
_add_session("GET", "/{session}/diff", sessions_queries.diff_sessions)
