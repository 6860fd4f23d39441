"""``satchel.pipeline`` for programs that await."""

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec

from satchel.api import pipeline as plain_pipeline
from satchel.api.awaited.stores import Bank
from satchel.api.away import away
from satchel.ports.operations import PathText

_P = ParamSpec("_P")


def _of_sources(
    call: Callable[Concatenate[plain_pipeline.Waking | PathText, _P], plain_pipeline.Rehydrated],
) -> Callable[Concatenate[Bank | PathText, _P], Coroutine[Any, Any, plain_pipeline.Rehydrated]]:
    async def pipeline(
        source: Bank | PathText, /, *args: _P.args, **given: _P.kwargs
    ) -> plain_pipeline.Rehydrated:
        plain = source._plain if isinstance(source, Bank) else source  # noqa: SLF001 - its own mirror
        return await away(partial(call, plain, *args, **given))

    update_wrapper(pipeline, call)
    return pipeline


pipeline = _of_sources(plain_pipeline.pipeline)
