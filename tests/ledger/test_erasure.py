"""Erasure: what is removed, what stays verifiable, what cannot be erased, and rollbacks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import msgspec
import pytest
from ledger_kit import OWNER, WRITER, created, listed, memories, opened

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ErasureRefusedError, SatchelError, UsageError, VerificationError
from satchel.ledger.decisions import Decider
from satchel.ledger.examination import Flaw, examine
from satchel.ledger.ledger import Ledger
from satchel.ledger.repair import DAMAGED, repair
from satchel.ledger.transaction import closing_receipt, finish_erasure, is_unfinished
from satchel.ledger.witness import Witness
from satchel.model.records import (
    Edge,
    Erasure,
    FileVersion,
    Receipt,
    Semantic,
    SessionEvent,
    Source,
    Status,
)
from satchel.model.values import Origin, Scope, now
from satchel.ports.rows import Filter
from satchel.ports.store import Store
from satchel.ports.vectors import Generation
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

WORD = "quorxzbivank"
"""A word that nothing else holds, with no stem to be cut to."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store."""
    folder = tmp_path / "store"
    folder.mkdir()
    found: Store = InMemoryStore() if request.param == "memory" else SqliteStore(folder / "a.db")
    yield found
    found.close()


def deletions_and_erasures(records: Sequence[Sealed]) -> list[Sealed]:
    """Return the records that delete and erase the given ones."""
    deleted = [seal(Status(target=record.id, state="deleted")) for record in records]
    return [*deleted, *(seal(Erasure(entry=record.id, reason="asked")) for record in records)]


def revealing(number: int = 0) -> Sealed:
    """Return a record with the secret word in every column that a store has."""
    return seal(
        Semantic(
            text=f"{WORD} text {number}",
            kind=f"{WORD} kind",
            tags=(f"{WORD} tag",),
            scope=Scope(user=f"{WORD}-user", agent=f"{WORD}-agent", run=f"{WORD}-run"),
            origin=Origin(provider="test", id=f"{WORD}-{number}"),
        )
    )


def test_an_erased_record_leaves_only_its_leaf(store: Store) -> None:
    """Not found by ID, slot, owner, words, links or vector; its position still verifies."""
    ledger = created(store)
    record, child = revealing(), memories(1)[0]
    record = seal(
        msgspec.structs.replace(record.model, id=None, nonce=None, parent_ids=(child.id,))
    )
    ledger.append([child, record])
    with store.writing() as writing:
        writing.vectors.put(ledger.bank, Generation("m", 2), {record.id: [1, 2]})
    (place,) = ledger.append([seal(Edge(source=child.id, target=record.id, kind="about"))])
    with ledger.reading() as view:
        root, slot = view.head.root, view.get([record.id])[record.id].row.slot or ""
    ledger.append(deletions_and_erasures([record]))
    for reader in (ledger, opened(store, ledger.bank, None)):
        with reader.reading() as view:
            assert view.get([record.id]) == {}
            assert view.current(slot) is None
            assert list(view.scan(Filter(user=f"{WORD}-user", retired=True, held=True))) == []
            assert list(view.neighbors(child.id, incoming=True)) == []
            assert [one.seq for one in view.neighbors(record.id, incoming=True)] == [place]
            assert view.candidates(WORD) == []
            assert list(view.scan(Filter(as_of=place + 1)))[-1].seq == place
            assert view.places([record.id]) == {record.id: 3}
            erasure = view.erasure(record.id)
            assert erasure is not None
            assert isinstance(erasure.model, Erasure)
            assert erasure.model.reason == "asked"
            assert view.head.size == 7
            assert view.head.root != root
        assert record.id not in listed(reader)
    with store.reading() as reader_:
        (row,) = reader_.at(ledger.bank, [3])
        assert row.columns() == row.erased().columns()
        assert (row.id, row.retired) == (record.id, 5)
        assert reader_.vectors.generations(ledger.bank) == {}
    assert examine(store, ledger.bank).is_sound


