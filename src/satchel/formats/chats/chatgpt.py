"""What ChatGPT gives out when data is exported: a ZIP archive, or one of the files in it.

One ``conversations.json``, or since 2026 many (``conversations-000.json``, ...) beside a manifest:
whatever file holds conversations is read, whatever it is called. A conversation becomes a session;
edited questions and other answers become forks of it. Memories are found in the conversations (see
``_chats.chatgpt``), with their dates and the messages that they came from. Every member that has no
place of its own is kept in ``origin.as_written``.
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
_OF_CLAUDE = frozenset({b"chat_messages", b"uuid"})
_HEAD = ((b"title",), (b"create_time",), (b"update_time",))


class ChatGPT:
    """The format."""

    info: ClassVar[Info] = Info(
        title="ChatGPT export",
        suffixes=(),
        spec="ChatGPT data export, one file or shards, to September 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.IDENTITY}), writes=False),
    )

    def recognises(self, place: Place) -> bool:
        return any(_has_conversations(head) for head in heads(place))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        rows, some = Rows(reading.report), False
        with opened(place, reading.limits) as archive:
            count_missing(archive, reading)
            by_file: dict[str, OfRows | None] = {
                file.path: rows.conversation if _is_read(archive, file) else None
                for file in archive.files
            }
            for record in from_files(archive, reading, place, by_file):
                some = True
                yield record
        yield from rows.rest()
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("an export of ChatGPT")


def _is_read(archive: Archive, file: File) -> bool:
    if file.info is None:  # what it is said to be
        return True
    if not file.ends(".json"):
        return False
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
    # Under this name there is nothing else: where the first bytes say nothing, the rest does.
    is_named = _SHARD.fullmatch(file.name) is not None
    return _has_conversations(head) or (is_named and says_nothing(head, _OF_CLAUDE))


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
