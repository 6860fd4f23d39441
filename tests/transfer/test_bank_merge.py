"""Copying one bank into another: records with their statuses, all at once, and only once."""

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
    """Each kind of store."""
    found: Store = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield found
    found.close()


def statuses(target: Sealed, *states: State) -> list[Sealed]:
    """Return statuses of a record."""
    return [seal(Status(target=target.id, state=state)) for state in states]


def with_slot(text: str, key: str = "1") -> Sealed:
    """Return a record with an origin ID, so that it has a slot."""
    return seal(Semantic(text=text, origin=Origin(provider="x", id=key)))


def copy_records(store: Store, origin: Ledger, target: Ledger, **how: Any) -> BankCopyCounts:
    """Copy one bank into the other, as a new program does."""
    one, two = (opened(store, ledger.bank, None) for ledger in (origin, target))
    return BankCopier(store=store, origin=one, target=two, **how).carry()


def statuses_by_id(ledger: Ledger, wanted: Filter = EVERY) -> dict[str, tuple[bool, bool]]:
    """Return whether each memory of a bank is retired, and whether it is held."""
    with ledger.reading() as view:
        found = [logged for logged in view.scan(wanted) if logged.row.type in MEMORY]
        return {one.record.id: (one.row.retired is not None, one.row.hold) for one in found}


def bodies(ledger: Ledger) -> dict[str, bytes]:
    """Return the bytes of current memories."""
    with ledger.reading() as view:
        return {
            one.record.id: one.record.body
            for one in view.scan(Filter(held=True))
            if one.row.type in MEMORY
        }


def require_sound(store: Store, *ledgers: Ledger) -> None:
    """Require that the audit of some banks finds nothing."""
    for ledger in ledgers:
        found = examine(store, ledger.bank)
        assert found.is_sound, found.shown


def log_import(
    ledger: Ledger, drafts: Sequence[Model], **source: Any
) -> tuple[Sealed, list[Sealed]]:
    """Log an import; return its source record and its records."""
    opening = seal(Source(provider="mem0", format="mem0", **source))
    records = [seal(draft) for draft in drafts]
    ledger.append([opening])
    ledger.append(records, batch=opening.id)
    ledger.append([closing_receipt(opening.id, now())])
    return opening, records


def test_current_records_are_copied_with_their_ids_and_can_be_found(store: Store) -> None:
    """Entries, edges, nodes, file versions; by ID, slot, words, links and vectors."""
    origin, target = created(store), created(store)
    parent, node = memories(2)[0], seal(GraphNode(name="Ada"))
    child = seal(Semantic(text="harbour", parent_ids=(parent.id,)))
    slot = with_slot("tea")
    edge = seal(Edge(source=node.id, target=child.id, kind="about"))
    with store.writing() as writing:
        blob = writing.blobs.put(origin.bank, [b"content" * 9])
        writing.blobs.put(origin.bank, [b"of nobody"])
    file = seal(FileVersion(path="a.md", blob=blob))
    origin.append([parent, node, child, slot, edge, file])
    with store.writing() as writing:
        writing.vectors.put(origin.bank, Generation("m", 2), {child.id: [1, 2]})
    before = statuses_by_id(origin)

    done = copy_records(store, origin, target)
    assert (done.records, done.there, done.blobs) == (6, 0, 1)
    assert bodies(target) == bodies(origin)
    assert statuses_by_id(origin) == before
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


