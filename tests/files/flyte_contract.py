"""Flyte's own ``MemoryStore`` under the conformance suite; ``test_flyte.py`` runs it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from satchel.conformance.memory_files import *  # noqa: F403
from satchel.conformance.memory_files import FilesSubject

_WHERE = {"org": "o", "project": "p", "domain": "d"}


class _FlyteStore:
    """Flyte's class, called like Satchel's."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self.create = theirs.create
        self.get_or_create = theirs.get_or_create

    def __call__(self, *, root: Path, **more: Any) -> Any:
        return self._theirs(root=root, **{"key": "local", **more})

    def exists(self, key: str, **more: str) -> bool:
        return bool(asyncio.run(self._theirs.exists(key=key, **more)))

    def remote_path_for_key(self, key: str, **more: str) -> str:
        return str(self._theirs.remote_path_for_key(key=key, **{**_WHERE, **more}))


class _FlyteSubject(FilesSubject):
    def place(self, key: str, **more: str) -> dict[str, Any]:
        return {"key": key, **_WHERE, **more}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FilesSubject]:
    """Flyte's class, its remote in a folder."""
    memory: Any = import_module("flyte.ai.agents.memory")
    context: Any = import_module("flyte._context")
    models: Any = import_module("flyte.models")
    names = itertools.count()
    store = _FlyteStore(memory.MemoryStore)

    def folder() -> Path:
        made = tmp_path / f"folder-{next(names)}"
        made.mkdir()
        return made

    def planted(key: str, data: bytes) -> None:
        place = Path(store.remote_path_for_key(key))
        place.mkdir(parents=True)
        (place / "messages.json").write_bytes(data)

    errors = (memory.MemoryStoreError, memory.AccessDenied, memory.ConcurrencyError)
    raw = models.RawDataPath(path=str(folder() / "raw_data" / "run-1"))
    inside = context.Context(context.internal_ctx().data.replace(raw_data_path=raw))
    with inside:
        yield _FlyteSubject("flyte", folder, None, store, errors, planted)
