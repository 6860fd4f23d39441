"""A store of LangGraph on a real PostgreSQL keeps every promise of a connector."""

import uuid
from collections.abc import Iterator, Sequence

import msgspec
import psycopg
import pytest
from postgres_kit import in_schema, run_sql

from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.connectors import langgraph_postgres
from satchel.connectors.langgraph_postgres import LangGraphAddress, LangGraphPostgres
from satchel.crypto.sealed_records import seal
from satchel.model.records import Entry
from satchel.ports.format import ConnectorOptions
from satchel.ports.record_set import Report


@pytest.fixture(scope="module")
def _schema(postgres: str) -> Iterator[str]:
    name = f"s_{uuid.uuid4().hex}"
    run_sql(postgres, f"CREATE SCHEMA {name}")
    yield name
    run_sql(postgres, f"DROP SCHEMA {name} CASCADE")


class _Staying(LangGraphPostgres):
    """One whose connection is there for the next: each server process that starts takes long."""

    def close(self) -> None:
        self._end()


@pytest.fixture(scope="module")
def subject(postgres: str, _schema: str) -> Iterator[ConnectorSubject]:
    """The same schema, emptied each time, with pages of three."""
    connector = _Staying(
        LangGraphAddress.read(in_schema(postgres, _schema)), ConnectorOptions(writes=True)
    )
    held = dict[str, bytes]()
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make(entries: Sequence[Entry]) -> LangGraphPostgres:
            said = msgspec.json.encode(list(entries))
            if entries and held.get("said") == said:
                return connector
            connection.execute(f"DELETE FROM {_schema}.store")  # noqa: S608 - our own
            # Of the same origin there would be one, which is another promise.
            plain = [msgspec.structs.replace(entry, origin=None) for entry in entries]
            taken = connector.take([seal(entry) for entry in plain], Report())
            assert all(one.there for one in taken)
            held["said"] = said
            return connector

        yield ConnectorSubject("langgraph_postgres", make, holds=_can_be_held)
    LangGraphPostgres.close(connector)


def _can_be_held(entry: Entry) -> bool:
    """Tell whether PostgreSQL's JSON has a place for it: no NUL, and no number that is none."""
    said = msgspec.json.encode(entry)
    return b"\\u0000" not in said and b'"$float"' not in said


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(langgraph_postgres, "_TOGETHER", 3)
        yield
