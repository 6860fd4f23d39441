"""Imports as batches: invisible until complete, then visible at once, and undone by one record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import created, memories, opened

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SlotTakenError, UsageError, VerificationError
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Receipt, Semantic, Source, Status
from satchel.model.values import Origin, now
from satchel.ports.rows import Filter, slot_of
from satchel.ports.store import Store
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

CURRENT = Filter()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store on disk."""
    found: Store = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield found
    found.close()


def begin_import(ledger: Ledger) -> str:
    """Start an import and return the ID of its source record."""
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    return source.id


def texts(ledger: Ledger, as_of: int | None = None) -> list[str]:
    """Return what an ordinary listing shows."""
    with ledger.reading() as view:
        found = [logged.model for logged in view.scan(Filter(as_of=as_of))]
        return [str(model.text) for model in found if isinstance(model, Semantic)]


def numbered(number: int, text: str) -> Sealed:
    """Return a record with an origin of that number, so that it has a slot."""
    return seal(Semantic(text=text, origin=Origin(provider="test", id=str(number))))


def test_an_import_is_invisible_until_it_is_complete(store: Store) -> None:
    """In listings, by ID, slot, words and links, and for a program that opens the bank later."""
    ledger = created(store)
    source, records = begin_import(ledger), memories(6)
    ledger.append(records[:4], batch=source)
    ledger.append([numbered(99, "beside it")])
    ledger.append(records[4:], batch=source)
    for reader in (ledger, opened(store, ledger.bank, None)):
        with reader.reading() as view:
            slot = next(view.pending(source)).row.slot
            assert slot is not None
            assert view.get([record.id for record in records]) == {}
            assert view.current(slot) is None
            assert [found.row.text for found, _ in view.candidates("memory")] == []
            assert [one.record.id for one in view.pending(source)] == [one.id for one in records]
        assert texts(reader) == ["beside it"]

    ledger.append([closing_receipt(source, now())])
    for reader in (ledger, opened(store, ledger.bank, None)):
        expected = [f"memory {number}" for number in range(4)]
        assert texts(reader) == [*expected, "beside it", "memory 4", "memory 5"]
        with reader.reading() as view:
            assert view.get([records[0].id])[records[0].id].row.batch == 2
            found = view.candidates("memory")
            assert len(found) == (6 if store.traits.full_text else 0)
            assert list(view.pending(source)) == []


def test_replaced_memories_stay_current_until_the_import_is_complete(store: Store) -> None:
    """The same slot shows the old text until the new one becomes current."""
    ledger = created(store)
    old, new = numbered(1, "old"), numbered(1, "new")
    ledger.append([old])
    source = begin_import(ledger)
    replaced = seal(Status(target=old.id, state="superseded", by=new.id))
    ledger.append([replaced, new], batch=source)
    assert texts(ledger) == ["old"]
    with ledger.reading() as view:
        before = view.head.size
    ledger.append([closing_receipt(source, now())])
    assert texts(ledger) == ["new"]
    assert texts(opened(store, ledger.bank, None)) == ["new"]
    assert texts(ledger, as_of=before) == ["old"]


def test_an_import_that_would_fill_a_slot_twice_is_not_completed(store: Store) -> None:
    """Another append took the slot: the import stays open and invisible."""
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append([numbered(1, "imported"), numbered(2, "imported")], batch=source)
    ledger.append([numbered(2, "by hand")])
    with pytest.raises(SlotTakenError):
        ledger.append([closing_receipt(source, now())])
    assert texts(ledger) == ["by hand"]
    assert texts(opened(store, ledger.bank, None)) == ["by hand"]


def test_a_status_of_the_source_record_undoes_or_restores_an_import(store: Store) -> None:
    """Complete or not: the status applies to every record of the import."""
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append(memories(3), batch=source)
    ledger.append([closing_receipt(source, now())])
    ledger.append([seal(Status(target=source, state="deleted"))])
    assert texts(ledger) == []
    with ledger.reading() as view:
        assert view.candidates("memory") == []
    ledger.append([seal(Status(target=source, state="restored"))])
    assert len(texts(ledger)) == 3
    with ledger.reading() as view:
        assert len(view.candidates("memory")) == (3 if store.traits.full_text else 0)

    given_up = begin_import(ledger)
    ledger.append(memories(2, start=10), batch=given_up)
    ledger.append([seal(Status(target=given_up, state="rejected"))])
    ledger.append([closing_receipt(given_up, now())])
    assert len(texts(ledger)) == 3
    assert len(texts(opened(store, ledger.bank, None))) == 3


def test_an_import_can_refer_to_another_import(store: Store) -> None:
    """As a merge does: a status of all of it, then of one record, effective on completion."""
    ledger = created(store)
    first, second = begin_import(ledger), begin_import(ledger)
    records = memories(3)
    ledger.append(records, batch=first)
    ledger.append([closing_receipt(first, now())])
    says = [
        seal(Status(target=first, state="quarantined")),
        seal(Status(target=first, state="deleted")),
        seal(Status(target=records[1].id, state="restored")),
        seal(Status(target=first, state="released")),
    ]
    ledger.append(says, batch=second)
    assert len(texts(ledger)) == 3
    ledger.append([closing_receipt(second, now())])
    assert texts(ledger) == texts(opened(store, ledger.bank, None)) == ["memory 1"]


