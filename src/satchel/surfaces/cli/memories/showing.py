"""``satchel list``, ``show``, ``history`` and ``stats``."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from satchel.actions.memories import showing as actions
from satchel.actions.memories.counting import Stats
from satchel.actions.memories.counting import stats as count_all
from satchel.actions.memories.drafting import moment
from satchel.actions.memories.listing import Wanted, list_memories
from satchel.actions.memories.showing import Version
from satchel.actions.memories.values import CURRENT, Memory, gist_of
from satchel.actions.opened import opened_bank
from satchel.actions.wiring import local_path
from satchel.surfaces.cli._console import (
    bytes_in,
    count,
    dim,
    facts,
    gist,
    is_long,
    line,
    message,
    print_json,
    print_raw,
    progress,
    safe,
    short,
    size,
    state,
    table,
)
from satchel.surfaces.cli._options import InBank, Json
from satchel.surfaces.cli.memories import _members as say

Id = Annotated[str, typer.Argument(help="Its id, or six of its first digits or more.")]
_MOST_COUNTED = 8


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("list")(list_command)
    app.command("show")(show_command)
    app.command("history")(history_command)
    app.command("stats")(stats_command)


def list_command(
    component: Annotated[list[str] | None, typer.Option("--type", help="Repeatable.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="All of them. Repeatable.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="The caller's name for it.")] = None,
    kind: say.Kind = None,
    user: say.User = None,
    agent: say.Agent = None,
    run: say.RunOf = None,
    app: say.App = None,
    since: Annotated[
        str | None, typer.Option("--since", help="First moment, as 2026-03-01; included.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Last moment; not included.")] = None,
    as_of: Annotated[
        int | None, typer.Option("--as-of", help="How it was when the log had so many records.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what was replaced, forgotten, or is held back.")
    ] = False,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many.")] = 50,
    after: Annotated[
        int | None, typer.Option("--after", help="Go on after this place, as the last page says.")
    ] = None,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """List memories, the newest first.

    Example: `satchel list --tag tea --since 2026-01-01`
    """
    wanted = Wanted(
        types=component or (),
        tags=tag or (),
        key=key,
        kind=kind,
        user=user,
        agent=agent,
        run=run,
        app=app,
        since=moment(since, "--since") if since is not None else None,
        until=moment(until, "--until") if until is not None else None,
        as_of=as_of,
        everything=everything,
        oldest_first=oldest,
        limit=limit,
        after=after,
    )
    with opened_bank(state.settings, bank) as there, _progress("looking") as tell:
        found = list_memories(there, wanted, progress=tell)
    _note(found.notes)
    if as_json:
        print_json(found)
        return
    if not found.memories:
        message('There are none of that sort: satchel remember "..."')
    elif everything:
        table([], [[*_line(each)[:1], each.state, *_line(each)[1:]] for each in found], cut=True)
    else:
        table([], [_line(each) for each in found], cut=True)
    if found.next is not None:
        message(f"There are more: --after {found.next}")


def show_command(
    memory: Id,
    raw: Annotated[
        bool, typer.Option("--raw", help="Its canonical bytes, which the id is the hash of.")
    ] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a memory, or any other record, with all that is known of it.

    Example: `satchel show 0f3c12`
    """
    with opened_bank(state.settings, bank) as there:
        if raw:
            print_raw(actions.raw(there, memory))
            return
        found = actions.show(there, memory)
    _note(found.notes)
    if as_json:
        print_json(found)
        return
    rows = list[tuple[str, object]]([("id", found.record["id"]), ("state", found.state)])
    if found.memory is not None and found.memory.held:
        rows.append(("held", "until it is judged"))
    if found.memory is not None and found.memory.redacted is not None:
        rows.append(("redacted", found.memory.redacted.told))
    if found.memory is not None and found.memory.key is not None:
        rows.append(("key", found.memory.key))
    rows += _members(found.record)
    log = count(found.proof.size, "record")
    rows.append(("arrived", f"{found.arrived_at}, at place {found.place} of a log of {log}"))
    rows += [("version", each) for each in found.versions]
    rows += [("led to", each) for each in found.children]
    rows.append(("proved by", f"{found.proof.root}, signed {found.proof.at}"))
    facts(rows)