def test_retired_records_are_copied_on_request_or_as_parents(
    store: Store,
) -> None:
    """Parents are included, still retired; an erased one becomes a tombstone."""
    origin, target, whole = created(store), created(store), created(store)
    first, erased, gone = memories(3)
    second = seal(Semantic(text="2", parent_ids=(first.id, erased.id)))
    third = seal(Semantic(text="3", parent_ids=(second.id,)))
    origin.append([first, erased, gone, second, third])
    for old in (first, second, erased, gone):
        origin.append(statuses(old, "superseded"))
    origin.append([seal(Erasure(entry=erased.id, reason="asked"))])

    assert copy_records(store, origin, target).records == 3
    assert statuses_by_id(target) == {
        first.id: (True, False),
        second.id: (True, False),
        third.id: (False, False),
    }
    assert copy_records(store, origin, whole, retired=True).records == 4
    assert statuses_by_id(whole) == statuses_by_id(origin)
    for bank in (target, whole):
        with bank.reading() as view:
            grave = view.erasure(erased.id)
            assert grave is not None
            assert grave.model.reason == "asked"  # type: ignore[union-attr]
        assert copy_records(store, origin, bank, retired=bank is whole).records == 0
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


def test_records_keep_their_statuses(store: Store) -> None:
    """Held records stay held; the statuses of a record are copied with it."""
    origin, target = created(store), created(store)
    records = memories(len(_SAID))
    origin.append(records)
    for record, states in zip(records, _SAID, strict=True):
        for state in states:
            origin.append(statuses(record, state))
    assert copy_records(store, origin, target, retired=True).records == len(records)
    assert statuses_by_id(target) == statuses_by_id(origin)
    for record, states in zip(records, _SAID, strict=True):
        with origin.reading() as view, target.reading() as there:
            ours, theirs = (one.statuses_of(record.id) for one in (view, there))
            assert [one.record for one in ours] == [one.record for one in theirs]
            assert len(ours) == len(states)
    require_sound(store, target)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_records_of_undone_held_or_restored_imports_keep_their_status(
    data: st.DataObject,
) -> None:
    """For all orders of the statuses of an import and of its records."""
    store = InMemoryStore()
    origin, target, some = created(store), created(store), created(store)
    opening, records = log_import(origin, [Semantic(text=str(at)) for at in range(3)])
    ended = data.draw(st.sampled_from(["deleted", "superseded"]))
    states = st.sampled_from([ended, "restored", "quarantined", "released", "promoted"])
    for state in data.draw(st.lists(states, max_size=6)):
        of = data.draw(st.sampled_from([opening, *records]))
        origin.append(statuses(of, state))  # type: ignore[arg-type]
    copy_records(store, origin, target, retired=True)
    assert statuses_by_id(target) == statuses_by_id(origin)
    copy_records(store, origin, some)
    current = Filter(held=True)
    assert statuses_by_id(some, current) == statuses_by_id(origin, current)
    copy_records(store, target, some, retired=True)
    require_sound(store, target, some)


def test_copied_records_stay_in_their_import(store: Store) -> None:
    """Its trust and its undo are copied; a second copy gets a new import."""
    origin, target = created(store), created(store)
    opening, records = log_import(
        origin, [Semantic(text=str(at)) for at in range(4)], trust=TrustClass.EXTERNAL
    )
    mine = memories(1)
    origin.append([*mine, *statuses(opening, "promoted")])
    copy_records(store, origin, target)

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
    copy_records(store, origin, again)
    (found,) = {one.record.id: one for one in sources(again).values()}.values()
    assert isinstance(found.model, Source)
    assert found.model.container["carried"]["import"] == opening.id
    assert found.model.trust is TrustClass.EXTERNAL
    with again.reading() as view:
        assert [one.model.state for one in view.statuses_of(found.record.id)] == ["promoted"]  # type: ignore[union-attr]
    target.append(statuses(opening, "deleted"))
    assert list(statuses_by_id(target, Filter())) == [mine[0].id]


def test_attack_an_untrusted_bank_raises_no_trust() -> None:
    """Attack: its claims about imports, and its promotions, have no effect here."""
    store = InMemoryStore()
    origin, target = created(store), created(store)
    opening, records = log_import(
        origin, [Semantic(text="x", origin=Origin(trust=TrustClass.USER))], trust=TrustClass.USER
    )
    origin.append([*statuses(opening, "promoted"), *statuses(records[0], "promoted")])
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
    theirs, ours = with_slot("theirs"), with_slot("ours")
    origin.append([theirs, with_slot("more", "2"), *memories(3)])
    target.append([ours])
    return origin, target, theirs, ours


