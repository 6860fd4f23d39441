"""Calls that block, in threads of their own, for programs that await."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from satchel.bank.jobs import AWAITING

_P = ParamSpec("_P")

_R = TypeVar("_R")

_Plain = TypeVar("_Plain")

_UNSURE = "The call may already have started; then it continues, and its writes are kept."


class AsyncClosable:
    """A class that ``async with`` closes at the end of its block; it has ``close``, awaited."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        closing: Any = self
        await closing.close()


def awaited(
    method: Callable[Concatenate[_Plain, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method that awaits one of the same arguments."""

    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await run_in_thread(partial(method, self._plain, *args, **kwargs))

    update_wrapper(call, method)
    return call


def in_a_thread(call: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """Return a function that awaits one of the same arguments.

    What it calls back is called in the threads that the work is done in.
    """

    async def awaits(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await run_in_thread(partial(call, *args, **kwargs))

    update_wrapper(awaits, call)
    return awaits


async def run_in_thread(call: Callable[[], _R]) -> _R:
    """Run a call in a thread; what it tells on the way is told in this loop."""
    loop = asyncio.get_running_loop()

    def there() -> _R:
        AWAITING.set(loop)  # in the thread's own context
        return call()

    try:
        return await asyncio.to_thread(there)
    except asyncio.CancelledError as error:
        error.add_note(_UNSURE)
        raise
