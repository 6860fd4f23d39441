"""The conformance suite of connectors, for the connector of each product."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import psycopg
import pytest
from postgres_kit import in_schema, run_sql

from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.connectors import langgraph_postgres, letta_memfs, mem0_local, qdrant_local
from satchel.connectors._mem0_store import Mem0Address
from satchel.connectors.langgraph_postgres import LangGraphAddress, LangGraphPostgres
from satchel.connectors.letta_memfs import LettaMemfs, MemfsAddress
from satchel.connectors.mem0_local import Mem0Local
from satchel.connectors.qdrant_local import QdrantAddress, QdrantLocal
from satchel.crypto.sealed_records import seal
from satchel.model.records import Entry
from satchel.ports.format import Connector, ConnectorOptions
from satchel.ports.record_set import Report

_PRODUCTS = ["langgraph_postgres", "letta_memfs", "mem0_local", "qdrant_local"]
_WRITES = ConnectorOptions(writes=True)


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (langgraph_postgres, letta_memfs, mem0_local, qdrant_local):
            patch.setattr(module, "_TOGETHER", 3)
        yield


@pytest.fixture(scope="module", params=_PRODUCTS)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectorSubject]:
    """The connector of each product, with pages of three."""
    name: str = request.param
    with ExitStack() as stack:
        if name == "langgraph_postgres":
            postgres = request.getfixturevalue("postgres")
            yield stack.enter_context(_langgraph_subject(postgres))
        else:
            root = tmp_path_factory.mktemp(name)
            make = _folders(root, _OPEN[name], copied=name != "letta_memfs")
            yield ConnectorSubject(name, make)


_OPEN: dict[str, Callable[[Path], Connector]] = {
    "letta_memfs": lambda folder: LettaMemfs(MemfsAddress(folder), _WRITES),
    "mem0_local": lambda folder: Mem0Local(Mem0Address(folder=folder, dimensions=2), _WRITES),
    "qdrant_local": lambda folder: QdrantLocal(QdrantAddress(folder=folder), _WRITES),
}


def _folders(
    root: Path, opened: Callable[[Path], Connector], *, copied: bool
) -> Callable[[Sequence[Entry]], Connector]:
    """Return a function that opens a folder with some entries, one folder for each list of them."""
    folders = dict[bytes, Path]()
    if copied:  # a copy of an empty store is faster than a new one
        opened(root / "empty").close()

    def make(entries: Sequence[Entry]) -> Connector:
        key = msgspec.json.encode(list(entries))
        folder = folders.get(key) if entries else None
        if folder is not None:
            return opened(folder)
        folder = folders[key] = Path(tempfile.mkdtemp(dir=root)) / "folder"
        if copied:
            shutil.copytree(root / "empty", folder)
        return _filled(opened(folder), entries)

    return make


def _filled(connector: Connector, entries: Sequence[Entry]) -> Connector:
    # With equal origins only one would be stored; another test covers that.
    plain = [msgspec.structs.replace(entry, origin=None) for entry in entries]
    results = connector.take([seal(entry) for entry in plain], Report())
    assert all(result.there for result in results)
    return connector


class _Reused(LangGraphPostgres):
    """A connector whose connection stays open, because a new server process takes long."""

    def close(self) -> None:
        self._end()


@contextmanager
def _langgraph_subject(postgres: str) -> Iterator[ConnectorSubject]:
    schema = f"s_{uuid.uuid4().hex}"
    run_sql(postgres, f"CREATE SCHEMA {schema}")
    connector = _Reused(LangGraphAddress.read(in_schema(postgres, schema)), _WRITES)
    stored = b""
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make(entries: Sequence[Entry]) -> Connector:
            nonlocal stored
            key = msgspec.json.encode(list(entries))
            if entries and stored == key:
                return connector
            connection.execute(f"DELETE FROM {schema}.store")  # noqa: S608 - our own
            _filled(connector, entries)
            stored = key
            return connector

        yield ConnectorSubject("langgraph_postgres", make, holds=_fits_postgres)
    LangGraphPostgres.close(connector)
    run_sql(postgres, f"DROP SCHEMA {schema} CASCADE")


def _fits_postgres(entry: Entry) -> bool:
    """Return whether PostgreSQL's JSON can store an entry: without NUL and non-finite numbers."""
    text = msgspec.json.encode(entry)
    return b"\\u0000" not in text and b'"$float"' not in text
