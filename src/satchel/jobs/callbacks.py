"""Telling a caller how far a transfer got, whether he awaits or not."""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from satchel.errors import UsageError
from satchel.jobs.steps import OnStep, Step

if TYPE_CHECKING:
    import asyncio

OnRecord = Callable[[int, int, str | None], Any]
"""Called with records done, records there are, and the id of the last one; may be ``async``.

What it raises ends the transfer, and is raised by the call; a note on it says what that leaves.
"""

AWAITING: ContextVar["asyncio.AbstractEventLoop | None"] = ContextVar("AWAITING", default=None)
"""The loop in which somebody waits for the call of this thread; None where nobody awaits."""


def teller(callback: OnRecord | None) -> OnStep | None:
    """Return what tells a caller of each step.

    Raises:
        UsageError: When it is called, if the callback is ``async`` and no loop could run it.
    """
    if callback is None:
        return None

    def tell(step: Step) -> None:
        loop = AWAITING.get()
        if loop is not None:  # in the loop of whoever awaits the call, and its thread
            import asyncio

            asyncio.run_coroutine_threadsafe(_called(callback, step), loop).result()
            return
        said = callback(*step)
        if inspect.isawaitable(said):
            _run(said)

    return tell


async def _called(callback: OnRecord, step: Step) -> None:
    said = callback(*step)
    if inspect.isawaitable(said):
        await said


def _run(said: Awaitable[Any]) -> None:
    """Wait for what an ``async`` callback does, in a loop of its own."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_whole(said))
        return
    if inspect.iscoroutine(said):
        said.close()
    raise UsageError(
        "an async callback cannot run while the event loop waits for this call",
        hint="Use satchel.aio, or a plain callback.",
    )


async def _whole(said: Awaitable[Any]) -> None:
    await said
