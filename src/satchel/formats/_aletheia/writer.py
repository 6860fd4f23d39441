"""Records as the rows of an agent file.

References use the IDs of the file: those that records came with, or their own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.sealed_records import Sealed
from satchel.formats._aletheia.branches import (
    AFTER,
    AT,
    BEFORE,
    CHECKPOINT,
    FORKED,
    INCLUDED,
    MEMORIES,
    SESSION,
    WAS_FORKED,
)
from satchel.formats._aletheia.conversations import ABOUT, TIMELINE
from satchel.formats._aletheia.rows import (
    identity_of,
    is_path,
    origin_member_of,
    row_of_edge,
    row_of_entry,
    row_of_node,
    with_vector,
)
from satchel.formats._aletheia.schema import (
    BINARY,
    KINDS,
    NOTE,
    PARTS,
    RECORD,
    SUMMARY,
    WORKING,
    Row,
)
from satchel.formats._own_vectors import BankVectorWriter
from satchel.formats._row_lists import in_order
from satchel.model.records import Edge, Entry, FileVersion, SessionEvent
from satchel.model.values import Component, read_time, resolved
from satchel.ports.record_set import TRANSFER_RECORDS, RecordSet, Report
from satchel.runtime.scratch import ScratchMap, SpoolStream, SpoolStreams


def row_of_message(event: SessionEvent, name: str, session: str, agent: str) -> Row:
    """Return a message as a row.

    Args:
        event: The message.
        name: Its ID in the file.
        session: The ID of its conversation in the file.
        agent: The agent of the file.
    """
    origin, as_written = origin_member_of(event.origin, f"{agent}/sessions", f"{session}/{name}")
    row: Row = {"id": name, "role": event.role or ""}
    if event.name is not None:
        row["name"] = event.name
    row["content"] = event.text if event.content is None else event.content
    row["metadata"] = event.metadata
    row |= {"createdAt": event.created_at} if event.created_at else {}
    return _with_as_written(row, as_written, event, origin)


def name_of(event: SessionEvent, record_id: str, session: str) -> str:
    """Return the name of an event within its conversation.

    Args:
        event: The event.
        record_id: The ID of its record.
        session: The ID of its conversation in the file.
    """
    origin_id = event.origin.id if event.origin and event.origin.provider is not None else None
    start = f"{session}/"
    return origin_id[len(start) :] if origin_id and origin_id.startswith(start) else record_id


def row_of_start(event: SessionEvent, identity: str, name: str | None, agent: str) -> Row:
    """Return a conversation as a row, without anything after its start."""
    origin, as_written = origin_member_of(event.origin, f"{agent}/sessions", identity)
    row: Row = {"id": identity}
    row |= {"name": name} if name is not None else {}
    row |= {"createdAt": event.created_at} if event.created_at else {}
    row |= {"metadata": event.metadata} if event.metadata else {}
    return _with_as_written(row, as_written, event, origin)


def row_of_note(value: Any, created: str | None) -> Row:
    """Return a note as a row."""
    note = dict(value) if isinstance(value, dict) else {"content": str(value)}
    written_time = note.pop("createdAt", None)
    note.pop("created_at", None)
    when = (
        written_time
        if written_time is not None and read_time(str(written_time)) == created
        else created
    )
    return {**note, **({"createdAt": when} if when else {})}


def _with_as_written(row: Row, as_written: Row, event: SessionEvent, origin: Row) -> Row:
    as_written = dict(as_written)
    text = as_written.pop("createdAt", None)
    if text is not None and (type(text) is not str or read_time(text) == event.created_at):
        row["createdAt"] = text
    if as_written.get("id", "") is None:  # it had no time
        del as_written["id"], row["id"]
    if as_written.get("content", "") is None:
        del as_written["content"]
    row |= {name: part for name, part in as_written.items() if name not in row}
    optional = {"origin": origin, "scope": event.scope, "sources": event.sources}
    record = {name: msgspec.to_builtins(part) for name, part in optional.items() if part}
    return {**row, RECORD: record} if record else row


def last_of(changes: Iterable[Row]) -> tuple[Row, list[Row]]:
    """Return the current working state and summary, and all notes.

    Args:
        changes: The contents of each change, with ``created_at``.
    """
    latest, notes = dict[str, Any](), list[Row]()
    for change in changes:
        for member, name in (("workingState", WORKING), ("threadSummary", SUMMARY)):
            if name in change:
                latest[member] = change[name]
        if NOTE in change:
            notes.append(row_of_note(change[NOTE], change.get("created_at")))
    return latest, notes


class ConversationPosition(NamedTuple):
    """The position of an element of a conversation, as the file counts."""

    session: str
    """Key of its conversation."""

    name: str
    """The element's ID in the file."""

    number: int = 0
    """Number of messages up to it."""

    step: int = 0
    """Number of messages and changes of state up to it."""


