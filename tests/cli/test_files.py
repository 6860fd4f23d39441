"""``satchel file``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.api.store import Satchel
from satchel.config.settings import load_settings
from satchel.files import MemoryStore
from satchel.files.catch_up import namespace_of

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_a_file_is_written_read_edited_moved_and_deleted(satchel: Run) -> None:
    """Each command sees the result of the one before."""
    assert satchel("file", "ls").status == 4
    assert satchel("file", "write", "user/a.md", "likes tea\n", "--keep-versions").status == 0
    assert satchel("file", "edit", "user/a.md", "tea", "coffee", "--reason", "changed").status == 0
    assert satchel("file", "read", "user/a.md").out == "likes coffee\n"
    assert satchel("file", "read", "user/a.md", "--version", "1").out == "likes tea\n"
    differ = satchel("file", "diff", "user/a.md", "1")
    assert (differ.status, "+likes coffee" in differ.out) == (1, True)
    assert satchel("file", "restore", "user/a.md", "1").status == 0
    assert satchel("file", "mv", "user/a.md", "b.md").status == 0
    assert [one["path"] for one in satchel("file", "ls", "--json").json["files"]] == ["b.md"]
    assert satchel("file", "rm", "b.md").status == 0
    history = satchel("file", "history", "user/a.md", "--json").json["versions"]
    assert [one["op"] for one in history] == ["create", "update", "restore", "renamed"]
    events = satchel("file", "audit", "--json").json["events"]
    assert [one["op"] for one in events if one["op"] != "transcript"] == [
        *("policy", "create", "update", "restore", "rename", "delete"),
    ]
    assert satchel("file", "audit", "--verify").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["read", "no.md"], 4, "files.none"),
        (["write", "../up", "x"], 4, "files.refused"),
        (["write", "audit", "x"], 3, "files.denied"),
        (["write", "a.md", "x", "--expected-sha", ""], 1, "files.changed"),
        (["edit", "a.md", "nowhere", "x"], 4, "files.refused"),
        (["rm", "no.md"], 4, "files.refused"),
        (["ls", "--file-store", "k", "--root", "r"], 2, "usage"),
        (["ls", "--file-store", "../k"], 4, "files.refused"),
        (["promote", "a.md", "b.md", "--author", "x"], 2, "usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_refused_file_command_changes_nothing(
    satchel: Run, arguments: list[str], status: int, code: str
) -> None:
    """With exit status and code of the error."""
    assert satchel("file", "write", "a.md", "kept").status == 0
    ran = satchel("file", *arguments, "--json")

    assert (ran.status, ran.error["code"]) == (status, code)
    assert satchel("file", "read", "a.md").out == "kept"


def test_file_sync_imports_an_existing_folder(satchel: Run, tmp_path: Path) -> None:
    """A plain folder of notes becomes a file store in place."""
    notes = tmp_path / "notes"
    (notes / "sub").mkdir(parents=True)
    (notes / "a.md").write_text("by hand")
    (notes / "sub" / "b.md").write_text("too")
    taken = satchel("file", "sync", "--root", notes, "--actor", "editor", "--json")

    assert taken.json["created"] == ["a.md", "sub/b.md"]
    assert [
        one["updated_by"] for one in satchel("file", "ls", "--root", notes, "--json").json["files"]
    ] == [
        "editor",
        "editor",
    ]


def test_promote_with_a_rule_reports_the_files_it_skips(satchel: Run, tmp_path: Path) -> None:
    """Secrets, hidden characters, other authors' files and existing targets are skipped."""
    root = tmp_path / "store"
    key = "sk-" + "ant-api03-" + "A1b2C3d4E5" * 9 + "-AAAAAAAA"
    with MemoryStore(root=root, read_only_prefixes=("memory/",)) as store:
        for name, text, actor in (
            ("good.md", "Ada likes tea", "agent"),
            ("secret.md", f"the key is {key}", "agent"),
            ("hidden.md", "obey\u200b\u200bme", "agent"),
            ("mallory.md", "mine", "mallory"),
        ):
            store.write_text(f"user/{name}", text, actor=actor)
    words = ("file", "promote", "user", "memory", "--folder", "--author", "agent", "--root", root)
    planned = satchel(*words, "--dry-run", "--json")
    assert planned.status == 1
    with MemoryStore(root=root) as store:
        assert store.list_paths("memory") == []
    ran = satchel(*words, "--json")

    assert ran.status == 1
    stay = {one["proposal"]: one["reason"] for one in ran.json["proposals"] if one["reason"]}
    assert set(stay) == {"user/hidden.md", "user/secret.md", "user/mallory.md"}
    assert key not in json.dumps(ran.json)
    with MemoryStore(root=root) as store:
        assert store.list_paths() == ["memory/good.md", *sorted(stay)]
        assert store.audit_tail_sync(1)[0]["op"] == "promote"
    by_hand = satchel("file", "promote", "user/mallory.md", "memory/s.md", "--root", root)
    assert by_hand.status == 0


def test_doctor_verifies_files_and_the_log_of_their_bank(satchel: Run) -> None:
    """Valid, changed outside, not logged yet, and forged."""
    assert satchel("init", "ada").status == 0
    assert satchel("file", "write", "a.md", "x", "--file-store", "ada").status == 0

    def checks() -> dict[str, str]:
        found = satchel("doctor", "--json").json["checks"]
        return {one["name"]: f"{one['state']}: {one['detail']}" for one in found}

    assert checks()["files of ada"].startswith("ok: 1 files")
    assert checks()["log of ada"] == "ok: matches the files"
    (place,) = (Path(os.environ["SATCHEL_HOME"]) / "files").rglob("ada")
    with MemoryStore(root=place) as store:
        store.write_text("b.md", "from a program")
    assert checks()["log of ada"] == "note: not logged: b.md"
    assert satchel("file", "sync", "--file-store", "ada").status == 0
    assert checks()["log of ada"].startswith("ok")
    log = place / "audit" / "log.jsonl"
    log.write_text(log.read_text().replace("a.md", "z.md"))
    assert checks()["files of ada"].startswith("problem")
    assert satchel("doctor").status == 1


def test_file_commands_use_the_default_bank(satchel: Run) -> None:
    """The command line and Python use the same files."""
    assert satchel("init", "assistant").status == 0
    with Satchel.open() as opened, opened.bank().files as files:
        files.write_text("notes/a.md", "from Python", actor="ada")
        files.save()
    assert "notes/a.md" in satchel("file", "ls").out
    assert satchel("file", "write", "notes/b.md", "from the shell").status == 0
    with Satchel.open() as opened, opened.bank().files as files:
        assert set(files.list_paths()) >= {"notes/a.md", "notes/b.md"}


def test_reading_files_appends_nothing_to_the_log(satchel: Run) -> None:
    """Changes by other programs are logged by the next command that writes."""
    satchel("remember", "x", "--bank", "ada")
    satchel("file", "write", "a.md", "1", "--file-store", "ada")
    size = satchel("stats", "--bank", "ada", "--json").json["records"]
    known = {**namespace_of(load_settings())._asdict(), "key": "ada"}
    with MemoryStore.get_or_create(**known) as store:
        store.write_text("b.md", "2")
    assert "b.md" in satchel("file", "ls", "--file-store", "ada").out
    assert satchel("file", "read", "b.md", "--file-store", "ada").out == "2"
    assert satchel("stats", "--bank", "ada", "--json").json["records"] == size
    satchel("file", "write", "c.md", "3", "--file-store", "ada")
    assert satchel("stats", "--bank", "ada", "--json").json["records"] > size + 1
