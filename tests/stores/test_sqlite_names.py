"""The index of bank names in a SQLite file: it is optional, and never trusted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from ledger_kit import OWNER, WRITER, memories

from satchel.bank.open_bank import banks_called, find_bank, name_of, named_banks
from satchel.ledger.authority import rename_record
from satchel.ledger.ledger import Ledger
from satchel.ports.rows import bank_name_bytes
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.statements import NAME_INDEX, has_names

AT = "2026-03-01T09:30:00.000001Z"
DROP = "DROP INDEX record_name"
NAMES = ("one", "two", "three", "four", "nobody")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with banks, one of which was renamed."""
    path = tmp_path / "satchel.db"
    store = SqliteStore(path)
    made = [_founded(store, name) for name in ("one", "two", "three")]
    made[2].append([rename_record(made[2].bank, "four", OWNER, AT)])
    store.close()
    return path


def _founded(store: SqliteStore, name: str) -> Ledger:
    return Ledger.create(store, owner=OWNER, writer=WRITER, name=name)


def _sql(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for sql in statements:
        connection.execute(sql)
    connection.close()


def _banks_by_name(store: SqliteStore) -> dict[str, list[str]]:
    return {name: found for name in NAMES if (found := banks_called(store, name))}


def _is_indexed(store: SqliteStore) -> bool:
    return has_names(store._connection())


def test_an_older_file_gets_its_name_index_with_the_first_write(
    path: Path,
) -> None:
    """Until then names are found without it; a reader changes nothing."""
    _sql(path, DROP)
    before = path.read_bytes()
    store = SqliteStore(path, read_only=True)
    assert _banks_by_name(store) == named_banks(store)
    assert not _is_indexed(store)
    store.close()
    assert path.read_bytes() == before
    store = SqliteStore(path)
    assert not _is_indexed(store)
    with store.writing():
        pass
    assert _is_indexed(store)
    assert _banks_by_name(store) == named_banks(store)
    assert store.check() == []
    store.close()


def test_writes_past_this_program_update_the_name_index(path: Path) -> None:
    """SQLite maintains it: new and changed rows are found."""
    _sql(
        path,
        "UPDATE record SET body = CAST(replace(body, 'one', 'uno') AS BLOB) WHERE type = 'bank'",
    )
    store = SqliteStore(path)
    with store.reading() as reader:
        assert reader.named(bank_name_bytes("one")) == []
        assert len(reader.named(bank_name_bytes("uno"))) == 1
    assert store.check() == []
    store.close()


_OTHER = "CREATE INDEX record_name ON record (substr(body, 1, 9)) WHERE type = 'edge'"


@pytest.mark.parametrize("index", [_OTHER, "CREATE INDEX record_name ON record (id)"])
def test_attack_another_index_under_that_name_is_not_used(path: Path, index: str) -> None:
    """Attack: it exists, and does not contain the names."""
    _sql(path, DROP, index)
    store = SqliteStore(path)
    with store.writing():
        pass
    assert not _is_indexed(store)
    assert _banks_by_name(store) == named_banks(store)
    store.close()


def _replace_index(path: Path, index: str = _OTHER) -> None:
    """Give an index the right definition, and other contents."""
    connection = apsw.Connection(str(path))
    connection.execute(f"{DROP}; {index}; PRAGMA writable_schema = 1")
    sql = "UPDATE sqlite_schema SET sql = ? WHERE name = 'record_name'"
    connection.execute(sql, (NAME_INDEX,))
    connection.close()


_WITHOUT_THE_SECOND = NAME_INDEX.replace("WHERE (", "WHERE place >> 40 <> 2 AND (")


@pytest.mark.parametrize(
    "forge", [_replace_index, partial(_replace_index, index=_WITHOUT_THE_SECOND)]
)
def test_attack_a_forged_index_hides_no_bank(path: Path, forge: Callable[[Path], None]) -> None:
    """Attack: names are removed from it; they are found, and it is reported."""
    forge(path)
    store = SqliteStore(path)
    assert _is_indexed(store)
    assert _banks_by_name(store) == named_banks(store)
    assert any("record_name" in problem for problem in store.check())
    store.close()


def test_attack_a_forged_index_leads_to_no_bank_of_another_name(path: Path) -> None:
    """Attack: each name points to another bank; rows are checked, then verified."""
    _replace_index(path, _swapped_index())
    store = SqliteStore(path)
    assert _is_indexed(store)
    assert _banks_by_name(store) == named_banks(store)
    store.close()


def _swapped_index() -> str:
    """Return an index in which every row has the name of the first bank."""
    said = bank_name_bytes("one").hex()
    return f"CREATE INDEX record_name ON record (X'{said}') WHERE {NAME_INDEX.split(' WHERE ')[1]}"


def test_a_damaged_file_is_written_without_an_index(path: Path) -> None:
    """Names that cannot be indexed do not prevent other writes."""
    _sql(path, DROP)
    connection = apsw.Connection(str(path))
    sql = "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'record'"
    found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    ((page, size),) = found
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 8)
    store = SqliteStore(path)
    with store.writing() as writing:
        writing.put_side("", {"x": b"y"})
    with store.reading() as reader:
        assert reader.side("") == {"x": b"y"}
    store.close()


def test_the_name_of_a_removed_bank_leaves_no_bytes(path: Path) -> None:
    """Not in the index either, once the store was scrubbed; others keep theirs."""
    store = SqliteStore(path)
    bank = _founded(store, "Rumpelstiltskin").bank
    with store.writing() as writing:
        writing.remove(bank)
    store.scrub()
    found = named_banks(store)
    store.close()
    assert b"Rumpelstiltskin" not in b"".join(one.read_bytes() for one in path.parent.iterdir())
    assert found.keys() == {"one", "two", "four"}


def test_a_name_is_verified_without_reading_the_bank(path: Path) -> None:
    """Counted in virtual machine steps of SQLite: a bank of 1,000 memories takes as many."""
    store, taken = SqliteStore(path), list[int]()
    for count in (2, 1000):
        bank = _founded(store, "long")
        bank.append(memories(count))
        with store.reading() as reader:
            taken.append(_steps(store, partial(name_of, reader, bank.bank)))
    few, many = taken
    assert many <= 2 * few
    store.close()


def _steps(store: SqliteStore, work: Callable[[], object]) -> int:
    """Return how many virtual machine steps an action takes, in tens."""
    connection, taken = store._connection(), list[int]()

    def count() -> bool:
        taken.append(1)
        return False

    connection.set_progress_handler(count, 10)
    work()
    connection.set_progress_handler(None)
    return len(taken)


def test_a_name_among_500_banks_takes_no_more_than_among_5(tmp_path: Path) -> None:
    """Counted the same way; without the index it takes more."""
    taken = list[int]()
    for number in (5, 500):
        store = SqliteStore(tmp_path / f"{number}.db")
        for each in range(number):
            _founded(store, f"bank {each}")
        taken.append(_steps(store, partial(find_bank, store, "bank 3")))
        store._connection().execute(DROP)
        taken.append(_steps(store, partial(find_bank, store, "bank 3")))
        store.close()
    few, few_without, many, many_without = taken
    assert many <= few + 20
    assert many_without > 10 * many > few_without
