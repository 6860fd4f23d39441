"""``satchel file``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.actions.filing import operations
from satchel.actions.filing.exchanging import read_memories
from satchel.actions.filing.opened import opened_files
from satchel.actions.filing.operations import FileExportOptions, FileSyncOptions, OpenFiles
from satchel.actions.paths.permission import file_to_read
from satchel.errors import LimitError, UsageError
from satchel.files.beyond import Synced
from satchel.files.exchange.folders import Alike
from satchel.files.keeping.tree import LARGEST
from satchel.ports.operations import Option, Options, PathText
from satchel.surfaces.cli._console import state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._stdout import output_file
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.filing import _showing as views

file = Group(help="Manage memory files: text at paths, with history.")

_REFUSED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStoreOptions(Options):
    """Which file store is meant."""

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
    """Where the text of a file is read from."""

    file: Annotated[PathText | None, Option("Read the text from this file.", values="file")] = None


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(file, name="file")


@contextmanager
def _opened(chosen: FileStoreOptions, **how: bool) -> Iterator[OpenFiles]:
    root = None if chosen.root is None else Path(chosen.root)
    with opened_files(state.settings, chosen.file_store, root, **how) as store:
        yield OpenFiles(state.settings, store)


def _to_read(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, read_only=True)


def _to_change(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen)


def _to_fill(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, create=True)


def _to_sync(options: FileSyncOptions, chosen: FileStoreOptions) -> Any:
    if options.folder is not None:
        return _opened(chosen, create=True, leaves=True)
    return _opened(chosen, create=chosen.root is not None)


def _to_export(_: object, chosen: FileStoreOptions) -> Any:
    return _opened(chosen, leaves=True)


def _name_output(values: dict[str, Any], _: FileStoreOptions) -> None:
    path = Path(values.get("path", FileExportOptions().path))
    values["path"] = state.held.enter_context(output_file(path))


def _read_memories(values: dict[str, Any], _: FileStoreOptions) -> None:
    """Read the memories before a file store is created for them."""
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


def _rest(result: Synced | Alike) -> int:
    """Return the exit status for what is not in sync."""
    if isinstance(result, Synced):
        return int(bool(result.refused))
    return int(bool(result.left_out or result.conflicts))


def _add(operation: Any, show: Any, context: Any, **more: Any) -> None:
    command(file, operation, show, context=context, **{"extra": FileStoreOptions, **more})


_add(
    operations.write_file,
    views.show_written,
    _to_fill,
    extra=TextOptions,
    prepare=_read_text,
)
_add(operations.edit_file, views.show_written, _to_change)
_add(operations.move_file, views.show_moved, _to_change)
_add(operations.delete_file, views.show_deleted, _to_change)
_add(operations.restore_file, views.show_written, _to_change)
_add(operations.list_files, views.show_list, _to_read)
_add(operations.read_file, views.show_content, _to_read)
_add(
    operations.search_files,
    views.show_lines,
    _to_read,
    status=lambda result: int(not result),
)
_add(operations.file_history, views.show_history, _to_read)
_add(
    operations.diff_file,
    views.show_diff,
    _to_read,
    status=lambda result: int(bool(result.diff)),
)
_add(
    operations.audit_files,
    views.show_audit,
    _to_read,
    status=lambda result: 0 if result.ok else _REFUSED,
)
_add(
    operations.promote_files,
    views.show_promoted,
    _to_change,
    status=lambda result: int(any(each.reason is not None for each in result)),
)
_add(operations.sync_files, views.show_synced, _to_sync, status=_rest)
_add(
    operations.import_files,
    views.show_exchanged,
    _to_fill,
    prepare=_read_memories,
    status=lambda result: int(bool(result.lost)),
)
_add(
    operations.export_files,
    views.show_exchanged,
    _to_export,
    prepare=_name_output,
    status=lambda result: int(bool(result.lost)),
)
_add(operations.collect_files, views.show_collected, _to_change)