class AletheiaSessionWriter:
    """A conversation that is being written.

    Args:
        key: The key that its events refer to.
        names: The ID of its record, and its ID in the file.
        stream: The stream of its events.
        event: Its record.
    """

    def __init__(
        self, key: str, names: tuple[str, str], stream: SpoolStream, event: SessionEvent
    ) -> None:
        self.key = key
        self.start, self.identity = names
        self.stream = stream
        self.source: str | None = None
        """Key of the conversation of origin."""

        self.parent: ConversationPosition | None = None
        """The element that a fork continues from."""

        self.until: str | None = None
        """ID of that element."""

        self.number = self.step = 0
        """Number of messages, and of elements, up to its last one."""

        self.event = event
        self._name = event.name
        self._archived = False
        self._about: list[Row] = []
        state = members(event)
        self.beside: Row = {
            member: state[name]
            for member, name in (("workingState", KINDS[0]), ("threadSummary", KINDS[1]))
            if name in state
        }

    def take(self, event: SessionEvent, record_id: str) -> None:
        """Add a later change: another name, or that it was archived."""
        archived = members(event).get("archived")
        change: Row = {"id": name_of(event, record_id, self.identity)}
        change |= {"at": event.created_at} if event.created_at else {}
        change |= {"name": event.name} if event.name is not None else {}
        change |= {"archived": archived} if type(archived) is bool else {}
        self._name = change.get("name", self._name)
        self._archived = change.get("archived", self._archived)
        self._about.append(change)

    def row(self, agent: str) -> Row:
        """Its row, without its messages."""
        row = row_of_start(self.event, self.identity, self._name, agent)
        row |= {"archived": True} if self._archived else {}
        if not self._about:
            return row
        if [{**one, "id": ""} for one in self._about] == [{"id": "", "archived": True}]:
            return row
        first = {"name": self.event.name} if self.event.name != self._name else {}
        return {**row, RECORD: {**row.get(RECORD, {}), **first, ABOUT: self._about}}


