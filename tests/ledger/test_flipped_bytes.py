"""One byte of the database changed: it is refused in our words, or makes no difference.

One known gap is less than that. A damaged key of the index by id hides its record from whoever
asks for that id (never from a listing), until the bank is examined.
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


class Whole(NamedTuple):
    """A store that nobody has open, and all that it holds."""

    database: Path
    witness: Path
    bank: str
    records: list[VerifiedRecord]


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    """A bank of some sixty records: retired, linked and indexed ones among them."""
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
    return Whole(database, witness, bank, logged)


def outcome(whole: Whole, database: Path) -> str:
    """Open what is there, list it, and ask for each record; say what came of it.

    That is the name of the error, ``the same``, or the known gap: ``hidden``, where the listing is
    the same, but asked for one id the store does not find it (the examination has to tell).
    """
    try:
        store = SqliteStore(database)
    except SatchelError as error:
        return type(error).__name__
    try:
        with opened(store, whole.bank, whole.witness).reading() as view:
            found = list(view.scan())
            by_id = view.get([logged.record.id for logged in whole.records])
    except SatchelError as error:
        return type(error).__name__
    finally:
        store.close()
    assert found == whole.records
    wanted = {logged.record.id: logged for logged in whole.records}
    assert by_id == {key: wanted[key] for key in by_id}
    if len(by_id) < len(wanted):
        # A key of the index by id: nothing proves that an id is not there, short of a listing.
        # The examination finds it.
        store = SqliteStore(database)
        try:
            assert examine(store, whole.bank).counts[Flaw.INDEX]
        except StoreDamagedError as error:  # so badly that the examination ends there
            return type(error).__name__
        finally:
            store.close()
        return "hidden"
    return "the same"


def flips(
    whole: Whole, places: list[int], change: Callable[[int], int], folder: Path
) -> dict[str, int]:
    """Change each byte by itself; count what came of it."""
    before, counts = whole.database.read_bytes(), dict[str, int]()
    for place in places:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        flipped = bytearray(before)
        flipped[place] ^= change(place)
        database = folder / "satchel.db"
        database.write_bytes(flipped)
        with noting(f"byte {place} of {len(before)}: {before[place]} became {flipped[place]}"):
            found = outcome(whole, database)
        counts[found] = counts.get(found, 0) + 1
    return counts


def flip_some(whole: Whole, seed: int, count: int, folder: Path) -> None:
    """Change a byte of each page and others of chance."""
    chance = random.Random(seed)  # noqa: S311 - the same bytes each time
    size = whole.database.stat().st_size
    places = [start + chance.randrange(PAGE) for start in range(0, size, PAGE)]
    places += [chance.randrange(size) for _ in range(count)]
    with noting(f"seed {seed}"):
        counts = flips(whole, places, lambda _: chance.randrange(1, 256), folder)
    known = counts.get("hidden", 0)
    refused = sum(counts.values()) - counts.get("the same", 0) - known
    assert refused > len(places) // 20, "too few flips were noticed to mean anything"
    assert known < len(places) // 20


def test_a_flipped_byte_is_refused_or_makes_no_difference(whole: Whole, tmp_path: Path) -> None:
    """Fault: one byte of each page, and 200 anywhere; no other outcome, no other kind of error."""
    flip_some(whole, 1, 200, tmp_path / "flipped")


def test_a_flipped_byte_of_a_page_with_records_is_refused_or_makes_no_difference(
    whole: Whole, tmp_path: Path
) -> None:
    """Fault: bytes of what describes the rows: headers, cell pointers, types of columns."""
    chance = random.Random(2)  # noqa: S311 - the same bytes each time
    size = whole.database.stat().st_size
    places = [*range(100), *(page + chance.randrange(16) for page in range(0, size, PAGE))]
    counts = flips(whole, places, lambda _: chance.randrange(1, 256), tmp_path / "flipped")
    assert sum(counts.values()) - counts.get("the same", 0) > len(places) // 4, counts


@pytest.mark.parametrize("column", ["type", "at", "kind", "user", "run", "moment"])
def test_invalid_text_is_reported_as_damage(whole: Whole, column: str) -> None:
    """Fault: bytes that are not UTF-8 where text has to be."""
    connection = apsw.Connection(str(whole.database))
    connection.execute(f"UPDATE record SET {column} = CAST(x'89' AS TEXT) WHERE place & 1023 = 9")  # noqa: S608 - our own names
    connection.close()
    store = SqliteStore(whole.database)
    try:
        with pytest.raises(StoreDamagedError, match="invalid text"):
            listed(opened(store, whole.bank, whole.witness))
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
def test_a_record_is_not_retired_or_brought_back_behind_the_stores_back(
    whole: Whole, edit: str
) -> None:
    """An ordinary listing of what is current leaves out no record, and shows no deleted one."""
    connection = apsw.Connection(str(whole.database))
    assert connection.execute(edit + " RETURNING 1").fetchall()
    connection.close()
    store = SqliteStore(whole.database)
    try:
        ledger = opened(store, whole.bank, whole.witness)
        with pytest.raises(VerificationError), ledger.reading() as view:
            list(view.scan(Filter()))
    finally:
        store.close()


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3, 13))
def test_many_flipped_bytes_are_refused_or_make_no_difference(
    whole: Whole, tmp_path: Path, seed: int
) -> None:
    """Fault: the same, 200 more for each seed."""
    flip_some(whole, seed, 200, tmp_path / "flipped")
