"""A changed byte of the database is refused with a typed error, or makes no difference.

One gap is known: a damaged key of the index by ID hides its record from reads by that ID (never
from a listing), until the bank is audited.
"""

import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from ledger_kit import created, listed, memories, noting, opened

from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError, StoreDamagedError, VerificationError
from satchel.ledger.examination import Flaw, examine
from satchel.ledger.projection import VerifiedRecord
from satchel.model.records import Edge, Status
from satchel.ports.rows import Filter
from satchel.stores.sqlite import SqliteStore

PAGE = 4096


class StoreSample(NamedTuple):
    """A closed store and its expected content."""

    database: Path
    witness: Path
    bank: str
    records: list[VerifiedRecord]


@pytest.fixture
def sample(tmp_path: Path) -> StoreSample:
    """A bank of some sixty records, including retired, linked and indexed ones."""
    database, witness = tmp_path / "whole" / "satchel.db", tmp_path / "witness"
    database.parent.mkdir()
    store = SqliteStore(database)
    bank = created(store).bank
    ledger = opened(store, bank, witness)
    records = memories(50)
    for start in range(0, 50, 10):
        ledger.append(records[start : start + 10])
    ledger.append([seal(Status(target=record.id, state="deleted")) for record in records[:4]])
    ledger.append(
        [
            seal(Edge(source=one.id, target=two.id, kind="similar_to"))
            for one, two in pairwise(records[4:11])
        ]
    )
    with ledger.reading() as view:
        logged = list(view.scan())
    store.close()
    assert [path.name for path in database.parent.iterdir()] == ["satchel.db"], "not checkpointed"
    return StoreSample(database, witness, bank, logged)


def outcome(sample: StoreSample, database: Path) -> str:
    """Open the store, list it, read each record, and return the outcome.

    The name of the error, ``the same``, or the known gap: ``hidden``, if the listing is the same
    but a record is not found by its ID (the audit must report it).
    """
    try:
        store = SqliteStore(database)
    except SatchelError as error:
        return type(error).__name__
    try:
        with opened(store, sample.bank, sample.witness).reading() as view:
            found = list(view.scan())
            by_id = view.get([logged.record.id for logged in sample.records])
    except SatchelError as error:
        return type(error).__name__
    finally:
        store.close()
    assert found == sample.records
    wanted = {logged.record.id: logged for logged in sample.records}
    assert by_id == {key: wanted[key] for key in by_id}
    if len(by_id) < len(wanted):
        # A key of the index by id: nothing proves that an id is not there, short of a listing.
        # The examination finds it.
        store = SqliteStore(database)
        try:
            assert examine(store, sample.bank).counts[Flaw.INDEX]
        except StoreDamagedError as error:  # so badly that the audit stops
            return type(error).__name__
        finally:
            store.close()
        return "hidden"
    return "the same"


def flip_each(
    sample: StoreSample, places: list[int], change: Callable[[int], int], folder: Path
) -> dict[str, int]:
    """Change each byte by itself and count the outcomes."""
    before, counts = sample.database.read_bytes(), dict[str, int]()
    for place in places:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        flipped = bytearray(before)
        flipped[place] ^= change(place)
        database = folder / "satchel.db"
        database.write_bytes(flipped)
        with noting(f"byte {place} of {len(before)}: {before[place]} became {flipped[place]}"):
            found = outcome(sample, database)
        counts[found] = counts.get(found, 0) + 1
    return counts


def flip_some(sample: StoreSample, seed: int, count: int, folder: Path) -> None:
    """Change a byte of each page, and some at random."""
    chance = random.Random(seed)  # noqa: S311 - the same bytes each time
    size = sample.database.stat().st_size
    places = [start + chance.randrange(PAGE) for start in range(0, size, PAGE)]
    places += [chance.randrange(size) for _ in range(count)]
    with noting(f"seed {seed}"):
        counts = flip_each(sample, places, lambda _: chance.randrange(1, 256), folder)
    known = counts.get("hidden", 0)
    refused = sum(counts.values()) - counts.get("the same", 0) - known
    assert refused > len(places) // 20, "too few flips were noticed to mean anything"
    assert known < len(places) // 20


def test_a_flipped_byte_is_refused_or_makes_no_difference(
    sample: StoreSample, tmp_path: Path
) -> None:
    """Fault: one byte of each page and 200 random ones; no other outcome or kind of error."""
    flip_some(sample, 1, 200, tmp_path / "flipped")


def test_a_flipped_byte_of_a_record_page_is_refused_or_makes_no_difference(
    sample: StoreSample, tmp_path: Path
) -> None:
    """Fault: bytes that describe rows: headers, cell pointers, types of columns."""
    chance = random.Random(2)  # noqa: S311 - the same bytes each time
    size = sample.database.stat().st_size
    places = [*range(100), *(page + chance.randrange(16) for page in range(0, size, PAGE))]
    counts = flip_each(sample, places, lambda _: chance.randrange(1, 256), tmp_path / "flipped")
    assert sum(counts.values()) - counts.get("the same", 0) > len(places) // 4, counts


@pytest.mark.parametrize("column", ["type", "at", "kind", "user", "run", "moment"])
def test_invalid_text_is_reported_as_damage(sample: StoreSample, column: str) -> None:
    """Fault: bytes that are not UTF-8 in a text column."""
    connection = apsw.Connection(str(sample.database))
    connection.execute(f"UPDATE record SET {column} = CAST(x'89' AS TEXT) WHERE place & 1023 = 9")  # noqa: S608 - our own names
    connection.close()
    store = SqliteStore(sample.database)
    try:
        with pytest.raises(StoreDamagedError, match="invalid text"):
            listed(opened(store, sample.bank, sample.witness))
    finally:
        store.close()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE record SET retired = NULL WHERE retired IS NOT NULL",
        "UPDATE record SET retired = place & 1023 WHERE place & 1023 = 20",
        "UPDATE record SET hold = 1 WHERE place & 1023 = 20",
        "UPDATE record SET retired = -1 WHERE place & 1023 = 20",
        "UPDATE record SET batch = 3 WHERE place & 1023 = 20",
        "DELETE FROM record WHERE place & 1023 = 20",
        "UPDATE record SET type = 'note' WHERE type = 'status' AND place & 1023 = 52",
    ],
)
def test_an_edited_status_column_hides_or_restores_no_record(
    sample: StoreSample, edit: str
) -> None:
    """An ordinary listing omits no current record and shows no deleted one."""
    connection = apsw.Connection(str(sample.database))
    assert connection.execute(edit + " RETURNING 1").fetchall()
    connection.close()
    store = SqliteStore(sample.database)
    try:
        ledger = opened(store, sample.bank, sample.witness)
        with pytest.raises(VerificationError), ledger.reading() as view:
            list(view.scan(Filter()))
    finally:
        store.close()


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3, 13))
def test_many_flipped_bytes_are_refused_or_make_no_difference(
    sample: StoreSample, tmp_path: Path, seed: int
) -> None:
    """Fault: the same, 200 more for each seed."""
    flip_some(sample, seed, 200, tmp_path / "flipped")
