"""The gateway: the cost of a request compared with the library, and behavior under load."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server_kit import Server, server

from benchmarks import bench_recall
from benchmarks.load import Load, percentile
from benchmarks.measure import ROOT, Table, report
from satchel.api.store import Satchel
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.recall.vector_updates import embed_bank

FEW, MANY, ASKED = 300, 100_000, 400
TIMES_BOUND = 2.0
CROWD, WRITERS, SECONDS = 1000, 100, 60.0
P99_BOUND = 15.0
_TICKS = os.sysconf("SC_CLK_TCK")


@pytest.mark.prove
def test_requests_are_answered_and_their_cost_is_measured(own_home: Path) -> None:
    """The work of the benchmarks below, once, on a small input."""
    del own_home
    bench_recall._fill_home(FEW)  # noqa: SLF001 - another benchmark
    with _serving("1") as server:
        load = _put_under_load(server, 20, 5, 1.5)
        _require_in_order(load)
        assert _missing(server, load) == []
        (cost,) = _cost_of_recall(server, 8)
    assert cost > 0


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_a_recall_over_http_costs_at_most_twice_a_recall_in_the_library(
    own_home: Path,
) -> None:
    """Processor time of each, at 100,000 memories with vectors, in turns."""
    del own_home
    bench_recall._fill_home(MANY)  # noqa: SLF001 - idem
    with open_bank(load_settings(), writes=True) as bank:
        embed_bank(bank)
    with _serving("1") as server, Satchel.open() as satchel:
        bank_here = satchel.bank("b")
        queries = [*bench_recall._queries(ASKED)]  # noqa: SLF001 - idem
        for text in queries[:20]:
            bank_here.recall(text)
        _cost_of_recall(server, 20)
        alone, served = list[float](), list[float]()
        for _ in range(3):
            start = time.process_time()
            for text in queries:
                bank_here.recall(text)
            alone.append((time.process_time() - start) / ASKED)
            served += _cost_of_recall(server, ASKED)
    times = min(served) / min(alone)
    report(
        "gateway-cost",
        Table(
            f"A recall of ten from {MANY:,} memories with vectors: milliseconds of processor time",
            ["library", "server", "times"],
            [[min(alone) * 1000, min(served) * 1000, times]],
            f"Bound: {TIMES_BOUND:.0f} times. One worker.",
        ),
    )
    assert times < TIMES_BOUND


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_no_write_is_lost_under_load_and_refusals_say_when_to_retry(own_home: Path) -> None:
    """A thousand connections in a closed loop and a hundred writers, for a minute."""
    del own_home
    rows = []
    for workers in ("1", "2"):
        with _serving(workers) as server:
            load = _put_under_load(server, CROWD - WRITERS, WRITERS, SECONDS)
            _require_in_order(load)
            assert _missing(server, load) == []
            assert server.end() == 0
        for kind, times in sorted(load.seconds.items()):
            later = sum(
                number
                for name, number in load.statuses.items()
                if name.startswith(kind) and not name.endswith(("200", "201"))
            )
            half, most = percentile(times, 0.5), percentile(times, 0.99)
            rows.append([workers, kind, len(times), later, half, most, max(times)])
            assert most < P99_BOUND
    report(
        "gateway-crowd",
        Table(
            f"{CROWD:,} connections, {WRITERS} of which write, for {SECONDS:.0f} s",
            ["workers", "request", "answered", "come again", "median, s", "99 of 100, s", "worst"],
            rows,
            f"Every write that was acknowledged was read back. Bound: {P99_BOUND:.0f} s for 99 of"
            " 100. Who asks has the same processors.",
        ),
    )


@contextmanager
def _serving(workers: str) -> Iterator[Server]:
    """Yield a server with another bank, ``load``."""
    with server("--workers", workers, "--per-second", "0") as found:
        with found.client() as client:
            client.post("/v1/banks", json={"name": "load"})
        yield found


def _put_under_load(found: Server, readers: int, writers: int, seconds: float) -> Load:
    """Put a server under load, from a separate program."""
    command = [sys.executable, "-m", "benchmarks.load", "--port", str(found.port)]
    command += ["--readers", str(readers), "--writers", str(writers), "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    return Load(**json.loads(done.stdout))


def _require_in_order(load: Load) -> None:
    """Require that all requests were answered, or refused with a time to retry."""
    answers = {name.split()[1] for name in load.statuses}
    assert answers <= {"200", "201", "503"}, load.statuses
    assert (load.unsaid, load.broken) == (0, 0)
    assert load.written
    assert len(set(load.written)) == len(load.written)


def _missing(server: Server, load: Load) -> list[str]:
    """Return the acknowledged entries that do not exist."""
    stored = set[str]()
    with server.client() as client:
        after = None
        while True:
            query = {"limit": 1000} | ({} if after is None else {"after": after})
            page = client.get("/v1/banks/load/entries", params=query).json()
            stored.update(memory["id"] for memory in page["memories"])
            after = page.get("next")
            if after is None:
                return [memory for memory in load.written if memory not in stored]


def _cost_of_recall(server: Server, count: int) -> list[float]:
    """Return the seconds of processor time that a recall costs a server with one worker."""
    queries = [*bench_recall._queries(count)]  # noqa: SLF001 - idem
    before = _processor_seconds(server.process.pid)
    with server.client() as client:
        for text in queries:
            assert client.post("/v1/banks/b/recall", json={"text": text}).is_success
    return [(_processor_seconds(server.process.pid) - before) / count]


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
