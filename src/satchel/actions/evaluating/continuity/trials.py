"""Asking agents all probes: with all of the memory, with what was carried over, with none."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from satchel.actions.evaluating.agents.agent import Agent, Asked
from satchel.actions.evaluating.continuity.carrying import Framing
from satchel.actions.evaluating.probes.judging import is_right
from satchel.actions.evaluating.probes.sets import Probe, ProbeSet

Progress = Callable[[int, int], None]
"""Is told how many answers there are, and of how many."""


@dataclass(frozen=True, slots=True)
class Item:
    """A probe with its category and where it stands."""

    category: str
    world: str
    probe: Probe


@dataclass(frozen=True, slots=True)
class Response:
    """What an agent answered."""

    answer: str
    right: bool


@dataclass(slots=True)
class Taken:
    """What the texts took that an agent was given."""

    tokens: list[int] = field(default_factory=list)
    verbatim: list[int] = field(default_factory=list)
    summarised: list[int] = field(default_factory=list)
    tokenizer: str = ""


class Telling:
    """Counts answers for whoever watches."""

    def __init__(self, total: int, told: Progress | None) -> None:
        self._total, self._told, self._done = total, told, 0

    def one(self) -> None:
        """Count one more."""
        self._done += 1
        if self._told is not None:
            self._told(self._done, self._total)


def items(sets: Sequence[ProbeSet]) -> list[Item]:
    """Return the probes of some sets."""
    return [
        Item(one.category, f"{at}/{world.name}", probe)
        for at, one in enumerate(sets)
        for world, probe in one.probes()
    ]


def with_text(agent: Agent, asked: Iterable[Item], text: str, telling: Telling) -> list[Response]:
    """Return what an agent answers that is given the same text each time."""
    return [_answer(agent, item.probe, text, telling) for item in asked]


def with_memory(
    agent: Agent,
    asked: Iterable[Item],
    framing: Framing,
    wanted: tuple[str, int],
    telling: Telling,
) -> tuple[list[Response], Taken]:
    """Return what an agent answers that is given the memory framed for each question.

    Args:
        agent: The agent.
        asked: What it is asked.
        framing: Frames the memory.
        wanted: The model that it is framed for, and the tokens that the text may have.
        telling: Told of each answer.
    """
    found, taken = list[Response](), Taken()
    for item in asked:
        framed = framing(item.probe.question, *wanted)
        text = "" if framed is None else framed.text
        if framed is not None:
            taken.tokens.append(framed.tokens)
            taken.verbatim.append(sum(one.form == "verbatim" for one in framed.entries))
            taken.summarised.append(sum(one.form == "summary" for one in framed.entries))
            taken.tokenizer = framed.tokenizer
        found.append(_answer(agent, item.probe, text, telling))
    return found, taken


def _answer(agent: Agent, probe: Probe, text: str, telling: Telling) -> Response:
    answer = agent.answer(Asked(question=probe.question, memory=text))
    telling.one()
    return Response(answer, is_right(probe, answer))
