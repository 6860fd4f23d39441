"""Memories of a bank: kept, listed, recalled, changed, forgotten."""

from typing import Annotated, Any

from fastapi import Header, Query, Response

from satchel.errors import RetiredMemoryError
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking
from satchel.surfaces.http.bodies import Change, Component, NewEntry, Question, Reason

router = routes(prefix="/v1/banks/{bank}", tags=["entries"])

IfMatch = Annotated[str | None, Header(alias="If-Match")]
Tags = Annotated[list[str], Query()]


@router.post("/entries", status_code=201)
@takes(Takes.TEXT)
def remember(bank: str, body: NewEntry, caller: Asking) -> Response:
    """Keep a memory; durable when this is answered."""
    made = caller.bank(bank).remember(body.text, **body.said("text"))
    where = {"Location": f"/v1/banks/{bank}/entries/{made.id}"}
    return answer(made, 201 if made.is_new else 200, where)


@router.get("/entries")
def list_entries(
    bank: str,
    caller: Asking,
    type: Annotated[list[Component], Query()] = [],
    tag: Tags = [],
    kind: str | None = None,
    key: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    since: str | None = None,
    until: str | None = None,
    as_of: int | None = None,
    after: int | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    everything: bool = False,
    oldest_first: bool = False,
) -> Response:
    """Return a page of memories, the newest first; ``next`` is what ``after`` has to be then."""
    wanted: dict[str, Any] = {
        "type": type or None,
        "tag": tag or None,
        "kind": kind,
        "key": key,
        "user": user,
        "agent": agent,
        "since": since,
        "until": until,
        "as_of": as_of,
        "after": after,
        "limit": limit,
        "everything": everything,
        "oldest_first": oldest_first,
    }
    said = {name: value for name, value in wanted.items() if value is not None}
    return answer(caller.bank(bank).list(**said))


@router.get("/entries/{entry}")
def show(bank: str, entry: str, caller: Asking) -> Response:
    """Return a memory with all that is known of it; its ETag is its id."""
    found = caller.bank(bank).show(entry)
    return answer(found, headers={"ETag": f'"{found.record["id"]}"'})


@router.get("/entries/{entry}/raw")
def raw(bank: str, entry: str, caller: Asking) -> Response:
    """Return the canonical bytes of a record, which its id is the hash of."""
    return Response(caller.bank(bank).raw(entry), media_type="application/json")


@router.get("/entries/{entry}/history")
def history(
    bank: str, entry: str, caller: Asking, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """Return the versions of a memory, the oldest first."""
    return answer(caller.bank(bank).history(entry, limit=limit))


@router.get("/entries/{entry}/links")
def links(
    bank: str, entry: str, caller: Asking, hops: Annotated[int, Query(ge=1, le=10)] = 1
) -> Response:
    """Return what a memory is linked with."""
    return answer(caller.bank(bank).links(entry, hops=hops))


@router.get("/entries/{entry}/path")
def path(
    bank: str,
    entry: str,
    to: Annotated[str, Query(max_length=500)],
    caller: Asking,
    hops: Annotated[int, Query(ge=1, le=10)] = 6,
    limit: Annotated[int, Query(ge=1, le=100)] = 5,
) -> Response:
    """Return how two memories are connected: the shortest ways from one to the other."""
    return answer(caller.bank(bank).path(entry, to, hops=hops, limit=limit))


@router.patch("/entries/{entry}")
@takes(Takes.TEXT)
def update(
    bank: str, entry: str, body: Change, caller: Asking, if_match: IfMatch = None
) -> Response:
    """Give a memory a new version; with ``If-Match``, only if it is still that one."""
    _require_same(entry, if_match)
    return answer(caller.bank(bank).update(entry, body.text, **_changes(body)))


@router.post("/entries/{entry}/correct")
@takes(Takes.TEXT)
def correct(bank: str, entry: str, body: Change, caller: Asking) -> Response:
    """Put right a memory that was wrong."""
    return answer(caller.bank(bank).correct(entry, body.text, **_changes(body)))


@router.delete("/entries/{entry}")
def forget(bank: str, entry: str, caller: Asking, reason: str | None = None) -> Response:
    """Say that a memory is no longer wanted; the log keeps its text."""
    return answer(caller.bank(bank).forget(entry, reason=reason)[0])


@router.post("/entries/{entry}/restore")
def restore(bank: str, entry: str, body: Reason, caller: Asking) -> Response:
    """Make a memory current again that was forgotten."""
    return answer(caller.bank(bank).restore(entry, reason=body.reason)[0])


@router.post("/recall")
def recall(bank: str, body: Question, caller: Asking) -> Response:
    """Return the memories that go best with some words, best first."""
    return answer(caller.bank(bank).recall(body.text, **body.said("text")))


def _changes(body: Change) -> dict[str, Any]:
    return body.said("text")


def _require_same(entry: str, if_match: str | None) -> None:
    """Hold a change to the version that its author has seen."""
    if if_match is not None and if_match.strip().strip('"') not in ("*", entry):
        raise RetiredMemoryError("the memory has another version than the one you saw")
