"""ChatGPT's data export: a ZIP archive, or one of the files in it.

It has a ``conversations.json``, or since 2026 several (``conversations-000.json``, ...) and a
manifest: every file with conversations is read, whatever its name. A conversation becomes a
session; edited questions and alternative answers become forks. Memories are taken from the
conversations, with their dates and messages. Members that have no field of their own are stored in
``origin.as_written``. The list of memories that ChatGPT's page fetches is read, too, from a saved
file.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from blake3 import blake3

from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._conversations import (
    INSTRUCTIONS,
    ChatConversation,
    ChatTurn,
    Row,
    RowParser,
    events,
    from_files,
    list_in,
    moment_of,
    origin_at,
    read_only,
    require_some,
    rest_of,
    row_in,
    text_in,
    text_or_none,
)
from satchel.formats._json import json_members, says_nothing
from satchel.model.records import Identity, Model, Semantic, SessionEvent
from satchel.model.text import spoken_text
from satchel.model.values import Component, Evidence, read_time
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

NAME = "chatgpt"

_MEMORY_TOOL, _TEXT, _SHOWN_LIST = "bio", "text", "model_editable_context"
_CUSTOM_INSTRUCTIONS, _TYPED_INSTRUCTIONS = "user_editable_context", "user_context_message_data"
_FENCE = re.compile(r"```(.*)```", re.DOTALL)
_FORGET = re.compile(r"\s*(?:please\s+)?(?:forget|forgot|forgotten|delete|remove)\b", re.IGNORECASE)
_NUMBERED = re.compile(r"^\s*\d+\.\s+(?:\[([^\]\n]{4,32})\]\.?\s*)?", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_MOST_SAVED, _MOST_SHOWN = 1_000_000, 80
_SAVE_TIMES = ("created_timestamp", "created_at", "create_time")
_MISSING = object()


class _SavedMemory(NamedTuple):
    """A memory in a message, with its time and message."""

    when: str
    message: str
    content: Row


class ChatGPTRecords:
    """Converts the conversations of an export to records.

    Args:
        report: Counts losses.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._saved = set[bytes]()
        self._list: _SavedMemory | None = None
        self._own: _SavedMemory | None = None

    def conversation(self, row: Row) -> Iterator[Model]:
        """Yield a conversation, and the memories saved in it.

        Raises:
            MalformedError: If it is not valid.
        """
        if "mapping" not in row and "chat_messages" in row:
            raise MalformedError("this is a Claude conversation", hint="Use --from claude.")
        nodes = row.get("mapping", _MISSING)
        nodes = {} if nodes is None else nodes
        if type(nodes) is not dict:
            raise MalformedError(
                "not a ChatGPT conversation: `mapping` is missing", field="mapping"
            )
        identity = text_or_none(row.get("conversation_id")) or text_or_none(row.get("id"))
        if identity is None:
            raise MalformedError("it has no ID", field="conversation_id")
        known = ("title", "mapping", "conversation_id" if row.get("conversation_id") else "id")
        began = moment_of(row.get("create_time"))
        as_written = rest_of(row, known=known)
        if bare := {n: one for n, one in nodes.items() if not _says_something(one)}:
            as_written["mapping"] = bare
        start = SessionEvent(
            event="session",
            name=text_or_none(row.get("title")),
            created_at=began,
            origin=origin_at(NAME, identity, None, as_written),
        )
        before = _Before(nodes)
        turns = list(_turns(nodes, before, identity))
        leaf = before.at(row.get("current_node"))
        yield from events(ChatConversation(start, turns, leaf), self._report)
        for turn in turns:
            yield from self._saved_in(turn, began)

    def memories(self, row: Row) -> Iterator[Model]:
        """Yield the memories of a list that ChatGPT's page fetches, or a single one.

        Raises:
            MalformedError: If one has no ID or no text.
        """
        if "memories" not in row:
            yield from self._remembered(row)
            return
        for number, value in enumerate(list_in(row, "memories")):
            try:
                yield from self._remembered(row_in(value, "a memory"))
            except MalformedError as error:
                error.within(f"memories/{number}")
                raise

    def rest(self) -> Iterator[Model]:
        """Yield the last list of memories, and the last instructions."""
        if self._list is not None:
            yield from self._listed(self._list)
        if self._own is not None:
            yield from _instructions_of(self._own)

    def _saved_in(self, turn: ChatTurn, began: str | None) -> Iterator[Model]:
        event = turn.event
        origin = event.origin
        as_written = origin.as_written if origin is not None else {}
        content = event.content if type(event.content) is dict else {}
        kind = content.get("content_type")
        when = event.created_at or began or ""
        message = turn.id
        if kind == _SHOWN_LIST and text_or_none(content.get("model_set_context")):
            self._list = _newer(self._list, _SavedMemory(when, message, content))
        elif words := _own_words(as_written, content if kind == _CUSTOM_INSTRUCTIONS else {}):
            self._own = _newer(self._own, _SavedMemory(when, message, words))
        elif as_written.get("recipient") == _MEMORY_TOOL and event.role == "assistant":
            text = (_words_of(content) if event.text is None else event.text).strip()
            if text:
                yield from self._saving(text, message, when or None)

    def _saving(self, text: str, message: str, when: str | None) -> Iterator[Model]:
        """Yield the memories of a tool call: each line is a fact, or a request to forget one."""
        lines = [line for one in text.splitlines() if (line := _ITEM.sub("", one).strip())]
        for number, line in enumerate(lines):
            if _FORGET.match(line):
                reason = "a request to forget something was not applied; review it"
                self._report.lost("bio", reason, example=f"{message}: {line[:_MOST_SHOWN]}")
                continue
            if len(self._saved) < _MOST_SAVED:
                self._saved.add(_digest(line))
            identity = f"bio/{message}" if number == 0 else f"bio/{message}/{number + 1}"
            yield Semantic(
                text=line,
                kind="bio",
                created_at=when,
                sources=(Evidence(kind="message", id=message),),
                origin=origin_at(NAME, identity, None, {}),
            )

    def _remembered(self, row: Row) -> Iterator[Model]:
        identity, text = text_in(row, "id"), text_in(row, "content")
        if _digest(text) in self._saved:  # already yielded with the message that saved it
            return
        self._saved.add(_digest(text))
        began = next((one for one in _SAVE_TIMES if moment_of(row.get(one))), "")
        yield Semantic(
            text=text,
            kind="memory",
            created_at=moment_of(row.get(began)),
            updated_at=moment_of(row.get("updated_at")),
            origin=origin_at(
                NAME, f"memory/{identity}", None, rest_of(row, known=("id", "content"))
            ),
        )

    def _listed(self, listing: _SavedMemory) -> Iterator[Model]:
        for day, text in facts_in(listing.content["model_set_context"]):
            if _digest(text) in self._saved:
                continue
            when = read_time(day) if day else None
            as_written = {"date": day} if day and when is None else {}
            yield Semantic(
                text=text,
                kind="model_set_context",
                created_at=when or (None if day else listing.when or None),
                sources=(Evidence(kind="message", id=listing.message),),
                origin=origin_at(
                    NAME, f"model_set_context/{day}/{_digest(text).hex()}", None, as_written
                ),
            )


