"""Walking along the links of a bank, from Python."""

from collections.abc import Collection

from satchel.actions.memories import walking
from satchel.actions.memories.walking import Connections, Neighbourhood, Way
from satchel.actions.opened import OpenBank
from satchel.api.lifetime import Lifetime


class Linking:
    """What a bank says of what is linked with what."""

    _opened: OpenBank
    _lifetime: Lifetime

    def links(
        self,
        memory: str,
        *,
        type: str | Collection[str] | None = None,  # noqa: A002 - as the record calls it
        direction: Way = "both",
        hops: int = 1,
        budget: int = walking.BUDGET,
    ) -> Neighbourhood:
        """Return what a memory is linked with, near and far, each thing once.

        Args:
            memory: Its id, six of its first digits or more; or the name of a placeholder.
            type: A type of links, or several; all when None.
            direction: ``out`` along the links, ``in`` against them, or ``both``.
            hops: The most steps, from 1 to 100.
            budget: The most links that are looked at, from 1 to 1,000,000.

        Raises:
            UnknownMemoryError: If there is no such record, and no link ends there.
            UsageError: If a number or a direction cannot be.
        """
        with self._lifetime.use():
            return walking.links(
                self._opened,
                memory,
                types=_types(type),
                direction=direction,
                hops=hops,
                budget=budget,
            )

    def path(  # noqa: PLR0913 - each is asked for on its own
        self,
        start: str,
        end: str,
        *,
        type: str | Collection[str] | None = None,  # noqa: A002 - as the record calls it
        direction: Way = "both",
        hops: int = walking.PATH_HOPS,
        budget: int = walking.BUDGET,
        limit: int = walking.PATHS,
    ) -> Connections:
        """Return how two memories are connected: the shortest ways from one to the other.

        Args:
            start: As for ``links``.
            end: The same.
            type: As for ``links``.
            direction: As for ``links``.
            hops: The most steps, from 1 to 100.
            budget: As for ``links``.
            limit: How many ways, from 1 to 1,000.

        Raises:
            UnknownMemoryError: As ``links``.
            UsageError: As ``links``.
        """
        with self._lifetime.use():
            return walking.path(
                *(self._opened, start, end),
                types=_types(type),
                direction=direction,
                hops=hops,
                budget=budget,
                limit=limit,
            )


def _types(given: str | Collection[str] | None) -> Collection[str]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else given
