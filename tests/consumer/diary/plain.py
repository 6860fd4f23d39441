"""The diary, written with the plain API.

Type checkers have to accept every line, and to refuse those that are marked: an expected error
that is not found is an error itself.
"""

from datetime import datetime
from pathlib import Path
from typing import assert_type

import satchel
from satchel import Bank, Memory, Satchel, SatchelError


def write(bank: Bank, text: str) -> str:
    """Store an entry, and return its ID."""
    stored = bank.remember(
        text, tags=["diary"], user="ada", occurred_at=datetime.now().astimezone()
    )
    assert_type(stored.id, str)
    assert_type(stored.created_at, datetime | None)
    return stored.id


def read(bank: Bank, words: str) -> list[str]:
    """Return entries that have some words."""
    answer = bank.recall(words, limit=5, tags="diary", since="2026-01-01")
    assert_type(answer[0], Memory)
    assert_type(len(answer), int)
    for memory in answer:
        assert_type(memory.text, str)
        assert_type(memory.tags, list[str])
        assert_type(memory.score, float | None)
        assert_type(memory.user, str | None)
    return [memory.text for memory in answer[:3]]


def review(bank: Bank, memory: str) -> list[str]:
    """Return what belongs to an entry or repeats it, and take out what reads like a prompt."""
    near = bank.links(memory)
    assert_type(near.things[0].memory, Memory | None)
    pairs = bank.duplicates().pairs
    assert_type(pairs[0].like, Memory)
    for flagged in bank.quarantine.scan(dry_run=True).flagged:
        assert_type(flagged.memory, Memory)
        removed: list[Memory] = list(bank.quarantine.reject(flagged.memory.id))
        assert removed[0].state == "rejected"
    return [pair.memory.text for pair in pairs]


def revise(bank: Bank, memory: str, text: str) -> list[datetime]:
    """Change an entry; return when each version was made."""
    bank.update(memory, text, add_tags=["revised"], reason="typing error")
    shown = bank.show(memory)
    assert_type(shown.state, str)
    return [each.created_at for each in bank.history(memory) if each.created_at is not None]


def carry(folder: Path) -> int:
    """Export the diary, and import it elsewhere."""
    with Satchel.open(folder / "one.db") as store:
        bank = store.bank("diary", create=True)
        assert_type(bank, Bank)
        write(bank, "The first day")
        try:
            bank.forget(["nothing"])
        except SatchelError as error:
            assert_type(error.hint, str | None)
        return len(bank.list(user="ada"))


def mistakes(bank: Bank) -> None:
    """Do what no type checker accepts."""
    bank.remember("x", tag="y")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    bank.recall("x", top_k=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    bank.list(limit="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bank.tokens.issue(overwrit=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    satchel.Keys().create("x", protect=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    satchel.Satchel.open().watch(once=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    bank.recal("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    satchel.opened("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
