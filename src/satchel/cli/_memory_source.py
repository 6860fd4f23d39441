"""Where commands read a memory from, besides their arguments."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from satchel.cli._console import state
from satchel.config.options import file_to_read
from satchel.crypto.json_reader import JsonReader
from satchel.errors import LimitError, MalformedError, UsageError
from satchel.ports.operations import Option, Options, PathText, texts
from satchel.runtime.files import open_input

_STDIN = "-"
_OWNERS = ("user", "agent", "run", "app")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySourceOptions(Options):
    """Where a memory is read from."""

    file: Annotated[
        PathText | None, Option("Read the text from this file; - for standard input.")
    ] = None
    record: Annotated[
        PathText | None,
        Option("Read members as a JSON object from this file; - for standard input. Options win."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSourceOptions(MemorySourceOptions):
    """Where the changes of a memory are read from."""

    clear: Annotated[str | tuple[str, ...], Option("Remove this member. Repeatable.")] = ()


def read_new(values: dict[str, Any], source: MemorySourceOptions) -> None:
    """Read the memory to store: from its arguments, a file, or a pipe.

    Raises:
        UsageError: If there is none.
        SatchelError: As ``read_source``.
    """
    given = ("text", "data", "members")
    is_given = source.file is not None or source.record is not None
    if not is_given and not any(name in values for name in given):
        if sys.stdin.isatty():
            raise UsageError("no text given", field="TEXT", hint='Use: satchel remember "..."')
        values["text"] = _decoded(_stdin(), "stdin")
        if not values["text"]:
            raise UsageError("no text given", field="TEXT", hint='Use: satchel remember "..."')
    read_source(values, source)


def read_source(values: dict[str, Any], source: MemorySourceOptions) -> None:
    """Read what is in files, or on standard input, into the values of a command's options.

    Raises:
        UsageError: If the text is given twice.
        UnreadableError: If a file cannot be read.
        MalformedError: If it is not UTF-8, or not JSON.
        LimitError: If it is larger than a record may be.
    """
    text, file, record = values.get("text"), source.file, source.record
    given = [str(each) for each in (text, file, record) if each is not None]
    if given.count(_STDIN) > 1 or (text is not None and file is not None):
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
    """Read the source of a change, and note the members that are to be removed."""
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
    """Return text without the end of its last line, which `echo` and editors add."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=name, byte=error.start) from None
    return text.removesuffix("\n").removesuffix("\r")
