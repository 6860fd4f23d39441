"""``satchel remember``, ``list``, ``show``, ``update`` and the other commands on memories."""

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from rich.text import Text

from satchel.admin import statistics
from satchel.admin.statistics import Stats
from satchel.bank import details as bank_details
from satchel.bank import operations
from satchel.bank.changes import MemoryChange, MemoryUpdate, RememberResult
from satchel.bank.details import History, MemoryDetails, MemoryVersion
from satchel.bank.links import PLACEHOLDER, LinkedItem, LinkPaths, LinkStep, Neighborhood
from satchel.bank.listings import Listing
from satchel.bank.memory import CURRENT, Memory, gist_of
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._console import (
    count,
    dim,
    excerpt,
    line,
    message,
    print_facts,
    print_json,
    print_raw,
    safe,
    short,
    short_time,
    show_changes,
    size,
    state,
    table,
)
from satchel.cli._operations import command, open_to_read
from satchel.cli._options import InBank, Json, owner_key, report_secrets
from satchel.cli._tree import Argument, CommandOption, Group
from satchel.config.options import file_to_read
from satchel.crypto.json_reader import JsonReader
from satchel.errors import LimitError, MalformedError, UsageError
from satchel.model.values import is_within, now
from satchel.ports.operations import Option, Options, PathText, texts
from satchel.runtime.files import open_input
from satchel.setup import init

