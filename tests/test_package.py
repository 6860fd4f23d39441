"""What is installed: every file of the package, those of agent hosts and of the page too."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
NEEDED = (
    "py.typed",
    "web/index.html",
    "web/page.js",
    "web/page.css",
    "web/mark.svg",
    "inference/data/pieces.txt",
    *(
        f"setup/plugin/{name}"
        for name in (
            ".mcp.json",
            ".claude-plugin/plugin.json",
            ".codex-plugin/plugin.json",
            ".cursor-plugin/plugin.json",
            "skills/satchel/SKILL.md",
        )
    ),
)


def _there() -> set[str]:
    """Return the files of the package, as they are found from it."""
    files = (path for path in (SOURCES / "satchel").rglob("*") if path.is_file())
    found = {path.relative_to(SOURCES).as_posix() for path in files if path.suffix != ".pyc"}
    assert {f"satchel/{name}" for name in NEEDED} <= found
    return found


def test_the_build_takes_every_file_of_the_package() -> None:
    """What is ignored by git is left out of wheels: no name of ours may be."""
    included = WheelBuilder(str(ROOT)).recurse_included_files()
    assert {one.distribution_path for one in included} == _there()


@pytest.mark.prove
def test_the_wheel_has_it_all_and_works(tmp_path: Path) -> None:
    """Built, unpacked elsewhere and run from there, without the sources."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("satchel-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert names == _there()
        for name in names:
            assert archive.read(name) == (SOURCES / name).read_bytes(), name
        archive.extractall(tmp_path / "installed")
    where = {"PYTHONPATH": str(tmp_path / "installed"), "SATCHEL_HOME": str(tmp_path / "home")}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, **where},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    run("-m", "satchel", "remember", "Ada drinks tea")
    assert "Ada drinks tea" in run("-m", "satchel", "recall", "tea")
    assert "ama" in run("-m", "satchel", "formats")
    assert run("-c", "import satchel; print(satchel.__file__)").startswith(str(tmp_path))
