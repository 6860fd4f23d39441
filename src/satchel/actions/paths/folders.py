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
from typing import IO, BinaryIO, cast

from satchel.actions.config import Settings
from satchel.actions.paths.permission import OWN, Permission, file_to_read, folder_to_read
from satchel.disk.contained import ContainedFolder
from satchel.disk.reading import OpenFile
from satchel.disk.roots import Said
from satchel.errors import LimitError, PathRefusedError, TargetError
from satchel.formats._chats.archive import Archive, File, opened
from satchel.ports.place import Place
from satchel.seal.limits import DEFAULT_LIMITS

READ = (".json", ".jsonl", ".md", ".html", ".txt")
"""Endings of the files whose contents are looked at; of others, the names alone."""

_SAID_AGAIN = "chat.html"
"""ChatGPT's page of all conversations, which are beside it: gigabytes for nothing."""

_PACKED = ".zip"
"""An archive in the folder: its files are looked at as if they were in it."""

_EXPANSION, _CHUNK = DEFAULT_LIMITS.expansion, 1 << 20

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
        names = names_in(folder)
        database = next((name for name in DATABASES if name in names), None)
        if database is not None:
            path = Path(path) / database
        elif any(name.lower().endswith((*READ, _PACKED)) for name in names):
            with put_together(folder, names, Path(path)) as file:
                yield file
            return
    with file_to_read(settings, path, permission) as file:  # which says that it is a folder
        yield file


def _is_folder(path: Said) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # a name that is too long, or no name; opening it says so
        return False


def names_in(folder: ContainedFolder) -> list[str]:
    """Return the paths of the files below a folder, sorted.

    Raises:
        PathRefusedError: If there is a link.
        LimitError: If there are too many, or they are too deep.
    """
    return sorted(_names_in(folder))


def _names_in(folder: ContainedFolder) -> Iterator[str]:
    waiting, count = [tuple[str, ...]()], 0
    while waiting:
        place = waiting.pop()
        for name, kind in folder.listing(place):
            path, count = (*place, name), count + 1
            if kind == "link":
                raise PathRefusedError(
                    "a symbolic link in an export", file=str(folder.path.joinpath(*path))
                )
            if count > _MOST_FILES or len(path) > _DEEPEST:
                problem = f"more than {_MOST_FILES} files, or {_DEEPEST} folders deep"
                raise LimitError(problem, file=str(folder.path))
            if kind == "folder":
                waiting.append(path)
            elif kind == "file":
                yield "/".join(path)


def put_together(folder: ContainedFolder, names: list[str], path: Path) -> OpenFile:
    """Return an archive of the files of a folder, the same bytes each time; the caller closes it.

    Raises:
        TargetError: If there is no room for it.
    """
    with tempfile.TemporaryFile() as kept:
        try:
            _pack(folder, names, cast("BinaryIO", kept))
        except OSError as error:
            raise TargetError(
                f"cannot combine the files: {error.strerror or error}",
                file=tempfile.gettempdir(),
                hint="Free disk space there, or set TMPDIR to a larger folder.",
            ) from error
        return OpenFile(os.dup(kept.fileno()), path)


def _pack(folder: ContainedFolder, names: list[str], kept: BinaryIO) -> None:
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            if name.lower().endswith(_PACKED):
                _put_in(archive, folder, name)
                continue
            info = zipfile.ZipInfo(name, _THEN)
            with archive.open(info, "w", force_zip64=True) as sink:
                if name.lower().endswith(READ) and not name.endswith(_SAID_AGAIN):
                    with folder.open(name) as source:
                        shutil.copyfileobj(source, sink)
    kept.flush()


def _put_in(archive: zipfile.ZipFile, folder: ContainedFolder, name: str) -> None:
    """Put the files of an archive in, below its name.

    Products give one export out as several archives, with a list of them.

    Raises:
        MalformedError: If it is damaged; then it is to be got again.
        LimitError: If it expands too far.
    """
    with folder.open(name) as stream, OpenFile(os.dup(stream.fileno()), Path(name)) as held:
        left = max(DEFAULT_LIMITS.expansion_free_bytes, _EXPANSION * held.status.st_size)
        with opened(Place(folder.path / name, held=held)) as packed:
            for file in packed.files:
                info = zipfile.ZipInfo(f"{name}/{file.path}", _THEN)
                with archive.open(info, "w", force_zip64=True) as sink:
                    if file.ends(READ) and file.name != _SAID_AGAIN:
                        left -= _copied(packed, file, sink, left)


def _copied(packed: Archive, file: File, sink: IO[bytes], most: int) -> int:
    done = 0
    with packed.stream(file) as source:
        while chunk := source.read(_CHUNK):
            done += len(chunk)
            if done > most:
                raise LimitError("an archive in the folder expands too far", field=file.path)
            sink.write(chunk)
    return done
