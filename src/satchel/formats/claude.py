"""Claude's data export: a ZIP archive, or one of the files in it.

Claude's memory becomes memories, one per paragraph, with the heading as a tag; a project's
instructions become an identity entry, and its documents files. Conversations become sessions: a
list of messages, or a tree if the export names the parents of messages. Members that have no field
of their own are stored in ``origin.as_written``. ``memories.json`` is read as a list and as a
single object, projects as one file and as one file each, archives of 2026 one by one. Memory files
become memories, conversations of Claude Design sessions.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, MalformedError
from satchel.formats._aletheia.rows import text_files
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._conversations import (
    ChatConversation,
    ChatTurn,
    Row,
    RowParser,
    events,
    from_files,
    list_in,
    moment_of,
    origin_at,
    paragraphs,
    read_only,
    require_some,
    rest_of,
    row_in,
    text_in,
    text_or_none,
    words_of,
)
from satchel.formats._json import Step, json_members, says_nothing
from satchel.model.records import FileVersion, GraphNode, Identity, Model, Semantic, SessionEvent
from satchel.model.text import spoken_text
from satchel.model.values import Component, Evidence, Origin, Scope
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
from satchel.runtime.contained_folder import parts_of

_MOST_ATTACHED = 1 << 17
"""Largest number of characters of attachments inside a message's record."""

_TEXT = "extracted_content"


def files_at(path: str, text: str, origin: Origin, created: str | None) -> Iterator[FileVersion]:
    """Yield a text as a file, in as many parts as needed.

    Raises:
        PathRefusedError: If the path leads out of its folder.
    """
    parts_of(path)
    for each in text_files(path, text, ""):
        yield msgspec.structs.replace(each, origin=origin, created_at=created)


def long_attachments(as_written: Row, message: str) -> Iterator[tuple[str, str]]:
    """Move long texts of attachments out of a message; yield their paths and texts.

    Args:
        as_written: The stored members; each text is replaced by the path of its file.
        message: The ID of the message.
    """
    listed = as_written.get("attachments")
    rows = (
        [attachment for attachment in listed if type(attachment) is dict]
        if type(listed) is list
        else []
    )
    texts = [attachment.get(_TEXT) for attachment in rows]
    if sum(len(text) for text in texts if type(text) is str) <= _MOST_ATTACHED:
        return
    as_written["attachments"] = attachments = list(listed or ())
    for number, attachment in enumerate(attachments):
        text = attachment.get(_TEXT) if type(attachment) is dict else None
        if type(text) is str and text:
            path = f"attachments/{message}/{number}"
            attachments[number] = {k: v for k, v in attachment.items() if k != _TEXT} | {
                "file": path
            }
            yield path, text


_NAME = "claude"


def designed(row: Row, conversation: str, number: int) -> SessionEvent:
    """Return a message of Claude Design, whose text is in a nested object, as an event.

    Args:
        row: The message.
        conversation: The ID of its conversation.
        number: Its position, for one without an ID.

    Raises:
        MalformedError: If it has no role.
    """
    role, inside = text_in(row, "role"), row.get("content")
    as_written = rest_of(row, known=("uuid", "role", "content"), times=("created_at",))
    words = inside.get("content") if type(inside) is dict else inside
    text = words if type(words) is str else None
    if text is not None and type(inside) is dict:
        same = ("content", "role") if inside.get("role") == role else ("content",)
        more = rest_of(inside, known=same)
        as_written |= {"content": more} if more else {}
    identity = text_or_none(row.get("uuid")) or f"{conversation}/{number}"
    return SessionEvent(
        event="message",
        role=role,
        text="" if inside is None else text,
        content=None if text is not None else inside,
        created_at=moment_of(row.get("created_at")),
        origin=origin_at(_NAME, identity, None, as_written),
    )


NAME = "claude"

ROLES = {"human": "user", "assistant": "assistant"}

_PARENT, _LEAF = "parent_message_uuid", "current_leaf_message_uuid"
_PROJECT = ("uuid", "name", "description", "prompt_template", "docs")
_MEMORY_MEMBERS = ("conversations_memory", "project_memories", "memory_files", "account_uuid")
_FILE = ("path", "content")
_PROJECT_MEMBERS = re.compile(r"/?projects/([0-9A-Za-z-]{8,64})/")
_NO_TEXT = "the export has no text of it"


