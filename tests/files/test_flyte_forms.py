"""The forms that code for Flyte's ``MemoryStore`` relies on: awaiting, wordings, folders."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from satchel.files import AccessDenied, MemoryStore, MemoryStoreError


def test_whether_a_key_has_a_store_is_asked_with_and_without_await(tmp_path: Path) -> None:
    """Flyte awaits ``MemoryStore.exists``; other code calls it."""
    root = str(tmp_path)

    async def asked() -> tuple[bool, bool, bool]:
        plain = MemoryStore.exists(key="k", storage_root=root)
        awaited = await MemoryStore.exists(key="k", storage_root=root)
        return bool(plain), awaited, bool(await MemoryStore.exists.aio(key="k", storage_root=root))

    assert asyncio.run(asked()) == (False, False, False)
    assert MemoryStore.exists(key="k", storage_root=root) is False  # type: ignore[comparison-overlap]
    MemoryStore.create(key="k", storage_root=root).close()
    assert asyncio.run(asked()) == (True, True, True)
    assert MemoryStore.exists(key="k", storage_root=root) is True  # type: ignore[comparison-overlap]


def test_refusals_have_the_words_that_are_matched(tmp_path: Path) -> None:
    """``pytest.raises(match=...)`` of code written for Flyte."""
    root = str(tmp_path)
    MemoryStore.create(key="k", storage_root=root).close()
    with pytest.raises(MemoryStoreError, match="already exists"):
        MemoryStore.create(key="k", storage_root=root)
    for key in ("a/b", "a\\b", ".", ".."):
        with pytest.raises(MemoryStoreError, match="single path segment"):
            MemoryStore.remote_path_for_key(key, storage_root=root)
    with pytest.raises(MemoryStoreError, match="must not be empty"):
        MemoryStore.remote_path_for_key("", storage_root=root)
    with MemoryStore(root=tmp_path / "s", read_only_prefixes=("memory/",)) as store:
        for path, words in (
            ("audit/log.jsonl", "reserved"),
            ("meta/x", "reserved"),
            ("versions/x", "reserved"),
            ("messages.json", r"messages\.json"),
            ("memory/x", "read-only"),
        ):
            with pytest.raises(AccessDenied, match=words):
                store.write_text(path, "x")
        for path, words in (("../x", "traversal"), ("/x", "must be relative"), ("", "Empty path")):
            with pytest.raises(MemoryStoreError, match=words):
                store.write_text(path, "x")


def test_folders_are_made_when_something_is_in_them(tmp_path: Path) -> None:
    """``versions/`` only where versions are kept, ``audit/`` only where there is an audit."""
    with MemoryStore(root=tmp_path / "plain", audit=False) as store:
        store.write_text("a.txt", "x")
    with MemoryStore(root=tmp_path / "kept", keep_versions=True) as store:
        store.write_text("a.txt", "x")
    assert not (tmp_path / "plain" / "versions").exists()
    assert not (tmp_path / "plain" / "audit").exists()
    assert list((tmp_path / "kept" / "versions").iterdir())
    assert (tmp_path / "kept" / "audit" / "log.jsonl").exists()


def test_a_store_of_a_key_is_saved_at_its_own_place_only(tmp_path: Path) -> None:
    """Another destination is refused by name, and nothing is written there."""
    with MemoryStore.create(key="k", storage_root=str(tmp_path / "root")) as store:
        store.write_text("a.txt", "x")
        with pytest.raises(MemoryStoreError, match=r"remote_destination.*deterministic key path"):
            store.save(str(tmp_path / "elsewhere"))
        store.save(store.remote_path)
    assert not (tmp_path / "elsewhere").exists()
