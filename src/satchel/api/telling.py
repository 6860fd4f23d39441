"""How far a transfer got, told to whoever asked: by a plain function, or by one that is awaited."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self

from satchel.errors import UsageError

Told = Callable[[int, int, str | None], Awaitable[Any] | None]
"""Takes what is done, what there is, and the id of a record, where one is known."""


class Telling:
    """Tells a function how far it got; what it raises stops the work.

    A context manager: when its block ends without an error, the end is told, with both numbers
    the same. Called with what is done and what there is, as actions do.

    Args:
        told: The function; None to tell nobody. One that is to be awaited is run to its end.
    """

    def __init__(self, told: Told | None) -> None:
        self._told = told
        self._total = 0
        self._loop: asyncio.Runner | None = None

    def __call__(self, done: int, total: int, record: str | None = None) -> None:
        """Tell it."""
        self._total = max(total, done)
        self._tell(done, total, record)

    def ends_with(self, total: int) -> None:
        """Say what there was, for work that had nothing to tell on its way."""
        self._total = self._total or total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._tell(self._total, self._total, None)
        finally:
            if self._loop is not None:
                self._loop.close()

    def _tell(self, done: int, total: int, record: str | None) -> None:
        if self._told is None:
            return
        answer = self._told(done, total, record)
        if isawaitable(answer):
            self._run(answer)

    def _run(self, answer: Awaitable[Any]) -> None:
        async def waited() -> None:
            await answer

        if _is_on_a_loop():
            if isinstance(answer, Coroutine):
                answer.close()
            raise UsageError(
                "a function that is awaited cannot be told from inside a running loop",
                field="progress",
                hint="Use satchel.aio there, or a plain function.",
            )
        if self._loop is None:
            self._loop = asyncio.Runner()
        self._loop.run(waited())


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def on_loop(told: Told, loop: asyncio.AbstractEventLoop) -> Told:
    """Return what may be called in a thread, and calls a function on a loop, and waits for it."""

    async def call(done: int, total: int, record: str | None) -> None:
        answer = told(done, total, record)
        if isawaitable(answer):
            await answer

    def wait(done: int, total: int, record: str | None) -> None:
        asyncio.run_coroutine_threadsafe(call(done, total, record), loop).result()

    return wait
