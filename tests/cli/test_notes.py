"""Notes of coding agents on the command line: folders, and files that others write, too."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_TOLD = "# Shop\r\n\r\nRun `make check`.\r\nNo line end here"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of notes as Claude Code keeps it."""
    with zipfile.ZipFile(_SAMPLES / "markdown_memory" / "good-claude-code.zip") as archive:
        archive.extractall(tmp_path / "notes")
    return tmp_path / "notes"


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()
    }


def test_a_folder_of_notes_round_trips_byte_for_byte(
    satchel: Run, notes: Path, tmp_path: Path
) -> None:
    """Through a bank; imported again, nothing is new; its digest is that of the folder."""
    assert satchel("import", notes, "--bank", "b").status == 0
    ran = satchel(
        "export", "-o", tmp_path / "out", "--bank", "b", "--to", "markdown_memory", "--json"
    )
    again = satchel("import", tmp_path / "out", "--bank", "b", "--json").json

    assert ran.status == 0
    assert ran.json["account"]["read_back"] == "equal"
    assert _files(tmp_path / "out") == _files(notes)
    assert again["banks"][0]["done"]["known"] == 8
    assert again["input_digest"] == ran.json["output_digest"]


def test_a_new_memory_is_added_to_the_notes_and_the_rest_stays(
    satchel: Run, notes: Path, tmp_path: Path
) -> None:
    """The index gets a line, below those that somebody wrote."""
    satchel("import", notes, "--bank", "b")
    satchel("remember", "The shop closes on Mondays.", "--bank", "b")
    ran = satchel("export", "-o", notes, "--bank", "b", "--to", "markdown_memory", "--overwrite")
    before, after = _files(tmp_path / "notes.before"), _files(notes)

    assert ran.status == 0, ran.err
    assert "notes.before" in ran.err
    new = "the-shop-closes-on-mondays.md"
    assert {name: after[name] for name in before if name != "MEMORY.md"} == {
        name: data for name, data in before.items() if name != "MEMORY.md"
    }
    lines = after["MEMORY.md"].decode().splitlines()
    assert [one for one in lines if one not in before["MEMORY.md"].decode().splitlines()] == [
        f"- [the-shop-closes-on-mondays]({new}) — The shop closes on Mondays."
    ]


def test_an_existing_folder_is_not_replaced_by_default(satchel: Run, notes: Path) -> None:
    """Nothing in it changes, and nothing lies beside it; a dry run writes nothing either."""
    before = _files(notes)
    satchel("remember", "x", "--bank", "b")
    args = ("export", "-o", notes, "--bank", "b", "--to", "markdown_memory")
    refused, tried = satchel(*args, "--json"), satchel(*args, "--dry-run")

    assert (refused.status, refused.error["code"]) == (5, "target.exists")
    assert tried.status == 0
    assert _files(notes) == before
    assert [one.name for one in notes.parent.iterdir() if "notes" in one.name] == ["notes"]


def test_a_folder_of_notes_becomes_an_archive_by_its_name(
    satchel: Run, notes: Path, tmp_path: Path
) -> None:
    """The same files in it."""
    satchel("convert", notes, tmp_path / "out.zip", "--to", "markdown_memory")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}

    assert found == _files(notes)


def test_memory_goes_into_agents_md_and_everything_else_stays(satchel: Run, tmp_path: Path) -> None:
    """To the byte, with its permissions; what was there is kept, and a second time changes none."""
    path = tmp_path / "AGENTS.md"
    path.write_bytes(_TOLD.encode())
    path.chmod(0o644)
    satchel("remember", "Prices have two digits.", "--bank", "b")
    args = ("export", "-o", path, "--bank", "b", "--accept-loss", "all")
    first = satchel(*args, "--json")
    once = path.read_bytes()
    satchel("remember", "Never name customers.", "--bank", "b")
    second = satchel(*args)
    twice = path.read_bytes()

    assert (first.status, second.status) == (0, 0), first.out + second.err
    assert {loss["name"] for loss in first.json["losses"]} == {"created_at"}
    assert once.startswith(_TOLD.encode())
    assert twice.startswith(_TOLD.encode())
    assert b"- Prices have two digits.\r\n- Never name customers.\r\n" in twice
    assert path.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "AGENTS.md.bak").read_bytes() == once
    assert {one.name for one in tmp_path.glob("*AGENTS*")} == {"AGENTS.md", "AGENTS.md.bak"}


