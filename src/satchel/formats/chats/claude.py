"""What Claude gives out when its data is exported: a ZIP archive, or one of the files in it.

Claude's memory becomes memories, a paragraph each, with its heading as a tag; a project's
instructions become an identity entry, its documents files. Conversations become sessions: a list
of messages, or a tree where the export says which message came before which. Every member that has
no place of its own is kept in ``origin.as_written``. ``memories.json`` is read as a list and as a
single object, projects as one file and as one file each, archives of 2026 one by one. Files of its
memory are memories like the rest of it, conversations of Claude Design are sessions.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from satchel.formats._chats.archive import Archive, File, heads, opened
from satchel.formats._chats.claude import Rows
from satchel.formats._chats.fields import OfRows, from_files, read_only, require_some
from satchel.formats._sniffing import Step, members, says_nothing
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_CONVERSATION = (b"uuid", b"name", b"summary")
_MEMORIES = (b"conversations_memory", b"project_memories", b"memory_files")
_OF_A_PROJECT = (b"prompt_template", b"is_starter_project", b"docs")
_DESIGN = (b"uuid", b"title", b"project", b"messages")
_OF_CHATGPT = frozenset({b"mapping", b"create_time"})
_PLACES = re.compile(
    r"(?:^|/)(?:(?P<conversation>conversations(?:[-_]?\d{1,6})?\.json)"
    r"|(?P<memories>memories(?:\.json|/[^/]+\.json))"
    r"|(?P<project>projects(?:\.json|/[^/]+\.json))"
    r"|(?P<design>design_chats/[^/]+\.json))\Z"
)


class Claude:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Claude export",
        suffixes=(),
        spec="Claude.ai data export, conversations, projects and memories, to September 2026",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            writes=False,
            personal=True,
        ),
    )

    def recognises(self, place: Place) -> bool:
        return any(_kind(head) for head in heads(place))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        rows, some = Rows(reading.report), False
        with opened(place, reading.limits) as archive:
            makes: dict[str, OfRows | None] = {
                "conversation": rows.conversation,
                "memories": rows.memories,
                "project": rows.project,
                "design": rows.design,
            }
            kinds = {file.path: _kind_of(archive, file) for file in archive.files}
            if len(kinds) == 1:  # what it is said to be, if not another of the three
                kinds = {path: kind or "conversation" for path, kind in kinds.items()}
            by_file = {path: makes.get(kind) for path, kind in kinds.items()}
            for record in from_files(archive, reading, place, by_file):
                some = True
                yield record
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a Claude export")


def _kind_of(archive: Archive, file: File) -> str:
    """Return what is in a file: by its contents, not by its name; empty for nothing of Claude's."""
    if file.info is not None and not file.ends(".json"):
        return ""
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
    is_named = file.info is not None and says_nothing(head, _OF_CHATGPT)
    return _kind(head) or (_named(file.path) if is_named else "")


def _named(path: str) -> str:
    """Return what a file is by its name, where its first bytes say nothing."""
    found = _PLACES.search(path)
    return next((kind for kind, said in found.groupdict().items() if said), "") if found else ""


def _kind(head: bytes) -> str:
    paths = {path for path, _ in members(head)}
    for start in ((0,), (b"conversations", 0), ()):
        if (*start, b"chat_messages") in paths or _all_there(start, _CONVERSATION, paths):
            return "conversation"
        if any((*start, name) in paths for name in _MEMORIES):
            return "memories"
        if any(_all_there(start, (b"uuid", b"name", one), paths) for one in _OF_A_PROJECT):
            return "project"
        if _all_there(start, _DESIGN, paths):
            return "design"
    return ""


def _all_there(
    start: tuple[Step, ...], names: tuple[bytes, ...], paths: set[tuple[Step, ...]]
) -> bool:
    return all((*start, name) in paths for name in names)


FORMAT = Claude()
"""What the registry finds."""
