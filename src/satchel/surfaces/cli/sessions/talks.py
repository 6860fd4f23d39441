"""``satchel session``: recording conversations and looking at them."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from satchel.actions.opened import opened_bank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.sessions import branching, looking, recording
from satchel.actions.sessions.looking import MOST_SHOWN, Conversation, SessionsDiff, Side
from satchel.actions.sessions.reading import MessagesFile
from satchel.actions.sessions.recording import Beginning, Recorded
from satchel.actions.starting import opened_to_fill
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, line, message, print_json, short, state
from satchel.surfaces.cli._options import InBank, Json, Scrub, owner_key, tell_secrets
from satchel.surfaces.cli._stdin import stdin_as_file
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.sessions._showing import (
    from_of,
    show_checkpoints,
    show_messages,
    show_state,
    show_tree,
)

Session = Annotated[str, Argument(help="Its id, six of its first digits or more, or its name.")]
At = Annotated[
    str | None,
    Option(
        "--at",
        help="A point: a message (number or id), a checkpoint (id or name), distillation:2.",
    ),
]
_LISTED = 100
Last = Annotated[int, Option("--last", help="How many messages are shown.")]


def add_to(sessions: Group) -> None:
    """Add the commands of this module."""
    sessions.command("record")(record_command)
    sessions.command("set")(set_command)
    sessions.command("list")(list_command)
    sessions.command("show")(show_command)
    sessions.command("diff")(diff_command)
    sessions.command("rename")(rename_command)
    sessions.command("archive")(archive_command)


def record_command(
    file: Annotated[Path, Argument(help="Messages as JSON, one on a line; - for standard input.")],
    session: Annotated[
        str | None, Option("--session", help="Add to this session; else a new one begins.")
    ] = None,
    name: Annotated[str | None, Option("--name", help="What to call a new session.")] = None,
    agent: Annotated[str | None, Option("--agent", help="Whose conversation it is.")] = None,
    user: Annotated[str | None, Option("--user", help="With whom.")] = None,
    scrub_secrets: Scrub = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Record a conversation, or what follows in one; all of the file or nothing.

    A line is `{"role": "user", "content": "..."}` with whatever else a program writes, or a change
    of what is kept beside the messages: `{"working_state": ...}`, `{"thread_summary": "..."}` or
    `{"note": {"content": "...", "category": "task"}}`.

    Example: `satchel session record talk.jsonl --name "trip to Oslo"`
    """
    if session is not None and (name or agent or user):
        raise UsageError("--name, --agent and --user are for a new session", field="session")
    settings = state.settings
    with stdin_as_file(file) as source, file_to_read(settings, source) as there:
        messages = MessagesFile(there, settings.options.limits)
        messages.check()
        with opened_to_fill(settings, bank, lambda: owner_key(None)) as opened:
            if session is None:
                new = Beginning(name=name, agent=agent, user=user)
                done = recording.begin(opened, new, messages, scrub_secrets=scrub_secrets)
            else:
                done = recording.record(opened, session, messages, scrub_secrets=scrub_secrets)
    _tell(done, as_json=as_json)


