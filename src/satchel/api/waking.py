"""Rehydration, quarantine and promotion, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method
from satchel.api.parts import BankPart

if TYPE_CHECKING:
    from satchel.actions.opened import OpenBank
    from satchel.actions.waking import promoting, quarantining, rehydrating
    from satchel.api.lifetime import Lifetime
else:
    promoting = lazy("satchel.actions.waking.promoting")
    quarantining = lazy("satchel.actions.waking.quarantining")
    rehydrating = lazy("satchel.actions.waking.rehydrating")


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
