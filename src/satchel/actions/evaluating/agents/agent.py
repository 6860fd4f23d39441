"""What an agent is asked, and what it has to be able to do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question to an agent."""

    question: str
    memory: str = ""
    """The framed text of what is remembered; empty where it has no memory."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The same as a conversation: what it is to do, what it remembers, the question."""
        asked = [{"role": "system", "content": INSTRUCTION}]
        if self.memory:
            asked.append({"role": "system", "content": self.memory})
        return [*asked, {"role": "user", "content": self.question}]


INSTRUCTION = (
    "Answer the question in one sentence of at most 40 words. Use what you remember. Where the "
    "question offers choices, name the one that is right and no other. If you do not know, "
    "choose, or say that you do not know."
)


class Agent(Protocol):
    """Whoever answers."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    def answer(self, asked: Asked) -> str:
        """Return an answer; empty where there is none.

        Raises:
            InferenceError: If it does not answer.
        """


@dataclass(frozen=True, slots=True)
class Function:
    """An agent that is a function of this process."""

    name: str
    call: Callable[[Asked], str]

    def answer(self, asked: Asked) -> str:
        """Return what the function returns."""
        return self.call(asked)
