"""Import of a Mem0 export into a sealed, logged, indexed bank: time and memory."""

import sys
import time
from pathlib import Path

import pytest

from benchmarks import data, peers
from benchmarks.measure import ROUNDS, Table, peak_of_all, report, run, satchel
from satchel.model.values import TrustClass
from satchel.screening.injection import reasons_against

MANY, FEW = 100_000, 300
MEMORY_BOUND = 120 * 10**6
BOUND = 0.7
SCREENED, SCREENING = 20_000, 1.0


def test_a_mem0_export_is_imported_in_bounded_memory(tmp_path: Path) -> None:
    """The work of the measurement below, once, on a small input."""
    source = data.write_mem0(tmp_path / "mem0.json", FEW)
    done = satchel("import", source, "--bank", "b", home=tmp_path / "home")
    assert f"{FEW} memories added" in done.output
    assert done.peak_bytes < MEMORY_BOUND


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_100_000_mem0_records_are_imported_in_seven_tenths_of_the_time_of_portable_memory(
    tmp_path: Path,
) -> None:
    """portable-memory writes one file of lines, and signs, logs and indexes nothing."""
    source = data.write_mem0(tmp_path / "mem0.json", MANY, bare_list=True)
    theirs: list[str | Path] = [peers.environment("portable-memory") / "mem", "ingest"]
    theirs += ["--from", "mem0", source, "--out"]
    ours, others = [], []
    for turn in range(ROUNDS):
        home = tmp_path / f"home{turn}"
        ours.append(satchel("import", source, "--bank", "b", home=home))
        others.append(run([*theirs, tmp_path / f"{turn}.mem"]))
    mine, other = min(ran.elapsed for ran in ours), min(ran.elapsed for ran in others)
    spent, other_spent = min(ran.seconds for ran in ours), min(ran.seconds for ran in others)
    command: list[str | Path] = [sys.executable, "-m", "satchel", "import", source, "--bank", "b"]
    peak = peak_of_all(command, tmp_path / "watched")
    other_peak = min(ran.peak_bytes for ran in others)
    report(
        "import",
        Table(
            f"{MANY:,} Mem0 records into a bank",
            ["", "time against portable-memory", "processor time against it", "peak MB"],
            [
                [
                    "satchel import: sealed, screened, logged, indexed",
                    *(mine / other, spent / other_spent, peak / 1e6),
                ],
                ["mem ingest", 1.0, 1.0, other_peak / 1e6],
            ],
            f"Bounds: at most {BOUND} by the clock, below 120 MB in both processes together.",
        ),
    )
    assert peak < MEMORY_BOUND
    assert mine / other <= BOUND


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_cost_of_screening_an_import(tmp_path: Path) -> None:
    """Why an import leaves it to ``satchel quarantine scan``: decision 96."""
    source = data.write_mem0(tmp_path / "mem0.json", SCREENED)
    texts = [record["memory"] for record in data.mem0_records(SCREENED)]
    imported = min(
        satchel("import", source, "--bank", "b", home=tmp_path / f"home{turn}").seconds
        for turn in range(ROUNDS)
    )

    def screen() -> None:
        for text in texts:
            reasons_against(text, "semantic", TrustClass.IMPORTED, "outside")

    screen()  # compiled patterns
    began, spent = 0.0, []
    for _ in range(ROUNDS):
        began = time.process_time()
        screen()
        spent.append(time.process_time() - began)
    share = min(spent) / imported
    report(
        "import-screened",
        Table(
            f"Screening of {SCREENED:,} Mem0 records for instructions",
            ["", "processor time against the import", "microseconds a record"],
            [["reasons_against", share, min(spent) / SCREENED * 1e6]],
            f"Bound: at most {SCREENING} times.",
        ),
    )
    assert share <= SCREENING
