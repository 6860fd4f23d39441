"""A collection of Qdrant on this machine keeps every promise of a connector."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.connectors import qdrant_local
from satchel.connectors.qdrant_local import QdrantAddress, QdrantLocal
from satchel.crypto.sealed_records import seal
from satchel.model.records import Entry
from satchel.ports.format import ConnectorOptions
from satchel.ports.record_set import Report


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> ConnectorSubject:
    """A new folder each time, with pages of three."""
    root, folders = tmp_path_factory.mktemp("qdrant"), dict[bytes, Path]()
    _opened(root / "empty").close()

    def make(entries: Sequence[Entry]) -> QdrantLocal:
        said = msgspec.json.encode(list(entries))
        made = folders.get(said) if entries else None
        if made is not None:
            return _opened(made)
        made = Path(tempfile.mkdtemp(dir=root)) / "folder"
        shutil.copytree(root / "empty", made)
        folders[said] = made
        connector = _opened(made)
        # Of the same origin there would be one, which is another promise.
        plain = [msgspec.structs.replace(entry, origin=None) for entry in entries]
        taken = connector.take([seal(entry) for entry in plain], Report())
        assert all(one.there for one in taken)
        return connector

    return ConnectorSubject("qdrant_local", make)


def _opened(folder: Path) -> QdrantLocal:
    return QdrantLocal(QdrantAddress(folder=folder), ConnectorOptions(writes=True))


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qdrant_local, "_TOGETHER", 3)
        yield
