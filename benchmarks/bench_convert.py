"""Conversion of a Mem0 export to a sealed file: time and memory."""

from pathlib import Path

import pytest

from benchmarks import data, peers
from benchmarks.measure import ROUNDS, Table, report, run, satchel

MEMORY_BOUND = 100 * 10**6
BYTES_AN_ENTRY = 16


def test_a_mem0_export_is_sealed_in_bounded_memory(tmp_path: Path) -> None:
    """Every step: read, seal, sign, write, read back."""
    source = data.write_mem0(tmp_path / "mem0.json", 300)
    done = satchel("convert", source, tmp_path / "memory.pam.jsonl", home=tmp_path / "home")
    assert done.peak_bytes < MEMORY_BOUND


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_100_000_mem0_records_are_sealed_faster_than_mif_tools_converts_them(
    tmp_path: Path,
) -> None:
    """mif-tools neither hashes, signs nor reads back; it holds everything in memory."""
    source = data.write_mem0(tmp_path / "mem0.json", 100_000, bare_list=True)
    theirs: list[str | Path] = [peers.environment("mif-tools") / "mif", "convert"]
    theirs += [source, "-f", "mem0"]
    ours, others = [], []
    for turn in range(ROUNDS):
        output = tmp_path / f"{turn}.pam.jsonl"
        ours.append(satchel("convert", source, output, home=tmp_path / "home"))
        output.unlink()
        others.append(run([*theirs, "-o", tmp_path / "mif.json"]))
    mine, other = min(ran.seconds for ran in ours), min(ran.seconds for ran in others)
    peak, other_peak = max(ran.peak_bytes for ran in ours), min(ran.peak_bytes for ran in others)
    report(
        "peer",
        Table(
            "100,000 Mem0 records",
            ["", "time against mif-tools", "peak MB"],
            [
                ["satchel convert, sealed, signed, read back", mine / other, peak / 1e6],
                ["mif convert", 1.0, other_peak / 1e6],
            ],
            "Bounds: below 1, below 100 MB. Whole processes, processor time.",
        ),
    )
    assert peak < MEMORY_BOUND
    assert mine < other


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_four_times_the_entries_take_at_most_16_bytes_more_per_entry(tmp_path: Path) -> None:
    """Conversion and deep verification stream; growing data is on disk."""
    _growth(tmp_path, 50_000, 200_000)


@pytest.mark.bench_full
@pytest.mark.timeout(3600)
def test_a_million_entries_take_the_memory_of_100_000_and_16_bytes_each(tmp_path: Path) -> None:
    """Conversion and deep verification stream; growing data is on disk."""
    _growth(tmp_path, 100_000, 1_000_000)


def _growth(folder: Path, small: int, large: int) -> None:
    peaks = {count: _peaks(folder, count) for count in (small, large)}
    rows = [
        [verb, peaks[small][verb] / 1e6, peaks[large][verb] / 1e6]
        for verb in ("convert", "verify --deep")
    ]
    report(
        f"memory-{large}",
        Table(
            "Peak memory, MB",
            ["", f"{small:,} entries", f"{large:,} entries"],
            rows,
            f"Bound: {BYTES_AN_ENTRY} bytes more for each entry more.",
        ),
    )
    for verb, peak in peaks[large].items():
        assert peak <= peaks[small][verb] + BYTES_AN_ENTRY * large, verb


def _peaks(folder: Path, count: int) -> dict[str, int]:
    source = data.write_mem0(folder / "mem0.json", count)
    output, home = folder / f"{count}.pam.jsonl", folder / "home"
    peaks = {
        "convert": satchel("convert", source, output, home=home).peak_bytes,
        "verify --deep": satchel("verify", "--deep", output, home=home).peak_bytes,
    }
    source.unlink()
    output.unlink()
    return peaks
