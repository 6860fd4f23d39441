"""Distillers: what draws a summary and lasting facts from a conversation."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

FindingKind = Literal["fact", "decision", "preference", "correction", "open_item"]
"""What a finding can be."""

MOST_SUMMARY = 2000
"""Characters of a summary that is kept."""

MOST_FINDINGS = {"fact": 20, "decision": 10, "preference": 10, "correction": 10, "open_item": 10}
"""Findings of each kind that are kept, of one distillation."""


LONGEST_FINDING = 1000
"""Characters of one."""

SPEAKERS = frozenset({"user", "human", "assistant", "ai", "agent"})
"""Roles of those who speak; what tools and system prompts say is nobody's word."""


class Turn(NamedTuple):
    """One message."""

    id: str
    """Id of its record."""

    number: int
    """From 1, in its conversation."""

    role: str
    """Who speaks: user, assistant, system, tool, or another program's word."""

    text: str
    """What it says in words."""


class Finding(NamedTuple):
    """Something to be remembered."""

    kind: FindingKind
    text: str
    turns: tuple[str, ...]
    """Ids of the messages that it was drawn from, at least one."""


class Distillate(NamedTuple):
    """What a conversation comes down to."""

    summary: str
    """Of all of it, what was summarised before included; at most ``MOST_SUMMARY`` characters."""

    findings: list[Finding]
    left_out: int = 0
    """What else a model said that can be no finding."""


class Distiller(Protocol):
    """Draws what is to last from a conversation."""

    @property
    def model(self) -> str:
        """What does it, by name and version."""
        ...

    def distill(self, turns: Iterable[Turn], before: str | None) -> Distillate:
        """Return what messages come down to.

        Args:
            turns: The messages, in their order; they can be iterated again, and do not all fit
                into memory.
            before: The summary of what came before them.
        """
        ...
