"""Conversations of chat products: fields of their JSON, threads of messages, transcripts."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError, UsageError
from satchel.formats._archive import ArchiveFile, ChatArchive
from satchel.formats._json import json_object, parse_rows
from satchel.model.records import Model, SessionEvent
from satchel.model.values import Origin, TrustClass, format_time, read_time
from satchel.ports.drafts import placeholder
from satchel.ports.format import BOM, Location, ReadContext
from satchel.ports.record_set import Report

Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS = 253_402_300_799
_NANOSECONDS = 1_000_000_000
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,20})?", re.ASCII)
_FINER = re.compile(r"([.,]\d{6})\d{1,12}(?!\d)", re.ASCII)
_OF_THE_ACCOUNT = frozenset(
    {
        *("user.json", "users.json", "user_settings.json", "export_manifest.json", "chat.html"),
        *("message_feedback.json", "model_comparisons.json", "shared_conversations.json"),
        *("conversation_asset_file_names.json", "shopping.json", "sora.json", "group_chats.json"),
        *("library_files.json", "tasks.json"),
    }
)
_MANIFEST = re.compile(r"(export_)?manifest(-\d+)?\.json")
"""Names of manifests of an export."""

_MEDIA = frozenset(
    {
        *("png", "jpg", "jpeg", "gif", "webp", "heic", "svg", "bmp", "tif", "tiff"),
        *("wav", "mp3", "m4a", "ogg", "opus", "flac", "aac", "mp4", "mov", "webm", "dat"),
    }
)
"""Suffixes of pictures, audio and video; messages refer to them."""

_LIST = "conversations"
_MOST_NAMED_FILES = 32
"""Largest number of files of one kind in a folder that are named individually."""


def row_in(value: Any, name: str) -> Row:
    """Return an object.

    Raises:
        MalformedError: If it is not an object.
    """
    if type(value) is not dict:
        raise MalformedError(f"{name} is not an object")
    return value


def text_in(row: Row, name: str) -> str:
    """Return a required text.

    Raises:
        MalformedError: If it is missing or empty.
    """
    value = row.get(name)
    if type(value) is not str or not value:
        raise MalformedError(f"`{name}` is missing, or not text", field=name)
    return value


def list_in(row: Row, name: str) -> list[Any]:
    """Return a list; a missing one is empty.

    Raises:
        MalformedError: If it has another type.
    """
    value = row.get(name)
    if value is None:
        return []
    if type(value) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return value


def text_or_none(value: Any) -> str | None:
    """Return a text, or None if it is empty or blank."""
    return value if type(value) is str and value else None


def moment_of(value: Any) -> str | None:
    """Return a time as canonical text; None if it is not valid.

    It is ISO 8601, to microseconds, or the time since 1970 in seconds, milliseconds, microseconds
    or nanoseconds, by its magnitude.
    """
    if type(value) is str and not _NUMBER.fullmatch(value):
        return read_time(_FINER.sub(r"\1", value))
    if type(value) is str:
        value = float(value)
    if type(value) not in (int, float) or not 0 < value < _MOST_SECONDS * _NANOSECONDS:
        return None
    while value > _MOST_SECONDS:
        value /= 1_000
    return format_time(_EPOCH + timedelta(microseconds=round(value * 1_000_000)))


def rest_of(row: Row, *, known: tuple[str, ...], times: tuple[str, ...] = ()) -> Row:
    """Return the members that are not stored elsewhere, unchanged.

    Args:
        row: The row.
        known: Members that are stored elsewhere, unchanged.
        times: Members that are stored elsewhere as canonical times; included if their text differs.
    """
    return {
        name: part
        for name, part in row.items()
        if name not in known and not (name in times and moment_of(part) == part)
    }


class RowParser(Protocol):
    """Converts a row to records; some rows have none."""

    def __call__(self, row: Row) -> Iterator[Model]: ...


def rows_of(
    document: ForeignReader, file: str, reading: ReadContext, make: RowParser
) -> Iterator[Model]:
    """Yield the records of the rows of a list; bad rows are refused.

    The list may be a member ``conversations`` of an object; an object without it is a row, and
    others may follow, each on a line.

    Args:
        document: A reader at its start.
        file: Its name in errors; empty for the input itself.
        reading: Takes bad rows.
        make: Converts a row to records.
    """
    if document.peek() != "{":
        yield from parse_rows(document.values(), document, reading, make, file)
    else:
        around, listed = Row(), False
        for name in document.members():
            if name == _LIST and document.peek() == "[":
                listed = True
                yield from parse_rows(document.values(), document, reading, make, file)
            else:
                around.update(escape_keys([(name, document.value())]))
        if listed:
            for name in around:
                reading.report.lost(name, "a member next to the conversations")
        else:
            yield from parse_rows((around,), document, reading, make, file)
            yield from parse_rows(document.following(), document, reading, make, file, first=1)
    document.end()


def from_files(
    archive: ChatArchive,
    reading: ReadContext,
    location: Location,
    by_file: dict[str, RowParser | None],
    *,
    other_products: Collection[str] = (),
) -> Iterator[Model]:
    """Yield the records of the files of an export; a damaged file is refused alone.

    Args:
        archive: The export.
        reading: Takes bad files, and counts what cannot be stored.
        location: The name of the export in errors.
        by_file: The conversion of the rows of each file; None for one without memory. Other
            files are up to the caller.
        other_products: Paths of files without memory of this product.
    """
    without_memory = Counter(
        _folder_of(one) for one in archive.files if by_file.get(one.path, 0) is None
    )
    for file in archive.files:
        if file.path not in by_file:
            continue
        make = by_file[file.path]
        if make is None:
            is_one_of_many = without_memory[_folder_of(file)] > _MOST_NAMED_FILES
            kind = _folder_of(file) if is_one_of_many else _kind_of(file)
            if file.path in other_products or _holds_none(file):
                reading.report.ignore(kind)
            else:
                reading.report.lost(kind, "not a memory file")
            continue
        try:
            with archive.document(file, reading) as document:
                yield from rows_of(document, archive.file_of(file), reading, make)
        except InputError as error:
            error.field = error.field or archive.file_of(file) or None
            reading.refuse(error.located(file=location.name))


def _folder_of(file: ArchiveFile) -> str:
    """Return the name under which many similar files are counted: folder and suffix."""
    folder, ending = file.path.rpartition("/")[0], file.name.rpartition(".")[2]
    return f"{folder}/*.{ending}" if folder else f"*.{ending}"


def _holds_none(file: ArchiveFile) -> bool:
    """Return whether a file has no memory: account data, the product's page, or media."""
    name = file.name.lower()
    is_listed = name in _OF_THE_ACCOUNT or _MANIFEST.fullmatch(name) is not None
    return is_listed or name.rpartition(".")[2] in _MEDIA


