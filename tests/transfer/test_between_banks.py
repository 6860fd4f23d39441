"""One bank carried into another: everything as it stood, all at once, and only once."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import created, memories, opened

from satchel.admin import bank_copy
from satchel.admin.bank_copy import BankConflictPolicy, BankCopier, BankCopyCounts
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SlotTakenError, UsageError
from satchel.ledger.examination import examine
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import (
    Edge,
    Erasure,
    FileVersion,
    GraphNode,
    Model,
    Semantic,
    Source,
    State,
    Status,
)
from satchel.model.values import Origin, TrustClass, now
from satchel.ports.rows import Filter
from satchel.ports.store import Store
from satchel.ports.vectors import Generation
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

EVERY = Filter(retired=True, held=True)
MEMORY = {"semantic", "edge", "graph_node", "file_version"}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Both stores that are there."""
    found: Store = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield found
    found.close()


def said(target: Sealed, *states: State) -> list[Sealed]:
    """Return what becomes of a record."""
    return [seal(Status(target=target.id, state=state)) for state in states]


def at_slot(text: str, key: str = "1") -> Sealed:
    """Return a record that speaks of one thing."""
    return seal(Semantic(text=text, origin=Origin(provider="x", id=key)))


def carry(store: Store, origin: Ledger, target: Ledger, **how: Any) -> BankCopyCounts:
    """Carry one into the other, as a program that was just started."""
    one, two = (opened(store, ledger.bank, None) for ledger in (origin, target))
    return BankCopier(store=store, origin=one, target=two, **how).carry()


def standing(ledger: Ledger, wanted: Filter = EVERY) -> dict[str, tuple[bool, bool]]:
    """Return the ids of the memory of a bank: whether each is retired, and whether it is held."""
    with ledger.reading() as view:
        found = [logged for logged in view.scan(wanted) if logged.row.type in MEMORY]
        return {one.record.id: (one.row.retired is not None, one.row.hold) for one in found}


def bodies(ledger: Ledger) -> dict[str, bytes]:
    """Return the bytes of what is current."""
    with ledger.reading() as view:
        return {
            one.record.id: one.record.body
            for one in view.scan(Filter(held=True))
            if one.row.type in MEMORY
        }


def require_sound(store: Store, *ledgers: Ledger) -> None:
    """Require that everything in some banks is as it should be."""
    for ledger in ledgers:
        found = examine(store, ledger.bank)
        assert found.is_sound, found.shown


def imported(ledger: Ledger, drafts: Sequence[Model], **source: Any) -> tuple[Sealed, list[Sealed]]:
    """Log an import, and return its source record and its records."""
    opening = seal(Source(provider="mem0", format="mem0", **source))
    records = [seal(draft) for draft in drafts]
    ledger.append([opening])
    ledger.append(records, batch=opening.id)
    ledger.append([closing_receipt(opening.id, now())])
    return opening, records


def test_what_is_current_is_carried_with_its_ids_and_found_there(store: Store) -> None:
    """Entries, edges, nodes, file versions; by id, slot, words, links and vectors."""
    origin, target = created(store), created(store)
    parent, node = memories(2)[0], seal(GraphNode(name="Ada"))
    child = seal(Semantic(text="harbour", parent_ids=(parent.id,)))
    slot = at_slot("tea")
    edge = seal(Edge(source=node.id, target=child.id, kind="about"))
    with store.writing() as writing:
        blob = writing.blobs.put(origin.bank, [b"content" * 9])
        writing.blobs.put(origin.bank, [b"of nobody"])
    file = seal(FileVersion(path="a.md", blob=blob))
    origin.append([parent, node, child, slot, edge, file])
    with store.writing() as writing:
        writing.vectors.put(origin.bank, Generation("m", 2), {child.id: [1, 2]})
    before = standing(origin)

    done = carry(store, origin, target)
    assert (done.records, done.there, done.blobs) == (6, 0, 1)
    assert bodies(target) == bodies(origin)
    assert standing(origin) == before
    with target.reading() as view:
        found = view.current(view.get([slot.id])[slot.id].row.slot or "")
        assert found is not None
        assert found.record == slot
        assert [one.record for one in view.neighbors(child.id, incoming=True)] == [edge]
        assert len(view.candidates("harbour")) == int(store.traits.full_text)
        assert b"".join(view.blob(blob)) == b"content" * 9
        (source,) = (one.model for one in view.scan(Filter(types=frozenset({"source"}))))
        assert isinstance(source, Source)
        assert source.container["carried"]["bank"] == origin.bank
    with store.reading() as reader:
        assert reader.vectors.get(target.bank, Generation("m", 2), [child.id]) == {child.id: (1, 2)}
        assert len(list(reader.blobs.listed(target.bank))) == 1
    require_sound(store, origin, target)


