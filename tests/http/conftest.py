"""A gateway over an empty store, called without a network."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from http_kit import ServedGateway, running_gateway


@pytest.fixture
def served(own_home: object) -> Iterator[ServedGateway]:
    """A gateway on this machine, without an operator's token."""
    del own_home
    with running_gateway() as found:
        yield found


@pytest.fixture
def client(served: ServedGateway) -> TestClient:
    """A client of the owner on this machine."""
    return served.client()