class SessionTimeline:
    """The state of a conversation, and when it changed.

    Args:
        conversation: The conversation.
        whole: Whether to include what precedes its fork.
    """

    def __init__(self, conversation: AletheiaSessionWriter, *, whole: bool) -> None:
        self._conversation = conversation
        parent = None if whole else conversation.parent
        self._count = 0 if parent is None else parent.number
        self._step = 0 if parent is None else parent.step
        self._changes: list[Row] = []
        self._changed: list[int] = []
        """Positions of the changes."""

        self._moments: list[tuple[int, int, Row]] = []
        self._shifts: dict[str, int] = {}
        """The difference between a conversation's counts and the file's, by conversation."""

        self._is_plain = True

    def take(self, owner: AletheiaSessionWriter, value: Row) -> None:
        """Add the next event."""
        event, kind = value["members"], value["event"]
        state = event.get("state") or {}
        counted = state.get("step")
        if kind != "checkpoint":
            self._step += 1
            if type(counted) is int:
                self._shifts.setdefault(owner.key, counted - self._step)
        if kind == "message":
            self._count += 1
            self._is_plain = self._is_plain and not self._moments
            return
        moment: Row = {"id": value["name"]}
        moment |= {"at": event["created_at"]} if "created_at" in event else {}
        moment |= {} if owner is self._conversation else {BEFORE: True}
        if kind == "state":
            change = {kind: state[kind] for kind in KINDS if kind in state}
            self._changes.append({**change, "created_at": event.get("created_at")})
            self._changed.append(self._step)
            self._moment(self._step, {**moment, "change": change})
            self._is_plain = self._is_plain and _is_plain(self._changes)
            return
        point = {k: state[k] for k in ("why", "distillation") if k in state}
        point |= {"name": event["name"]} if "name" in event else {}
        step = self._step
        if type(counted) is int and owner.key in self._shifts:
            step = max(0, min(step, counted - self._shifts[owner.key]))
        self._moment(step, {**moment, "checkpoint": point})
        self._is_plain = False

    def members(self, *, is_fork: bool) -> Row:
        """Return the members of the conversation's row."""
        latest, notes = last_of(self._changes)
        latest |= self._conversation.beside
        latest |= {"notes": notes} if notes else {}
        if self._is_plain and not is_fork:
            return latest
        self._moments.sort(key=lambda moment: moment[:2])
        return {**latest, TIMELINE: [moment for _, _, moment in self._moments]}

    def _moment(self, step: int, moment: Row) -> None:
        """Insert a moment in order: a checkpoint may be created long after its element."""
        later = sum(1 for one in reversed(self._changed) if one > step)
        first = self._step - len(self._changed) - self._count  # elements before all others
        after = step - first - (len(self._changed) - later)
        is_point = int("checkpoint" in moment)
        self._moments.append((step, is_point, {"after": after, **moment}))


def members(event: SessionEvent) -> Row:
    """Return the members of an event that give its position."""
    return event.state if isinstance(event.state, dict) else {}


def _is_plain(changes: list[Row]) -> bool:
    """Return whether a file without a timeline reproduces the last change.

    Such a file has one change of state, without a time, and then the notes.
    """
    last = changes[-1]
    if NOTE in last:
        return set(last) <= {NOTE, "created_at"}
    return len(changes) == 1 and last.get("created_at") is None


MOST_RECEIPTS = 10
"""Largest number of distillation receipts in a file."""

_FILE_IDS = {"id": "", "sessionId": ""}
"""Members of a receipt that depend on the file: its ID and its conversation."""

Name = Callable[[Sealed, str], str]
"""Returns the ID of a record in the file."""


