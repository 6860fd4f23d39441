"""Memory files synchronized with plain folders, and exchanged as Anthropic memories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.cli.main import run
from satchel.errors import ManyDeletedError, RefusedError, SatchelError
from satchel.files import MemoryStore
from satchel.files.anthropic_stores import FileTransferResult, from_memories, to_memories
from satchel.files.folder_sync import MARKER, keep_alike

Folder = Callable[[], Path]


def test_sync_copies_changes_in_both_directions(store: MemoryStore, folder: Folder) -> None:
    """New, changed and deleted files; a second pass changes nothing."""
    notes = folder()
    (notes / "sub").mkdir()
    (notes / "sub" / "theirs.md").write_text("theirs\r\n")
    store.write_text("ours.md", "ours")
    first = keep_alike(store, notes)
    assert (first.to_store, first.to_folder) == (["sub/theirs.md"], ["ours.md"])
    assert store.read_text("sub/theirs.md") == "theirs\r\n"
    assert (notes / "ours.md").read_bytes() == b"ours"
    (notes / "ours.md").write_text("edited there")
    store.write_text("sub/theirs.md", "edited here")
    keep_alike(store, notes)
    assert store.read_text("ours.md") == "edited there"
    assert (notes / "sub" / "theirs.md").read_text() == "edited here"
    (notes / "ours.md").unlink()
    store.delete("sub/theirs.md")
    last = keep_alike(store, notes)
    assert (last.deleted_in_store, last.deleted_in_folder) == (["ours.md"], ["sub/theirs.md"])
    assert store.list_paths() == []
    again = keep_alike(store, notes)
    assert [value for value in vars(again).values() if value] == []


def test_a_file_changed_on_both_sides_is_stored_twice(store: MemoryStore, folder: Folder) -> None:
    """On both sides, under a new name; nothing is lost."""
    notes = folder()
    store.write_text("a.md", "base")
    keep_alike(store, notes)
    store.write_text("a.md", "ours")
    (notes / "a.md").write_text("theirs")
    done = keep_alike(store, notes)
    aside = f"a.conflict-{hashlib.sha256(b'theirs').hexdigest()[:8]}.md"

    assert done.conflicts == ["a.md"]
    assert store.list_paths() == [aside, "a.md"]
    for path, text in (("a.md", "ours"), (aside, "theirs")):
        assert store.read_text(path) == (notes / path).read_text() == text
    assert keep_alike(store, notes).conflicts == []


def test_a_change_wins_over_a_deletion_on_the_other_side(
    store: MemoryStore, folder: Folder
) -> None:
    """In both directions."""
    notes = folder()
    store.write_many([("a.md", "base"), ("b.md", "base")])
    keep_alike(store, notes)
    store.delete("a.md")
    (notes / "a.md").write_text("kept there")
    store.write_text("b.md", "kept here")
    (notes / "b.md").unlink()
    keep_alike(store, notes)

    assert store.read_text("a.md") == (notes / "a.md").read_text() == "kept there"
    assert store.read_text("b.md") == (notes / "b.md").read_text() == "kept here"


def test_sync_refuses_to_delete_many_files(store: MemoryStore, folder: Folder) -> None:
    """The folder may be an unmounted disk; ``delete_many`` confirms the deletion."""
    notes = folder()
    store.write_many([(f"{number}.md", "x") for number in range(20)])
    keep_alike(store, notes)
    for path in notes.glob("*.md"):
        path.unlink()
    with pytest.raises(ManyDeletedError):
        keep_alike(store, notes)
    assert len(store.list_paths()) == 20
    (notes / MARKER).unlink()
    keep_alike(store, notes)
    assert len(list(notes.glob("*.md"))) == 20
    for path in notes.glob("*.md"):
        path.unlink()
    keep_alike(store, notes, delete_many=True)
    assert store.list_paths() == []


def test_a_folder_of_another_store_is_refused(store: MemoryStore, folder: Folder) -> None:
    """So is one whose marker is damaged, since the changes are unknown then."""
    notes = folder()
    (notes / "a.md").write_text("x")
    keep_alike(MemoryStore(root=folder()), notes)
    with pytest.raises(RefusedError, match="another store"):
        keep_alike(store, notes)
    (notes / MARKER).write_text("{")
    with pytest.raises(RefusedError, match="damaged"):
        keep_alike(store, notes)
    assert store.list_paths() == []


def test_sync_skips_links_hidden_files_and_reserved_names(
    store: MemoryStore, folder: Folder
) -> None:
    """A planted link imports nothing, and the files of a repository are not notes."""
    notes, outside = folder(), folder()
    (outside / "secret.txt").write_text("classified")
    (notes / "leak.md").symlink_to(outside / "secret.txt")
    (notes / "away").symlink_to(outside)
    (notes / ".git").mkdir()
    (notes / ".git" / "config").write_text("[core]")
    (notes / "audit").mkdir()
    (notes / "audit" / "log.jsonl").write_text("forged")
    (notes / "good.md").write_text("good")
    done = keep_alike(store, notes)

    assert store.list_paths() == ["good.md"]
    assert {one.split(":")[0] for one in done.left_out} == {"leak.md", "away", "audit/log.jsonl"}
    link = folder() / "link"
    link.symlink_to(notes)
    with pytest.raises(SatchelError):
        keep_alike(store, link)


def test_sync_obeys_read_only_rules_and_the_prefix(store: MemoryStore, folder: Folder) -> None:
    """Read-only files are not changed from a folder."""
    notes = folder()
    store.write_many([("memory/m.md", "sealed"), ("user/u.md", "u")])
    store.change_policy(read_only_prefixes=("memory/",))
    keep_alike(store, notes, prefix="memory")
    assert [path.name for path in notes.glob("*.md")] == ["m.md"]
    (notes / "m.md").write_text("changed")
    done = keep_alike(store, notes, prefix="memory")

    assert "read-only" in done.left_out[0]
    assert store.read_text("memory/m.md") == "sealed"


def test_anthropic_memories_round_trip_unchanged(store: MemoryStore, folder: Folder) -> None:
    """Path, text and hash; what the format cannot hold is reported."""
    store.write_many([("a/b.md", "one\r\n"), ("c.md", "Zo\u00eb"), ("long.md", "x" * 100_001)])
    store.write_bytes("binary", b"\xff")
    result = FileTransferResult()
    memories = list(to_memories(store, result))
    other = MemoryStore(root=folder())
    back = from_memories(other, memories)

    assert [one["path"] for one in memories] == ["/a/b.md", "/c.md"]
    assert {one.split(":")[0] for one in result.lost} == {"long.md", "binary"}
    assert back.moved == other.list_paths() == ["a/b.md", "c.md"]
    assert other.read_text("a/b.md") == "one\r\n"
    assert from_memories(other, memories).unchanged == ["a/b.md", "c.md"]


@pytest.mark.parametrize(
    "memory",
    [
        {"path": "../up", "content": "x"},
        {"path": "/../up", "content": "x"},
        {"path": "/audit/log.jsonl", "content": "x"},
        {"path": "/a.md"},
        {"path": "/a.md", "content": "x", "content_sha256": "0" * 64},
        {"path": "/there.md", "content": "other"},
        {"content": "x"},
        "text",
    ],
)
def test_an_invalid_memory_is_reported_and_changes_nothing(
    store: MemoryStore, memory: dict[str, str]
) -> None:
    """Hostile paths, wrong hashes, and what would replace another text."""
    store.write_text("there.md", "mine")
    told = from_memories(store, [memory])

    assert (len(told.lost), told.moved) == (1, [])
    assert store.list_paths() == ["there.md"]
    assert store.read_text("there.md") == "mine"


@pytest.mark.parametrize("form", ["page", "list", "lines"])
def test_a_file_of_memories_is_exported_and_imported_on_the_command_line(
    folder: Folder, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the API returns them; a path with another text is skipped and reported."""
    there = [{"path": "/a/b.md", "content": "one\r\n"}, {"path": "/c.md", "content": "Zo\u00eb"}]
    source, output = folder() / "memories.json", folder() / "out.json"
    lines = "\n".join(map(json.dumps, there))
    source.write_text(
        {"page": json.dumps({"data": there}), "list": json.dumps(there)}.get(form, lines)
    )
    assert run(["file", "import", str(source)]) == 0
    assert run(["file", "export", "-o", str(output)]) == 0
    back = json.loads(output.read_text())["data"]
    assert [{name: one[name] for name in ("path", "content")} for one in back] == there
    assert run(["file", "write", "c.md", "other"]) == 0
    assert run(["file", "import", str(source)]) == 1
    assert "c.md: the path has other text" in capsys.readouterr().err
    assert run(["file", "export", "-o", str(output)]) == 5
    assert run(["file", "export", "-o", str(output), "--overwrite"]) == 0


@pytest.mark.parametrize(
    "data", ["", "text", "[]", "{}", "[1]", '{"data": [{"id": "x"}]}', "[" * 9999]
)
def test_a_file_without_memories_is_malformed_and_changes_nothing(
    folder: Folder, data: str
) -> None:
    """No store is created for it."""
    source = folder() / "memories.json"
    source.write_text(data)
    assert run(["file", "import", str(source)]) == 4
    assert not MemoryStore.exists(key="default")