def history_command(
    memory: Id,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of the newest.")] = 100,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Tell what became of a memory: its versions, oldest first, and what each changed.

    Example: `satchel history 0f3c12`
    """
    with opened_bank(state.settings, bank) as there:
        found = actions.history(there, memory, limit=limit)
    _note(found.notes)
    if as_json:
        print_json(found)
        return
    if found.left_out:
        message(f"{count(found.left_out, 'older version')} left out")
    for each in found.versions:
        _tell(each)


def stats_command(bank: InBank = None, as_json: Json = False) -> None:
    """Count what a bank holds; every memory is proved on the way.

    Example: `satchel stats`
    """
    with opened_bank(state.settings, bank) as there, _progress("counting") as tell:
        found = count_all(there, progress=tell)
    _note(found.notes)
    if as_json:
        print_json(found)
    else:
        facts(_numbers(found))


def _note(notes: list[str]) -> None:
    for note in notes:
        message(note)


def _progress(label: str) -> Any:
    path = local_path(state.settings.store)
    long = path is not None and is_long(bytes_in(path))
    return progress(label, long, records=True)


def _line(memory: Memory) -> list[object]:
    """Return the columns of a memory in a listing; what can be long comes last."""
    marks = [f"#{tag}" for tag in memory.tags]
    said = safe(gist(memory.gist))
    if marks:
        said.append("  ").append_text(dim(gist(" ".join(marks))))
    if memory.redacted is not None:
        said.append("  ").append_text(dim(gist("redacted")))
    when = memory.occurred_at or memory.created_at or memory.arrived_at
    return [short(memory.id), when[:16].replace("T", " "), memory.type, said]


def _members(record: dict[str, Any]) -> Iterator[tuple[str, object]]:
    names = ["type", "text", *record]
    for name in dict.fromkeys(name for name in names if name in record and name != "id"):
        part = record[name]
        if isinstance(part, dict):
            yield from ((f"{name}.{key}", held) for key, held in part.items())
        elif isinstance(part, list) and all(isinstance(each, str) for each in part):
            yield name, ", ".join(part)
        else:
            yield name, part


def _tell(version: Version) -> None:
    what = "corrected" if version.corrects else "changed" if version.differs else "remembered"
    line(Text(version.arrived_at[:19].replace("T", " ")), f"  {what}  ", version.id, style="bold")
    for name, (was, now) in version.differs.items():
        line(f"  {name}: ", _shown(was), " -> ", _shown(now))
    if not version.differs:
        line("  ", gist(version.memory.gist))
    if version.memory.redacted is not None:
        line("  redacted ", gist(version.memory.redacted.told))
    for event in version.events:
        why = f": {event.reason}" if event.reason else ""
        who = f" by {event.actor}" if event.actor else ""
        line(f"  {event.at[:19].replace('T', ' ')}  {event.state}{who}{why}")
    if version.state == CURRENT:
        line("  current", style="green")


def _shown(part: Any) -> str:
    if part is None:
        return "nothing"
    return gist(part if isinstance(part, str) else gist_of({"data": part}))


def _numbers(found: Stats) -> Iterator[tuple[str, object]]:
    yield "bank", f"{found.name or ''}  {found.id}"
    yield "memories", f"{found.memories:,} current"
    for name, counted in (
        ("types", found.types),
        ("users", found.users),
        ("from", found.providers),
        ("tags", found.tags),
        ("states", found.states),
    ):
        if counted:
            yield name, _most(counted)
    if found.held:
        yield "held back", found.held
    if found.oldest is not None and found.newest is not None:
        yield "dates", f"{found.oldest[:10]} to {found.newest[:10]}"
    if found.vectors is not None:
        made = found.vectors
        yield "vectors", f"{made.model}: {made.count:,}, {made.missing:,} missing"
    yield "log", f"{count(found.records, 'record')}: {_most(found.logged)}"
    yield "imports", found.imports
    stored = "" if found.store_bytes is None else f", the store's files {size(found.store_bytes)}"
    yield "size", f"{size(found.bytes)}{stored}"


def _most(counted: dict[str, int]) -> str:
    shown = list(counted.items())[:_MOST_COUNTED]
    rest = len(counted) - len(shown)
    said = ", ".join(f"{gist(name)} {number:,}" for name, number in shown)
    return f"{said}, and {rest:,} more" if rest else said
