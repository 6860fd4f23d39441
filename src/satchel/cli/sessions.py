"""``satchel session``."""

import json
import shutil
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import click

from satchel.bank.open_bank import OpenBank
from satchel.cli._console import (
    activity,
    count,
    dim,
    excerpt,
    line,
    message,
    safe,
    short,
    short_time,
    state,
    table,
)
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._options import owner_key, report_secrets, stdin_as_file
from satchel.cli._tree import Group
from satchel.config.options import file_to_read
from satchel.errors import UsageError
from satchel.model.text import spoken_text
from satchel.model.values import Json
from satchel.ports.operations import Option, Options, PathText
from satchel.sessions import branches, distillation
from satchel.sessions import queries as sessions_queries
from satchel.sessions import record as operations
from satchel.sessions.branches import ForkResult
from satchel.sessions.distillation import DistillResult
from satchel.sessions.options import ForkOptions
from satchel.sessions.queries import (
    SessionList,
    SessionsDiff,
    SessionSnapshot,
    list_checkpoints,
    list_sessions,
)
from satchel.sessions.record import MessagesFile, RecordResult
from satchel.sessions.views import CheckpointInfo, MessageInfo, SessionInfo, StateInfo
from satchel.setup import init

_COLUMNS, _LEAST_NAME, _DEEPEST = 80, 8, 6


def show_recorded(result: RecordResult, _: object = None) -> None:
    """Print the ID of the conversation, and the number of added messages."""
    line(result.session)
    more = f", {count(result.changes, 'change')} of state" if result.changes else ""
    message(f"added {count(result.messages, 'message')}{more}; total {result.total:,}")
    report_secrets(result.secrets, result.secrets_kept)


def show_list(result: SessionList) -> None:
    """Print conversations as a tree."""
    if result.sessions:
        show_tree(result.sessions)
    else:
        message("No conversations yet. Record one: satchel session record FILE")
    if result.more:
        message(f"Showing the {len(result.sessions):,} newest. More: --limit")


def show_changed(result: SessionInfo) -> None:
    """Print a conversation that was renamed or archived."""
    line(f"{short(result.id)}  ", result.name or "", "  archived" if result.archived else "")


def show_conversation(result: SessionSnapshot) -> None:
    """Print the last messages of a conversation, and its state."""
    session = result.session
    line(f"{short(session.id)}  ", session.name or "", f"  {count(result.number, 'message')}")
    if session.origin is not None:
        line("from: ", fork_point(session))
    show_state(result.state)
    if result.left_out:
        line(f"... {count(result.left_out, 'earlier message')}")
    show_messages(result.messages)
    if result.checkpoints:
        show_checkpoints(result.checkpoints)
    if result.memories_later:
        message(f"memories made later: {result.memories_later:,}")


def show_diff(result: SessionsDiff) -> None:
    """Print where two conversations diverge."""
    line(f"in both: {count(result.common, 'message')}")
    for side in (result.one, result.other):
        name = side.session.name or ""
        line(f"{short(side.session.id)}  ", name, f"  {count(side.messages, 'message')} of its own")
        if side.first:
            show_messages(side.first)
    if not result.same_state:
        line("the state beside the messages differs")


def show_fork(result: ForkResult) -> None:
    """Print the ID of a fork."""
    line(result.id)
    source = short(result.source)
    message(f"{result.name or 'fork'}: {count(result.messages, 'message')} of {source}")
    if result.memories_later:
        state = "not recalled by it" if result.memories == "as-of" else "recalled by it"
        message(f"memories made later: {result.memories_later:,}, {state}")


def show_distillation(result: DistillResult) -> None:
    """Print the memories of a distillation."""
    verb = "would be stored" if result.dry_run else "stored"
    line(
        f"distillation {result.number}: messages {result.after + 1:,} to {result.up_to:,},"
        f" {count(len(result.memories), 'memory')} {verb}"
    )
    if result.memories:
        table(
            ["kind", "memory"],
            [[dim(each.kind), safe(excerpt(each.text))] for each in result.memories],
        )
    if result.left_out:
        message(f"dropped: {count(result.left_out, 'finding')} of {result.model}, not valid")
    if result.summary:
        line("summary: ", safe(excerpt(result.summary)))
    if result.checkpoint:
        line("checkpoint: ", short(result.checkpoint))
    if result.receipt:
        line("receipt: ", short(result.receipt))
    report_secrets(result.secrets, result.secrets_kept)


