"""The text of Claude's memory import, which other assistants write when asked for it.

Each memory is a line, ``[2026-05-04] - text`` or ``[unknown] - text``, below headings such as
``Projects``; further lines of a memory are indented. Users paste it; it is not a file of Claude.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar, NamedTuple, cast

from msgspec.structs import replace

from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, open_archive
from satchel.formats._note_folders import text_in
from satchel.formats._notes import (
    NoteItem,
    NoteItemText,
    count_members,
    count_records,
    item_lines,
    origin_of,
    words_in,
)
from satchel.model.records import ENTRY_CLASSES, Entry, Model
from satchel.model.values import Component, read_time
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap, SpoolStreams

NAME = "claude_text"

_ITEM = re.compile(r"(?:[-*] )?\[(\d{4}-\d{2}-\d{2}|unknown)\] - ?(.*)")
_MIDNIGHT = "T00:00:00.000000Z"
_HEADING = re.compile(r"#{1,6} +(.+)|\*\*(.+)\*\*:?")
_FENCE = "```"
_UNKNOWN = "unknown"


class _Section(NamedTuple):
    """A heading, and the memories below it."""

    heading: str
    component: Component
    kind: str | None = None
    other_names: tuple[str, ...] = ()
    """Other products' names for the kind."""


_SECTIONS = (
    _Section("Instructions", Component.PROCEDURAL),
    _Section("Identity", Component.IDENTITY),
    _Section("Career", Component.SEMANTIC, "career", ("work", "job", "profession")),
    _Section("Projects", Component.SEMANTIC, "project", ("projects", "project_memory")),
    _Section("Preferences", Component.SEMANTIC, "preference", ("preferences", "feedback")),
    _Section("Facts", Component.SEMANTIC),
    _Section("In progress", Component.WORKING),
    _Section("Events", Component.EPISODIC),
)
_BY_HEADING = {section.heading.casefold(): section for section in _SECTIONS}
_DEFAULT_SECTION = _BY_HEADING["facts"]


class ClaudeText:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Text for Claude's memory import",
        suffixes=(".claude.txt",),
        signs=Signs(texts=((b"] -",),)),
        spec="Claude, Settings, Memory, Start import, in 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), ordered=False, plain=True),
        lost_on_writing=(
            "Everything but the text and creation day of memories, and the kinds"
            " career, project and preference."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        lines = location.head.decode("utf-8", "replace").split("\n")
        return any(_ITEM.fullmatch(line.rstrip("\r")) for line in lines)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with open_archive(location, reading.limits) as archive:
            if location.head.startswith(ZIP_MAGIC):
                raise MalformedError("an archive is not text", file=location.name, byte=0)
            most = reading.limits.line_bytes
            text = text_in(archive, archive.files[0], reading, location, most)
        with closing(ScratchMap()) as seen:
            count = 0
            for count, item in enumerate(_memories_in(text, reading), 1):  # noqa: B007 - used below
                yield item.entry(seen)
        if not count:
            raise EmptyInputError(
                "no memories found: no line starts with a date in brackets",
                file=location.name,
            )

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        count_records(records, frozenset(Component), report)
        with closing(SpoolStreams()) as streams, target.open() as sink:
            parts = {section.heading: streams.new_stream() for section in _SECTIONS}
            for component in Component:
                for record in records.of(component):
                    entry = cast("Entry", record.model)
                    words = words_in(record, report)
                    if words is not None:
                        section = _section_of(entry, component)
                        start = _line_start(record, entry, section, report)
                        for line in item_lines(start, words):
                            parts[section.heading].write(line.encode() + b"\n")
            first = True
            for heading, stream in parts.items():
                for number, line_text in enumerate(stream.lines()):
                    if number == 0:
                        sink.write(f"{'' if first else chr(10)}## {heading}\n\n".encode())
                        first = False
                    sink.write(line_text + b"\n")


class _Memory(NamedTuple):
    """A memory in the text."""

    section: _Section
    tags: tuple[str, ...]
    day: str
    item: NoteItemText

    def entry(self, seen: ScratchMap) -> Entry:
        """Return it as an entry."""
        item, created = NoteItem(self.section.component, self.item.text), read_time(self.day)
        origin = origin_of(item, NAME, seen)
        if created is None and self.day != _UNKNOWN:
            origin = replace(origin, as_written={"day": self.day})
        return ENTRY_CLASSES[item.component](
            text=item.text,
            kind=self.section.kind,
            tags=self.tags,
            created_at=created,
            origin=origin,
        )


def _memories_in(text: str, reading: ReadContext) -> Iterator[_Memory]:
    lines = text.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines[:-1]) and len(lines) > 1:
        lines = [line.removesuffix("\r") for line in lines]
    section, tags, last = _DEFAULT_SECTION, tuple[str, ...](), list[_Memory]()
    for number, line in enumerate(lines, 1):
        if last and last[0].item.take(line):
            continue
        yield from last
        last = []
        item, heading = _ITEM.fullmatch(line), _HEADING.fullmatch(line.strip())
        if item is not None:
            last = [_Memory(section, tags, item[1], NoteItemText(item[2]))]
        elif heading is not None:
            name = (heading[1] or heading[2]).strip(": ")
            known = _BY_HEADING.get(name.casefold())
            section, tags = known or _DEFAULT_SECTION, () if known else (name,)
        elif line.strip() and not line.startswith(_FENCE):
            reading.report.lost("line", "a line that is not a memory", example=f"line {number}")
    yield from last


def _section_of(entry: Entry, component: Component) -> _Section:
    """Return the section of a memory: by type, kind and tags."""
    words = {word.casefold() for word in (entry.kind or "", *entry.tags)}
    fit = [section for section in _SECTIONS if section.component is component]
    for section in fit:
        if section.kind is not None and not words.isdisjoint({section.kind, *section.other_names}):
            return section
    return next(section for section in fit if section.kind is None)


def _line_start(record: Sealed, entry: Entry, section: _Section, report: Report) -> str:
    """Count the members of a memory that the text cannot hold; return the start of its line."""
    held = {"text", "created_at"}
    if entry.kind == section.kind:
        held.add("kind")
    day = (entry.created_at or "")[:10]
    if day and entry.created_at != day + _MIDNIGHT:
        report.lost("created_at", "only the day, without the time", example=record.id)
    count_members(record, frozenset(held), NAME, report)
    return f"[{day or _UNKNOWN}] - "


FORMAT = ClaudeText()
"""The instance that the registry loads."""
