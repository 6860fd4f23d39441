"""An open bank for the erasure tests."""

from collections.abc import Iterator

import pytest
from bank_kit import filled

from satchel.bank.open_bank import OpenBank


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """The first bank of this test's home, open."""
    with filled() as there:
        yield there
