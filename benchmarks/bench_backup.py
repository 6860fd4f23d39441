"""A writer that commits as fast as it can, alone and during backups."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from backup_kit import backed
from ledger_kit import memories

from benchmarks.measure import Table, report
from satchel.backup.inventory import verify_backups
from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, open_ledger
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import Settings, load_settings

ENTRIES, COMMITS, ROUNDS = 20_000, 300, 5
MOST = 2.0


def _filled(tmp_path: Path, entries: int) -> tuple[Settings, str]:
    settings = load_settings(store=str(tmp_path / "busy.db"))
    bank = create_bank(settings, "busy", signing_key(settings, None)[0]).id
    with configured_store(settings) as store:
        ledger = open_ledger(settings, store, bank, writes=True)
        for start in range(0, entries, 1000):
            ledger.append(memories(min(1000, entries - start), start))
    return settings, bank


def _commits(settings: Settings, bank: str, count: int, start: int) -> list[float]:
    """Return how long each of some commits took, one record each, one after the other."""
    took = list[float]()
    with configured_store(settings) as store:
        ledger = open_ledger(settings, store, bank, writes=True)
        for record in memories(count, start):
            began = time.perf_counter()
            ledger.append([record])
            took.append(time.perf_counter() - began)
    return took


_PROGRAM = """
import sys
import satchel

backups = satchel.Backups(store=sys.argv[1])
while True:
    assert backups.run(destinations=[sys.argv[2]]).made[0].verified
    print("made", flush=True)
"""


def _commits_during_backups(
    settings: Settings, bank: str, where: str, count: int, start: int
) -> list[float]:
    """Return the same while another program takes one backup after the other."""
    words = [sys.executable, "-c", _PROGRAM, settings.store, where]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        took = _commits(settings, bank, count, start)
        assert process.poll() is None
        assert process.stdout.readline() == "made\n"
        process.kill()
    return took


def test_a_backup_during_commits_verifies(tmp_path: Path) -> None:
    """Every one of them, completely; the writer is never refused."""
    settings, bank = _filled(tmp_path, 200)
    where = str(tmp_path / "backups")
    _commits_during_backups(settings, bank, where, 40, 10_000)
    found = verify_backups(settings, destinations=where, all=True)
    assert found
    assert [one.error for one in found] == [None] * len(found)


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_backups_at_most_double_the_time_of_a_commit(tmp_path: Path) -> None:
    """The median, for a bank that is backed up again and again during one run."""
    settings, bank = _filled(tmp_path, ENTRIES)
    where, size = str(tmp_path / "backups"), ENTRIES
    backed(settings, where)
    alone, busy = list[float](), list[float]()
    for _ in range(ROUNDS):
        alone.append(median(_commits(settings, bank, COMMITS, size)))
        busy.append(median(_commits_during_backups(settings, bank, where, COMMITS, size + COMMITS)))
        size += 2 * COMMITS
    ratio = min(busy) / min(alone)
    report(
        "backup",
        Table(
            "A commit while backups are taken",
            ["", "of one alone"],
            [[f"median of {COMMITS}, in a bank of {ENTRIES:,}", ratio]],
            f"Bound: {MOST:g}; the least of {ROUNDS}.",
        ),
    )
    assert ratio <= MOST
