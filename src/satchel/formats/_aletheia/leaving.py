"""Records as the rows of an agent file.

What names another record names it as the file does: by the id that it came with, or its own.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Strand, Strands
from satchel.formats._aletheia.conversations import (
    TIMELINE,
    last_of,
    row_of_message,
    row_of_start,
)
from satchel.formats._aletheia.rows import (
    identity_of,
    row_of_edge,
    row_of_entry,
    row_of_node,
)
from satchel.formats._aletheia.shape import BINARY, KINDS, NAME, NOTE, PARTS, Row
from satchel.formats._order import in_order
from satchel.memory.entries import Entry
from satchel.memory.parts import Component, is_id
from satchel.memory.records import Edge, FileVersion, SessionEvent
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed

_ENTRIES = tuple(map(str, Component))
_HELD = frozenset({*_ENTRIES, "graph_node", "edge", "session_event", "file_version"})
_OF_THE_TRANSFER = frozenset({"source", "receipt"})
MOST_RECEIPTS = 10
"""How many receipts of distillations a file has."""

_NOT_SAID = {"id": "", "sessionId": ""}
_DEEPEST = 1000
"""How many forks of forks are followed."""


class Leaving:
    """What an agent file is made of.

    Args:
        records: What is written.
        agent: Whose file it is, or was where the agent came from.
        report: Where is counted what has no place.
    """

    def __init__(self, records: RecordSet, agent: str, report: Report) -> None:
        self._records = records
        self._agent = agent
        self._report = report
        self._names, self._used = Keyed(), Keyed()
        self._strands = Strands()
        self._sessions: dict[str, _Session] = {}
        self._receipts: list[Row] = []
        for kind in (*_ENTRIES, "graph_node"):
            for record in records.of(kind):
                self._name(record, identity_of(record, record.model))
        self._lay_out_sessions()
        self._count_what_has_no_place()

    def close(self) -> None:
        """Give the space back."""
        for one in (self._names, self._used, self._strands):
            one.close()

    def vectors(self, container: Row) -> Iterator[Row]:
        """Yield the memories, in the order that they came in as far as it is known."""
        for record in in_order(self._records, container):
            entry = cast("Entry", record.model)
            found = [self._named(parent) for parent in entry.parent_ids]
            parents = [one for one in found if one is not None]
            if len(parents) < len(found):
                reason = "a parent is not in the file"
                self._report.lost("parent_ids", reason, example=record.id)
            yield row_of_entry(record, self._named(record.id) or record.id, parents, self._agent)

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
                reason = "what it leads to is not in the file"
                self._report.lost("edge", reason, example=record.id)
            else:
                yield row_of_edge(record, (source, target), self._agent)

    def files(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the path of each text file, and its text in parts."""
        for path, versions in self._by_path():
            if versions[0].text is not None and not versions[0].metadata.get(BINARY):
                yield path, [version.text or "" for version in versions]

    def binaries(self) -> Iterator[tuple[str, Row | None]]:
        """Yield the path of each other file, and where there is more than that, its contents."""
        for path, versions in self._by_path():
            first = versions[0]
            if not first.metadata.get(BINARY):
                if first.text is None:
                    reason = "bytes beside the log are not taken out"
                    self._report.lost("file_version", reason, example=path[:80])
                continue
            row = {k: v for k, v in first.metadata.items() if k not in (BINARY, PARTS, "part")}
            if "contentsBase64" in row:
                contents = (str(one.metadata.get("contentsBase64", "")) for one in versions)
                row["contentsBase64"] = "".join(contents)
            kept = first.origin.as_written if first.origin else {}
            yield path, {"path": path, **row, **kept} if row or kept else None

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

    # -- conversations ---------------------------------------------------------------------

    def head(self, session: "_Session") -> Row:
        """Return what is written of one before its messages."""
        return session.row(self._agent)

    def sessions(self) -> Iterator["_Session"]:
        """Yield the conversations, in the order in which they began."""
        yield from self._sessions.values()

    def messages(self, session: "_Session") -> Iterator[Row]:
        """Yield the messages of one, those from before it was forked first."""
        for value in self._elements(session):
            if value["event"] == "message":
                event = msgspec.convert(value["said"], SessionEvent)
                yield row_of_message(event, value["id"], session.identity, self._agent)

    def beside(self, session: "_Session") -> Row:
        """Return what is kept beside the messages of one."""
        changes, moments, count, base = list[Row](), list[Row](), 0, None
        is_plain = True
        for value in self._elements(session):
            said = value["said"]
            state = said.get("state") or {}
            if value["event"] == "message":
                count += 1
                number = state.get("number")
                if base is None and type(number) is int:
                    base = number - 1
                is_plain = is_plain and not moments
                continue
            when = {"id": value["name"].removeprefix(f"{session.identity}/")}
            when |= {"at": said["created_at"]} if "created_at" in said else {}
            if value["event"] == "state":
                change = {kind: state[kind] for kind in KINDS if kind in state}
                changes.append({**change, "created_at": said.get("created_at")})
                moments.append({"after": count, **when, "change": change})
                is_plain = is_plain and _is_plain(changes)
                continue
            point = {k: state[k] for k in ("why", "distillation") if k in state}
            point |= {"name": said["name"]} if "name" in said else {}
            after = min(count, max(0, int(state.get("number", count)) - (base or 0)))
            moments.append({"after": after, **when, "checkpoint": point})
            self._note_receipt(session, value, state)
            is_plain = False
        found, notes = last_of(changes)
        found |= session.beside
        found |= {"notes": notes} if notes else {}
        return found if is_plain else {**found, TIMELINE: moments}

    def receipts(self, kept: list[Any]) -> list[Any]:
        """Return the receipts of the last distillations, those that came in a file among them.

        Complete once ``beside`` was asked of each conversation.
        """
        named = {one.get("id"): one for one in self._receipts}
        older = [one for one in kept if not (type(one) is dict and one.get("id") in named)]
        return [*older, *self._receipts][-MOST_RECEIPTS:]

    def _note_receipt(self, session: "_Session", value: Row, state: Row) -> None:
        done = state.get("distillation")
        if not isinstance(done, dict) or value["said"].get("session") != session.key:
            return
        name = value["name"].removeprefix(f"{session.identity}/")
        receipt: Row = {"id": f"{session.identity}/{name}", "sessionId": session.identity}
        receipt |= {"distilledAt": value["said"].get("created_at"), **done}
        if any({**one, **_NOT_SAID} == {**receipt, **_NOT_SAID} for one in self._receipts):
            return  # of one that a fork has from before it
        self._receipts.append(receipt)
        self._receipts.sort(key=lambda one: str(one.get("distilledAt") or ""))
        del self._receipts[:-MOST_RECEIPTS]

    def _elements(self, session: "_Session") -> Iterator[Row]:
        way: list[tuple[_Session, str | None]] = [(session, None)]
        while len(way) < _DEEPEST and way[-1][0].parent is not None:
            source, until = way[-1][0].parent
            there = self._sessions.get(source)
            if there is None:
                self._report.lost("session", "what it was forked from is not in the file")
                break
            way.append((there, until))
        for one, until in reversed(way):
            if until == one.key:
                continue
            for line in one.strand.lines():
                value = msgspec.json.decode(line)
                yield value
                if value["id"] == until:
                    break

    def _lay_out_sessions(self) -> None:
        for record in self._records.of("session_event"):
            event = cast("SessionEvent", record.model)
            is_start = event.event == "fork" or (
                event.event == "session" and (event.session is None or not is_id(event.session))
            )
            if is_start:
                self._begin(record, event)
                continue
            there = self._sessions.get(event.session or "")
            if there is None:
                reason = "its conversation is not in the file"
                self._report.lost("session_event", reason, example=record.id)
            elif event.event != "session" or "step" in _members(event):
                kind = "state" if event.event == "session" else event.event
                name = self._name(record, self._event_name(event, record.id))
                said = {**msgspec.to_builtins(event), "type": "session_event"}
                line = {"event": kind, "id": record.id, "name": name, "said": said}
                there.strand.write(msgspec.json.encode(line) + b"\n")
            else:
                there.rename(event)

    def _begin(self, record: Sealed, event: SessionEvent) -> None:
        key = event.session if event.event == "session" and event.session else record.id
        identity = self._name(record, identity_of(record, event) if event.origin else key)
        parent = None
        if event.event == "fork":
            parent = (event.session or "", event.parent)
        made = _Session(key, identity, self._strands.strand(), event, parent)
        self._sessions.setdefault(key, made)

    def _event_name(self, event: SessionEvent, record_id: str) -> str:
        found = event.origin
        return found.id if found and found.provider == NAME and found.id else record_id

    # -- names -----------------------------------------------------------------------------

    def _name(self, record: Sealed, wanted: str) -> str:
        """Give a record the id that it has in the file, and no other record has."""
        name = wanted if self._used.add(wanted.encode()) else record.id
        self._used.add(name.encode())
        self._names.put(record.id.encode(), name.encode())
        return name

    def _named(self, identity: str) -> str | None:
        found = self._names.get(identity.encode())
        return None if found is None else found.decode()

    def _count_what_has_no_place(self) -> None:
        lose = self._report.lost
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section)
            if kind is None:
                lose(section, "an agent file has no such section", count=count)
            elif kind not in _HELD | _OF_THE_TRANSFER:
                for record in self._records.of(kind):
                    lose(kind, "an agent file has no such records", example=record.id)


