"""Transcripts of Claude Code: a single one, or those of a folder.

A transcript becomes a session; an edited question begins a fork. The conversation continues after a
compaction. Every line with a message becomes one, with its contents unchanged; other lines
(progress, snapshots of files) are counted as lost, by type. Notes in a project's folder ``memory``
come first; alone they are ``markdown_memory``.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._conversations import (
    Row,
    TranscriptConversation,
    from_transcripts,
    moment_of,
    origin_at,
    read_only,
    require_some,
    rest_of,
    row_in,
    text_in,
    text_or_none,
)
from satchel.formats._json import json_members
from satchel.formats._note_folders import memories_in
from satchel.model.records import Model, SessionEvent
from satchel.model.text import spoken_text
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

NAME = "claude_code"

_MESSAGE_KINDS = ("user", "assistant", "system")
_NAMES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_PROGRAM = frozenset(
    {
        *("file-history-snapshot", "progress", "queue-operation", "last-prompt", "permission-mode"),
        *("mode", "agent-name", "agent-color", "agent-setting", "pr-link", "tag", "task-summary"),
        *("attribution-snapshot", "worktree-state", "content-replacement", "speculation-accept"),
        *("saved_hook_context", "bridge-session", "started", "result"),
    }
)
"""Kinds of lines with the program's own state."""

_OF_THE_SESSION = ("sessionId", "cwd", "gitBranch", "version", "userType")
_KNOWN = ("uuid", "parentUuid", "sessionId", "message", "content")


class Transcript:
    """A file that is being read.

    Args:
        file: The name of the file.
        report: Counts lines that are not part of the conversation.
    """

    def __init__(self, file: ArchiveFile, report: Report) -> None:
        self._file = file
        self._report = report
        self._conversation: TranscriptConversation | None = None
        self._name: str | None = None
        self._named: Row = {}

    def take(self, row: Row, number: int) -> Iterator[Model]:
        """Yield the records of a line.

        Raises:
            MalformedError: If it is not a line of a transcript.
        """
        kind = text_in(row, "type")
        if kind in _NAMES:
            yield from self._name_event(text_or_none(row.get(_NAMES[kind])), row, number)
            return
        identity = text_or_none(row.get("uuid"))
        if self._conversation is None and "payload" in row:
            raise MalformedError("this is a Codex rollout", hint="Use --from codex.")
        if kind not in _MESSAGE_KINDS:
            if identity is not None and self._conversation is not None:
                self._conversation.passes(identity, text_or_none(row.get("parentUuid")))
            if kind in _PROGRAM:
                self._report.ignore(kind)
            else:
                self._report.lost(kind, "a line that is not part of the conversation")
            return
        if identity is None:
            raise MalformedError("`uuid` is missing, or not text", field="uuid")
        if self._conversation is None:
            self._conversation = TranscriptConversation(self._started(row))
            yield self._conversation.start
        if self._conversation.knows(identity):
            self._report.ignore("duplicate line")
            return
        parent = text_or_none(row.get("parentUuid")) or text_or_none(row.get("logicalParentUuid"))
        yield from self._conversation.message(identity, parent, self._message(row, kind, identity))

    def end(self) -> Iterator[Model]:
        """Yield nothing: all records are yielded by ``take``."""
        yield from ()

    def _started(self, row: Row) -> SessionEvent:
        session = text_in(row, "sessionId")
        agent = text_or_none(row.get("agentId"))
        metadata = {name: row[name] for name in _OF_THE_SESSION[1:] if row.get(name) is not None}
        return SessionEvent(
            event="session",
            name=self._name,
            created_at=moment_of(row.get("timestamp")),
            metadata=metadata,
            origin=origin_at(
                NAME,
                f"{session}/{agent}" if agent else session,
                None,
                {"named": self._named} if self._named else {},
            ),
        )

    def _name_event(self, name: str | None, row: Row, number: int) -> Iterator[Model]:
        if name is None:
            self._report.lost(row["type"], "a name that is not text")
        elif self._conversation is None:
            if self._name is not None:  # of conversations that this one continues
                self._report.ignore(row["type"])
            self._name, self._named = name, row
        else:
            yield self._conversation.name_event(name, f"line {number}")

    def _message(self, row: Row, kind: str, identity: str) -> SessionEvent:
        assert self._conversation is not None  # noqa: S101 - the caller began it
        origin = self._conversation.start.origin
        as_written = rest_of(row, known=_KNOWN, times=("timestamp",))
        for name in _OF_THE_SESSION[1:]:  # stored once, with the conversation
            if as_written.get(name) == self._conversation.start.metadata.get(name):
                as_written.pop(name, None)
        if kind == "system":
            role, content = "system", row.get("content")
        else:
            message = row_in(row.get("message"), "`message`")
            role, content = text_in(message, "role"), message.get("content")
            more = rest_of(message, known=("role", "content"))
            as_written |= {"message": more} if more else {}
        parts = None if type(content) is str else content
        return SessionEvent(
            event="message",
            role=role,
            text=content if type(content) is str else "" if parts is None else spoken_text(parts),
            content=parts,
            created_at=moment_of(row.get("timestamp")),
            origin=origin_at(NAME, identity, origin.id if origin else None, as_written),
        )


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
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=tuple(tuple(name for (name,) in group) for group in _SIGNS),
        ),
        spec="Claude Code, transcripts and memory below ~/.claude/projects, to September 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), writes=False),
    )

    def recognizes(self, location: Location) -> bool:
        for head in heads(location, ".jsonl"):
            paths = {path for path, _ in json_members(head)}
            if any(sign <= paths for sign in _SIGNS):
                return True
        return False

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        with open_archive(location, reading.limits) as archive:
            notes, conversations = _split(archive)
            tops = list(notes) if len(notes) == 1 else [""] * len(notes)
            memories = chain.from_iterable(
                memories_in(one, reading, location, top)
                for top, one in zip(tops, notes.values(), strict=True)
            )
            turns = from_transcripts(
                conversations, reading, location, lambda file: Transcript(file, reading.report)
            )
            yield from require_some(chain[Model](memories, turns), location)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("a Claude Code transcript")


def _split(archive: ChatArchive) -> tuple[dict[str, ChatArchive], ChatArchive]:
    """Separate the notes from the transcripts: folders of notes by path, and the other files."""
    notes, others = dict[str, list[ArchiveFile]](), list[ArchiveFile]()
    for file in archive.files:
        above = _MEMORY.match(file.path) if file.info is not None else None
        if above is None:
            others.append(file)
        else:
            notes.setdefault(above[0], []).append(file)
    return {top: archive.of(files) for top, files in notes.items()}, archive.of(others)


FORMAT = ClaudeCode()
"""The instance that the registry loads."""