def _file_bytes(folder: Path) -> bytes:
    """Return every byte of every file in a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("at_once", [1, 40])
def test_attack_searching_the_files_finds_no_erased_bytes(tmp_path: Path, at_once: int) -> None:
    """In the database, log and index: free pages, slack, words, columns, links, blobs."""
    folder = tmp_path / "store"
    folder.mkdir()
    store = SqliteStore(folder / "a.db")
    ledger = created(store)
    secrets = [revealing(number) for number in range(40)]
    turns = [
        seal(SessionEvent(event="message", session="s", text=text))
        for text in (f"{WORD} turn", "the turn after it")
    ]
    edge = seal(Edge(source=f"{WORD}-a", target=f"{WORD}-b", kind="knows"))
    with store.writing() as writing:
        blob = writing.blobs.put(ledger.bank, [WORD.encode() * 9])
    file = seal(FileVersion(path=f"{WORD}.md", text=WORD, blob=blob))
    among = [[*memories(20, start=100 * number), secrets[number]] for number in range(40)]
    for start in range(0, 40, at_once):  # over many pages and merges of the index, or in one
        ledger.append([record for some in among[start : start + at_once] for record in some])
    ledger.append([*turns, edge, file])
    assert WORD.encode() in _file_bytes(folder)

    ledger.append(deletions_and_erasures([*secrets, turns[0], edge, file]))
    assert is_unfinished(store, ledger.bank)
    assert finish_erasure(store, ledger.bank) == 1
    raw = _file_bytes(folder)
    assert WORD.encode() not in raw
    assert b"memory 100" in raw
    assert not is_unfinished(store, ledger.bank)
    store.close()
    assert WORD.encode() not in _file_bytes(folder)

    _require_indexed(folder / "a.db", ledger.bank)


def _require_indexed(path: Path, bank: str) -> None:
    """Require that no index has the word, and every index has the others."""
    store = SqliteStore(path)
    with opened(store, bank, None).reading() as view:
        assert [one.row.text for one, _ in view.candidates("turn")] == ["the turn after it"]
        assert view.candidates(WORD) == []
        assert len(view.candidates("memory", limit=900)) == 800
    assert examine(store, bank).is_sound
    store.close()
    terms = apsw.Connection(str(path))
    terms.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'words', 'row')")
    found = [str(term) for (term,) in terms.execute("SELECT term FROM temp.v")]
    terms.close()
    assert any("memori" in term for term in found)
    assert not any(WORD[:6] in term for term in found)


def test_erased_bytes_stay_in_the_files_until_the_scrub(tmp_path: Path) -> None:
    """The test above therefore searches the right place, and an unfinished scrub is noticed."""
    folder = tmp_path / "store"
    folder.mkdir()
    store = SqliteStore(folder / "a.db")
    ledger = created(store)
    record = revealing()
    ledger.append([record])
    ledger.append(deletions_and_erasures([record]))
    assert WORD.encode() in _file_bytes(folder)
    assert is_unfinished(store, ledger.bank)
    store.close()


def _refusal(ledger: Ledger, *records: Sealed) -> str:
    with ledger.reading() as view:
        size = view.head.size
    with pytest.raises(ErasureRefusedError) as refused:
        ledger.append(records)
    with ledger.reading() as view:
        assert view.head.size == size
    return refused.value.message


def test_current_records_and_records_about_others_cannot_be_erased(store: Store) -> None:
    """Bank, config, status, source, receipt and erasure records, whatever their state."""
    ledger = created(store)
    record, other = memories(2)
    status = seal(Status(target=other.id, state="deleted"))
    source, receipt = seal(Source(provider="x", format="x")), seal(Receipt(action="x"))
    grave = seal(Erasure(entry=other.id))
    ledger.append([record, other, status, source, receipt])
    ledger.append([grave])
    assert "current" in _refusal(ledger, seal(Erasure(entry=record.id)))
    with ledger.reading() as view:
        founding = [one.record for one in view.scan()][:2]
    for one in (*founding, status, source, receipt, grave):
        dead = seal(Status(target=one.id, state="deleted"))
        assert "is not a memory" in _refusal(ledger, dead, seal(Erasure(entry=one.id)))
    held = seal(Status(target=record.id, state="quarantined"))
    assert "current" in _refusal(ledger, held, seal(Erasure(entry=record.id)))
    back = [seal(Status(target=record.id, state=state)) for state in ("deleted", "restored")]
    assert "current" in _refusal(ledger, *back, seal(Erasure(entry=record.id)))
    assert ledger.append([back[0], seal(Erasure(entry=record.id))])


def test_an_erased_record_cannot_be_appended_again(store: Store) -> None:
    """Nor one whose tombstone came from elsewhere, nor in the append that erases it."""
    ledger = created(store)
    record, elsewhere, third = memories(3)
    ledger.append([record])
    ledger.append(deletions_and_erasures([record]))
    ledger.append([seal(Erasure(entry=elsewhere.id))])
    assert "erased" in _refusal(ledger, record)
    assert "erased" in _refusal(ledger, elsewhere)
    assert "while it is being logged" in _refusal(ledger, third, *deletions_and_erasures([third]))
    ledger.append([seal(Erasure(entry=record.id))])  # twice says nothing new
    ledger.append([third])
    assert examine(store, ledger.bank).is_sound


def test_an_erasure_cannot_be_part_of_an_import(store: Store) -> None:
    """It cannot be undone, and records of an open import are not retired yet."""
    ledger = created(store)
    source, record = seal(Source(provider="x", format="x")), memories(1)[0]
    ledger.append([source])
    ledger.append([record], batch=source.id)
    with pytest.raises(UsageError, match="import"):
        ledger.append([seal(Erasure(entry=record.id))], batch=source.id)
    assert "current" in _refusal(ledger, seal(Erasure(entry=record.id)))
    ledger.append([closing_receipt(source.id, now())])
    ledger.append([seal(Status(target=source.id, state="deleted"))])
    ledger.append([seal(Erasure(entry=record.id))])  # undone with its import
    assert examine(store, ledger.bank).is_sound


def test_an_erasure_that_cannot_be_committed_erases_nothing(store: Store) -> None:
    """A taken slot in the same append rolls the erasure back."""
    ledger = created(store)
    record, other = revealing(1), revealing(2)
    ledger.append([record, other])
    taken = seal(msgspec.structs.replace(other.model, id=None, nonce=None))
    with pytest.raises(SatchelError):
        ledger.append([*deletions_and_erasures([record]), taken])
    with ledger.reading() as view:
        assert view.get([record.id])[record.id].row.retired is None
    assert not is_unfinished(store, ledger.bank)
    ledger.append(deletions_and_erasures([record]))


def test_a_slot_is_free_once_its_record_is_erased(store: Store) -> None:
    """A new record can take it, and restoring the erased one does nothing."""
    ledger = created(store)
    record = revealing(1)
    ledger.append([record])
    ledger.append(deletions_and_erasures([record]))
    again = seal(msgspec.structs.replace(record.model, id=None, nonce=None))
    ledger.append([again])
    ledger.append([seal(Status(target=record.id, state="restored"))])
    with ledger.reading() as view:
        assert [one.record.id for one in view.scan(Filter()) if one.row.slot] == [again.id]
    assert examine(store, ledger.bank).is_sound


# -- what comes back -----------------------------------------------------------------------


def _write_body(store: Store, bank: str, record: Sealed, place: int) -> None:
    """Write the bytes of a record into its row, as somebody with the file would."""
    if isinstance(store, InMemoryStore):
        rows = store._banks[bank].rows
        rows[place] = msgspec.structs.replace(rows[place], body=record.body)
        return
    connection = apsw.Connection(store.name)
    connection.execute(
        "UPDATE record SET body = ? WHERE place & ? = ?", (record.body, (1 << 40) - 1, place)
    )
    connection.close()


def test_attack_erased_bytes_that_are_written_back_are_refused(store: Store) -> None:
    """The audit reports them, and a repair removes them again."""
    ledger = created(store)
    record = revealing()
    (place,) = ledger.append([record])
    ledger.append(deletions_and_erasures([record]))
    _write_body(store, ledger.bank, record, place)
    reader = opened(store, ledger.bank, None)
    with pytest.raises(VerificationError, match="was erased, but has its bytes again"):
        listed(reader)
    with reader.reading() as view, pytest.raises(VerificationError, match="was erased"):
        view.get([record.id])
    found = examine(store, ledger.bank)
    assert found.counts == {Flaw.RETURNED: 1}
    done = repair(store, reader, at=now())
    assert (done.after.is_sound, done.lost) == (True, ())
    assert record.id not in listed(opened(store, ledger.bank, None))
    if isinstance(store, SqliteStore):
        assert WORD.encode() not in _file_bytes(store.path.parent)


def test_attack_columns_that_reveal_an_erased_record_are_reported(store: Store) -> None:
    """A store that kept its owner reveals too much; a repair clears it."""
    ledger = created(store)
    record = revealing()
    (place,) = ledger.append([record])
    ledger.append(deletions_and_erasures([record]))
    if isinstance(store, InMemoryStore):
        rows = store._banks[ledger.bank].rows
        rows[place] = msgspec.structs.replace(rows[place], user=WORD)
    else:
        connection = apsw.Connection(store.name)
        connection.execute("UPDATE record SET user = ? WHERE body IS NULL", (WORD,))
        connection.close()
    assert examine(store, ledger.bank).counts == {Flaw.COLUMN: 1}
    assert repair(store, opened(store, ledger.bank, None), at=now()).after.is_sound


def _decider(store: Store, bank: str, witness: Witness) -> Decider:
    return Decider(store=store, bank=bank, owner=OWNER, writer=WRITER, witness=witness)


def test_a_store_rolled_back_before_an_erasure_is_erased_again(tmp_path: Path) -> None:
    """Attack: the backup has the text, and its log has no erasure."""
    folder, witness = tmp_path / "store", Witness(tmp_path / "witness")
    folder.mkdir()
    store = SqliteStore(folder / "a.db")
    ledger = created(store, witness)
    record, kept = revealing(), memories(1)[0]
    ledger.append([record, kept])
    store.copy_to(tmp_path / "backup.db")
    ledger.append(deletions_and_erasures([record]))
    assert witness.positions(ledger.bank) == (2,)
    store.close()
    for path in folder.iterdir():
        path.unlink()
    (tmp_path / "backup.db").rename(folder / "a.db")

    store = SqliteStore(folder / "a.db")
    with pytest.raises(VerificationError):
        listed(opened(store, ledger.bank, tmp_path / "witness"))
    decision = _decider(store, ledger.bank, witness).accept_rollback("the disk died")
    assert decision is not None
    again = opened(store, ledger.bank, tmp_path / "witness")
    assert record.id not in listed(again)
    assert kept.id in listed(again)
    with again.reading() as view:
        assert view.erasure(record.id) is not None
        assert view.returned() == []
    assert WORD.encode() not in _file_bytes(folder)
    assert examine(store, ledger.bank).is_sound
    store.close()


def test_an_accepted_loss_does_not_restore_erased_text(tmp_path: Path) -> None:
    """Attack: the other machine did not know; reads refuse it until an owner erases it again."""
    store = InMemoryStore()
    mine, other = Witness(tmp_path / "mine"), Witness(tmp_path / "other")
    ledger = created(store, mine)
    record = revealing()
    ledger.append([record])
    kept = store._banks[ledger.bank].copy()
    ledger.append(deletions_and_erasures([record]))
    store._banks[ledger.bank] = kept
    _decider(store, ledger.bank, other).accept_restore("from a backup")
    there = opened(store, ledger.bank, tmp_path / "other")
    assert record.id in listed(there)
    here = opened(store, ledger.bank, tmp_path / "mine")
    with pytest.raises(VerificationError, match="erased or redacted on this machine"):
        listed(here)
    _decider(store, ledger.bank, mine).accept_rollback()
    assert record.id not in listed(opened(store, ledger.bank, tmp_path / "mine"))
    assert record.id not in listed(there)


def test_positions_given_up_by_an_accepted_loss_are_not_erased(tmp_path: Path) -> None:
    """Other records are at those positions since."""
    store = InMemoryStore()
    mine, other = Witness(tmp_path / "mine"), Witness(tmp_path / "other")
    ledger = created(store, mine)
    kept = store._banks[ledger.bank].copy()
    record = revealing()
    ledger.append([*memories(3), record])
    ledger.append(deletions_and_erasures([record]))
    assert mine.positions(ledger.bank) == (5,)
    store._banks[ledger.bank] = kept
    _decider(store, ledger.bank, other).accept_restore("from a backup")
    opened(store, ledger.bank, tmp_path / "other").append(memories(6, start=20))
    assert len(listed(opened(store, ledger.bank, tmp_path / "mine"))) == 9


def test_a_damaged_record_that_is_given_up_is_saved_first(
    store: Store,
) -> None:
    """Its bytes are saved first, so that a killed program loses none."""
    ledger = created(store)
    record = revealing()
    (place,) = ledger.append([record])
    damaged = seal(Semantic(text="another"))
    _write_body(store, ledger.bank, damaged, place)
    done = repair(store, opened(store, ledger.bank, None), at=now())
    assert (done.lost, done.after.is_sound) == ((place,), True)
    with store.reading() as reader:
        assert reader.side(ledger.bank, DAMAGED) == {f"{DAMAGED}{place}": damaged.body}
        (row,) = reader.at(ledger.bank, [place])
        assert row.columns() == row.erased().columns()


# -- blobs ---------------------------------------------------------------------------------


def test_a_blob_is_erased_with_the_last_record_that_refers_to_it(store: Store) -> None:
    """A blob that another record of any type refers to stays."""
    ledger = created(store)
    with store.writing() as writing:
        blobs = [writing.blobs.put(ledger.bank, [bytes([number])]) for number in range(3)]
    files = [seal(FileVersion(path=f"{blob}", blob=blob)) for blob in blobs[:2]]
    other = seal(Semantic(data={"attached": [blobs[1]]}))
    ledger.append([*files, other])
    ledger.append(deletions_and_erasures(files))
    assert finish_erasure(store, ledger.bank) == 1
    with store.reading() as reader:
        assert {name for name, _ in reader.blobs.listed(ledger.bank)} == set(blobs[1:])
    ledger.append(deletions_and_erasures([other]))
    assert finish_erasure(store, ledger.bank) == 1
    with store.reading() as reader:
        assert {name for name, _ in reader.blobs.listed(ledger.bank)} == {blobs[2]}
        assert reader.side(ledger.bank) == {}
    assert finish_erasure(store, ledger.bank) == 0
