"""Formats on the command line: chat exports, notes of coding agents, AMA archives."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ama_kit import archive, lines, memory
from chats_kit import large_export

if TYPE_CHECKING:
    from tests.cli.conftest import Run


_SAMPLES = Path(__file__).parent.parent / "data" / "formats"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An unpacked export of Claude."""
    found = tmp_path / "export"
    with zipfile.ZipFile(_SAMPLES / "claude" / "good-export.zip") as archive:
        archive.extractall(found)
    (found / "users.json").write_text('[{"uuid": "acc-7", "full_name": "Mira"}]')
    (found / "attachments").mkdir()
    (found / "attachments" / "a.png").write_bytes(b"\x89PNG")
    return found


def test_an_unpacked_chat_export_is_imported_like_its_archive(satchel: Run, folder: Path) -> None:
    """Files without memories are named in the notes."""
    ran = satchel("import", folder, "--bank", "b", "--json")

    assert (ran.status, ran.json["losses"]) == (0, [])
    assert ran.json["notes"][0] == "ignored, as it holds no memory: 1 *.png, 1 users.json"
    again = satchel("import", _SAMPLES / "claude" / "good-export.zip", "--bank", "b", "--json")
    done = again.json["banks"][0]["done"]
    assert done == {"read": 17, "known": 3, "others_known": 14}
    found = satchel("recall", "tea shop in Lisbon", "--bank", "b").out
    assert "Mira runs a small tea shop in Lisbon." in found


def test_a_chat_export_of_several_archives_is_imported_as_one(satchel: Run, tmp_path: Path) -> None:
    """As Claude exports since late 2026: an archive per kind, beside a manifest."""
    folder = tmp_path / "download"
    folder.mkdir()
    with zipfile.ZipFile(_SAMPLES / "claude" / "good-export.zip") as archive:
        for name in archive.namelist():
            path = folder / f"{name.replace('/', '-')}-000.zip"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
                made.writestr(name.rpartition("/")[2], archive.read(name))
    (folder / "manifest-1.json").write_text('{"files": [{"url": "https://example.org"}]}')
    ran = satchel("import", folder, "--bank", "b", "--json")

    assert (ran.status, ran.json["losses"]) == (0, [])
    assert ran.json["notes"][0] == "ignored, as it holds no memory: 1 manifest-1.json"
    again = satchel("import", _SAMPLES / "claude" / "good-export.zip", "--bank", "b", "--json")
    assert again.json["banks"][0]["done"] == {"read": 17, "known": 3, "others_known": 14}


def test_an_archive_in_a_folder_that_expands_over_the_limit_is_refused(
    satchel: Run, tmp_path: Path
) -> None:
    """Even if none of its files does so alone."""
    (tmp_path / "download").mkdir()
    path = tmp_path / "download" / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(2):
            made.writestr(f"{number}.json", b" " * (40 * 2**20))
    ran = satchel("import", path.parent, "--bank", "b", "--json")

    assert (ran.status, ran.error["code"]) == (4, "input.limit")


def test_a_link_in_an_export_folder_is_refused(satchel: Run, folder: Path) -> None:
    """An export cannot cause files elsewhere to be read."""
    (folder / "more.json").symlink_to("/etc/hostname")

    ran = satchel("import", folder, "--bank", "b", "--json")
    assert (ran.status, ran.error["code"]) == (4, "path.refused")


def test_a_folder_without_an_export_is_reported_as_a_directory(
    satchel: Run, tmp_path: Path
) -> None:
    """Its files are not read."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"\xff\xd8")

    ran = satchel("inspect", tmp_path / "photos", "--json")
    assert "directory" in ran.error["message"]


def test_a_regenerated_answer_is_imported_as_a_fork(satchel: Run) -> None:
    """With every message before it, and none of the other branch."""
    satchel("import", _SAMPLES / "chatgpt" / "good-shards.zip", "--bank", "b")
    listed = satchel("session", "list", "--bank", "b", "--json").json["sessions"]
    fork = next(one for one in listed if one.get("origin", {}).get("number") == 2)
    shown = satchel("session", "show", fork["id"], "--bank", "b", "--json").json
    words = json.dumps(shown)

    assert fork["messages"] == 3
    assert "Which tea for guests?" in words
    assert "Black tea." in words
    assert "Green tea." not in words


def test_an_extended_transcript_adds_only_new_messages(satchel: Run, tmp_path: Path) -> None:
    """The conversation continues where it ended."""
    lines = (_SAMPLES / "claude_code" / "good-talk.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(lines[:5]))
    assert satchel("import", path, "--bank", "b").status == 0
    path.write_bytes(b"".join(lines))
    done = satchel("import", path, "--bank", "b", "--json").json["banks"][0]["done"]
    listed = satchel("session", "list", "--bank", "b", "--json").json["sessions"]

    assert done["others_known"] == 5
    assert [one["messages"] for one in listed] == [6, 2]


_MEASURED = """
import resource, subprocess, sys

quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
status = subprocess.run([sys.executable, "-m", "satchel", *sys.argv[1:]], **quiet).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Peak memory of a command, measured by a small parent: a child starts with its parent's peak."""


