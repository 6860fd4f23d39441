"""The cost of encryption at rest: the same work on the same store, in plain and encrypted."""

import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from benchmarks import data
from benchmarks.measure import Table, best_of, report
from satchel.crypto.encryption import StoreKey
from satchel.crypto.sealed_records import Sealed
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.stores.sqlite import SqliteStore, encryption

GROUP = 1000
MANY, FEW = 50_000, 300
BOUND = 1.6
ROUNDS = 3

_KEYS = {"plain": None, "encrypted": StoreKey(bytes(range(32)), b"")}


def test_both_stores_do_the_same_work(tmp_path: Path) -> None:
    """The work of the measurement below, once, on a small input."""
    assert set(_costs(tmp_path, FEW, rounds=1)) == {"appending", "reading all", "opening"}


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_an_encrypted_store_costs_little_more(tmp_path: Path) -> None:
    """Appends in groups, a full read without the cache, an open: against the plain store."""
    costs = _costs(tmp_path, MANY, rounds=ROUNDS)
    rows: list[list[object]] = [
        [
            name,
            times["plain"] * 1000,
            times["encrypted"] * 1000,
            times["encrypted"] / times["plain"],
        ]
        for name, times in costs.items()
    ]
    report(
        "at rest",
        Table(
            f"{MANY:,} entries, at rest",
            ["", "in plain, ms", "encrypted, ms", "times"],
            rows,
            f"Bound: at most {BOUND} times, but for opening, which takes less than a millisecond.",
        ),
    )
    for name in ("appending", "reading all"):
        assert costs[name]["encrypted"] / costs[name]["plain"] <= BOUND


def _costs(folder: Path, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return seconds by operation and kind of store."""
    records = [*data.sealed(data.entries(size))]
    appending = dict.fromkeys(_KEYS, float("inf"))
    for turn in range(rounds):
        for name in _KEYS:
            place = folder / f"{name}{turn}"
            place.mkdir()
            start = time.perf_counter()
            _append(place, name, records)
            appending[name] = min(appending[name], time.perf_counter() - start)
    _rewritten(folder / "plain0" / "store.db")
    reading = best_of({name: partial(_read, folder, name, size) for name in _KEYS}, rounds)
    opening = best_of({name: partial(_open, folder, name) for name in _KEYS}, 20)
    return {"appending": appending, "reading all": reading, "opening": opening}


def _append(folder: Path, name: str, records: list[Sealed]) -> None:
    with closing(SqliteStore(folder / "store.db", key=_KEYS[name])) as store:
        witness = Witness(folder / "witness")
        ledger = Ledger.create(store, owner=data.KEY, writer=data.KEY, witness=witness)
        for start in range(0, len(records), GROUP):
            ledger.append(records[start : start + GROUP])


def _rewritten(path: Path) -> None:
    """Encrypt a store and decrypt it again, as the commands do."""
    key = _KEYS["encrypted"]
    encryption.rewrite_with_key(path, None, key, first=lambda: None, last=lambda: None)
    encryption.rewrite_with_key(path, key, None, first=lambda: None, last=lambda: None)


def _opened(folder: Path, name: str) -> SqliteStore:
    return SqliteStore(folder / f"{name}0" / "store.db", read_only=True, key=_KEYS[name])


def _open(folder: Path, name: str) -> None:
    _opened(folder, name).close()


def _read(folder: Path, name: str, size: int) -> None:
    with closing(_opened(folder, name)) as store, store.reading() as reader:
        (bank,) = reader.banks()
        assert sum(row.body is not None for row in reader.at(bank, range(size))) == size
