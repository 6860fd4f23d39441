"""Memory files to and from a file with Anthropic's memories, as their API lists them."""

import json
from pathlib import Path
from typing import Any

from satchel.actions.config import Settings
from satchel.actions.filing.opened import opened_files
from satchel.actions.paths.permission import file_to_read, file_to_write
from satchel.errors import LimitError, MalformedError
from satchel.files.exchange.memory_stores import Moved, from_memories, to_memories

MOST_BYTES = 512 << 20
"""Of such a file: more than twice what a store there can hold."""


def import_memories(
    settings: Settings, source: Path, key: str | None = None, *, actor: str = "import"
) -> Moved:
    """Write the memories of a file into the memory files of a key, and save them.

    Args:
        settings: Where keys are.
        source: A JSON list of memories, a page of the API (``{"data": [...]}``), or one a line.
        key: As ``opened_files`` takes it; made where there are none.
        actor: Who the audit says it was.

    Raises:
        MalformedError: If it is no such file; then nothing is written.
        LimitError: If it is too large.
        SatchelError: As ``opened_files``.
    """
    with file_to_read(settings, source) as opened, opened.stream() as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise LimitError(f"such a file has at most {MOST_BYTES:,} bytes", file=str(source))
    memories = _memories(data, source)
    with opened_files(settings, key, create=True) as store:
        told = from_memories(store, memories, actor=actor)
        store.save()
    return told


def export_memories(
    settings: Settings, output: Path, key: str | None = None, *, overwrite: bool = False
) -> Moved:
    """Write the memory files of a key to a file as memories, a page of the API.

    Raises:
        TargetExistsError: If the file is there, and is not to be replaced.
        TargetError: If it cannot be written; nothing is left behind then.
        SatchelError: As ``opened_files``.
    """
    told = Moved()
    with (
        opened_files(settings, key, leaves=True) as store,
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
            f"this is no JSON: {error}", file=str(source), hint="Or one memory a line."
        ) from None
    if isinstance(found, dict):
        found = found["data"] if isinstance(found.get("data"), list) else [found]
    if not isinstance(found, list) or not any(_is_memory(one) for one in found):
        raise MalformedError(
            "there is no memory in it: an object with path and content",
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
