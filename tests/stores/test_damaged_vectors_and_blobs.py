"""Vectors and blobs that were changed behind the store's back."""

import random
import shutil
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from ledger_kit import created, memories, noting, opened

from satchel.errors import SatchelError, StoreDamagedError, VerificationError
from satchel.ledger.view import View
from satchel.ports.store import PIECE_BYTES
from satchel.ports.vectors import Generation
from satchel.stores.sqlite import SqliteStore

MIB = 2**20
GENERATION = Generation("model", 3)
PAGE = 4096


class StoreSample(NamedTuple):
    """A closed store with three vectors and a blob of four pieces."""

    database: Path
    bank: str
    ids: list[str]
    digest: str


def pieces() -> list[bytes]:
    """Return the pieces of the blob, the last one shorter."""
    return [bytes([number]) * PIECE_BYTES for number in range(1, 4)] + [b"\x04" * 1000]


@pytest.fixture
def sample(tmp_path: Path) -> StoreSample:
    """A store with three vectors and a blob."""
    database = tmp_path / "whole.db"
    store = SqliteStore(database)
    ledger, records = created(store), memories(3)
    ledger.append(records)
    ids = [record.id for record in records]
    with store.writing() as writing:
        vectors: list[list[float]] = [[0.1, 1, 1], [1, 0, 0], [1, 1, 1]]
        writing.vectors.put(ledger.bank, GENERATION, {**dict(zip(ids, vectors, strict=True))})
        digest = writing.blobs.put(ledger.bank, pieces())
    store.close()
    return StoreSample(database, ledger.bank, ids, digest)


def change(sample: StoreSample, sql: str, *values: object) -> int:
    """Edit the database with SQLite alone, and return the number of pieces."""
    connection = apsw.Connection(str(sample.database))
    connection.execute(sql, values)
    assert connection.changes()
    count = connection.execute("SELECT count(*) FROM piece").get
    connection.close()
    return int(count)


@pytest.mark.in_check(8)
@pytest.mark.parametrize(
    "edit",
    [
        "numbers = x''",
        "numbers = substr(numbers, 2)",
        "numbers = CAST(numbers || x'00' AS BLOB)",
        "numbers = zeroblob(67108864)",
        "width = 0",
        "width = -4",
        "width = 12 - width",
        "width = 9223372036854775807",
        "numbers = CAST(x'0000C07F0000803F0000803F' AS BLOB), width = 4",
        "numbers = CAST(x'0000807F0000803F0000803F' AS BLOB), width = 4",
        "numbers = CAST(x'0000803F0000803F0000803F' AS BLOB), width = 8",
    ],
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_damaged_vector_is_reported(sample: StoreSample, edit: str, place: int) -> None:
    """Fault: another length, another width, not a number; nothing invalid is loaded."""
    change(sample, f"UPDATE vector SET {edit} WHERE place & 1023 = ?", place + 2)  # noqa: S608 - our own
    store = SqliteStore(sample.database)
    tracemalloc.start()
    try:
        with store.reading() as reader:
            with pytest.raises(StoreDamagedError):
                reader.vectors.get(sample.bank, GENERATION, sample.ids)
            with pytest.raises(StoreDamagedError):
                reader.vectors.near(sample.bank, GENERATION, [1, 2, 3], limit=1)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
        store.close()


@pytest.mark.parametrize("number", [0, -1, 2**22, 2**63 - 1])
def test_an_invalid_bank_number_is_reported(sample: StoreSample, number: int) -> None:
    """Fault: positions derived from it would be out of range, or another bank's."""
    change(sample, "UPDATE bank SET number = ?", number)
    store = SqliteStore(sample.database)
    try:
        with store.reading() as reader, pytest.raises(StoreDamagedError):
            reader.at(sample.bank, [0])
    finally:
        store.close()


@pytest.mark.parametrize(
    "edit",
    [
        "model = ''",
        "model = CAST(zeroblob(5000) AS TEXT)",
        "model = CAST(x'89' AS TEXT)",
        "dimensions = 0",
        "dimensions = 9223372036854775807",
        "generation = -1",
        "number = 0",
        "number = -1",
        "number = 9223372036854775807",
    ],
)
def test_a_damaged_generation_is_reported(sample: StoreSample, edit: str) -> None:
    """Fault: an invalid name, length or number."""
    change(sample, f"UPDATE generation SET {edit}")  # noqa: S608 - our own
    store = SqliteStore(sample.database)
    try:
        with store.reading() as reader, pytest.raises(StoreDamagedError):
            reader.vectors.generations(sample.bank)
    finally:
        store.close()


def _changed(data: str, index: int) -> str:
    """Return SQL that changes the bytes of a piece."""
    return f"UPDATE piece SET data = CAST({data} AS BLOB) WHERE place & 1023 = {index}"  # noqa: S608 - our own


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM piece",
        "DELETE FROM piece WHERE place & 1023 = 0",
        "DELETE FROM piece WHERE place & 1023 = 2",
        "DELETE FROM piece WHERE place & 1023 = 3",
        _changed("x'FF' || substr(data, 2)", 0),
        _changed("substr(data, 1, 5000) || x'FF' || substr(data, 5002)", 1),
        _changed("substr(data, 1, 1048575) || x'FF'", 2),
        _changed("substr(data, 1, 999) || x'FF'", 3),
        _changed("substr(data, 1, 999)", 3),
        _changed("data || x'04'", 3),
        _changed("x''", 1),
        _changed("x''", 3),
        "INSERT INTO piece SELECT max(place) + 1, x'00' FROM piece",
        "UPDATE piece SET place = (place & ~1023) + 1023 - (place & 1023)",
        "UPDATE blob SET digest = zeroblob(32)",
    ],
)
def test_a_changed_blob_is_refused(sample: StoreSample, edit: str) -> None:
    """Fault: a byte changed, a piece missing, truncated, emptied or added, or the order reversed.

    The last piece is never returned.
    """
    count = change(sample, edit)
    digest = "blake3:" + "0" * 64 if "zeroblob(32)" in edit else sample.digest
    store = SqliteStore(sample.database)
    got = list[bytes]()
    try:
        with opened(store, sample.bank, None).reading() as view, pytest.raises(VerificationError):
            got.extend(view.blob(digest))
    finally:
        store.close()
    assert len(got) < max(count, 1)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE piece SET data = zeroblob(67108864) WHERE place & 1023 = 1",
        "UPDATE blob SET number = 0",
        "UPDATE blob SET number = 9223372036854775807",
    ],
)
def test_an_oversized_piece_or_invalid_number_is_reported(sample: StoreSample, edit: str) -> None:
    """Fault: a piece over the bound, which is not loaded, or a number that no blob has."""
    change(sample, edit)
    store = SqliteStore(sample.database)
    tracemalloc.start()
    try:
        with opened(store, sample.bank, None).reading() as view, pytest.raises(StoreDamagedError):
            list(view.blob(sample.digest))
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
        store.close()


