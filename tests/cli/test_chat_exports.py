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
    """An export of Claude that somebody unpacked."""
    found = tmp_path / "export"
    with zipfile.ZipFile(_SAMPLES / "claude" / "good-export.zip") as archive:
        archive.extractall(found)
    (found / "users.json").write_text('[{"uuid": "acc-7", "full_name": "Mira"}]')
    (found / "attachments").mkdir()
    (found / "attachments" / "a.png").write_bytes(b"\x89PNG")
    return found


def test_a_folder_and_its_archive_are_the_same(satchel: Run, folder: Path) -> None:
    """What was unpacked is read as it was, with what is no memory named."""
    ran = satchel("import", folder, "--bank", "b", "--json")

    assert (ran.status, ran.json["losses"]) == (0, [])
    assert ran.json["notes"][0] == "ignored, as it holds no memory: 1 *.png, 1 users.json"
    again = satchel("import", _SAMPLES / "claude" / "good-export.zip", "--bank", "b", "--json")
    done = again.json["banks"][0]["done"]
    assert done == {"read": 17, "known": 3, "others_known": 14}
    found = satchel("recall", "tea shop in Lisbon", "--bank", "b").out
    assert "Mira runs a small tea shop in Lisbon." in found


def test_an_export_of_several_archives_is_read_as_one(satchel: Run, tmp_path: Path) -> None:
    """As Claude gives it out since late 2026: archives by kind, beside a list of links to them."""
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


def test_an_archive_in_a_folder_that_expands_too_far_is_refused(
    satchel: Run, tmp_path: Path
) -> None:
    """Also where each of its files by itself does not."""
    (tmp_path / "download").mkdir()
    path = tmp_path / "download" / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(2):
            made.writestr(f"{number}.json", b" " * (40 * 2**20))
    ran = satchel("import", path.parent, "--bank", "b", "--json")

    assert (ran.status, ran.error["code"]) == (4, "input.limit")


def test_a_link_in_a_folder_is_refused(satchel: Run, folder: Path) -> None:
    """So that no export makes us read what is elsewhere."""
    (folder / "more.json").symlink_to("/etc/hostname")

    ran = satchel("import", folder, "--bank", "b", "--json")
    assert (ran.status, ran.error["code"]) == (4, "path.refused")


def test_a_folder_that_is_no_export_is_reported_as_a_folder(satchel: Run, tmp_path: Path) -> None:
    """Nothing in it is looked at."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"\xff\xd8")

    ran = satchel("inspect", tmp_path / "photos", "--json")
    assert "directory" in ran.error["message"]


def test_another_answer_is_a_fork_that_can_be_shown(satchel: Run) -> None:
    """With everything before it, and not what came after it elsewhere."""
    satchel("import", _SAMPLES / "chatgpt" / "good-shards.zip", "--bank", "b")
    listed = satchel("session", "list", "--bank", "b", "--json").json["sessions"]
    fork = next(one for one in listed if one.get("origin", {}).get("number") == 2)
    shown = satchel("session", "show", fork["id"], "--bank", "b", "--json").json
    words = json.dumps(shown)

    assert fork["messages"] == 3
    assert "Which tea for guests?" in words
    assert "Black tea." in words
    assert "Green tea." not in words


def test_a_transcript_that_has_grown_brings_what_is_new(satchel: Run, tmp_path: Path) -> None:
    """Nothing that the bank has comes twice, and the conversation goes on where it was."""
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
"""What a program took at most: a small one asks, since a child begins with its parent's peak."""


@pytest.mark.prove
@pytest.mark.parametrize("megabytes", [64, 1024])
def test_a_large_export_in_shards_is_streamed(satchel: Run, tmp_path: Path, megabytes: int) -> None:
    """A gigabyte of ChatGPT's shards, packed, is imported within 200 MB of memory."""
    path = tmp_path / "export.zip"
    messages = large_export(path, megabytes * 2**20)
    words = [sys.executable, "-c", _MEASURED, "import", str(path), "--bank", "b"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    path.unlink()

    assert done.returncode == 0
    assert int(done.stdout) < 200 * 1024  # which is in kilobytes
    (bank,) = satchel("bank", "list", "--json").json["banks"]
    assert bank["records"] > messages


def test_a_healthy_export_of_google_ignores_other_products(satchel: Run) -> None:
    """Activity of Search is no memory of Gemini: one line names the file, and the status is 0."""
    ran = satchel("import", _SAMPLES / "gemini" / "good-takeout.zip", "--bank", "b")
    assert (ran.status, "lost" in ran.err) == (0, False)
    assert "ignored, as it holds no memory: 1 MyActivity.json" in ran.err
    assert "5 conversations added" in ran.out
    assert "13 messages added" in ran.out
