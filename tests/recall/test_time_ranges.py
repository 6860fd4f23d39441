"""Time ranges in queries: which words name them, and what they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.model.values import is_canonical_time
from satchel.recall.texts import asks_when, names_time, parse_time_range, times_named
from satchel.stores.text_search import tokens_of

NOW = "2026-06-03T12:00:00.000000Z"  # a Wednesday


def span(text: str) -> tuple[str, str, str] | None:
    """Return the words, the first day and the day after the last; None without a time range."""
    told = parse_time_range(text, NOW)
    if told is None:
        return None
    return told.words, (told.since or "")[:10], (told.until or "")[:10]


@pytest.mark.parametrize(
    ("text", "words", "since", "until"),
    [
        ("what did we do last May?", "last May", "2026-05-01", "2026-06-01"),
        ("what did we do this May", "this May", "2026-05-01", "2026-06-01"),
        ("the party last June", "last June", "2025-06-01", "2025-07-01"),
        ("yesterday's lunch", "yesterday", "2026-06-02", "2026-06-03"),
        ("who called today?", "today", "2026-06-03", "2026-06-04"),
        ("what I ate last week", "last week", "2026-05-25", "2026-06-01"),
        ("plans for this month", "this month", "2026-06-01", "2026-07-01"),
        ("trips last year", "last year", "2025-01-01", "2026-01-01"),
        ("three weeks ago", "three weeks ago", "2026-05-11", "2026-05-18"),
        ("2 days ago we met", "2 days ago", "2026-06-01", "2026-06-02"),
        ("in the last 3 days", "in the last 3 days", "2026-05-31", "2026-06-03"),
        ("last Monday", "last Monday", "2026-06-01", "2026-06-02"),
        ("last Wednesday", "last Wednesday", "2026-05-27", "2026-05-28"),
        ("lunch on Friday", "on Friday", "2026-05-29", "2026-05-30"),
    ],
)
def test_times_relative_to_now_are_exact(text: str, words: str, since: str, until: str) -> None:
    """Days, weeks from Monday on, months and years before the query."""
    assert span(text) == (words, since, until)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("what happened on 2026-03-01", "2026-03-01", "2026-03-05"),
        ("on 8 May, 2023", "2023-05-08", "2023-05-12"),
        ("the May 8th 2022 party", "2022-05-08", "2022-05-12"),
        ("in May 2023", "2023-05-01", "2023-06-04"),
        ("in 2022", "2022-01-01", "2023-01-04"),
        ("in August", "2025-08-01", "2025-09-04"),
        ("since March", "2026-03-01", ""),
        ("after 8 May 2023", "2023-05-09", ""),
        ("before 2022", "", "2022-01-04"),
        ("until May 2023", "", "2023-06-04"),
        ("as of May 2023", "", "2023-06-04"),
    ],
)
def test_a_date_includes_a_few_days_after_it(text: str, since: str, until: str) -> None:
    """Events are often told, and stored, a little later."""
    found = span(text)
    assert found is not None
    assert found[1:] == (since, until)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I may go",
        "this may help",
        "by may",
        "march on",
        "31 February 2024",
        "next May",
        "item 2026",
        "the second one",
        "room 12",
        "昨日の会議",
    ],
)
def test_ambiguous_words_name_no_time(text: str) -> None:
    """Other words, days that do not exist, and times in the future."""
    assert span(text) is None


@given(st.text(max_size=80) | st.from_regex(r"(in|on|last) [\w ,.-]{0,30}", fullmatch=True))
def test_any_text_yields_an_ordered_time_range_or_none(text: str) -> None:
    """No input raises an error or gives a range that ends before it begins."""
    told = parse_time_range(text, NOW)
    if told is not None:
        ends = [end for end in (told.since, told.until) if end is not None]
        assert ends == sorted(ends)
        assert all(map(is_canonical_time, ends))


def test_attack_a_long_text_of_partial_times_is_fast() -> None:
    """Attack: a query that every pattern begins to match; only its start is read."""
    assert parse_time_range("the last " * 100_000 + "year", NOW) is None


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("When did Ada sail?", True),
        ("On which day did it rain?", True),
        ("What year was that?", True),
        ("What did she do when it rained?", False),
        ("", False),
    ],
)
def test_questions_that_ask_for_a_time_are_recognized(question: str, *, asks: bool) -> None:
    """By how they begin."""
    assert asks_when(question) is asks


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("we sailed yesterday", True),
        ("it was in 2019", True),
        ("on Mondays", True),
        ("we sailed", False),
        ("20190 boats", False),
    ],
)
def test_texts_that_name_a_time_are_recognized(text: str, *, names: bool) -> None:
    """Days, months, years, and words relative to now."""
    assert names_time(tokens_of(text)) is names


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        ("we climbed it two months ago", ["2023-05-01"]),
        ("Yesterday it rained, and last week too", ["2023-07-09", "2023-07-03"]),
        ("on 5 May 2022, not on 31 February 2022", ["2022-05-05"]),
        ("this may help in May", ["2023-05-01"]),
        ("nothing of the kind", []),
    ],
)
def test_times_in_a_text_are_relative_to_when_it_was_written(text: str, moments: list[str]) -> None:
    """The first moment of each, in the order of the text."""
    found = times_named(text, "2023-07-10T12:00:00.000000Z")

    assert [moment[:10] for moment in found] == moments
