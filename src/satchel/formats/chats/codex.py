"""What Codex keeps of its conversations: rollouts, one alone or those of a folder.

A rollout becomes a session; what was rolled back stays, and what was said instead is a fork. What
Codex told the model of its surroundings has the role ``context``: nobody said it. A conversation
that was forked from another is a file of its own, with what came before in it; it says which
(``forked_from_id``). Names come from ``session_index.jsonl``, where that is in the folder. Memory
files are Markdown, and no part of this format.
"""

from collections.abc import Iterator
from typing import ClassVar

from satchel.formats._chats.archive import Archive, File, heads, opened
from satchel.formats._chats.codex import Names, Rollout
from satchel.formats._chats.fields import read_only, require_some
from satchel.formats._chats.transcripts import OfLines, from_transcripts
from satchel.formats._sniffing import members
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_INDEX = "session_index.jsonl"
_SIGNS = (
    frozenset({(b"timestamp",), (b"type",), (b"payload", b"id"), (b"payload", b"cwd")}),
    frozenset({(b"timestamp",), (b"type",), (b"payload", b"id"), (b"payload", b"originator")}),
    frozenset({(b"timestamp",), (b"id",), (b"instructions",), (b"record_type",)}),
)


class Codex:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Codex rollout",
        suffixes=(),
        spec="Codex CLI, rollouts below ~/.codex/sessions, to 0.128",
        checked="2026-11-22",
        traits=Traits(components=frozenset(), writes=False),
    )

    def recognises(self, place: Place) -> bool:
        return any(_is_rollout(head) for head in heads(place, ".jsonl"))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        some, names = False, Names()
        with opened(place, reading.limits) as archive:

            def lines_of(file: File) -> OfLines | None:
                if file.info is None or _is_in(archive, file):
                    return Rollout(reading.report, names.found)
                return names if file.name == _INDEX else None

            for record in from_transcripts(archive, reading, place, lines_of, first=_INDEX):
                some = True
                yield record
        if names.found:
            kind = f"names in {_INDEX} of missing files"
            reading.report.ignore(kind, count=len(names.found))
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a Codex rollout")


def _is_in(archive: Archive, file: File) -> bool:
    with archive.stream(file) as stream:
        return _is_rollout(stream.read(HEAD_BYTES))


def _is_rollout(head: bytes) -> bool:
    paths = {path for path, _ in members(head)}
    return any(sign <= paths for sign in _SIGNS)


FORMAT = Codex()
"""What the registry finds."""