def test_instructions_go_through_a_bank_and_back_into_their_file(
    satchel: Run, tmp_path: Path
) -> None:
    """They are not written a second time, and no loss is claimed."""
    path = tmp_path / "CLAUDE.md"
    path.write_text("# Shop\n\nRun the tests.\n")
    satchel("import", path, "--bank", "b")
    satchel("remember", "Prices have two digits.", "--bank", "b")
    args = ("export", "-o", path, "--bank", "b", "--accept-loss", "created_at")
    ran = satchel(*args, "--json")

    assert ran.status == 0, ran.out
    assert path.read_text().count("Run the tests.") == 1
    path.unlink()
    assert satchel(*args).status == 0
    assert path.read_text().startswith("# Shop\n\nRun the tests.\n")


def test_a_link_in_the_place_of_agents_md_is_not_followed_nor_replaced(
    satchel: Run, tmp_path: Path
) -> None:
    """The file that it leads to is named instead."""
    (tmp_path / "CLAUDE.md").write_text("# Shop\n")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    satchel("remember", "x", "--bank", "b")
    ran = satchel("export", "-o", tmp_path / "AGENTS.md", "--bank", "b", "--json")

    assert ran.error["code"] == "path.refused"
    assert (tmp_path / "AGENTS.md").is_symlink()
    assert (tmp_path / "CLAUDE.md").read_text() == "# Shop\n"


def test_a_file_that_changes_while_it_is_written_is_left_as_it_is(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody saves it in that moment: their words stay, and the command says so."""
    from satchel.transfer.outputs import compare_output

    path = tmp_path / "AGENTS.md"
    path.write_text("# Shop\n")

    def edited(*given: object) -> object:
        path.write_text("# Shop\n\nSaved meanwhile.\n")
        return compare_output(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("satchel.transfer.outputs.compare_output", edited)
    satchel("remember", "x", "--bank", "b")
    ran = satchel("export", "-o", path, "--bank", "b", "--json")

    assert ran.status == 5
    assert path.read_text() == "# Shop\n\nSaved meanwhile.\n"
    assert not (tmp_path / "AGENTS.md.bak").exists()


@pytest.mark.parametrize("name", ["memory.mdc", "memory.claude.txt", "AGENTS.md", "notes"])
def test_notes_round_trip_except_for_the_losses_in_the_receipt(
    satchel: Run, tmp_path: Path, name: str
) -> None:
    """Every memory is there again; a member that is not is named, and nothing else is missing."""
    sample = _SAMPLES / "pam" / "good-everything.pam"
    satchel("import", sample, "--bank", "a", "--unsafe-accept", "untrusted")
    format_ = ("--to", "markdown_memory") if name == "notes" else ()
    ran = satchel("export", "-o", tmp_path / name, "--bank", "a", *format_, "--json")
    named = {loss["name"].partition("/")[0] for loss in ran.json["losses"]}
    back = satchel("import", tmp_path / name, "--bank", "c")
    assert back.status == 0, back.err
    found = satchel("diff", "a", "c", "--json", "--limit", "100").json

    assert ran.status == 1
    assert found["only_b"] + found["changed"] + found["same"] == ran.json["records"]["semantic"] + 3
    for pair in found["first_changed"]:
        assert {*pair["fields"]} <= {*named, "text", "metadata", "kind", "created_at"}
