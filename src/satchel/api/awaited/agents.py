"""Whole agents, awaited."""

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import Any, ParamSpec, TypeVar

from satchel.api.agents import moving
from satchel.api.away import away

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _awaited(call: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """Return a function that awaits one of the same arguments."""

    async def there(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await away(partial(call, *args, **kwargs))

    update_wrapper(there, call)
    return there


agents = _awaited(moving.agents)
export_agent = _awaited(moving.export_agent)
import_agent = _awaited(moving.import_agent)
