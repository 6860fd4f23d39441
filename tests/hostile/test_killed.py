"""Killed at any moment: the target is the old file or the whole new one, never something between."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.surfaces.cli.main import run

RECORDS = 3000
OLD = b"what was there"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Mem0 file that takes a moment to convert."""
    path = tmp_path / "mem0.json"
    rows = [{"id": str(number), "memory": f"fact {number} " * 20} for number in range(RECORDS)]
    path.write_text(json.dumps(rows))
    return path


def reached(folder: Path, moment: float) -> bool:
    """Tell whether the work has got to a moment: 0..1 of the temporary file, 1 the target."""
    for found in os.scandir(folder):
        if found.name.startswith("."):
            try:
                return found.stat().st_size >= moment * 400 * RECORDS
            except FileNotFoundError:
                return True
    target = folder / "out.pam.jsonl"
    return target.exists() and target.stat().st_size > len(OLD)


def killed(source: Path, target: Path, moment: float) -> None:
    """Start a conversion and kill it, hard, when it has got to a moment, or let it end."""
    command = [sys.executable, "-m", "satchel", "convert", str(source), str(target), "--force"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while started.poll() is None and not reached(target.parent, moment):
        pass
    started.kill()
    started.wait()


def rounds(source: Path, folder: Path, moments: list[float]) -> int:
    """Kill at each moment, and require a whole file each time; return how often it was old."""
    folder.mkdir()
    target, kept_old = folder / "out.pam.jsonl", 0
    for moment in moments:
        for found in folder.iterdir():
            found.unlink()
        target.write_bytes(OLD)
        killed(source, target, moment)
        names = {found.name for found in folder.iterdir()} - {target.name}
        assert all(name.startswith(".") and name.endswith(".tmp") for name in names)
        if target.read_bytes() == OLD:
            kept_old += 1
        else:
            assert run(["verify", str(target), "--deep"]) == 0
        assert run(["convert", str(source), str(target), "--force"]) == 0
        assert run(["verify", str(target), "--deep"]) == 0
        assert {found.name for found in folder.iterdir()} == names | {target.name}
    return kept_old


@pytest.fixture
def with_key() -> Callable[[], int]:
    """A signing key, so that no round differs from the next."""
    return lambda: run(["keys", "create"])


def test_a_conversion_that_is_killed_leaves_the_old_file_or_the_whole_new_one(
    source: Path, tmp_path: Path, with_key: Callable[[], int]
) -> None:
    """As soon as there is a temporary file, in the middle, at its end, and after."""
    assert with_key() == 0
    assert rounds(source, tmp_path / "out", [0, 0.3, 0.6, 0.9, 1]) > 0


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_conversion_that_is_killed_at_random_leaves_nothing_half_written(
    source: Path, tmp_path: Path, with_key: Callable[[], int]
) -> None:
    """The same, at many moments that a seed chooses."""
    assert with_key() == 0
    choose = random.Random(5)  # noqa: S311 - repeatable, not secret
    assert rounds(source, tmp_path / "out", [choose.random() * 1.1 for _ in range(60)]) > 0