class AletheiaSessionsWriter:
    """The conversations of a set of records.

    Args:
        records: The records to write.
        agent: The agent of the file, or of its source file.
        report: Counts what the file cannot hold.
        name: Returns the IDs of records in the file.
        called: Called with each event's name in the file.
    """

    def __init__(
        self,
        records: RecordSet,
        agent: str,
        report: Report,
        name: Name,
        called: Callable[[str, str], None],
    ) -> None:
        self._records = records
        self._agent = agent
        self._report = report
        self._name = name
        self._store_name = called
        self._streams = SpoolStreams()
        self._positions = ScratchMap()
        self._conversations: dict[str, AletheiaSessionWriter] = {}
        self._receipts: list[Row] = []
        self._index_events()

    def close(self) -> None:
        """Free the temporary space."""
        self._streams.close()
        self._positions.close()

    def all(self) -> Iterator[AletheiaSessionWriter]:
        """Yield the conversations, in the order of their beginning."""
        yield from self._conversations.values()

    def head(self, conversation: AletheiaSessionWriter, *, whole: bool, alone: bool) -> Row:
        """Return the row of a conversation, without its messages.

        Args:
            conversation: The conversation.
            whole: Whether a fork includes the messages before it.
            alone: Whether no other conversation is written.
        """
        row, parent = conversation.row(self._agent), conversation.parent
        source = self._conversations.get(conversation.source or "")
        if parent is None or source is None:
            return row
        if alone:
            reason = "its parent conversation is only referenced"
            for name in ("event", "parent", "state", "session_event"):
                self._report.lost(name, reason, example=conversation.identity)
            return {**row, WAS_FORKED: {SESSION: source.identity, AFTER: parent.number}}
        fork: Row = {SESSION: source.identity, AT: parent.name, AFTER: parent.number}
        state = members(conversation.event)
        checkpoint = self._position(str(state.get("checkpoint", "")))
        fork |= {} if checkpoint is None else {CHECKPOINT: checkpoint.name}
        fork |= {MEMORIES: state["memories"]} if "memories" in state else {}
        return {**row, FORKED: {**fork, **({INCLUDED: True} if whole else {})}}

    def messages(self, conversation: AletheiaSessionWriter, *, whole: bool) -> Iterator[Row]:
        """Yield the messages of a conversation; with ``whole``, those before its fork first."""
        for owner, value in self._elements(conversation, whole=whole):
            if value["event"] == "message":
                event = msgspec.convert(value["members"], resolved(SessionEvent))
                name = name_of(event, value["id"], owner.identity)
                yield row_of_message(event, name, owner.identity, self._agent)

    def beside(self, conversation: AletheiaSessionWriter, *, whole: bool) -> Row:
        """Return the state of a conversation."""
        timeline = SessionTimeline(conversation, whole=whole)
        for owner, value in self._elements(conversation, whole=whole):
            timeline.take(owner, value)
            if value["event"] == "checkpoint" and owner is conversation:
                self._note_receipt(conversation, value)
        return timeline.members(is_fork=conversation.parent is not None)

    def receipts(self, stored: list[Any]) -> list[Any]:
        """Return the receipts of the last distillations, including those from a file.

        Complete after ``beside`` was called for each conversation.
        """
        by_id = {receipt.get("id"): receipt for receipt in self._receipts}
        older, contents = list[Any](), [_without_ids(receipt) for receipt in self._receipts]
        for receipt in stored:
            content = _without_ids(receipt)
            if content not in contents and not (
                type(receipt) is dict and receipt.get("id") in by_id
            ):
                older.append(receipt)
                contents.append(content)
        return [*older, *self._receipts][-MOST_RECEIPTS:]

    def _note_receipt(self, conversation: AletheiaSessionWriter, value: Row) -> None:
        distillation = (value["members"].get("state") or {}).get("distillation")
        if not isinstance(distillation, dict):
            return
        receipt: Row = {
            "id": f"{conversation.identity}/{value['name']}",
            "sessionId": conversation.identity,
        }
        receipt |= {"distilledAt": value["members"].get("created_at"), **distillation}
        if any(_without_ids(older) == _without_ids(receipt) for older in self._receipts):
            return  # of one that a fork includes
        self._receipts.append(receipt)
        self._receipts.sort(key=lambda older: str(older.get("distilledAt") or ""))
        del self._receipts[:-MOST_RECEIPTS]

    def _elements(
        self, conversation: AletheiaSessionWriter, *, whole: bool
    ) -> Iterator[tuple[AletheiaSessionWriter, Row]]:
        """Yield the events of a conversation, and of those that it was forked from.

        Of a conversation of origin: its elements up to the fork, and all checkpoints of these, also
        those created after the fork. So the order of the log does not matter.
        """
        path: list[tuple[AletheiaSessionWriter, str | None]] = [(conversation, None)]
        while whole and (parent := path[-1][0].parent) is not None:
            path.append((self._conversations[parent.session], path[-1][0].until))
        for owner, until in reversed(path):
            if until in (owner.start, ""):
                continue
            last = None if until is None else self._position(until)
            is_later = False
            for line in owner.stream.lines():
                value = msgspec.json.decode(line)
                if not is_later or (last is not None and self._is_checkpoint_up_to(last, value)):
                    yield owner, value
                is_later = is_later or value["id"] == until

    def _is_checkpoint_up_to(self, last: ConversationPosition, value: Row) -> bool:
        """Return whether an event is a checkpoint of an element up to a position."""
        if value["event"] != "checkpoint":
            return False
        event = value["members"]
        element = self._position(event.get("parent") or "")
        counted = (event.get("state") or {}).get("step")
        step = element.step if element is not None else counted
        return type(step) is int and step <= last.step

    # -- laying out ------------------------------------------------------------------------

    def _index_events(self) -> None:
        for record in self._records.of("session_event"):
            event = cast("SessionEvent", record.model)
            kind = _kind_of(event)
            if kind in ("session", "fork"):
                self._begin(record, event)
                continue
            conversation = self._conversations.get(event.session or "")
            if conversation is None:
                reason = "its conversation is not in the file"
                self._report.lost("session_event", reason, example=record.id)
            elif kind == "about":
                conversation.take(event, record.id)
            else:
                self._add(conversation, record, event, kind)

    def _begin(self, record: Sealed, event: SessionEvent) -> None:
        key = event.session if event.event == "session" and event.session else record.id
        identity = self._name(record, identity_of(record, event) if event.origin else key)
        conversation = AletheiaSessionWriter(
            key, (record.id, identity), self._streams.new_stream(), event
        )
        if event.event == "fork":
            self._fork(conversation)
        self._conversations.setdefault(key, conversation)
        self._put(
            record.id, ConversationPosition(key, identity, conversation.number, conversation.step)
        )

    def _fork(self, conversation: AletheiaSessionWriter) -> None:
        """Find the element that a fork continues from; if it was erased, the last one before it."""
        state = members(conversation.event)
        conversation.source = str(state.get("source") or conversation.event.session or "")
        origin = self._conversations.get(conversation.source)
        if origin is None:
            self._report.lost("session", "its parent conversation is not in the file")
            return
        conversation.until = conversation.event.parent or ""
        conversation.parent = self._position(conversation.until)
        if conversation.parent is None:
            conversation.until, conversation.parent = self._before(origin, state.get("step"))
        conversation.number, conversation.step = (
            conversation.parent.number,
            conversation.parent.step,
        )

    def _before(
        self, conversation: AletheiaSessionWriter, step: Any
    ) -> tuple[str, ConversationPosition]:
        most = step if type(step) is int else 0
        last = ""
        for line in conversation.stream.lines():
            value = msgspec.json.decode(line)
            counted = (value["members"].get("state") or {}).get("step")
            is_element = value["event"] != "checkpoint"
            if is_element and type(counted) is int and counted <= most:
                last = value["id"]
        position = self._position(last) if last else None
        if position is not None:
            return last, position
        if conversation.parent is not None:
            return conversation.until or "", conversation.parent
        return conversation.start, ConversationPosition(conversation.key, conversation.identity)

    def _add(
        self, conversation: AletheiaSessionWriter, record: Sealed, event: SessionEvent, kind: str
    ) -> None:
        name = name_of(event, record.id, conversation.identity)
        if kind != "checkpoint":
            conversation.step += 1
            conversation.number += kind == "message"
        path = f"{conversation.identity}/{name}"
        self._store_name(record.id, path)
        self._put(
            record.id,
            ConversationPosition(conversation.key, path, conversation.number, conversation.step),
        )
        members = {**msgspec.to_builtins(event), "type": "session_event"}
        line = {"event": kind, "id": record.id, "name": name, "members": members}
        conversation.stream.write(msgspec.json.encode(line) + b"\n")

    def _put(self, record_id: str, at: ConversationPosition) -> None:
        self._positions.put(record_id.encode(), msgspec.json.encode(at))

    def _position(self, record_id: str) -> ConversationPosition | None:
        encoded = self._positions.get(record_id.encode())
        return (
            None
            if encoded is None
            else msgspec.json.decode(encoded, type=resolved(ConversationPosition))
        )


