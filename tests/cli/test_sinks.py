"""``satchel sink``: the log of a bank is copied to a database or files, at least once."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ledger_kit import memories
from pyarrow import parquet
from transfer_kit import append, new_bank

from satchel.api.store import Satchel
from satchel.bank.connections import configured_store, open_ledger
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import UsageError, VerificationError
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Erasure, Source
from satchel.model.values import now
from satchel.ports.sinks import COLUMNS, Sink
from satchel.replication import sinks
from satchel.replication.sinks import (
    FollowOptions,
    ObjectFiles,
    SegmentSink,
    as_jsonl,
    follow,
    follow_once,
    open_sink,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Run


class _KilledError(BaseException):
    """An exception that no handler catches."""


def rows_in(address: str) -> list[dict[str, Any]]:
    """Return the rows of a sink, in log order."""
    kind, _, rest = address.partition(":///")
    found: list[dict[str, Any]] = []
    if kind == "sqlite":
        with sqlite3.connect(rest) as connection:
            cursor = connection.execute("SELECT * FROM satchel_log ORDER BY bank, seq")
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor]
        connection.close()
    elif kind == "parquet":
        for path in sorted(Path(rest).rglob("*.parquet")):
            found += parquet.read_table(path).to_pylist()
    elif kind == "file":
        for path in sorted(Path(rest).rglob("*.jsonl")):
            found += [json.loads(line) for line in path.read_bytes().splitlines()]
    else:
        import psycopg

        with psycopg.connect(address) as there:
            cursor = there.execute("SELECT * FROM satchel_log ORDER BY bank, seq")
            names = [column.name for column in cursor.description or ()]
            found = [dict(zip(names, row, strict=True)) for row in cursor]
    return [{name: value for name, value in row.items() if value is not None} for row in found]


_POSTGRES = pytest.param("postgresql", marks=pytest.mark.prove)  # it takes seconds to start


@pytest.fixture(params=["sqlite", "parquet", "file", _POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty sink of each kind."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("postgres")
        import psycopg

        with psycopg.connect(found) as there:
            there.execute("DROP TABLE IF EXISTS satchel_log, satchel_sink")
        return found
    return f"{request.param}:///{tmp_path / 'out'}"


def follow_into(address: str, bank: str | None = None) -> Any:
    """Follow once."""
    sink = open_sink(load_settings(), address)
    try:
        return follow_once(load_settings(), sink, FollowOptions(bank=bank))
    finally:
        sink.close()


def test_each_record_is_written_as_a_row_in_log_order(satchel: Run, address: str) -> None:
    """Memories and statuses; a second run writes only new rows."""
    satchel("init")
    first = satchel("remember", "likes tea\x1f 東京", "--tag", "a", "--user", "ada").out.strip()
    satchel("update", first, "likes coffee")
    assert follow_into(address)[0].rows == 5
    second = satchel("list", "--json").json["memories"][0]["id"]
    satchel("forget", second, "--reason", "over")

    assert follow_into(address)[0].rows == 1
    assert follow_into(address)[0].rows == 0

    found = rows_in(address)
    assert [row["seq"] for row in found] == list(range(6))
    assert [row["type"] for row in found[2:]] == ["semantic", "semantic", "status", "status"]
    assert (found[2]["id"], found[2]["text"]) == (first, "likes tea\x1f 東京")
    assert (found[2]["user"], json.loads(found[2]["tags"])) == ("ada", ["a"])
    states = [(row["state"], row["target"], row.get("by")) for row in found[4:]]
    assert states == [("superseded", first, second), ("deleted", second, None)]
    assert found[5]["reason"] == "over"
    assert set().union(*found) <= set(COLUMNS)


def test_an_interrupted_run_misses_no_record(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between any two writes; rows may repeat."""
    monkeypatch.setattr(sinks, "TOGETHER", 7)
    append(new_bank(), memories(40))
    for most in (0, 1, 3):
        sink, calls = open_sink(load_settings(), address), iter(range(100))
        real = sink.write

        def write(
            bank: str, rows: Any, real: Any = real, calls: Any = calls, most: int = most
        ) -> None:
            if next(calls) == most:
                raise _KilledError
            real(bank, rows)

        monkeypatch.setattr(sink, "write", write, raising=False)
        with pytest.raises(_KilledError):
            follow_once(load_settings(), sink, FollowOptions())
        sink.close()

    follow_into(address)

    assert sorted({row["seq"] for row in rows_in(address)}) == list(range(42))


def test_a_sink_waits_for_an_incomplete_import(address: str) -> None:
    """Later records are written after it."""
    bank, settings = new_bank(), load_settings()
    append(bank, memories(2))
    source = seal(Source(provider="mem0", format="mem0"))
    with configured_store(settings) as store:
        ledger = open_ledger(settings, store, bank, writes=True)
        ledger.append([source])
        ledger.append(memories(3, 10), batch=source.id)
        ledger.append(memories(1, 20))
        done = follow_into(address)[0]
        assert (done.seq, done.waiting) == (3, 6)
        ledger.append([closing_receipt(source.id, now())])
    done = follow_into(address)[0]
    assert done.waiting == 0
    assert [row["seq"] for row in rows_in(address)] == list(range(done.seq + 1))
    assert sum(row["type"] == "semantic" for row in rows_in(address)) == 6


