"""Erasing a memory file removes all bytes of it and of its versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from satchel import Satchel
from satchel.files import ConcurrencyError, MemoryStore, MemoryStoreError

Folder = Callable[[], Path]

_TEXT = "the patient is Ada Lovelace, born in 1815"


def _files_with(root: Path, text: str) -> list[str]:
    """Return the files below a folder that contain a text."""
    return [
        path.name
        for path in root.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_erase_leaves_no_bytes_of_a_file(folder: Folder) -> None:
    """Not in the manifest, its log, the versions, or the folder; shared texts stay."""
    root = folder()
    with MemoryStore(root=root, keep_versions=True) as store:
        store.write_text("a.md", f"{_TEXT} (1)")
        store.write_text("a.md", f"{_TEXT} (2)")
        store.write_text("shared.md", "kept by both")
        store.write_text("a.md", "kept by both")
        store.write_text("a.md", f"{_TEXT} (3)")
        assert _files_with(root, _TEXT)
        assert store.erase("a.md", reason="asked for") == 4

        assert _files_with(root, _TEXT) == []
        assert store.read_text("shared.md") == "kept by both"
        assert not store.exists("a.md")
        assert store.audit_tail_sync(1)[0]["op"] == "erase"
        assert store.verify_audit().ok
        with pytest.raises(MemoryStoreError):
            store.read_version("a.md", 1)
    assert _files_with(root, _TEXT) == []


def test_a_deleted_file_can_be_erased(folder: Folder) -> None:
    """Its versions are erased."""
    root = folder()
    with MemoryStore(root=root, keep_versions=True) as store:
        store.write_text("a.md", _TEXT)
        store.delete("a.md")
        assert _files_with(root, _TEXT)
        store.erase("a.md")
        assert _files_with(root, _TEXT) == []
        store.write_text("b.md", "b")
        with pytest.raises(ConcurrencyError):
            store.erase("b.md", expected_sha="0" * 64)
        with pytest.raises(MemoryStoreError):
            store.erase("never.md")
        assert store.read_text("b.md") == "b"


@pytest.mark.in_check(2)
@pytest.mark.parametrize("scheme", ["memory", "sqlite", "s3", "folder"])
def test_erase_leaves_no_bytes_in_the_remote_location(
    folder: Folder, scheme: str, root_of: Callable[[str, Path], str]
) -> None:
    """Its packs are removed; other files keep their versions, and the audit verifies."""
    address = f"{root_of(scheme, folder())}/k"
    here = None if scheme != "folder" else folder()
    store = MemoryStore(root=here, remote_path=address, keep_versions=True)
    others = [("b.md", "kept"), ("shared.md", "kept by both"), ("empty.md", "")]
    store.write_many([("a.md", f"{_TEXT} (1)"), *others])
    store.save()
    store.write_text("a.md", "kept by both")
    store.write_text("b.md", "kept, too")
    store.save()
    store.write_text("a.md", f"{_TEXT} (2)")
    store.save()
    store.close()
    with MemoryStore(remote_path=address) as later:
        assert _extents_with(later, _TEXT)
        assert later.erase("a.md", reason="asked for") >= 1
        assert _extents_with(later, _TEXT) == []
        later.write_text("after.md", "goes on")
        later.save()
    with MemoryStore(remote_path=address) as seen:
        assert _extents_with(seen, _TEXT) == []
        texts = {path: seen.read_text(path) for path in seen.list_paths()}
        assert texts == {**dict(others), "b.md": "kept, too", "after.md": "goes on"}
        assert seen.verify_audit().ok
        if scheme != "folder":  # a working copy of a folder has no history of it
            assert seen.read_version("b.md", 1) == "kept"
            with pytest.raises(MemoryStoreError):
                seen.read_version("a.md", 1)
    if scheme == "sqlite":
        assert _files_with(Path(address.removeprefix("sqlite://")).parents[1], _TEXT) == []


def _extents_with(store: MemoryStore, text: str) -> list[str]:
    """Return the names of the extents of a store that contain a text."""
    return [one.name for one in store.laid_open() if text.encode() in b"".join(one.pieces())]


def test_an_older_working_copy_does_not_restore_an_erased_file(folder: Folder) -> None:
    """Its other changes are saved; a file that it creates again is a new file."""
    root = f"memory://{folder()}"
    with MemoryStore.create(key="k", storage_root=root, keep_versions=True) as store:
        store.write_text("a.md", _TEXT)
        store.write_text("b.md", "1")
        store.save()
        with MemoryStore.get_or_create(key="k", storage_root=root) as older:
            store.erase("a.md")
            older.write_text("b.md", "2")
            older.save()
            assert (older.list_paths(), older.read_text("b.md")) == (["b.md"], "2")
            older.write_text("a.md", "begun again")
            older.save()
        store.refresh()
        assert store.read_text("a.md") == "begun again"
        assert [one for one in _extents_with(store, _TEXT) if one.startswith(root)] == []


def test_erasing_from_a_bank_includes_remote_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The byte search covers the packs, and the report lists what is unreachable."""
    place = folder()
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", f"sqlite://{place}/files.db")
    with Satchel.open() as satchel:
        files = satchel.bank("ada").files
        files.write_text("a.md", _TEXT)
        files.write_text("b.md", "stays")
        files.save()
        assert _extents_with(files, _TEXT)
    with Satchel.open() as satchel:
        bank = satchel.bank("ada")
        (found,) = bank.recall("Lovelace").files
        done = bank.erase(found.id, reason="asked for")
        assert _extents_with(bank.files, _TEXT) == []
        assert bank.files.list_paths() == ["b.md"]
        assert bank.recall("Lovelace").files == []
    assert _files_with(place, _TEXT) == []
    assert any("object store" in one for one in done.unreached)