def test_skip_keeps_the_existing_memory_on_a_conflict(store: Store) -> None:
    """By default; it is counted, and everything else is copied."""
    origin, target, theirs, ours = _both(store)
    done = copy_records(store, origin, target)
    assert (done.records, done.kept, done.replaced) == (4, 1, 0)
    assert theirs.id not in statuses_by_id(target)
    assert statuses_by_id(target)[ours.id] == (False, False)
    done = copy_records(store, origin, target)
    assert (done.records, done.kept, done.there) == (0, 1, 4)


def test_overwrite_supersedes_the_existing_memory_on_a_conflict(store: Store) -> None:
    """All at once, and its history shows it."""
    origin, target, theirs, ours = _both(store)
    done = copy_records(store, origin, target, on_conflict=BankConflictPolicy.OVERWRITE)
    assert (done.records, done.kept, done.replaced) == (5, 0, 1)
    assert statuses_by_id(target)[ours.id] == (True, False)
    assert statuses_by_id(target)[theirs.id] == (False, False)
    with target.reading() as view:
        (one,) = view.statuses_of(ours.id)
        assert isinstance(one.model, Status)
        assert (one.model.state, one.model.by) == ("superseded", theirs.id)
    require_sound(store, target)


def test_error_writes_nothing_on_a_conflict(store: Store) -> None:
    """The first conflict is named; without a conflict everything is copied."""
    origin, target, theirs, ours = _both(store)
    with target.reading() as view:
        size = view.head.size
    with pytest.raises(SlotTakenError) as refused:
        copy_records(store, origin, target, on_conflict=BankConflictPolicy.ERROR)
    assert refused.value.field == theirs.id
    with target.reading() as view:
        assert view.head.size == size
    target.append(statuses(ours, "deleted"))
    assert copy_records(store, origin, target, on_conflict=BankConflictPolicy.ERROR).records == 5


def test_a_dry_run_of_a_copy_has_the_same_counts_and_changes_nothing(store: Store) -> None:
    """For each conflict policy."""
    for how in (BankConflictPolicy.SKIP, BankConflictPolicy.OVERWRITE):
        origin, target, _, _ = _both(store)
        with target.reading() as view:
            size = view.head.size
        plan = BankCopier(store=store, origin=origin, target=target, on_conflict=how).plan()
        assert plan.dry_run
        with target.reading() as view:
            assert view.head.size == size
        done = copy_records(store, origin, target, on_conflict=how)
        assert (plan.records, plan.kept, plan.replaced) == (done.records, done.kept, done.replaced)


def test_erased_or_deleted_memories_of_the_target_are_not_restored(store: Store) -> None:
    """Attack: an older copy has them all; they are skipped."""
    origin, target = created(store), created(store)
    records = memories(4)
    origin.append(records)
    copy_records(store, origin, target)
    target.append([*statuses(records[0], "deleted"), *statuses(records[1], "deleted")])
    target.append([seal(Erasure(entry=records[1].id)), seal(Erasure(entry="blake3:" + "7" * 64))])
    done = copy_records(store, origin, target)
    assert (done.records, done.there) == (0, 4)
    assert set(statuses_by_id(target, Filter())) == {records[2].id, records[3].id}
    elsewhere = created(store)
    elsewhere.append([seal(Erasure(entry=records[2].id))])
    assert copy_records(store, origin, elsewhere).there == 1
    assert records[2].id not in statuses_by_id(elsewhere)


def test_copying_again_adds_nothing_to_the_log(store: Store) -> None:
    """Merging twice equals merging once."""
    origin, target = created(store), created(store)
    origin.append(memories(3))
    copy_records(store, origin, target)
    with target.reading() as view:
        size = view.head.size
    copy_records(store, origin, target)
    with target.reading() as view:
        assert view.head.size == size


# -- cut short -----------------------------------------------------------------------------


class _Cut(BaseException):
    pass


