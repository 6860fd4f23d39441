"""A folder of notes, read from and written to as an archive.

The caller's folder is converted from and to an archive; a format handles only archive.
"""

import posixpath
import re
import zipfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, LimitError, MalformedError
from satchel.formats._archive import ArchiveFile, ChatArchive
from satchel.formats._conversations import paragraphs, words_of
from satchel.formats._notes import NAME, entry_of, slug, split, summary
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, TrustClass
from satchel.ports.format import Location, ReadContext

MOST_FILES = 99_999
"""Largest number of files besides the index."""

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def text_in(
    archive: ChatArchive,
    file: ArchiveFile,
    reading: ReadContext,
    location: Location,
    most: int | None = None,
) -> str:
    """Return the text of a file.

    Args:
        archive: The input.
        file: The file.
        reading: The limits.
        location: The name of the input in errors.
        most: Largest size in bytes; None for that of a memory.

    Raises:
        MalformedError: If it is not UTF-8, or not text.
        LimitError: If it is too large.
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
        raise _located(problem, archive, file, location) from None
    except InputError as error:
        raise _located(error, archive, file, location) from None


def _located(
    error: InputError, archive: ChatArchive, file: ArchiveFile, location: Location
) -> InputError:
    error.field = archive.file_of(file) or error.field
    error.file = location.name
    return error


@contextmanager
def packing(sink: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Yield an archive to write to."""
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        yield archive


@contextmanager
def member(archive: zipfile.ZipFile, path: str) -> Iterator[BinaryIO]:
    """Yield a file of an archive to write to; its bytes are reproducible."""
    with archive.open(zipfile.ZipInfo(path, _ZIP_EPOCH), "w", force_zip64=True) as stream:
        yield stream  # type: ignore[misc]  # a BinaryIO in all but its declared name


INDEX = "MEMORY.md"
NOTE = "note"
"""The kind of a memory in the index itself."""

MOST_KEPT = 1 << 18
"""Largest number of characters of an index that is stored unchanged."""

_LINK = re.compile(r"[ \t]*[-*+][ \t]+\[[^\]\n]*\]\(<?([^)>\n]*)>?\)[^\n]*")
_ITEM = re.compile(r"[-*+][ \t]+(\S[^\n]*)")
_RULE = re.compile(r"[-*+ \t]+")
_NOTE_FIELDS = frozenset({"id", "nonce", "type", "kind", "text", "tags", "origin"})
_TITLE = "# Memory"
_LINE_ENDS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


class NoteIndex(NamedTuple):
    """The contents of an index."""

    links: list[str]
    """Paths of the files that it lists, relative to its folder."""

    notes: list[tuple[str, str]]
    """Heading (may be empty) and text of each memory in it."""


def index_in(text: str, names: Container[str], folder: str = "") -> NoteIndex:
    """Parse an index.

    Args:
        text: Its text.
        names: The paths of the existing files.
        folder: Its folder; empty for the top.
    """
    links, rest = list[str](), list[str]()
    for line in split(text).body.split("\n"):
        target = _target(line.rstrip("\r"), names, folder)
        if target is None:
            rest.append(line)
        else:
            links.append(target)
            rest.append("")
    notes = list[tuple[str, str]]()
    for each in paragraphs("\n".join(rest)):
        if each.heading is None and each.text.lstrip().startswith("#") and "\n" not in each.text:
            continue  # a heading above links, or an empty one
        heading = words_of(each.heading) if each.heading else ""
        notes += [(heading, text) for text in _items(each.text)]
    return NoteIndex(links, notes)


def _items(text: str) -> list[str]:
    """Return the items of a list with their indented lines; if it is not a list, the text."""
    items = list[str]()
    for line in text.split("\n"):
        item = _ITEM.fullmatch(line)
        if item is not None and not _RULE.fullmatch(line):
            items.append(item[1])
        elif items and line.startswith((" ", "\t")):
            items[-1] += f"\n{line}"
        else:
            return [text]
    return items


def _target(line: str, names: Container[str], folder: str) -> str | None:
    match = _LINK.fullmatch(line)
    if match is None:
        return None
    target = match[1].partition("#")[0].strip()
    path = posixpath.normpath(posixpath.join(folder, target)) if target else ""
    return path if path in names else None


def notes_of(index: NoteIndex, path: str) -> Iterator[Entry]:
    """Yield the memories in an index."""
    seen = dict[str, int]()
    for heading, text in index.notes:
        number = seen[heading] = seen.get(heading, 0) + 1
        yield Semantic(
            text=text,
            kind=NOTE,
            tags=(heading,) if heading else (),
            origin=Origin(
                provider=NAME, id=f"{path}#{heading}/{number}", trust=TrustClass.IMPORTED
            ),
        )


