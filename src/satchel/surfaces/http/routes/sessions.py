"""Conversations of a bank: recorded, shown, forked and distilled."""

from typing import Annotated

from fastapi import Response

from satchel.actions.sessions import branching, distilling, looking, operations
from satchel.actions.sessions.options import (
    ArchiveOptions,
    CheckpointListOptions,
    CheckpointOptions,
    DistillOptions,
    ForkOptions,
    RecordOptions,
    RenameOptions,
    SessionDiffOptions,
    SessionListOptions,
    SessionShowOptions,
    StateOptions,
)
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner
from satchel.surfaces.http.operations import body, query

router = routes(prefix="/v1/banks/{bank}/sessions", tags=["sessions"])


@router.get("")
def list_sessions(
    bank: str,
    options: Annotated[SessionListOptions, query(looking.list_sessions)],
    caller: Owner,
) -> Response:
    """List the newest conversations, each fork after the one that it continues."""
    return answer(caller.run(bank, looking.list_sessions, options))


@router.post("", status_code=201)
@takes(Takes.TEXT)
def record_session(
    bank: str,
    options: Annotated[RecordOptions, body(operations.record_session)],
    caller: Owner,
) -> Response:
    """Record a conversation, or more of the one that ``session`` names."""
    return answer(caller.run(bank, operations.record_session, options), 201)


@router.get("/{session}")
def show_session(
    bank: str,
    options: Annotated[SessionShowOptions, query(looking.show_session, session="session")],
    caller: Owner,
) -> Response:
    """Show a conversation at a point, with its last messages."""
    return answer(caller.run(bank, looking.show_session, options))


@router.patch("/{session}")
def rename_session(
    bank: str,
    options: Annotated[RenameOptions, body(branching.rename_session, session="session")],
    caller: Owner,
) -> Response:
    """Rename a conversation."""
    return answer(caller.run(bank, branching.rename_session, options))


@router.post("/{session}/archive")
def archive_session(
    bank: str,
    options: Annotated[ArchiveOptions, body(branching.archive_session, session="session")],
    caller: Owner,
) -> Response:
    """Archive a conversation, or list it again; nothing of it is lost."""
    return answer(caller.run(bank, branching.archive_session, options))


@router.patch("/{session}/state")
@takes(Takes.TEXT)
def set_state(
    bank: str,
    options: Annotated[StateOptions, body(operations.set_state, session="session")],
    caller: Owner,
) -> Response:
    """Change the state beside the messages of a conversation."""
    return answer(caller.run(bank, operations.set_state, options))


@router.post("/{session}/distill")
def distill(
    bank: str,
    options: Annotated[DistillOptions, body(distilling.distill, session="session")],
    caller: Owner,
) -> Response:
    """Store a summary and memories of the messages since the last time."""
    return answer(caller.run(bank, distilling.distill, options))


@router.post("/{session}/messages", status_code=201)
@takes(Takes.TEXT)
def append_messages(
    bank: str,
    options: Annotated[RecordOptions, body(operations.record_session, session="session")],
    caller: Owner,
) -> Response:
    """Add messages to a conversation; they are durable when this is answered."""
    return answer(caller.run(bank, operations.record_session, options), 201)


@router.get("/{session}/checkpoints")
def list_checkpoints(
    bank: str,
    options: Annotated[CheckpointListOptions, query(looking.list_checkpoints, session="session")],
    caller: Owner,
) -> Response:
    """List the checkpoints of a conversation, those from before it was forked included."""
    result = caller.run(bank, looking.list_checkpoints, options)
    return answer(looking.list_checkpoints.json(result))


@router.post("/{session}/checkpoints", status_code=201)
def create_checkpoint(
    bank: str,
    options: Annotated[CheckpointOptions, body(branching.create_checkpoint, session="session")],
    caller: Owner,
) -> Response:
    """Create a checkpoint of a conversation."""
    return answer(caller.run(bank, branching.create_checkpoint, options), 201)


@router.post("/{session}/fork", status_code=201)
def fork_session(
    bank: str,
    options: Annotated[ForkOptions, body(branching.fork, session="session")],
    caller: Owner,
) -> Response:
    """Start a conversation that continues from a point of this one."""
    return answer(caller.run(bank, branching.fork, options), 201)


@router.get("/{session}/diff")
def diff_sessions(
    bank: str,
    options: Annotated[SessionDiffOptions, query(looking.diff_sessions, session="session")],
    caller: Owner,
) -> Response:
    """Compare two conversations: where they part, and what each has from there on."""
    return answer(caller.run(bank, looking.diff_sessions, options))
