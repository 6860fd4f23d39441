"""A folder of Markdown files: ``MEMORY.md`` as an index, and a file for each memory.

Coding agents store their memory in this form: Claude Code below ``~/.claude/projects``, Codex below
``~/.codex/memories``. The front matter of a file has its name, description and type; other members
are metadata. Text in the index is memory, too. A file is reproduced exactly as long as its memory
is unchanged.
"""

import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError
from satchel.formats._archive import ZIP_MAGIC, ChatArchive, open_archive
from satchel.formats._note_folders import (
    ENDING,
    INDEX,
    KEPT,
    MOST_FILES,
    index_in,
    index_of,
    line_of,
    member,
    memories_in,
    note_in,
    packing,
    renewed,
)
from satchel.formats._notes import (
    HELD,
    NAME,
    count_members,
    count_records,
    file_of,
    is_from_here,
    is_workspace,
    path_of,
    split,
    values_in,
)
from satchel.formats._row_lists import containers_in
from satchel.model.records import Entry, Model
from satchel.model.text import memory_text
from satchel.model.values import Component
from satchel.ports.format import (
    HEAD_BYTES,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet
from satchel.runtime.scratch import Spool

_MOST_READ = 16
_WITH_AN_INDEX = frozenset({NAME, "claude_code"})
_VAULT = ".obsidian"
"""The folder with Obsidian's settings in a vault."""

_PERMANENT = frozenset({"title", "permalink"})
"""The front matter of a note of Basic Memory."""

_OF_A_RULE = frozenset({"globs", "alwaysApply"})


class MarkdownMemory:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Markdown memory",
        suffixes=(),
        signs=Signs(starts=(ZIP_MAGIC, b"---"), names=(INDEX,)),
        spec="MEMORY.md and a file for each memory, as Claude Code and Codex have it in 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True, ordered=False, folder=True),
        lost_on_writing=(
            "Conversations, edges, files, scope, entities, confidence, provenance, and the "
            "members of a memory other than its text."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        if not location.head.startswith(ZIP_MAGIC):
            return _is_fact(location.head) or (
                location.path.name == INDEX and _is_text(location.head)
            )
        try:
            with open_archive(location) as archive:
                return _is_folder(archive)
        except InputError:
            return False

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        some = False
        with open_archive(location, reading.limits) as archive:
            for entry in memories_in(archive, reading, location):
                some = True
                yield entry
        if not some and not reading.report.left_out:
            raise EmptyInputError("the notes contain no memories", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        count_records(records, frozenset(Component), writing.report)
        with closing(Spool()) as lines, target.open() as sink, packing(sink) as archive:
            writer = _FolderWriter(archive, lines, writing)
            for component in Component:
                for record in records.of(component):
                    writer.take(record, record.model)  # type: ignore[arg-type]  # of a component
            writer.end(records)


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


def _is_folder(archive: ChatArchive) -> bool:
    names = {file.path for file in archive.files}
    if any(name.endswith(".jsonl") for name in names):
        return False  # a folder of transcripts, whose memory another format reads
    if any(file.name == INDEX for file in archive.files):
        return True
    some = [file for file in archive.files if file.name.endswith(ENDING)]
    if some and any(_VAULT in name.split("/") for name in names):
        return True
    if is_workspace(names):
        return True
    for file in some[:_MOST_READ]:
        with archive.stream(file) as stream:
            head = stream.read(HEAD_BYTES)
        if _is_fact(head) or _is_permanent(head):
            return True
    return False


def _is_permanent(head: bytes) -> bool:
    """Return whether a note is one of Basic Memory."""
    front = split(head.decode("utf-8", "replace")) if head.startswith((b"---", b"\xef")) else None
    return front is not None and front.is_there and values_in(front.raw).keys() >= _PERMANENT


# -- writing -------------------------------------------------------------------------------


class _FolderWriter:
    """Writes memories as a folder.

    Args:
        archive: Takes the files.
        lines: Takes the lines of the index.
        writing: Counts losses.
    """

    def __init__(self, archive: zipfile.ZipFile, lines: Spool, writing: WriteContext) -> None:
        self._archive = archive
        self._lines = lines
        self._report = writing.report
        self._used = {_normalized(INDEX)}
        self._folders = set[str]()
        self._last = Counter[str]()
        self._paths = list[str]()
        self._known = set[str]()
        self._notes = list[tuple[str, str]]()

    def take(self, record: Sealed, entry: Entry) -> None:
        """Write a memory's file, or store it for the index."""
        note = note_in(record, entry)
        if note is not None:
            self._notes.append(note)
            return
        words = entry.text if entry.text is not None else memory_text(entry)
        if not words and entry.text is None:
            self._report.lost(record.type, "a memory without text", example=record.id)
            return
        if len(self._paths) >= MOST_FILES:
            self._report.lost(record.type, f"a folder can have at most {MOST_FILES:,} notes")
            return
        path = self._free_path(path_of(entry, words))
        text = file_of(record, entry, path, self._report)
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
        """Write the index: the original, with lines for new files, without missing ones."""
        text = next(filter(None, map(self._updated_index, _indexes(records))), None)
        if text is not None:
            parts: Iterator[str] = iter((text,))
        elif self._notes or not self._is_unchanged(records):
            parts = index_of((line for _, line in self._listed()), self._notes)
        else:
            return
        with member(self._archive, INDEX) as sink:
            for part in parts:
                sink.write(part.encode())

    def _listed(self) -> Iterator[tuple[str, str]]:
        """Yield each file with its line for an index."""
        lines = (line.decode().removesuffix("\n") for line in self._lines.lines())
        return zip(self._paths, lines, strict=True)

    def _updated_index(self, text: str) -> str | None:
        """Return an updated original index; None if its own notes changed."""
        paths = set(self._paths)
        listed = paths.intersection(index_in(text, paths).links)
        more = [line for path, line in self._listed() if path not in listed | self._known]
        index = renewed(text, paths, more)
        same = sorted(index_in(index, paths).notes) == sorted(self._notes)
        return index if same else None

    def _is_unchanged(self, records: RecordSet) -> bool:
        """Return whether the folder had no index, and has the same files."""
        containers = containers_in(records, NAME)
        had_index = any(KEPT in container for container in containers)
        return bool(containers) and not had_index and len(self._known) == len(self._paths)

    def _free_path(self, path: str) -> str:
        """Return a path that is unique on any file system."""
        if self._is_in_a_file(path):
            path = path.rpartition("/")[2]
        start = path.removesuffix(ENDING)
        while _normalized(path) in self._used or _normalized(path) in self._folders:
            self._last[start] += 1
            path = f"{start}-{self._last[start] + 1}{ENDING}"
        self._used.add(_normalized(path))
        self._folders.update(_parent_folders(path))
        return path

    def _is_in_a_file(self, path: str) -> bool:
        return any(folder in self._used for folder in _parent_folders(path))


def _indexes(records: RecordSet) -> Iterator[str]:
    """Yield the original indexes that were read."""
    for source in records.of("source"):
        stored = source.value.get("container", {}).get(KEPT)
        if source.value.get("format") in _WITH_AN_INDEX and isinstance(stored, str):
            yield stored


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the parent folders of a path."""
    while path := path.rpartition("/")[0]:
        yield _normalized(path)


def _normalized(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


FORMAT = MarkdownMemory()
"""The instance that the registry loads."""
