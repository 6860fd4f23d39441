"""The conversations that an agent file has, laid out on disk one by one before they are written.

A conversation that was forked has its own messages in a file and says where it begins; the main
one has those from before as well, since a reader of version 1 reads nothing else.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Strands
from satchel.formats._aletheia.branches import (
    AFTER,
    AT,
    CHECKPOINT,
    FORKED,
    INCLUDED,
    MEMORIES,
    SESSION,
    WAS_FORKED,
)
from satchel.formats._aletheia.message_rows import name_of, row_of_message
from satchel.formats._aletheia.rows import identity_of
from satchel.formats._aletheia.shape import Row
from satchel.formats._aletheia.talk import At, Beside, Talk, members
from satchel.memory.records import SessionEvent
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.records import Sealed
from satchel.type_info import resolved

MOST_RECEIPTS = 10
"""How many receipts of distillations a file has."""

_NOT_SAID = {"id": "", "sessionId": ""}
"""Of a receipt: what another file calls it and its conversation."""

Name = Callable[[Sealed, str], str]
"""Gives a record the id that it has in the file."""


class Talks:
    """The conversations of a set of records.

    Args:
        records: What is written.
        agent: Whose file it is, or was where the agent came from.
        report: Where is counted what has no place.
        name: Gives records their ids in the file.
        called: Is told what an event is called in the file.
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
        self._called = called
        self._strands = Strands()
        self._places = Keyed()
        self._talks: dict[str, Talk] = {}
        self._receipts: list[Row] = []
        self._lay_out()

    def close(self) -> None:
        """Give the space back."""
        self._strands.close()
        self._places.close()

    def all(self) -> Iterator[Talk]:
        """Yield the conversations, in the order in which they began."""
        yield from self._talks.values()

    def head(self, talk: Talk, *, whole: bool, alone: bool) -> Row:
        """Return what is written of one before its messages.

        Args:
            talk: The conversation.
            whole: Whether a fork has the messages from before it as well.
            alone: Whether it is the only one that is written.
        """
        made, parent = talk.row(self._agent), talk.parent
        source = self._talks.get(talk.source or "")
        if parent is None or source is None:
            return made
        if alone:
            reason = "its parent conversation is only referenced"
            for name in ("event", "parent", "state", "session_event"):
                self._report.lost(name, reason, example=talk.identity)
            return {**made, WAS_FORKED: {SESSION: source.identity, AFTER: parent.number}}
        said: Row = {SESSION: source.identity, AT: parent.name, AFTER: parent.number}
        more = members(talk.event)
        checkpoint = self._at(str(more.get("checkpoint", "")))
        said |= {} if checkpoint is None else {CHECKPOINT: checkpoint.name}
        said |= {MEMORIES: more["memories"]} if "memories" in more else {}
        return {**made, FORKED: {**said, **({INCLUDED: True} if whole else {})}}

    def messages(self, talk: Talk, *, whole: bool) -> Iterator[Row]:
        """Yield the messages of one; with ``whole``, those from before it was forked first."""
        for owner, value in self._elements(talk, whole=whole):
            if value["event"] == "message":
                event = msgspec.convert(value["said"], resolved(SessionEvent))
                name = name_of(event, value["id"], owner.identity)
                yield row_of_message(event, name, owner.identity, self._agent)

    def beside(self, talk: Talk, *, whole: bool) -> Row:
        """Return what is kept beside the messages of one."""
        found = Beside(talk, whole=whole)
        for owner, value in self._elements(talk, whole=whole):
            found.take(owner, value)
            if value["event"] == "checkpoint" and owner is talk:
                self._note_receipt(talk, value)
        return found.members(is_fork=talk.parent is not None)

    def receipts(self, kept: list[Any]) -> list[Any]:
        """Return the receipts of the last distillations, those that came in a file among them.

        Complete once ``beside`` was asked of each conversation.
        """
        named = {one.get("id"): one for one in self._receipts}
        older, told = list[Any](), [_said_in(one) for one in self._receipts]
        for one in kept:
            said = _said_in(one)
            if said not in told and not (type(one) is dict and one.get("id") in named):
                older.append(one)
                told.append(said)
        return [*older, *self._receipts][-MOST_RECEIPTS:]

    def _note_receipt(self, talk: Talk, value: Row) -> None:
        done = (value["said"].get("state") or {}).get("distillation")
        if not isinstance(done, dict):
            return
        receipt: Row = {"id": f"{talk.identity}/{value['name']}", "sessionId": talk.identity}
        receipt |= {"distilledAt": value["said"].get("created_at"), **done}
        if any(_said_in(one) == _said_in(receipt) for one in self._receipts):
            return  # of one that a fork has from before it
        self._receipts.append(receipt)
        self._receipts.sort(key=lambda one: str(one.get("distilledAt") or ""))
        del self._receipts[:-MOST_RECEIPTS]

    def _elements(self, talk: Talk, *, whole: bool) -> Iterator[tuple[Talk, Row]]:
        """Yield the events of a conversation, each with the one that it was appended to."""
        way: list[tuple[Talk, str | None]] = [(talk, None)]
        while whole and (parent := way[-1][0].parent) is not None:
            way.append((self._talks[parent.session], way[-1][0].until))
        for one, until in reversed(way):
            if until in (one.start, ""):
                continue
            for line in one.strand.lines():
                value = msgspec.json.decode(line)
                yield one, value
                if value["id"] == until:
                    break

    # -- laying out ------------------------------------------------------------------------

    def _lay_out(self) -> None:
        for record in self._records.of("session_event"):
            event = cast("SessionEvent", record.model)
            kind = _kind_of(event)
            if kind in ("session", "fork"):
                self._begin(record, event)
                continue
            talk = self._talks.get(event.session or "")
            if talk is None:
                reason = "its conversation is not in the file"
                self._report.lost("session_event", reason, example=record.id)
            elif kind == "about":
                talk.take(event, record.id)
            else:
                self._add(talk, record, event, kind)

    def _begin(self, record: Sealed, event: SessionEvent) -> None:
        key = event.session if event.event == "session" and event.session else record.id
        identity = self._name(record, identity_of(record, event) if event.origin else key)
        made = Talk(key, (record.id, identity), self._strands.strand(), event)
        if event.event == "fork":
            self._fork(made)
        self._talks.setdefault(key, made)
        self._put(record.id, At(key, identity, made.number, made.place))

    def _fork(self, talk: Talk) -> None:
        """Find what a fork goes on from; the last one before it, where that was erased."""
        said = members(talk.event)
        talk.source = str(said.get("source") or talk.event.session or "")
        there = self._talks.get(talk.source)
        if there is None:
            self._report.lost("session", "its parent conversation is not in the file")
            return
        talk.until = talk.event.parent or ""
        talk.parent = self._at(talk.until)
        if talk.parent is None:
            talk.until, talk.parent = self._before(there, said.get("step"))
        talk.number, talk.place = talk.parent.number, talk.parent.place

    def _before(self, talk: Talk, step: Any) -> tuple[str, At]:
        most = step if type(step) is int else 0
        found = ""
        for line in talk.strand.lines():
            value = msgspec.json.decode(line)
            counted = (value["said"].get("state") or {}).get("step")
            is_element = value["event"] != "checkpoint"
            if is_element and type(counted) is int and counted <= most:
                found = value["id"]
        there = self._at(found) if found else None
        if there is not None:
            return found, there
        if talk.parent is not None:
            return talk.until or "", talk.parent
        return talk.start, At(talk.key, talk.identity)

    def _add(self, talk: Talk, record: Sealed, event: SessionEvent, kind: str) -> None:
        name = name_of(event, record.id, talk.identity)
        if kind != "checkpoint":
            talk.place += 1
            talk.number += kind == "message"
        full = f"{talk.identity}/{name}"
        self._called(record.id, full)
        self._put(record.id, At(talk.key, full, talk.number, talk.place))
        said = {**msgspec.to_builtins(event), "type": "session_event"}
        line = {"event": kind, "id": record.id, "name": name, "said": said}
        talk.strand.write(msgspec.json.encode(line) + b"\n")

    def _put(self, record_id: str, at: At) -> None:
        self._places.put(record_id.encode(), msgspec.json.encode(at))

    def _at(self, record_id: str) -> At | None:
        found = self._places.get(record_id.encode())
        return None if found is None else msgspec.json.decode(found, type=resolved(At))


def _kind_of(event: SessionEvent) -> str:
    """Return which event a record is; see ``continuity.elements``."""
    if event.event != "session" or event.parent is None:
        return event.event
    return "state" if "step" in members(event) else "about"


def _said_in(receipt: Any) -> Any:
    """Return what a receipt says, however a file calls it."""
    return {**receipt, **_NOT_SAID} if type(receipt) is dict else receipt