class ClaudeRecords:
    """Converts the rows of an export to records.

    Args:
        report: Counts losses.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def conversation(self, row: Row) -> Iterator[Model]:
        """Yield a conversation.

        Raises:
            MalformedError: If it is not valid.
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
        yield from events(
            ChatConversation(start, turns, text_or_none(row.get(_LEAF))), self._report
        )
        yield from files

    def design(self, row: Row) -> Iterator[Model]:
        """Yield a conversation of Claude Design.

        Raises:
            MalformedError: If it is not valid.
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
        turns, before = list[ChatTurn](), None
        for number, value in enumerate(list_in(row, "messages")):
            if value is None:
                self._report.lost("message", "it is empty")
                continue
            try:
                event = designed(row_in(value, "a message"), identity, number)
            except MalformedError as error:
                error.within(f"messages/{number}")
                raise
            assert event.origin is not None and event.origin.id is not None  # noqa: S101, PT018
            turns.append(ChatTurn(event.origin.id, before, event))
            before = event.origin.id
        yield from events(ChatConversation(start, turns, before), self._report)

    def project(self, row: Row) -> Iterator[Model]:
        """Yield a project: its description, its instructions, and its documents.

        Raises:
            MalformedError: If it is not valid.
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
        instructions = text_or_none(row.get("prompt_template"))
        if instructions is not None:
            yield Identity(
                kind="prompt_template",
                custom_instructions=instructions,
                created_at=moment_of(row.get("created_at")),
                scope=Scope(user=source, namespace=("projects", identity)),
                origin=origin_at(NAME, f"{identity}/prompt_template", source, {}),
            )
        for number, value in enumerate(list_in(row, "docs")):
            try:
                yield from self._document(row_in(value, "a document"), identity)
            except InputError as error:
                error.within(f"docs/{number}")
                raise

    def _document(self, row: Row, project: str) -> Iterator[Model]:
        identity, text = text_in(row, "uuid"), row.get("content")
        if text is None:
            self._report.lost(
                "docs", _NO_TEXT, example=text_or_none(row.get("filename")) or identity
            )
            return
        if type(text) is not str:
            raise MalformedError("`content` is not text", field="content")
        as_written = rest_of(row, known=("uuid", "content"), times=("created_at",))
        origin = origin_at(NAME, identity, project, as_written)
        created = moment_of(row.get("created_at"))
        # By ID: two documents may have the same name, and a name may not be a valid path.
        yield from files_at(f"projects/{project}/{identity}", text, origin, created)

    def memories(self, row: Row) -> Iterator[Model]:
        """Yield Claude's memory: that of all conversations, and that of each project.

        Raises:
            MalformedError: If it has another type.
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
                error.within(f"memory_files/{number}")
                raise
        for name in row.keys() - set(_MEMORY_MEMBERS):
            self._report.lost(name, "an unknown member of `memories.json`")

    def _memory_file(self, row: Row, account: str | None) -> Iterator[Semantic]:
        """Yield the memories in a memory file, the form used since 2026."""
        path, text = text_in(row, "path"), row.get("content")
        if type(text) is not str:
            self._report.lost("memory_files", _NO_TEXT, example=path)
            return
        about = _PROJECT_MEMBERS.match(path)
        project = about[1] if about is not None else None
        as_written = rest_of(row, known=_FILE, times=("updated_at",))
        for each in _remembered(text, "memory_file", account, project, f"memory_files/{path}"):
            origin = each.origin
            assert origin is not None  # noqa: S101 - each that is read has one
            yield msgspec.structs.replace(
                each,
                created_at=moment_of(row.get("updated_at")),
                sources=(Evidence(kind="file", id=path), *each.sources),
                origin=msgspec.structs.replace(origin, as_written=as_written),
            )


def _turns(
    messages: list[Any], source: str | None, report: Report
) -> tuple[list[ChatTurn], list[FileVersion]]:
    """Return the messages, and the attachments that are too long for them."""
    rows = [row_in(one, "a message") for one in messages if one is not None]
    if len(rows) < len(messages):
        report.ignore("empty message", count=len(messages) - len(rows))
    # If no message names a parent, they are a list.
    is_tree = any(text_or_none(row.get(_PARENT)) for row in rows)
    turns, seen, before = list[ChatTurn](), dict[str, Row](), None
    files = list[FileVersion]()
    for number, row in enumerate(rows):
        try:
            event, attached = _message(row, source)
        except InputError as error:
            error.within(f"chat_messages/{number}")
            raise
        identity = row["uuid"]
        if seen.setdefault(identity, row) is not row:
            if seen[identity] != row:
                raise MalformedError("two messages have the same ID", field="chat_messages")
            report.ignore("duplicate message")
            continue
        parent = text_or_none(row[_PARENT]) if is_tree and _PARENT in row else before
        before = identity
        turns.append(ChatTurn(before, parent, event))
        files += attached
    return turns, files


def _message(row: Row, source: str | None) -> tuple[SessionEvent, list[FileVersion]]:
    sender, text, content = text_in(row, "sender"), row.get("text"), row.get("content")
    if text is not None and type(text) is not str:
        raise MalformedError("this is not text", field="text")
    as_written = rest_of(row, known=("uuid", "text", "content", "sender"), times=("created_at",))
    if ROLES.get(sender) != sender:
        as_written["sender"] = sender
    plain = _plain(content)
    words: str | None = text or None
    if plain is not None and (text is None or text in ("", plain[0])):
        words, parts = plain[0], None
        as_written |= {"content": plain[1]} if plain[1] else {}
    else:
        parts = content or None
        if parts is not None and text:
            words, as_written = None, {**as_written, "text": text}
    if words is None:
        words = "" if parts is None else spoken_text(parts)
    identity, created = text_in(row, "uuid"), moment_of(row.get("created_at"))
    files = [
        one
        for path, long in long_attachments(as_written, identity)
        for one in files_at(path, long, origin_at(NAME, path, source, {}), created)
    ]
    event = SessionEvent(
        event="message",
        role=ROLES.get(sender, sender),
        text=words,
        content=parts,
        created_at=created,
        origin=origin_at(NAME, identity, source, as_written),
    )
    return event, files


def _plain(content: Any) -> tuple[str, Row] | None:
    """Return the text of contents that are a single text, and its other members."""
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
        number = seen[heading] = seen.get(heading, 0) + 1
        yield Semantic(
            text=each.text,
            kind=kind,
            tags=(heading,) if heading else (),
            scope=Scope(user=account, namespace=("projects", project) if project else ()),
            sources=(Evidence(kind="project", id=project),) if project else (),
            origin=origin_at(NAME, f"{where}/{heading}/{number}", account, {}),
        )


_CONVERSATION = (b"uuid", b"name", b"summary")
_MEMORIES = (b"conversations_memory", b"project_memories", b"memory_files")
_OF_A_PROJECT = (b"prompt_template", b"is_starter_project", b"docs")
_DESIGN = (b"uuid", b"title", b"project", b"messages")
_OF_CHATGPT = frozenset({b"mapping", b"create_time"})
_FILE_KINDS = re.compile(
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
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=(
                (b"chat_messages",),
                _CONVERSATION,
                _DESIGN,
                *((name,) for name in _MEMORIES),
                *((b"uuid", b"name", name) for name in _OF_A_PROJECT),
            ),
        ),
        spec="Claude.ai data export, conversations, projects and memories, to September 2026",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            writes=False,
            personal=True,
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return any(_kind(head) for head in heads(location))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        rows = ClaudeRecords(reading.report)
        with open_archive(location, reading.limits) as archive:
            makes: dict[str, RowParser | None] = {
                "conversation": rows.conversation,
                "memories": rows.memories,
                "project": rows.project,
                "design": rows.design,
            }
            kinds = {file.path: _kind_of(archive, file) for file in archive.files}
            if len(kinds) == 1:  # what --from says, if not another of the three
                kinds = {path: kind or "conversation" for path, kind in kinds.items()}
            by_file = {path: makes.get(kind) for path, kind in kinds.items()}
            yield from require_some(from_files(archive, reading, location, by_file), location)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("a Claude export")


def _kind_of(archive: ChatArchive, file: ArchiveFile) -> str:
    """Return the kind of a file by its contents, not its name; empty if it is not Claude's."""
    if file.info is not None and not file.ends(".json"):
        return ""
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
    is_named = file.info is not None and says_nothing(head, _OF_CHATGPT)
    return _kind(head) or (_named(file.path) if is_named else "")


def _named(path: str) -> str:
    """Return the kind of a file by its name, if its first bytes do not show it."""
    match = _FILE_KINDS.search(path)
    return next((kind for kind, said in match.groupdict().items() if said), "") if match else ""


def _kind(head: bytes) -> str:
    paths = {path for path, _ in json_members(head)}
    for start in ((0,), (b"conversations", 0), ()):
        if (*start, b"chat_messages") in paths or _includes_all(start, _CONVERSATION, paths):
            return "conversation"
        if any((*start, name) in paths for name in _MEMORIES):
            return "memories"
        if any(_includes_all(start, (b"uuid", b"name", one), paths) for one in _OF_A_PROJECT):
            return "project"
        if _includes_all(start, _DESIGN, paths):
            return "design"
    return ""


def _includes_all(
    start: tuple[Step, ...], names: tuple[bytes, ...], paths: set[tuple[Step, ...]]
) -> bool:
    return all((*start, name) in paths for name in names)


FORMAT = Claude()
"""The instance that the registry loads."""
