"""Vector search: the same results with numpy and without it."""

import struct
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from math import inf, nan
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_kit import created, memories

from satchel.ports.vectors import Generation, pack_vector
from satchel.stores.sqlite import SqliteStore
from satchel.stores.vectors import nearest

needs_numpy = pytest.mark.skipif(find_spec("numpy") is None, reason="numpy is not installed")
WAYS = [pytest.param(True, id="numpy", marks=needs_numpy), pytest.param(False, id="plain")]


@contextmanager
def search_method(*, fast: bool) -> Iterator[None]:
    """Search with numpy, or as if it is not installed."""
    if fast:
        yield
    else:
        with patch.dict(sys.modules, {"numpy": None}):
            yield


def nearest_positions(
    vectors: list[list[float]], wanted: list[float], limit: int, *, fast: bool
) -> list[int]:
    """Return the positions of the nearest vectors."""
    rows = [(at, pack_vector(each, len(wanted), "").numbers) for at, each in enumerate(vectors)]
    with search_method(fast=fast):
        return [place for place, _ in nearest(rows, tuple(wanted), limit)]


_FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 3).map(float)


@needs_numpy
@given(
    st.integers(1, 5).flatmap(
        lambda count: st.lists(st.lists(_FINITE, min_size=count, max_size=count), min_size=2)
    ),
    st.integers(1, 40),
)
def test_both_methods_return_the_same_vectors(vectors: list[list[float]], limit: int) -> None:
    """For all finite numbers, in either width: the same cosines, and the same order."""
    wanted, *rest = vectors
    rows = [(at, pack_vector(each, len(wanted), "").numbers) for at, each in enumerate(rest)]
    fast = nearest(rows, tuple(wanted), limit)
    with search_method(fast=False):
        plain = nearest(rows, tuple(wanted), limit)
        scores = dict(nearest(rows, tuple(wanted), len(rows)))
    assert len(fast) == len(plain)
    for (one, score), (_, other) in zip(fast, plain, strict=True):
        assert score == pytest.approx(other, abs=1e-12)
        assert score == pytest.approx(scores[one], abs=1e-12)


@pytest.mark.parametrize("fast", WAYS)
@pytest.mark.parametrize("count", [1, 3, 31, 255, 257])
def test_equal_vectors_are_returned_in_log_order(*, fast: bool, count: int) -> None:
    """Wherever they are among others: two thousand of them, over several blocks."""
    one = [1 / (number + 3) for number in range(count)]
    vectors = [one if at % 3 else [float(at)] * count for at in range(3000)]
    wanted = [1.0, *[0.5] * (count - 1)]
    places = nearest_positions(vectors, wanted, 3000, fast=fast)
    assert sorted(places) == list(range(3000))
    equal = [place for place in places if place % 3]
    assert all(left < right for left, right in pairwise(equal))


@pytest.mark.parametrize("fast", WAYS)
def test_the_nearest_vectors_are_found_at_any_position(*, fast: bool) -> None:
    """First, last, rising or falling: a limit returns the nearest of all."""
    rising = [[float(at), 4000.0] for at in range(3000)]
    for limit in (1, 2, 7, 600, 2999):
        assert nearest_positions(rising, [1, 0], limit, fast=fast) == list(
            range(2999, 2999 - limit, -1)
        )
        assert nearest_positions(rising, [-1, 0], limit, fast=fast) == list(range(limit))
        assert nearest_positions(rising[::-1], [1, 0], limit, fast=fast) == list(range(limit))
    assert nearest_positions(rising, [1, 0], 0, fast=fast) == []
    assert nearest_positions(rising, [1, 0], -1, fast=fast) == []


@pytest.mark.parametrize("fast", WAYS)
@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize(
    "numbers", [(nan, 1), (1, nan), (inf, 1), (1, -inf), (inf, inf), (nan, inf), (inf, nan)]
)
@pytest.mark.parametrize("wanted", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)])
def test_invalid_stored_numbers_are_reported(
    *, fast: bool, kind: str, numbers: tuple[float, float], wanted: tuple[float, float]
) -> None:
    """NaN and infinity never rank a row first, nor pass silently."""
    rows = [(0, struct.pack(f"<2{kind}", 1, 2)), (1, struct.pack(f"<2{kind}", *numbers))]
    with search_method(fast=fast), pytest.raises(ValueError, match="not a finite number"):
        nearest(rows, wanted, 1)


@pytest.mark.parametrize("fast", WAYS)
@pytest.mark.parametrize("row", [None, b"", b"123", bytes(12), bytes(17)])
def test_stored_numbers_of_another_length_are_reported(*, fast: bool, row: bytes | None) -> None:
    """Missing ones and all lengths but two."""
    with (
        search_method(fast=fast),
        pytest.raises(ValueError, match="does not have the length of its generation"),
    ):
        nearest([(0, bytes(8)), (1, row)], (1.0, 0.0), 1)


@pytest.mark.parametrize("fast", WAYS)
def test_a_search_holds_few_vectors_in_memory(*, fast: bool, tmp_path: Path) -> None:
    """Five megabytes of vectors are searched with less than three."""
    store = SqliteStore(tmp_path / "satchel.db")
    ledger, generation, records = created(store), Generation("model", 4096), memories(300)
    ledger.append(records)
    row = struct.pack("<4096f", *[1.0] * 4096)
    with store.writing() as writing:
        writing.vectors.put(ledger.bank, generation, {record.id: row for record in records})
    with search_method(fast=fast), store.reading() as reader:
        nearest([], (1.0,), 1)  # imports
        tracemalloc.start()
        near = reader.vectors.near(ledger.bank, generation, row, limit=10)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    store.close()
    assert [name for name, _ in near] == [record.id for record in records[:10]]
    assert most < 3 * 2**20
