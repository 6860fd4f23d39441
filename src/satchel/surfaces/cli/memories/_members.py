"""The options that say what a memory holds, and reading them from the command line or a file."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from satchel.actions.memories.drafting import moment
from satchel.actions.paths.permission import file_to_read
from satchel.disk.reading import reading
from satchel.errors import LimitError, MalformedError, UsageError
from satchel.seal.encoding.strict_json import JsonReader
from satchel.surfaces.cli._console import state

Text = Annotated[str | None, typer.Argument(help="The memory in words; - reads stdin.")]
File = Annotated[Path | None, typer.Option("--file", help="Read the words from a text file.")]
Data = Annotated[str | None, typer.Option("--data", help="The memory as JSON, when not words.")]
RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record", help="Read members as one JSON object from a file, - for stdin; options win."
    ),
]
Component = Annotated[
    str | None,
    typer.Option("--type", help="semantic (a fact), episodic, procedural, working or identity."),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A label. Repeatable.")]
Parents = Annotated[
    list[str] | None,
    typer.Option("--parent", help="A memory that it was drawn from: id or start. Repeatable."),
]
Kind = Annotated[str | None, typer.Option("--kind", help="Your own word for what it is.")]
Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", help="NAME=TEXT, or a JSON object. Repeatable."),
]
Occurred = Annotated[
    str | None, typer.Option("--occurred-at", help="When it happened, as 2026-03-01T09:30Z.")
]
ValidFrom = Annotated[str | None, typer.Option("--valid-from", help="Since when it is true.")]
ValidUntil = Annotated[
    str | None, typer.Option("--valid-until", help="When it stopped being true.")
]
Expires = Annotated[
    str | None, typer.Option("--expires-at", help="When it must no longer be shown.")
]
Salience = Annotated[float | None, typer.Option("--salience", help="How much it matters, 0 to 1.")]
User = Annotated[str | None, typer.Option("--user", help="The user that it belongs to.")]
Agent = Annotated[str | None, typer.Option("--agent", help="The agent that it belongs to.")]
RunOf = Annotated[str | None, typer.Option("--run", help="The run that it belongs to.")]
App = Annotated[str | None, typer.Option("--app", help="The application that it belongs to.")]
Actor = Annotated[
    str | None, typer.Option("--actor", help="Who does it, for the history, as agent:planner.")
]
Why = Annotated[str | None, typer.Option("--reason", help="Why, for the history.")]

_TIMES = ("occurred_at", "valid_from", "valid_until", "expires_at")
_OWNERS = ("user", "agent", "run", "app")
_STDIN = "-"


def members_of(
    text: str | None, file: Path | None, record: Path | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return members of an entry by name, from what was said on the command line.

    Args:
        text: The words, or ``-``.
        file: Where the words are.
        record: Where a JSON object with members is.
        options: The values of the options of this module by the member's name, ``metadata`` and
            ``data`` as they were typed; None for those that were not given.

    Raises:
        UsageError: If the words are given twice, or a time names no moment.
        UnreadableError: If a file cannot be read.
        MalformedError: If it is not UTF-8, or not JSON.
        LimitError: If it is larger than a record may be.
    """
    from_stdin = [one for one in (text, file, record) if str(one) == _STDIN]
    if len(from_stdin) > 1 or (text is not None and file is not None):
        raise UsageError("the words are given twice", field="TEXT", hint="Give them once.")
    members = _record(record) if record is not None else {}
    given = {name: value for name, value in options.items() if value is not None}
    for name in _TIMES:
        if name in given:
            given[name] = moment(given[name], f"--{name.replace('_', '-')}")
    if "metadata" in given:
        given["metadata"] = {**_object(members, "metadata"), **_metadata(given["metadata"])}
    if "data" in given:
        given["data"] = _json(given["data"].encode("utf-8", "surrogateescape"), "--data")
    owner = {name: given.pop(name) for name in _OWNERS if name in given}
    if owner:
        given["scope"] = {**_object(members, "scope"), **owner}
    if text == _STDIN or (file is not None and str(file) == _STDIN):
        given["text"] = _text(_stdin(), "stdin")
    elif file is not None:
        with _opened(file) as stream:
            given["text"] = _text(_bounded(stream, str(file)), str(file))
    elif text is not None:
        given["text"] = text
    return members | given


def _record(path: Path) -> dict[str, Any]:
    if str(path) == _STDIN:
        return _members(_json(_stdin(), "stdin"), "stdin")
    with _opened(path) as stream:
        return _members(_json(_bounded(stream, str(path)), str(path)), str(path))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with file_to_read(state.settings, path) as file, reading(file) as stream:
        yield stream


def _members(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError("a memory must be one JSON object", file=name)
    return value


def _object(members: dict[str, Any], name: str) -> dict[str, Any]:
    found = members.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise MalformedError("this must be an object", field=name)
    return found


def _metadata(said: list[str]) -> dict[str, Any]:
    found = dict[str, Any]()
    for each in said:
        if each.lstrip().startswith("{"):
            value = _json(each.encode("utf-8", "surrogateescape"), "--metadata")
            found |= _members(value, "--metadata")
            continue
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(
                f"not NAME=TEXT: {each[:60]!r}", field="--metadata", hint="Or give a JSON object."
            )
        found[name] = value
    return found


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


def _text(data: bytes, name: str) -> str:
    """Return text without the end of its last line, which `echo` and editors add."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=name, byte=error.start) from None
    return text.removesuffix("\n").removesuffix("\r")


def _json(data: bytes, name: str) -> Any:
    reader = JsonReader(io.BytesIO(data), name)
    value = reader.value()
    reader.end()
    return value
