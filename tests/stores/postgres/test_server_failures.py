"""A server that stops or runs out of space: acknowledged appends exist when it is back."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_kit import created, listed, memories, noting, opened, require_not_ahead
from postgres_kit import again, kill, run_sql, server, stop_at_once

from satchel.errors import StoreError, StoreFullError
from satchel.ledger.examination import examine
from satchel.ledger.witness import Witness
from satchel.ports.store import Commit, RangeChange, RetiredFilter
from satchel.stores.postgres import PostgresStore

_KIT = Path(__file__).parents[2] / "kit"
_WRITER = """
import sys
from itertools import count
from pathlib import Path

from ledger_kit import opened

from satchel.errors import StoreError
from satchel.model.records import Semantic
from satchel.crypto.sealed_records import seal
from satchel.stores.postgres import PostgresStore

address, witness, bank = sys.argv[1:]
ledger = opened(PostgresStore(address), bank, Path(witness))
try:
    for turn in count():
        records = [seal(Semantic(text=f"{turn} {n}")) for n in range(turn % 40 + 1)]
        ledger.append(records)
        print("wrote", *(record.id for record in records), flush=True)
except StoreError as error:
    print("stopped", error.code, flush=True)
"""


def test_a_server_that_stops_within_a_commit_keeps_acknowledged_appends(tmp_path: Path) -> None:
    """Committed records verify, others are gone; the same store continues."""
    with server() as one:
        store = PostgresStore(one.get_uri())
        ledger = created(store, Witness(tmp_path))
        ledger.append(memories(20))
        before = listed(ledger)
        with pytest.raises(StoreError) as stopped, store.writing() as writing:  # noqa: PT012 - one block that fails at its end
            writing.append(ledger.bank, _sweep_commit(store, ledger.bank))
            stop_at_once(one)
        assert stopped.value.code == "store.failed"
        with pytest.raises(StoreError), store.reading():
            pass
        again(one)
        assert listed(opened(store, ledger.bank, tmp_path)) == before
        ledger.append(memories(20, start=20))
        assert listed(opened(store, ledger.bank, tmp_path))[: len(before)] == before
        store.close()


def _sweep_commit(store: PostgresStore, bank: str) -> Commit:
    """Return a commit that changes many rows and adds none."""
    with store.reading() as reader:
        head = reader.head(bank)
    assert head is not None
    return Commit(
        rows=(),
        nodes=(),
        head=head,
        sweeps=[RangeChange(0, 100, RetiredFilter.CURRENT, retired=7, hold=True)],
    )


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [kill, stop_at_once], ids=["SIGKILL", "immediate"])
def test_a_server_killed_during_writes_loses_no_acknowledged_append(
    how: Callable[[Any], None], tmp_path: Path
) -> None:
    """In every round at a random moment; the witness is never ahead of the log."""
    seed = random.randrange(1 << 32)  # noqa: S311 - printed on failure
    chance = random.Random(seed)  # noqa: S311 - printed on failure
    with noting(f"the seed was {seed}"), server() as one:
        store = PostgresStore(one.get_uri())
        bank = created(store, Witness(tmp_path)).bank
        store.close()
        acknowledged = set[str]()
        for _ in range(15):
            acknowledged |= _write_until_killed(one, tmp_path, bank, chance, how)
            again(one)
            store = PostgresStore(one.get_uri())
            ledger = opened(store, bank, tmp_path)
            require_not_ahead(tmp_path, ledger)
            assert acknowledged <= set(listed(ledger))
            found = examine(store, bank)
            assert found.is_sound, found.shown
            store.close()
        assert len(acknowledged) > 100


def _write_until_killed(
    one: Any, witness: Path, bank: str, chance: random.Random, how: Callable[[Any], None]
) -> set[str]:
    """Have a process write until its server dies; return the IDs it acknowledged."""
    command = [sys.executable, "-c", _WRITER, one.get_uri(), str(witness), bank]
    acknowledged = set[str]()
    turns = chance.randrange(1, 40)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_KIT), *sys.path])}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, text=True, env=environment) as writer:
        assert writer.stdout is not None
        last = ""
        for turn, last in enumerate(writer.stdout):
            if last.startswith("wrote"):
                acknowledged |= set(last.split()[1:])
            if turn == turns:
                how(one)
        assert last.split() == ["stopped", "store.failed"]
    return acknowledged


@pytest.mark.prove  # starts its own server
def test_a_full_server_disk_keeps_acknowledged_appends(
    mount_small: Callable[[str], Path],
) -> None:
    """The failed append left nothing; the store is sound, and continues with space."""
    folder = mount_small("6m")
    (folder / "there").mkdir()
    with server() as one:
        shutil.chown(folder / "there", one.system_user)
        place = f"{one.get_uri()}&options=-cdefault_tablespace%3Dsmall"
        run_sql(one.get_uri(), f"CREATE TABLESPACE small LOCATION '{folder / 'there'}'")
        store = PostgresStore(place)
        ledger = created(store)
        kept = 2
        with pytest.raises(StoreFullError):  # noqa: PT012 - until it is full
            for start in range(0, 100_000, 200):
                ledger.append(memories(200, start=start))
                kept += 200
        assert kept > 200
        assert len(listed(ledger)) == kept
        assert examine(store, ledger.bank).is_sound
        store.close()
        run_sql(one.get_uri(), "DROP SCHEMA satchel CASCADE", "DROP TABLESPACE small")


@pytest.mark.prove  # starts its own server
def test_a_server_with_fsync_off_is_refused_for_writing() -> None:
    """A power loss would lose acknowledged writes; reading is not refused."""
    with server() as one:
        store = PostgresStore(one.get_uri())
        ledger = created(store)
        ledger.append(memories(3))
        run_sql(one.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        while run_sql(one.get_uri(), "SHOW fsync") != [("off",)]:
            pass  # the server reloads its settings after a moment
        with pytest.raises(StoreError, match="does not flush"):
            ledger.append(memories(1, start=3))
        assert len(listed(ledger)) == 5
        store.close()
