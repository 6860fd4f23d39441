"""LangGraph's store on PostgreSQL, read and written in place."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from import_kit import bring, texts
from postgres_kit import in_schema, run_sql

from benchmarks import peers
from satchel.api.store import Satchel
from satchel.connectors._address import of_server
from satchel.connectors.langgraph_postgres import LangGraphAddress, LangGraphPostgres
from satchel.crypto.sealed_records import seal
from satchel.errors import MalformedError, StoreError, UnreadableError, UsageError
from satchel.model.records import Entry, Semantic
from satchel.model.values import Scope
from satchel.ports.format import ConnectorOptions
from satchel.ports.record_set import Report
from satchel.transfer.folders import LANGGRAPH_POSTGRES, connector_for

_PEER = Path(__file__).parents[2] / "benchmarks" / "peers" / "langgraph_work.py"


@pytest.fixture
def schema(postgres: str) -> Iterator[str]:
    """The address of an empty schema."""
    name = f"s_{uuid.uuid4().hex}"
    run_sql(postgres, f"CREATE SCHEMA {name}")
    yield "langgraph+" + in_schema(postgres, name)
    run_sql(postgres, f"DROP SCHEMA {name} CASCADE")


def _name(schema: str) -> str:
    return schema.rpartition("schema=")[2]


def _opened(schema: str, **how: Any) -> LangGraphPostgres:
    return LangGraphPostgres(LangGraphAddress.read(schema), ConnectorOptions(**how))


def _read(schema: str) -> list[Entry]:
    with closing(_opened(schema)) as connector:
        return [one for one in connector.page(None, Report()).items if isinstance(one, Entry)]


def _write(schema: str, *entries: Entry, **how: Any) -> tuple[list[Any], Report]:
    report = Report()
    with closing(_opened(schema, writes=True, **how)) as connector:
        return list(connector.take([seal(entry) for entry in entries], report)), report


def _sql(postgres: str, schema: str, statement: str) -> list[Any]:
    return run_sql(postgres, f"SET search_path = {_name(schema)}, public", statement)


def _create_vectors(postgres: str, schema: str, kind: str = "vector(3)") -> None:
    """Create the table of vectors as the library does."""
    _write(schema)
    _sql(
        postgres,
        schema,
        "CREATE TABLE store_vectors (prefix text NOT NULL, key text NOT NULL,"
        f" field_name text NOT NULL, embedding {kind}, created_at timestamptz DEFAULT now(),"
        " updated_at timestamptz DEFAULT now(), PRIMARY KEY (prefix, key, field_name),"
        " FOREIGN KEY (prefix, key) REFERENCES store(prefix, key) ON DELETE CASCADE)",
    )


def _insert(postgres: str, schema: str, values: str) -> None:
    _write(schema)
    members = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"
    _sql(postgres, schema, f"INSERT INTO store ({members}) VALUES {values}")  # noqa: S608 - our own


_TEA = (
    """('memories.rosa', 'tea/1', '{"kind":"Memory","content":{"content":"Drinks tea."}}',"""
    " '2026-01-02 03:04:05.5+02', '2026-01-03 00:00:00+00', '2027-01-01 00:00:00+00', 1440)"
)
_PROFILE = (
    """('memories.rosa.work', 'me', '{"kind":"Profile","content":{"name":"Rosa","age":3}}',"""
    " 'infinity', NULL, NULL, NULL)"
)


def test_items_are_read_with_namespace_times_ttl_and_vectors(postgres: str, schema: str) -> None:
    """A memory of LangMem, and a profile without text."""
    _create_vectors(postgres, schema)
    _insert(postgres, schema, f"{_TEA}, {_PROFILE}")
    _sql(
        postgres,
        schema,
        "INSERT INTO store_vectors VALUES ('memories.rosa', 'tea/1', 'text', '[1,-0.1,2e-20]')",
    )
    assert connector_for(schema, None) == LANGGRAPH_POSTGRES
    tea, profile = _read(schema)

    assert (tea.text, tea.kind) == ("Drinks tea.", "Memory")
    assert tea.scope == Scope(namespace=("memories", "rosa"))
    assert tea.created_at == "2026-01-02T01:04:05.500000Z"
    assert tea.expires_at == "2027-01-01T00:00:00.000000Z"
    assert tea.origin is not None
    assert tea.origin.id == "memories.rosa/tea/1"
    assert tea.origin.as_written["ttl_minutes"] == 1440
    assert tea.origin.as_written["store_vectors"]["text"].keys() == {"$bytes"}
    assert profile.data == {"kind": "Profile", "content": {"name": "Rosa", "age": 3}}
    assert profile.origin is not None
    assert profile.origin.as_written["created_at"] == "infinity"


def test_items_are_equal_after_a_round_trip_through_a_bank(postgres: str, schema: str) -> None:
    """Rows, vectors and TTLs, in another schema."""
    other = f"s_{uuid.uuid4().hex}"
    run_sql(postgres, f"CREATE SCHEMA {other}")
    there = "langgraph+" + in_schema(postgres, other)
    _create_vectors(postgres, schema)
    _create_vectors(postgres, there)
    _insert(postgres, schema, f"{_TEA}, {_PROFILE}")
    _sql(
        postgres,
        schema,
        "INSERT INTO store_vectors VALUES ('memories.rosa', 'tea/1', 'text', '[1,-0.1,2e-20]')",
    )
    assert bring(schema).unaccepted == 0
    with Satchel.open() as here:
        done = here.bank("b").export(there)
        again = here.bank("b").export(there)
    assert (done.lost, done.written, again.known) == (0, 2, 2)
    for table in ("store", "store_vectors"):
        said = f"SELECT to_jsonb(t) FROM {table} t ORDER BY prefix, key"  # noqa: S608 - our own
        kept, found = _sql(postgres, schema, said), _sql(postgres, there, said)
        for rows in (kept, found):
            for (row,) in rows:
                for name in ("created_at", "updated_at") if table != "store" else ("updated_at",):
                    row.pop(name)  # unknown, or the time of the copy
        assert kept == found
    run_sql(postgres, f"DROP SCHEMA {other} CASCADE")


def test_vectors_are_converted_between_postgresql_and_sqlite(
    postgres: str, schema: str, tmp_path: Path
) -> None:
    """Numbers of PostgreSQL become the bytes of the library's SQLite, and back."""
    _create_vectors(postgres, schema, "halfvec(2)")
    _insert(postgres, schema, _TEA)
    _sql(
        postgres,
        schema,
        "INSERT INTO store_vectors VALUES ('memories.rosa', 'tea/1', 'text', '[0.5,-2]')",
    )
    bring(schema)
    with Satchel.open() as here:
        assert here.bank("b").export(tmp_path / "a.langgraph.db").lost == 0
        assert bring(tmp_path / "a.langgraph.db", "c").unaccepted == 0
        _sql(postgres, schema, "DELETE FROM store")
        assert here.bank("c").export(schema).lost == 0
    said = "SELECT embedding::text FROM store_vectors"
    assert _sql(postgres, schema, said) == [("[0.5,-2]",)]


def test_an_empty_schema_gets_the_tables_of_the_library(postgres: str, schema: str) -> None:
    """With the numbers of its migrations, so that its setup has nothing to do."""
    scope = Scope(namespace=("memories", "rosa"))
    (taken,), report = _write(schema, Semantic(text="Drinks tea.", scope=scope))

    assert taken.there is not None
    assert report.total == 0
    assert _sql(postgres, schema, "SELECT v FROM store_migrations ORDER BY v") == [
        (0,),
        (1,),
        (2,),
        (3,),
    ]
    assert [one.text for one in _read(schema)] == ["Drinks tea."]


def test_a_different_version_of_an_item_is_replaced_only_with_overwrite(
    postgres: str, schema: str
) -> None:
    """An equal item is reported as known."""
    _insert(postgres, schema, _TEA)
    (tea,) = _read(schema)
    (known,), _ = _write(schema, tea)
    assert known.known
    _sql(postgres, schema, """UPDATE store SET value = '{"text": "Drinks coffee."}'""")

    (left,), _ = _write(schema, tea)
    assert left.problem == "another version exists there; --overwrite replaces it"
    assert [one.text for one in _read(schema)] == ["Drinks coffee."]
    (taken,), _ = _write(schema, tea, overwrite=True)
    assert taken.there is not None
    assert [one.text for one in _read(schema)] == ["Drinks tea."]


def test_a_dry_run_creates_no_table_and_no_item(postgres: str, schema: str) -> None:
    """The result is the expected one."""
    entry = Semantic(text="Drinks tea.")
    (weighed,), _ = _write(schema, entry, dry_run=True)
    assert weighed.there is not None
    assert _sql(postgres, schema, "SELECT to_regclass('store')") == [(None,)]
    _write(schema)
    _write(schema, entry, dry_run=True)
    assert _read(schema) == []


def test_rows_that_postgresql_cannot_store_are_refused_and_the_others_written(schema: str) -> None:
    """A NUL in a text, and a name too long for an index."""
    words = "".join(sha256(bytes([number])).hexdigest() for number in range(100))
    nul, long = Semantic(text="a\0b"), Semantic(text="x", scope=Scope(user=words))
    taken, _ = _write(schema, nul, Semantic(text="Drinks tea."), long)

    said = "PostgreSQL cannot store this text or number, or a name this long"
    assert [one.problem for one in taken] == [said, None, said]
    assert [one.text for one in _read(schema)] == ["Drinks tea."]


def test_vectors_that_the_store_cannot_hold_are_counted(postgres: str, schema: str) -> None:
    """Of another length, or without a table of vectors."""
    _create_vectors(postgres, schema)
    _insert(postgres, schema, _TEA)
    _sql(
        postgres,
        schema,
        "INSERT INTO store_vectors VALUES ('memories.rosa', 'tea/1', 'text', '[1,2,3]')",
    )
    (tea,) = _read(schema)
    _sql(postgres, schema, "DELETE FROM store")
    _sql(postgres, schema, "ALTER TABLE store_vectors ALTER embedding TYPE vector(2)")

    _, report = _write(schema, tea)
    assert [(one.name, one.count) for one in report.losses.values()] == [("store_vectors", 1)]
    assert [one.text for one in _read(schema)] == ["Drinks tea."]


def test_an_item_that_is_too_large_or_not_an_object_is_refused_or_skipped(
    postgres: str, schema: str
) -> None:
    """By namespace and key; the server never sends more than the limit."""
    _insert(postgres, schema, f"{_TEA}, ('a.b', 'list', '[1]', now(), now(), NULL, NULL)")
    with (
        closing(_opened(schema)) as connector,
        pytest.raises(MalformedError, match="`value` is not an object") as caught,
    ):
        connector.page(None, Report())
    assert caught.value.field == "store/a.b/list/value"
    large = """json_build_object('text', repeat('x', 5000000))::jsonb"""
    _sql(postgres, schema, f"UPDATE store SET value = {large} WHERE key = 'list'")  # noqa: S608 - our own
    report = Report()
    with closing(_opened(schema, skip_bad=True)) as connector:
        page = connector.page(None, report)
    assert [one.text for one in page.items if isinstance(one, Entry)] == ["Drinks tea."]
    assert report.left_out == 1


def test_pages_come_from_one_snapshot(
    postgres: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Concurrent inserts and deletes have no effect."""
    monkeypatch.setattr("satchel.connectors.langgraph_postgres._TOGETHER", 2)
    rows = (f"""('a', '{n}', '{{"text":"{n}"}}', now(), now(), NULL, NULL)""" for n in range(5))
    _insert(postgres, schema, ", ".join(rows))
    with closing(_opened(schema)) as connector:
        page = connector.page(None, Report())
        found = [*page.items]
        _sql(postgres, schema, "DELETE FROM store")
        while page.cursor is not None:
            page = connector.page(page.cursor, Report())
            found += page.items
    assert [one.text for one in found if isinstance(one, Entry)] == list("01234")


def test_another_connection_resumes_from_a_cursor(
    postgres: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts after the item of the cursor. A connection can be closed twice."""
    monkeypatch.setattr("satchel.connectors.langgraph_postgres._TOGETHER", 2)
    rows = (f"""('a', '{n}', '{{"text":"{n}"}}', now(), now(), NULL, NULL)""" for n in range(3))
    _insert(postgres, schema, ", ".join(rows))
    with closing(_opened(schema)) as first:
        cursor = first.page(None, Report()).cursor
    first.close()
    with closing(_opened(schema)) as second:
        page = second.page(cursor, Report())
    assert [one.text for one in page.items if isinstance(one, Entry)] == ["2"]


def test_a_table_of_another_program_is_refused(postgres: str, schema: str) -> None:
    """It is not written to; a missing table is an error as well."""
    with pytest.raises(UnreadableError, match="no LangGraph store"):
        _read(schema)
    _sql(postgres, schema, "CREATE TABLE store (one boolean, application text)")
    for how in ({}, {"writes": True}):
        with pytest.raises(MalformedError, match="not a LangGraph store"):
            _opened(schema, **how)


@pytest.mark.parametrize(
    "address",
    ["langgraph+postgresql://h/db?bank=b", "langgraph+postgresql://h/d?schema=A-B", "langgraph+pg"],
)
def test_an_invalid_langgraph_address_is_refused(address: str) -> None:
    """Before a connection is opened."""
    with pytest.raises(UsageError):
        LangGraphAddress.read(address)


def test_an_address_survives_a_conversion_to_a_path() -> None:
    """Double slashes are restored."""
    for said in ("postgresql://u@h/db?schema=x", "postgresql:///db?host=/run/pg"):
        assert of_server(str(Path("langgraph+" + said))) == said
        assert of_server(said) == said


def test_no_password_is_printed_or_stored(postgres: str, schema: str) -> None:
    """Not in receipts, sources, results or errors of an import and an export."""
    secret = f"hunter{2}-of-rosa"
    _insert(postgres, schema, _TEA)
    address = schema.replace("postgres:", f"postgres:{secret}", 1)
    assert secret in address
    said = [repr(bring(address))]
    with Satchel.open() as here:
        said.append(repr(here.bank("b").export(address, overwrite=True)))
    kept = [path for path in Path(os.environ["SATCHEL_HOME"]).rglob("*") if path.is_file()]
    assert any(b"Drinks tea." in path.read_bytes() for path in kept)
    assert not [path for path in kept if secret.encode() in path.read_bytes()]
    with pytest.raises(StoreError) as caught:
        bring(f"langgraph+postgresql://rosa:{secret}@127.0.0.1:1/db")
    said.append(f"{caught.value!r} {caught.value}")
    assert texts() == ["Drinks tea."]
    assert not [one for one in said if secret in one]


# -- the real library ----------------------------------------------------------------------


def _run_library(*arguments: str | Path) -> None:
    python = peers.environment("langgraph") / "python"
    subprocess.run([python, _PEER, *arguments], check=True, timeout=200)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_library_reads_and_continues_our_output(postgres: str, tmp_path: Path) -> None:
    """300 items with vectors, from one database to another."""
    ours, theirs = (f"lg_{uuid.uuid4().hex}" for _ in range(2))
    for name in (ours, theirs):
        run_sql(postgres, f"CREATE DATABASE {name}")
    own = postgres.partition("?")
    at = {name: f"{own[0].rpartition('/')[0]}/{name}{own[1]}{own[2]}" for name in (ours, theirs)}
    _run_library("postgres-make", at[theirs], "300")
    _run_library("postgres-read", at[theirs], tmp_path / "a.json")
    _run_library("postgres-make", at[ours], "0")  # its own tables; vectors need their length
    assert bring("langgraph+" + at[theirs]).unaccepted == 0
    with Satchel.open() as here:
        assert here.bank("b").export("langgraph+" + at[ours]).losses == []
    _run_library("postgres-read", at[ours], tmp_path / "b.json")
    said = json.loads((tmp_path / "a.json").read_bytes())
    assert len(said["items"]) > 250
    assert said["vectors"]
    assert json.loads((tmp_path / "b.json").read_bytes()) == said
    with psycopg.connect(at[ours]) as connection:
        connection.execute("DROP TABLE store, store_vectors, store_migrations, vector_migrations")
    with Satchel.open() as here:
        here.bank("b").export("langgraph+" + at[ours], accept_loss=["all"])
    _run_library("postgres-make", at[ours], "0")  # its setup accepts our tables
    _run_library("postgres-read", at[ours], tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_bytes())["items"] == said["items"]
    for name in (ours, theirs):
        run_sql(postgres, f"DROP DATABASE {name} WITH (FORCE)")
