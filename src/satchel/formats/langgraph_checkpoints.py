"""The database of LangGraph's ``SqliteSaver``: threads, their checkpoints and forks, read only.

Packed values are read as data: the library's unpacking imports modules and calls what a file names.
Items of a store in the same file are read, too. The engine's state of a run (versions of channels,
pending writes) is not memory; it is counted.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import encode_foreign, encode_sorted
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError, UsageError
from satchel.formats._database import (
    MAGIC,
    columns_of,
    open_database_copy,
    other_tables,
    parsed,
    tables_of,
)
from satchel.formats._langgraph import STORE, TABLES, VECTORS, items_in
from satchel.model.records import Model, SessionEvent
from satchel.model.text import spoken_text
from satchel.model.values import Component, Origin, TrustClass, read_time
from satchel.ports.drafts import placeholder
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.runtime.foreign_databases import Database

_OBJECTS = range(6)
_ARRAY, _SNAPSHOT = 6, 7
_DEEPEST, _INSIDE = 48, 16
_MOST_NODES = 2_000_000
_LEAST_OF_AN_OBJECT = 3


class PackedObject(NamedTuple):
    """A packed object, which was not constructed."""

    cls: str
    """Module and name, as in the file."""

    arguments: Any


def unpacked(kind: Any, data: Any) -> Any:
    """Return a packed value.

    Args:
        kind: The value of the column ``type``.
        data: The bytes.

    Raises:
        MalformedError: If it is damaged, or not packed as data.
        LimitError: If it is nested too deep or too large.
    """
    if kind == "pickle":
        raise MalformedError(
            "a pickle, which can execute code and is not loaded",
            hint="Write it again with a checkpointer without pickle_fallback.",
        )
    if kind is None and data is not None:  # written before there were several encodings
        kind = "json"
    reader = _READERS.get(kind) if type(kind) is str else None
    if reader is None or not isinstance(data, bytes | str | None):
        raise MalformedError(f"packed in an unknown way: {str(kind)[:40]!r}")
    try:
        value = reader(data)
    except RecursionError:
        raise LimitError("packed data is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise MalformedError(f"packed data is damaged: {error}") from error
    return _Plain().of(value, 0)


def _from_pack(data: Any, depth: int = 0) -> Any:
    if depth > _INSIDE:
        raise LimitError("packed data is nested too deeply")

    def extension(code: int, inner: memoryview) -> Any:
        if code not in _OBJECTS and code not in (_ARRAY, _SNAPSHOT):
            return PackedObject(f"extension {code}", bytes(inner))
        value = _from_pack(bytes(inner), depth + 1)
        if code == _ARRAY:
            return PackedObject("numpy.ndarray", value)
        if code == _SNAPSHOT:
            return value
        if type(value) is not list or len(value) < _LEAST_OF_AN_OBJECT:
            raise MalformedError("an object without a class and arguments")
        return PackedObject(f"{value[0]}.{value[1]}", value[2])

    return msgspec.msgpack.decode(data, ext_hook=extension)


_READERS: dict[str, Callable[[Any], Any]] = {
    "null": lambda _: None,
    "bytes": bytes,
    "bytearray": bytes,
    "json": json.loads,
    "msgpack": _from_pack,
}


class _Plain:
    """Converts packed values to JSON, and counts the parts."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise LimitError("packed data is nested too deeply, or too large")
        if isinstance(value, PackedObject):
            return PackedObject(value.cls, self.of(value.arguments, depth + 1))
        if isinstance(value, dict):
            if _is_constructor(value):
                named = ".".join(map(str, value["id"]))
                return PackedObject(named, self.of(value["kwargs"], depth + 1))
            return {_name(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, depth + 1) for part in value]
        if value is None or isinstance(value, str | bool | int | float | bytes):
            return value
        return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _is_constructor(value: dict[Any, Any]) -> bool:
    """Return whether a value is LangChain's JSON form of an object."""
    return (
        value.get("type") == "constructor"
        and "lc" in value
        and type(value.get("id")) is list
        and type(value.get("kwargs")) is dict
    )


def _name(key: Any) -> str:
    if type(key) is str:
        return key
    return str(key).lower() if type(key) is bool else str(key)


