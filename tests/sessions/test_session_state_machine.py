"""A state machine: sessions, forks and deletions read like plain lists."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_kit import created

from satchel.crypto.sealed_records import Sealed, seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import Precondition, VerifiedRecord
from satchel.ledger.transaction import closing_receipt
from satchel.ledger.view import View
from satchel.model.records import Source, Status
from satchel.model.text import Message, Note, SessionChange
from satchel.model.values import now
from satchel.ports.store import Store
from satchel.sessions import lookup
from satchel.sessions.chains import forward, tip_of
from satchel.sessions.drafts import LogHead, Recorder, new_session
from satchel.sessions.elements import Tip, event_of
from satchel.sessions.lookup import point_at
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

_TEXTS = st.sampled_from(["yes", "no", "咖啡", "x" * 300])
_KINDS = st.sampled_from(["working_state", "thread_summary", "note"])
MESSAGE = "message"


@dataclass
class ModelSession:
    """A session in the model: a plain list that each fork copies."""

    id: str
    elements: list[tuple[str, str]] = field(default_factory=list)
    """What each is, and what it says."""

    source: "ModelSession | None" = None
    """What it was forked from."""

    begins: int = 0
    """Elements that it has from there."""

    own_points: dict[str, int] = field(default_factory=dict)
    """How many elements are before each checkpoint that was made in it, by its id."""

    @property
    def points(self) -> dict[str, int]:
        """The checkpoints of the session, and those of its source up to the fork."""
        above = self.source.points if self.source is not None else {}
        inherited = {name: place for name, place in above.items() if place <= self.begins}
        return {**inherited, **self.own_points}

    def texts(self) -> list[str]:
        """Return the texts of its messages."""
        return [text for what, text in self.elements if what == MESSAGE]

    def last(self, kind: str) -> str | None:
        """Return the last change of a kind."""
        return next((text for what, text in reversed(self.elements) if what == kind), None)

    def up_to(self, at: str | None) -> int:
        """Return how many elements are before a point."""
        if at is None:
            return len(self.elements)
        if at in self.points:
            return self.points[at]
        places = [n for n, (what, _) in enumerate(self.elements, 1) if what == MESSAGE]
        return places[int(at) - 1] if int(at) else 0


class SessionMachine(RuleBasedStateMachine):
    """Applies the same steps to a bank and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.make_store(self.folder)
        self.ledger: Ledger = created(self.store)
        self.model_sessions: list[ModelSession] = []

    def make_store(self, folder: Path) -> Store:
        """Return a new store."""
        del folder
        return InMemoryStore()

    def teardown(self) -> None:
        """Close the store and remove its folder."""
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(batched=st.booleans(), texts=st.lists(_TEXTS, max_size=4))
    def begin(self, *, batched: bool, texts: list[str]) -> None:
        """Start a session, possibly in an import."""
        start = new_session()
        recorder = Recorder(Tip(start.id, start.id))
        said = [recorder.message(Message(role="user", content=one)) for one in texts]
        self._append([start, *said], batched=batched)
        self.model_sessions.append(ModelSession(start.id, [(MESSAGE, one) for one in texts]))

    @rule(data=st.data(), texts=st.lists(_TEXTS, min_size=1, max_size=3), batched=st.booleans())
    def say(self, data: st.DataObject, texts: list[str], *, batched: bool) -> None:
        """Append messages, possibly in an import."""
        session = self._any(data)
        if session is not None:
            recorder, given = self._recorder(session)
            said = [recorder.message(Message(role="user", content=one)) for one in texts]
            self._append(said, batched=batched, given=given)
            session.elements += [(MESSAGE, one) for one in texts]

    @rule(data=st.data(), kind=_KINDS, text=_TEXTS)
    def change(self, data: st.DataObject, kind: str, text: str) -> None:
        """Change the state that is stored next to the messages."""
        session = self._any(data)
        if session is not None:
            recorder, given = self._recorder(session)
            value = Note(content=text) if kind == "note" else text
            self._append([recorder.change(SessionChange(**{kind: value}))], given=given)  # type: ignore[arg-type]
            session.elements.append((kind, text))

    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """Create a checkpoint at the end."""
        session = self._any(data)
        if session is not None:
            with self.ledger.reading() as view:
                point = point_at(view, lookup.find(view, session.id), None)
                made = Recorder(point.tip).checkpoint(_head(view))
            self._append([made])
            session.own_points[made.id] = len(session.elements)

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """Fork a session at any message or checkpoint, or at its end."""
        session = self._any(data)
        if session is None:
            return
        numbers = map(str, range(len(session.texts()) + 1))
        at = data.draw(st.sampled_from([None, *session.points, *numbers]))
        with self.ledger.reading() as view:
            point = point_at(view, lookup.find(view, session.id), at)
            made = Recorder(point.tip).fork(_head(view), source=session.id, as_of=point.log)
        self._append([made])
        count = session.up_to(at)
        self.model_sessions.append(ModelSession(made.id, session.elements[:count], session, count))

    @rule(data=st.data())
    def delete_and_restore(self, data: st.DataObject) -> None:
        """Delete a message, read the others, and restore it."""
        session = self._any(data)
        if session is None or not session.texts():
            return
        with self.ledger.reading() as view:
            element = point_at(view, lookup.find(view, session.id), None).element
            every = [one for one in forward(view, element) if event_of(one.model) == MESSAGE]
        place = data.draw(st.integers(0, len(every) - 1))
        target = every[place].record.id
        self._append([seal(Status(target=target, state="deleted"))])
        with self.ledger.reading() as view:
            left = [text for number, text in enumerate(session.texts()) if number != place]
            assert _texts(view, element) == left
        self._append([seal(Status(target=target, state="restored"))])

    @invariant()
    def sessions_equal_the_model(self) -> None:
        """Every session has the messages, state and checkpoints of the model."""
        with self.ledger.reading() as view:
            shown = {one.id: one for one in lookup.sessions(view)}
            assert shown.keys() == {session.id for session in self.model_sessions}
            for session in self.model_sessions[-5:]:
                start = lookup.find(view, session.id)
                element = point_at(view, start, None).element
                assert _texts(view, element) == session.texts()
                assert shown[session.id].messages == len(session.texts())
                assert {one.id for one in lookup.checkpoints(view, start)} == session.points.keys()
                state = lookup.state(view, element)
                notes = [text for what, text in session.elements if what == "note"]
                assert [note.content for note in state.notes] == notes
                assert state.working_state == session.last("working_state")
                assert state.thread_summary == session.last("thread_summary")

    def _recorder(self, session: ModelSession) -> tuple[Recorder, Precondition]:
        with self.ledger.reading() as view:
            tip = tip_of(view, lookup.find(view, session.id))
            return Recorder(tip), Precondition(view.head.size, [], (tip.session,))

    def _any(self, data: st.DataObject) -> ModelSession | None:
        return data.draw(st.sampled_from(self.model_sessions)) if self.model_sessions else None

    def _append(
        self, records: list[Sealed], *, batched: bool = False, given: Precondition | None = None
    ) -> None:
        if not batched:
            self.ledger.append(records, precondition=given)
            return
        source = seal(Source(provider="x", format="x", at=now()))
        self.ledger.append([source], precondition=given)
        self.ledger.append(records, batch=source.id)
        self.ledger.append([closing_receipt(source.id, now())])


