"""Speakers of memories: turns with an actor or with messages, in Python and by command."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from satchel import Bank, Satchel
from satchel.cli.main import run
from satchel.errors import EmptyInputError, MalformedError, SatchelError, UsageError

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "name": "Ada", "content": "I sailed to Bergen", "created_at": "2026-03-01"},
    {"role": "assistant", "content": [{"type": "text", "text": "How was the weather?"}]},
    {"role": "user", "content": ""},
]


@pytest.fixture
def bank() -> Iterator[Bank]:
    """An empty bank."""
    with Satchel.open() as store:
        yield store.create_bank("talk")


def record_of(bank: Bank, identity: str) -> dict[str, Any]:
    """Return the record of a memory."""
    return bank.show(identity).record


def test_an_actor_with_a_run_is_the_speaker_of_a_turn(bank: Bank) -> None:
    """The memory is episodic, and a question that names the speaker ranks it higher."""
    made = bank.remember("I like tea", actor="Ada Berg", run="r1")
    bank.remember("I like tea", actor="Bela", run="r2")
    said = record_of(bank, made.id)
    assert (said["type"], said["actor"]) == ("episodic", "Ada Berg")
    first = bank.recall("what tea does Ada like", explain=True).memories[0]
    assert (first.id, first.why and first.why.speaker) == (made.id, 1)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"actor": "agent:planner"}, ("semantic", None)),
        ({"actor": "Ada", "type": "semantic", "run": "r"}, ("semantic", None)),
        ({"actor": "Ada", "type": "episodic"}, ("episodic", "Ada")),
        ({"actor": "agent:planner", "type": "episodic"}, ("episodic", None)),
        ({"actor": "Ada", "run": "r", "members": {"actor": "Bela"}, "type": "episodic"},
         ("episodic", "Bela")),
        ({"run": "r"}, ("semantic", None)),
    ],
)  # fmt: skip
def test_an_explicit_member_overrides_the_actor(
    bank: Bank, members: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    """A fact stays a fact, and a program that stores a memory is not its speaker."""
    said = record_of(bank, bank.remember("the boat is red", **members).id)
    assert (said["type"], said.get("actor")) == expected


def test_messages_become_turns_of_their_speakers(bank: Bank) -> None:
    """By name, or else by role; messages without text are skipped."""
    made = bank.remember(messages=MESSAGES, run="r1", user="ada")
    first, second = (record_of(bank, each) for each in made.turns)
    assert made.id == made.turns[-1]
    assert (first["type"], first["actor"]) == ("episodic", "Ada")
    assert first["text"] == MESSAGES[0]["content"]
    assert first["occurred_at"] == "2026-03-01T00:00:00.000000Z"
    assert first["scope"] == {"run": "r1", "user": "ada"}
    assert (second["actor"], second["text"]) == ("assistant", "How was the weather?")
    assert bank.recall("where did Ada sail").memories[0].id == first["id"]


@pytest.mark.parametrize(
    ("arguments", "problem", "field"),
    [
        ({"messages": [{"role": "user", "content": "x"}], "key": "k"}, UsageError, "key"),
        ({"messages": [{"role": "user", "content": "x"}], "actor": "Ada"}, UsageError, "actor"),
        ({"messages": [{"role": "user", "content": "x"}], "type": "semantic"}, UsageError, "type"),
        ({"messages": "hello"}, UsageError, "messages"),
        ({"messages": {"role": "user", "content": "x"}}, UsageError, "messages"),
        ({"messages": []}, EmptyInputError, "messages"),
        ({"messages": [{"role": "user", "content": "x"}, {"content": "y"}]}, MalformedError,
         "messages[1].role"),
        ({"messages": ["x"]}, MalformedError, "messages[0].message"),
    ],
)  # fmt: skip
def test_invalid_messages_are_refused_and_nothing_is_stored(
    bank: Bank, arguments: dict[str, Any], problem: type[SatchelError], field: str
) -> None:
    """The error has the index of the message; the valid ones are not stored either."""
    with pytest.raises(problem) as caught:
        bank.remember(**arguments)
    assert caught.value.field == field
    assert not list(bank.list())


def test_the_command_line_makes_the_actor_the_speaker(capsys: pytest.CaptureFixture[str]) -> None:
    """As Python does."""
    assert run(["remember", "I like tea", "--actor", "Ada", "--run", "r1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert run(["show", made["id"], "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["record"]
    assert (said["type"], said["actor"]) == ("episodic", "Ada")
