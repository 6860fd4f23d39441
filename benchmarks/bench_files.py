"""Memory files and Flyte's MemoryStore: the same work in one run, each in its environment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers
from benchmarks.measure import Table, report
from satchel.files import MemoryStore

WRITES, PATHS, LINES = 2_000, 10_000, 100_000
ROUNDS = 3
SLOWER_WRITES, FASTER_LISTS, FASTER_TAILS = 2, 10, 50
TAIL_BYTES = 1_000_000

_WORK = Path(__file__).parent / "peers" / "files_work.py"


def _run(which: str, python: Path, folder: Path, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Run the work in a separate process, and return its output."""
    folder.mkdir(parents=True)
    command: list[str | Path] = [python, _WORK, which, folder, *map(str, sizes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_memory_files_do_the_work(tmp_path: Path) -> None:
    """That of the measurement below, once, on a small input."""
    found = _run("satchel", Path(sys.executable), tmp_path / "s", (40, 50, 30))

    assert set(found) == {"write", "list", "tail", "tail_memory"}


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_durable_writes_lists_and_tails_compared_with_flyte(tmp_path: Path) -> None:
    """Written with audit and versions, 32 awaited at once: ours are synced, Flyte's are not."""
    sizes = (WRITES, PATHS, LINES)
    theirs = peers.environment("flyte") / "python"
    ours, others = [], []
    for turn in range(ROUNDS):
        ours.append(_run("satchel", Path(sys.executable), tmp_path / f"s{turn}", sizes))
        others.append(_run("flyte", theirs, tmp_path / f"f{turn}", sizes))
    mine = {name: min(one[name] for one in ours) for name in ours[0]}
    other = {name: min(one[name] for one in others) for name in others[0]}
    report(
        "files",
        Table(
            "Memory files and flyte's",
            ["", "flyte takes, of ours"],
            [
                [f"write_text, of {WRITES:,}, 32 at once", other["write"] / mine["write"]],
                [f"list_paths of {PATHS:,}", other["list"] / mine["list"]],
                [f"audit_tail(10) of {LINES:,}", other["tail"] / mine["tail"]],
                ["memory of that", other["tail_memory"] / mine["tail_memory"]],
            ],
            f"Bounds: 1/{SLOWER_WRITES}, {FASTER_LISTS}, {FASTER_TAILS}; the least of {ROUNDS}.",
        ),
    )
    assert mine["write"] <= SLOWER_WRITES * other["write"]
    assert FASTER_LISTS * mine["list"] <= other["list"]
    assert FASTER_TAILS * mine["tail"] <= other["tail"]
    assert mine["tail_memory"] <= TAIL_BYTES


@pytest.mark.bench_full
@pytest.mark.timeout(1800)
def test_a_save_among_10_000_files_needs_no_more_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted at the server: the number does not grow with the store."""
    from s3_kit import s3_server

    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path))
    with s3_server() as server:
        root = server.bucket()
        with MemoryStore.create(key="k", storage_root=root, keep_versions=True) as store:
            store.write_many([(f"d{one % 100}/{one}.txt", f"text {one}") for one in range(PATHS)])
            store.save()
            counts = []
            for number in range(8):
                store.write_text("d1/1.txt", str(number))
                server.requests.clear()
                store.save()
                counts.append(server.requests.total())
        server.requests.clear()
        with MemoryStore.get_or_create(key="k", storage_root=root) as store:
            assert len(store.list_paths()) == PATHS
        opening = server.requests.total()
    report(
        "files in S3",
        Table(
            f"Requests, {PATHS:,} files with versions in S3",
            ["a save after one change, at most", "opening"],
            [[max(counts), opening]],
            "Bound: 10 each. Flyte: three for each file.",
        ),
    )
    assert max(counts) <= 10
    assert opening <= 10
