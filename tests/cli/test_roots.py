"""``portability.roots``: commands are restricted to paths below the configured roots."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run

ROOTS = "SATCHEL_PORTABILITY_ROOTS"


@pytest.fixture
def folders(
    satchel: Run, mem0: Path, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """A configured root, and a folder outside it, with the same files."""
    assert satchel("import", mem0, "--bank", "b").status == 0
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.json").write_bytes(mem0.read_bytes())
        (tmp_path / name / "record.json").write_text('{"text": "x"}')
        (tmp_path / name / "in.pam.jsonl").write_bytes(sealed.read_bytes())
    monkeypatch.setenv(ROOTS, str(tmp_path / "root"))
    return tmp_path / "root", tmp_path / "outside"


COMMANDS: dict[str, Callable[[Path], tuple[str | Path, ...]]] = {
    "export": lambda at: ("export", "--bank", "b", "--output", at / "out.pam"),
    "import": lambda at: ("import", at / "in.json", "--bank", "c"),
    "inspect": lambda at: ("inspect", at / "in.json"),
    "verify": lambda at: ("verify", at / "in.pam.jsonl"),
    "diff": lambda at: ("diff", at / "in.json", at / "in.json"),
    "everything": lambda at: ("everything", "--about", "tea", "--bank", "b", "-o", at / "out.md"),
    "remember": lambda at: ("remember", "--file", at / "in.json", "--bank", "b"),
    "remember a record": lambda at: ("remember", "--record", at / "record.json", "--bank", "b"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_works_in_the_roots_and_is_refused_outside(
    satchel: Run,
    folders: tuple[Path, Path],
    command: Callable[[Path], tuple[str | Path, ...]],
) -> None:
    """Status 3, and nothing is read or written."""
    root, outside = folders
    before = sorted(outside.iterdir())
    assert satchel(*command(root)).status == 0
    ran = satchel(*command(outside), "--json")
    assert ran.status == 3
    assert ran.error["code"] == "path.uncontained"
    assert ran.error["roots"] == [str(root)]
    (root / "link").symlink_to(outside)
    assert satchel(*command(root / "link")).status == 4
    assert sorted(outside.iterdir()) == before


def test_input_and_output_of_a_conversion_must_be_below_the_roots(
    satchel: Run, folders: tuple[Path, Path]
) -> None:
    """Either one outside is refused."""
    root, outside = folders
    for source, output, status in (
        (root, root, 0),
        (root, outside, 3),
        (outside, root, 3),
    ):
        words = ("convert", source / "in.json", output / "out.pam", "--overwrite")
        assert satchel(*words).status == status
    assert not (outside / "out.pam").exists()


@pytest.mark.parametrize("command", ["import", "convert"])
def test_standard_input_is_not_restricted_by_roots(
    satchel: Run, folders: tuple[Path, Path], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its private temporary file is outside every root."""
    root, _ = folders
    data = (root / "in.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    words = {"import": ("--bank", "c"), "convert": (root / "out.pam",)}[command]
    assert satchel(command, "-", *words).status == 0


def test_without_roots_any_path_is_accepted(
    satchel: Run, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links included."""
    monkeypatch.delenv(ROOTS)
    root, outside = folders
    (root / "link").symlink_to(outside)
    for command in COMMANDS.values():
        assert satchel(*command(root / "link")).status == 0


def test_config_show_prints_the_roots_with_their_origin(
    satchel: Run, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment, Astrocyte's variable, and file."""
    root, _ = folders

    def shown() -> tuple[object, str]:
        values = satchel("config", "show", "--json").json["values"]
        (one,) = [value for value in values if value["name"] == "portability.roots"]
        return one["value"], one["origin"]

    assert shown() == ([str(root)], ROOTS)
    monkeypatch.delenv(ROOTS)
    assert shown() == (None, "default")
    monkeypatch.setenv("ASTROCYTE_PORTABILITY_ROOTS", f"/a{os.pathsep}/b")
    assert shown() == (["/a", "/b"], "ASTROCYTE_PORTABILITY_ROOTS")
    monkeypatch.delenv("ASTROCYTE_PORTABILITY_ROOTS")
    config = tmp_path / "satchel.toml"
    config.write_text('[portability]\nroots = ["/c"]\n')
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    assert shown() == (["/c"], "file")
    config.write_text('[portability]\nroots = "/c"\n')
    assert satchel("config", "show").status == 2
