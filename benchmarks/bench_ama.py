"""AMA archives imported and exported, compared with Astrocyte itself; and the cost per memory."""

from pathlib import Path

import pytest

from benchmarks import data, peers
from benchmarks.measure import Ran, Table, report, run, satchel

FEW, MANY = 1_000, 100_000
ROUNDS = 3
FASTER = 10
GROWTH = 1.2

_PEER = Path(__file__).parent / "peers" / "astrocyte_bank.py"


def _round_trip(source: Path, folder: Path) -> tuple[Ran, Ran]:
    """Import an archive into a new home, and export it again."""
    arrived = satchel("import", source, "--bank", "b", home=folder / "home")
    output = folder / "out.ama.jsonl"
    left = satchel("export", "--bank", "b", "--output", output, home=folder / "home")
    return arrived, left


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_an_archive_is_imported_and_exported(tmp_path: Path) -> None:
    """The work of the measurements below, once, on a small input."""
    source = data.write_ama(tmp_path / "in.ama.jsonl", 50)
    _round_trip(source, tmp_path)
    before, after = (
        path.read_text("utf-8").splitlines() for path in (source, tmp_path / "out.ama.jsonl")
    )
    assert len(after) == len(before) == 51


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_1_000_memories_round_trip_ten_times_as_fast_as_with_astrocyte(tmp_path: Path) -> None:
    """Whole processes: sealing, screening, logging and signing against embedding."""
    source = data.write_ama(tmp_path / "in.ama.jsonl", FEW)
    theirs: list[str | Path] = [peers.environment("astrocyte") / "python", _PEER]
    ours, others = [], []
    for turn in range(ROUNDS):
        folder = _folder(tmp_path / str(turn))
        ours.append(_round_trip(source, folder))
        arrived = run([*theirs, "import", source, folder / "theirs.db"])
        left = run([*theirs, "export", folder / "theirs.db", folder / "theirs.ama.jsonl"])
        others.append((arrived, left))
    least = [
        [min(ran.seconds for ran in side) for side in zip(*them, strict=True)]
        for them in (ours, others)
    ]
    mine, other = sum(least[0]), sum(least[1])
    report(
        "ama",
        Table(
            f"{FEW:,} AMA memories",
            ["", "astrocyte 0.22.0 takes, of ours"],
            [
                ["import", least[1][0] / least[0][0]],
                ["export", least[1][1] / least[0][1]],
                ["both", other / mine],
            ],
            f"Bound: both at least {FASTER} times. Whole processes, processor time.",
        ),
    )
    assert other / mine >= FASTER


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_memory_costs_no_more_among_100_000_than_among_1_000(tmp_path: Path) -> None:
    """Astrocyte's import and export are quadratic."""
    empty = _round_trip(data.write_ama(tmp_path / "1.ama.jsonl", 1), _folder(tmp_path / "1"))
    costs = {}
    for count in (FEW, MANY):
        source = data.write_ama(tmp_path / f"{count}.ama.jsonl", count)
        rounds = ROUNDS if count == FEW else 1
        runs = [
            _round_trip(source, _folder(tmp_path / f"{count}-{turn}")) for turn in range(rounds)
        ]
        costs[count] = [
            (min(ran.seconds for ran in side), max(ran.peak_bytes for ran in side))
            for side in zip(*runs, strict=True)
        ]
    rows = [
        [
            name,
            (costs[MANY][side][0] / MANY) / (costs[FEW][side][0] / FEW),
            ((costs[MANY][side][0] - empty[side].seconds) / MANY)
            / ((costs[FEW][side][0] - empty[side].seconds) / FEW),
            costs[MANY][side][1] / 1e6,
        ]
        for side, name in enumerate(("import", "export"))
    ]
    report(
        "ama growth",
        Table(
            f"A memory among {MANY:,} against one among {FEW:,}",
            ["", "cost", "cost beyond that of one memory", "peak MB"],
            rows,
            f"Bound: the first at most {GROWTH} times. Whole processes, processor time.",
        ),
    )
    assert all(row[1] <= GROWTH for row in rows)
