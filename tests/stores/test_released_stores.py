"""Every store that was ever released is opened, proved, added to and copied by this version."""

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from ledger_kit import listed, memories, opened

from satchel.ports.rows import Filter
from satchel.ports.vectors import Generation
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.statements import VERSION

RELEASED = Path(__file__).parent.parent / "data" / "released"
STORES = sorted(RELEASED.glob("store-*.db"))


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def released(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A copy of a released store, and its expected content."""
    path = tmp_path / "satchel.db"
    shutil.copy(request.param, path)
    return path, json.loads(request.param.with_suffix(".json").read_text())


def require_all(store: SqliteStore, told: Any) -> None:
    """Require that every record verifies under the old head, with the same query results."""
    ledger = opened(store, told["bank"], None)
    with ledger.reading() as view:
        assert (view.head.size, view.head.root) == (told["size"], told["root"])
        assert [logged.record.id for logged in view.scan()] == told["all"]
        assert [logged.record.id for logged in view.scan(Filter())] == told["current"]
        near = view.nearest(Generation("model", 3), [1, 0, 0])
        assert [found.record.id for found, _ in near] == told["near"]
        assert b"".join(view.blob(told["blob"])) == b"a blob"
        assert [found.record.id for found, _ in view.candidates("金曜日")] == told["friday"]


def test_this_version_has_a_released_store() -> None:
    """A change of the tables needs a new file: tests/data/released/make.py."""
    assert f"store-{VERSION}" in [path.stem for path in STORES]


def test_a_released_store_is_upgraded_verified_and_extended(released: tuple[Path, Any]) -> None:
    """Every step of the upgrade runs on open."""
    path, told = released
    store = SqliteStore(path)
    require_all(store, told)
    ledger = opened(store, told["bank"], None)
    assert ledger.append(memories(2, 900)) == [told["size"], told["size"] + 1]
    store.close()
    store = SqliteStore(path)
    assert len(listed(opened(store, told["bank"], None))) == told["size"] + 2
    store.close()


def test_a_released_store_of_this_version_is_read_in_place() -> None:
    """Read only, from the folder of the samples, which does not change."""
    path = RELEASED / f"store-{VERSION}.db"
    before = sorted(RELEASED.iterdir()), path.read_bytes()
    store = SqliteStore(path, read_only=True)
    require_all(store, json.loads(path.with_suffix(".json").read_text()))
    store.close()
    assert (sorted(RELEASED.iterdir()), path.read_bytes()) == before


def test_upgraded_stores_have_the_tables_of_new_ones(
    released: tuple[Path, Any], tmp_path: Path
) -> None:
    """Changed tables without a new version, or an incomplete step, are detected.

    The index of names needs no new version: the first write creates it.
    """
    path, _ = released
    for each in (path, tmp_path / "new.db"):
        store = SqliteStore(each)
        with store.writing():
            pass
        store.close()
    assert _tables(path) == _tables(tmp_path / "new.db")


def _tables(path: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    try:
        found = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    finally:
        connection.close()
    return sorted((kind, name, " ".join(str(sql).split())) for kind, name, sql in found)