def as_data(value: Any) -> Any:
    """Return a value with objects as their name and arguments."""
    if isinstance(value, PackedObject):
        return {"class": value.cls, "arguments": as_data(value.arguments)}
    if isinstance(value, dict):
        return {name: as_data(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_data(part) for part in value]
    return value


_USUAL = "messages"
_OF_LANGCHAIN = ".messages."
_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
_CHUNK = "MessageChunk"
_CALLS = frozenset({"tool_calls", "function_call", "additional_kwargs", "refusal"})
_KNOWN_MESSAGES = ("role", "type", "content", "name", "id")


class CheckpointMessage(NamedTuple):
    """A message."""

    role: str
    name: str | None
    content: Any
    """A text, or parts as data."""

    more: dict[str, Any]
    """Tool calls and metadata of the answer."""

    as_written: dict[str, Any]
    """Its ID in the graph, and its class."""


def messages_in(values: dict[str, Any]) -> tuple[str | None, list[CheckpointMessage]]:
    """Return the channel with the conversation, and its messages.

    It is the channel ``messages``, or the first one with only messages.
    """
    for name in sorted(values, key=lambda channel: channel != _USUAL):
        part = values[name]
        if not name.startswith("__") and type(part) is list and part:
            messages = [_message_of(value) for value in part]
            if None not in messages:
                return name, [message for message in messages if message is not None]
    return None, []


def _message_of(value: Any) -> CheckpointMessage | None:
    cls = value.cls if isinstance(value, PackedObject) else None
    row = value.arguments if isinstance(value, PackedObject) else value
    if type(row) is not dict or "content" not in row:
        return None
    role, content = row.get("role", row.get("type", _class_of(cls))), row["content"]
    if content is None and not _CALLS.isdisjoint(row):  # a message with only tool calls
        content = ""
    is_other = cls is not None and _OF_LANGCHAIN not in cls
    if type(role) is not str or is_other or not isinstance(content, str | list):
        return None
    name = row.get("name")
    more = {
        key: encode_foreign(as_data(part))
        for key, part in row.items()
        if key not in _KNOWN_MESSAGES and part
    }
    as_written = {"id": row["id"]} if type(row.get("id")) is str else {}
    return CheckpointMessage(
        role=_role(role),
        name=name if type(name) is str else None,
        content=content if type(content) is str else encode_foreign(as_data(content)),
        more=more,
        as_written=as_written | ({"class": cls} if cls is not None else {}),
    )


def _class_of(cls: str | None) -> str | None:
    """Return the role of a class, for objects without one, as JavaScript writes them."""
    last = (cls or "").rpartition(".")[2]
    return last.removesuffix("Chunk").removesuffix("Message").lower() or None


def _role(text: str) -> str:
    return _ROLES.get(text.removesuffix(_CHUNK).lower() if text.endswith(_CHUNK) else text, text)


PROVIDER = "langgraph"
_TYPE = "session_event"
_WORKING, _SUMMARY = "working_state", "thread_summary"
_OF_THE_ENGINE = ("__", "branch:", "start:", "join:")

Row = dict[str, Any]


class CheckpointRow(NamedTuple):
    """A checkpoint that was read."""

    id: str
    parent: str | None
    values: Row
    """Values by channel."""

    time: Any
    """The time in the checkpoint."""

    metadata: Row
    """Stored members: its source, its step and the metadata of the run."""


class _Tip(NamedTuple):
    """The state of a branch, to which the next element is appended."""

    session: str
    last: str
    number: int = 0
    step: int = 0
    state: str | None = None
    latest: Row = {}  # noqa: RUF012 - never changed in place
    messages: bytes = b""
    """A digest of all messages so far."""

    values: bytes = b""
    """A digest of the working state."""


class Thread:
    """A thread whose checkpoints are read in order of creation.

    Args:
        name: Its ID.
        space: The namespace of a nested graph; empty for the outermost.
        first: Its first checkpoint.
    """

    def __init__(self, name: str, space: str, first: CheckpointRow) -> None:
        self._source = f"{name}/{space}" if space else name
        self.start = SessionEvent(
            event="session",
            name=self._source,
            created_at=_time(first.time),
            metadata={"thread_id": name} | ({"checkpoint_ns": space} if space else {}),
            origin=self._origin(self._source),
        )
        standing = _standing(self.start)
        self._first = _Tip(standing, standing)
        self._tips = dict[str, _Tip]()
        self._after = {b"": self._first}
        """The branches by the digest of their messages."""

        self._gone_on = set[str]()

    def events(self, point: CheckpointRow) -> Iterator[SessionEvent]:
        """Yield the elements that a checkpoint adds, and the checkpoint."""
        channel, messages = messages_in(point.values)
        tip = self._tips.get(point.parent or "", self._first)
        marks = list(_marks(messages))
        at = marks.index(tip.messages) if tip.messages in marks else -1
        if at < 0:  # earlier messages have changed
            known = max(index for index, mark in enumerate(marks) if mark in self._after)
            tip, at = self._after[marks[known]], known
        for index, message in enumerate(messages[at:], at):
            tip, new_events = self._message(tip, point, message, index)
            tip = tip._replace(messages=marks[index + 1])
            self._after.setdefault(marks[index + 1], tip)
            yield from new_events
        tip, new_events = self._change(tip, point, channel)
        yield from new_events
        self._tips[point.id] = tip
        yield self._checkpoint(tip, point)

    def _message(
        self, tip: _Tip, point: CheckpointRow, message: CheckpointMessage, index: int
    ) -> tuple[_Tip, list[SessionEvent]]:
        tip, events = self._ahead(tip, point)
        event = SessionEvent(
            event="message",
            session=tip.session,
            parent=tip.last,
            role=message.role,
            name=message.name,
            text=message.content if type(message.content) is str else spoken_text(message.content),
            content=None if type(message.content) is str else message.content,
            state=_position(tip, tip.number + 1, tip.step + 1),
            created_at=_time(point.time),
            metadata=message.more,
            origin=self._origin(f"{self._source}/{point.id}/{index}", message.as_written),
        )
        return self._advance(tip, event, tip.number + 1), [*events, event]

    def _change(
        self, tip: _Tip, point: CheckpointRow, channel: str | None
    ) -> tuple[_Tip, list[SessionEvent]]:
        values = {
            name: encode_foreign(as_data(part))
            for name, part in point.values.items()
            if name != channel and not name.startswith(_OF_THE_ENGINE)
        }
        mark = blake3(encode_sorted(values)).digest() if values else b""
        if mark == tip.values:
            return tip, []
        new: Row = {_SUMMARY: values.pop("summary")} if type(values.get("summary")) is str else {}
        new |= {_WORKING: values} if values else {}
        tip, events = self._ahead(tip, point)
        state = _position(tip, tip.number, tip.step + 1) | new
        state.pop("state", None)
        event = SessionEvent(
            event="session",
            session=tip.session,
            parent=tip.last,
            state=state | ({"latest": tip.latest} if tip.latest else {}),
            created_at=_time(point.time),
            origin=self._origin(f"{self._source}/{point.id}/state"),
        )
        tip = self._advance(tip, event, tip.number)
        latest = {**tip.latest, **dict.fromkeys(new, tip.last)}
        return tip._replace(values=mark, state=tip.last, latest=latest), [*events, event]

    def _checkpoint(self, tip: _Tip, point: CheckpointRow) -> SessionEvent:
        source = point.metadata.get("source")
        why = {"why": source} if type(source) is str else {}
        return SessionEvent(
            event="checkpoint",
            session=tip.session,
            parent=tip.last,
            name=point.id,
            state=_position(tip, tip.number, tip.step) | why,
            created_at=_time(point.time),
            metadata=encode_foreign(point.metadata),
            origin=self._origin(f"{self._source}/{point.id}"),
        )

    def _ahead(self, tip: _Tip, point: CheckpointRow) -> tuple[_Tip, list[SessionEvent]]:
        """Return the branch for an element: the present one, or a fork that begins there."""
        if tip.last not in self._gone_on:
            return tip, []
        fork = SessionEvent(
            event="fork",
            parent=tip.last,
            name=f"{self._source} {point.id}",
            state=_position(tip, tip.number, tip.step)
            | ({"latest": tip.latest} if tip.latest else {})
            | {"source": tip.session},
            created_at=_time(point.time),
            origin=self._origin(f"{self._source}/{point.id}/fork"),
        )
        standing = _standing(fork)
        return tip._replace(session=standing, last=standing), [fork]

    def _advance(self, tip: _Tip, event: SessionEvent, number: int) -> _Tip:
        self._gone_on.add(tip.last)
        return tip._replace(last=_standing(event), number=number, step=tip.step + 1)

    def _origin(self, identity: str, as_written: Row | None = None) -> Origin:
        return Origin(
            provider=PROVIDER, id=identity, as_written=as_written or {}, trust=TrustClass.IMPORTED
        )


def _position(tip: _Tip, number: int, step: int) -> Row:
    state: Row = {"number": number, "step": step}
    return state | ({"state": tip.state} if tip.state is not None else {})


def _standing(event: SessionEvent) -> str:
    assert event.origin is not None  # noqa: S101 - each event that is read has one
    return placeholder(_TYPE, event.scope, event.origin)


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _marks(messages: list[CheckpointMessage]) -> Iterator[bytes]:
    """Yield the digest of no message, the first, the first two, and so on."""
    mark = b""
    yield mark
    for message in messages:
        content = encode_sorted(
            [message.role, message.name, message.content, message.more, message.as_written]
        )
        mark = blake3(mark + content).digest(16)
        yield mark


_CHECKPOINTS, _WRITES = "checkpoints", "writes"
_NEEDED = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
_PACKED = ("type", "checkpoint", "metadata")
_BOOKKEEPING = ("channel_versions", "versions_seen", "updated_channels", "pending_sends")
_KNOWN = frozenset({_CHECKPOINTS, _WRITES}) | TABLES


class LangGraphCheckpoints:
    """The format."""

    info: ClassVar[Info] = Info(
        title="LangGraph checkpoints, SQLite database",
        suffixes=(),
        signs=Signs(starts=(MAGIC,)),
        spec="langgraph-checkpoint-sqlite 3.1.2 SqliteSaver; langgraph-checkpoint 4.3.2",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), writes=False),
        beside=frozenset({VECTORS}),
    )

    def recognizes(self, location: Location) -> bool:
        return {_CHECKPOINTS, _WRITES} <= tables_of(location)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        with open_database_copy(location, reading) as database:
            columns_of(database, _CHECKPOINTS, (*_NEEDED, *_PACKED), location.name)
            count = 0
            if database.columns(STORE):
                for entry in items_in(database, location.name, reading):
                    count += 1
                    yield entry
            for event in _events(database, location.name, reading):
                count += 1
                yield event
            _report_other_tables(database, reading)
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the file contains no checkpoints", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        raise UsageError(
            "LangGraph checkpoints are read-only",
            field="format",
            hint="To write memories into a LangGraph store: --to langgraph.",
        )


