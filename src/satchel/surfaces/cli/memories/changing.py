"""``satchel update``, ``correct``, ``forget`` and ``restore``."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from satchel.actions.memories import changing as actions
from satchel.actions.memories.changing import Edit, Moved, Revised
from satchel.actions.opened import opened_bank
from satchel.surfaces.cli._console import gist, line, message, print_json, short, state
from satchel.surfaces.cli._options import DryRun, InBank, Json
from satchel.surfaces.cli.memories import _members as say

Id = Annotated[str, typer.Argument(help="Id of the memory, or six of its first digits or more.")]
Ids = Annotated[list[str], typer.Argument(help="Ids of memories, or six first digits or more.")]
AddTags = Annotated[list[str] | None, typer.Option("--add-tag", help="One label more. Repeatable.")]
DropTags = Annotated[
    list[str] | None, typer.Option("--drop-tag", help="One label less. Repeatable.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="These in place of its labels. Repeatable.")
]
Clear = Annotated[
    list[str] | None, typer.Option("--clear", help="Take this member away. Repeatable.")
]

_Verb = Callable[..., Revised]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("update")(update_command)
    app.command("correct")(correct_command)
    app.command("forget")(forget_command)
    app.command("restore")(restore_command)


def update_command(
    memory: Id,
    text: say.Text = None,
    file: say.File = None,
    record: say.RecordFile = None,
    data: say.Data = None,
    component: say.Component = None,
    tag: Tags = None,
    add_tag: AddTags = None,
    drop_tag: DropTags = None,
    parent: say.Parents = None,
    kind: say.Kind = None,
    metadata: say.Metadata = None,
    user: say.User = None,
    agent: say.Agent = None,
    run: say.RunOf = None,
    app: say.App = None,
    occurred_at: say.Occurred = None,
    valid_from: say.ValidFrom = None,
    valid_until: say.ValidUntil = None,
    expires_at: say.Expires = None,
    salience: say.Salience = None,
    clear: Clear = None,
    reason: say.Why = None,
    actor: say.Actor = None,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Give a memory a new version, with what is said here different.

    What is not said stays. Metadata and owners are merged, name by name. The old version stays
    in the history; it was right in its time. What never was right is for `satchel correct`.

    Example: `satchel update 0f3c12 "Ada takes her tea with milk" --add-tag milk`
    """
    options = {
        "data": data,
        "type": component,
        "tags": tag,
        "kind": kind,
        "metadata": metadata,
        "user": user,
        "agent": agent,
        "run": run,
        "app": app,
        "occurred_at": occurred_at,
        "valid_from": valid_from,
        "valid_until": valid_until,
        "expires_at": expires_at,
        "salience": salience,
    }
    members = _members(text, file, record, options, clear)
    edit = Edit(
        members=members, add_tags=add_tag or (), drop_tags=drop_tag or (), parents=parent or None
    )
    _revise(actions.update, memory, edit, bank, reason, actor, as_json=as_json)


def correct_command(
    memory: Id,
    text: say.Text = None,
    file: say.File = None,
    record: say.RecordFile = None,
    clear: Clear = None,
    reason: say.Why = None,
    actor: say.Actor = None,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Put right a memory that was wrong.

    As `satchel update`, and the log says that the old version was never true.

    Example: `satchel correct 0f3c12 "Ada is allergic to hazelnuts" --reason "misheard"`
    """
    edit = Edit(members=_members(text, file, record, {}, clear))
    _revise(actions.correct, memory, edit, bank, reason, actor, as_json=as_json)


def forget_command(
    memories: Ids,
    reason: say.Why = None,
    actor: say.Actor = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Forget memories: they are no longer listed or recalled. All of those named, or none.

    Their text stays in the log, for the history; `satchel restore` brings them back.

    Example: `satchel forget 0f3c12 7be901 --reason "moved away"`
    """
    with _opened(bank) as there:
        done = actions.forget(there, memories, reason=reason, actor=actor, dry_run=dry_run)
    would = "would be forgotten" if dry_run else "forgotten"
    _say(done, would, "was forgotten already", as_json=as_json)


def restore_command(
    memories: Ids,
    reason: say.Why = None,
    actor: say.Actor = None,
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Bring back memories that were forgotten. All of those named, or none.

    Example: `satchel restore 0f3c12`
    """
    with _opened(bank) as there:
        done = actions.restore(there, memories, reason=reason, actor=actor, dry_run=dry_run)
    would = "would be brought back" if dry_run else "brought back"
    _say(done, would, "is current already", as_json=as_json)


def _opened(bank: str | None) -> Any:
    return opened_bank(state.settings, bank, writes=True)


def _members(
    text: str | None,
    file: Path | None,
    record: Path | None,
    options: dict[str, Any],
    clear: list[str] | None,
) -> dict[str, Any]:
    return say.members_of(text, file, record, options) | dict.fromkeys(clear or ())


def _revise(
    verb: _Verb,
    memory: str,
    edit: Edit,
    bank: str | None,
    reason: str | None,
    actor: str | None,
    *,
    as_json: bool,
) -> None:
    with _opened(bank) as there:
        done = verb(there, memory, edit, reason=reason, actor=actor)
    if as_json:
        print_json(done)
        return
    line(done.id)
    if done.is_new:
        message(f"different now: {', '.join(done.fields)}; in place of {done.replaces}")
    else:
        message("nothing is different, so nothing was written")


def _say(done: list[Moved], changed: str, unchanged: str, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for each in done:
        what = changed if each.is_changed else unchanged
        line(short(each.id), f"  {what}  ", gist(each.text or ""))
