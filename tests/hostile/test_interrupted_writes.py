"""Conversions killed at any moment: the target is the old file or the complete new one."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from satchel.cli.main import run

RECORDS = 600
OLD = b"existing"
OUTPUT_BYTES = 240_000
"""Fewer bytes than the target has, more than any other written file."""

VICTIM = """
import os, resource, signal, sys

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def hook(event, arguments):
    # Within an open folder, names are relative to it.
    if event == moment and str(arguments[0]).startswith((folder, ".out.pam.jsonl")):
        die()

moment, folder, *arguments = sys.argv[1:]
if moment.isdigit():
    # The kernel ends the process at exactly this byte of a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment), int(moment)))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
elif moment == "fsync":
    os.fsync = die
elif moment == "fsync of the folder":
    sync, whose = os.fsync, os.stat(folder)
    os.fsync = lambda handle: die() if os.path.samestat(os.fstat(handle), whose) else sync(handle)
else:
    sys.addaudithook(hook)

from satchel.cli.main import run
sys.exit(run(arguments))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Mem0 file, and a signing key, so that all rounds are equal."""
    assert run(["key", "create"]) == 0
    path = tmp_path / "mem0.json"
    rows = [{"id": str(number), "memory": f"fact {number} " * 20} for number in range(RECORDS)]
    path.write_text(json.dumps(rows))
    return path


def is_killed(source: Path, target: Path, moment: str) -> bool:
    """Run a conversion that dies at a given moment; return whether it died."""
    words = ["convert", str(source), str(target), "--overwrite"]
    command = [sys.executable, "-c", VICTIM, moment, str(target.parent), *words]
    return subprocess.run(command, capture_output=True, check=False).returncode < 0


def surviving_file(source: Path, folder: Path, moment: str) -> str:
    """Kill a conversion, assert that the target is complete, and return which file it is."""
    folder.mkdir(exist_ok=True)
    target = folder / "out.pam.jsonl"
    target.write_bytes(OLD)
    before = {found.name for found in folder.iterdir()}
    assert is_killed(source, target, moment)
    left = {found.name for found in folder.iterdir()}
    assert all(name.startswith(".") and name.endswith(".tmp") for name in left - before)
    if target.read_bytes() == OLD:
        kept = "old"
    else:
        kept = "new"
        assert run(["verify", str(target), "--deep"]) == 0
    assert run(["convert", str(source), str(target), "--overwrite"]) == 0
    assert run(["verify", str(target), "--deep"]) == 0
    assert {found.name for found in folder.iterdir()} == left
    return kept


@pytest.mark.in_check(2)
@pytest.mark.parametrize(
    ("moment", "kept"),
    [
        ("open", "old"),
        ("20000", "old"),
        (str(OUTPUT_BYTES - 1), "old"),
        ("fsync", "old"),
        ("os.rename", "old"),
        ("fsync of the folder", "new"),
    ],
)
def test_a_killed_conversion_leaves_the_old_or_the_complete_new_file(
    source: Path, tmp_path: Path, moment: str, kept: str
) -> None:
    """At each step of publishing a file, and in the middle of its bytes."""
    assert surviving_file(source, tmp_path / "out", moment) == kept


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_conversion_killed_at_any_byte_leaves_the_old_file(source: Path, tmp_path: Path) -> None:
    """Sixty random bytes; temporary files do not disturb later runs."""
    choose = random.Random(5)  # noqa: S311 - repeatable, not secret
    for _ in range(60):
        moment = str(choose.randrange(10_000, OUTPUT_BYTES))
        assert surviving_file(source, tmp_path / "out", moment) == "old"


def test_a_target_over_the_file_size_limit_is_exit_status_5(source: Path, tmp_path: Path) -> None:
    """Fault: a limit of the system; the old file stays."""
    target = tmp_path / "out" / "out.pam"
    target.parent.mkdir()
    target.write_bytes(OLD)
    bounded = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from satchel.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    words = ["convert", str(source), str(target), "--overwrite", "--json"]
    command = [sys.executable, "-c", bounded, *words]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert ran.returncode == 5, ran.stderr
    assert json.loads(ran.stderr)["error"]["code"] == "target.failed"
    assert [found.name for found in target.parent.iterdir()] == [target.name]
    assert target.read_bytes() == OLD
