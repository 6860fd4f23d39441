"""Transcripts: JSON lines that a coding agent appends to while it works, a file a conversation."""

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

from satchel.crypto.json_reader import ordinary_values
from satchel.errors import InputError, LimitError
from satchel.formats._chats.archive import ArchiveFile, ChatArchive, foreign_reader
from satchel.formats._chats.fields import Row, row_in
from satchel.model.records import Model
from satchel.ports.format import ReadContext
from satchel.ports.place import BOM, Place

_CHUNK = 1 << 18


class LineParser(Protocol):
    """Makes records of the lines of one file."""

    def take(self, row: Row, number: int) -> Iterator[Model]:
        """Yield what a line says; ``number`` from 1."""
        ...

    def end(self) -> Iterator[Model]:
        """Yield what is known once there are no more lines."""
        ...


def from_transcripts(
    archive: ChatArchive,
    reading: ReadContext,
    place: Place,
    make: Callable[[ArchiveFile], LineParser | None],
    *,
    first: str = "",
) -> Iterator[Model]:
    """Yield what is in the transcripts of an input; other files are counted as lost.

    Args:
        archive: The input.
        reading: The bounds, and where bad lines go.
        place: What to call the input in errors.
        make: What makes records of the lines of one file; None for one that is no transcript.
        first: The name of files that are read before the others.
    """
    for file in sorted(archive.files, key=lambda one: one.name != first):
        is_one = file.info is None or file.name.endswith(".jsonl")
        taking = make(file) if is_one else None
        if taking is None:
            name = file.name if is_one else f"*.{file.name.rpartition('.')[2]}"
            reading.report.lost(name, "not a transcript")
            continue
        yield from from_lines(archive, file, reading, place, taking)


def from_lines(
    archive: ChatArchive, file: ArchiveFile, reading: ReadContext, place: Place, taking: LineParser
) -> Iterator[Model]:
    """Yield what the lines of one file say; bad ones are refused.

    Args:
        archive: The input.
        file: The file of it.
        reading: The bounds, and where bad lines go.
        place: What to call the input in errors.
        taking: What makes records of the lines.
    """
    where = archive.file_of(file)
    with archive.stream(file) as stream:
        for number, line in enumerate(_lines(stream, reading.limits.line_bytes), 1):
            if not line.strip():
                continue
            try:
                found = list(taking.take(_row_of(line, place, reading), number))
            except InputError as error:
                error.line, error.file = number, place.name
                if where:
                    error.field = f"{where}/{error.field}" if error.field else where
                reading.refuse(error)
                continue
            yield from found
    yield from taking.end()


def _row_of(line: bytes, place: Place, reading: ReadContext) -> Row:
    try:
        text = line.decode()
        found: list[Any] | None = ordinary_values(text)
    except UnicodeDecodeError:
        found = None
    if found is None or len(found) != 1:
        document = foreign_reader(io.BytesIO(line), place.name, reading)
        found = [document.value()]
        document.end()
    return row_in(found[0], "a line")


def _lines(stream: BinaryIO, bound: int) -> Iterator[bytes]:
    """Yield the lines of a file, without their ends."""
    waiting, size, is_first = list[bytes](), 0, True
    while chunk := stream.read(_CHUNK):
        start, *lines = chunk.split(b"\n")
        waiting.append(start)
        size += len(start)
        for line in lines:
            whole = b"".join(waiting)
            yield whole.removeprefix(BOM) if is_first else whole
            waiting, size, is_first = [line], len(line), False
        if size > bound:
            raise LimitError(f"a line is longer than {bound} bytes", field="line")
    if rest := b"".join(waiting):
        yield rest.removeprefix(BOM) if is_first else rest
