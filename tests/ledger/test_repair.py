"""Audit and repair: everything is verified, derived data is rebuilt, nothing is deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from ledger_kit import created, listed, memories, opened

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SatchelError, StoreDamagedError, VerificationError
from satchel.ledger.examination import Flaw, examine
from satchel.ledger.ledger import Ledger
from satchel.ledger.repair import DAMAGED, repair
from satchel.model.records import Edge, Erasure, Semantic, Status
from satchel.model.values import now
from satchel.ports.rows import Filter
from satchel.stores.sqlite import SqliteStore


class Bank(NamedTuple):
    """A bank of many blocks, and its store."""

    store: SqliteStore
    ledger: Ledger
    records: list[Sealed]

    def edit(self, sql: str) -> None:
        """Run SQL on the database file; it must change something."""
        connection = apsw.Connection(str(self.store.path))
        try:
            connection.execute(sql)
            assert connection.total_changes()
        finally:
            connection.close()

    def reopen(self) -> Ledger:
        """Open the bank as a new program does."""
        return opened(self.store, self.ledger.bank, None)

    def current(self) -> list[str]:
        """Return the IDs that an ordinary listing shows."""
        with self.reopen().reading() as view:
            return [logged.record.id for logged in view.scan(Filter())]


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """Six hundred records, some retired, some linked."""
    store = SqliteStore(tmp_path / "satchel.db")
    ledger = created(store)
    records = memories(600)
    for start in range(0, 600, 100):
        ledger.append(records[start : start + 100])
    ledger.append([seal(Status(target=record.id, state="deleted")) for record in records[:3]])
    ledger.append([seal(Edge(source=records[5].id, target=records[6].id, kind="similar_to"))])
    child = Semantic(text="from others", parent_ids=(records[7].id, records[8].id))
    ledger.append([seal(child)])
    yield Bank(store, ledger, records)
    store.close()


def test_a_sound_bank_has_no_findings_and_is_not_changed(bank: Bank) -> None:
    """Also one with many blocks; the audit reports its progress."""
    told: list[tuple[int, int]] = []
    found = examine(bank.store, bank.ledger.bank, progress=lambda *both: told.append(both))
    assert (found.is_sound, found.size, found.shown) == (True, 607, [])
    assert told[-1] == (1214, 1214)
    before = bank.store.path.read_bytes()
    assert repair(bank.store, bank.ledger, at=now()).lost == ()
    assert bank.store.path.read_bytes() == before


_DERIVED = [
    ("UPDATE record SET retired = NULL WHERE place & 1023 IN (2, 3)", Flaw.COLUMN),
    ("UPDATE record SET retired = 9 WHERE place & 1023 = 20", Flaw.COLUMN),
    ("UPDATE record SET hold = 1 WHERE place & 1023 = 20", Flaw.COLUMN),
    ("UPDATE record SET slot = NULL WHERE place & 1023 = 20", Flaw.COLUMN),
    ("UPDATE record SET user = 'eve', moment = NULL WHERE place & 1023 > 300", Flaw.COLUMN),
    ("UPDATE record SET batch = 7 WHERE place & 1023 = 20", Flaw.COLUMN),
    ("DELETE FROM link WHERE kind = 'similar_to'", Flaw.INDEX),
    ("UPDATE link SET target = target || source WHERE kind = 'derives_from'", Flaw.INDEX),
    ("DELETE FROM words WHERE rowid & 1023 = 20", Flaw.INDEX),
    ("UPDATE node SET hash = zeroblob(32) WHERE place & 2047 BETWEEN 40 AND 60", Flaw.NODE),
    ("DELETE FROM node WHERE place & 2047 = 100", Flaw.NODE),
    ("UPDATE record SET type = 'episodic' WHERE place & 1023 = 20", Flaw.LEAF),
    ("UPDATE record SET id = zeroblob(32) WHERE place & 1023 = 20", Flaw.LEAF),
    ("UPDATE record SET at = '2020-01-01T00:00:00.000000Z' WHERE place & 1023 = 20", Flaw.LEAF),
]


@pytest.mark.in_check(5)
@pytest.mark.parametrize(("edit", "flaw"), _DERIVED)
def test_repair_rebuilds_derived_data(bank: Bank, edit: str, flaw: Flaw) -> None:
    """Fault: edited columns, indexes and nodes are found and rebuilt."""
    current = bank.current()
    bank.edit(edit)
    assert examine(bank.store, bank.ledger.bank).counts[flaw]
    done = repair(bank.store, bank.reopen(), at=now())
    assert done.before.counts[flaw]
    assert done.after.is_sound, done.after.shown
    assert done.lost == ()
    assert bank.current() == current
    with bank.reopen().reading() as view:
        assert view.get([bank.records[18].id])
        assert [one.seq for one in view.neighbors(bank.records[5].id)] == [605]
        assert 20 in {logged.seq for logged, _ in view.candidates("18")}
    bank.reopen().append(memories(1, start=700))


def test_repair_saves_and_logs_bytes_that_do_not_verify(bank: Bank) -> None:
    """Fault: one changed and one emptied record are lost; their bytes are saved."""
    changed = "CAST(replace(CAST(body AS TEXT), 'memory', 'Memory') AS BLOB)"
    bank.edit(f"UPDATE record SET body = {changed} WHERE place & 1023 = 20")  # noqa: S608 - our own
    bank.edit("UPDATE record SET body = NULL WHERE place & 1023 = 21")
    with pytest.raises(VerificationError):
        listed(bank.reopen())
    done = repair(bank.store, bank.reopen(), at=now())
    assert (done.before.counts[Flaw.BODY], done.lost) == (2, (20, 21))
    assert done.after.is_sound, done.after.shown
    assert len(bank.current()) == 607 - 3 - 2 + 2
    with bank.store.reading() as reader:
        kept = reader.side(bank.ledger.bank, DAMAGED)
    assert list(kept) == [f"{DAMAGED}20"]
    assert b"Memory 18" in kept[f"{DAMAGED}20"]
    with bank.reopen().reading() as view:
        erased = [one.model for one in view.scan() if isinstance(one.model, Erasure)]
        assert [one.entry for one in erased] == [record.id for record in bank.records[18:20]]
        assert view.get([bank.records[18].id]) == {}
    assert repair(bank.store, bank.reopen(), at=now()).before.is_sound


@pytest.mark.in_check(2)
@pytest.mark.parametrize(
    ("edit", "flaw"),
    [
        ("DELETE FROM record WHERE place & 1023 = 20", Flaw.MISSING),
        ("UPDATE record SET body = x'7b7d' WHERE type = 'status'", Flaw.BODY),
        ("UPDATE bank SET peaks = zeroblob(length(peaks))", Flaw.HEAD),
        ("UPDATE bank SET head = zeroblob(10)", Flaw.HEAD),
    ],
)
def test_damage_that_cannot_be_repaired_is_reported_and_left_unchanged(
    bank: Bank, edit: str, flaw: Flaw
) -> None:
    """A missing record or status needs a backup."""
    bank.edit(edit)
    assert examine(bank.store, bank.ledger.bank).counts[flaw]
    with pytest.raises(StoreDamagedError, match="backup"):
        repair(bank.store, bank.reopen(), at=now())
    assert examine(bank.store, bank.ledger.bank).counts[flaw]


def test_a_damaged_page_is_reported_without_a_crash(bank: Bank) -> None:
    """Fault: a part of the file is overwritten with noise."""
    bank.store.close()
    with bank.store.path.open("r+b") as file:
        file.seek(30 * 4096)
        file.write(b"\xa5" * 4096)
    store = SqliteStore(bank.store.path)
    try:
        assert not examine(store, bank.ledger.bank).is_sound
    except SatchelError as error:
        assert error.code == "store.damaged"  # noqa: PT017 - either is an answer
    finally:
        store.close()
