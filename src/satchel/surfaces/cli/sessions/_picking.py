"""Choosing a session and a point of it at a terminal, where none was named."""

import sys

import click

from satchel.actions.opened import OpenBank
from satchel.actions.sessions.looking import list_checkpoints, list_sessions
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, message, short, state
from satchel.surfaces.cli._progress import activity
from satchel.surfaces.cli.sessions._showing import from_of, why_of

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
