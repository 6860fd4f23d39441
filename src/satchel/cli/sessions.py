"""``satchel session``."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import click

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli import _session_output as views
from satchel.cli._console import count, message, short, state
from satchel.cli._operations import command
from satchel.cli._options import owner_key
from satchel.cli._progress import activity
from satchel.cli._session_output import from_of, why_of
from satchel.cli._streams import stdin_as_file
from satchel.cli._tree import Group
from satchel.config.options import file_to_read
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options, PathText
from satchel.sessions import branches, distillation, operations
from satchel.sessions import queries as sessions_queries
from satchel.sessions.options import ForkOptions
from satchel.sessions.queries import list_checkpoints, list_sessions
from satchel.sessions.record import MessagesFile
from satchel.setup import init

_MOST, _END = 30, "e"


def picked_session(bank: OpenBank) -> str:
    """Have a person choose one of the newest sessions; nobody is asked who cannot answer.

    Raises:
        UsageError: If nobody can be asked, or there is none.
        click.Abort: If nothing was chosen.
    """
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "no conversation given", field="session", hint="See: satchel session list."
        )
    found = list_sessions(bank, limit=_MOST)
    if not found:
        raise UsageError("no conversations yet", hint="Record one: satchel session record FILE.")
    newest = sorted(found, key=lambda one: one.last_at or "", reverse=True)
    rows = [
        (one.id, f"{one.name or short(one.id)}, {count(one.messages, 'message')}  {from_of(one)}")
        for one in newest
    ]
    return _picked("Which conversation?", rows)


def picked_point(bank: OpenBank, session: str) -> str | None:
    """Have a person choose a point: a checkpoint, a message by its number, or the end.

    Raises:
        click.Abort: If nothing was chosen.
    """
    rows = [
        (one.id, f"message {one.number:,}  {one.name or why_of(one)}")
        for one in list_checkpoints(bank, session)
    ]
    found = _picked(
        "Which point? A number from the list, m50 for message 50, or e for the end.", rows
    )
    return None if found == _END else found


def _picked(question: str, rows: list[tuple[str, str]]) -> str:
    for number, (_, text) in enumerate(rows, 1):
        message(f"  {number:>3}  ", text.rstrip())
    message(question)
    with activity.hidden():
        answer = sys.stdin.readline().strip().lower()
    if answer.isdecimal() and 1 <= int(answer) <= len(rows):
        return rows[int(answer) - 1][0]
    if answer == _END or (answer.startswith("m") and answer[1:].isdecimal()):
        return answer if answer == _END else f"message:{answer[1:]}"
    raise click.Abort


session = Group("Manage conversations and their branches.")
checkpoint = Group(help="Manage checkpoints: points of a conversation to return to.")


@dataclass(frozen=True, slots=True)
class SourceOptions(Options):
    """Where messages are read from."""

    file: Annotated[
        PathText,
        Option("Messages as JSON, one on a line; - for standard input.", argument=True),
    ]


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    root.add(session, name="session")
    session.add(checkpoint, name="checkpoint")


def _to_read(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, bank)


def _to_write(bank: str | None, options: Any) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, bank, writes=not getattr(options, "dry_run", False))


def _to_fill(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return init.opened_to_fill(state.settings, bank, lambda: owner_key(None))


def _read_messages(values: dict[str, Any], source: SourceOptions) -> None:
    """Check all lines of the file, and have them read again when they are stored."""
    file = state.held.enter_context(stdin_as_file(Path(source.file)))
    opened = state.held.enter_context(file_to_read(state.settings, file))
    messages = MessagesFile(opened, state.settings.options.limits)
    messages.check()
    values["spoken"] = messages


def _choose(bank: OpenBank, options: ForkOptions) -> ForkOptions:
    """Have a person choose a conversation and a point of it, where none is named."""
    if options.session is not None:
        return options
    chosen = picked_session(bank)
    at = options.at if options.at is not None else picked_point(bank, chosen)
    return replace(options, session=chosen, at=at)


command(
    session,
    operations.record_session,
    views.show_recorded,
    bank=_to_fill,
    extra=SourceOptions,
    prepare=_read_messages,
)
command(session, operations.set_state, views.show_recorded, bank=_to_write)
command(session, sessions_queries.list_sessions, views.show_list, bank=_to_read)
command(session, sessions_queries.show_session, views.show_conversation, bank=_to_read)
command(
    session,
    sessions_queries.diff_sessions,
    views.show_diff,
    bank=_to_read,
    status=lambda result: int(not result.is_same),
)
command(session, branches.rename_session, views.show_changed, bank=_to_write)
command(session, branches.archive_session, views.show_changed, bank=_to_write)
command(session, branches.fork, views.show_fork, bank=_to_write, choose=_choose)
command(session, distillation.distill, views.show_distillation, bank=_to_write)
command(checkpoint, branches.create_checkpoint, views.show_checkpoint, bank=_to_write)
command(checkpoint, sessions_queries.list_checkpoints, views.show_checkpoints, bank=_to_read)