def show_checkpoint(result: CheckpointInfo) -> None:
    """Print the ID of a checkpoint."""
    line(result.id)
    message(f"{result.name or 'checkpoint'} at message {result.number:,}")


def show_tree(sessions: list[SessionInfo]) -> None:
    """Print sessions, each fork below its source, with the message of the fork.

    Names are truncated to the width of the terminal, or 80 columns. If there is room, the time of
    the last message is shown.
    """
    from rich.cells import cell_len

    rows = [_row(session) for session in sessions]
    head = ["session", "name", "messages", "from message", "notes", "last"]
    width = shutil.get_terminal_size((_COLUMNS, 1)).columns
    widths = [max(cell_len(row[at]) for row in [head, *rows]) + 2 for at in range(len(head))]
    widths[-1] -= 2
    if width < sum(widths):
        head, rows = head[:-1], [row[:-1] for row in rows]
        widths[-2:] = [widths[-2] - 2]
    room = max(_LEAST_NAME, width - sum(widths) + widths[1] - 2)
    table(head, [[row[0], _fitted(row[1], room), row[2], *map(dim, row[3:])] for row in rows])


def _row(session: SessionInfo) -> list[str]:
    depth = session.depth - 1
    indent = "  " * min(depth, _DEEPEST) + (f"+{depth - _DEEPEST}" if depth > _DEEPEST else "")
    marks = [
        "archived" if session.archived else "",
        "as-of" if session.memories == "as-of" else "",
        count(session.checkpoints, "point") if session.checkpoints else "",
        session.provider or "",
    ]
    begins, origin = "", session.origin
    if origin is not None:
        begins = f"{origin.number:,}" + (" (checkpoint)" if origin.checkpoint else "")
    return [
        (indent + "└ " if session.depth else "") + short(session.id),
        excerpt(session.name or ""),
        f"{session.messages:,}",
        begins,
        ", ".join(mark for mark in marks if mark),
        short_time(session.last_at),
    ]


def _fitted(text: str, room: int) -> str:
    """Return a text, truncated to a number of columns."""
    from rich.cells import cell_len, set_cell_size

    whole = safe(text).plain
    return whole if cell_len(whole) <= room else set_cell_size(whole, room - 1).rstrip() + "…"


def fork_point(session: SessionInfo) -> str:
    """Return the point of a fork in words; empty for other sessions."""
    if session.origin is None:
        return ""
    at = f"message {session.origin.number:,}" if session.origin.number else "its beginning"
    mark = "checkpoint, " if session.origin.checkpoint else ""
    return f"{short(session.origin.session)} at {mark}{at}"


def show_messages(messages: list[MessageInfo]) -> None:
    """Print messages, one line each."""
    table(
        ["number", "role", "message", "id"],
        [
            [
                dim(f"{message.number:,}"),
                message.role or "",
                safe(excerpt(message_text(message))),
                dim(short(message.id)),
            ]
            for message in messages
        ],
    )


def message_text(message: MessageInfo) -> str:
    """Return the text of a message, or a description of its content."""
    content = message.content
    if content is None:
        return f"({', '.join(sorted(message.more))})" if message.more else ""
    if isinstance(content, str):
        return content
    parts = [message.text or "", *(f"[{name}]" for name in message.attachments)]
    is_plain = bool(message.attachments) or spoken_text(content) is not None
    return " ".join(filter(None, parts)) if is_plain else json_of(content)


def show_state(state: StateInfo) -> None:
    """Print the state beside the messages, if there is any."""
    if state.thread_summary:
        line("summary: ", safe(excerpt(state.thread_summary)))
    if state.working_state is not None:
        line("working state: ", safe(excerpt(json_of(state.working_state))))
    for note in state.notes:
        line(f"note ({note.category}): ", safe(excerpt(note.content)))


