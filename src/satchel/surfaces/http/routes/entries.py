"""Memories of a bank: kept, listed, recalled, changed, forgotten."""

from typing import Annotated

from fastapi import Header, Response

from satchel.actions.log import LogOptions, log
from satchel.actions.memories import operations
from satchel.actions.memories.operations import (
    ForgetOptions,
    GraphOptions,
    HistoryOptions,
    LinksOptions,
    ListOptions,
    PathOptions,
    RememberOptions,
    UpdateOptions,
)
from satchel.actions.moving.comparing import DiffOptions, diff
from satchel.actions.recall import RecallOptions, recall_in
from satchel.errors import RetiredMemoryError
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner, Served
from satchel.surfaces.http.operations import body, query, serves

router = routes(prefix="/v1/banks/{bank}", tags=["entries"])

IfMatch = Annotated[str | None, Header(alias="If-Match")]


@router.post("/entries", status_code=201)
@takes(Takes.TEXT)
def remember(
    bank: str, options: Annotated[RememberOptions, body(operations.remember)], caller: Asking
) -> Response:
    """Store a memory; it is durable when this is answered."""
    made = caller.run(bank, operations.remember, options)
    where = {"Location": f"/v1/banks/{bank}/entries/{made.id}"}
    return answer(made, 201 if made.is_new else 200, where)


@router.get("/entries")
def list_entries(
    bank: str, options: Annotated[ListOptions, query(operations.list_memories)], caller: Asking
) -> Response:
    """List memories, newest first; ``next`` is the value of ``after`` for the next page."""
    return answer(caller.run(bank, operations.list_memories, options))


@router.get("/entries/{entry}")
@serves(operations.show)
def show(bank: str, entry: str, caller: Asking) -> Response:
    """Show a memory; its ETag is its id."""
    found = caller.bank(bank).show(entry)
    return answer(found, headers={"ETag": f'"{found.record["id"]}"'})


@router.get("/entries/{entry}/raw")
@serves(operations.raw)
def raw(bank: str, entry: str, caller: Asking) -> Response:
    """Return the canonical bytes of a record, which its id is the hash of."""
    return Response(caller.bank(bank).raw(entry), media_type="application/json")


@router.get("/entries/{entry}/history")
def history(
    bank: str,
    options: Annotated[HistoryOptions, query(operations.history, memory="entry")],
    caller: Asking,
) -> Response:
    """Show the versions of a memory, oldest first."""
    return answer(caller.run(bank, operations.history, options))


@router.get("/entries/{entry}/links")
def links(
    bank: str,
    options: Annotated[LinksOptions, query(operations.links, memory="entry")],
    caller: Asking,
) -> Response:
    """Show what a memory is linked to."""
    return answer(caller.run(bank, operations.links, options))


@router.get("/graph")
def graph(
    bank: str, options: Annotated[GraphOptions, query(operations.graph)], caller: Asking
) -> Response:
    """Return the memories of a bank and the links between them, as nodes and edges."""
    return answer(caller.run(bank, operations.graph, options))


@router.get("/log")
def list_log(bank: str, options: Annotated[LogOptions, query(log)], caller: Owner) -> Response:
    """List the entries of a bank's log, each verified, with its proof."""
    return answer(caller.run(bank, log, options))


@router.get("/diff")
def compare_banks(
    bank: str,
    options: Annotated[
        DiffOptions, query(diff, a="bank", b="other", a_as_of="as_of", b_as_of="other_as_of")
    ],
    caller: Owner,
    gateway: Served,
) -> Response:
    """Compare a bank with another one, or with itself at another moment."""
    del bank, caller
    return answer(diff.run(gateway.settings, options, banks_only=True))


@router.get("/entries/{entry}/path")
def path(
    bank: str,
    options: Annotated[PathOptions, query(operations.path, start="entry", end="to")],
    caller: Asking,
) -> Response:
    """Show how two memories are connected: the shortest paths between them."""
    return answer(caller.run(bank, operations.path, options))


@router.patch("/entries/{entry}")
@takes(Takes.TEXT)
def update(
    bank: str,
    entry: str,
    options: Annotated[UpdateOptions, body(operations.update, memory="entry")],
    caller: Asking,
    if_match: IfMatch = None,
) -> Response:
    """Store a new version of a memory; with ``If-Match``, only if it is still that one."""
    _require_same(entry, if_match)
    return answer(caller.run(bank, operations.update, options))


@router.post("/entries/{entry}/correct")
@takes(Takes.TEXT)
def correct(
    bank: str,
    options: Annotated[UpdateOptions, body(operations.correct, memory="entry")],
    caller: Asking,
) -> Response:
    """Correct a memory that was wrong."""
    return answer(caller.run(bank, operations.correct, options))


@router.delete("/entries/{entry}")
def forget(
    bank: str,
    options: Annotated[ForgetOptions, query(operations.forget, memories="entry")],
    caller: Asking,
) -> Response:
    """Forget a memory; its text stays in the log."""
    return answer(caller.run(bank, operations.forget, options)[0])


@router.post("/entries/{entry}/restore")
def restore(
    bank: str,
    options: Annotated[ForgetOptions, body(operations.restore, memories="entry")],
    caller: Asking,
) -> Response:
    """Restore a memory that was forgotten."""
    return answer(caller.run(bank, operations.restore, options)[0])


@router.post("/recall")
def recall(
    bank: str, options: Annotated[RecallOptions, body(recall_in)], caller: Asking
) -> Response:
    """Search memories. Results are ranked, best first, and each is verified."""
    return answer(caller.run(bank, recall_in, options))


def _require_same(entry: str, if_match: str | None) -> None:
    """Hold a change to the version that its author has seen."""
    if if_match is not None and if_match.strip().strip('"') not in ("*", entry):
        raise RetiredMemoryError("the memory has another version than the one you saw")
