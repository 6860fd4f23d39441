"""``satchel.aio``: the async version of the Python interface."""

import asyncio
import inspect
import threading
from typing import Any

import pytest

import satchel
from satchel import aio
from satchel.api import store as plain
from satchel.errors import ClosedError, UsageError


def public_members(cls: type) -> dict[str, Any]:
    """Return the public members of a class by name."""
    return {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("plain", "awaited"),
    [(satchel.Bank, aio.Bank), (satchel.Satchel, aio.Satchel)],
    ids=["Bank", "Satchel"],
)
def test_every_method_has_an_async_version_with_the_same_parameters(
    plain: type, awaited: type
) -> None:
    """Nothing is missing, and nothing else is there."""
    ours, theirs = public_members(plain), public_members(awaited)
    assert ours.keys() == theirs.keys()
    assert any(inspect.iscoroutinefunction(found) for found in theirs.values())
    for name, found in ours.items():
        if isinstance(found, property):
            assert isinstance(theirs[name], property)
            continue
        assert inspect.signature(found).parameters == inspect.signature(theirs[name]).parameters, (
            name
        )
        assert inspect.iscoroutinefunction(theirs[name]) or name == "open"
        assert theirs[name].__doc__


def test_concurrent_async_calls_are_durable() -> None:
    """Each memory is stored when its call returns."""

    async def run() -> None:
        async with aio.Satchel.open() as store:
            bank = await store.bank()
            await asyncio.gather(*(bank.remember(f"number {n}") for n in range(20)))
            assert len(await bank.list()) == 20
            made = await store.create_bank("other")
            assert (made.name, len(await store.list_banks())) == ("other", 2)
            with pytest.raises(UsageError):
                await bank.forget([])
        with pytest.raises(ClosedError):
            await bank.list()

    asyncio.run(run())
    with satchel.Satchel.open() as store:
        assert store.bank("default").stats().memories == 20


def test_a_store_can_be_opened_without_a_context_manager() -> None:
    """And closed twice."""

    async def run() -> None:
        store = await aio.Satchel.open()
        await (await store.bank()).remember("x")
        await store.close()
        await store.close()

    asyncio.run(run())


def test_the_event_loop_runs_while_a_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow call does not block the loop."""
    go = threading.Event()

    async def run() -> None:
        async with aio.Satchel.open() as store:
            bank = await store.bank()
            opened: Any = bank._plain
            monkeypatch.setattr(opened._opened.ledger, "reading", _reading_after(opened, go))
            waiting = asyncio.create_task(bank.stats())
            await asyncio.sleep(0)
            go.set()  # runs only if the loop is not blocked
            assert (await waiting).memories == 0

    asyncio.run(run())


def _reading_after(bank: Any, go: threading.Event) -> Any:
    reading = bank._opened.ledger.reading

    def waits() -> Any:
        assert go.wait(10)
        return reading()

    return waits


def test_a_note_on_a_canceled_call_says_that_writes_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call runs to its end, and its writes are complete."""
    begun, go = threading.Event(), threading.Event()

    async def run() -> list[str]:
        async with aio.Satchel.open() as store:
            bank = await store.bank()
            ledger: Any = bank._plain._opened.ledger
            append = ledger.append

            def slowly(*arguments: Any, **options: Any) -> Any:
                begun.set()
                assert go.wait(10)
                return append(*arguments, **options)

            monkeypatch.setattr(ledger, "append", slowly)
            task = asyncio.create_task(bank.remember("written after all"))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await task
            go.set()
            return raised.value.__notes__

    (note,) = asyncio.run(run())  # closing waits for the call
    assert "its writes are kept" in note
    with satchel.Satchel.open() as store:
        assert [memory.text for memory in store.bank().list()] == ["written after all"]


def test_a_store_is_closed_if_opening_it_is_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection stays open."""
    begun, go, closed = threading.Event(), threading.Event(), threading.Event()
    close = satchel.Satchel.close

    def noted(self: satchel.Satchel) -> None:
        close(self)
        closed.set()

    def slowly(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go.wait(10)
        return opening(*arguments, **options)

    async def run() -> None:
        task = asyncio.create_task(_opened())
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        assert await asyncio.to_thread(closed.wait, 10)

    opening = plain.open_store
    monkeypatch.setattr(plain, "open_store", slowly)
    monkeypatch.setattr(satchel.Satchel, "close", noted)
    asyncio.run(run())


async def _opened() -> aio.Satchel:
    return await aio.Satchel.open()
