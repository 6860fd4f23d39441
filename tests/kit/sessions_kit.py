"""Sessions for tests."""

from collections.abc import Iterable

from satchel.bank.open_bank import OpenBank
from satchel.model.text import Message
from satchel.sessions.distillation import distill
from satchel.sessions.queries import messages_of
from satchel.sessions.record import NewSession, RecordResult, begin, record


def turns(count: int, *, start: int = 1, size: int = 0) -> list[Message]:
    """Return numbered messages, each with this many additional characters."""
    roles = ("user", "assistant")
    return [
        Message(role=roles[number % 2], content=f"turn {number}" + " " * bool(size) + "x" * size)
        for number in range(start, start + count)
    ]


def begun(bank: OpenBank, count: int = 0, name: str = "talk", *, size: int = 0) -> RecordResult:
    """Create a session with this many messages."""
    return begin(bank, NewSession(name=name), turns(count, size=size))


def say(bank: OpenBank, session: str, *texts: str) -> RecordResult:
    """Record messages of the user."""
    return record(bank, session, [Message(role="user", content=text) for text in texts])


def texts_of(bank: OpenBank, session: str, at: str | None = None) -> list[object]:
    """Return the texts of a session's messages, in order."""
    return [message.content for message in messages_of(bank, session, at=at)]


def distilled(bank: OpenBank, session: str, batches: Iterable[Iterable[str]]) -> list[str]:
    """Record some messages and distill, repeatedly; return the IDs of the checkpoints."""
    found = []
    for texts in batches:
        say(bank, session, *texts)
        made = distill(bank, session).checkpoint
        assert made is not None
        found.append(made)
    return found