@pytest.mark.prove
@pytest.mark.parametrize("megabytes", [64, 1024])
def test_a_large_export_in_shards_is_streamed(satchel: Run, tmp_path: Path, megabytes: int) -> None:
    """A ZIP of 1 GB of ChatGPT shards is imported within 200 MB of memory."""
    path = tmp_path / "export.zip"
    messages = large_export(path, megabytes * 2**20)
    words = [sys.executable, "-c", _MEASURED, "import", str(path), "--bank", "b"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    path.unlink()

    assert done.returncode == 0
    assert int(done.stdout) < 200 * 1024  # which is in kilobytes
    (bank,) = satchel("bank", "list", "--json").json["banks"]
    assert bank["records"] > messages


def test_an_export_of_google_ignores_other_products(satchel: Run) -> None:
    """Search activity is not a Gemini conversation: the file is named, with status 0."""
    ran = satchel("import", _SAMPLES / "gemini" / "good-takeout.zip", "--bank", "b")
    assert (ran.status, "lost" in ran.err) == (0, False)
    assert "ignored, as it holds no memory: 1 MyActivity.json" in ran.err
    assert "5 conversations added" in ran.out
    assert "13 messages added" in ran.out


_INSTRUCTIONS = "# Shop\r\n\r\nRun `make check`.\r\nNo line end here"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of notes in the layout of Claude Code."""
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
    """Through a bank; a second import adds nothing; the digests are equal."""
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


def test_a_new_memory_is_added_to_a_folder_of_notes(
    satchel: Run, notes: Path, tmp_path: Path
) -> None:
    """The index gets one line below the existing ones; other files stay."""
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


def test_an_existing_folder_is_not_overwritten_by_default(satchel: Run, notes: Path) -> None:
    """A dry run writes nothing either."""
    before = _files(notes)
    satchel("remember", "x", "--bank", "b")
    args = ("export", "-o", notes, "--bank", "b", "--to", "markdown_memory")
    refused, tried = satchel(*args, "--json"), satchel(*args, "--dry-run")

    assert (refused.status, refused.error["code"]) == (5, "target.exists")
    assert tried.status == 0
    assert _files(notes) == before
    assert [one.name for one in notes.parent.iterdir() if "notes" in one.name] == ["notes"]


def test_a_folder_of_notes_is_converted_to_an_archive_by_the_output_name(
    satchel: Run, notes: Path, tmp_path: Path
) -> None:
    """With the same files."""
    satchel("convert", notes, tmp_path / "out.zip", "--to", "markdown_memory")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}

    assert found == _files(notes)


def test_export_adds_memories_to_agents_md_and_keeps_its_text(satchel: Run, tmp_path: Path) -> None:
    """Byte for byte, with its mode; the previous file is saved."""
    path = tmp_path / "AGENTS.md"
    path.write_bytes(_INSTRUCTIONS.encode())
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
    assert once.startswith(_INSTRUCTIONS.encode())
    assert twice.startswith(_INSTRUCTIONS.encode())
    assert b"- Prices have two digits.\r\n- Never name customers.\r\n" in twice
    assert path.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "AGENTS.md.bak").read_bytes() == once
    assert {one.name for one in tmp_path.glob("*AGENTS*")} == {"AGENTS.md", "AGENTS.md.bak"}


def test_imported_instructions_are_not_exported_twice(satchel: Run, tmp_path: Path) -> None:
    """And no loss is reported."""
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


def test_export_refuses_a_linked_agents_md(satchel: Run, tmp_path: Path) -> None:
    """Neither the link nor its target changes."""
    (tmp_path / "CLAUDE.md").write_text("# Shop\n")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    satchel("remember", "x", "--bank", "b")
    ran = satchel("export", "-o", tmp_path / "AGENTS.md", "--bank", "b", "--json")

    assert ran.error["code"] == "path.refused"
    assert (tmp_path / "AGENTS.md").is_symlink()
    assert (tmp_path / "CLAUDE.md").read_text() == "# Shop\n"


def test_export_keeps_a_file_that_changed_during_the_export(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program's text stays, with exit status 5."""
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
    """Every memory is imported again; every missing field is named."""
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


def test_skipped_lines_of_an_ama_archive_are_named_with_exit_status_1(
    satchel: Run, tmp_path: Path
) -> None:
    """Without ``--skip-bad``, the first malformed line is an error and nothing is imported."""
    rows = [b"{" if number % 2 else memory(str(number)) for number in range(30)]
    path = archive(tmp_path / "in.ama.jsonl", *rows)
    refused = satchel("import", path, "--bank", "b", "--json")
    assert (refused.status, refused.error["line"]) == (4, 3)
    done = satchel("import", path, "--bank", "b", "--skip-bad")
    assert done.status == 1
    assert "15 memories added" in done.out
    assert "lost: record, 15: malformed" in done.err
    assert "line 3: not JSON" in done.err
    assert "more: --json" in done.err
    made = satchel("convert", path, tmp_path / "out.pam", "--skip-bad", "--json")
    assert made.status == 1
    assert [one["line"] for one in made.json["refused"]] == list(range(3, 32, 2))
    shown = satchel("convert", path, tmp_path / "out2.pam", "--skip-bad")
    assert "line 3: not JSON" in shown.err


def test_ama_export_options_select_embeddings_and_entities(satchel: Run, tmp_path: Path) -> None:
    """Embeddings are omitted by default, entities included; omissions are reported."""
    row = memory(embedding=[0.5], entities=[{"name": "Noor"}])
    assert satchel("import", archive(tmp_path / "in.ama.jsonl", row), "--bank", "b").status == 0
    for number, (options, members) in enumerate(
        [
            ((), {"entities"}),
            (("--include-embeddings",), {"entities", "embedding"}),
            (("--no-include-entities",), set()),
        ]
    ):
        output = tmp_path / f"{number}.ama.jsonl"
        done = satchel("export", "--bank", "b", "--output", output, *options)
        assert done.status == 0
        assert lines(output)[1].keys() - {"id", "text"} == members
        assert ("embeddings were not exported" in done.err) is ("embedding" not in members)
