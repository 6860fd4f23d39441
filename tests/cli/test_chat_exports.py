"""Exports of chat products on the command line: archives, folders, sessions with branches."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
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


def test_a_folder_without_an_export_is_reported_as_a_directory(satchel: Run, tmp_path: Path) -> None:
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
