"""Contradictions between facts, and pairs that only look like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.amplihack.facts import ComparedFact, change_between, fact_of, likeness, quantities
from satchel.model.records import Semantic


def compared_fact(text: str, concept: str = "", place: int = 0) -> ComparedFact:
    """Return a fact about a concept."""
    return fact_of(f"blake3:{place:064x}", Semantic(text=text, subject=concept or None), place)


@pytest.mark.parametrize(
    ("before", "after", "concept", "kind"),
    [
        ("The queue has 4 workers", "The queue has 8 workers", "", "numeric_update"),
        ("The queue has 4 workers", "The queue now has 8 workers", "queue", "numeric_update"),
        ("The limit is 2.5 GB", "The limit is 4 GB", "limit", "numeric_update"),
        ("billing uses Redis", "billing does not use Redis", "billing", "negation"),
        ("billing uses Redis", "billing doesn't use Redis", "", "negation"),
        ("billing uses Redis", "billing no longer uses Redis", "", "negation"),
        ("The cache is enabled", "The cache is disabled", "", "state_change"),
        ("Anonymous access is allowed", "Anonymous access is forbidden", "", "state_change"),
        ("Der Cache nutzt Redis", "Der Cache nutzt Redis nicht", "", "negation"),
    ],
)
def test_contradictions_are_found_with_the_values_before_and_after(
    before: str, after: str, concept: str, kind: str
) -> None:
    """Numbers, negations and states, in both directions."""
    one, other = compared_fact(before, concept), compared_fact(after, concept, 1)
    change = change_between(one, other)
    assert change is not None
    assert change.type == kind
    back = change_between(other, one)
    assert back is not None
    assert (back.before, back.after) == (change.after, change.before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The service moved to Berlin on 2026-01-03", "The service moved to Berlin on 2026-02-04"),
        ("The client speaks protocol v1.2.3", "The client speaks protocol v1.3.0"),
        ("Ticket #41 was closed", "Ticket #42 was closed"),
        ("The office opened in 2019", "The office opened in 2021"),
        ("The meeting is at 10:30", "The meeting is at 11:30"),
        ("Server alpha has 4 disks", "Server beta has 8 disks"),
        ("Ada likes tea", "Bob does not like tea"),
        ("The queue has 4 workers", "The queue has 4 workers and a dashboard"),
        ("The queue has 4 workers", "Lunch costs 8 euros"),
    ],
)
def test_different_dates_versions_and_ids_are_not_contradictions(one: str, other: str) -> None:
    """The reference reports any different number as a contradiction."""
    assert change_between(compared_fact(one), compared_fact(other, place=1)) is None


def test_facts_about_different_concepts_do_not_contradict_each_other() -> None:
    """Even if they have the same words."""
    one, other = (
        compared_fact("it has 4 workers", "mail queue"),
        compared_fact("it has 8 workers", "web server"),
    )
    assert change_between(one, other) is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_similarity_is_from_0_to_1_and_symmetric(one: str, other: str) -> None:
    """For any two texts."""
    found = likeness(compared_fact(one, other), compared_fact(other, one))
    assert 0 <= found <= 1
    assert found == likeness(compared_fact(other, one), compared_fact(one, other))
    change_between(compared_fact(one), compared_fact(other))


def test_quantities_are_read_with_units_and_punctuation() -> None:
    """Years, ports, builds, versions and times are not quantities."""
    assert quantities("it takes 4, 8ms, 2.5% and (16) of 3GB.") == ("4", "8", "2.5", "16", "3")
    assert quantities("since 2026, port 8080, build 12, x86, 1.2.3, 10:30") == ()


def test_a_megabyte_of_digits_is_scanned_in_linear_time() -> None:
    """Only the start of a text counts."""
    assert len(compared_fact("9 " * 500_000).numbers) <= 4096