def _kind_of(event: SessionEvent) -> str:
    """Return the kind of event of a record; see ``sessions.elements``."""
    if event.event != "session" or event.parent is None:
        return event.event
    return "state" if "step" in members(event) else "about"


def _without_ids(receipt: Any) -> Any:
    """Return a receipt without the members that depend on the file."""
    return {**receipt, **_FILE_IDS} if type(receipt) is dict else receipt


_ENTRIES = tuple(map(str, Component))
_SUPPORTED = frozenset({*_ENTRIES, "graph_node", "edge", "session_event", "file_version"})


class AletheiaWriter:
    """The parts of an agent file to write.

    Args:
        records: The records to write.
        agent: The agent of the file, or of its source file.
        report: Counts what the file cannot hold.
    """

    def __init__(self, records: RecordSet, agent: str, report: Report) -> None:
        self._records = records
        self._agent = agent
        self._report = report
        self._names, self._used = ScratchMap(), ScratchMap()
        for kind in (*_ENTRIES, "graph_node"):
            for record in records.of(kind):
                self._name(record, identity_of(record, record.model))
        self.conversations = AletheiaSessionsWriter(
            records, agent, report, self._name, self._store_name
        )
        """The conversations."""

        self._count_other_records()

    def close(self) -> None:
        """Free the temporary space."""
        for resource in (self._names, self._used, self.conversations):
            resource.close()

    def vectors(self, container: Row, own: BankVectorWriter) -> Iterator[Row]:
        """Yield the memories, in their order in the source file if known.

        Args:
            container: The members around them in the source file.
            own: The bank's own vectors, to include.
        """
        for record, vector in own.beside(in_order(self._records, container)):
            entry = cast("Entry", record.model)
            names = [self._named(parent) for parent in entry.parent_ids]
            parents = [one for one in names if one is not None]
            if len(parents) < len(names):
                reason = "a parent is not in the file"
                self._report.lost("parent_ids", reason, example=record.id)
            row = row_of_entry(record, self._named(record.id) or record.id, parents, self._agent)
            yield row if vector is None else with_vector(row, vector)

    def nodes(self) -> Iterator[Row]:
        """Yield the nodes of the graph."""
        for record in self._records.of("graph_node"):
            yield row_of_node(record, self._named(record.id) or record.id, self._agent)

    def edges(self) -> Iterator[Row]:
        """Yield the edges of the graph."""
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            source, target = self._named(edge.source), self._named(edge.target)
            if source is None or target is None:
                reason = "its target is not in the file"
                self._report.lost("edge", reason, example=record.id)
            else:
                yield row_of_edge(record, (source, target), self._agent)

    def files(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the path of each text file, and its text in parts; count losses."""
        for path, versions in self._by_path():
            first, reason = versions[0], None
            if not is_path(path):
                reason = "not a valid workspace path"
            elif first.text is None and not first.metadata.get(BINARY):
                reason = "bytes outside the log are not exported"
            elif not first.metadata.get(BINARY):
                yield path, [version.text or "" for version in versions]
            if reason is not None:
                self._report.lost("file_version", reason, example=path[:80])

    def binaries(self) -> Iterator[tuple[str, Row | None]]:
        """Yield the path of each binary file, and its contents, if stored."""
        for path, versions in self._by_path():
            first = versions[0]
            if not is_path(path) or not first.metadata.get(BINARY):
                continue
            row = {k: v for k, v in first.metadata.items() if k not in (BINARY, PARTS, "part")}
            if "contentsBase64" in row:
                contents = (str(one.metadata.get("contentsBase64", "")) for one in versions)
                row["contentsBase64"] = "".join(contents)
            as_written = first.origin.as_written if first.origin else {}
            yield path, {"path": path, **row, **as_written} if row or as_written else None

    def _by_path(self) -> Iterator[tuple[str, list[FileVersion]]]:
        waiting: list[FileVersion] = []
        for record in self._records.of("file_version"):
            version = cast("FileVersion", record.model)
            if waiting and waiting[0].path != version.path:
                yield waiting[0].path, waiting
                waiting = []
            waiting.append(version)
        if waiting:
            yield waiting[0].path, waiting

    # -- names -----------------------------------------------------------------------------

    def _name(self, record: Sealed, preferred: str) -> str:
        """Return the unique ID of a record in the file."""
        name = preferred if self._used.add(preferred.encode()) else record.id
        self._used.add(name.encode())
        self._names.put(record.id.encode(), name.encode())
        return name

    def _store_name(self, record_id: str, name: str) -> None:
        """Store the ID of something that another part of the file has named."""
        self._names.put(record_id.encode(), name.encode())

    def _named(self, identity: str) -> str | None:
        name = self._names.get(identity.encode())
        return None if name is None else name.decode()

    def _count_other_records(self) -> None:
        lose = self._report.lost
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section)
            if kind is None:
                lose(section, "an agent file has no such section", count=count)
            elif kind not in _SUPPORTED | TRANSFER_RECORDS:
                for record in self._records.of(kind):
                    lose(kind, "an agent file has no such records", example=record.id)
