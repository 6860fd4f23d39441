"""A folder of Markdown files: ``MEMORY.md`` as an index, beside it a file for each memory.

Coding agents keep their memory so: Claude Code below ``~/.claude/projects``, Codex below
``~/.codex/memories``. The front matter of a file says its name, what it is about, and its type;
what else stands there is metadata. What stands in the index itself is memory too. A file that is
written again is what it was, to the letter, as long as its memory says the same.
"""

import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar

from satchel.disk.spool import Spool
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._chats.archive import ZIP_MAGIC, Archive, File, opened
from satchel.formats._notes.fact import HELD, NAME, entry_of, file_of, is_from_here, path_of
from satchel.formats._notes.folder import MOST_FILES, member, packing, text_in
from satchel.formats._notes.front import split, values_in
from satchel.formats._notes.index import (
    INDEX,
    MOST_KEPT,
    index_in,
    index_of,
    line_of,
    note_in,
    notes_of,
)
from satchel.formats._notes.losses import count_members, count_records
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.memory.showing import text_of
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_ENDING = ".md"
_LOOKED_AT = 16
_KEPT = "index"
_OF_A_RULE = frozenset({"globs", "alwaysApply"})


class MarkdownMemory:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Markdown memory",
        suffixes=(),
        spec="MEMORY.md and a file for each memory, as Claude Code and Codex have it in 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True, ordered=False, folder=True),
        lost_on_writing=(
            "Conversations, edges, files, scope, entities, confidence, provenance, and the members"
            " of a memory that are not its words; the words themselves are written."
        ),
    )

    def recognises(self, place: Place) -> bool:
        if not place.head.startswith(ZIP_MAGIC):
            return _is_fact(place.head) or (place.path.name == INDEX and _is_text(place.head))
        try:
            with opened(place) as archive:
                return _is_folder(archive)
        except InputError:
            return False

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        some = False
        with opened(place, reading.limits) as archive:
            for entry in memories_in(archive, reading, place):
                some = True
                yield entry
        if not some and not reading.report.left_out:
            raise EmptyInputError("there is no memory in these notes", file=place.name)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        count_records(records, frozenset(Component), writing.report)
        with closing(Spool()) as lines, target.open() as sink, packing(sink) as archive:
            leaving = _Leaving(archive, lines, writing)
            for component in Component:
                for record in records.of(component):
                    leaving.take(record, record.model)  # type: ignore[arg-type]  # of a component
            leaving.end(records)


# -- reading -------------------------------------------------------------------------------


def _is_text(head: bytes) -> bool:
    return bool(head) and b"\0" not in head


def _is_fact(head: bytes) -> bool:
    front = split(head.decode("utf-8", "replace")) if head.startswith((b"---", b"\xef")) else None
    if front is None or not front.is_there:
        return False
    values = values_in(front.raw)
    is_named = isinstance(values.get("name"), str) or isinstance(values.get("metadata"), dict)
    return is_named and "description" in values and _OF_A_RULE.isdisjoint(values)


def _is_folder(archive: Archive) -> bool:
    names = {file.path for file in archive.files}
    if any(name.endswith(".jsonl") for name in names):
        return False  # transcripts, with which memory is read as well
    if any(file.name == INDEX for file in archive.files):
        return True
    some = [file for file in archive.files if file.name.endswith(_ENDING)]
    for file in some[:_LOOKED_AT]:
        with archive.stream(file) as stream:
            if _is_fact(stream.read(HEAD_BYTES)):
                return True
    return False


def memories_in(archive: Archive, reading: Reading, place: Place) -> Iterator[Entry]:
    """Yield the memories of a folder of notes; files that are none are counted as lost."""
    alone = len(archive.files) == 1 and archive.files[0].info is None
    if alone and not archive.files[0].name.endswith(_ENDING):
        problem = "no archive, and no Markdown file by its name"
        raise MalformedError(problem, file=place.name, byte=0, hint="Name the folder.")
    notes = [one for one in archive.files if alone or one.name.endswith(_ENDING)]
    notes = [one for one in notes if alone or not _is_hidden(one)]
    top = "" if alone else _top_of(notes)
    names = {one.path.removeprefix(top) for one in notes}
    for file in archive.files:
        if file not in notes and not _is_hidden(file):
            ending = file.name.rpartition(".")[2] if "." in file.name else "file"
            reading.report.lost(f"*.{ending}", "a file that is no note", example=file.path)
    for file in notes:
        try:
            text = text_in(archive, file, reading, place)
        except InputError as error:
            reading.refuse(error)
            continue
        path = file.path.removeprefix(top)
        if file.name == INDEX:
            yield from _of_the_index(text, path, names, reading)
        else:
            if text or not alone:
                yield entry_of(path, text)


