"""Measurements: interleaved, best of several, as ratios; memory in separate processes."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROUNDS = 5
"""How often each thing is done; the best counts, since others only make it slower."""

ROOT = Path(__file__).parent.parent


def best_of(work: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Do each piece of work in turns and return the least seconds that each took.

    Turns, so that a busy moment of the machine does not fall on one of them alone.
    """
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, call in work.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


REFERENCE_SECONDS = 0.023
"""Processor time of ``_fixed_work`` on the machine for which bounds in seconds are stated."""


def slowness() -> float:
    """Return how many times as long fixed work takes as on the reference machine, at least 1.

    A bound in seconds is multiplied by it, since everything in the same run takes as much longer.
    """
    times = list[float]()
    for _ in range(2 * ROUNDS + 1):
        start = time.process_time()
        _fixed_work()
        times.append(time.process_time() - start)
    return max(1.0, median(times) / REFERENCE_SECONDS)


def _fixed_work() -> None:
    """Encode, hash, store, search and decode records: about what a recall consists of."""
    records = [{"id": number, "text": f"memory {number * number}"} for number in range(4_000)]
    lines = [json.dumps(record, sort_keys=True) for record in records]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE record (hash BLOB PRIMARY KEY, body TEXT)")
        rows = [(sha256(line.encode()).digest(), line) for line in lines]
        database.executemany("INSERT INTO record VALUES (?, ?)", rows)
        found = database.execute("SELECT body FROM record ORDER BY hash").fetchall()
    words = Counter(word for (line,) in found for word in json.loads(line)["text"].split())
    sorted(words, key=words.__getitem__)


class Ran(NamedTuple):
    """Cost of a program."""

    seconds: float
    """Of processor time."""

    peak_bytes: int
    """Of resident memory."""

    output: str
    elapsed: float
    """Seconds by the clock."""


def run(command: Sequence[str | Path], home: Path | None = None) -> Ran:
    """Run a program to its end and return what it cost.

    Args:
        command: The program and its arguments.
        home: A folder for its keys and state.

    Raises:
        RuntimeError: If it fails; the message is its output.
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    # An installed package is compiled, as the peers are.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if home is not None:
        environment |= {"SATCHEL_HOME": str(home), "SATCHEL_WITNESS": str(home)}
    # Between us and the program stands a small one: a child starts with its parent's peak.
    small = [sys.executable, "-I", "-S", "-c", _SMALL, *map(str, command)]
    done = subprocess.run(small, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-2000:]}")
    output, _, cost = done.stdout.rpartition("\n")
    found = json.loads(cost)
    return Ran(found["seconds"], found["kilobytes"] * 1024, output, found["elapsed"])


_SMALL = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:]).returncode
elapsed = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print()
seconds = used.ru_utime + used.ru_stime
print(json.dumps({"seconds": seconds, "elapsed": elapsed, "kilobytes": used.ru_maxrss}), end="")
sys.exit(status)
"""


def peak_of_all(command: Sequence[str | Path], home: Path) -> int:
    """Run a program and return the most bytes that it and its children held at once.

    Pages that several share are counted once. Looking takes time: it is no run to measure that in.
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    environment |= {"SATCHEL_HOME": str(home), "SATCHEL_WITNESS": str(home)}
    peak = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            peak = max(peak, sum(map(_proportional_bytes, _with_children(running.pid))))
            time.sleep(0.05)
    if running.returncode:
        raise RuntimeError(f"{command[0]} failed")
    return peak


def _with_children(process: int) -> list[int]:
    processes = [process]
    try:
        for text in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            processes += _with_children(int(text))
    except OSError:  # it has ended
        pass
    return processes


def _proportional_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(one.split()[1]) * 1024 for one in lines if one.startswith("Pss:")), 0)


def satchel(*arguments: str | Path, home: Path) -> Ran:
    """Run the ``satchel`` command as a separate process."""
    return run([sys.executable, "-m", "satchel", *arguments], home)


class Table(NamedTuple):
    """Figures to print."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def __str__(self) -> str:
        cells = [[*map(str, self.columns)], *([_shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
        lines = [
            "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
            for row in cells
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        note = f"\n\n{self.note}" if self.note else ""
        return f"### {self.title}\n\n" + "\n".join(lines) + note


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


tables: dict[str, Table] = {}
"""Tables of this process, printed at the end of the run."""


def report(name: str, table: Table) -> None:
    """Add a table to those that are printed at the end of the run."""
    tables[name] = table
