"""A PostgreSQL server that is gone, busy, restarted, of another version, or refuses."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer

import psycopg
import pytest
from ledger_kit import OWNER, WRITER, created, listed, memories
from postgres_kit import as_role, run_sql, schema_of, server

from satchel.bank.connections import open_store
from satchel.cli import _console
from satchel.conformance.stores.oracle import ALL, BANK
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    MissingExtraError,
    SatchelError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
    UsageError,
)
from satchel.ledger.decisions import Decider
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Semantic
from satchel.stores.postgres import PostgresStore, store_is_created
from satchel.stores.postgres.statements import VERSION

_SECRET = "hunter2-hunter2"  # noqa: S105 - not a real one
_KIT = Path(__file__).parents[2] / "kit"
_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'satchel'"""


@pytest.fixture
def store(place: str) -> Iterator[PostgresStore]:
    """A new store."""
    found = PostgresStore(place)
    yield found
    found.close()


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ada:{_SECRET}@/nowhere?host=/nonexistent",
        f"postgresql://ada:{_SECRET}@127.0.0.1:1/nowhere",
        f"postgresql://ada:{_SECRET}@/x?host=/nonexistent&bogus=1",
        f"postgresql://ada:{_SECRET}@/x?schema=A'B",
        f"postgresql://ada:{_SECRET}@[::1/x",
        f"mysql://ada:{_SECRET}@h/x",
    ],
)
def test_error_messages_never_contain_the_password(address: str) -> None:
    """Neither for an unreachable server, nor for an invalid address, nor in a repr."""
    with pytest.raises(SatchelError) as refused:
        PostgresStore(address, patience=0)
    error: BaseException | None = refused.value
    while error is not None:
        assert _SECRET not in f"{error!r} {error} {getattr(error, 'hint', '')}"
        error = error.__cause__
    assert refused.value.code in {"store.failed", "usage"}


def test_a_missing_role_is_reported_without_its_password(postgres: str) -> None:
    """As the server refuses it, not as it was requested."""
    with pytest.raises(StoreError) as refused:
        PostgresStore(as_role(postgres, "nobody_at_all", _SECRET), patience=0)
    assert _SECRET not in f"{refused.value!r} {refused.value}"


def test_a_connection_that_the_server_ended_between_blocks_is_replaced(
    store: PostgresStore, postgres: str
) -> None:
    """Without an error, for reading and for writing."""
    ledger = created(store)
    for start in (0, 5):
        run_sql(postgres, _OTHERS)
        ledger.append(memories(5, start=start))
        run_sql(postgres, _OTHERS)
        assert len(listed(ledger)) == 7 + start


def test_a_connection_that_ends_within_a_block_rolls_it_back(
    store: PostgresStore, postgres: str
) -> None:
    """It is reported, and the next block succeeds."""
    ledger = created(store)
    with pytest.raises(StoreError) as told, store.writing() as writing:  # noqa: PT012 - one block that fails at its end
        writing.put_side(ledger.bank, {"note": b"one"})
        run_sql(postgres, _OTHERS)
        writing.put_side(ledger.bank, {"note": b"two"})
    assert told.value.code == "store.failed"
    with store.reading() as reader:
        assert reader.side(ledger.bank) == {}
    ledger.append(memories(1))


def test_a_writer_waits_for_a_busy_bank_and_then_fails(place: str, store: PostgresStore) -> None:
    """For the configured time; a writer of another bank does not wait."""
    one, other = created(store), created(store)
    impatient = PostgresStore(place, busy_ms=50)
    with store.writing() as writing:
        writing.put_side(one.bank, {"note": b"one"})
        with pytest.raises(StoreBusyError):
            Ledger(impatient, one.bank, writer=WRITER).append(memories(1))
        Ledger(impatient, other.bank, writer=WRITER).append(memories(1))
    Ledger(impatient, one.bank, writer=WRITER).append(memories(1))
    impatient.close()