class _Session:
    """A conversation that is being written."""

    def __init__(
        self,
        key: str,
        identity: str,
        strand: Strand,
        event: SessionEvent,
        parent: tuple[str, str | None] | None,
    ) -> None:
        self.key = key
        self.identity = identity
        self.strand = strand
        self.parent = parent
        self._event = event
        self._name = event.name
        self._archived = False
        said = _members(event)
        self.beside: Row = {
            member: said[name]
            for member, name in (("workingState", KINDS[0]), ("threadSummary", KINDS[1]))
            if name in said
        }

    def rename(self, event: SessionEvent) -> None:
        """Take what was said of it later."""
        self._name = event.name if event.name is not None else self._name
        archived = _members(event).get("archived")
        self._archived = archived if type(archived) is bool else self._archived

    def row(self, agent: str) -> Row:
        """What is written of it before its messages."""
        made = row_of_start(self._event, self.identity, self._name, agent)
        if self.parent is not None:
            made["forkedFrom"] = self.parent[0]
        return {**made, "archived": True} if self._archived else made


def _is_plain(changes: list[Row]) -> bool:
    """Tell whether the last change is one that a file without a timeline gives back as it was.

    That has one change of the state, whose time it does not say, and then the notes.
    """
    last = changes[-1]
    if NOTE in last:
        return set(last) <= {NOTE, "created_at"}
    return len(changes) == 1 and last.get("created_at") is None


def _members(event: SessionEvent) -> dict[str, Any]:
    return event.state if isinstance(event.state, dict) else {}