def facts_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the memories of a list in the model's context, each with its date as written.

    ``1. [2024-05-01]. fact``; a line without a number belongs to the previous memory.
    """
    starts = list(_NUMBERED.finditer(text))
    before = text[: starts[0].start()] if starts else text
    if before.strip():
        yield "", before.strip()
    ends = [one.start() for one in starts[1:]] + [len(text)]
    for here, end in zip(starts, ends, strict=False):
        fact = text[here.end() : end].strip()
        if fact:
            yield here[1] or "", fact


def _own_words(as_written: Row, content: Row) -> Row:
    """Return the custom instructions: about the user, and for the model; each may be None."""
    more = as_written.get("metadata")
    typed = more.get(_TYPED_INSTRUCTIONS) if type(more) is dict else None
    typed = typed if type(typed) is dict else {}
    texts = {
        "user_profile": _typed_or_shown(typed, "about_user_message", content, "user_profile"),
        "user_instructions": _typed_or_shown(
            typed, "about_model_message", content, "user_instructions"
        ),
    }
    return {kind: text for kind, text in texts.items() if text is not None}


def _typed_or_shown(typed: Row, name: str, content: Row, other: str) -> str | None:
    """Return a text as it was typed, or without the product's text around it."""
    text = text_or_none(typed.get(name))
    return (text and text.strip()) or _unfenced(content.get(other))


