"""How memories, their versions and their links are printed."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from satchel.actions.memories.changing import MemoryChange, Revised
from satchel.actions.memories.counting import Stats
from satchel.actions.memories.listing import Listing
from satchel.actions.memories.remembering import Remembered
from satchel.actions.memories.showing import History, Shown, Version
from satchel.actions.memories.values import CURRENT, Memory, gist_of
from satchel.actions.memories.walking import (
    PLACEHOLDER,
    Connections,
    Neighbourhood,
    Step,
    Thing,
)
from satchel.surfaces.cli._console import (
    count,
    dim,
    facts,
    gist,
    line,
    message,
    safe,
    short,
    size,
    table,
)
from satchel.surfaces.cli._options import tell_secrets

_MOST_COUNTED = 8


def show_remembered(result: Remembered, _: object = None) -> None:
    """Print the ID of a memory that was stored."""
    line(result.id)
    tell_secrets(result.secrets, result.secrets_kept)
    if result.flagged:
        message(
            f"Possible prompt injection ({'; '.join(result.flagged)}): not provided to models "
            f"until released: satchel quarantine release {short(result.id)}"
        )
    if not result.is_new:
        message("unchanged: the bank has this memory already")
    elif result.replaces is not None:
        message(f"replaces {short(result.replaces)}")


def show_listing(result: Listing) -> None:
    """Print memories as a table."""
    _notes(result.notes)
    if not result.memories:
        message('No memories found. To store one: satchel remember "..."')
    elif any(each.state != CURRENT for each in result):
        rows = [[*_row(each)[:1], each.state, *_row(each)[1:]] for each in result]
        table(["id", "state", "date", "type", "memory"], rows, cut=True)
    else:
        table(["id", "date", "type", "memory"], [_row(each) for each in result], cut=True)
    if result.next is not None:
        message(f"More: --after {result.next}")


def show_memory(result: Shown) -> None:
    """Print a record, member by member."""
    _notes(result.notes)
    rows = list[tuple[str, object]]([("id", result.id), ("state", result.state)])
    if result.held:
        rows.append(("quarantined", "until it is reviewed"))
    if result.redacted is not None:
        rows.append(("redacted", result.redacted.told))
    if result.key is not None:
        rows.append(("key", result.key))
    rows += _members(result.record)
    log = count(result.proof.size, "record")
    rows.append(
        ("added", f"{result.text_of_arrived_at}, at position {result.position} of a log of {log}")
    )
    rows += [("version", each) for each in result.versions]
    rows += [("derived", each) for each in result.children]
    rows.append(("verified by", f"{result.proof.root}, signed {result.proof.at}"))
    facts(rows)


def show_history(result: History) -> None:
    """Print the versions of a memory."""
    _notes(result.notes)
    if result.left_out:
        message(f"{count(result.left_out, 'older version')} not shown")
    for version in result.versions:
        _show_version(version)


def show_stats(result: Stats) -> None:
    """Print what a bank holds."""
    _notes(result.notes)
    facts(_numbers(result))


def show_revised(result: Revised, _: object = None) -> None:
    """Print the ID of the new version."""
    line(result.id)
    if result.is_new:
        message(f"changed: {', '.join(result.fields)}; replaces {short(result.replaces or '')}")
    else:
        message("nothing to change")


def show_forgotten(result: list[MemoryChange]) -> None:
    """Print what was forgotten, or would be."""
    _show_moved(result, "forgotten", "was forgotten already")


def show_memories_restored(result: list[MemoryChange]) -> None:
    """Print what was restored, or would be."""
    _show_moved(result, "restored", "is current already")


def _show_moved(result: list[MemoryChange], changed: str, unchanged: str) -> None:
    for each in result:
        done = f"would be {changed}" if each.dry_run else changed
        what = done if each.is_changed else unchanged
        line(short(each.id), f"  {what}  ", gist(each.text))


def show_links(result: Neighbourhood) -> None:
    """Print what a memory is linked to."""
    if result.things:
        rows = [
            [each.hops, _name(each), _how(each.by, each.id), _thing(each)] for each in result.things
        ]
        table(["steps", "id", "link", "memory"], rows)
    else:
        message("no links found")
    _bounds(result)


def show_paths(result: Connections) -> None:
    """Print how two memories are connected."""
    if not result.ways:
        message("no path found")
    start = next(iter(result.things))
    for number, way in enumerate(result.ways):
        if number:
            line("")
        at = start
        line(_name(result.things[at]), "  ", _thing(result.things[at]))
        for step in way:
            at = step.target if step.source == at else step.source
            line("  ", _how(step, at))
            line(_name(result.things[at]), "  ", _thing(result.things[at]))
    _bounds(result)


def _bounds(result: Neighbourhood | Connections) -> None:
    if not result.complete:
        message("There may be more: raise --budget, --hops or --limit.", style="yellow")
    _notes(result.notes)


def _notes(notes: list[str]) -> None:
    for note in notes:
        message(note)


def _row(memory: Memory) -> list[object]:
    """Return the columns of a memory in a listing; what can be long comes last."""
    marks = [f"#{tag}" for tag in memory.tags]
    said = safe(gist(memory.text))
    if marks:
        said.append("  ").append_text(dim(gist(" ".join(marks))))
    if memory.redacted is not None:
        said.append("  ").append_text(dim(gist("redacted")))
    when = memory.text_of_date
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


def _show_version(version: Version) -> None:
    what = "corrected" if version.corrects else "changed" if version.differs else "remembered"
    line(
        Text((version.text_of_arrived_at or "")[:19].replace("T", " ")),
        f"  {what}  ",
        version.id,
        style="bold",
    )
    for name, (was, now) in version.differs.items():
        line(f"  {name}: ", _shown(was), " -> ", _shown(now))
    if not version.differs:
        line("  ", gist(version.text))
    if version.redacted is not None:
        line("  redacted ", gist(version.redacted.told))
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
        yield "quarantined", found.held
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


def _how(step: Step, end: str) -> str:
    """Return the type of a link, and the way that it leads to one of its ends."""
    if step.target == end:
        return f"{short(step.source)} {gist(step.type)} ->"
    return f"{short(step.target)} <- {gist(step.type)}"


def _name(thing: Thing) -> str:
    return gist(short(thing.id) if thing.state != PLACEHOLDER else thing.id)


def _thing(thing: Thing) -> object:
    if thing.state != CURRENT:
        return dim(f"({thing.state})")
    return safe(gist(thing.text)) if thing.text is not None else dim(thing.type or "")