def _kind_of(file: ArchiveFile) -> str:
    """Return the name under which a file without memory is counted: its name or suffix."""
    ending = file.name.rpartition(".")[2] if "." in file.name else "file"
    return file.name if ending in ("json", "html") else f"*.{ending}"


def require_some(records: Iterable[Model], location: Location) -> Iterator[Model]:
    """Yield the records of an export.

    Raises:
        EmptyInputError: If there are none.
    """
    some = False
    for record in records:
        some = True
        yield record
    if not some:
        raise EmptyInputError("the export contains no memories", file=location.name)


def read_only(title: str) -> NoReturn:
    """Refuse to write a format that only its product writes.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"{title} is read-only: no product imports it",
        field="format",
        hint="Write another format; `satchel formats` lists them.",
    )


_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_BOLD = re.compile(r"\*\*[^*\n]+\*\*:?")
_HASHES = re.compile(r"#{1,6}[ \t]+\S[^\n]*")


class Paragraph(NamedTuple):
    """A paragraph of a text."""

    heading: str | None
    """The heading above it, unchanged."""

    number: int
    """Its number below that heading, from 1."""

    text: str


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a text; only blank lines are dropped.

    A heading without text is a paragraph.
    """
    heading, waiting, number = None, False, 0
    for part in _BLANK.split(text.replace("\r\n", "\n").strip("\n")):
        first, _, below = part.partition("\n")
        if _is_heading(first):
            if waiting and heading is not None:
                yield Paragraph(None, 1, heading)
            heading, waiting, number = first, True, 0
            words = below
        else:
            words = part
        if words.strip():
            waiting, number = False, number + 1
            yield Paragraph(heading, number, words)
    if waiting and heading is not None:
        yield Paragraph(None, 1, heading)


def words_of(heading: str) -> str:
    """Return the text of a heading, without markup."""
    return heading.strip("#*: \t")


def _is_heading(line: str) -> bool:
    return bool(_BOLD.fullmatch(line) or _HASHES.fullmatch(line))


TYPE = "session_event"

INSTRUCTIONS = "context"
"""The role of a message with instructions or environment, which nobody wrote in the chat."""


class ChatTurn(NamedTuple):
    """A message of a tree."""

    id: str
    parent: str | None
    """The previous message; None, or a missing one, for a first message."""

    event: SessionEvent
    """Its role, text, time and origin; its position is set here."""


class ChatConversation(NamedTuple):
    """A conversation that was read."""

    start: SessionEvent
    turns: list[ChatTurn]
    leaf: str | None
    """The last message of the main branch; None for the last in the list."""