def _texts(view: View, element: VerifiedRecord) -> list[Any]:
    found = (one.model for one in forward(view, element) if event_of(one.model) == MESSAGE)
    return [getattr(model, "text", None) for model in found]


def _head(view: View) -> LogHead:
    return LogHead(size=view.head.size, root=view.head.root)


class SqliteSessionMachine(SessionMachine):
    """The same on SQLite."""

    def make_store(self, folder: Path) -> Store:
        """Return a new store."""
        return SqliteStore(folder / "a.db")


class LadybugSessionMachine(SessionMachine):
    """The same on LadybugDB."""

    def make_store(self, folder: Path) -> Store:
        """Return a new store."""
        return LadybugStore(folder / "graph")


@pytest.mark.parametrize(
    ("machine", "examples"),
    [
        (SessionMachine, 6),
        (SqliteSessionMachine, 2),
        pytest.param(SessionMachine, 100, marks=pytest.mark.prove),
        pytest.param(SqliteSessionMachine, 20, marks=pytest.mark.prove),
        pytest.param(LadybugSessionMachine, 5, marks=pytest.mark.prove),
    ],
    ids=["memory", "sqlite", "memory-long", "sqlite-long", "ladybug"],
)
def test_sessions_read_like_plain_lists(machine: type[SessionMachine], examples: int) -> None:
    """Forks copy lists in the model and nothing in the bank; both return the same."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
        ),
    )
