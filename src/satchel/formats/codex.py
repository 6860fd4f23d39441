"""Rollouts of Codex, its conversations: a single one, or those of a folder.

A rollout becomes a session; rolled back messages remain, and their replacements are a fork. Codex's
description of the environment has the role ``context``. A forked conversation is a separate file
that contains the messages before the fork, and names its origin (``forked_from_id``). Names are
from ``session_index.jsonl``, if that is in the folder. Memory files are Markdown, and not part of
this format.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from blake3 import blake3

from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._conversations import (
    INSTRUCTIONS,
    LineParser,
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
from satchel.model.records import Model, SessionEvent
from satchel.model.text import spoken_text
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
from satchel.ports.record_set import RecordSet, Report

NAME = "codex"

_OF_THE_SESSION = ("cwd", "originator", "cli_version", "model_provider", "forked_from_id", "source")
_TEXTS = ("input_text", "output_text", "text")
_OUTPUT = "_output"
_REPEATED_EVENTS = {
    "user_message": "message",
    "agent_message": "message",
    "agent_reasoning": "text",
}
_DISPLAY_MEMBERS = ("message", "text", "last_agent_message")
_STATE_EVENTS = frozenset(
    {"error", "stream_error", "warning", "background_event", "deprecation_notice", "turn_aborted"}
)
_SNAPSHOTS = frozenset({"ghost_snapshot"})
_CONTEXT_TEXT = re.compile(
    r"\s*(?:<([A-Za-z_ ]+)>.*</\1>\s*\Z|# AGENTS\.md instructions\b)", re.DOTALL
)
_PROGRAM = frozenset({"state", "session_state"})
_MOST_SHOWN = 100_000
_ROLLBACK, _SETTING = "thread_rolled_back", "turn_context"


class _CodexMessage(NamedTuple):
    """A message."""

    role: str
    text: str | None
    content: Any
    as_written: Row


class CodexNames:
    """The names of conversations in the session index; of several, the newest."""

    def __init__(self) -> None:
        self.found = dict[str, Row]()
        """Names by the ID of the conversation; used ones are removed."""

    def take(self, row: Row, number: int) -> Iterator[Model]:
        """Store the name in a line."""
        del number
        self.found[text_in(row, "id")] = row
        yield from ()

    def end(self) -> Iterator[Model]:
        """Yield nothing: names are used by conversations."""
        yield from ()


class Rollout:
    """A file that is being read.

    Args:
        report: Counts lines that are not part of the conversation.
        names: The names of conversations, by ID.
    """

    def __init__(self, report: Report, names: dict[str, Row]) -> None:
        self._report = report
        self._names = names
        self._conversation: TranscriptConversation | None = None
        self._session = ""
        self._last: str | None = None
        self._turns = list[str | None]()
        """The message before each question that was not rolled back."""

        self._words = set[bytes]()
        self._question = ""
        self._displayed = dict[bytes, str]()
        """Texts shown to the user that no message has had yet, by digest."""

        self._setting: Row | None = None
        self._waiting: Row = {}
        """Data between messages, stored with the next one."""

    def take(self, row: Row, number: int) -> Iterator[Model]:
        """Yield the records of a line.

        Raises:
            MalformedError: If it is not a line of a rollout.
        """
        kind, payload = _parts(row)
        if kind == "session_meta":
            yield from self._began(row, payload)
            return
        if self._conversation is None:
            hint = "Is it a Claude Code transcript? --from claude_code" * ("sessionId" in row)
            problem = "no `session_meta` comes before it"
            raise MalformedError(problem, field="type", hint=hint or None)
        if kind == "response_item":
            yield from self._item(row, payload, number)
        elif kind == "compacted":
            text = text_or_none(payload.get("message"))
            as_written = self._as_written(row, rest_of(payload, known=("message",)))
            yield from self._message(
                row, number, _CodexMessage("system", text or "", None, as_written)
            )
        elif kind == _SETTING:
            if payload != self._setting:
                self._wait(_SETTING, row)
            self._setting = payload
        elif kind == "event_msg":
            self._happened(row, payload)
        elif kind in _PROGRAM:
            self._report.ignore(kind)
        else:
            self._report.lost(kind, "a line that is not part of the conversation")

    def end(self) -> Iterator[Model]:
        """Yield the conversation's name; count data that no message has."""
        for kind in self._waiting:
            self._report.ignore(kind)
        if self._displayed:
            example = next(iter(self._displayed.values()))[:40]
            reason = "text that was displayed and is in no message"
            self._report.lost("event_msg", reason, example=example, count=len(self._displayed))
        named = self._names.pop(self._session, None)
        name = text_or_none(named.get("thread_name")) if named else None
        if self._conversation is not None and named is not None and name is not None:
            yield self._conversation.name_event(name, f"named {named.get('updated_at')}")

    def _began(self, row: Row, payload: Row) -> Iterator[Model]:
        identity = text_in(payload, "id")
        if self._conversation is not None:
            self._report.ignore("session_meta")  # repeated, or of the conversation of origin
            return
        metadata = {
            name: payload[name] for name in _OF_THE_SESSION if payload.get(name) is not None
        }
        known = ("id", "timestamp", *metadata)
        start = SessionEvent(
            event="session",
            created_at=moment_of(payload.get("timestamp") or row.get("timestamp")),
            metadata=metadata,
            origin=origin_at(
                NAME, identity, None, self._as_written(row, rest_of(payload, known=known))
            ),
        )
        self._session, self._conversation = identity, TranscriptConversation(start)
        yield start

    def _item(self, row: Row, payload: Row, number: int) -> Iterator[Model]:
        kind = text_in(payload, "type")
        if kind in _SNAPSHOTS:
            self._report.ignore(kind)
            return
        if kind != "message":
            for part in _texts_in(payload.get("summary")) + _texts_in(payload.get("content")):
                self._heard(part)
            role = "tool" if kind.endswith(_OUTPUT) else "assistant"
            message = _CodexMessage(role, None, [payload], self._as_written(row, {}))
            yield from self._message(row, number, message)
            return
        role, parts = text_in(payload, "role"), payload.get("content")
        texts = _texts_in(parts)
        as_written = self._as_written(row, rest_of(payload, known=("type", "role", "content")))
        plain = _plain(parts)
        if plain is not None:
            as_written["content_type"] = plain.kind
        if role == "user":
            if texts and all(map(_CONTEXT_TEXT.match, texts)):
                as_written["role"], role = role, INSTRUCTIONS
            else:
                self._turns.append(self._last)
                self._question = "\n".join(texts)
        for part_text in texts:
            self._heard(part_text)
        content = None if plain is not None or not parts else parts
        words = plain.text if plain is not None else spoken_text(content) if content else ""
        yield from self._message(row, number, _CodexMessage(role, words, content, as_written))

    def _message(self, row: Row, number: int, message: "_CodexMessage") -> Iterator[SessionEvent]:
        assert self._conversation is not None  # noqa: S101 - the caller checked
        name, as_written = f"line {number}", message.as_written
        if self._waiting:
            as_written, self._waiting = {**as_written, "before": self._waiting}, {}
        event = SessionEvent(
            event="message",
            role=message.role,
            text=message.text,
            content=message.content,
            created_at=moment_of(row.get("timestamp")),
            origin=origin_at(NAME, name, self._session, as_written),
        )
        parent, self._last = self._last, name
        yield from self._conversation.message(name, parent, event)

    def _happened(self, row: Row, payload: Row) -> None:
        kind = text_in(payload, "type")
        if kind == _ROLLBACK:
            self._go_back(payload.get("num_turns"))
            self._wait(_ROLLBACK, row)
            return
        words = self._words_in(payload, kind)
        if words is None:
            self._report.ignore(kind)
            return
        mark = _mark(words)
        if mark in self._words or words in self._question:
            return
        if len(self._displayed) < _MOST_SHOWN:
            self._displayed[mark] = words
        else:
            self._report.lost("event_msg", "text that was displayed and is in no message")

    def _words_in(self, payload: Row, kind: str) -> str | None:
        """Return the text that an event shows to the user; None for state of the program."""
        if kind in _STATE_EVENTS:
            return None
        members = (_REPEATED_EVENTS[kind],) if kind in _REPEATED_EVENTS else _DISPLAY_MEMBERS
        return next((words for name in members if (words := text_or_none(payload.get(name)))), None)

    def _go_back(self, turns: Any) -> None:
        """Make the next message follow the one before the last questions."""
        if type(turns) is not int or turns < 1 or not self._turns:
            return
        first = max(0, len(self._turns) - turns)
        self._last = self._turns[first]
        del self._turns[first:]

    def _heard(self, words: str) -> None:
        mark = _mark(words)
        self._words.add(mark)
        self._displayed.pop(mark, None)

    def _wait(self, kind: str, row: Row) -> None:
        if kind in self._waiting:
            self._report.ignore(kind)
        self._waiting[kind] = row

    def _as_written(self, row: Row, more: Row) -> Row:
        """Return the members of a line and its payload that are not stored elsewhere."""
        around = rest_of(row, known=("payload",), times=("timestamp",))
        return {**more, **({"line": around} if around else {})} if "payload" in row else more


