"""Methods that can be called directly, or awaited through ``.aio``.

Awaited calls run in a pool of threads, as many as a group commit has writes, so that a hundred
concurrent writes cost a few commits.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from satchel.runtime.processes import in_child

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_THREADS = 32


class _Threads:
    """Threads that start on first use, also in a forked child, which inherits none."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        in_child(self.forget)

    def forget(self) -> None:
        self._pool = None

    def __call__(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="satchel-files")
        return self._pool


_threads = _Threads()


async def call_in_thread(call: Callable[[], R]) -> R:
    """Call a function in another thread, and return its result."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    return await loop.run_in_executor(
        _threads(), cast("Callable[[], R]", partial(context.run, call))
    )


class SyncAsyncMethod(Generic[P, R]):
    """A bound method that can be called or awaited."""

    __slots__ = ("__wrapped__", "_bound")

    def __init__(self, function: Callable[..., R], bound: Any) -> None:
        self.__wrapped__ = function
        self._bound = bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it in this thread."""
        leave = getattr(self._bound, "leave", None)
        if leave is not None:
            leave(self.__wrapped__.__name__)
        return self.__wrapped__(self._bound, *args, **kwargs)

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Await it in another thread. A cancelled call may still be completed."""
        return call_in_thread(lambda: self(*args, **kwargs))


class sync_async(Generic[S, P, R]):  # noqa: N801 - a decorator
    """Add ``.aio`` to a method."""

    def __init__(self, function: Callable[Concatenate[S, P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__isabstractmethod__ = False

    def __get__(self, instance: S | None, owner: type[S] | None = None) -> SyncAsyncMethod[P, R]:
        """Return it, bound to an object."""
        return SyncAsyncMethod(self.function, instance)


class sync_async_classmethod(Generic[S, P, R]):  # noqa: N801 - a decorator
    """Add ``.aio`` to a class method."""

    def __init__(self, function: Callable[Concatenate[type[S], P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: S | None, owner: type[S]) -> SyncAsyncMethod[P, R]:
        """Return it, bound to a class."""
        return SyncAsyncMethod(self.function, owner)
