"""The sketches that a process holds, and which way they are compared."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

from satchel.arrays import numpy
from satchel.ledger.view import View
from satchel.ports.vectors import SKETCHED_TOGETHER, SKETCHES, Generation, sketches_of
from satchel.recall.sketches.asked import Compared
from satchel.recall.sketches.drawing import STAMP, Changes, changes, key_of
from satchel.recall.sketches.matrix import MatrixSketches
from satchel.recall.sketches.plain import PlainSketches

_KEPT = 4
"""Banks whose sketches are held in memory."""

_FEW_PARTS = 80
"""Parts that take less time to look through without numpy than numpy takes to load."""

_SHARED = len(SKETCHES) + 7
"""Characters that the names of 16 parts have in common, all but the last digit of the number."""

_lock = Lock()
_known: OrderedDict[str, MatrixSketches] = OrderedDict()
_once: set[str] = set()
"""Generations that were asked without numpy: who asks again will ask more."""


def sketches(view: View, generation: Generation) -> Compared | None:
    """Return the sketches of a generation as a view has them; None where there are none."""
    name = STAMP + key_of(generation)
    stamp = view.side(name).get(name)
    if stamp is None:
        return None
    told = changes(stamp) or [(stamp.decode("ascii", "replace"), [])]
    last = told[-1][0]
    with _lock:
        if last not in _known:
            held = _kept_on(view, generation, told)
            if held is None:
                parts = -(-view.head.size // SKETCHED_TOGETHER)
                if _is_asked_once(name, parts):
                    return PlainSketches(generation, view.side(SKETCHES))
                held = MatrixSketches(numpy(), generation, parts)
                for some in _prefixes(parts):
                    held.put(view.side(some))
            _known[last] = held
            while len(_known) > _KEPT:
                _known.popitem(last=False)
        _known.move_to_end(last)
        return _known[last]


def _prefixes(parts: int) -> Iterator[str]:
    """Yield what the names of so many parts begin with, 16 of them at a time.

    What was read of some is free for the next: new memory takes longer than reading.
    """
    for first in range(0, parts, 16):
        yield sketches_of(first * SKETCHED_TOGETHER)[:_SHARED]


def _kept_on(view: View, generation: Generation, told: Changes) -> MatrixSketches | None:
    """Return what was held before the last changes, with what these drew."""
    parts = set[int]()
    for name, drawn in reversed(told):
        held = _known.pop(name, None)
        if held is not None:
            for number in sorted(parts):
                part = sketches_of(number * SKETCHED_TOGETHER) + key_of(generation)
                held.put(view.side(part))
            return held
        parts.update(drawn)
    return None


def _is_asked_once(name: str, parts: int) -> bool:
    """Tell whether numpy is not worth loading, or is not there."""
    if "numpy" in sys.modules:
        return sys.modules["numpy"] is None
    if parts <= _FEW_PARTS and name not in _once:
        _once.add(name)
        return True
    from importlib.util import find_spec

    return find_spec("numpy") is None
