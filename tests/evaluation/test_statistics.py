"""Confidence intervals and paired tests, compared with known values."""

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.evaluation.statistics import mcnemar, resampled, share, sign_flips


def test_the_interval_of_a_share_is_wilsons() -> None:
    """Known value: 8 of 10 is between .490 and .943."""
    found = share(8, 10)
    assert (found.rate, found.low, found.high) == (0.8, 0.4902, 0.9433)
    assert (share(0, 0).low, share(0, 0).high) == (0, 1)


@given(st.integers(1, 400).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_a_share_lies_in_its_interval(counts: tuple[int, int]) -> None:
    """For all counts."""
    found = share(*counts)
    assert 0 <= found.low <= found.rate <= found.high <= 1


def test_mcnemar_uses_the_pairs_that_differ() -> None:
    """Exact: 6 of 6 in one direction are 1 in 32; equal pairs do not count."""
    gained = [(False, True)] * 6
    assert mcnemar(gained) == pytest.approx(1 / 32)
    assert mcnemar(gained + [(True, True)] * 90) == pytest.approx(1 / 32)
    assert mcnemar([(True, True)] * 9) == 1
    assert mcnemar([(False, True), (True, False)]) == 1


def test_sign_flips_are_exact_for_few_differences() -> None:
    """Five in one direction are 2 of 32; many without direction are likely."""
    assert sign_flips([0.1] * 5, 1) == pytest.approx(2 / 32)
    assert sign_flips([0.2, -0.2] * 20, 1) > 0.5
    assert sign_flips([0.2] * 40, 1) < 0.001
    assert sign_flips([0.0] * 3, 1) == 1


@settings(max_examples=8)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 9))
def test_a_resampled_mean_lies_in_its_interval_and_is_reproducible(
    values: list[float], seed: int
) -> None:
    """For all samples; the seed determines the draws."""

    def mean(places: object) -> float:
        return fmean(values[place] for place in places)  # type: ignore[attr-defined]  # a sequence

    found = resampled(len(values), mean, seed)
    assert found is not None
    assert min(values) - 1e-4 <= found.low <= found.high <= max(values) + 1e-4
    assert found == resampled(len(values), mean, seed)


def test_an_undefined_figure_has_no_interval() -> None:
    """Such as a ratio to zero."""
    assert resampled(3, lambda _places: None, 1) is None