def outcome(sample: StoreSample, database: Path) -> str:
    """Read all vectors and blobs, and return the outcome."""
    try:
        store = SqliteStore(database)
    except SatchelError as error:
        return type(error).__name__
    try:
        with opened(store, sample.bank, None).reading() as view:
            return _read_outcome(sample, view)
    except SatchelError as error:
        return type(error).__name__
    finally:
        store.close()


def _read_outcome(sample: StoreSample, view: View) -> str:
    near = [(each.record.id, score) for each, score in view.nearest(GENERATION, [1, 0, 0])]
    assert {name for name, _ in near} <= set(sample.ids)
    assert all(-1 <= score <= 1 for _, score in near)
    assert list(view.blob(sample.digest)) == pieces()
    return (
        "the same" if [name for name, _ in near] == [*sample.ids[1:], sample.ids[0]] else "scores"
    )


def test_a_flipped_byte_of_vectors_or_blobs_causes_no_crash(
    sample: StoreSample, tmp_path: Path
) -> None:
    """Fault: a byte of each page with a header, and 100 random ones outside the blob's pages.

    A blob is right or refused. Vectors are not signed: a flipped digit only changes the ranking.
    """
    chance = random.Random(7)  # noqa: S311 - the same bytes each time
    before = sample.database.read_bytes()
    small = [at for at in range(0, len(before), PAGE) if len(set(before[at : at + PAGE])) > 4]
    places = [at + chance.randrange(12) for at in small]
    places += [chance.choice(small) + chance.randrange(PAGE) for _ in range(100)]
    counts = dict[str, int]()
    for place in places:
        flipped = bytearray(before)
        flipped[place] ^= chance.randrange(1, 256)
        folder = tmp_path / "flipped"
        folder.mkdir()
        (folder / "satchel.db").write_bytes(flipped)
        with noting(f"byte {place} became {flipped[place]}"):
            found = outcome(sample, folder / "satchel.db")
        counts[found] = counts.get(found, 0) + 1
        shutil.rmtree(folder)
    assert sum(counts.values()) - counts.get("the same", 0) > len(places) // 20
