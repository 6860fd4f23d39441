"""A folder of notes, as the archive that it is read from and written to.

Whoever names a folder is given one, and whoever names an archive gets that; a format knows only the
archive.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from satchel.errors import InputError, LimitError, MalformedError
from satchel.formats._chats.archive import Archive, File
from satchel.ports.format import Reading
from satchel.ports.place import Place

MOST_FILES = 99_999
"""Files beside the index; a folder with more is not read."""

_THEN = (1980, 1, 1, 0, 0, 0)


def text_in(
    archive: Archive, file: File, reading: Reading, place: Place, most: int | None = None
) -> str:
    """Return the text of a file.

    Args:
        archive: The input.
        file: Which of its files.
        reading: The bounds.
        place: What to call the input in errors.
        most: Bytes that it may have; as many as a memory where not given.

    Raises:
        MalformedError: If it is not UTF-8, or holds what no text does.
        LimitError: If it is larger than a memory may be.
    """
    data, most = b"", min(most or reading.limits.entry_bytes, reading.limits.line_bytes)
    try:
        with archive.stream(file) as stream:
            while more := stream.read(most + 1 - len(data)):
                data += more
                if len(data) > most:
                    raise LimitError(f"a note can have at most {most} bytes", field=file.name)
        return data.decode()
    except UnicodeDecodeError as error:
        problem = MalformedError("the text is not UTF-8", byte=error.start)
        raise _located(problem, archive, file, place) from None
    except InputError as error:
        raise _located(error, archive, file, place) from None


def _located(error: InputError, archive: Archive, file: File, place: Place) -> InputError:
    error.field = archive.file_of(file) or error.field
    error.file = place.name
    return error


@contextmanager
def packing(sink: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Give an archive to write."""
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        yield archive


@contextmanager
def member(archive: zipfile.ZipFile, path: str) -> Iterator[BinaryIO]:
    """Give a file of an archive to write; the same bytes each time."""
    with archive.open(zipfile.ZipInfo(path, _THEN), "w", force_zip64=True) as stream:
        yield stream  # type: ignore[misc]  # a BinaryIO in all but its declared name
