"""What Claude Code keeps of its conversations: transcripts, one alone or those of a folder.

A transcript becomes a session; where somebody went back and asked otherwise, a fork begins. After
a compaction the conversation goes on. Every line that is a message is one, with its contents as
they are; lines that are not (progress, snapshots of files) are counted as lost, by their type.
Notes in a project's folder ``memory`` come first; alone they are ``markdown_memory``.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

from satchel.formats._chats.archive import Archive, File, heads, opened
from satchel.formats._chats.claude_code import Transcript
from satchel.formats._chats.fields import read_only, require_some
from satchel.formats._chats.transcripts import from_transcripts
from satchel.formats._notes.reading import memories_in
from satchel.formats._sniffing import members
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_SIGNS = (
    frozenset({(b"sessionId",), (b"parentUuid",)}),
    frozenset({(b"leafUuid",), (b"summary",)}),
    frozenset({(b"messageId",), (b"snapshot",)}),
)
_MEMORY = re.compile(r"(?:[^/]+/)*?memory/(?=.*\.md$)")


class ClaudeCode:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Claude Code transcripts and memory",
        suffixes=(),
        spec="Claude Code, transcripts and memory below ~/.claude/projects, to September 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), writes=False),
    )

    def recognises(self, place: Place) -> bool:
        for head in heads(place, ".jsonl"):
            paths = {path for path, _ in members(head)}
            if any(sign <= paths for sign in _SIGNS):
                return True
        return False

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        some = False
        with opened(place, reading.limits) as archive:
            notes, talks = _parted(archive)
            tops = list(notes) if len(notes) == 1 else [""] * len(notes)
            found = chain.from_iterable(
                memories_in(one, reading, place, top)
                for top, one in zip(tops, notes.values(), strict=True)
            )
            talked = from_transcripts(
                talks, reading, place, lambda file: Transcript(file, reading.report)
            )
            for record in chain[Model](found, talked):
                some = True
                yield record
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a Claude Code transcript")


def _parted(archive: Archive) -> tuple[dict[str, Archive], Archive]:
    """Part the notes from the transcripts: each folder of notes by its path, and all else."""
    notes, others = dict[str, list[File]](), list[File]()
    for file in archive.files:
        above = _MEMORY.match(file.path) if file.info is not None else None
        if above is None:
            others.append(file)
        else:
            notes.setdefault(above[0], []).append(file)
    return {top: archive.of(files) for top, files in notes.items()}, archive.of(others)


FORMAT = ClaudeCode()
"""What the registry finds."""