def origin_at(provider: str, identity: str, source: str | None, as_written: Row) -> Origin:
    """Return the origin of a record in an export.

    Args:
        provider: The format's name.
        identity: Its ID in the export.
        source: The account, if the export names it.
        as_written: Members that are stored unchanged.
    """
    return Origin(
        provider=provider,
        source=source,
        id=identity,
        as_written=as_written,
        trust=TrustClass.IMPORTED,
    )


def events(conversation: ChatConversation, report: Report) -> Iterator[SessionEvent]:
    """Yield a conversation's events; an event comes before those that refer to it.

    Args:
        conversation: The conversation; the IDs of its turns are unique.
        report: Counts messages in a cycle.
    """
    tree = _Tree(conversation)
    yield conversation.start
    yield from tree.branch(tree.main(), _Chain(standing(conversation.start)))
    for first in tree.others():
        fork, chain = tree.fork(first)
        yield fork
        yield from tree.branch(tree.down(first), chain)
    lost = len(conversation.turns) - len(tree.out)
    if lost:
        report.lost(
            "message", "it comes before itself", example=conversation.start.name or "", count=lost
        )


class _Chain:
    """The end of a session, to which the next message is appended."""

    def __init__(self, session: str, last: str | None = None, number: int = 0) -> None:
        self.session = session
        self.last = last or session
        self.number = number


class _Tree:
    """The messages of a conversation."""

    def __init__(self, conversation: ChatConversation) -> None:
        self.out = dict[str, _Chain]()
        """The chain ends after each message that was yielded."""

        self._start = conversation.start
        self._turns = {turn.id: turn for turn in conversation.turns}
        self._children = dict[str | None, list[str]]()
        for turn in conversation.turns:
            self._children.setdefault(self._before(turn), []).append(turn.id)
        self._leaf = conversation.leaf if conversation.leaf in self._turns else None
        if self._leaf is None and conversation.turns:
            self._leaf = conversation.turns[-1].id

    def main(self) -> list[str]:
        """Return the main branch, from the first message to the leaf."""
        branch, at = dict[str, None](), self._leaf
        while at is not None and at not in branch:
            branch[at] = None
            at = self._before(self._turns[at])
        # A cycle has no first message.
        return [] if at is not None else list(reversed(branch))

    def others(self) -> Iterator[str]:
        """Yield the first message of every other branch, after the message that it continues."""
        waiting = [None, *self.main()]
        for at in waiting:
            for child in self._children.get(at, ()):
                if child not in self.out:
                    yield child
                    waiting.extend(self.down(child))

    def down(self, first: str) -> list[str]:
        """Return the branch from a message on; at a fork, to the newest message."""
        branch = [first]
        while children := self._children.get(branch[-1]):
            branch.append(children[-1])
        return branch

    def fork(self, first: str) -> tuple[SessionEvent, _Chain]:
        """Return the event that starts another branch, and the chain end for its first message."""
        before = self._before(self._turns[first])
        chain = self.out[before] if before is not None else _Chain(standing(self._start))
        origin = self._start.origin
        assert origin is not None  # noqa: S101 - each event that is read has one
        fork = SessionEvent(
            event="fork",
            parent=chain.last,
            name=self._start.name,
            state={"number": chain.number, "step": chain.number, "source": chain.session},
            created_at=self._turns[first].event.created_at,
            origin=origin_at(
                origin.provider or "", f"{origin.id}/{first}/branch", origin.source, {}
            ),
        )
        return fork, _Chain(standing(fork), number=chain.number)

    def branch(self, ids: list[str], chain: _Chain) -> Iterator[SessionEvent]:
        """Yield the messages of a branch."""
        for identity in ids:
            number = chain.number + 1
            event = _put(self._turns[identity].event, chain, number)
            chain = _Chain(chain.session, standing(event), number)
            self.out[identity] = chain
            yield event

    def _before(self, turn: ChatTurn) -> str | None:
        return turn.parent if turn.parent in self._turns else None


def _put(event: SessionEvent, chain: _Chain, number: int) -> SessionEvent:
    return SessionEvent(
        event="message",
        session=chain.session,
        parent=chain.last,
        role=event.role,
        name=event.name,
        text=event.text,
        content=event.content,
        state={"number": number, "step": number},
        created_at=event.created_at,
        metadata=event.metadata,
        origin=event.origin,
    )


def standing(event: SessionEvent) -> str:
    """Return the placeholder of an event's ID."""
    origin = event.origin
    assert origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(TYPE, event.scope, origin)


