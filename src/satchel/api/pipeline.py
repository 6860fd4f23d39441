"""``satchel.pipeline``: the memory of a bank or of a file as context for a model."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from satchel.actions.config import load_settings
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.waking import rehydrating
from satchel.actions.waking.options import PipelineOptions
from satchel.actions.waking.rehydrating import MemoryFile
from satchel.api.operations import Awaited, documented, options_of
from satchel.api.waking import Waking
from satchel.ports.operations import Operation, PathText
from satchel.rehydrate.rehydrated import Rehydrated

__all__ = ["Rehydrated", "Waking", "pipeline"]

_P = ParamSpec("_P")


def _of_sources(
    operation: Operation[OpenBank | MemoryFile, PipelineOptions, _P, Rehydrated],
) -> Callable[Concatenate[Waking | PathText, _P], Rehydrated]:
    def pipeline(source: Waking | PathText, /, *args: _P.args, **given: _P.kwargs) -> Rehydrated:
        wanted = options_of(operation, *args, **given)
        if isinstance(source, Waking) and not isinstance(source, Awaited):
            with source._lifetime.use():  # noqa: SLF001 - its own module
                return operation.run(source._opened, wanted)  # noqa: SLF001
        settings = load_settings()
        with file_to_read(settings, Path(str(source))) as file:
            return operation.run(MemoryFile(settings, file), wanted)

    source = inspect.Parameter(
        "source", inspect.Parameter.POSITIONAL_ONLY, annotation=Waking | PathText
    )
    return documented(pipeline, operation, source)


pipeline = _of_sources(rehydrating.rehydrate_any)
