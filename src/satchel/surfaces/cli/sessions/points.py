"""``satchel session fork``, ``distill`` and ``checkpoint``: points of a conversation."""

from enum import StrEnum
from typing import Annotated

from satchel.actions.inferring.models import distiller_of
from satchel.actions.opened import opened_bank
from satchel.actions.sessions import branching, looking
from satchel.actions.sessions.branching import Forked
from satchel.actions.sessions.distilling import Distilled, distill
from satchel.surfaces.cli._console import (
    count,
    dim,
    gist,
    line,
    message,
    print_json,
    safe,
    short,
    state,
    table,
)
from satchel.surfaces.cli._options import DryRun, InBank, Json, tell_secrets
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.sessions._picking import picked_point, picked_session
from satchel.surfaces.cli.sessions._showing import show_checkpoints
from satchel.surfaces.cli.sessions.talks import At, Session

PointName = Annotated[
    str | None, Option("--name", help="What to call the point that can be returned to.")
]


class Memories(StrEnum):
    """Which memories a fork has."""

    ALL = "all"
    AS_OF = "as-of"


def add_to(sessions: Group) -> None:
    """Add the commands of this module."""
    points = Group(help="Manage points of a conversation to return to.")
    points.command("create")(create_command)
    points.command("list")(list_command)
    sessions.command("fork")(fork_command)
    sessions.command("distill")(distill_command)
    sessions.add(points, name="checkpoint")


def create_command(
    session: Session,
    name: PointName = None,
    at: At = None,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Keep a point of a session to return to; its end, unless another is named.

    Example: `satchel session checkpoint create trip --name "before booking"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = branching.create_checkpoint(opened, session, name=name, at=at)
    if as_json:
        print_json(done)
    else:
        line(done.id)
        message(f"{done.name or 'checkpoint'} at message {done.number:,}")


def list_command(session: Session, bank: InBank = None, as_json: Json = False) -> None:
    """List the points that a session can return to, those from before it was forked included.

    Example: `satchel session checkpoint list trip`
    """
    with opened_bank(state.settings, bank) as opened:
        found = looking.list_checkpoints(opened, session)
    if as_json:
        print_json(found)
    elif found:
        show_checkpoints(found)
    else:
        message("no checkpoints yet; make one: satchel session checkpoint create SESSION")


def fork_command(
    session: Annotated[
        str | None,
        Argument(help="Its id, six of its first digits or more, or its name."),
    ] = None,
    at: At = None,
    name: Annotated[str | None, Option("--name", help="What to call the fork.")] = None,
    memories: Annotated[
        Memories,
        Option("--memories", help="as-of hides memories that came after the point."),
    ] = Memories.ALL,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Begin a session that goes on from a point of another one, which stays as it is.

    Later messages are not in the fork, and what is kept beside them is as it was at the point.
    Memories that came later are kept. At a terminal, without a session, one can be chosen.

    Example: `satchel session fork trip --at 50 --name "trip by train"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        if session is None:
            session = picked_session(opened)
            at = at if at is not None else picked_point(opened, session)
        done = branching.fork(opened, session, at=at, name=name, as_of=memories is Memories.AS_OF)
    if as_json:
        print_json(done)
    else:
        _show_fork(done)


def distill_command(
    session: Session,
    name: PointName = None,
    distiller: Annotated[
        str | None,
        Option("--distiller", help="What does it: extractive (no model), or openai."),
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", help="A model behind a server; [default: inference.chat_model]"),
    ] = None,
    endpoint: Annotated[
        str | None,
        Option(
            "--endpoint", help="Address of the server, without a key; [default: inference.base_url]"
        ),
    ] = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Draw a summary and memories from the messages of a session since it was last distilled.

    The messages stay. Each memory names those that it comes from, and a checkpoint keeps how the
    session is right after, to fork from. Unless it is configured otherwise, no model is asked:
    sentences are picked, none is written. A server speaks the language of OpenAI's API; what it
    answers is kept as data, and never trusted further than an agent.

    Example: `satchel session distill trip`
    """
    chosen = distiller_of(state.settings, distiller, model=model, endpoint=endpoint)
    with opened_bank(state.settings, bank, writes=not dry_run) as opened:
        done = distill(opened, session, distiller=chosen, name=name, dry_run=dry_run)
    if as_json:
        print_json(done)
    else:
        _show_distillation(done)


def _show_fork(done: Forked) -> None:
    line(done.id)
    message(f"{done.name or 'fork'}: {count(done.messages, 'message')} of {short(done.source)}")
    if done.memories_later:
        kept = "hidden from it" if done.memories == "as-of" else "kept"
        message(f"memories made later: {done.memories_later:,}, {kept}")


def _show_distillation(done: Distilled) -> None:
    verb = "would be drawn" if done.dry_run else "drawn"
    line(
        f"distillation {done.number}: messages {done.after + 1:,} to {done.up_to:,},"
        f" {count(len(done.memories), 'memory')} {verb}"
    )
    table([], [[dim(one.kind), safe(gist(one.text))] for one in done.memories])
    if done.left_out:
        message(
            f"left out: {count(done.left_out, 'finding')} of {done.model} that can be no memory"
        )
    if done.summary:
        line("summary: ", safe(gist(done.summary)))
    if done.checkpoint:
        line("checkpoint: ", short(done.checkpoint))
    if done.receipt:
        line("receipt: ", short(done.receipt))
    tell_secrets(done.secrets, done.secrets_kept)
