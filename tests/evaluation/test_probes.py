"""Probe sets: what comes along, what is refused, and how answers are judged."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evaluating_kit import PROBES, write
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import EmptyInputError, MalformedError, SatchelError, UnreadableError
from satchel.evaluation.probes import (
    MOST_WORDS,
    Probe,
    ProbeSet,
    is_right,
    probe_set,
    says,
    shipped_sets,
)
from satchel.model.text import memory_text

SETS = shipped_sets()


def right(expect: str, *never: str, choices: tuple[str, ...] = ()) -> Probe:
    """Return a probe that wants one thing said."""
    return Probe(ask="Which?", expect=(expect,), never=never, choices=choices, needs=("a",))


def test_each_category_has_thirty_probes_over_several_sessions() -> None:
    """Coding, question answering, planning; each world has at least two sessions."""
    assert [one.category for one in SETS] == ["coding", "question answering", "planning"]
    assert all(sum(1 for _ in one.probes()) >= 30 for one in SETS)
    assert all(len(world.sessions) >= 2 for one in SETS for world in one.worlds)


@pytest.mark.parametrize("found", SETS, ids=lambda found: found.category)
def test_a_probe_is_answered_by_the_memory_that_it_names(found: ProbeSet) -> None:
    """What a probe needs says what it expects, and is still current."""
    for world, probe in found.probes():
        memories = {one.key: memory_text(one.entry) for one in world.memories()}
        replaced = {one.replaces for one in world.memories()}
        needed = "\n".join(memories[key] for key in probe.needs)
        assert says(needed, probe.expect), probe.ask
        assert not replaced & set(probe.needs), probe.ask


@pytest.mark.parametrize("found", SETS, ids=lambda found: found.category)
def test_no_question_contains_its_answer(found: ProbeSet) -> None:
    """Without memory there is a guess among choices, and nothing else."""
    for _, probe in found.probes():
        assert not says(probe.ask, probe.expect), probe.ask
        assert len(probe.choices) in (0, 3)


def test_the_right_choice_stands_at_no_preferred_place() -> None:
    """Whoever always takes the same one is right less than half of the time."""
    places = Counter[int]()
    for one in SETS:
        for _, probe in one.probes():
            if probe.choices:
                (place,) = (
                    at for at, choice in enumerate(probe.choices) if is_right(probe, choice)
                )
                places[place] += 1
    assert max(places.values()) < 0.5 * places.total()


def test_choices_stand_in_the_question() -> None:
    """An agent sees what may be answered."""
    assert right("tea", choices=("tea", "milk", "water")).question == "Which: tea, milk or water?"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It runs on 5433.", True),
        ("certainly not 5433", False),
        ("It isn't 5433", False),
        ("Not sure, but 5433", True),
        ("15433", False),
        ("5433.5 it is", True),
        ("", False),
        ("5433 " * (MOST_WORDS + 1), False),
    ],
)
def test_an_answer_is_right_that_says_it_and_does_not_deny_it(answer: str, expected: bool) -> None:  # noqa: FBT001 - the verdict
    """Part of a number is another number, and everything at once is no answer."""
    assert is_right(right("5433"), answer) is expected


def test_an_answer_with_a_superseded_fact_is_wrong() -> None:
    """Unless it denies it."""
    probe = right("PostgreSQL 17", "PostgreSQL 15")
    assert is_right(probe, "PostgreSQL 17, not PostgreSQL 15")
    assert not is_right(probe, "PostgreSQL 15 and PostgreSQL 17")


def test_an_answer_that_names_several_choices_is_wrong() -> None:
    """Naming them all would always be right."""
    probe = right("servers", choices=("the desks", "the servers", "the archive"))
    assert is_right(probe, "The servers travel first.")
    assert not is_right(probe, "The servers, then the desks.")


def test_case_accents_and_groups_of_digits_make_no_difference() -> None:
    """What is meant counts."""
    assert says("ZOË paid 55,000", ["zoe"])
    assert says("ZOË paid 55,000", ["55000"])
    assert not says("55,0001", ["55,000"])


@given(st.text(max_size=200), st.text(max_size=50))
def test_judging_takes_any_text(answer: str, phrase: str) -> None:
    """For all answers and phrases; what says nothing is never said."""
    assert says(answer, [phrase]) in (True, False)
    assert not says(answer, [" .,;"])


def changed(**members: Any) -> dict[str, Any]:
    """Return a set whose world has other members."""
    value = json.loads(json.dumps(PROBES))
    value["worlds"][0] |= members
    return dict(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([], MalformedError),
        ({"format": "other"}, MalformedError),
        (changed(name=""), MalformedError),
        (changed(more=1), MalformedError),
        (changed(probes=[]), EmptyInputError),
        (changed(probes=[{"ask": "a?", "expect": ["b"], "needs": ["nowhere"]}]), MalformedError),
        (changed(probes=[{"ask": "a?", "expect": [], "needs": ["tea"]}]), MalformedError),
        (changed(sessions=[PROBES["worlds"][0]["sessions"][0]] * 2), MalformedError),
        (
            changed(
                sessions=[
                    {
                        "at": "2026-03-01T09:00:00.000000Z",
                        "memories": [
                            {
                                "key": "tea",
                                "entry": {"type": "semantic", "text": "x"},
                                "replaces": "later",
                            }
                        ],
                    }
                ]
            ),
            MalformedError,
        ),
    ],
    ids=range(9),
)
def test_a_set_that_makes_no_sense_is_refused(
    tmp_path: Path, value: Any, error: type[SatchelError]
) -> None:
    """With the name of its file."""
    path = write(tmp_path / "probes.json", value)
    with pytest.raises(error) as found:
        probe_set(path)
    assert found.value.file == str(path)


def test_a_set_of_ones_own_is_read(tmp_path: Path) -> None:
    """In the form of those that come along; one that is not there is unreadable."""
    found = probe_set(write(tmp_path / "probes.json", PROBES))
    assert next(found.probes())[1].question == "What does Ada drink?"
    with pytest.raises(UnreadableError):
        probe_set(tmp_path / "none.json")