def test_what_is_not_current_comes_only_when_asked_for_or_when_others_come_from_it(
    store: Store,
) -> None:
    """Parents come along, retired as they were; one that was erased comes as a tombstone."""
    origin, target, whole = created(store), created(store), created(store)
    first, erased, gone = memories(3)
    second = seal(Semantic(text="2", parent_ids=(first.id, erased.id)))
    third = seal(Semantic(text="3", parent_ids=(second.id,)))
    origin.append([first, erased, gone, second, third])
    for old in (first, second, erased, gone):
        origin.append(said(old, "superseded"))
    origin.append([seal(Erasure(entry=erased.id, reason="asked"))])

    assert carry(store, origin, target).records == 3
    assert standing(target) == {
        first.id: (True, False),
        second.id: (True, False),
        third.id: (False, False),
    }
    assert carry(store, origin, whole, retired=True).records == 4
    assert standing(whole) == standing(origin)
    for bank in (target, whole):
        with bank.reading() as view:
            grave = view.erasure(erased.id)
            assert grave is not None
            assert grave.model.reason == "asked"  # type: ignore[union-attr]
        assert carry(store, origin, bank, retired=bank is whole).records == 0
    require_sound(store, target, whole)


_SAID: list[list[State]] = [
    [],
    ["quarantined"],
    ["quarantined", "released"],
    ["deleted", "restored"],
    ["promoted"],
    ["superseded"],
    ["superseded", "quarantined"],
    ["restored"],
    ["deleted", "restored", "rejected"],
    ["expired", "superseded", "restored"],
]


def test_everything_stands_there_as_it_stood(store: Store) -> None:
    """What is held stays held; what was said of a record comes with it, as it was said."""
    origin, target = created(store), created(store)
    records = memories(len(_SAID))
    origin.append(records)
    for record, states in zip(records, _SAID, strict=True):
        for state in states:
            origin.append(said(record, state))
    assert carry(store, origin, target, retired=True).records == len(records)
    assert standing(target) == standing(origin)
    for record, states in zip(records, _SAID, strict=True):
        with origin.reading() as view, target.reading() as there:
            ours, theirs = (one.statuses_of(record.id) for one in (view, there))
            assert [one.record for one in ours] == [one.record for one in theirs]
            assert len(ours) == len(states)
    require_sound(store, target)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_imports_that_were_undone_held_or_restored_stand_there_as_they_stood(
    data: st.DataObject,
) -> None:
    """For all orders of what was said of an import and of its records."""
    store = InMemoryStore()
    origin, target, some = created(store), created(store), created(store)
    opening, records = imported(origin, [Semantic(text=str(at)) for at in range(3)])
    ended = data.draw(st.sampled_from(["deleted", "superseded"]))
    states = st.sampled_from([ended, "restored", "quarantined", "released", "promoted"])
    for state in data.draw(st.lists(states, max_size=6)):
        of = data.draw(st.sampled_from([opening, *records]))
        origin.append(said(of, state))  # type: ignore[arg-type]
    carry(store, origin, target, retired=True)
    assert standing(target) == standing(origin)
    carry(store, origin, some)
    current = Filter(held=True)
    assert standing(some, current) == standing(origin, current)
    carry(store, target, some, retired=True)
    require_sound(store, target, some)


def test_what_came_with_an_import_stays_with_it(store: Store) -> None:
    """So what it earned in trust, and undoing it, come along; a second time it gets a new one."""
    origin, target = created(store), created(store)
    opening, records = imported(
        origin, [Semantic(text=str(at)) for at in range(4)], trust=TrustClass.EXTERNAL
    )
    mine = memories(1)
    origin.append([*mine, *said(opening, "promoted")])
    carry(store, origin, target)

    def sources(ledger: Ledger) -> dict[str, VerifiedRecord]:
        with ledger.reading() as view:
            found = view.get([record.id for record in records])
            told = view.log_records_at([one.row.batch for one in found.values()])
            return {name: told[one.row.batch] for name, one in found.items()}

    assert {one.record for one in sources(target).values()} == {opening}
    with target.reading() as view:
        assert [one.model.state for one in view.statuses_of(opening.id)] == ["promoted"]  # type: ignore[union-attr]
    again = created(store)
    again.append([opening])
    again.append(memories(1, start=9), batch=opening.id)
    again.append([closing_receipt(opening.id, now())])
    carry(store, origin, again)
    (found,) = {one.record.id: one for one in sources(again).values()}.values()
    assert isinstance(found.model, Source)
    assert found.model.container["carried"]["import"] == opening.id
    assert found.model.trust is TrustClass.EXTERNAL
    with again.reading() as view:
        assert [one.model.state for one in view.statuses_of(found.record.id)] == ["promoted"]  # type: ignore[union-attr]
    target.append(said(opening, "deleted"))
    assert list(standing(target, Filter())) == [mine[0].id]