def test_statuses_of_an_import_and_of_its_records_apply_in_log_order(store: Store) -> None:
    """One append deletes an import and restores one of its records."""
    ledger = created(store)
    source, records = begin_import(ledger), memories(3)
    ledger.append(records, batch=source)
    ledger.append([closing_receipt(source, now())])
    ledger.append(
        [
            seal(Status(target=source, state="deleted")),
            seal(Status(target=records[1].id, state="restored")),
        ]
    )
    assert texts(ledger) == texts(opened(store, ledger.bank, None)) == ["memory 1"]


def test_an_import_is_quarantined_as_a_whole(store: Store) -> None:
    """Its later records are held as well, until it is released."""
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append(memories(2), batch=source)
    ledger.append([seal(Status(target=source, state="quarantined"))])
    ledger.append(memories(2, start=5), batch=source)
    ledger.append([closing_receipt(source, now())])
    assert texts(ledger) == []
    with ledger.reading() as view:
        assert len(list(view.scan(Filter(held=True, kinds=frozenset({"note"}))))) == 4
    ledger.append([seal(Status(target=source, state="released"))])
    assert len(texts(opened(store, ledger.bank, None))) == 4


def test_a_complete_import_accepts_no_more_records(store: Store) -> None:
    """Nor does one that was never begun; nothing is logged."""
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append([closing_receipt(source, now())])
    for wrong in (source, memories(1)[0].id):
        with pytest.raises(UsageError):
            ledger.append(memories(1), batch=wrong)
    assert texts(ledger) == []


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "2", None, 2**16 + 1])
def test_attack_a_group_with_an_invalid_length_hides_no_existing_record(
    store: Store, count: Any
) -> None:
    """Attack: an admitted writer claims that its import covers everything."""
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append(memories(2))
    marker = Receipt(action="batch_group", result={"source": source, "records": count})
    ledger.append([seal(marker)])
    assert len(texts(ledger)) == 2
    assert len(texts(opened(store, ledger.bank, None))) == 2


def test_attack_a_row_moved_into_an_open_import_is_refused(tmp_path: Path) -> None:
    """Attack: while an import is open, another record is marked as part of it."""
    store = SqliteStore(tmp_path / "a.db")
    ledger = created(store)
    source = begin_import(ledger)
    ledger.append(memories(2), batch=source)
    ledger.append([numbered(99, "seen")])
    with store.writing() as writing:
        slot = bytes.fromhex(slot_of(numbered(99, "seen").model) or "")
        writing._connection.execute(
            "UPDATE record SET retired = -1, batch = 2 WHERE slot = ?", (slot,)
        )
    for reader in (ledger, opened(store, ledger.bank, None)):
        with pytest.raises(VerificationError):
            texts(reader)
    store.close()


_STATES = st.sampled_from(
    ["superseded", "deleted", "restored", "quarantined", "released", "promoted", "expired"]
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("status"), st.integers(0, 2), st.integers(0, 30), _STATES),
        st.tuples(st.just("whole"), st.integers(1, 2), _STATES),
        st.tuples(st.just("close"), st.integers(1, 2)),
    ),
    max_size=14,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(steps=_STEPS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_as_of_listing_equals_the_listing_at_that_moment(
    kind: str, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """For all histories of imports and statuses, by old and new readers."""
    folder = tmp_path_factory.mktemp("history")
    store: Store = InMemoryStore() if kind == "memory" else SqliteStore(folder / "a.db")
    ledger = created(store)
    sources = [None, begin_import(ledger), begin_import(ledger)]
    records: list[Sealed] = []
    seen: dict[int, list[str]] = {}
    for step in steps:
        for record, batch in _records(step, sources, records):
            if batch is not None and step[0] != "whole":
                try:
                    ledger.append([record], batch=batch)
                except UsageError:  # it is complete
                    ledger.append([record])
            else:
                ledger.append([record])
            if isinstance(record.model, Semantic):
                records.append(record)
        with ledger.reading() as view:
            seen[view.head.size] = [logged.record.id for logged in view.scan(CURRENT)]
            assert len(list(view.scan())) <= view.head.size  # retired records are checked too
    later = opened(store, ledger.bank, None)
    for reader in (ledger, later):
        with reader.reading() as view:
            for size, ids in seen.items():
                found = view.scan(Filter(as_of=size))
                assert [logged.record.id for logged in found] == ids, f"as of {size}"
    store.close()


def _records(
    step: Any, sources: list[str | None], records: list[Sealed]
) -> list[tuple[Sealed, str | None]]:
    """Return what a step appends: records, each with its import."""
    if step[0] == "add":
        return [(seal(Semantic(text="x")), sources[step[1]]) for _ in range(step[2])]
    if step[0] == "close":
        return [(closing_receipt(str(sources[step[1]]), now()), None)]
    if step[0] == "whole":
        return [(seal(Status(target=str(sources[step[1]]), state=step[2])), None)]
    if not records:
        return []
    target = records[step[2] % len(records)].id
    return [(seal(Status(target=target, state=step[3])), sources[step[1]])]


def test_a_listing_may_start_before_the_log(store: Store) -> None:
    """A caller that counts back from a position may go below zero; nothing is missing."""
    ledger = created(store)
    ledger.append(memories(3))
    with ledger.reading() as view:
        whole = [logged.seq for logged in view.scan()]
        assert [logged.seq for logged in view.scan(after=-600)] == whole
        assert [logged.seq for logged in view.scan(CURRENT, after=-600)] == whole
        assert list(view.scan(after=600)) == []
