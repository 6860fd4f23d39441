"""Memory files pass the 36 behaviors of the conformance suite in every location."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from satchel.conformance.memory_files import *  # noqa: F403
from satchel.conformance.memory_files import FilesSubject
from satchel.files import MemoryStore
from satchel.files.paths import namespace
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage


def _plant_transcript(root: str, key: str, data: bytes) -> None:
    place = file_storage(namespace(storage_root=root).path(key))
    if isinstance(place, RemoteFileStorage):
        place.objects.put("messages.json", data)
    else:
        folder = Path(place.address)
        folder.mkdir(parents=True)
        (folder / "messages.json").write_bytes(data)


@pytest.fixture(params=["local", "memory", "sqlite", "s3"])
def files(
    request: pytest.FixtureRequest,
    folder: Callable[[], Path],
    root_of: Callable[[str, Path], str],
    monkeypatch: pytest.MonkeyPatch,
) -> FilesSubject:
    """Memory files in each kind of location."""
    home = folder()
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    root = root_of(request.param, home) + ("/agents" if request.param == "s3" else "")
    return FilesSubject(
        request.param, folder, root, MemoryStore, planted=partial(_plant_transcript, root)
    )
