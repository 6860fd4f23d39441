"""A bank for the tests of its operations."""

from collections.abc import Iterator

import pytest
from bank_kit import filled

from satchel.bank.open_bank import OpenBank


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """The default bank of a new home, open."""
    with filled() as there:
        yield there
