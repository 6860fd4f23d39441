"""The configured store, on each backend."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_kit import in_schema, run_sql

_SLOWER = [pytest.param(name, marks=pytest.mark.prove) for name in ("ladybug", "postgresql")]


@pytest.fixture(params=["sqlite", *_SLOWER])
def any_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of the configured store, on each persistent backend."""
    places = {"sqlite": f"{tmp_path}/s.db", "ladybug": f"ladybug:///{tmp_path}/graph"}
    if place := places.get(request.param):
        monkeypatch.setenv("SATCHEL_STORE", place)
        yield place
        return
    server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
    monkeypatch.setenv("SATCHEL_STORE", in_schema(server, schema))
    yield in_schema(server, schema)
    run_sql(server, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
