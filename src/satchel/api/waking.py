"""Rehydration, quarantine and promotion, from Python."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from satchel.actions.config import load_settings
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.waking import promoting, quarantining, rehydrating
from satchel.actions.waking.options import PipelineOptions
from satchel.actions.waking.promoting import Promoted
from satchel.actions.waking.quarantining import Held, QuarantineList, Screened
from satchel.actions.waking.rehydrating import MemoryFile
from satchel.api.lifetime import Lifetime
from satchel.api.operations import Awaited, documented, method
from satchel.api.parts import BankPart
from satchel.ports.operations import PathText
from satchel.rehydrate.rehydrated import Rehydrated

__all__ = [
    "Held",
    "Promoted",
    "Quarantine",
    "QuarantineList",
    "Rehydrated",
    "Screened",
    "Waking",
    "pipeline",
]

_P = ParamSpec("_P")


class Quarantine(BankPart):
    """What is neither recalled nor provided until it is reviewed; ``Bank.quarantine`` gives it."""

    show = method(quarantining.show_held)
    scan = method(quarantining.screen_bank)
    add = method(quarantining.quarantine)
    release = method(quarantining.release)
    reject = method(quarantining.reject)
    list = method(quarantining.list_quarantine)


class Waking:
    """A bank as its memory is provided as context for a model."""

    _opened: OpenBank
    _lifetime: Lifetime

    rehydrate = method(rehydrating.rehydrate_memories)
    promote = method(promoting.promote)


def _of_sources(
    options: Callable[_P, PipelineOptions],
) -> Callable[Concatenate[Waking | PathText, _P], Rehydrated]:
    def pipeline(source: Waking | PathText, /, *args: _P.args, **given: _P.kwargs) -> Rehydrated:
        wanted = options(*args, **given)
        if isinstance(source, Waking) and not isinstance(source, Awaited):
            with source._lifetime.use():  # noqa: SLF001 - its own module
                return rehydrating.rehydrate_any.run(source._opened, wanted)  # noqa: SLF001
        settings = load_settings()
        with file_to_read(settings, Path(str(source))) as file:
            return rehydrating.rehydrate_any.run(MemoryFile(settings, file), wanted)

    source = inspect.Parameter(
        "source", inspect.Parameter.POSITIONAL_ONLY, annotation=Waking | PathText
    )
    return documented(pipeline, rehydrating.rehydrate_any, source)


pipeline = _of_sources(PipelineOptions)