def test_attack_an_untrusted_bank_raises_no_trust() -> None:
    """What he claims of his imports, and whom he promoted, counts for nothing here."""
    store = InMemoryStore()
    origin, target = created(store), created(store)
    opening, records = imported(
        origin, [Semantic(text="x", origin=Origin(trust=TrustClass.USER))], trust=TrustClass.USER
    )
    origin.append([*said(opening, "promoted"), *said(records[0], "promoted")])
    untrusted = Ledger(store, origin.bank, trusted=frozenset())
    BankCopier(store=store, origin=untrusted, target=target).carry()
    with target.reading() as view:
        (found,) = view.get([records[0].id]).values()
        source = view.log_records_at([found.row.batch])[found.row.batch].model
        assert isinstance(source, Source)
        assert source.trust is TrustClass.EXTERNAL
        assert view.statuses_of(records[0].id) == []
        assert (
            view.statuses_of(view.log_records_at([found.row.batch])[found.row.batch].record.id)
            == []
        )
        assert view.places([opening.id]) == {}


# -- conflicts -----------------------------------------------------------------------------


def _both(store: Store) -> tuple[Ledger, Ledger, Sealed, Sealed]:
    origin, target = created(store), created(store)
    theirs, ours = at_slot("theirs"), at_slot("ours")
    origin.append([theirs, at_slot("more", "2"), *memories(3)])
    target.append([ours])
    return origin, target, theirs, ours


def test_on_a_conflict_the_existing_memory_stays(store: Store) -> None:
    """By default; it is counted, and everything else comes."""
    origin, target, theirs, ours = _both(store)
    done = carry(store, origin, target)
    assert (done.records, done.kept, done.replaced) == (4, 1, 0)
    assert theirs.id not in standing(target)
    assert standing(target)[ours.id] == (False, False)
    done = carry(store, origin, target)
    assert (done.records, done.kept, done.there) == (0, 1, 4)


def test_with_overwrite_it_is_superseded_by_the_one_that_comes(store: Store) -> None:
    """All in one moment, and its history says so."""
    origin, target, theirs, ours = _both(store)
    done = carry(store, origin, target, on_conflict=BankConflictPolicy.OVERWRITE)
    assert (done.records, done.kept, done.replaced) == (5, 0, 1)
    assert standing(target)[ours.id] == (True, False)
    assert standing(target)[theirs.id] == (False, False)
    with target.reading() as view:
        (one,) = view.statuses_of(ours.id)
        assert isinstance(one.model, Status)
        assert (one.model.state, one.model.by) == ("superseded", theirs.id)
    require_sound(store, target)


def test_with_error_nothing_at_all_is_written(store: Store) -> None:
    """The first conflict is named; without one it is carried like any other."""
    origin, target, theirs, ours = _both(store)
    with target.reading() as view:
        size = view.head.size
    with pytest.raises(SlotTakenError) as refused:
        carry(store, origin, target, on_conflict=BankConflictPolicy.ERROR)
    assert refused.value.field == theirs.id
    with target.reading() as view:
        assert view.head.size == size
    target.append(said(ours, "deleted"))
    assert carry(store, origin, target, on_conflict=BankConflictPolicy.ERROR).records == 5


def test_a_plan_counts_the_same_and_changes_nothing(store: Store) -> None:
    """For each way of dealing with conflicts."""
    for how in (BankConflictPolicy.SKIP, BankConflictPolicy.OVERWRITE):
        origin, target, _, _ = _both(store)
        with target.reading() as view:
            size = view.head.size
        plan = BankCopier(store=store, origin=origin, target=target, on_conflict=how).plan()
        assert plan.dry_run
        with target.reading() as view:
            assert view.head.size == size
        done = carry(store, origin, target, on_conflict=how)
        assert (plan.records, plan.kept, plan.replaced) == (done.records, done.kept, done.replaced)


def test_memories_erased_or_deleted_there_are_not_restored(store: Store) -> None:
    """Attack: a copy from before brings it all again; it is passed over."""
    origin, target = created(store), created(store)
    records = memories(4)
    origin.append(records)
    carry(store, origin, target)
    target.append([*said(records[0], "deleted"), *said(records[1], "deleted")])
    target.append([seal(Erasure(entry=records[1].id)), seal(Erasure(entry="blake3:" + "7" * 64))])
    done = carry(store, origin, target)
    assert (done.records, done.there) == (0, 4)
    assert set(standing(target, Filter())) == {records[2].id, records[3].id}
    elsewhere = created(store)
    elsewhere.append([seal(Erasure(entry=records[2].id))])
    assert carry(store, origin, elsewhere).there == 1
    assert records[2].id not in standing(elsewhere)


