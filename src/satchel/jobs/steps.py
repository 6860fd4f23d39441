"""How far work got, as values, and who is told of them."""

from collections.abc import Callable
from typing import NamedTuple


class Step(NamedTuple):
    """One step of some work."""

    done: int
    """Records that are done."""

    total: int
    """Records that there are."""

    record: str | None
    """Id of the last one that is done, where there is one."""


OnStep = Callable[[Step], None]
"""Is told of each step that is done; what it raises ends the work."""