def note_in(record: Sealed, entry: Entry) -> tuple[str, str] | None:
    """Return heading and text of a memory that belongs in the index; None for another."""
    origin, text = entry.origin, entry.text
    if origin is None or origin.provider != NAME or text is None or len(entry.tags) > 1:
        return None
    if entry.kind != NOTE or not (origin.id or "").startswith(INDEX + "#"):
        return None
    heading = entry.tags[0] if entry.tags else ""
    alone = index_in(_section(heading, [text]), ())
    is_whole = record.value.keys() <= _NOTE_FIELDS and alone.notes == [(heading, text)]
    return (heading, text) if is_whole else None


def line_of(path: str, name: str, words: str) -> str:
    """Return the line of an index for a file.

    Args:
        path: The file.
        name: Its name, if it has one.
        words: Its description.
    """
    title = _LINE_ENDS.sub(" ", name).strip() or slug(words)
    title = title.replace("[", "(").replace("]", ")")
    target = f"<{path}>" if re.search(r"[\s()]", path) else path
    about = summary(words)
    return f"- [{title}]({target})" + (f" — {about}" if about else "")


def index_of(lines: Iterator[str], notes: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of an index: its list of files, and its memories."""
    yield f"{_TITLE}\n"
    for number, line in enumerate(lines):
        yield f"{line}\n" if number else f"\n{line}\n"
    waiting, heading = list[str](), ""
    for above, text in notes:
        if above != heading and waiting:
            yield "\n" + _section(heading, waiting)
            waiting = []
        heading = above
        waiting.append(text)
    if waiting:
        yield "\n" + _section(heading, waiting)


def renewed(text: str, names: Container[str], more: list[str]) -> str:
    """Return an index with lines for new files, and without those of missing files.

    Args:
        text: The text of the present index at the top of the folder.
        names: The existing files.
        more: The lines to add, after the last one that lists a file.
    """
    lines, last = list[str](), 0
    for line in text.split("\n"):
        match = _LINK.fullmatch(line.rstrip("\r"))
        listed = match is not None and _target(line.rstrip("\r"), names, "") is not None
        if match is not None and not listed and _is_of_a_note(match[1]):
            continue
        lines.append(line)
        last = len(lines) if listed else last
    at = last or len(lines) - (not lines[-1])
    return "\n".join((*lines[:at], *more, *lines[at:]))


def _is_of_a_note(target: str) -> bool:
    return target.partition("#")[0].endswith(".md") and ":" not in target


def _section(heading: str, texts: list[str]) -> str:
    start = [f"## {heading}"] if heading else []
    return "\n\n".join((*start, *texts)) + "\n"


ENDING = ".md"
KEPT = "index"
"""The member of the container with the original index."""


def memories_in(
    archive: ChatArchive, reading: ReadContext, location: Location, top: str | None = None
) -> Iterator[Entry]:
    """Yield the memories of a folder of notes; other files are counted as lost.

    Args:
        archive: The input.
        reading: The limits; takes bad files.
        location: The name of the input in errors.
        top: The prefix of paths that is not part of the names of notes; None for the folder of
            the index.
    """
    alone = len(archive.files) == 1 and archive.files[0].info is None
    if alone and not archive.files[0].name.endswith(ENDING):
        problem = "not an archive, and not a Markdown file by its name"
        raise MalformedError(problem, file=location.name, byte=0, hint="Use the folder.")
    start = _top_of(archive) if top is None and not alone else top or ""
    notes = list[ArchiveFile]()
    for file in archive.files:
        if alone or (file.name.endswith(ENDING) and not _is_hidden(file, start)):
            notes.append(file)
        elif not _is_hidden(file, start):
            ending = file.name.rpartition(".")[2] if "." in file.name else "file"
            reading.report.lost(f"*.{ending}", "not a note", example=file.path)
    names = {one.path.removeprefix(start) for one in notes}
    for file in notes:
        try:
            text = text_in(archive, file, reading, location)
        except InputError as error:
            reading.refuse(error)
            continue
        path = file.path.removeprefix(start)
        if file.name == INDEX:
            yield from _of_the_index(text, path, names, reading)
        elif text or not alone:
            yield entry_of(path, text)


def _of_the_index(text: str, path: str, names: set[str], reading: ReadContext) -> Iterator[Entry]:
    index = index_in(text, names, path.rpartition("/")[0])
    if path == INDEX and len(text) <= MOST_KEPT:
        reading.container[KEPT] = text
    yield from notes_of(index, path)


def _is_hidden(file: ArchiveFile, top: str) -> bool:
    """Return whether a file belongs to a program that manages the folder, such as git."""
    return any(part.startswith(".") for part in file.path.removeprefix(top).split("/"))


def _top_of(archive: ChatArchive) -> str:
    """Return the common folder of all notes, with a slash, if it has an index."""
    notes = [one.path for one in archive.files if one.name.endswith(ENDING)]
    tops = [path.removesuffix(INDEX) for path in notes if f"/{path}".endswith(f"/{INDEX}")]
    top = min(tops, key=len, default="")
    return top if all(path.startswith(top) for path in notes) else ""
