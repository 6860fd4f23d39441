"""Blocking calls in threads, for programs that use ``async``."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from satchel.ports.operations import AWAITING

_P = ParamSpec("_P")

_R = TypeVar("_R")

_Plain = TypeVar("_Plain")

_UNSURE = "The call may already have started; then it continues, and its writes are kept."


class AsyncClosable:
    """Base class for ``async with``: the end of the block awaits ``close``."""

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
    """Return an ``async`` method that runs a blocking one with the same arguments."""

    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await run_in_thread(partial(method, self._plain, *args, **kwargs))

    update_wrapper(call, method)
    return call


def in_a_thread(call: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """Return an ``async`` function that runs a blocking one with the same arguments.

    Callbacks are called in the worker thread.
    """

    async def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await run_in_thread(partial(call, *args, **kwargs))

    update_wrapper(wrapper, call)
    return wrapper


async def run_in_thread(call: Callable[[], _R]) -> _R:
    """Run a call in a thread; its ``async`` progress callbacks run in this event loop."""
    loop = asyncio.get_running_loop()

    def in_thread() -> _R:
        AWAITING.set(loop)  # in the thread's own context
        return call()

    try:
        return await asyncio.to_thread(in_thread)
    except asyncio.CancelledError as error:
        error.add_note(_UNSURE)
        raise
