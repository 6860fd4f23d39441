"""An open bank for the erasure tests."""

from collections.abc import Iterator

import pytest
from bank_kit import filled
from postgres_kit import run_sql, server

from satchel.bank.open_bank import OpenBank


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """The first bank of this test's home, open."""
    with filled() as there:
        yield there


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL of their own.

    On a server to which other tests write, erased bytes can stay in its log for a while; then the
    report of the erasure counts them.
    """
    with server() as own:
        run_sql(own.get_uri(), "CREATE EXTENSION vector")
        yield own.get_uri()