def _fail_after(bank: str, appends: int, patch: pytest.MonkeyPatch) -> None:
    """Make appends to a bank fail after some."""
    append, calls = Ledger.append, itertools.count(1)

    def failing(self: Ledger, records: Any, **more: Any) -> list[int]:
        if self.bank == bank and next(calls) > appends:
            raise _Cut
        return append(self, records, **more)

    patch.setattr(Ledger, "append", failing)


@pytest.mark.in_check(12)
@pytest.mark.parametrize("which", ["current", "all"])
@pytest.mark.parametrize("at", range(9))
def test_an_interrupted_copy_is_invisible_and_resumed(
    store: Store, at: int, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: at any append. The next run gives the result of an uninterrupted one."""
    monkeypatch.setattr(bank_copy, "GROUP", 3)
    retired = which == "all"
    origin, target = created(store), created(store)
    one, other = (
        log_import(origin, [Semantic(text=f"{n} {at}") for at in range(4)])[1] for n in "ab"
    )
    mine = memories(5)
    new = seal(Semantic(text="new", parent_ids=(one[0].id,)))
    origin.append([*mine, new, *statuses(one[0], "superseded"), *statuses(other[2], "quarantined")])
    before = statuses_by_id(target)
    with monkeypatch.context() as patch:
        _fail_after(target.bank, at, patch)
        with pytest.raises(_Cut):
            copy_records(store, origin, target, retired=retired)
    assert statuses_by_id(target) == before
    now_ = statuses_by_id(origin)
    origin.append([*memories(2, start=50), *statuses(mine[4], "deleted")])  # of a later moment
    if at:
        with pytest.raises(UsageError, match="interrupted") as error:
            copy_records(store, origin, target, retired=not retired)
        word = "with" if retired else "without"
        assert error.value.hint == f"Run it again {word} --include-deleted."
        with pytest.raises(UsageError) as error:
            copy_records(
                store, origin, target, retired=retired, on_conflict=BankConflictPolicy.OVERWRITE
            )
        assert error.value.hint == "Run it again with --on-conflict skip."
    copy_records(store, origin, target, retired=retired)
    found = statuses_by_id(target)
    if at:
        assert found == now_
    else:  # nothing was begun, so there was nothing to resume
        assert found.keys() >= now_.keys() - {mine[4].id}
    require_sound(store, target)
    copy_records(store, origin, target, retired=retired)
    assert statuses_by_id(target, Filter()).keys() >= statuses_by_id(origin, Filter()).keys()
    with target.reading() as view:
        assert view.open_imports() == []


def test_a_concurrent_conflict_is_resolved_by_the_next_run(store: Store) -> None:
    """Fault: the slot was taken before the end; the copy cannot complete and stays invisible."""
    for how, expected in (
        (BankConflictPolicy.SKIP, "meanwhile"),
        (BankConflictPolicy.OVERWRITE, "theirs"),
    ):
        origin, target = created(store), created(store)
        origin.append([with_slot("theirs"), *memories(2)])
        one = BankCopier(store=store, origin=origin, target=target, on_conflict=how)
        close = one._close

        def taken(graves: set[str], target: Ledger = target, close: Any = close) -> None:
            target.append([with_slot("meanwhile")])
            close(graves)

        one._close = taken  # type: ignore[method-assign]
        with pytest.raises(SlotTakenError):
            one.carry()
        assert len(statuses_by_id(target)) == 1
        copy_records(store, origin, target, on_conflict=how)
        with target.reading() as view:
            texts = [one.row.text for one in view.scan(Filter()) if one.row.slot]
        assert [text for text in texts if text in ("meanwhile", "theirs")] == [expected]
        require_sound(store, target)


def test_attack_an_imported_marker_is_not_trusted(store: Store) -> None:
    """Attack: a file may claim anything about itself; nothing crashes, and nothing is omitted."""
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
    assert copy_records(store, origin, target).records == 3
    assert bodies(target) == bodies(origin)
