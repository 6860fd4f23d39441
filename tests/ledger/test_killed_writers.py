"""Writers killed at random: acknowledged appends exist, and the next writer continues."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from at_rest_kit import at_rest  # noqa: F401 - a fixture
from ledger_kit import created, listed, noting, opened, require_not_ahead

from satchel.crypto.sealed_records import seal
from satchel.ledger.witness import Witness
from satchel.model.records import Semantic
from satchel.stores.sqlite import SqliteStore

# A process that has everything imported and makes a writer of itself by forking, so that a round
# costs milliseconds. Not the process of the tests: that one may have threads.
FORK_SERVER = """
import os, sys
from itertools import count
from pathlib import Path

from at_rest_kit import key_of
from ledger_kit import opened

from satchel.model.records import Semantic
from satchel.crypto.sealed_records import seal
from satchel.stores.sqlite import SqliteStore

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one piece, at once

def write(path, witness, bank, size):
    tell("pid", os.getpid())
    store = SqliteStore(Path(path), key=key_of(Path(path)))
    ledger = opened(store, bank, Path(witness))
    for turn in count():
        records = [seal(Semantic(text=f"{os.getpid()} {turn} {n}")) for n in range(int(size))]
        ledger.append(records)
        tell("wrote", *(record.id for record in records))
        if turn % 7 == 6:  # with the checkpoint that closing makes
            store.close()

for line in sys.stdin:
    if not (child := os.fork()):
        try:
            write(*line.split())
        except BaseException as error:
            tell("failed", repr(error))
        os._exit(1)
    os.waitpid(child, 0)
    tell("ended")
"""


pytestmark = pytest.mark.usefixtures("at_rest")


class Bank(NamedTuple):
    """The location of a bank and the appends it acknowledged."""

    database: Path
    witness: Path
    bank: str
    acknowledged: list[str]


@pytest.fixture
def forkserver() -> Iterator["subprocess.Popen[str]"]:
    """A process that forks a writer for each line it receives."""
    kit = Path(created.__code__.co_filename).parent
    process = subprocess.Popen(
        [sys.executable, "-c", FORK_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(kit), *sys.path])},
    )
    yield process
    process.communicate()


def new_bank(root: Path) -> Bank:
    """Create a bank with its witness in another folder."""
    database, witness = root / "store" / "satchel.db", root / "witness"
    database.parent.mkdir(parents=True)
    store = SqliteStore(database)
    bank = created(store, Witness(witness)).bank
    store.close()
    return Bank(database, witness, bank, [])


def kill_writer(forkserver: "subprocess.Popen[str]", bank: Bank, chance: random.Random) -> int:
    """Start a writer, kill it, and return how many appends it had acknowledged."""
    assert forkserver.stdin is not None
    assert forkserver.stdout is not None
    size = chance.choice([1, 1, 2, 30])
    print(bank.database, bank.witness, bank.bank, size, file=forkserver.stdin, flush=True)
    word, pid = forkserver.stdout.readline().split()
    assert word == "pid"
    wanted, said = chance.randrange(6), list[list[str]]()
    while len(said) < wanted:
        said.append(forkserver.stdout.readline().split())
        assert said[-1][0] == "wrote", said[-1]
    time.sleep(chance.random() * 0.012)  # the moment of chance, up to some appends later
    os.kill(int(pid), signal.SIGKILL)
    while (line := forkserver.stdout.readline().split()) != ["ended"]:
        assert line[0] == "wrote", line
        said.append(line)
    bank.acknowledged.extend(identity for line in said for identity in line[1:])
    return len(said)


def require_acknowledged(bank: Bank) -> None:
    """Require what a new program can rely on."""
    store = SqliteStore(bank.database)
    try:
        ledger = opened(store, bank.bank, bank.witness)
        require_not_ahead(bank.witness, ledger)
        there = listed(ledger)
        assert [identity for identity in there if identity in set(bank.acknowledged)] == (
            bank.acknowledged
        )
        assert len(set(there)) == len(there)
        record = seal(Semantic(text=f"after {len(there)}"))
        assert ledger.append([record]) == [len(there)]
        bank.acknowledged.append(record.id)
        assert listed(ledger) == [*there, record.id]
    finally:
        store.close()


def kill_often(
    forkserver: "subprocess.Popen[str]", root: Path, *, rounds: int, seed: int, each: int = 10
) -> None:
    """Kill a writer in each round and check; start a new bank every few rounds."""
    chance = random.Random(seed)  # noqa: S311 - the same plan each time; the scheduler adds randomness
    bank, appends = new_bank(root / "0"), 0
    for number in range(rounds):
        if number and number % each == 0:
            bank = new_bank(root / str(number))
        with noting(f"seed {seed}, round {number}"):
            appends += kill_writer(forkserver, bank, chance)
            require_acknowledged(bank)
    assert appends >= rounds, "too few appends to mean anything"


def test_a_killed_writer_loses_no_acknowledged_append(
    forkserver: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """Fault: kill -9 at a random moment, three times on one bank."""
    kill_often(forkserver, tmp_path, rounds=3, seed=1)


@pytest.mark.prove
def test_repeatedly_killed_writers_lose_no_acknowledged_append(
    forkserver: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """Fault: the same, two hundred times."""
    kill_often(forkserver, tmp_path, rounds=200, seed=2)