def _events(database: Database, file: str, reading: ReadContext) -> Iterator[Model]:
    """Yield the events of all threads, thread by thread."""
    order = "thread_id, checkpoint_ns, checkpoint_id"
    sql = f"SELECT {', '.join((*_NEEDED, *_PACKED))} FROM {_CHECKPOINTS} ORDER BY {order}"  # noqa: S608 - our own
    thread, whose = None, None
    for number, (name, space, identity, parent, *packed) in enumerate(database.rows(sql)):
        batch = list[Model]()
        try:
            point = _point(identity, parent, packed, reading)
            if type(name) is not str or type(space) is not str:
                raise MalformedError("a thread without a name", field="thread_id")
            if thread is None or whose != (name, space):
                thread, whose = Thread(name, space, point), (name, space)
                batch.append(thread.start)
            batch += thread.events(point)
        except InputError as error:
            error.within(f"{_CHECKPOINTS}/{number}")
            error.line = error.byte = None
            reading.refuse(error.located(file=file))
        else:
            yield from batch


def _point(identity: Any, parent: Any, packed: list[Any], reading: ReadContext) -> CheckpointRow:
    kind, data, metadata = packed
    if type(identity) is not str:
        raise MalformedError("a checkpoint without an id", field="checkpoint_id")
    try:
        checkpoint = unpacked(kind, data)
    except InputError as error:
        error.field = "checkpoint"
        raise
    values = checkpoint.get("channel_values") if type(checkpoint) is dict else None
    if type(values) is not dict:
        raise MalformedError("a checkpoint without `channel_values`", field="checkpoint")
    for name in _BOOKKEEPING:
        if checkpoint.get(name):
            reason = "internal state for resuming a run"
            reading.report.lost(name, reason, example=identity[:80])
    return CheckpointRow(
        id=identity,
        parent=parent if type(parent) is str else None,
        values=values,
        time=checkpoint.get("ts"),
        metadata=_metadata(metadata),
    )


def _metadata(value: Any) -> dict[str, Any]:
    if type(value) is bytes:
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise MalformedError("`metadata` is not UTF-8", field="metadata") from None
    metadata = parsed(value, "metadata")
    if metadata is None:
        return {}
    if type(metadata) is not dict:
        raise MalformedError("`metadata` is not an object", field="metadata")
    return {name: part for name, part in metadata.items() if part not in ({}, None)}


def _report_other_tables(database: Database, reading: ReadContext) -> None:
    """Report other data, which is not read."""
    if database.columns(_WRITES):
        ((count,),) = list(database.rows(f"SELECT count(*) FROM {_WRITES}"))  # noqa: S608 - our own
        if count:
            reason = "steps of a run; their results are in the checkpoints"
            reading.report.lost(_WRITES, reason, count=count)
    for table in other_tables(database, _KNOWN):
        reading.report.lost("table", "not a checkpointer table", example=table[:80])


FORMAT = LangGraphCheckpoints()
"""The instance that the registry loads."""
