"""What Claude Code keeps of its conversations: transcripts, one alone or those of a folder.

A transcript becomes a session; where somebody went back and asked otherwise, a fork begins. After
a compaction the conversation goes on. Every line that is a message is one, with its contents as
they are; lines that are not (progress, snapshots of files) are counted as lost, by their type.
Its memory files are Markdown, and no part of this format.
"""

from collections.abc import Iterator
from typing import ClassVar

from satchel.formats._chats.archive import heads, opened
from satchel.formats._chats.claude_code import Transcript
from satchel.formats._chats.fields import read_only, require_some
from satchel.formats._chats.transcripts import from_transcripts
from satchel.formats._sniffing import members
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


class ClaudeCode:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Claude Code transcript",
        suffixes=(),
        spec="Claude Code, transcripts below ~/.claude/projects, to September 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(), writes=False),
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
            for record in from_transcripts(
                archive, reading, place, lambda file: Transcript(file, reading.report)
            ):
                some = True
                yield record
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a transcript of Claude Code")


FORMAT = ClaudeCode()
"""What the registry finds."""
