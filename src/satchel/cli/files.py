"""``satchel file``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.cli._console import count, line, message, print_raw, short_time, size, state, table
from satchel.cli._operations import command
from satchel.cli._options import output_file
from satchel.cli._tree import Group
from satchel.config.options import file_to_read
from satchel.errors import LimitError, UsageError
from satchel.files import MemoryMeta, operations
from satchel.files.anthropic_stores import FileTransferResult, read_memories
from satchel.files.bank_files import opened_files
from satchel.files.commit import CollectResult
from satchel.files.folder_sync import FolderSyncResult
from satchel.files.manifest import StoredVersion
from satchel.files.memory_store import FileMatch, FileSyncResult
from satchel.files.operations import (
    FileAudit,
    FileContent,
    FileDiff,
    FileExportOptions,
    FileLine,
    FileSyncOptions,
    OpenFiles,
)
from satchel.files.promotion import PromotionDecision
from satchel.files.tree import LARGEST
from satchel.ports.operations import Option, Options, PathText

_SHOWN = 12


def show_written(result: MemoryMeta, _: object) -> None:
    """Print the version of a file that was written."""
    line(f"{result.path} version {result.version}, {result.sha256}")


def show_moved(result: Sequence[str], _: object) -> None:
    """Print how many files were moved."""
    line(f"{count(len(result), 'file')} moved")


def show_deleted(result: Sequence[str], _: object) -> None:
    """Print how many files were deleted."""
    line(f"{count(len(result), 'file')} deleted")


def show_list(result: Sequence[FileLine], _: object) -> None:
    """Print files as a table."""
    if not result:
        message("no files")
        return
    table(["path", "size", "version", "changed", "by"], map(_row, result))


def _row(file: FileLine) -> list[object]:
    if not file.managed:
        return [file.path, "", "", "by another program; import it: satchel file sync", ""]
    by = file.updated_by or ""
    return [file.path, size(file.bytes or 0), file.version or "", short_time(file.updated_at), by]


def show_content(result: FileContent, _: object) -> None:
    """Print a file, byte for byte."""
    print_raw(result.content)


def show_lines(result: Sequence[FileMatch], _: object) -> None:
    """Print the lines that match."""
    for each in result:
        line(f"{each.path}:{each.line}: {each.text}")
    if not result:
        message("nothing found")


def show_history(result: Sequence[StoredVersion], _: object) -> None:
    """Print the versions of a file."""
    if not result:
        message("no versions")
        return
    rows: list[list[object]] = [
        [
            *(each.version, each.op, each.sha[:_SHOWN], size(each.bytes)),
            *(short_time(each.at, seconds=True), each.actor, each.reason),
        ]
        for each in result
    ]
    table(["version", "change", "sha256", "size", "when", "by", "why"], rows)


def show_diff(result: FileDiff, _: object) -> None:
    """Print how two versions differ."""
    print_raw(result.diff.encode())


def show_audit(result: FileAudit, _: object) -> None:
    """Print events, or the result of verifying them."""
    if result.verified is not None:
        line(f"{count(result.verified, 'event')}, {'verified' if result.ok else 'not verified'}")
        for problem in result.problems:
            line(f"  {problem}")
        return
    rows: list[list[object]] = [
        [
            short_time(each.get("ts"), seconds=True),
            f"{each.get('op', '')} {each.get('error', '')}".strip(),
            each.get("path", ""),
            each.get("actor", ""),
            each.get("reason", ""),
        ]
        for each in result.events
    ]
    table(["when", "event", "path", "by", "why"], rows)


def show_promoted(result: Sequence[PromotionDecision], _: object) -> None:
    """Print which proposals were or would be promoted."""
    stay = [each for each in result if each.reason is not None]
    line(f"proposals allowed: {len(result) - len(stay):,} of {len(result):,}")
    for each in result:
        if each.reason is None:
            line(f"  {each.proposal} -> {each.target}")
        else:
            message(f"  not promoted: {each.proposal}: {each.reason}")


def show_synced(result: FileSyncResult | FolderSyncResult, _: object) -> None:
    """Print what was synchronized."""
    if isinstance(result, FileSyncResult):
        created, changed, deleted = map(len, (result.created, result.changed, result.deleted))
        line(f"{created:,} new, {changed:,} changed, {deleted:,} deleted")
        skipped: Sequence[str] = result.refused
    else:
        deleted = len(result.deleted_in_store) + len(result.deleted_in_folder)
        line(
            f"{len(result.to_store):,} to the store, {len(result.to_folder):,} to the folder,"
            f" {deleted:,} deleted"
        )
        for path in result.conflicts:
            message(f"  changed on both sides, kept twice: {path}")
        skipped = result.left_out
    for problem in skipped:
        message(f"  skipped: {problem}")


def show_exchanged(result: FileTransferResult, _: object) -> None:
    """Print how many memories were moved."""
    line(f"{len(result.moved):,} moved, {len(result.unchanged):,} unchanged")
    for problem in result.lost:
        message(f"  skipped: {problem}")


def show_collected(result: CollectResult, _: object) -> None:
    """Print what was removed."""
    line(f"{count(result.removed, 'pack')} removed, {result.waiting:,} waiting")
    if result.rewritten:
        line(f"  what is still used was copied from {count(result.rewritten, 'pack')}")


file = Group(help="Manage memory files: text at paths, with history.")

_REFUSED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStoreOptions(Options):
    """Which file store to use."""

    file_store: Annotated[
        str | None,
        Option("Name of the file store. Default: that of the bank.", metavar="NAME", values="bank"),
    ] = None
    root: Annotated[
        PathText | None,
        Option("Folder that has a file store, in place of a name.", values="file"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(FileStoreOptions):
    """Source of the text of a file."""

    file: Annotated[PathText | None, Option("Read the text from this file.", values="file")] = None


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(file, name="file")


@contextmanager
def _opened(chosen: FileStoreOptions, **how: bool) -> Iterator[OpenFiles]:
    root = None if chosen.root is None else Path(chosen.root)
    with opened_files(state.settings, chosen.file_store, root, **how) as store:
        yield OpenFiles(state.settings, store)


def _open_to_read(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, read_only=True)


def _open_to_change(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen)


def _open_to_fill(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, create=True)


def _open_to_sync(options: FileSyncOptions, chosen: FileStoreOptions) -> Any:
    if options.folder is not None:
        return _opened(chosen, create=True, leaves=True)
    return _opened(chosen, create=chosen.root is not None)


def _open_to_export(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, leaves=True)


def _name_output(values: dict[str, Any], _: FileStoreOptions) -> None:
    path = Path(values.get("path", FileExportOptions().path))
    values["path"] = state.held.enter_context(output_file(path))


def _read_memories(values: dict[str, Any], _: FileStoreOptions) -> None:
    """Read and validate the memories before a file store is created."""
    values["memories"] = read_memories(state.settings, Path(values["file"]))


def _read_text(values: dict[str, Any], source: TextOptions) -> None:
    """Read the text to write: an argument, a file, or standard input."""
    text, data = values.pop("text", None), b""
    if source.file is not None:
        if text is not None:
            raise UsageError("the text is given twice", field="TEXT", hint="Drop TEXT or --file.")
        with file_to_read(state.settings, Path(source.file)) as opened, opened.stream() as stream:
            data = stream.read(LARGEST + 1)
    elif text is not None and text != "-":
        data = text.encode("utf-8", "surrogateescape")
    elif sys.stdin is not None and not sys.stdin.isatty():
        data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise LimitError(f"a memory file can have at most {LARGEST:,} bytes")
    values["content"] = data


def _rest(result: FileSyncResult | FolderSyncResult) -> int:
    """Return the exit status for unsynchronized files."""
    if isinstance(result, FileSyncResult):
        return int(bool(result.refused))
    return int(bool(result.left_out or result.conflicts))


def _add(operation: Any, show: Any, context: Any, **more: Any) -> None:
    command(file, operation, show, context=context, **{"extra": FileStoreOptions, **more})


_add(
    operations.write_file,
    show_written,
    _open_to_fill,
    extra=TextOptions,
    prepare=_read_text,
)
_add(operations.edit_file, show_written, _open_to_change)
_add(operations.move_file, show_moved, _open_to_change)
_add(operations.delete_file, show_deleted, _open_to_change)
_add(operations.restore_file, show_written, _open_to_change)
_add(operations.list_files, show_list, _open_to_read)
_add(operations.read_file, show_content, _open_to_read)
_add(
    operations.search_files,
    show_lines,
    _open_to_read,
    status=lambda result: int(not result),
)
_add(operations.file_history, show_history, _open_to_read)
_add(
    operations.diff_file,
    show_diff,
    _open_to_read,
    status=lambda result: int(bool(result.diff)),
)
_add(
    operations.audit_files,
    show_audit,
    _open_to_read,
    status=lambda result: 0 if result.ok else _REFUSED,
)
_add(
    operations.promote_files,
    show_promoted,
    _open_to_change,
    status=lambda result: int(any(each.reason is not None for each in result)),
)
_add(operations.sync_files, show_synced, _open_to_sync, status=_rest)
_add(
    operations.import_files,
    show_exchanged,
    _open_to_fill,
    prepare=_read_memories,
    status=lambda result: int(bool(result.lost)),
)
_add(
    operations.export_files,
    show_exchanged,
    _open_to_export,
    prepare=_name_output,
    status=lambda result: int(bool(result.lost)),
)
_add(operations.collect_files, show_collected, _open_to_change)