def _instructions_of(instructions: _SavedMemory) -> Iterator[Model]:
    for kind, text in instructions.content.items():
        yield Identity(
            text=text if kind == "user_profile" else None,
            custom_instructions=text if kind == "user_instructions" else None,
            kind=kind,
            created_at=instructions.when or None,
            sources=(Evidence(kind="message", id=instructions.message),),
            origin=origin_at(NAME, kind, None, {}),
        )


def _words_of(content: Row) -> str:
    parts = content.get("parts")
    texts = parts if type(parts) is list else [content.get("text")]
    return "\n".join(one for one in texts if type(one) is str)


def _unfenced(text: Any) -> str | None:
    if type(text) is not str:
        return None
    inside = _FENCE.search(text)
    return ((inside[1] if inside else text).strip()) or None


def _newer(one: _SavedMemory | None, other: _SavedMemory) -> _SavedMemory:
    return other if one is None or other.when >= one.when else one


def _digest(text: str) -> bytes:
    return blake3(" ".join(text.split()).encode("utf-8", "replace")).digest(16)


# -- messages ------------------------------------------------------------------------------


def _turns(nodes: Row, before: "_Before", conversation: str) -> Iterator[ChatTurn]:
    for name, node in nodes.items():
        try:
            if node is not None and _says_something(row_in(node, "a node")):
                yield ChatTurn(name, before.above(name), _message(node, name, conversation))
        except MalformedError as error:
            error.within(f"mapping/{name}")
            raise


def _texts(value: Any) -> list[str]:
    return [one for one in value if type(one) is str] if type(value) is list else []


def _says_something(node: Any) -> bool:
    return type(node) is dict and node.get("message") is not None


class _Before:
    """Finds the nearest ancestor of a node with a message; a root has none.

    Args:
        nodes: The nodes of a conversation.
    """

    def __init__(self, nodes: Row) -> None:
        self._nodes = nodes
        self._known = dict[str, str | None]()
        self._parents = {
            child: name
            for name, node in nodes.items()
            if type(node) is dict
            for child in _texts(node.get("children"))
        }
        """Parents according to the children lists; some nodes have only these."""

    def above(self, name: str) -> str | None:
        """Return the nearest ancestor of a node with a message."""
        return self.at(self._parent(name))

    def _parent(self, name: str) -> Any:
        node = self._nodes[name]
        parent = node.get("parent") if type(node) is dict else None
        return self._parents.get(name) if parent is None else parent

    def at(self, name: Any) -> str | None:
        """Return the node itself, or its nearest ancestor with a message."""
        passed, node = dict[str, None](), None
        while type(name) is str and name not in passed and name in self._nodes:
            if name in self._known:
                node = self._known[name]
                break
            if _says_something(self._nodes[name]):
                node = name
                break
            passed[name] = None
            name = self._parent(name)
        self._known.update(dict.fromkeys(passed, node))
        return node


def _message(node: Row, name: str, conversation: str) -> SessionEvent:
    row = row_in(node["message"], "`message`")
    author = row_in(row.get("author") or {}, "`author`")
    role = text_or_none(author.get("role")) or "unknown"
    content = row.get("content")
    if type(content) is str:
        content = {"content_type": _TEXT, "parts": [content]}
    if content is not None and type(content) is not dict:
        raise MalformedError("`content` is not an object", field="content")
    known = ("content", "author", "id") if row.get("id") == name else ("content", "author")
    as_written = rest_of(row, known=known)
    more = rest_of(author, known=("role", "name"))
    as_written |= {"author": more} if any(more.values()) else {}
    of_node = rest_of(node, known=("id", "parent", "children", "message"))
    as_written |= {"node": of_node} if of_node else {}
    text = _plain(content)
    is_plain = text is not None
    if is_plain and content is not None:
        as_written["content_type"] = content["content_type"]
    if content is not None and content.get("content_type") == _CUSTOM_INSTRUCTIONS:
        as_written["role"], role = role, INSTRUCTIONS
    return SessionEvent(
        event="message",
        role=role,
        name=text_or_none(author.get("name")),
        text="" if content is None else text if is_plain else spoken_text(content),
        content=None if is_plain else content,
        created_at=moment_of(row.get("create_time")),
        origin=origin_at(NAME, name, conversation, as_written),
    )


