"""A gateway over a store of its own, asked without a network."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from http_kit import Served, serving


@pytest.fixture
def served(own_home: object) -> Iterator[Served]:
    """A gateway on this machine, without an operator's token."""
    del own_home
    with serving() as found:
        yield found


@pytest.fixture
def client(served: Served) -> TestClient:
    """The owner, on this machine."""
    return served.client()