_STDIN = "-"
_OWNERS = ("user", "agent", "run", "app")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySourceOptions(Options):
    """Sources of a memory."""

    file: Annotated[
        PathText | None, Option("Read the text from this file; - for standard input.")
    ] = None
    record: Annotated[
        PathText | None,
        Option("Members as a JSON object in this file; - for standard input. Options override it."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSourceOptions(MemorySourceOptions):
    """Sources of the changes of a memory."""

    clear: Annotated[str | tuple[str, ...], Option("Remove this member. Repeatable.")] = ()


def read_new(values: dict[str, Any], source: MemorySourceOptions) -> None:
    """Read the memory to store: from its arguments, a file, or a pipe.

    Raises:
        UsageError: If there is none.
        SatchelError: As ``read_source``.
    """
    inputs = ("text", "data", "members")
    is_given = source.file is not None or source.record is not None
    if not is_given and not any(name in values for name in inputs):
        if sys.stdin.isatty():
            raise UsageError("no text given", field="TEXT", hint='Use: satchel remember "..."')
        values["text"] = _decoded(_stdin(), "stdin")
        if not values["text"]:
            raise UsageError("no text given", field="TEXT", hint='Use: satchel remember "..."')
    read_source(values, source)


def read_source(values: dict[str, Any], source: MemorySourceOptions) -> None:
    """Read files or standard input into the values of a command's options.

    Raises:
        UsageError: If the text is given twice.
        UnreadableError: If a file cannot be read.
        MalformedError: If it is not UTF-8, or not JSON.
        LimitError: If it is larger than a record may be.
    """
    text, file, record = values.get("text"), source.file, source.record
    inputs = [str(each) for each in (text, file, record) if each is not None]
    if inputs.count(_STDIN) > 1 or (text is not None and file is not None):
        raise UsageError("the text is given twice", field="TEXT", hint="Give it once.")
    if _STDIN in (text, file):
        values["text"] = _decoded(_stdin(), "stdin")
    elif file is not None:
        with _opened(Path(file)) as stream:
            values["text"] = _decoded(_bounded(stream, str(file)), str(file))
    if record is None:
        return
    members = _record(Path(record))
    if isinstance(members.get("metadata"), dict) and "metadata" in values:
        values["metadata"] = {**members["metadata"], **values["metadata"]}
    if "text" in members:
        values.setdefault("text", members.pop("text"))
    values["members"] = {name: part for name, part in members.items() if name not in values}


def read_changes(values: dict[str, Any], source: ChangeSourceOptions) -> None:
    """Read the source of a change, and add the members to remove."""
    read_source(values, source)
    for name in texts(source.clear):
        if name in _OWNERS:
            values[name] = None
        else:
            values["members"] = {**values.get("members", {}), name: None}
            values.pop(name, None)


def _record(path: Path) -> dict[str, Any]:
    if str(path) == _STDIN:
        return _object(_stdin(), "stdin")
    with _opened(path) as stream:
        return _object(_bounded(stream, str(path)), str(path))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with file_to_read(state.settings, path) as file, open_input(file) as stream:
        yield stream


def _object(data: bytes, name: str) -> dict[str, Any]:
    reader = JsonReader(io.BytesIO(data), name)
    value = reader.value()
    reader.end()
    if not isinstance(value, dict):
        raise MalformedError("a memory must be one JSON object", file=name)
    return value


def _stdin() -> bytes:
    if sys.stdin.isatty():
        sys.stderr.write("reading stdin; end with Ctrl-D\n")
    return _bounded(sys.stdin.buffer, "stdin")


def _bounded(stream: BinaryIO, name: str) -> bytes:
    most = state.settings.options.limits.entry_bytes
    data = stream.read(most + 1)
    if len(data) > most:
        raise LimitError(f"more than {most} bytes, which is the limit of a memory", file=name)
    return data


def _decoded(data: bytes, name: str) -> str:
    """Return text without the final newline that `echo` and editors add."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=name, byte=error.start) from None
    return text.removesuffix("\n").removesuffix("\r")


_MOST_COUNTED = 8


def show_remembered(result: RememberResult, _: object = None) -> None:
    """Print the ID of a memory that was stored."""
    line(result.id)
    report_secrets(result.secrets, result.secrets_kept)
    if result.flagged:
        release = f"satchel quarantine release {short(result.id)} --bank {short(result.bank)}"
        message(
            f"Possible prompt injection ({'; '.join(result.flagged)}): not provided to models "
            f"until released: {release}"
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


def show_memory(result: MemoryDetails) -> None:
    """Print a record, member by member."""
    _notes(result.notes)
    rows = list[tuple[str, object]]([("id", result.id), ("state", _state(result))])
    if result.held:
        rows.append(("quarantined", "until it is reviewed"))
    if result.redacted is not None:
        rows.append(("redacted", result.redacted.summary))
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
    print_facts(rows)


def _state(memory: MemoryDetails) -> str:
    """Return the state of a record, and whether recall omits it because it is not valid now."""
    valid = is_within(now(), memory.text_of_valid_from, memory.text_of_valid_until)
    return memory.state if valid else f"{memory.state}, not valid now"


def show_history(result: History) -> None:
    """Print the versions of a memory."""
    _notes(result.notes)
    if result.left_out:
        message(f"{count(result.left_out, 'older version')} not shown")
    for version in result.versions:
        _show_version(version)


def show_stats(result: Stats) -> None:
    """Print the counts of a bank."""
    _notes(result.notes)
    print_facts(_numbers(result))


def show_revised(result: MemoryUpdate, _: object = None) -> None:
    """Print the ID of the new version."""
    line(result.id)
    if result.is_new:
        message(f"changed: {', '.join(result.fields)}; replaces {short(result.replaces or '')}")
    else:
        message("nothing to change")


def show_forgotten(result: list[MemoryChange]) -> None:
    """Print what was or would be forgotten."""
    show_changes(result, "forgotten", "was forgotten already")


def show_memories_restored(result: list[MemoryChange]) -> None:
    """Print what was or would be restored."""
    show_changes(result, "restored", "is current already")


def show_links(result: Neighborhood) -> None:
    """Print the links of a memory."""
    if result.things:
        rows = [
            [each.hops, _name(each), _how(each.by, each.id), _linked_item_text(each)]
            for each in result.things
        ]
        table(["steps", "id", "link", "memory"], rows)
    else:
        message("no links found")
    _bounds(result)


def show_paths(result: LinkPaths) -> None:
    """Print how two memories are connected."""
    if not result.ways:
        message("no path found")
    start = next(iter(result.things))
    for number, way in enumerate(result.ways):
        if number:
            line("")
        at = start
        line(_name(result.things[at]), "  ", _linked_item_text(result.things[at]))
        for step in way:
            at = step.target if step.source == at else step.source
            line("  ", _how(step, at))
            line(_name(result.things[at]), "  ", _linked_item_text(result.things[at]))
    _bounds(result)


def _bounds(result: Neighborhood | LinkPaths) -> None:
    if not result.complete:
        message("There may be more: raise --budget, --hops or --limit.", style="yellow")
    _notes(result.notes)


def _notes(notes: list[str]) -> None:
    for note in notes:
        message(note)


def _row(memory: Memory) -> list[object]:
    """Return the columns of a memory in a listing, the longest last."""
    marks = [f"#{tag}" for tag in memory.tags]
    text = safe(excerpt(memory.text))
    if marks:
        text.append("  ").append_text(dim(excerpt(" ".join(marks))))
    if memory.redacted is not None:
        text.append("  ").append_text(dim(excerpt("redacted")))
    when = memory.text_of_date
    return [short(memory.id), short_time(when), memory.type, text]


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


def _show_version(version: MemoryVersion) -> None:
    what = "corrected" if version.corrects else "changed" if version.differs else "remembered"
    line(
        Text(short_time(version.text_of_arrived_at, seconds=True)),
        f"  {what}  ",
        version.id,
        style="bold",
    )
    for name, (before, after) in version.differs.items():
        line(f"  {name}: ", _excerpt_of(before), " -> ", _excerpt_of(after))
    if not version.differs:
        line("  ", excerpt(version.text))
    if version.redacted is not None:
        line("  redacted ", excerpt(version.redacted.summary))
    for event in version.events:
        why = f": {event.reason}" if event.reason else ""
        who = f" by {event.actor}" if event.actor else ""
        line(f"  {short_time(event.at, seconds=True)}  {event.state}{who}{why}")
    if version.state == CURRENT:
        line("  current", style="green")


def _excerpt_of(part: Any) -> str:
    if part is None:
        return "nothing"
    return excerpt(part if isinstance(part, str) else gist_of({"data": part}))


def _numbers(stats: Stats) -> Iterator[tuple[str, object]]:
    yield "bank", f"{stats.name or ''}  {stats.id}"
    yield "memories", f"{stats.memories:,} current"
    for name, counted in (
        ("types", stats.types),
        ("users", stats.users),
        ("from", stats.providers),
        ("tags", stats.tags),
        ("states", stats.states),
    ):
        if counted:
            yield name, _most(counted)
    if stats.held:
        yield "quarantined", stats.held
    if stats.oldest is not None and stats.newest is not None:
        yield "dates", f"{stats.oldest[:10]} to {stats.newest[:10]}"
    if stats.vectors is not None:
        vectors = stats.vectors
        yield "vectors", f"{vectors.model}: {vectors.count:,}, {vectors.missing:,} missing"
    yield "log", f"{count(stats.records, 'record')}: {_most(stats.logged)}"
    yield "imports", stats.imports
    stored = "" if stats.store_bytes is None else f", the store's files {size(stats.store_bytes)}"
    yield "size", f"{size(stats.bytes)}{stored}"


def _most(counted: dict[str, int]) -> str:
    most = list(counted.items())[:_MOST_COUNTED]
    rest = len(counted) - len(most)
    text = ", ".join(f"{excerpt(name)} {number:,}" for name, number in most)
    return f"{text}, and {rest:,} more" if rest else text


def _how(step: LinkStep, end: str) -> str:
    """Return the type of a link, with its direction."""
    if step.target == end:
        return f"{short(step.source)} {excerpt(step.type)} ->"
    return f"{short(step.target)} <- {excerpt(step.type)}"


def _name(thing: LinkedItem) -> str:
    return excerpt(short(thing.id) if thing.state != PLACEHOLDER else thing.id)


def _linked_item_text(thing: LinkedItem) -> object:
    if thing.state != CURRENT:
        return dim(f"({thing.state})")
    return safe(excerpt(thing.text)) if thing.text is not None else dim(thing.type or "")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        operations.remember,
        show_remembered,
        bank=_open_to_fill,
        extra=MemorySourceOptions,
        prepare=read_new,
    )
    command(app, operations.list_memories, show_listing, bank=open_to_read, label="searching")
    app.command("show")(show_command)
    command(app, operations.history, show_history, bank=open_to_read)
    command(app, statistics.show_stats, show_stats, bank=open_to_read, label="counting")
    for operation in (operations.update, operations.correct):
        command(
            app,
            operation,
            show_revised,
            bank=_open_to_write,
            extra=ChangeSourceOptions,
            prepare=read_changes,
        )
    command(app, operations.forget, show_forgotten, bank=_open_to_write)
    command(app, operations.restore, show_memories_restored, bank=_open_to_write)
    command(app, operations.links, show_links, bank=open_to_read)
    command(app, operations.path, show_paths, bank=open_to_read)


def _open_to_write(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, bank, writes=True)


def _open_to_fill(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return init.open_bank_for_writing(
        state.settings, bank, lambda: owner_key(None), _report_created
    )


def _report_created(done: init.InitResult) -> None:
    message(f"created the bank {done.name!r} in {done.store}")


def show_command(
    memory: Annotated[
        str,
        Argument(
            metavar="ID", help="ID or ID prefix; or its text, or a part that no other memory has."
        ),
    ],
    raw: Annotated[
        bool, CommandOption("--raw", help="Print its canonical bytes, whose hash is its ID.")
    ] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a memory, or any other record, with its state, versions and proof.

    Example: `satchel show 0f3c12`
    """
    with open_bank(state.settings, bank) as opened:
        if raw:
            print_raw(bank_details.raw(opened, memory))
            return
        result = operations.show(opened, memory)
    if as_json:
        print_json(result)
    else:
        show_memory(result)


show_command.__operation__ = operations.show  # type: ignore[attr-defined]  # --raw prints bytes