class TranscriptConversation:
    """A conversation that is read line by line, in the order of appending.

    A message after the last one continues the conversation; one after an earlier message is a fork.
    So the same file, after it has grown, begins with the same events.

    Args:
        start: The conversation's own event.
    """

    def __init__(self, start: SessionEvent) -> None:
        self.start = start
        self._first = _Chain(standing(start))
        self._at = dict[str, _Chain]()
        self._gone_on = set[str]()

    def passes(self, name: str, parent: str | None) -> None:
        """Note a line that is not a message, but that messages may name as their predecessor."""
        self._at.setdefault(name, self._chain(parent))

    def knows(self, name: str) -> bool:
        """Return whether a line with this ID was read."""
        return name in self._at

    def last(self) -> str | None:
        """Return the ID of the last line."""
        return next(reversed(self._at), None)

    def message(self, name: str, parent: str | None, event: SessionEvent) -> Iterator[SessionEvent]:
        """Yield a message, after the fork that it begins, if any."""
        chain = self._chain(parent)
        if chain.last in self._gone_on:
            fork = SessionEvent(
                event="fork",
                parent=chain.last,
                name=self.start.name,
                state={"number": chain.number, "step": chain.number, "source": chain.session},
                created_at=event.created_at,
                origin=self.origin(f"{name}/branch"),
            )
            yield fork
            chain = _Chain(standing(fork), number=chain.number)
        self._gone_on.add(chain.last)
        written = _put(event, chain, chain.number + 1)
        self._at[name] = _Chain(chain.session, standing(written), chain.number + 1)
        yield written

    def name_event(self, name: str, line: str) -> SessionEvent:
        """Return the event that renames the conversation.

        Args:
            name: The name.
            line: The name of its line.
        """
        return SessionEvent(
            event="session",
            session=self._first.session,
            parent=self._first.session,
            name=name,
            origin=self.origin(line),
        )

    def origin(self, name: str) -> Origin:
        """Return the origin of a record in this conversation."""
        origin = self.start.origin
        assert origin is not None  # noqa: S101 - each event that is read has one
        return origin_at(origin.provider or "", f"{origin.id}/{name}", origin.source, {})

    def _chain(self, parent: str | None) -> _Chain:
        return self._at.get(parent or "", self._first)


_CHUNK = 1 << 18


class LineParser(Protocol):
    """Converts the lines of a file to records."""

    def take(self, row: Row, number: int) -> Iterator[Model]:
        """Yield the records of a line; ``number`` is from 1."""
        ...

    def end(self) -> Iterator[Model]:
        """Yield the records that are known at the end."""
        ...


def from_transcripts(
    archive: ChatArchive,
    reading: ReadContext,
    location: Location,
    make: Callable[[ArchiveFile], LineParser | None],
    *,
    first: str = "",
) -> Iterator[Model]:
    """Yield the records of the transcripts of an input; other files are counted as lost.

    Args:
        archive: The input.
        reading: The limits; takes bad lines.
        location: The name of the input in errors.
        make: Returns the parser of a file's lines; None for a file that is not a transcript.
        first: The name of files to read before the others.
    """
    for file in sorted(archive.files, key=lambda one: one.name != first):
        is_one = file.info is None or file.name.endswith(".jsonl")
        taking = make(file) if is_one else None
        if taking is None:
            name = file.name if is_one else f"*.{file.name.rpartition('.')[2]}"
            reading.report.lost(name, "not a transcript")
            continue
        yield from from_lines(archive, file, reading, location, taking)


def from_lines(
    archive: ChatArchive,
    file: ArchiveFile,
    reading: ReadContext,
    location: Location,
    taking: LineParser,
) -> Iterator[Model]:
    """Yield the records of the lines of a file; bad lines are refused.

    Args:
        archive: The input.
        file: The file.
        reading: The limits; takes bad lines.
        location: The name of the input in errors.
        taking: The parser of the lines.
    """
    where, bound = archive.file_of(file), reading.limits.line_bytes
    with archive.stream(file) as stream:
        for number, line in enumerate(_lines(stream, bound), 1):
            if not line.strip():
                continue
            try:
                row = json_object(line, bound, reading.mended)
                records = list(taking.take(row, number))
            except InputError as error:
                error.file, error.line, error.byte = location.name, number, None
                if where:
                    error.within(where)
                reading.refuse(error)
                continue
            yield from records
    yield from taking.end()


def _lines(stream: BinaryIO, bound: int) -> Iterator[bytes]:
    """Yield the lines of a file, without line ends."""
    waiting, size, is_first = list[bytes](), 0, True
    while chunk := stream.read(_CHUNK):
        start, *lines = chunk.split(b"\n")
        waiting.append(start)
        size += len(start)
        for line in lines:
            whole = b"".join(waiting)
            yield whole.removeprefix(BOM) if is_first else whole
            waiting, size, is_first = [line], len(line), False
        if size > bound:
            raise LimitError(f"a line is longer than {bound} bytes", field="line")
    if rest := b"".join(waiting):
        yield rest.removeprefix(BOM) if is_first else rest
