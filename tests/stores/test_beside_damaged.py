"""Vectors and blobs that were changed behind the store's back, and blobs larger than memory."""

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


class Whole(NamedTuple):
    """A store that nobody has open, with three vectors and a blob of four pieces."""

    database: Path
    bank: str
    ids: list[str]
    digest: str


def pieces() -> list[bytes]:
    """Return the pieces of the blob, the last one shorter."""
    return [bytes([number]) * PIECE_BYTES for number in range(1, 4)] + [b"\x04" * 1000]


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    """Make it."""
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
    return Whole(database, ledger.bank, ids, digest)


def change(whole: Whole, sql: str, *values: object) -> int:
    """Change it with SQLite alone, and return how many pieces there are."""
    connection = apsw.Connection(str(whole.database))
    connection.execute(sql, values)
    assert connection.changes()
    count = connection.execute("SELECT count(*) FROM piece").get
    connection.close()
    return int(count)


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
def test_a_damaged_vector_is_reported(whole: Whole, edit: str, place: int) -> None:
    """Fault: another length, another width, no number; nothing is loaded that cannot be one."""
    change(whole, f"UPDATE vector SET {edit} WHERE place & 1023 = ?", place + 2)  # noqa: S608 - our own
    store = SqliteStore(whole.database)
    tracemalloc.start()
    try:
        with store.reading() as reader:
            with pytest.raises(StoreDamagedError):
                reader.vectors.get(whole.bank, GENERATION, whole.ids)
            with pytest.raises(StoreDamagedError):
                reader.vectors.near(whole.bank, GENERATION, [1, 2, 3], limit=1)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
        store.close()


@pytest.mark.parametrize("number", [0, -1, 2**22, 2**63 - 1])
def test_a_number_that_no_bank_has_is_reported(whole: Whole, number: int) -> None:
    """Fault: places that begin with it would be beyond all keys, or another bank's."""
    change(whole, "UPDATE bank SET number = ?", number)
    store = SqliteStore(whole.database)
    try:
        with store.reading() as reader, pytest.raises(StoreDamagedError):
            reader.at(whole.bank, [0])
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
def test_a_damaged_generation_is_reported(whole: Whole, edit: str) -> None:
    """Fault: a name, length or number that no generation has."""
    change(whole, f"UPDATE generation SET {edit}")  # noqa: S608 - our own
    store = SqliteStore(whole.database)
    try:
        with store.reading() as reader, pytest.raises(StoreDamagedError):
            reader.vectors.generations(whole.bank)
    finally:
        store.close()


def _changed(data: str, index: int) -> str:
    """Return what makes other bytes of a piece."""
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
def test_a_blob_that_was_changed_is_refused(whole: Whole, edit: str) -> None:
    """Fault: a byte changed, a piece missing, cut, emptied, added, or all of them turned around.

    The last one that is there is never given.
    """
    count = change(whole, edit)
    digest = "blake3:" + "0" * 64 if "zeroblob(32)" in edit else whole.digest
    store = SqliteStore(whole.database)
    got = list[bytes]()
    try:
        with opened(store, whole.bank, None).reading() as view, pytest.raises(VerificationError):
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
def test_an_impossible_blob_is_reported(whole: Whole, edit: str) -> None:
    """Fault: a piece larger than any, which is not loaded; a number that no blob has."""
    change(whole, edit)
    store = SqliteStore(whole.database)
    tracemalloc.start()
    try:
        with opened(store, whole.bank, None).reading() as view, pytest.raises(StoreDamagedError):
            list(view.blob(whole.digest))
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
        store.close()


def outcome(whole: Whole, database: Path) -> str:
    """Ask for all that is beside the log, and say what came of it."""
    try:
        store = SqliteStore(database)
    except SatchelError as error:
        return type(error).__name__
    try:
        with opened(store, whole.bank, None).reading() as view:
            return _asked(whole, view)
    except SatchelError as error:
        return type(error).__name__
    finally:
        store.close()


def _asked(whole: Whole, view: View) -> str:
    near = [(each.record.id, score) for each, score in view.nearest(GENERATION, [1, 0, 0])]
    assert {name for name, _ in near} <= set(whole.ids)
    assert all(-1 <= score <= 1 for _, score in near)
    assert list(view.blob(whole.digest)) == pieces()
    return "the same" if [name for name, _ in near] == [*whole.ids[1:], whole.ids[0]] else "scores"


def test_a_flipped_byte_beside_the_log_crashes_nothing(whole: Whole, tmp_path: Path) -> None:
    """Fault: a byte of each page with a header, and 100 anywhere but in the blob's pages.

    A blob is right or refused. A vector is nobody's word: a flipped digit moves its record in the
    order, and makes no other one of it.
    """
    chance = random.Random(7)  # noqa: S311 - the same bytes each time
    before = whole.database.read_bytes()
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
            found = outcome(whole, folder / "satchel.db")
        counts[found] = counts.get(found, 0) + 1
        shutil.rmtree(folder)
    assert sum(counts.values()) - counts.get("the same", 0) > len(places) // 20
