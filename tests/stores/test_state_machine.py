"""A state machine: any sequence of operations gives the answers of a plain model."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from ledger_kit import WRITER, created, listed

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ErasureRefusedError, SlotTakenError
from satchel.ledger.ledger import Ledger
from satchel.ledger.view import View
from satchel.ledger.witness import Witness
from satchel.model.records import Edge, Erasure, Model, Semantic, SessionEvent, State, Status
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter, slot_of
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

_RETIRING = ("superseded", "deleted", "expired", "rejected")
_STATES: tuple[State, ...] = (
    *("superseded", "deleted", "expired", "rejected"),
    *("restored", "restored", "quarantined", "released", "promoted"),
)
_WORDS = ("harbour", "staging", "咖啡")
_KEYS = (None, "1", "1", "2")
_USERS = (None, "ada")
_NOBODY = "blake3:" + "0" * 64


@dataclass
class ModelRecord:
    """A record in the model."""

    id: str
    type: str
    slot: str | None
    user: str | None
    kind: str | None
    session: str | None
    links: list[tuple[str, str]]
    words: str
    states: list[tuple[int, str]] = field(default_factory=list)
    """Where in the log, and what, was said about it."""

    erased: bool = False
    """Whether its place is all that is left of it."""

    def erase(self) -> None:
        """Remove what the record contained."""
        self.erased, self.slot, self.user, self.kind, self.session = True, None, None, None, None
        self.links, self.words = [], ""

    def is_retired(self, size: int) -> bool:
        """Return whether the record was retired at a size of the log."""
        found = False
        for seq, state in self.states:
            if seq < size and state in (*_RETIRING, "restored"):
                found = state != "restored"
        return found

    def is_held(self, size: int) -> bool:
        """Return whether the record was in quarantine at a size of the log."""
        found = False
        for seq, state in self.states:
            if seq < size and state in ("quarantined", "released"):
                found = state == "quarantined"
        return found


class ModelBank:
    """A bank in plain Python: a list of records with their statuses."""

    def __init__(self) -> None:
        self.log: list[ModelRecord] = []

    def after(self, records: list[Sealed]) -> "list[ModelRecord] | None":
        """Return the log with records added, or None if a slot would be taken twice."""
        log = [ModelRecord(**{**vars(told), "states": list(told.states)}) for told in self.log]
        for record in records:
            model = record.model
            seq = len(log)
            log.append(_model_record(record))
            if isinstance(model, Status):
                for told in log[:seq]:
                    if told.id == model.target:
                        told.states.append((seq, model.state))
            if isinstance(model, Erasure):
                for told in log[:seq]:
                    if told.id == model.entry:
                        told.erase()
        slots = Counter(told.slot for told in log if not told.is_retired(len(log)) and told.slot)
        return None if any(count > 1 for count in slots.values()) else log

    def matching(self, wanted: Filter) -> list[str]:
        """Return the IDs that match a filter, in log order."""
        size = len(self.log) if wanted.as_of is None else wanted.as_of
        return [
            told.id
            for seq, told in enumerate(self.log)
            if not told.erased
            and (wanted.as_of is None or seq < wanted.as_of)
            and (wanted.retired or not told.is_retired(size))
            and (wanted.held or not told.is_held(size))
            and (wanted.types is None or told.type in wanted.types)
            and (wanted.kinds is None or told.kind in wanted.kinds)
            and (wanted.user is None or told.user == wanted.user)
            and (wanted.session is None or told.session == wanted.session)
        ]


def _model_record(record: Sealed) -> ModelRecord:
    model = record.model
    scope = getattr(model, "scope", None)
    links = [(record.id, parent) for parent in getattr(model, "parent_ids", ())]
    if isinstance(model, Edge):
        links = [(model.source, model.target)]
    return ModelRecord(
        id=record.id,
        type=record.type,
        slot=slot_of(model),
        user=scope.user if scope else None,
        kind=getattr(model, "kind", None),
        session=getattr(model, "session", None),
        links=links,
        words=getattr(model, "text", None) or "",
    )


_FILTERS = st.builds(
    Filter,
    types=st.sampled_from([None, None, frozenset({"semantic"}), frozenset({"edge", "status"})]),
    kinds=st.sampled_from([None, None, frozenset({"note"})]),
    user=st.sampled_from([None, *_USERS]),
    session=st.sampled_from([None, None, "s"]),
    retired=st.booleans(),
    held=st.booleans(),
)


class BankMachine(RuleBasedStateMachine):
    """A bank on disk and one in memory, compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="satchel-machine-"))
        (self.root / "store").mkdir()
        self.model = ModelBank()
        self.stack = ExitStack()
        self.stores: list[Store] = [self._store(), InMemoryStore()]
        self.ledgers = [created(store, self._witness()) for store in self.stores]
        for ledger in self.ledgers[:1]:
            with ledger.reading() as view:
                self.founding = [logged.record for logged in view.scan()]
        self.model.log = [_model_record(record) for record in self.founding]
        self.pinned: Callable[[], None] | None = None

    def _store(self) -> Store:
        return SqliteStore(self.root / "store" / "satchel.db")

    def _witness(self) -> Witness:
        return Witness(self.root / "witness")

    def teardown(self) -> None:
        """Close and remove everything."""
        self.stack.close()
        for store in self.stores:
            store.close()
        shutil.rmtree(self.root)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Do one thing that is possible now.

        A single rule: with many rules, most runs would skip most of them.
        """
        able = [self.append, self.append, self.add_status, self.scan, self.as_of, self.get]
        able += [self.erase, self.scrub] if self._retired() else []
        able += [self.current, self.neighbors, self.words, self.reopen, self.another]
        able += [self.update, self.update, self.revert, self.fail] if self._slotted() else []
        able.append(self.release if self.pinned else self.pin)
        work = data.draw(_of([each.__name__ for each in able]))
        getattr(self, work)(data)

    # -- what is done ----------------------------------------------------------------------

    def _draft(self, data: st.DataObject) -> Model:
        """Return a new record, about an existing record or none."""
        known = [told.id for told in self.model.log if told.type != "bank"]
        some = st.sampled_from([*known, _NOBODY])
        word = data.draw(st.sampled_from(_WORDS))
        what = data.draw(st.sampled_from(["fact", "fact", "fact", "turn", "edge"]))
        if what == "turn":
            return SessionEvent(event="message", session=data.draw(_SESSIONS), text=word)
        if what == "edge":
            return Edge(source=data.draw(some), target=data.draw(some), kind="note")
        key, user = data.draw(st.sampled_from(_KEYS)), data.draw(st.sampled_from(_USERS))
        return Semantic(
            text=word,
            kind=None if key else data.draw(st.sampled_from([None, "note"])),
            scope=Scope(user=user) if user else None,
            origin=Origin(provider="test", id=key) if key else None,
            parent_ids=tuple(data.draw(st.lists(some, max_size=2, unique=True))),
        )

    def _put(self, records: list[Sealed]) -> None:
        """Append to both, which must refuse exactly what the model refuses."""
        expected = self.model.after(records)
        size = len(self.model.log)
        for ledger in self.ledgers:
            if expected is None:
                with pytest.raises(SlotTakenError):
                    ledger.append(records)
            else:
                assert ledger.append(records) == list(range(size, size + len(records)))
        if expected is not None:
            self.model.log = expected

    def append(self, data: st.DataObject) -> None:
        """Append some records, possibly with statuses of them."""
        records = [seal(self._draft(data)) for _ in range(data.draw(st.integers(1, 4)))]
        state: State | None = data.draw(st.sampled_from([None, None, *_STATES]))
        if state is not None:
            records.append(seal(Status(target=data.draw(_of(records)).id, state=state)))
        self._put(records)

    def add_status(self, data: st.DataObject) -> None:
        """Append statuses of existing records, or of an unknown one."""
        some = _of([told.id for told in self._slotted()] or [_NOBODY])
        target = data.draw(st.one_of(some, _of([told.id for told in self.model.log])))
        states = data.draw(st.lists(st.sampled_from(_STATES), min_size=1, max_size=3))
        self._put([seal(Status(target=target, state=state)) for state in states])

    def update(self, data: st.DataObject) -> None:
        """Replace a record that has a slot, in one append."""
        old = data.draw(_of(self._slotted()))
        parts = old.slot or ""
        with self.ledgers[0].reading() as view:
            origin = view.get([old.id])[old.id].model
        assert isinstance(origin, Semantic)
        new = seal(
            Semantic(text="anew", kind=origin.kind, scope=origin.scope, origin=origin.origin)
        )
        assert slot_of(new.model) == parts
        status = seal(Status(target=old.id, state="superseded", by=new.id))
        self._put(data.draw(st.permutations([status, new])))

    def revert(self, data: st.DataObject) -> None:
        """Make an older record of a slot current again, in one append."""
        now = data.draw(_of(self._slotted()))
        older = [told.id for told in self.model.log if told.slot == now.slot and told is not now]
        other = data.draw(_of([*older, now.id]))
        statuses = [
            seal(Status(target=other, state="restored")),
            seal(Status(target=now.id, state="superseded", by=other)),
        ]
        self._put(data.draw(st.permutations(statuses)))

    def erase(self, data: st.DataObject) -> None:
        """Erase some retired records; current ones are refused."""
        some = data.draw(st.lists(_of(self._retired()), min_size=1, max_size=3, unique_by=id))
        self._put([seal(Erasure(entry=told.id)) for told in some])
        current = [told.id for told in self._slotted()]
        if current:
            for ledger in self.ledgers:
                with pytest.raises(ErasureRefusedError):
                    ledger.append([seal(Erasure(entry=current[0]))])

    def scrub(self, data: st.DataObject) -> None:
        """Remove erased data from the files."""
        if self.pinned is None:  # a view that is open keeps the log from being emptied
            for store in (self.stores[0], self.stores[1]):
                store.scrub()

    def _retired(self) -> list[ModelRecord]:
        size = len(self.model.log)
        found = self.model.log[_FOUNDING:]
        speaking = ("status", "erasure")
        return [told for told in found if told.is_retired(size) and told.type not in speaking]

    def _slotted(self) -> list[ModelRecord]:
        size = len(self.model.log)
        return [told for told in self.model.log if told.slot and not told.is_retired(size)]

    def fail(self, data: st.DataObject) -> None:
        """Append with a record whose slot is taken: nothing is logged."""
        taken = data.draw(_of(self._slotted()))
        with self.ledgers[0].reading() as view:
            model = view.get([taken.id])[taken.id].model
        assert isinstance(model, Semantic)
        again = Semantic(text="x", kind=model.kind, scope=model.scope, origin=model.origin)
        self._put(
            [seal(self._draft(data)), seal(again)] if data.draw(st.booleans()) else [seal(again)]
        )

    def reopen(self, data: st.DataObject) -> None:
        """Close the store and open it as a new program does."""
        self.stores[0].close()
        self.stores[0] = self._store()
        self._renew()

    def another(self, data: st.DataObject) -> None:
        """Continue with a second handle; the first one stays open for reads."""
        self.stores.append(self.stores[0])
        self.stores[0] = self._store()
        old = self.ledgers[0]
        self._renew()
        assert listed(old) == listed(self.ledgers[0])

    def _renew(self) -> None:
        bank = self.ledgers[0].bank
        self.ledgers[0] = Ledger(self.stores[0], bank, writer=WRITER, witness=self._witness())

    def pin(self, data: st.DataObject) -> None:
        """Open a view, to be read later."""
        store = self._store()
        self.stores.append(store)
        bank = self.ledgers[0].bank
        ledger = Ledger(store, bank, witness=self._witness())
        inside = ExitStack()
        view = inside.enter_context(ledger.reading())
        self.stack.callback(inside.close)
        expected = [told.id for told in self.model.log if not told.erased]
        size = len(self.model.log)
        now = set(self.model.matching(Filter()))

        def release() -> None:
            assert view.head.size == size
            assert [logged.record.id for logged in view.scan()] == expected
            assert {logged.record.id for logged in view.scan(Filter())} == now
            inside.close()

        self.pinned = release

    def release(self, data: st.DataObject) -> None:
        """Read a view that was opened before: it shows the state of that time."""
        assert self.pinned is not None
        self.pinned()
        self.pinned = None

    # -- what is asked ---------------------------------------------------------------------

    @contextmanager
    def _views(self) -> Iterator[list[View]]:
        with self.ledgers[0].reading() as one, self.ledgers[1].reading() as two:
            yield [one, two]

    def _mine(self, ids: list[str]) -> list[str]:
        """Return IDs without those of the founding records, which differ between the stores."""
        founding = {record.id for record in self.founding}
        return [identity for identity in ids if identity not in founding]

    def scan(self, data: st.DataObject) -> None:
        """List the matches of a filter, from the start or from a position."""
        wanted = data.draw(_FILTERS)
        after = data.draw(st.integers(-1, len(self.model.log)))
        ids = [told.id for told in self.model.log]
        expected = [found for found in self.model.matching(wanted) if ids.index(found) > after]
        with self._views() as views:
            for view in views:
                found = [x.record.id for x in view.scan(wanted, after=after) if x.seq >= _FOUNDING]
                assert found == self._mine(expected)

    def as_of(self, data: st.DataObject) -> None:
        """List the bank as it was at a moment."""
        wanted = data.draw(_FILTERS)
        said = sorted(seq for told in self.model.log for seq, _ in told.states)
        moments = {0, data.draw(st.integers(0, len(self.model.log) + 1))}
        moments.update(seq + more for seq in said[-8:] for more in (0, 1))
        for moment in moments:
            self._as_of(replace(wanted, as_of=moment))

    def _as_of(self, wanted: Filter) -> None:
        expected = self._mine(self.model.matching(wanted))
        with self._views() as views:
            for view in views:
                found = [x.record.id for x in view.scan(wanted) if x.seq >= _FOUNDING]
                assert found == expected

    def get(self, data: st.DataObject) -> None:
        """Read records by ID, and an unknown one."""
        ids = data.draw(st.lists(_of([*(t.id for t in self.model.log[_FOUNDING:]), _NOBODY])))
        erased = {told.id for told in self.model.log if told.erased}
        with self._views() as views:
            for view in views:
                found = view.get(ids)
                assert found.keys() == set(ids) - {_NOBODY} - erased
                assert all(logged.record.id == each for each, logged in found.items())

    def current(self, data: st.DataObject) -> None:
        """Read the current record of a slot."""
        slots = sorted({told.slot for told in self.model.log if told.slot})
        slot = data.draw(_of([*slots, "nobody's"]))
        holder = next((told.id for told in self._slotted() if told.slot == slot), None)
        with self._views() as views:
            for view in views:
                found = view.current(slot)
                assert (found.record.id if found else None) == holder

    def neighbors(self, data: st.DataObject) -> None:
        """Follow the links of a record."""
        end = data.draw(_of([*(told.id for told in self.model.log), _NOBODY]))
        incoming = data.draw(st.booleans())
        expected = [
            told.id
            for told in self.model.log
            if any(end == (target if incoming else source) for source, target in told.links)
        ]
        with self._views() as views:
            for view in views:
                found = [logged.record.id for logged in view.neighbors(end, incoming=incoming)]
                assert found == expected

    def words(self, data: st.DataObject) -> None:
        """Search a word: every current record with it is a candidate, and no retired one."""
        word, size = data.draw(st.sampled_from(_WORDS)), len(self.model.log)
        saying = {
            told.id
            for told in self.model.log
            if word in told.words and not told.is_retired(size) and not told.is_held(size)
        }
        shown = set(self.model.matching(Filter()))
        with self.ledgers[0].reading() as view:
            found = [logged.record.id for logged, _ in view.candidates(word, limit=10_000)]
        assert len(set(found)) == len(found)
        assert saying <= set(found) <= shown

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def head_counts_every_type(self) -> None:
        """The counts of the head equal the records of each type."""
        counts = Counter(told.type for told in self.model.log)
        for ledger in self.ledgers:
            with ledger.reading() as view:
                assert view.head.counts == dict(counts)
                assert view.head.size == len(self.model.log)

    @invariant()
    def current_records_equal_the_model(self) -> None:
        """In log order."""
        expected = self._mine(self.model.matching(Filter()))
        for ledger in self.ledgers:
            with ledger.reading() as view:
                found = [x.record.id for x in view.scan(Filter()) if x.seq >= _FOUNDING]
                assert found == expected


_FOUNDING = 2
_SESSIONS = st.sampled_from(["s", "t", None])


def _of(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (["deleted"], [True, False]),
        (["deleted", "expired"], [True, False, False]),
        (["deleted", "restored"], [True, False, True]),
        (["superseded", "restored", "deleted"], [True, False, True, False]),
        (["quarantined"], [True, False]),
        (["quarantined", "released"], [True, False, True]),
    ],
)
def test_a_bank_as_of_a_moment_equals_its_state_at_that_moment(
    states: list[State], shown: list[bool]
) -> None:
    """Also where that state has ended since, and begun again."""
    ledger = created(InMemoryStore())
    record = seal(Semantic(text="x"))
    (place,) = ledger.append([record])
    for state in states:
        ledger.append([seal(Status(target=record.id, state=state))])
    with ledger.reading() as view:
        found = [
            bool([*view.scan(Filter(types=frozenset({"semantic"}), as_of=moment))])
            for moment in range(place + 1, place + 1 + len(shown))
        ]
    assert found == shown


class GraphMachine(BankMachine):
    """The same with LadybugDB instead of SQLite."""

    def _store(self) -> Store:
        return LadybugStore(self.root / "store" / "satchel.graph")


def _run(examples: int, steps: int, machine: type[BankMachine] = BankMachine) -> None:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=quiet,
        ),
    )


def test_a_bank_equals_the_model_after_any_operations() -> None:
    """For all sequences of appends, statuses, failures and reopenings, on disk and in memory."""
    _run(30, 25)


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_a_bank_equals_the_model_after_many_operations() -> None:
    """The same with more and longer sequences."""
    _run(100, 40)


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_a_bank_in_ladybug_equals_the_model_after_any_operations() -> None:
    """The same with LadybugDB on disk."""
    _run(30, 25, GraphMachine)