def set_command(
    session: Session,
    working_state: Annotated[
        str | None, Option("--working-state", help="What the agent is at, as JSON.")
    ] = None,
    summary: Annotated[
        str | None, Option("--summary", help="What the conversation was about so far.")
    ] = None,
    note: Annotated[str | None, Option("--note", help="Something to keep in mind.")] = None,
    category: Annotated[
        str, Option("--category", help="task, decision, preference, correction or context.")
    ] = "context",
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Change what is kept beside a session's messages; a fork from before does not see it.

    Example: `satchel session set trip --working-state '{"task": "book"}' --note "by train"`
    """
    parsed: Any = None
    if working_state is not None:
        try:
            parsed = msgspec.json.decode(working_state)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UsageError(f"not JSON: {error}", field="--working-state") from None
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = recording.change(
            opened,
            session,
            working_state=parsed,
            thread_summary=summary,
            note=note,
            category=category,
        )
    _tell(done, as_json=as_json)


def list_command(
    archived: Annotated[bool, Option("--archived", help="Include archived sessions.")] = False,
    limit: Annotated[
        int, Option("--limit", minimum=1, help="How many of the newest sessions.")
    ] = _LISTED,
    everything: Annotated[bool, Option("--all", help="All sessions.")] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """List the newest sessions: a fork below what it was forked from, with where it begins.

    Example: `satchel session list --all`
    """
    with opened_bank(state.settings, bank) as opened:
        most = None if everything else limit
        found = looking.list_sessions(opened, archived=archived, limit=most)
    if len(found) == most:
        message(f"these are the {limit:,} newest; list more with --limit, or --all")
    if as_json:
        print_json(found)
    elif found:
        show_tree(found)
    else:
        message("no sessions yet; record one: satchel session record FILE")


def show_command(
    session: Session,
    at: At = None,
    last: Last = MOST_SHOWN,
    everything: Annotated[bool, Option("--all", help="All messages.")] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a session at one of its points: its last messages, its state, its checkpoints.

    Example: `satchel session show trip --at 50`
    """
    with opened_bank(state.settings, bank) as opened:
        found = looking.show_session(opened, session, at=at, last=None if everything else last)
    if as_json:
        print_json(found)
    else:
        _show(found)


def diff_command(
    one: Session,
    other: Annotated[str, Argument(help="Another session.")],
    limit: Annotated[int, Option("--limit", help="Messages of each that are shown.")] = 5,
    bank: InBank = None,
    as_json: Json = False,
) -> int:
    """Show where two sessions part, and what each has from there on; status 1 where they differ.

    Example: `satchel session diff trip "trip by train"`
    """
    with opened_bank(state.settings, bank) as opened:
        found = looking.diff_sessions(opened, one, other, limit=limit)
    if as_json:
        print_json(found)
    else:
        _show_diff(found)
    return int(not found.is_same)


def rename_command(
    session: Session,
    name: Annotated[str, Argument(help="The name from now on.")],
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Give a session another name.

    Example: `satchel session rename 3f9a2c "trip to Oslo"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = branching.rename_session(opened, session, name)
    if as_json:
        print_json(done)
    else:
        line(f"{short(done.id)}  ", done.name or "")


def archive_command(
    session: Session,
    restore: Annotated[bool, Option("--restore", help="Take it out again.")] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Put a session away: it is not listed any more, and nothing of it is lost.

    Example: `satchel session archive trip`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        done = branching.archive_session(opened, session, restore=restore)
    if as_json:
        print_json(done)
    else:
        line(f"{short(done.id)}  ", done.name or "", "  archived" if done.archived else "")


def _tell(done: Recorded, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    line(done.session)
    more = f", {count(done.changes, 'change')} of state" if done.changes else ""
    message(f"{count(done.messages, 'message')}{more}; it has {done.total:,}")
    tell_secrets(done.secrets, done.secrets_kept)


def _show(found: Conversation) -> None:
    session = found.session
    line(f"{short(session.id)}  ", session.name or "", f"  {count(found.number, 'message')}")
    if session.origin is not None:
        line("from: ", from_of(session))
    show_state(found.state)
    if found.left_out:
        line(f"... {count(found.left_out, 'message')} before")
    show_messages(found.messages)
    if found.checkpoints:
        show_checkpoints(found.checkpoints)
    if found.memories_later:
        message(f"memories made later: {found.memories_later:,}")


def _show_diff(found: SessionsDiff) -> None:
    line(f"both: {count(found.common, 'message')}")
    for side in (found.one, found.other):
        _show_side(side)
    if not found.same_state:
        line("what is kept beside the messages differs")


def _show_side(side: Side) -> None:
    name = side.session.name or ""
    line(f"{short(side.session.id)}  ", name, f"  {count(side.messages, 'message')} of its own")
    if side.first:
        show_messages(side.first)