def show_checkpoints(checkpoints: list[CheckpointInfo]) -> None:
    """Print checkpoints."""
    if not checkpoints:
        message("No checkpoints yet. Create one: satchel session checkpoint create SESSION")
        return
    table(
        ["checkpoint", "name", "at", "why", "made"],
        [
            [
                short(checkpoint.id),
                excerpt(checkpoint.name or ""),
                f"message {checkpoint.number:,}",
                checkpoint_reason(checkpoint),
                dim(short_time(checkpoint.created_at)),
            ]
            for checkpoint in checkpoints
        ],
    )


def checkpoint_reason(checkpoint: CheckpointInfo) -> str:
    """Return why a checkpoint was created, in words."""
    number = (checkpoint.distillation or {}).get("number")
    return f"distillation {number}" if checkpoint.distillation is not None else checkpoint.why


def json_of(value: Json) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


_MOST, _END = 30, "e"


def prompt_for_session(bank: OpenBank) -> str:
    """Prompt for one of the newest sessions, on a terminal.

    Raises:
        UsageError: If there is no terminal, or no session.
        click.Abort: If nothing was chosen.
    """
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "no conversation given", field="session", hint="See: satchel session list."
        )
    sessions = list_sessions(bank, limit=_MOST)
    if not sessions:
        raise UsageError("no conversations yet", hint="Record one: satchel session record FILE.")
    newest = sorted(sessions, key=lambda session: session.last_at or "", reverse=True)
    return _prompt_for_choice("Which conversation?", [(each.id, _choice(each)) for each in newest])


def _choice(session: SessionInfo) -> str:
    name = session.name or short(session.id)
    return f"{name}, {count(session.messages, 'message')}  {fork_point(session)}"


def prompt_for_point(bank: OpenBank, session: str) -> str | None:
    """Prompt for a point: a checkpoint, a message by its number, or the end.

    Raises:
        click.Abort: If nothing was chosen.
    """
    rows = [
        (
            checkpoint.id,
            f"message {checkpoint.number:,}  {checkpoint.name or checkpoint_reason(checkpoint)}",
        )
        for checkpoint in list_checkpoints(bank, session)
    ]
    point = _prompt_for_choice(
        "Which point? A number from the list, m50 for message 50, or e for the end.", rows
    )
    return None if point == _END else point


def _prompt_for_choice(question: str, rows: list[tuple[str, str]]) -> str:
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
    """Source of messages."""

    file: Annotated[
        PathText,
        Option("Messages as JSON, one on a line; - for standard input.", argument=True),
    ]


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    root.add(session, name="session")
    session.add(checkpoint, name="checkpoint")


def _open_to_fill(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return init.open_bank_for_writing(state.settings, bank, lambda: owner_key(None))


def _read_messages(values: dict[str, Any], source: SourceOptions) -> None:
    """Validate all lines of the file, which is read again to store them."""
    file = state.held.enter_context(stdin_as_file(Path(source.file)))
    opened = state.held.enter_context(file_to_read(state.settings, file))
    messages = MessagesFile(opened, state.settings.options.limits)
    messages.check()
    values["items"] = messages


def _choose(bank: OpenBank, options: ForkOptions) -> ForkOptions:
    """Prompt for a conversation and a point of it, if none is given."""
    if options.session is not None:
        return options
    chosen = prompt_for_session(bank)
    at = options.at if options.at is not None else prompt_for_point(bank, chosen)
    return replace(options, session=chosen, at=at)


command(
    session,
    operations.record_session,
    show_recorded,
    bank=_open_to_fill,
    extra=SourceOptions,
    prepare=_read_messages,
)
command(session, operations.set_state, show_recorded, bank=open_to_write)
command(session, sessions_queries.list_sessions, show_list, bank=open_to_read)
command(session, sessions_queries.show_session, show_conversation, bank=open_to_read)
command(
    session,
    sessions_queries.diff_sessions,
    show_diff,
    bank=open_to_read,
    status=lambda result: int(not result.is_same),
)
command(session, branches.rename_session, show_changed, bank=open_to_write)
command(session, branches.archive_session, show_changed, bank=open_to_write)
command(session, branches.fork, show_fork, bank=open_to_write, choose=_choose)
command(session, distillation.distill, show_distillation, bank=open_to_write)
command(checkpoint, branches.create_checkpoint, show_checkpoint, bank=open_to_write)
command(checkpoint, sessions_queries.list_checkpoints, show_checkpoints, bank=open_to_read)
