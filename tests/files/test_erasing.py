"""Erasing a memory file: no bytes of it, nor of its versions, are left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.files import ConcurrencyError, MemoryStore, MemoryStoreError

Folder = Callable[[], Path]

_TEXT = "the patient is Ada Lovelace, born in 1815"


def _holding(root: Path, text: str) -> list[str]:
    """Return the files below a folder that hold a text."""
    return [
        path.name
        for path in root.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_no_byte_of_an_erased_file_is_left(folder: Folder) -> None:
    """Not in the manifest, its log, the versions, or the folder; what others hold stays."""
    root = folder()
    with MemoryStore(root=root, keep_versions=True) as store:
        store.write_text("a.md", f"{_TEXT} (1)")
        store.write_text("a.md", f"{_TEXT} (2)")
        store.write_text("shared.md", "kept by both")
        store.write_text("a.md", "kept by both")
        store.write_text("a.md", f"{_TEXT} (3)")
        assert _holding(root, _TEXT)
        assert store.erase("a.md", reason="asked for") == 4

        assert _holding(root, _TEXT) == []
        assert store.read_text("shared.md") == "kept by both"
        assert not store.exists("a.md")
        assert store.audit_tail_sync(1)[0]["op"] == "erase"
        assert store.verify_audit().ok
        with pytest.raises(MemoryStoreError):
            store.read_version("a.md", 1)
    assert _holding(root, _TEXT) == []


def test_a_file_that_was_deleted_or_renamed_can_be_erased(folder: Folder) -> None:
    """Its versions are what is left of it."""
    root = folder()
    with MemoryStore(root=root, keep_versions=True) as store:
        store.write_text("a.md", _TEXT)
        store.delete("a.md")
        assert _holding(root, _TEXT)
        store.erase("a.md")
        assert _holding(root, _TEXT) == []
        store.write_text("b.md", "b")
        with pytest.raises(ConcurrencyError):
            store.erase("b.md", expected_sha="0" * 64)
        with pytest.raises(MemoryStoreError):
            store.erase("never.md")
        assert store.read_text("b.md") == "b"


def test_what_is_in_packs_elsewhere_is_not_said_to_be_erased(folder: Folder) -> None:
    """Packs never change; the refusal says what to do."""
    store = MemoryStore.create(key="k", storage_root=f"memory://{folder()}")
    store.write_text("a.md", _TEXT)
    with pytest.raises(MemoryStoreError, match="packs"):
        store.erase("a.md")
