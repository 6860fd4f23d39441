"""A typed program that uses the package, as type checkers see it.

``tests/consumer`` is checked by mypy in ``make types`` too; here it stands alone, apart from the
sources, as on its author's machine.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONSUMER = Path(__file__).parents[1] / "consumer"


@pytest.fixture
def consumer(tmp_path: Path) -> Path:
    """Return a copy of the project."""
    return Path(shutil.copytree(CONSUMER, tmp_path / "consumer"))


def _pyright(project: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("-p", project, "--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 3, done.stderr
    errors: list[dict[str, Any]] = found["generalDiagnostics"]
    return errors


def test_pyright_sees_every_keyword_and_every_attribute(consumer: Path) -> None:
    """In strict mode, with each mistake that the program makes on purpose."""
    assert _pyright(consumer) == []


def test_pyright_reports_a_wrong_keyword(consumer: Path) -> None:
    """What the program marks as expected is found where it is not marked."""
    for name in ("plain.py", "awaited.py"):
        path = consumer / "diary" / name
        text = path.read_text().replace("# pyright: ignore[reportCallIssue]", "")
        path.write_text(text)
    assert {(Path(each["file"]).name, each["rule"]) for each in _pyright(consumer)} == {
        ("plain.py", "reportCallIssue"),
        ("awaited.py", "reportCallIssue"),
    }


@pytest.mark.prove
def test_mypy_sees_every_keyword_and_every_attribute(consumer: Path) -> None:
    """Strict, with no settings of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", consumer / "cache", "diary"],
        cwd=consumer,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
