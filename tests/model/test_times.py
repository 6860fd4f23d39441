"""Times: each moment has one text of 27 characters."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.model.values import (
    TIME_LENGTH,
    format_time,
    is_canonical_time,
    now,
    read_time,
    to_datetime,
)

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - Hypothesis wants bounds without a zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - idem
    timezones=zones,
)


@given(moments)
def test_every_moment_has_one_text_that_parses_back(moment: datetime) -> None:
    """For all moments in all zones, including the first century."""
    text = format_time(moment)
    assert len(text) == TIME_LENGTH
    assert is_canonical_time(text)
    assert to_datetime(text) == moment
    assert read_time(text) == text
    assert read_time(moment.isoformat()) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-03-04",
        "2025-03-04T05:06:07Z",
        "2025-03-04T05:06:07.000Z",
        "2025-03-04T05:06:07.0000000Z",
        "2025-03-04T05:06:07.000000",
        "2025-03-04T05:06:07.000000+00:00",
        "2025-03-04 05:06:07.000000Z",
        "2025-03-04t05:06:07.000000z",
        "2025-02-29T05:06:07.000000Z",
        "2025-13-01T05:06:07.000000Z",
        "2025-03-04T24:00:00.000000Z",
        "2025-03-04T05:06:60.000000Z",
        "0000-01-01T00:00:00.000000Z",
        "2025-03-04T05:06:07.000000Z\n",
        " 2025-03-04T05:06:07.000000Z",
        "\u0662025-03-04T05:06:07.000000Z",
        "-025-03-04T05:06:07.000000Z",
    ],
)
def test_any_other_spelling_is_not_a_time(text: str) -> None:
    """A second spelling of a moment would be a second ID of a memory."""
    assert not is_canonical_time(text)


def test_a_leap_day_exists_only_in_a_leap_year() -> None:
    """The shape alone is not enough."""
    assert is_canonical_time("2024-02-29T00:00:00.000000Z")
    assert not is_canonical_time("2100-02-29T00:00:00.000000Z")


def test_a_moment_without_a_zone_is_refused() -> None:
    """Guessing a zone would invent a fact."""
    with pytest.raises(ValueError, match="zone"):
        format_time(datetime(2025, 1, 2))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-03-04", "2025-03-04T00:00:00.000000Z"),
        ("2025-03-04T05:06:07", "2025-03-04T05:06:07.000000Z"),
        ("2025-03-04 05:06:07.5+02:00", "2025-03-04T03:06:07.500000Z"),
        ("2025-03-04T05:06:07.123456000Z", "2025-03-04T05:06:07.123456Z"),
        ("2025-03-04T05:06:07.1234567Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:00:00-14:00", None),
        ("yesterday", None),
        ("", None),
        ("1741064767", None),
        ("2025-02-30", None),
    ],
)
def test_a_foreign_time_is_read_exactly_or_not_at_all(text: str, expected: str | None) -> None:
    """If a digit would be lost, the caller keeps the original text."""
    assert read_time(text) == expected


@given(st.text(max_size=30))
def test_reading_a_time_never_fails(text: str) -> None:
    """For all texts: a canonical time or None."""
    found = read_time(text)
    assert found is None or is_canonical_time(found)


def test_now_is_canonical() -> None:
    """The clock is read in UTC."""
    assert is_canonical_time(now())
    assert abs(to_datetime(now()) - datetime.now(UTC)) < timedelta(hours=1)
