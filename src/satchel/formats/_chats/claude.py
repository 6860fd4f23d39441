"""Rows of a Claude export as records: conversations, projects, and what Claude remembers."""

from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.errors import MalformedError
from satchel.formats._aletheia.rows import text_files
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
from satchel.memory.parts import Evidence, Scope
from satchel.memory.records import GraphNode, Model, SessionEvent
from satchel.ports.report import Report

NAME = "claude"

ROLES = {"human": "user", "assistant": "assistant"}

_PARENT, _LEAF = "parent_message_uuid", "current_leaf_message_uuid"
_PROJECT = ("uuid", "name", "description", "prompt_template", "docs")
_MEMORIES = ("conversations_memory", "project_memories", "account_uuid")


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
            raise MalformedError("this is a conversation of ChatGPT", hint="Use --from chatgpt.")
        identity = text_in(row, "uuid")
        if "chat_messages" not in row:
            raise MalformedError("no conversation of Claude", field="chat_messages")
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
        turns = _turns(list_in(row, "chat_messages"), source)
        yield from events(Talk(start, turns, text_or_none(row.get(_LEAF))), self._report)

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
                yield from _document(row_in(value, "a document"), identity)
            except MalformedError as error:
                error.field = f"docs/{number}" + (f"/{error.field}" if error.field else "")
                raise

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
                if type(text) is not str:
                    raise MalformedError("this is not text", field=f"project_memories/{project}")
                yield from _remembered(text, "project_memory", account, project)
        for name in row.keys() - set(_MEMORIES):
            self._report.lost(name, "a member of `memories.json` that is not known")


def _turns(messages: list[Any], source: str | None) -> list[Turn]:
    rows = [row_in(one, "a message") for one in messages]
    is_tree = any(_PARENT in row for row in rows)
    found, before = list[Turn](), None
    for number, row in enumerate(rows):
        try:
            event = _message(row, source)
        except MalformedError as error:
            error.field = f"chat_messages/{number}" + (f"/{error.field}" if error.field else "")
            raise
        parent = text_or_none(row.get(_PARENT)) if is_tree else before
        before = row["uuid"]
        found.append(Turn(before, parent, event))
    if len({turn.id for turn in found}) < len(found):
        raise MalformedError("two messages have one id", field="chat_messages")
    return found


def _message(row: Row, source: str | None) -> SessionEvent:
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
    return SessionEvent(
        event="message",
        role=ROLES.get(sender, sender),
        text=words if words is not None or parts is not None else "",
        content=parts,
        created_at=moment_of(row.get("created_at")),
        origin=origin_at(NAME, text_in(row, "uuid"), source, kept),
    )


def _plain(content: Any) -> tuple[str, Row] | None:
    """Return the words of contents that are one text, and what else is said of it."""
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return None
    part = content[0]
    if part.get("type") != "text" or type(part.get("text")) is not str:
        return None
    return part["text"], {name: said for name, said in part.items() if name != "text"}


def _document(row: Row, project: str) -> Iterator[Model]:
    identity, text = text_in(row, "uuid"), row.get("content")
    if type(text) is not str:
        raise MalformedError("`content` is missing, or no text", field="content")
    kept = rest_of(row, known=("uuid", "content"), times=("created_at",))
    origin = origin_at(NAME, identity, project, kept)
    created = moment_of(row.get("created_at"))
    # Under its id: two documents may have one name, and a name may be no path.
    for each in text_files(f"projects/{project}/{identity}", text, ""):
        yield msgspec.structs.replace(each, origin=origin, created_at=created)


def _remembered(
    text: str, kind: str, account: str | None, project: str | None
) -> Iterator[Semantic]:
    where = f"{kind}/{project}" if project else kind
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