def test_a_sink_of_another_history_is_refused(address: str, tmp_path: Path) -> None:
    """The store was restored from a backup and diverged."""
    bank = new_bank()
    store = load_settings().home / "satchel.db"
    copy = tmp_path / "copy.db"
    with configured_store(load_settings()) as opened:
        opened.copy_to(copy)  # type: ignore[attr-defined]  # SQLite can
    append(bank, memories(3))
    follow_into(address)
    for path in store.parent.glob("satchel.db*"):
        path.unlink()
    copy.rename(store)
    for path in Path(os.environ["SATCHEL_WITNESS"]).rglob("*"):
        if path.is_file():
            path.unlink()
    append(bank, memories(4, 50))

    with pytest.raises(VerificationError, match="another history"):
        follow_into(address)


def test_erased_text_is_deleted_from_a_database_sink(satchel: Run, tmp_path: Path) -> None:
    """The row remains, without its text."""
    satchel("init")
    first = satchel("remember", "Ada lives in Paris", "--user", "ada").out.strip()
    address = f"sqlite:///{tmp_path / 'out.db'}"
    follow_into(address)
    satchel("forget", first)
    with configured_store(load_settings()) as store, store.reading() as reader:
        bank = reader.banks()[0]
    with configured_store(load_settings()) as store:
        ledger = open_ledger(load_settings(), store, bank, writes=True)
        ledger.append([seal(Erasure(entry=first, at=now()))])

    follow_into(address)

    row = next(row for row in rows_in(address) if row["id"] == first)
    assert "text" not in row
    assert next(row for row in rows_in(address) if row["type"] == "erasure")["target"] == first


def test_follow_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """Records that are appended during the run are written."""
    bank, stop = new_bank(), threading.Event()
    append(bank, memories(1))
    sink, seen = open_sink(load_settings(), f"file:///{tmp_path / 'out'}"), list[int]()

    def told(done: Any) -> None:
        seen.append(done.seq)
        if len(seen) == 1:
            append(bank, memories(2, 10))
        else:
            stop.set()

    follow(load_settings(), sink, FollowOptions(interval=0.01, on_result=told, stop=stop))

    assert seen == [2, 4]


def test_python_follows_as_the_command_does(tmp_path: Path) -> None:
    """A second call writes only new rows."""
    append(new_bank(), memories(2))
    address = f"file:///{tmp_path / 'out'}"
    with Satchel.open() as satchel:
        assert [done.rows for done in satchel.sink(address)] == [4]
        assert [done.rows for done in satchel.sink(address)] == [0]


def test_a_sink_writes_to_object_storage() -> None:
    """In memory, by the driver that also supports S3."""
    append(new_bank(), memories(3))
    files = ObjectFiles("memory://")
    sink: Sink = SegmentSink(files, as_jsonl, "jsonl")
    follow_once(load_settings(), sink, FollowOptions())
    again: Sink = SegmentSink(files, as_jsonl, "jsonl")

    done = follow_once(load_settings(), again, FollowOptions())

    assert (done[0].rows, done[0].seq) == (0, 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "ftp://x",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x",
        "file:///a?b",
        "parquet+x://",
    ],
)
def test_an_invalid_sink_address_is_refused(text: str) -> None:
    """Before anything is opened."""
    with pytest.raises(UsageError):
        open_sink(load_settings(), text)


def test_a_store_is_refused_as_a_sink(satchel: Run) -> None:
    """An attack, or a mistake: the target is the followed store."""
    satchel("init")
    store = load_settings().home / "satchel.db"
    before = store.read_bytes()
    ran = satchel("sink", "run", f"sqlite:///{store}", "--json")
    assert (ran.status, ran.error["code"]) == (5, "target.failed")
    assert store.read_bytes() == before


def test_attack_a_sink_file_is_a_link(tmp_path: Path) -> None:
    """It leads to another file of the user."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out.db").symlink_to(victim)
    append(new_bank(), memories(1))

    with pytest.raises(Exception, match="link"):
        follow_into(f"sqlite:///{tmp_path / 'out.db'}")

    assert victim.read_text() == "mine"


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["sqlite", "parquet", "file"])
def test_a_sink_killed_at_any_moment_misses_no_record(
    process: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, kind: str
) -> None:
    """Twenty kills of a following process, while the bank grows."""
    bank, chance = new_bank(), random.Random(3)  # noqa: S311 - the same moments in every run
    address = f"{kind}:///{tmp_path / 'out'}"
    for turn in range(20):
        append(bank, memories(300, 1000 * turn))
        running = process("sink", "run", address, "--follow", "--interval", "0.05")
        with pytest.raises(subprocess.TimeoutExpired):  # it follows until it is stopped
            running.communicate(timeout=chance.uniform(0.3, 1.5))
        running.send_signal(signal.SIGKILL)
        running.communicate()
    follow_into(address)
    assert sorted({row["seq"] for row in rows_in(address)}) == list(range(2 + 20 * 300))
