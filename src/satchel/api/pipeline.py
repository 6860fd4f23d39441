"""``satchel.pipeline``: the memory of a bank or of a file as context for a model."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from satchel.api.bank import RehydrateCalls
from satchel.api.operations import AsyncCalls, documented, options_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import file_to_read
from satchel.config.settings import load_settings
from satchel.ports.operations import Operation, PathText
from satchel.rehydrate import operations as rehydrate_operations
from satchel.rehydrate.operations import MemoryFile
from satchel.rehydrate.options import PipelineOptions
from satchel.rehydrate.request import RehydrateResult

__all__ = ["pipeline"]

_P = ParamSpec("_P")


def _of_sources(
    operation: Operation[OpenBank | MemoryFile, PipelineOptions, _P, RehydrateResult],
) -> Callable[Concatenate[RehydrateCalls | PathText, _P], RehydrateResult]:
    def pipeline(
        source: RehydrateCalls | PathText, /, *args: _P.args, **kwargs: _P.kwargs
    ) -> RehydrateResult:
        options = options_of(operation, *args, **kwargs)
        if isinstance(source, RehydrateCalls) and not isinstance(source, AsyncCalls):
            with source._lifetime.use():  # noqa: SLF001 - its own module
                return operation.run(source._opened, options)  # noqa: SLF001
        settings = load_settings()
        with file_to_read(settings, Path(str(source))) as file:
            return operation.run(MemoryFile(settings, file), options)

    source = inspect.Parameter(
        "source", inspect.Parameter.POSITIONAL_ONLY, annotation=RehydrateCalls | PathText
    )
    return documented(pipeline, operation, source)


pipeline = _of_sources(rehydrate_operations.rehydrate_any)