def test_nothing_is_added_to_the_log_where_there_is_nothing_to_carry(store: Store) -> None:
    """Merging twice is merging once."""
    origin, target = created(store), created(store)
    origin.append(memories(3))
    carry(store, origin, target)
    with target.reading() as view:
        size = view.head.size
    carry(store, origin, target)
    with target.reading() as view:
        assert view.head.size == size


# -- cut short -----------------------------------------------------------------------------


class _Cut(BaseException):
    pass


def _cut_after(bank: str, appends: int, patch: pytest.MonkeyPatch) -> None:
    """Have appends to a bank fail after some."""
    append, calls = Ledger.append, itertools.count(1)

    def failing(self: Ledger, records: Any, **more: Any) -> list[int]:
        if self.bank == bank and next(calls) > appends:
            raise _Cut
        return append(self, records, **more)

    patch.setattr(Ledger, "append", failing)


@pytest.mark.parametrize("which", ["current", "all"])
@pytest.mark.parametrize("at", range(9))
def test_an_interrupted_one_is_invisible_and_resumed(
    store: Store, at: int, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: at any append. The next one, from the same moment, gives what one alone would."""
    monkeypatch.setattr(bank_copy, "GROUP", 3)
    retired = which == "all"
    origin, target = created(store), created(store)
    one, other = (
        imported(origin, [Semantic(text=f"{n} {at}") for at in range(4)])[1] for n in "ab"
    )
    mine = memories(5)
    new = seal(Semantic(text="new", parent_ids=(one[0].id,)))
    origin.append([*mine, new, *said(one[0], "superseded"), *said(other[2], "quarantined")])
    before = standing(target)
    with monkeypatch.context() as patch:
        _cut_after(target.bank, at, patch)
        with pytest.raises(_Cut):
            carry(store, origin, target, retired=retired)
    assert standing(target) == before
    now_ = standing(origin)
    origin.append([*memories(2, start=50), *said(mine[4], "deleted")])  # of a later moment
    if at:
        with pytest.raises(UsageError, match="interrupted") as error:
            carry(store, origin, target, retired=not retired)
        word = "with" if retired else "without"
        assert error.value.hint == f"Run it again {word} --include-deleted."
        with pytest.raises(UsageError) as error:
            carry(store, origin, target, retired=retired, on_conflict=BankConflictPolicy.OVERWRITE)
        assert error.value.hint == "Run it again with --on-conflict skip."
    carry(store, origin, target, retired=retired)
    found = standing(target)
    if at:
        assert found == now_
    else:  # nothing was begun, so there was no moment to go on from
        assert found.keys() >= now_.keys() - {mine[4].id}
    require_sound(store, target)
    carry(store, origin, target, retired=retired)
    assert standing(target, Filter()).keys() >= standing(origin, Filter()).keys()
    with target.reading() as view:
        assert view.open_imports() == []


def test_a_conflict_that_arises_concurrently_is_resolved_by_the_next_one(store: Store) -> None:
    """Fault: somebody else took the slot before the end; it cannot be closed, and nothing shows."""
    for how, expected in (
        (BankConflictPolicy.SKIP, "meanwhile"),
        (BankConflictPolicy.OVERWRITE, "theirs"),
    ):
        origin, target = created(store), created(store)
        origin.append([at_slot("theirs"), *memories(2)])
        one = BankCopier(store=store, origin=origin, target=target, on_conflict=how)
        close = one._close

        def taken(graves: set[str], target: Ledger = target, close: Any = close) -> None:
            target.append([at_slot("meanwhile")])
            close(graves)

        one._close = taken  # type: ignore[method-assign]
        with pytest.raises(SlotTakenError):
            one.carry()
        assert len(standing(target)) == 1
        carry(store, origin, target, on_conflict=how)
        with target.reading() as view:
            texts = [one.row.text for one in view.scan(Filter()) if one.row.slot]
        assert [text for text in texts if text in ("meanwhile", "theirs")] == [expected]
        require_sound(store, target)


def test_attack_a_mark_that_an_import_brought_is_not_believed(store: Store) -> None:
    """A file may say of itself whatever it likes; nothing crashes, and nothing is left out."""
    origin, target = created(store), created(store)
    origin.append(memories(3))
    marks: list[Any] = [
        *("x", [], {"bank": origin.bank}, {"bank": origin.bank, "size": 10**9, "root": "x"}),
        {"bank": origin.bank, "size": "3", "root": []},
    ]
    sound = {"bank": origin.bank, "size": 1, "root": "x", "on_conflict": "skip", "retired": False}
    target.append([seal(Source(provider="x", format="bank", container={"carried": sound}))])
    for mark in marks:
        container = {"carried": mark}
        target.append([seal(Source(provider="satchel", format="bank", container=container))])
    assert carry(store, origin, target).records == 3
    assert bodies(target) == bodies(origin)
