"""Conversations of a bank: recorded, looked at, and gone back to at a point of one."""

from typing import Annotated

from fastapi import Query, Response

from satchel.errors import UsageError
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner
from satchel.surfaces.http.bodies import Fork, NewCheckpoint, NewMessages, NewSession
from satchel.surfaces.http.routes.keeping.bodies import (
    Distillation,
    SessionChange,
    SessionState,
)

router = routes(prefix="/v1/banks/{bank}/sessions", tags=["sessions"])

At = Annotated[str | None, Query(max_length=200)]
Few = Annotated[int, Query(ge=1, le=1000)]


@router.get("")
def list_sessions(
    bank: str,
    caller: Owner,
    archived: bool = False,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """List the sessions: each tree of forks together, a fork after what it is from."""
    return answer({"sessions": caller.bank(bank).sessions.list(archived=archived, limit=limit)})


@router.post("", status_code=201)
@takes(Takes.TEXT)
def begin_session(bank: str, body: NewSession, caller: Owner) -> Response:
    """Begin a session, with its first messages where there are some."""
    made = caller.bank(bank).sessions.create(**body.said())
    return answer(made, 201)


@router.get("/{session}")
def show_session(bank: str, session: str, caller: Owner, at: At = None, last: Few = 20) -> Response:
    """Return a session at one of its points, with its last messages up to there."""
    return answer(caller.bank(bank).sessions.show(session, at=at, last=last))


@router.patch("/{session}")
def change_session(bank: str, session: str, body: SessionChange, caller: Owner) -> Response:
    """Give a session another name, put it away, or take it out again; nothing of it is lost."""
    sessions = caller.bank(bank).sessions
    found = None
    if body.name is not None:
        found = sessions.rename(session, body.name)
        session = found.id
    if body.archived is not None:
        found = sessions.archive(session, restore=not body.archived)
    if found is None:
        raise UsageError("say what is to be different", field="name")
    return answer(found)


@router.patch("/{session}/state")
@takes(Takes.TEXT)
def change_state(bank: str, session: str, body: SessionState, caller: Owner) -> Response:
    """Change what is kept beside a session's messages; what is not said stays."""
    return answer(caller.bank(bank).sessions.change(session, **body.said()))


@router.post("/{session}/distill")
def distill(bank: str, session: str, body: Distillation, caller: Owner) -> Response:
    """Draw a summary and memories from what was said since the last time, without a model."""
    return answer(caller.bank(bank).sessions.distill(session, **body.said()))


@router.post("/{session}/messages", status_code=201)
@takes(Takes.TEXT)
def append_messages(bank: str, session: str, body: NewMessages, caller: Owner) -> Response:
    """Add messages to a session; durable when this is answered."""
    return answer(caller.bank(bank).sessions.append(session, *body.messages), 201)


@router.get("/{session}/checkpoints")
def list_checkpoints(bank: str, session: str, caller: Owner) -> Response:
    """List the points that a session can return to, those from before its fork included."""
    return answer({"checkpoints": caller.bank(bank).sessions.checkpoints(session)})


@router.post("/{session}/checkpoints", status_code=201)
def create_checkpoint(bank: str, session: str, body: NewCheckpoint, caller: Owner) -> Response:
    """Keep a point of a session to return to."""
    return answer(caller.bank(bank).sessions.checkpoint(session, **body.said()), 201)


@router.post("/{session}/fork", status_code=201)
def fork_session(bank: str, session: str, body: Fork, caller: Owner) -> Response:
    """Begin a session that goes on from a point of this one, which stays as it is."""
    return answer(caller.bank(bank).sessions.fork(session, **body.said()), 201)


@router.get("/{session}/diff")
def diff_sessions(
    bank: str,
    session: str,
    other: Annotated[str, Query(max_length=500)],
    caller: Owner,
    limit: Few = 20,
) -> Response:
    """Return where two sessions part, and what each has from there on."""
    return answer(caller.bank(bank).sessions.diff(session, other, limit=limit))
