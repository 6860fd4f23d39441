"""Probe sets: those shipped, validation, and the scoring of answers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evaluation_kit import PROBES, write
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


def probe_for(expect: str, *never: str, choices: tuple[str, ...] = ()) -> Probe:
    """Return a probe that expects one phrase."""
    return Probe(ask="Which?", expect=(expect,), never=never, choices=choices, needs=("a",))


def test_each_category_has_thirty_probes_over_several_sessions() -> None:
    """Coding, question answering, planning; each world has at least two sessions."""
    assert [one.category for one in SETS] == ["coding", "question answering", "planning"]
    assert all(sum(1 for _ in one.probes()) >= 30 for one in SETS)
    assert all(len(world.sessions) >= 2 for one in SETS for world in one.worlds)


@pytest.mark.parametrize("found", SETS, ids=lambda found: found.category)
def test_the_memories_of_a_probe_contain_its_answer(found: ProbeSet) -> None:
    """They say what is expected, and are current."""
    for world, probe in found.probes():
        memories = {one.key: memory_text(one.entry) for one in world.memories()}
        replaced = {one.replaces for one in world.memories()}
        needed = "\n".join(memories[key] for key in probe.needs)
        assert says(needed, probe.expect), probe.ask
        assert not replaced & set(probe.needs), probe.ask


@pytest.mark.parametrize("found", SETS, ids=lambda found: found.category)
def test_no_question_contains_its_answer(found: ProbeSet) -> None:
    """Without memory only a guess among choices is possible."""
    for _, probe in found.probes():
        assert not says(probe.ask, probe.expect), probe.ask
        assert len(probe.choices) in (0, 3)


def test_the_right_choice_has_no_preferred_position() -> None:
    """Choosing the same position always is right less than half of the time."""
    places = Counter[int]()
    for one in SETS:
        for _, probe in one.probes():
            if probe.choices:
                (place,) = (
                    at for at, choice in enumerate(probe.choices) if is_right(probe, choice)
                )
                places[place] += 1
    assert max(places.values()) < 0.5 * places.total()


def test_the_question_lists_the_choices() -> None:
    """An agent sees the possible answers."""
    assert (
        probe_for("tea", choices=("tea", "milk", "water")).question == "Which: tea, milk or water?"
    )


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
def test_an_answer_must_state_the_phrase_without_denying_it(answer: str, expected: bool) -> None:  # noqa: FBT001 - the verdict
    """A part of a number does not match, nor an answer of too many words."""
    assert is_right(probe_for("5433"), answer) is expected


def test_an_answer_with_a_superseded_fact_is_wrong() -> None:
    """Unless it denies that fact."""
    probe = probe_for("PostgreSQL 17", "PostgreSQL 15")
    assert is_right(probe, "PostgreSQL 17, not PostgreSQL 15")
    assert not is_right(probe, "PostgreSQL 15 and PostgreSQL 17")


def test_an_answer_that_names_several_choices_is_wrong() -> None:
    """Otherwise naming all of them would always be right."""
    probe = probe_for("servers", choices=("the desks", "the servers", "the archive"))
    assert is_right(probe, "The servers travel first.")
    assert not is_right(probe, "The servers, then the desks.")


def test_scoring_ignores_case_accents_and_digit_groups() -> None:
    """But not the boundaries of numbers."""
    assert says("ZOË paid 55,000", ["zoe"])
    assert says("ZOË paid 55,000", ["55000"])
    assert not says("55,0001", ["55,000"])


@given(st.text(max_size=200), st.text(max_size=50))
def test_scoring_accepts_any_text(answer: str, phrase: str) -> None:
    """For all answers and phrases; a phrase without words never matches."""
    assert says(answer, [phrase]) in (True, False)
    assert not says(answer, [" .,;"])


def with_members(**members: Any) -> dict[str, Any]:
    """Return a set whose world has other members."""
    value = json.loads(json.dumps(PROBES))
    value["worlds"][0] |= members
    return dict(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([], MalformedError),
        ({"format": "other"}, MalformedError),
        (with_members(name=""), MalformedError),
        (with_members(more=1), MalformedError),
        (with_members(probes=[]), EmptyInputError),
        (
            with_members(probes=[{"ask": "a?", "expect": ["b"], "needs": ["nowhere"]}]),
            MalformedError,
        ),
        (with_members(probes=[{"ask": "a?", "expect": [], "needs": ["tea"]}]), MalformedError),
        (with_members(sessions=[PROBES["worlds"][0]["sessions"][0]] * 2), MalformedError),
        (
            with_members(
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
def test_an_invalid_probe_set_is_refused(
    tmp_path: Path, value: Any, error: type[SatchelError]
) -> None:
    """The error names its file."""
    path = write(tmp_path / "probes.json", value)
    with pytest.raises(error) as found:
        probe_set(path)
    assert found.value.file == str(path)


def test_a_custom_probe_set_is_read(tmp_path: Path) -> None:
    """In the format of the shipped sets; a missing file is unreadable."""
    found = probe_set(write(tmp_path / "probes.json", PROBES))
    assert next(found.probes())[1].question == "What does Ada drink?"
    with pytest.raises(UnreadableError):
        probe_set(tmp_path / "none.json")
