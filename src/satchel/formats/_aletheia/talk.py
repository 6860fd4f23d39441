"""One conversation as an agent file has it: its row, and what is kept beside its messages."""

from typing import NamedTuple

from satchel.disk.spool import Strand
from satchel.formats._aletheia.branches import BEFORE
from satchel.formats._aletheia.conversations import ABOUT, TIMELINE
from satchel.formats._aletheia.message_rows import last_of, name_of, row_of_start
from satchel.formats._aletheia.shape import KINDS, NOTE, RECORD, Row
from satchel.memory.records import SessionEvent


class At(NamedTuple):
    """An element of a conversation, as the file counts."""

    session: str
    """Key of the conversation that it was appended to."""

    name: str
    """The element's id in the file."""

    number: int = 0
    """Messages up to it."""

    place: int = 0
    """Messages and changes of state up to it."""


class Talk:
    """A conversation that is being written.

    Args:
        key: What its events name it by.
        names: Its record's id, and its id in the file.
        strand: Where its events are laid out.
        event: Its record.
    """

    def __init__(
        self, key: str, names: tuple[str, str], strand: Strand, event: SessionEvent
    ) -> None:
        self.key = key
        self.start, self.identity = names
        self.strand = strand
        self.source: str | None = None
        """Key of the conversation that it was forked from."""

        self.parent: At | None = None
        """What it goes on from, of a fork."""

        self.until: str | None = None
        """Id of that."""

        self.number = self.place = 0
        """Messages, and elements, up to its last one."""

        self.event = event
        self._name = event.name
        self._archived = False
        self._about: list[Row] = []
        said = members(event)
        self.beside: Row = {
            member: said[name]
            for member, name in (("workingState", KINDS[0]), ("threadSummary", KINDS[1]))
            if name in said
        }

    def take(self, event: SessionEvent, record_id: str) -> None:
        """Take what was said of it later: another name, or that it was put away."""
        archived = members(event).get("archived")
        said: Row = {"id": name_of(event, record_id, self.identity)}
        said |= {"at": event.created_at} if event.created_at else {}
        said |= {"name": event.name} if event.name is not None else {}
        said |= {"archived": archived} if type(archived) is bool else {}
        self._name = said.get("name", self._name)
        self._archived = said.get("archived", self._archived)
        self._about.append(said)

    def row(self, agent: str) -> Row:
        """What is written of it before its messages."""
        made = row_of_start(self.event, self.identity, self._name, agent)
        made |= {"archived": True} if self._archived else {}
        if not self._about:
            return made
        if [{**one, "id": ""} for one in self._about] == [{"id": "", "archived": True}]:
            return made
        first = {"name": self.event.name} if self.event.name != self._name else {}
        return {**made, RECORD: {**made.get(RECORD, {}), **first, ABOUT: self._about}}


class Beside:
    """What is kept beside the messages of one conversation, and when it changed.

    Args:
        talk: The conversation.
        whole: Whether what is from before its fork comes as well.
    """

    def __init__(self, talk: Talk, *, whole: bool) -> None:
        self._talk = talk
        parent = None if whole else talk.parent
        self._count = 0 if parent is None else parent.number
        self._place = 0 if parent is None else parent.place
        self._changes: list[Row] = []
        self._changed: list[int] = []
        """Places of the changes."""

        self._moments: list[tuple[int, int, Row]] = []
        self._shifts: dict[str, int] = {}
        """By conversation: how much further its own counts are than the file's."""

        self._is_plain = True

    def take(self, owner: Talk, value: Row) -> None:
        """Take the next event."""
        said, kind = value["said"], value["event"]
        state = said.get("state") or {}
        step = state.get("step")
        if kind != "checkpoint":
            self._place += 1
            if type(step) is int:
                self._shifts.setdefault(owner.key, step - self._place)
        if kind == "message":
            self._count += 1
            self._is_plain = self._is_plain and not self._moments
            return
        when: Row = {"id": value["name"]}
        when |= {"at": said["created_at"]} if "created_at" in said else {}
        when |= {} if owner is self._talk else {BEFORE: True}
        if kind == "state":
            change = {kind: state[kind] for kind in KINDS if kind in state}
            self._changes.append({**change, "created_at": said.get("created_at")})
            self._changed.append(self._place)
            self._moment(self._place, {**when, "change": change})
            self._is_plain = self._is_plain and _is_plain(self._changes)
            return
        point = {k: state[k] for k in ("why", "distillation") if k in state}
        point |= {"name": said["name"]} if "name" in said else {}
        place = self._place
        if type(step) is int and owner.key in self._shifts:
            place = max(0, min(place, step - self._shifts[owner.key]))
        self._moment(place, {**when, "checkpoint": point})
        self._is_plain = False

    def members(self, *, is_fork: bool) -> Row:
        """Return the members of the conversation's row."""
        found, notes = last_of(self._changes)
        found |= self._talk.beside
        found |= {"notes": notes} if notes else {}
        if self._is_plain and not is_fork:
            return found
        self._moments.sort(key=lambda one: one[:2])
        return {**found, TIMELINE: [one for _, _, one in self._moments]}

    def _moment(self, place: int, said: Row) -> None:
        """Put a moment where it belongs: a point may be made long after what it points to."""
        later = sum(1 for one in reversed(self._changed) if one > place)
        first = self._place - len(self._changed) - self._count  # elements before all of these
        after = place - first - (len(self._changed) - later)
        is_point = int("checkpoint" in said)
        self._moments.append((place, is_point, {"after": after, **said}))


def members(event: SessionEvent) -> Row:
    """Return what an event says of its place."""
    return event.state if isinstance(event.state, dict) else {}


def _is_plain(changes: list[Row]) -> bool:
    """Tell whether the last change is one that a file without a timeline gives back as it was.

    That has one change of the state, whose time it does not say, and then the notes.
    """
    last = changes[-1]
    if NOTE in last:
        return set(last) <= {NOTE, "created_at"}
    return len(changes) == 1 and last.get("created_at") is None
