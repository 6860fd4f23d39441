"""Import from and export to Anthropic's memory stores.

A memory there is a text at an absolute path with its SHA: at most 100,000 bytes, at most 2,000 in a
store (API of July 2026). Files that do not fit are reported, never truncated.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from satchel.config.options import file_to_read, file_to_write
from satchel.config.settings import Settings
from satchel.errors import ConcurrencyError, LimitError, MalformedError, MemoryStoreError
from satchel.files.memory_store import MemoryStore

MOST_BYTES = 100_000
MOST_MEMORIES = 2_000
MOST_PARTS = 20


@dataclass
class FileTransferResult:
    """Result of an import or export."""

    moved: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Paths that were not transferred, with the reason."""


def to_memories(
    store: MemoryStore, result: FileTransferResult | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the files of a store as memories, as the API lists them.

    Args:
        store: The store.
        result: Receives the exported paths, and those that do not fit.
    """
    summary = FileTransferResult() if result is None else result
    for path in store.list_paths():
        data = store.read_bytes(path)
        reason = _unfit(path, data, len(summary.moved))
        if data is None or reason is not None:
            summary.lost.append(f"{path}: {reason or 'it is missing'}")
            continue
        meta = store.get_meta(path)
        summary.moved.append(path)
        yield {
            "type": "memory",
            "path": f"/{path}",
            "content": data.decode(),
            "content_sha256": hashlib.sha256(data).hexdigest(),
            "content_size_bytes": len(data),
            **({} if meta is None else {"updated_at": meta.updated_at}),
        }


def from_memories(
    store: MemoryStore, memories: Iterable[dict[str, Any]], *, actor: str = "import"
) -> FileTransferResult:
    """Write memories into a store as files.

    An existing file with another text is not replaced, and is reported.

    Args:
        store: The store; the caller saves it.
        memories: As the API lists them, with their content.
        actor: Actor for the audit log.
    """
    result = FileTransferResult()
    for number, memory in enumerate(memories, 1):
        try:
            path, text = _checked_memory(memory)
            if store.current_sha(path) == hashlib.sha256(text.encode()).hexdigest():
                result.unchanged.append(path)
                continue
            reason = f"memory {memory.get('id') or number}"
            store.write_text(path, text, actor=actor, reason=reason[:200], expected_sha="")
        except ConcurrencyError as error:
            result.lost.append(f"{error.path}: the path has other text")
            continue
        except MemoryStoreError as error:
            result.lost.append(f"memory {number}: {error}")
            continue
        result.moved.append(path)
    return result


def _checked_memory(memory: Any) -> tuple[str, str]:
    """Return the path and the text of a memory, verified by its SHA.

    Raises:
        MemoryStoreError: If one is missing, or the SHA does not match.
    """
    if not isinstance(memory, dict):
        raise MemoryStoreError("a memory must be an object")
    path, text = memory.get("path"), memory.get("content")
    if not isinstance(path, str) or not path.startswith("/"):
        raise MemoryStoreError("the path of a memory must start with /")
    if not isinstance(text, str):
        raise MemoryStoreError("it has no content: list memories with view=full", path=path[:200])
    try:
        sha = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise MemoryStoreError("the content is not Unicode", path=path[:200]) from None
    if memory.get("content_sha256", sha) != sha:
        raise MemoryStoreError("the content does not match its SHA-256", path=path[:200])
    return path[1:], text


def _unfit(path: str, data: bytes | None, moved: int) -> str | None:
    if data is None:
        return "it is missing"
    if len(data) > MOST_BYTES:
        return f"a memory there can have at most {MOST_BYTES:,} bytes, this one has {len(data):,}"
    if path.count("/") >= MOST_PARTS:
        return f"a path there can have at most {MOST_PARTS} segments"
    if moved >= MOST_MEMORIES:
        return f"a store there can have at most {MOST_MEMORIES:,} memories"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "it is not text"
    return None


MOST_FILE_BYTES = 512 << 20
"""Size limit of such a file: more than twice the size of a full store."""


def read_memories(settings: Settings, source: Path) -> list[Any]:
    """Return the memories of a file: a JSON list, a page of the API, or JSON lines.

    Raises:
        MalformedError: If the file has none of these forms.
        LimitError: If it is too large.
        UnreadableError: If it cannot be opened.
    """
    with file_to_read(settings, source) as opened, opened.stream() as stream:
        data = stream.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise LimitError(f"the file can have at most {MOST_FILE_BYTES:,} bytes", file=str(source))
    return _memories(data, source)


def export_memories(
    settings: Settings, output: Path, store: MemoryStore, *, overwrite: bool = False
) -> FileTransferResult:
    """Write the files of a store to a file, as memories in a page of the API.

    Raises:
        TargetExistsError: If the file exists, and may not be replaced.
        TargetError: If it cannot be written. No partial file remains.
    """
    result = FileTransferResult()
    with (
        file_to_write(settings, output) as outlet,
        outlet.writing(overwrite=overwrite) as sink,
    ):
        sink.write(b'{"data":[')
        for number, memory in enumerate(to_memories(store, result)):
            sink.write((",\n" if number else "\n").encode() + json.dumps(memory).encode())
        sink.write(b"\n]}\n")
    return result


def _memories(data: bytes, source: Path) -> list[Any]:
    try:
        memories = _parsed(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError(
            f"not JSON: {error}", file=str(source), hint="Or use one memory per line."
        ) from None
    if isinstance(memories, dict):
        memories = memories["data"] if isinstance(memories.get("data"), list) else [memories]
    if not isinstance(memories, list) or not any(_is_memory(memory) for memory in memories):
        raise MalformedError(
            "no memories found: expected objects with path and content",
            file=str(source),
            hint="List them with view=full.",
        )
    return memories


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
