"""amplihack's agents imported and exported: merge compared with replace, and memory use.

amplihack-rs 0.17.0 itself was measured at 41.9 s for a merge of 1,000 nodes with 2,000 edges, and
0.26 s for replacing them: each row of a merge is its own commit.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Ran, Table, report, run, satchel

FEW, MANY = 2_000, 40_000
ROUNDS = 3
AT_MOST = 2
GROWTH = 1.5

_READ = """
import sys
from pathlib import Path
from satchel.ports.format import ReadContext as Reading
from satchel.ports.format import Location
from satchel.ports.format import formats
from satchel.ports.drafts import read_records as taken

found = taken(formats["amplihack"], Location(Path(sys.argv[1])), Reading())
print(sum(1 for _ in found))
"""


def write_agent(path: Path, count: int) -> Path:
    """Write facts, a quarter as many episodes, and two edges per fact, to a file of version 1.1."""
    episodes = count // 4 or 1
    arrays: dict[str, Iterator[dict[str, Any]]] = {
        "semantic_nodes": (_fact(n, episodes) for n in range(count)),
        "episodic_nodes": (_episode(n) for n in range(episodes)),
        "similar_to_edges": (
            {**_endpoints(f"s{n}", f"s{(n + 1) % count}"), "weight": 0.5, "metadata": {}}
            for n in range(count)
        ),
        "derives_from_edges": (
            {
                **_endpoints(f"s{n}", f"e{n % episodes}"),
                "extraction_method": "llm_extraction",
                "confidence": 1.0,
            }
            for n in range(count)
        ),
        "supersedes_edges": iter(()),
        "transitioned_to_edges": iter(()),
    }
    with path.open("w", encoding="utf-8") as sink:
        sink.write('{"agent_name": "agent", "exported_at": "0", "format_version": "1.1"')
        for name, rows in arrays.items():
            sink.write(f',\n"{name}": [')
            for place, row in enumerate(rows):
                sink.write((",\n" if place else "\n") + json.dumps(row))
            sink.write("\n]")
        sink.write("}\n")
    return path


def _endpoints(source: str, target: str) -> dict[str, str]:
    return {"source_id": source, "target_id": target}


def _fact(number: int, episodes: int) -> dict[str, Any]:
    return {
        "memory_id": f"s{number}",
        "concept": f"topic {number % 50}",
        "content": f"the service number {number} runs {number % 17} workers in the harbour region",
        "confidence": 0.9,
        "source_id": f"e{number % episodes}",
        "tags": ["ops"],
        "metadata": {"category": "semantic"},
        "created_at": "2026-05-04T03:02:01.000123+00:00",
        "entity_name": "",
    }


def _episode(number: int) -> dict[str, Any]:
    return {
        "memory_id": f"e{number}",
        "content": f"session {number}: read the guide and the notes",
        "source_label": f"session:{number}",
        "tags": [],
        "metadata": {},
        "created_at": "2026-05-04T03:02:00.000123+00:00",
    }


def _import_agent(source: Path, home: Path, *more: str) -> Ran:
    return satchel("amplihack", "import", "--agent", "agent", "--input", source, *more, home=home)


@pytest.mark.prove
def test_an_agent_is_imported_and_exported(tmp_path: Path) -> None:
    """The work of the measurements below, once, on a small input."""
    source, home = write_agent(tmp_path / "in.json", 40), tmp_path / "home"
    for more in ((), ("--merge",), ()):
        _import_agent(source, home, *more)
    output = tmp_path / "out.json"
    satchel("amplihack", "export", "--agent", "agent", "--output", output, home=home)
    before, after = (json.loads(path.read_bytes()) for path in (source, output))
    assert {name: len(after[name]) for name in before if name.endswith("s")} == {
        name: len(before[name]) for name in before if name.endswith("s")
    }


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_merge_takes_at_most_twice_the_time_of_a_replacement(tmp_path: Path) -> None:
    """Into a new bank, and into one that has half of it already."""
    half = write_agent(tmp_path / "half.json", FEW // 2)
    source = write_agent(tmp_path / "whole.json", FEW)
    least: dict[tuple[str, str], float] = {}
    for turn in range(ROUNDS):
        for into in ("new", "half"):
            for how in ("replace", "merge"):
                home = tmp_path / f"{turn} {into} {how}"
                if into == "half":
                    _import_agent(half, home)
                ran = _import_agent(source, home, *(["--merge"] if how == "merge" else []))
                least[into, how] = min(ran.seconds, least.get((into, how), ran.seconds))
    ratios = {into: least[into, "merge"] / least[into, "replace"] for into in ("new", "half")}
    report(
        "amplihack-merge",
        Table(
            f"An agent of {FEW:,} facts and {2 * FEW:,} edges",
            ["into a bank", "merge, of replace"],
            [["that is new", ratios["new"]], ["that has half of it", ratios["half"]]],
            f"Bound: at most {AT_MOST} times. Whole processes, processor time.",
        ),
    )
    assert max(ratios.values()) <= AT_MOST


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_reading_takes_constant_memory(tmp_path: Path) -> None:
    """Nodes, names and edges wait on disk; amplihack takes three times the file."""
    peaks = {}
    for count in (FEW, MANY):
        source = write_agent(tmp_path / f"{count}.json", count)
        ran = run([sys.executable, "-c", _READ, source])
        assert int(ran.output) == count // 4 + 3 * count
        peaks[count] = ran.peak_bytes
    report(
        "amplihack-memory",
        Table(
            "Peak memory of reading an agent, MiB",
            ["facts", "peak"],
            [[f"{count:,}", peak / 2**20] for count, peak in peaks.items()],
            f"Bound: {MANY // FEW} times the facts take at most {GROWTH} times the memory.",
        ),
    )
    assert peaks[MANY] <= GROWTH * peaks[FEW]
