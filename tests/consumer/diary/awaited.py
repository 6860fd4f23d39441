"""The diary, written with the awaited API."""

from typing import assert_type

from satchel import Memory
from satchel.aio import Bank, Satchel


async def write(bank: Bank, text: str) -> Memory:
    """Store an entry."""
    stored = await bank.remember(text, tags=["diary"])
    assert_type(stored.id, str)
    return stored


async def read(words: str) -> list[str]:
    """Return entries that have some words."""
    async with Satchel.open() as store:
        bank = await store.bank("diary", create=True)
        assert_type(bank, Bank)
        answer = await bank.recall(words, limit=5)
        assert_type(answer[0], Memory)
        names = [line.name for line in await store.list_banks()]
        return [memory.text for memory in answer if names]


async def mistakes(bank: Bank) -> None:
    """Do what no type checker accepts."""
    await bank.remember("x", tag="y")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await bank.recall("x", limit="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