def _of_the_index(text: str, path: str, names: set[str], reading: Reading) -> Iterator[Entry]:
    found = index_in(text, names, path.rpartition("/")[0])
    if path == INDEX and len(text) <= MOST_KEPT:
        reading.container[_KEPT] = text
    yield from notes_of(found, path)


def _is_hidden(file: File) -> bool:
    """Tell whether a file is of the program that keeps the folder, such as ``.git``."""
    return any(part.startswith(".") for part in file.path.split("/"))


def _top_of(notes: list[File]) -> str:
    """Return the folder that all of them are in, with its slash, where one has the index."""
    tops = [one.path.removesuffix(INDEX) for one in notes if one.name == INDEX]
    top = min(tops, key=len, default="")
    return top if all(one.path.startswith(top) for one in notes) else ""


# -- writing -------------------------------------------------------------------------------


class _Leaving:
    """The folder that memories become.

    Args:
        archive: Takes the files.
        lines: Takes the lines of the index.
        writing: Where losses go.
    """

    def __init__(self, archive: zipfile.ZipFile, lines: Spool, writing: Writing) -> None:
        self._archive = archive
        self._lines = lines
        self._report = writing.report
        self._taken = {_alike(INDEX)}
        self._folders = set[str]()
        self._last = Counter[str]()
        self._paths = list[str]()
        self._known = set[str]()
        self._notes = list[tuple[str, str]]()

    def take(self, record: Sealed, entry: Entry) -> None:
        """Write a memory's file, or keep it for the index."""
        note = note_in(record, entry)
        if note is not None:
            self._notes.append(note)
            return
        words = entry.text if entry.text is not None else text_of(entry)
        if not words and entry.text is None:
            self._report.lost(record.type, "a memory without words", example=record.id)
            return
        if len(self._paths) >= MOST_FILES:
            self._report.lost(record.type, f"a folder has at most {MOST_FILES:,} notes")
            return
        path = self._free(path_of(entry, words))
        text = file_of(record, entry, self._report)
        count_members(record, HELD, NAME, self._report)
        with member(self._archive, path) as sink:
            sink.write(text.encode())
        self._paths.append(path)
        if is_from_here(entry, path):
            self._known.add(path)
        name = entry.metadata.get("name")
        line = line_of(path, name if isinstance(name, str) else "", words)
        self._lines.write(line.encode() + b"\n")

    def end(self, records: RecordSet) -> None:
        """Write the index: as it was, where that says the same."""
        text = next(filter(self._says_the_same, _indexes(records)), None)
        if text is not None:
            with member(self._archive, INDEX) as sink:
                sink.write(text.encode())
        elif self._notes or not self._is_as_it_was(records):
            lines = (line.decode().removesuffix("\n") for line in self._lines.lines())
            with member(self._archive, INDEX) as sink:
                for part in index_of(lines, self._notes):
                    sink.write(part.encode())

    def _says_the_same(self, text: str) -> bool:
        """Tell whether an index lists all files, but for those that it did not list before."""
        found = index_in(text, set(self._paths))
        others = set(self._paths).difference(found.links)
        return others <= self._known and sorted(found.notes) == sorted(self._notes)

    def _is_as_it_was(self, records: RecordSet) -> bool:
        """Tell whether the folder had no index, and has the same files as then."""
        found = [one.value for one in records.of("source") if one.value.get("format") == NAME]
        kept = [_KEPT in one.get("container", {}) for one in found]
        return bool(found) and not any(kept) and len(self._known) == len(self._paths)

    def _free(self, path: str) -> str:
        """Return a path that no other file has, on any file system."""
        if self._is_in_a_file(path):
            path = path.rpartition("/")[2]
        start = path.removesuffix(_ENDING)
        while _alike(path) in self._taken or _alike(path) in self._folders:
            self._last[start] += 1
            path = f"{start}-{self._last[start] + 1}{_ENDING}"
        self._taken.add(_alike(path))
        self._folders.update(_above(path))
        return path

    def _is_in_a_file(self, path: str) -> bool:
        return any(folder in self._taken for folder in _above(path))


def _indexes(records: RecordSet) -> Iterator[str]:
    """Yield the indexes that were read, as they were."""
    for source in records.of("source"):
        kept = source.value.get("container", {}).get(_KEPT)
        if source.value.get("format") == NAME and isinstance(kept, str):
            yield kept


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a path is in."""
    while path := path.rpartition("/")[0]:
        yield _alike(path)


def _alike(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


FORMAT = MarkdownMemory()
"""What the registry finds."""