def test_a_deadlock_is_resolved(place: str, store: PostgresStore) -> None:
    """One writer gets the error that the store is busy; the other continues."""
    one, other = created(store).bank, created(store).bank
    beside = PostgresStore(place)
    outcomes, meet = list[str](), threading.Barrier(2, timeout=30)

    def work(mine: PostgresStore, first: str, second: str) -> None:
        try:
            with mine.writing() as writing:
                writing.put_side(first, {"note": b"x"})
                meet.wait()
                writing.put_side(second, {"note": b"x"})
            outcomes.append("done")
        except StoreBusyError as error:
            outcomes.append(error.code)

    threads = [
        threading.Thread(target=work, args=given)
        for given in ((store, one, other), (beside, other, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    beside.close()
    assert sorted(outcomes) == ["done", "store.busy"]


def test_two_machines_with_separate_keys_and_witnesses_write_one_log(
    place: str, store: PostgresStore, tmp_path: Path
) -> None:
    """In turns, through separate stores: each verifies what the other wrote."""
    second = SigningKey.from_seed(b"2" * 32)
    bank = created(store, Witness(tmp_path / "one")).bank
    beside = PostgresStore(place)
    seen = Witness(tmp_path / "one")
    Decider(store=store, bank=bank, owner=OWNER, writer=WRITER, witness=seen).admit(second.did)
    trusted = frozenset([OWNER.did])
    one = Ledger(store, bank, writer=WRITER, witness=seen, trusted=trusted)
    other = Witness(tmp_path / "two")
    two = Ledger(beside, bank, writer=second, witness=other, trusted=trusted)
    added = list[str]()
    for turn in range(6):
        records = memories(3, start=turn * 3)
        (one, two)[turn % 2].append(records)
        added += [record.id for record in records]
    assert listed(one)[-len(added) :] == listed(two)[-len(added) :] == added
    last = [witness.last(bank) for witness in (seen, other)]
    assert None not in last
    beside.close()


def test_readers_create_nothing(place: str, postgres: str) -> None:
    """Not even a schema."""
    assert not store_is_created(place)
    with pytest.raises(StoreVersionError, match="empty"):
        PostgresStore(place, read_only=True)
    schema = schema_of(place)
    assert run_sql(postgres, f"SELECT to_regnamespace('{schema}')") == [(None,)]
    PostgresStore(place).close()
    assert store_is_created(place)


def test_a_newer_store_and_foreign_tables_are_refused(place: str, postgres: str) -> None:
    """For reading and writing; also by a program that had the store open before."""
    store = PostgresStore(place)
    schema = schema_of(place)
    run_sql(postgres, f"UPDATE {schema}.store SET version = {VERSION + 1}")  # noqa: S608 - our own names
    with pytest.raises(StoreVersionError, match="newer"), store.writing():
        pass
    store.close()
    for read_only in (True, False):
        with pytest.raises(StoreVersionError):
            PostgresStore(place, read_only=read_only)
    run_sql(postgres, f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")
    run_sql(postgres, f"CREATE TABLE {schema}.record (a int)")
    with pytest.raises(StoreVersionError, match="not Satchel's"):
        PostgresStore(place)


def test_missing_and_changed_tables_are_distinguished_with_hints(place: str, postgres: str) -> None:
    """The hint is not to open the store for writing, which would make an empty one."""
    store, schema = PostgresStore(place), schema_of(place)
    run_sql(postgres, f"ALTER TABLE {schema}.side RENAME COLUMN value TO other")
    match = "column or a function is missing"
    with pytest.raises(StoreError, match=match) as changed, store.reading() as reader:
        reader.side(BANK)
    run_sql(postgres, f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
    with pytest.raises(StoreError, match="dropped or renamed") as gone, store.reading() as reader:
        reader.banks()
    for error in (changed.value, gone.value):
        assert "restore" in (error.hint or "")
        assert "once for writing" not in (error.hint or "")
    run_sql(postgres, f"ALTER SCHEMA {schema}_away RENAME TO {schema}")
    store.close()


def test_an_older_postgresql_store_is_upgraded_once_and_a_copy_is_kept(
    place: str, postgres: str, store: PostgresStore
) -> None:
    """In one transaction; reading changes nothing, and steps that lose data are refused."""
    ledger = created(store)
    ledger.append(memories(20))
    before, schema = listed(ledger), schema_of(place)
    run_sql(postgres, f"UPDATE {schema}.store SET version = 0", f"DROP INDEX {schema}.record_run")  # noqa: S608 - our own names
    step = "CREATE INDEX record_run ON record (bank, substr(run, 1, 100), seq)"
    with pytest.raises(StoreVersionError, match="upgrade"):
        PostgresStore(place, read_only=True)
    with pytest.raises(StoreVersionError, match="cannot upgrade"):
        PostgresStore(place)
    with pytest.raises(StoreError, match="lose"):
        PostgresStore(place, steps={0: "DELETE FROM record WHERE seq = 5"})
    assert run_sql(postgres, f"SELECT version FROM {schema}.store") == [(0,)]  # noqa: S608 - our own names

    newer = PostgresStore(place, steps={0: step})
    assert newer.migration_backup is not None
    assert run_sql(postgres, f"SELECT version FROM {newer.migration_backup}.store") == [(0,)]  # noqa: S608 - our own names
    assert run_sql(postgres, f"SELECT count(*) FROM {newer.migration_backup}.record") == [(22,)]  # noqa: S608 - our own names
    again = PostgresStore(place, steps={0: step})
    assert again.migration_backup is None
    assert listed(Ledger(again, ledger.bank, writer=None)) == before
    run_sql(postgres, f"DROP SCHEMA {newer.migration_backup} CASCADE")
    again.close()
    newer.close()


def test_a_commit_is_synced_to_disk_for_any_role_settings(place: str) -> None:
    """Acknowledged is durable: synchronous commit is set for each transaction."""
    sql = "SELECT current_setting('synchronous_commit')"
    beside = PostgresStore(f"{place}&options=-csynchronous_commit%3Doff")
    with beside.writing() as writing:
        assert writing._all(sql) == [("on",)]
    with beside.reading() as reader:
        assert reader._all(sql) == [("off",)]
    beside.close()


def test_a_block_with_a_suppressed_error_is_not_committed(store: PostgresStore) -> None:
    """It reports so at its end."""
    bank = created(store).bank
    with pytest.raises(StoreError, match="rolled back"), store.writing() as writing:  # noqa: PT012 - one block that fails at its end
        writing.put_side(bank, {"note": b"one"})
        with pytest.raises(StoreError):
            writing._all("SELECT 1 / 0")
    with store.reading() as reader:
        assert reader.side(bank) == {}


def test_nested_blocks_of_a_thread(store: PostgresStore) -> None:
    """A nested read sees the outer block's writes; a nested write is refused, not a deadlock."""
    bank = created(store).bank
    with store.writing() as writing:
        writing.put_side(bank, {"note": b"one"})
        with store.reading() as reader:
            assert reader.side(bank) == {"note": b"one"}
        with pytest.raises(UsageError), store.writing():
            pass
        with pytest.raises(UsageError):
            store.scrub()
    with pytest.raises(StoreError, match="over"):
        reader.side(bank)


def test_abandoned_listings_have_no_effect(store: PostgresStore) -> None:
    """Also those begun in an append that was refused."""
    ledger = created(store)
    ledger.append(memories(600))
    with store.writing() as writing:
        left = [writing.scan(ledger.bank, ALL) for _ in range(40)]
        assert {next(each).seq for each in left} == {0}
        with pytest.raises(RuntimeError), writing._whole():  # noqa: PT012 - one block that fails at its end
            lost = writing.scan(ledger.bank, ALL)
            next(lost)
            raise RuntimeError
        del lost, left
        assert sum(writing.counts(ledger.bank).values()) == 602


def test_a_child_process_has_its_own_connections(place: str) -> None:
    """An open view is the parent's; the child reads and writes through new connections."""
    program = """
import os, sys
from ledger_kit import created, listed, memories, opened
from satchel.errors import StoreError
from satchel.stores.postgres import PostgresStore

store = PostgresStore(sys.argv[1])
ledger = created(store)
ledger.append(memories(3))
with store.reading() as reader:
    assert reader.banks()
    if not (child := os.fork()):
        try:
            reader.banks()
        except StoreError:
            opened(store, ledger.bank, None).append(memories(3, start=3))
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sum(reader.counts(ledger.bank).values()) == 5
assert len(listed(ledger)) == 8
ledger.append(memories(1, start=9))
store.close()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_KIT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, place],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_row_with_too_many_words_for_the_index_is_found(
    store: PostgresStore,
) -> None:
    """By each word, by several and by prefix, beyond the limit of a tsvector."""
    text = " ".join(f"{number:x}{'qrstuvwxyz' * 10}" for number in range(9_500))
    ledger = created(store)
    ledger.append([seal(Semantic(text=f"{text} harbour 緑茶 金曜日")), *memories(3)])
    with store.reading() as reader:
        for words in ("harbour", "金曜日", "茶", f"1f{'qrstuvwxyz' * 10}"):
            assert [place for place, _ in reader.candidates(ledger.bank, words, limit=9)] == [2]
        assert reader.candidates(ledger.bank, "曜日金曜", limit=9) == []


def test_without_the_driver_the_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only a missing module."""
    for name in list(sys.modules):
        if name == "psycopg" or name.startswith(("psycopg.", "satchel.stores.postgres")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError) as missing:
        open_store("postgresql://ada@h/x")
    assert "satchel[postgres]" in (missing.value.hint or "")


def test_the_log_is_searched_before_the_tables_that_it_updates(store: PostgresStore) -> None:
    """Race: a checkpoint in between could hide data from both searches."""
    created(store).append(memories(3))
    kinds = [extent.name.startswith("pg_wal/") for extent in store.laid_open()]
    logs = kinds.count(True)
    assert 0 < logs < len(kinds), "there are files of both"
    assert all(kinds[:logs])


@pytest.mark.timeout(120, method="thread")  # the signal is that of the line
def test_the_progress_line_is_drawn_while_the_server_holds_a_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer interrupts a wait of the driver; the lock is released after two draws."""
    monkeypatch.setattr(_console, "_SHOWN_AFTER", 0.1)
    drawn = list[bool]()
    released = Event()
    with server() as one, psycopg.connect(one.get_uri()) as holder:
        holder.execute("CREATE TABLE locked (number integer)")
        holder.commit()
        holder.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")

        def draw() -> None:
            drawn.append(released.is_set())
            if len(drawn) == 2:
                release()

        def release() -> None:
            released.set()
            holder.rollback()

        patience = Timer(20, release)
        patience.start()
        with psycopg.connect(one.get_uri()) as waiter, _console._ticking(draw):
            waiter.execute("SELECT * FROM locked")
        patience.cancel()

    assert drawn[:2] == [False, False]
