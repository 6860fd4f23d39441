"""What ChatGPT gives out when data is exported: a ZIP archive, or one of the files in it.

One ``conversations.json``, or since 2026 many (``conversations-000.json``, ...) beside a manifest:
whatever file holds conversations is read, whatever it is called. A conversation becomes a session;
edited questions and other answers become forks of it. Memories are found in the conversations (see
``_chats.chatgpt``), with their dates and the messages that they came from. Every member that has no
place of its own is kept in ``origin.as_written``. The list of memories that ChatGPT's own page
fetches is read as well, where somebody saved it.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from satchel.formats._chats.archive import Archive, File, heads, opened
from satchel.formats._chats.chatgpt import Rows
from satchel.formats._chats.chatgpt_lists import count_missing
from satchel.formats._chats.fields import OfRows, from_files, read_only, require_some
from satchel.formats._sniffing import members, says_nothing
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_SHARD = re.compile(r"conversations(?:[-_]?\d{1,6})?\.json", re.IGNORECASE)
_MEMORY = (b"id", b"content", b"created_timestamp")
_STARTS = ((0,), (b"memories", 0), ())
_OF_A_LIST = frozenset({(b"memory_num_tokens",), (b"memory_max_tokens",)})
_OF_CLAUDE = frozenset({b"chat_messages", b"uuid"})
_HEAD = ((b"title",), (b"create_time",), (b"update_time",))


class ChatGPT:
    """The format."""

    info: ClassVar[Info] = Info(
        title="ChatGPT export",
        suffixes=(),
        spec="ChatGPT data export, one file or shards, to September 2026",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            writes=False,
            personal=True,
        ),
    )

    def recognises(self, place: Place) -> bool:
        return any(_has_conversations(head) or _has_memories(head) for head in heads(place))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        rows, some = Rows(reading.report), False
        with opened(place, reading.limits) as archive:
            count_missing(archive, reading)
            by_file = {file.path: _taking(archive, file, rows) for file in archive.files}
            for record in from_files(archive, reading, place, by_file):
                some = True
                yield record
        yield from rows.rest()
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a ChatGPT export")


def _taking(archive: Archive, file: File, rows: Rows) -> OfRows | None:
    """Return what makes records of a file; None where it has no conversations and no memories."""
    if file.info is not None and not file.ends(".json"):
        return None
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
    if _has_memories(head):
        return rows.memories
    if file.info is None or _has_conversations(head):  # by itself it is what it is said to be
        return rows.conversation
    # Under this name there is nothing else: where the first bytes say nothing, the rest does.
    is_named = _SHARD.fullmatch(file.name) is not None
    return rows.conversation if is_named and says_nothing(head, _OF_CLAUDE) else None


def _has_memories(head: bytes) -> bool:
    paths = {path for path, _ in members(head)}
    if not _OF_A_LIST.isdisjoint(paths) and (b"memories", 0, b"content") in paths:
        return True
    return any(all((*start, name) in paths for name in _MEMORY) for start in _STARTS)


def _has_conversations(head: bytes) -> bool:
    paths = {path for path, _ in members(head)}
    for start in ((0,), (b"conversations", 0), ()):
        if (*start, b"mapping") in paths:
            return True
        if all((*start, *name) in paths for name in _HEAD):
            return True
    return False


FORMAT = ChatGPT()
"""What the registry finds."""
