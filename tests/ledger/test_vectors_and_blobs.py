"""Verified reads of vectors and blobs, and the memory and disk space that blobs take."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from ledger_kit import created, memories, opened

from satchel.crypto.sealed_records import seal
from satchel.errors import (
    StoreError,
    StoreFullError,
    UnknownBlobError,
    ValueRefusedError,
    VerificationError,
)
from satchel.model.records import Status
from satchel.ports.store import verified_pieces
from satchel.ports.vectors import Generation
from satchel.stores.sqlite import SqliteStore

MIB = 2**20
ABC = "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
"""The digest of ``abc``."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A new store."""
    store = SqliteStore(tmp_path / "satchel.db")
    yield store
    store.close()


def test_nearest_returns_verified_current_records(store: SqliteStore) -> None:
    """Retired and quarantined records are skipped, even if the store lists them as current."""
    ledger, generation = created(store), Generation("model", 2)
    records = memories(5)
    ledger.append(records)
    with store.writing() as writing:
        vectors = {record.id: [1, place] for place, record in enumerate(records)}
        writing.vectors.put(ledger.bank, generation, vectors)
    ledger.append([seal(Status(target=records[0].id, state="deleted"))])
    ledger.append([seal(Status(target=records[1].id, state="quarantined"))])
    with ledger.reading() as view:
        found = view.nearest(generation, [1, 0], limit=2)
        with pytest.raises(ValueRefusedError):
            view.nearest(generation, [1, 0, 0])
    assert [logged.record for logged, _ in found] == records[2:4]
    assert [score for _, score in found] == pytest.approx([5**-0.5, 10**-0.5])


def test_nearest_refuses_a_changed_record(store: SqliteStore, tmp_path: Path) -> None:
    """Its bytes are verified before they are returned."""
    ledger, generation = created(store), Generation("model", 2)
    (record,) = memories(1)
    ledger.append([record])
    with store.writing() as writing:
        writing.vectors.put(ledger.bank, generation, {record.id: [1, 0]})
    connection = apsw.Connection(str(tmp_path / "satchel.db"))
    changed = "CAST(replace(body, 'memory', 'secret') AS BLOB)"
    connection.execute(f"UPDATE record SET body = {changed} WHERE slot <> ''")  # noqa: S608 - our own
    connection.close()
    with opened(store, ledger.bank, None).reading() as view, pytest.raises(VerificationError):
        view.nearest(generation, [1, 0])


@pytest.mark.parametrize(
    ("pieces", "given"),
    [([b"ab", b"c"], 2), ([b"abc"], 1), ([b"", b"ab", b"", b"c", b""], 2), ([b"a", b"b", b"c"], 3)],
)
def test_verified_pieces_of_any_size_are_returned(pieces: list[bytes], given: int) -> None:
    """However the blob is cut."""
    found = list(verified_pieces(pieces, ABC))
    assert (b"".join(found), len(found)) == (b"abc", given)


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        ([], 0),
        ([b"abd"], 0),
        ([b"ab"], 0),
        ([b"ab", b"d"], 1),
        ([b"c", b"ab"], 1),
        ([b"ab", b"d", b""], 1),
        ([b"abd", b"", b""], 0),
        ([b"ab", b"c", b"d"], 2),
    ],
)
def test_the_last_piece_of_a_wrong_blob_is_withheld(pieces: list[bytes], given: int) -> None:
    """An empty or wrong piece after it releases no more bytes."""
    found = list[bytes]()
    with pytest.raises(VerificationError):
        found.extend(iter(verified_pieces(pieces, ABC)))
    assert len(found) <= given


def test_an_empty_blob_can_be_stored(store: SqliteStore) -> None:
    """It has no pieces and the digest of no bytes; an unknown blob is refused before reading."""
    ledger = created(store)
    with store.writing() as writing:
        digest = writing.blobs.put(ledger.bank, [])
    with ledger.reading() as view:
        assert list(view.blob(digest)) == []
        with pytest.raises(UnknownBlobError):
            view.blob(ABC)


def test_a_large_blob_takes_little_memory(store: SqliteStore) -> None:
    """Writing and reading 48 MiB takes less than 8 MiB, and SQLite's cache."""
    ledger = created(store)
    store.reading()
    gc.collect()
    others = apsw.memory_used()  # memory of connections of other tests in this process
    tracemalloc.start()
    apsw.memory_high_water(reset=True)
    try:
        with store.writing() as writing:
            chunks = (bytes([number]) * MIB for number in range(48))
            digest = writing.blobs.put(ledger.bank, chunks)
        with ledger.reading() as view:
            assert sum(map(len, view.blob(digest))) == 48 * MIB
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        assert apsw.memory_high_water() - others < 24 * MIB
    finally:
        tracemalloc.stop()


def _make_small(store: SqliteStore) -> None:
    """Limit the database to space for three more pieces."""
    connection = store._connection()
    connection.pragma("max_page_count", connection.pragma("page_count") + 800)


def test_a_blob_that_does_not_fit_leaves_nothing(store: SqliteStore) -> None:
    """Fault: no space left. Earlier blobs stay, and the store continues."""
    ledger = created(store)
    with store.writing() as writing:
        before = writing.blobs.put(ledger.bank, [b"before"])
    _make_small(store)
    with pytest.raises(StoreFullError), store.writing() as writing:
        writing.blobs.put(ledger.bank, [bytes(MIB)] * 4)
    with store.reading() as reader:
        assert list(reader.blobs.listed(ledger.bank)) == [(before, 6)]
    assert _count_pieces(store) == 1
    ledger.append(memories(1))


def test_a_writer_that_continues_after_a_full_disk_commits_nothing(store: SqliteStore) -> None:
    """Fault: SQLite rolls the transaction back by itself; later writes are not committed."""
    ledger = created(store)
    _make_small(store)

    def go_on() -> None:
        with store.writing() as writing:
            writing.blobs.put(ledger.bank, [b"first"])
            with suppress(StoreFullError):
                writing.blobs.put(ledger.bank, [bytes(MIB)] * 4)
            with suppress(StoreError):
                writing.blobs.put(ledger.bank, [b"last"])

    with pytest.raises(StoreError):
        go_on()
    with store.reading() as reader:
        assert list(reader.blobs.listed(ledger.bank)) == []
    assert _count_pieces(store) == 0
    ledger.append(memories(1))


def test_storing_a_damaged_blob_again_repairs_it(store: SqliteStore, tmp_path: Path) -> None:
    """The stored pieces are replaced, not trusted."""
    ledger = created(store)
    with store.writing() as writing:
        digest = writing.blobs.put(ledger.bank, [b"abc"])
    connection = apsw.Connection(str(tmp_path / "satchel.db"))
    connection.execute("UPDATE piece SET data = x'00'")
    connection.close()
    with store.writing() as writing:
        assert writing.blobs.put(ledger.bank, [b"abc"]) == digest
    with ledger.reading() as view:
        assert list(view.blob(digest)) == [b"abc"]
    assert _count_pieces(store) == 1


def _count_pieces(store: SqliteStore) -> int:
    with store.reading() as reader:
        return int(reader._all("SELECT count(*) FROM piece")[0][0])
