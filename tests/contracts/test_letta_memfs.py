"""A folder of Letta's memory keeps every promise of a connector."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.connectors import letta_memfs
from satchel.connectors.letta_memfs import LettaMemfs, MemfsAddress
from satchel.crypto.sealed_records import seal
from satchel.model.records import Entry
from satchel.ports.format import ConnectorOptions
from satchel.ports.record_set import Report


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> ConnectorSubject:
    """A new folder each time, with pages of three."""
    root, folders = tmp_path_factory.mktemp("memfs"), dict[bytes, Path]()

    def make(entries: Sequence[Entry]) -> LettaMemfs:
        said = msgspec.json.encode(list(entries))
        folder = folders.get(said) if entries else None
        if folder is not None:
            return LettaMemfs(MemfsAddress(folder), ConnectorOptions(writes=True))
        folder = folders[said] = Path(tempfile.mkdtemp(dir=root)) / "folder"
        connector = LettaMemfs(MemfsAddress(folder), ConnectorOptions(writes=True))
        # Of the same origin there would be one, which is another promise.
        plain = [msgspec.structs.replace(entry, origin=None) for entry in entries]
        taken = connector.take([seal(entry) for entry in plain], Report())
        assert all(one.there for one in taken)
        return connector

    return ConnectorSubject("letta_memfs", make)


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letta_memfs, "_TOGETHER", 3)
        yield