def _parts(row: Row) -> tuple[str, Row]:
    """Return the kind and payload of a line; early versions had no wrapper."""
    if "payload" in row:
        return text_in(row, "type"), row_in(row["payload"], "`payload`")
    if "record_type" in row:
        return text_in(row, "record_type"), row
    return ("response_item" if "type" in row else "session_meta"), row


def _texts_in(parts: Any) -> list[str]:
    listed = parts if type(parts) is list else []
    texts = [part.get("text") for part in listed if type(part) is dict]
    return [one for one in texts if type(one) is str]


class _Plain(NamedTuple):
    kind: str
    text: str


def _plain(parts: Any) -> _Plain | None:
    """Return the text of contents that are a single text."""
    if type(parts) is not list or len(parts) != 1 or type(parts[0]) is not dict:
        return None
    part, texts = parts[0], _texts_in(parts)
    is_plain = part.keys() == {"type", "text"} and part["type"] in _TEXTS and bool(texts)
    return _Plain(part["type"], texts[0]) if is_plain else None


def _mark(words: str) -> bytes:
    return blake3(" ".join(words.split()).encode("utf-8", "replace")).digest(16)


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
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=((b"timestamp", b"payload"), (b"timestamp", b"instructions", b"record_type")),
        ),
        spec="Codex CLI, rollouts below ~/.codex/sessions, to 0.128",
        checked="2026-11-22",
        traits=Traits(components=frozenset(), writes=False),
    )

    def recognizes(self, location: Location) -> bool:
        return any(_is_rollout(head) for head in heads(location, ".jsonl"))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        names = CodexNames()
        with open_archive(location, reading.limits) as archive:

            def lines_of(file: ArchiveFile) -> LineParser | None:
                if file.info is None or _is_in(archive, file):
                    return Rollout(reading.report, names.found)
                return names if file.name == _INDEX else None

            records = from_transcripts(archive, reading, location, lines_of, first=_INDEX)
            yield from require_some(records, location)
        if names.found:
            kind = f"names in {_INDEX} of missing files"
            reading.report.ignore(kind, count=len(names.found))

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("a Codex rollout")


def _is_in(archive: ChatArchive, file: ArchiveFile) -> bool:
    with archive.stream(file) as stream:
        return _is_rollout(stream.read(HEAD_BYTES))


def _is_rollout(head: bytes) -> bool:
    paths = {path for path, _ in json_members(head)}
    return any(sign <= paths for sign in _SIGNS)


FORMAT = Codex()
"""The instance that the registry loads."""
