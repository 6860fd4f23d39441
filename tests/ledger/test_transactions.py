"""Several appends in one transaction: all or nothing, read back before the commit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from ledger_kit import OWNER, WRITER
from postgres_kit import in_schema

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import StoreDamagedError
from satchel.ledger import transaction
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Semantic, Source
from satchel.model.values import now
from satchel.ports.rows import Row, unplaced_row
from satchel.ports.store import RowsDigest, Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

STORES = ("memory", "sqlite", "ladybug", "postgresql")


@pytest.fixture(params=STORES)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A new bank in each store."""
    makers: dict[str, Callable[[], Store]] = {
        "memory": InMemoryStore,
        "sqlite": lambda: SqliteStore(tmp_path / "a.db"),
        "ladybug": lambda: LadybugStore(tmp_path / "graph"),
        "postgresql": lambda: PostgresStore(
            in_schema(request.getfixturevalue("postgres"), f"t_{tmp_path.name}"[:60])
        ),
    }
    store = makers[request.param]()
    yield Ledger.create(store, owner=OWNER, writer=WRITER)
    store.close()


def _rows(start: int, count: int) -> list[Row]:
    made = [seal(Semantic(text=f"fact {number}")) for number in range(start, start + count)]
    return [unplaced_row(one.model, one.id, one.body) for one in made]


def _import(ledger: Ledger, groups: list[list[Row]]) -> Sealed:
    source = seal(Source(at=now(), provider="mem0", format="mem0"))
    with ledger.transaction() as log:
        log.append([source])
        for group in groups:
            log.append_rows(group, batch=source.id, visible=True)
        log.require_stored()
        log.append([closing_receipt(source.id, now())])
    return source


def _import_with_late_source(ledger: Ledger, groups: list[list[Row]]) -> Sealed:
    source = seal(Source(at=now(), provider="mem0", format="mem0"))
    with ledger.transaction() as log:
        log.begin_import()
        for group in groups:
            log.append_unnamed(group)
        log.name_import(source)
        log.require_stored()
        log.append([closing_receipt(source.id, now())])
    return source


def _texts(ledger: Ledger) -> list[Any]:
    with ledger.reading() as view:
        return [one.model.text for one in view.scan() if isinstance(one.model, Semantic)]


def test_an_import_in_one_transaction_is_current_complete_and_verified(ledger: Ledger) -> None:
    """On every store: each record is verified as it is read, and full-text search finds it."""
    source = _import(ledger, [_rows(0, 30), _rows(30, 12)])
    assert _texts(ledger) == [f"fact {number}" for number in range(42)]
    with ledger.reading() as view:
        (done,) = view.imports()
        assert (done.source, done.records, done.complete) == (source.id, 42, True)
        found = view.candidates("fact 41", limit=5)
        assert found[0][0].row.text == "fact 41"
    ledger.append([seal(Semantic(text="after"))])
    assert _texts(ledger)[-1] == "after"


@pytest.mark.parametrize(
    "logged", [_import, _import_with_late_source], ids=["source first", "source last"]
)
def test_the_source_record_comes_first_in_the_log(
    ledger: Ledger,
    logged: Callable[[Ledger, list[list[Row]]], Sealed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if it is known last; the same log, verified: records, batches, tree and columns."""
    monkeypatch.setattr(transaction, "GROUP_RECORDS", 30)
    parts = [(0, 30), (30, 12)] if logged is _import else [(0, 10), (10, 20), (30, 8), (38, 4)]
    source = logged(ledger, [_rows(*part) for part in parts])
    ledger.audit()
    with ledger.reading() as view:
        everything = [(one.record.type, one.row.seq, one.row.batch) for one in view.whole.scan()]
        (done,) = view.imports()
        assert (done.source, done.records, done.complete) == (source.id, 42, True)
        assert view.candidates("fact 41", limit=5)[0][0].row.text == "fact 41"
    types = ["source", "receipt", *["semantic"] * 30, "receipt", *["semantic"] * 12, "receipt"]
    assert [one[0] for one in everything[-len(types) :]] == types
    assert [one[1] for one in everything] == list(range(len(everything)))
    assert {batch for kind, _, batch in everything if kind == "semantic"} == {done.place}
    ledger.append([seal(Semantic(text="after"))])
    assert _texts(ledger)[-1] == "after"


def test_a_bank_and_its_first_import_are_created_together_or_not_at_all(ledger: Ledger) -> None:
    """One transaction: a failure leaves no bank."""
    source = seal(Source(at=now(), provider="mem0", format="mem0"))

    def logged(*, failing: bool) -> Ledger:
        store = ledger._store
        with Ledger.founded(store, owner=OWNER, writer=WRITER, name="new") as (made, log):
            log.begin_import()
            log.append_unnamed(_rows(0, 5))
            if failing:
                raise RuntimeError("enough")
            log.name_import(source)
            log.require_stored()
            log.append([closing_receipt(source.id, now())])
        return made

    with pytest.raises(RuntimeError):
        logged(failing=True)
    with ledger._store.reading() as reader:
        assert reader.banks() == [ledger.bank]
    made = logged(failing=False)
    made.audit()
    assert len(_texts(made)) == 5


def test_an_import_with_a_late_source_that_reads_back_differently_is_rolled_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the source record, a record of a group or a node is not stored."""
    for name, value in {
        "_named": [unplaced_row(Semantic(text="x"), "blake3:" + "0" * 64, b"{}")],
        "_digests": [RowsDigest()],
        "_nodes": blake3(b"other"),
    }.items():
        with monkeypatch.context() as patch:

            def other(
                self: Any,
                reader: Any,
                name: str = name,
                value: Any = value,
                there: Any = transaction.UnnamedImport.is_stored,
            ) -> Any:
                setattr(self, name, value)
                return there(self, reader)

            patch.setattr(transaction.UnnamedImport, "is_stored", other)
            with pytest.raises(StoreDamagedError, match="records read back differently"):
                _import_with_late_source(ledger, [_rows(0, 5)])
        assert _texts(ledger) == []


def test_a_failed_transaction_leaves_nothing(ledger: Ledger) -> None:
    """Neither in the store nor in memory; the next one succeeds."""
    before = _texts(ledger)

    def failing() -> None:
        source = seal(Source(at=now(), provider="mem0", format="mem0"))
        with ledger.transaction() as log:
            log.append([source])
            log.append_rows(_rows(0, 5), batch=source.id, visible=True)
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError):
        failing()
    assert _texts(ledger) == before
    with ledger.reading() as view:
        assert view.imports() == []
    _import(ledger, [_rows(0, 5)])
    assert len(_texts(ledger)) == 5


def test_an_import_that_reads_back_differently_is_rolled_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the store returns other bytes."""
    with monkeypatch.context() as patch:
        patch.setattr(transaction.StoredDigest, "value", property(lambda _self: (b"", b"")))
        with pytest.raises(StoreDamagedError, match="records read back differently"):
            _import(ledger, [_rows(0, 5)])
    assert _texts(ledger) == []
