"""A schema for each test, on the server of the run."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from postgres_kit import in_schema, run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(postgres: str) -> Iterator[str]:
    """The address of a store that does not exist yet."""
    schema = f"s_{uuid.uuid4().hex}"
    yield in_schema(postgres, schema)
    run_sql(postgres, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