def _plain(content: Row | None) -> str | None:
    """Return the text of a content that is a single text."""
    if content is None or content.keys() != {"content_type", "parts"}:
        return None
    parts = content["parts"]
    is_one = type(parts) is list and len(parts) == 1 and type(parts[0]) is str
    return parts[0] if is_one and content["content_type"] == _TEXT else None


_LIST, _FILES, _TALKS = "export_manifest.json", "logical_files", "conversations.json"


def count_missing(archive: ChatArchive, reading: ReadContext) -> None:
    """Report files of conversations that an export lists and does not have.

    Args:
        archive: The export.
        reading: Takes the report.
    """
    present = {file.name for file in archive.files}
    missing = {name for name in _listed(archive, reading) if name.rpartition("/")[2] not in present}
    for name in sorted(missing):
        reading.report.note(f"the export lists {name[:80]!r}, and it is missing")
    reading.missing += len(missing)


def _listed(archive: ChatArchive, reading: ReadContext) -> list[str]:
    """Return the names of the files with conversations; empty without a manifest."""
    names = []
    for file in archive.files:
        if file.name == _LIST and file.info is not None:
            try:
                with archive.document(file, reading) as document:
                    names += _names_in(document.value())
            except InputError:
                reading.report.note(
                    f"{file.path[:80]!r} cannot be read: missing files cannot be determined"
                )
    return names


def _names_in(value: Any) -> list[str]:
    for name in (_FILES, _TALKS, "files"):
        value = value.get(name) if type(value) is dict else None
    return [one for one in value if type(one) is str] if type(value) is list else []


_SHARD = re.compile(r"conversations(?:[-_]?\d{1,6})?\.json", re.IGNORECASE)
_MEMORY = (b"id", b"content", b"created_timestamp")
_STARTS = ((0,), (b"memories", 0), ())
_OF_A_LIST = frozenset({(b"memory_num_tokens",), (b"memory_max_tokens",)})
_OF_CLAUDE = frozenset({b"chat_messages", b"uuid"})
_CONVERSATION_HEAD = ((b"title",), (b"create_time",), (b"update_time",))


class ChatGPT:
    """The format."""

    info: ClassVar[Info] = Info(
        title="ChatGPT export",
        suffixes=(),
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=(
                (b"mapping",),
                (b"title", b"create_time", b"update_time"),
                (b"memory_num_tokens",),
                (b"memory_max_tokens",),
                _MEMORY,
            ),
        ),
        spec="ChatGPT data export, one file or shards, to September 2026",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            writes=False,
            personal=True,
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return any(_has_conversations(head) or _has_memories(head) for head in heads(location))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        rows = ChatGPTRecords(reading.report)
        with open_archive(location, reading.limits) as archive:
            count_missing(archive, reading)
            by_file = {file.path: _parser_of(archive, file, rows) for file in archive.files}
            yield from require_some(from_files(archive, reading, location, by_file), location)
        yield from rows.rest()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("a ChatGPT export")


def _parser_of(archive: ChatArchive, file: ArchiveFile, rows: ChatGPTRecords) -> RowParser | None:
    """Return the parser of a file; None if it has no conversations and no memories."""
    if file.info is not None and not file.ends(".json"):
        return None
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
    if _has_memories(head):
        return rows.memories
    if file.info is None or _has_conversations(head):  # a single file is what --from says
        return rows.conversation
    # A file of this name has nothing else, even if its first bytes do not show it.
    is_named = _SHARD.fullmatch(file.name) is not None
    return rows.conversation if is_named and says_nothing(head, _OF_CLAUDE) else None


def _has_memories(head: bytes) -> bool:
    paths = {path for path, _ in json_members(head)}
    if not _OF_A_LIST.isdisjoint(paths) and (b"memories", 0, b"content") in paths:
        return True
    return any(all((*start, name) in paths for name in _MEMORY) for start in _STARTS)


def _has_conversations(head: bytes) -> bool:
    paths = {path for path, _ in json_members(head)}
    for start in ((0,), (b"conversations", 0), ()):
        if (*start, b"mapping") in paths:
            return True
        if all((*start, *name) in paths for name in _CONVERSATION_HEAD):
            return True
    return False


FORMAT = ChatGPT()
"""The instance that the registry loads."""
