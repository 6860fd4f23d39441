"""A local Mem0 keeps every promise of a connector."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.connectors import mem0_local
from satchel.connectors._mem0_store import Mem0Address
from satchel.connectors.mem0_local import Mem0Local
from satchel.crypto.sealed_records import seal
from satchel.model.records import Entry
from satchel.ports.format import ConnectorOptions
from satchel.ports.record_set import Report


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> ConnectorSubject:
    """A new store each time, with pages of three."""
    root, stores = tmp_path_factory.mktemp("mem0"), dict[bytes, Path]()
    _opened(root / "empty").close()

    def make(entries: Sequence[Entry]) -> Mem0Local:
        said = msgspec.json.encode(list(entries))
        made = stores.get(said) if entries else None
        if made is None:
            made = Path(tempfile.mkdtemp(dir=root)) / "store"
            shutil.copytree(root / "empty", made)
            stores[said] = made
            connector = _opened(made)
            # Of the same origin there would be one, which is another promise.
            plain = [msgspec.structs.replace(entry, origin=None) for entry in entries]
            taken = connector.take([seal(entry) for entry in plain], Report())
            assert all(one.there for one in taken)
            return connector
        return _opened(made)

    return ConnectorSubject("mem0_local", make)


def _opened(folder: Path) -> Mem0Local:
    return Mem0Local(Mem0Address(folder=folder, dimensions=2), ConnectorOptions(writes=True))


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mem0_local, "_TOGETHER", 3)
        yield
