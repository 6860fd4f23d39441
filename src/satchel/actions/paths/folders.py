"""An input that is a folder: an export that somebody unpacked already.

It is put together again, in a private file that is gone afterwards, so that all readers have one
thing to read, more than once and always the same, whatever happens in the folder meanwhile.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from satchel.actions.config import Settings
from satchel.actions.paths.permission import OWN, Permission, file_to_read, folder_to_read
from satchel.disk.contained import ContainedFolder
from satchel.disk.reading import OpenFile
from satchel.disk.roots import Said
from satchel.errors import LimitError, PathRefusedError, TargetError

READ = (".json", ".jsonl", ".md")
"""Endings of the files whose contents are looked at; of others, the names alone."""

DATABASES = ("chroma.sqlite3",)
"""Names of databases that stand for the folder they are in."""

_MOST_FILES = 100_000
_DEEPEST = 16
_THEN = (1980, 1, 1, 0, 0, 0)


@contextmanager
def input_to_read(
    settings: Settings, path: Said | OpenFile, permission: Permission = OWN
) -> Iterator[OpenFile]:
    """Open what somebody names to be read in: a file, or a folder with the files of an export.

    Raises:
        SatchelError: As ``file_to_read`` for a file, and ``folder_to_read`` for a folder.
        LimitError: If there is more in a folder than any export has.
        TargetError: If there is no room to put the files of a folder together.
    """
    if isinstance(path, OpenFile) or not _is_folder(path):
        with file_to_read(settings, path, permission) as file:
            yield file
        return
    with folder_to_read(settings, path, permission) as folder:
        names = sorted(_names_in(folder))
        database = next((name for name in DATABASES if name in names), None)
        if database is not None:
            path = Path(path) / database
        elif any(name.endswith(READ) for name in names):
            with _packed(folder, names, Path(path)) as file:
                yield file
            return
    with file_to_read(settings, path, permission) as file:  # which says that it is a folder
        yield file


def _is_folder(path: Said) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # a name that is too long, or no name; opening it says so
        return False


def _names_in(folder: ContainedFolder) -> Iterator[str]:
    waiting, count = [tuple[str, ...]()], 0
    while waiting:
        place = waiting.pop()
        for name, kind in folder.listing(place):
            path, count = (*place, name), count + 1
            if kind == "link":
                raise PathRefusedError("a link in an export", file=str(folder.path.joinpath(*path)))
            if count > _MOST_FILES or len(path) > _DEEPEST:
                problem = f"more than {_MOST_FILES} files, or {_DEEPEST} folders deep"
                raise LimitError(problem, file=str(folder.path))
            if kind == "folder":
                waiting.append(path)
            elif kind == "file":
                yield "/".join(path)


@contextmanager
def _packed(folder: ContainedFolder, names: list[str], path: Path) -> Iterator[OpenFile]:
    with tempfile.TemporaryFile() as kept:
        try:
            _pack(folder, names, cast("BinaryIO", kept))
        except OSError as error:
            raise TargetError(
                f"cannot put the files together: {error.strerror or error}",
                file=tempfile.gettempdir(),
                hint="Free some space there, or set TMPDIR to a larger folder.",
            ) from error
        with OpenFile(os.dup(kept.fileno()), path) as file:
            yield file


def _pack(folder: ContainedFolder, names: list[str], kept: BinaryIO) -> None:
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            info = zipfile.ZipInfo(name, _THEN)
            with archive.open(info, "w", force_zip64=True) as sink:
                if name.endswith(READ):
                    with folder.open(name) as source:
                        shutil.copyfileobj(source, sink)
    kept.flush()
