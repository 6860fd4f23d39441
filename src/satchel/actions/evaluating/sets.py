"""Conversations with questions, and which turns answer each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something that was said."""

    name: str
    """What evidence names it by; no other turn of the conversation has it."""

    session: str
    speaker: str
    text: str
    at: str | None = None
    """When it was said, as canonical text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, with what answers it."""

    text: str
    kind: str
    evidence: frozenset[str]
    """Names of turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All that two or more said to each other, in its order, and what is asked about it."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    left_out: int = 0
    """Questions that name no turn that is there, such as those without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """What a file or folder holds."""

    format: str
    conversations: tuple[Conversation, ...]
    aside: frozenset[str] = frozenset()
    """Kinds of questions that do not count for the main figures."""
