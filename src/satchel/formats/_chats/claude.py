"""Rows of a Claude export as records: conversations, projects, and what Claude remembers."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.errors import InputError, MalformedError
from satchel.formats._chats.claude_attached import files_at, long_attachments
from satchel.formats._chats.claude_design import designed
from satchel.formats._chats.fields import (
    Row,
    list_in,
    moment_of,
    rest_of,
    row_in,
    text_in,
    text_or_none,
)
from satchel.formats._chats.paragraphs import paragraphs, words_of
from satchel.formats._chats.threads import Talk, Turn, events, origin_at
from satchel.memory.entries import Identity, Semantic
from satchel.memory.messages import spoken_in
from satchel.memory.parts import Evidence, Scope
from satchel.memory.records import FileVersion, GraphNode, Model, SessionEvent
from satchel.ports.report import Report

NAME = "claude"

ROLES = {"human": "user", "assistant": "assistant"}

_PARENT, _LEAF = "parent_message_uuid", "current_leaf_message_uuid"
_PROJECT = ("uuid", "name", "description", "prompt_template", "docs")
_MEMORIES = ("conversations_memory", "project_memories", "memory_files", "account_uuid")
_FILE = ("path", "content")
_OF_A_PROJECT = re.compile(r"/?projects/([0-9A-Za-z-]{8,64})/")
_NO_TEXT = "the export has no text of it"


class Rows:
    """Makes records of the rows of one export.

    Args:
        report: Where what cannot be kept is counted.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def conversation(self, row: Row) -> Iterator[Model]:
        """Yield a conversation.

        Raises:
            MalformedError: If it is none.
        """
        if "chat_messages" not in row and "mapping" in row:
            raise MalformedError("this is a ChatGPT conversation", hint="Use --from chatgpt.")
        identity = text_in(row, "uuid")
        if "chat_messages" not in row:
            raise MalformedError("not a Claude conversation", field="chat_messages")
        account = row.get("account")
        source = text_or_none(account.get("uuid")) if type(account) is dict else None
        known = ("uuid", "name", "chat_messages")
        start = SessionEvent(
            event="session",
            name=text_or_none(row.get("name")),
            created_at=moment_of(row.get("created_at")),
            origin=origin_at(
                NAME, identity, source, rest_of(row, known=known, times=("created_at",))
            ),
        )
        turns, files = _turns(list_in(row, "chat_messages"), source, self._report)
        yield from events(Talk(start, turns, text_or_none(row.get(_LEAF))), self._report)
        yield from files

    def design(self, row: Row) -> Iterator[Model]:
        """Yield a conversation of Claude Design.

        Raises:
            MalformedError: If it is none.
        """
        identity = text_in(row, "uuid")
        known = ("uuid", "title", "messages")
        start = SessionEvent(
            event="session",
            name=text_or_none(row.get("title")),
            created_at=moment_of(row.get("created_at")),
            origin=origin_at(
                NAME, identity, None, rest_of(row, known=known, times=("created_at",))
            ),
        )
        turns, before = list[Turn](), None
        for number, value in enumerate(list_in(row, "messages")):
            if value is None:
                self._report.lost("message", "it is empty")
                continue
            try:
                one = designed(row_in(value, "a message"), identity, number)
            except MalformedError as error:
                error.field = f"messages/{number}" + (f"/{error.field}" if error.field else "")
                raise
            assert one.origin is not None and one.origin.id is not None  # noqa: S101, PT018
            turns.append(Turn(one.origin.id, before, one))
            before = one.origin.id
        yield from events(Talk(start, turns, before), self._report)

    def project(self, row: Row) -> Iterator[Model]:
        """Yield a project: what it is, what Claude was told for it, and its documents.

        Raises:
            MalformedError: If it is none.
        """
        identity = text_in(row, "uuid")
        creator = row.get("creator")
        source = text_or_none(creator.get("uuid")) if type(creator) is dict else None
        yield GraphNode(
            name=text_or_none(row.get("name")),
            labels=("Project",),
            summary=text_or_none(row.get("description")),
            origin=origin_at(NAME, identity, source, rest_of(row, known=_PROJECT)),
        )
        told = text_or_none(row.get("prompt_template"))
        if told is not None:
            yield Identity(
                kind="prompt_template",
                custom_instructions=told,
                created_at=moment_of(row.get("created_at")),
                scope=Scope(user=source, namespace=("projects", identity)),
                origin=origin_at(NAME, f"{identity}/prompt_template", source, {}),
            )
        for number, value in enumerate(list_in(row, "docs")):
            try:
                yield from self._document(row_in(value, "a document"), identity)
            except InputError as error:
                error.field = f"docs/{number}" + (f"/{error.field}" if error.field else "")
                raise

    def _document(self, row: Row, project: str) -> Iterator[Model]:
        identity, text = text_in(row, "uuid"), row.get("content")
        if text is None:
            self._report.lost(
                "docs", _NO_TEXT, example=text_or_none(row.get("filename")) or identity
            )
            return
        if type(text) is not str:
            raise MalformedError("`content` is no text", field="content")
        kept = rest_of(row, known=("uuid", "content"), times=("created_at",))
        origin = origin_at(NAME, identity, project, kept)
        created = moment_of(row.get("created_at"))
        # Under its id: two documents may have one name, and a name may be no path.
        yield from files_at(f"projects/{project}/{identity}", text, origin, created)

    def memories(self, row: Row) -> Iterator[Model]:
        """Yield what Claude remembers: of all conversations, and of those of each project.

        Raises:
            MalformedError: If it is something else.
        """
        account = text_or_none(row.get("account_uuid"))
        whole = row.get("conversations_memory")
        if whole is not None and type(whole) is not str:
            raise MalformedError("this is not text", field="conversations_memory")
        yield from _remembered(whole or "", "conversations_memory", account, None)
        projects = row.get("project_memories")
        if projects is not None:
            for project, text in row_in(projects, "`project_memories`").items():
                if text is not None and type(text) is not str:
                    raise MalformedError("this is not text", field=f"project_memories/{project}")
                yield from _remembered(text or "", "project_memory", account, project)
        for number, value in enumerate(list_in(row, "memory_files")):
            try:
                yield from self._memory_file(row_in(value, "a file"), account)
            except MalformedError as error:
                error.field = f"memory_files/{number}" + (f"/{error.field}" if error.field else "")
                raise
        for name in row.keys() - set(_MEMORIES):
            self._report.lost(name, "an unknown member of `memories.json`")

    def _memory_file(self, row: Row, account: str | None) -> Iterator[Semantic]:
        """Yield what a file of Claude's memory says, as it has kept it since 2026."""
        path, text = text_in(row, "path"), row.get("content")
        if type(text) is not str:
            self._report.lost("memory_files", _NO_TEXT, example=path)
            return
        about = _OF_A_PROJECT.match(path)
        project = about[1] if about is not None else None
        kept = rest_of(row, known=_FILE, times=("updated_at",))
        for each in _remembered(text, "memory_file", account, project, f"memory_files/{path}"):
            origin = each.origin
            assert origin is not None  # noqa: S101 - each that is read has one
            yield msgspec.structs.replace(
                each,
                created_at=moment_of(row.get("updated_at")),
                sources=(Evidence(kind="file", id=path), *each.sources),
                origin=msgspec.structs.replace(origin, as_written=kept),
            )


