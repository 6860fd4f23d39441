"""Memory files to and from a file with Anthropic's memories, as their API lists them."""

import json
from pathlib import Path
from typing import Any

from satchel.actions.config import Settings
from satchel.actions.paths.permission import file_to_read, file_to_write
from satchel.errors import LimitError, MalformedError
from satchel.files import MemoryStore
from satchel.files.exchange.memory_stores import Moved, to_memories

MOST_BYTES = 512 << 20
"""Of such a file: more than twice what a store there can hold."""


def read_memories(settings: Settings, source: Path) -> list[Any]:
    """Return the memories of a file: a JSON list, a page of the API, or one a line.

    Raises:
        MalformedError: If it is no such file.
        LimitError: If it is too large.
        UnreadableError: If it cannot be opened.
    """
    with file_to_read(settings, source) as opened, opened.stream() as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise LimitError(f"the file can have at most {MOST_BYTES:,} bytes", file=str(source))
    return _memories(data, source)


def export_memories(
    settings: Settings, output: Path, store: MemoryStore, *, overwrite: bool = False
) -> Moved:
    """Write the files of a store to a file as memories, a page of the API.

    Raises:
        TargetExistsError: If the file is there, and is not to be replaced.
        TargetError: If it cannot be written; nothing is left behind then.
    """
    told = Moved()
    with (
        file_to_write(settings, output) as outlet,
        outlet.writing(overwrite=overwrite) as sink,
    ):
        sink.write(b'{"data":[')
        for number, memory in enumerate(to_memories(store, told)):
            sink.write((",\n" if number else "\n").encode() + json.dumps(memory).encode())
        sink.write(b"\n]}\n")
    return told


def _memories(data: bytes, source: Path) -> list[Any]:
    try:
        found = _parsed(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError(
            f"not JSON: {error}", file=str(source), hint="Or use one memory per line."
        ) from None
    if isinstance(found, dict):
        found = found["data"] if isinstance(found.get("data"), list) else [found]
    if not isinstance(found, list) or not any(_is_memory(one) for one in found):
        raise MalformedError(
            "no memories found: expected objects with path and content",
            file=str(source),
            hint="List them with view=full.",
        )
    return found


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) > 1:
            return [json.loads(line) for line in lines]
        raise


def _is_memory(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("path"), str) and "content" in one