def _turns(
    messages: list[Any], source: str | None, report: Report
) -> tuple[list[Turn], list[FileVersion]]:
    """Return the messages, and the files that are too long to be in them."""
    rows = [row_in(one, "a message") for one in messages if one is not None]
    if len(rows) < len(messages):
        report.ignore("empty message", count=len(messages) - len(rows))
    # Where no message names one before it, they are a list.
    is_tree = any(text_or_none(row.get(_PARENT)) for row in rows)
    found, seen, before = list[Turn](), dict[str, Row](), None
    files = list[FileVersion]()
    for number, row in enumerate(rows):
        try:
            event, attached = _message(row, source)
        except InputError as error:
            error.field = f"chat_messages/{number}" + (f"/{error.field}" if error.field else "")
            raise
        identity = row["uuid"]
        if seen.setdefault(identity, row) is not row:
            if seen[identity] != row:
                raise MalformedError("two messages have the same ID", field="chat_messages")
            report.ignore("duplicate message")
            continue
        parent = text_or_none(row[_PARENT]) if is_tree and _PARENT in row else before
        before = identity
        found.append(Turn(before, parent, event))
        files += attached
    return found, files


def _message(row: Row, source: str | None) -> tuple[SessionEvent, list[FileVersion]]:
    sender, text, content = text_in(row, "sender"), row.get("text"), row.get("content")
    if text is not None and type(text) is not str:
        raise MalformedError("this is not text", field="text")
    kept = rest_of(row, known=("uuid", "text", "content", "sender"), times=("created_at",))
    if ROLES.get(sender) != sender:
        kept["sender"] = sender
    plain = _plain(content)
    words: str | None = text or None
    if plain is not None and (text is None or text in ("", plain[0])):
        words, parts = plain[0], None
        kept |= {"content": plain[1]} if plain[1] else {}
    else:
        parts = content or None
        if parts is not None and text:
            words, kept = None, {**kept, "text": text}
    if words is None:
        words = "" if parts is None else spoken_in(parts)
    identity, created = text_in(row, "uuid"), moment_of(row.get("created_at"))
    files = [
        one
        for path, long in long_attachments(kept, identity)
        for one in files_at(path, long, origin_at(NAME, path, source, {}), created)
    ]
    event = SessionEvent(
        event="message",
        role=ROLES.get(sender, sender),
        text=words,
        content=parts,
        created_at=created,
        origin=origin_at(NAME, identity, source, kept),
    )
    return event, files


def _plain(content: Any) -> tuple[str, Row] | None:
    """Return the words of contents that are one text, and what else is said of it."""
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return None
    part = content[0]
    if part.get("type") != "text" or type(part.get("text")) is not str:
        return None
    return part["text"], {name: said for name, said in part.items() if name != "text"}


def _remembered(
    text: str, kind: str, account: str | None, project: str | None, where: str = ""
) -> Iterator[Semantic]:
    where = where or (f"{kind}/{project}" if project else kind)
    seen = dict[str, int]()
    for each in paragraphs(text):
        heading = words_of(each.heading) if each.heading else ""
        place = seen[heading] = seen.get(heading, 0) + 1
        yield Semantic(
            text=each.text,
            kind=kind,
            tags=(heading,) if heading else (),
            scope=Scope(user=account, namespace=("projects", project) if project else ()),
            sources=(Evidence(kind="project", id=project),) if project else (),
            origin=origin_at(NAME, f"{where}/{heading}/{place}", account, {}),
        )
