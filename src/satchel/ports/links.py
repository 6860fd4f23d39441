"""Links between the records of a bank: what can be reached, and the shortest paths."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable

from satchel.errors import ValueRefusedError
from satchel.ports.rows import RecordLink

MOST_HOPS = 100
"""Maximum steps of a walk."""

_AT_ONCE = 200
"""Names of one query."""


Kinds = frozenset[str] | None
"""Types of links; None for all."""


class LoggedLink(NamedTuple):
    """A link, and the record that makes it."""

    place: int
    """Log position of the record."""

    link: RecordLink


def link_sort_key(linked: LoggedLink) -> tuple[int, str, str, str]:
    """Return the sort key of links: log position, kind, source, target."""
    source, target, kind = linked.link
    return linked.place, kind, source, target


class Direction(Enum):
    """The direction of a walk."""

    OUT = auto()
    """From their source to their target."""

    IN = auto()
    BOTH = auto()


@runtime_checkable
class LinkView(Protocol):
    """A view that returns the links at many names in one query."""

    def links(
        self, bank: str, ends: Sequence[str], *, incoming: bool, kinds: Kinds, limit: int
    ) -> list[LoggedLink]:
        """Return the links that start (or, incoming, end) at any of some names.

        Links of current records that are not in quarantine, each once, sorted by log position,
        kind, source and target; the first ``limit`` of them.

        Args:
            bank: The bank.
            ends: Names: IDs of records, or other names that links end at.
            incoming: Whether they are the targets.
            kinds: The types of links to return; None for all.
            limit: The maximum number.
        """
        ...


LinkReader = Callable[[Sequence[str], bool, int], list[LoggedLink]]
"""Returns the links at names, incoming or not, up to a maximum."""


class ReachedNode(NamedTuple):
    """A record or name that a walk reached."""

    name: str
    hops: int
    """The fewest steps to it."""

    by: LoggedLink
    """The first of the links that lead to it from the previous level."""


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The result of a walk."""

    reached: tuple[ReachedNode, ...]
    """Sorted by steps, then by name; without the start."""

    complete: bool
    """False if it stopped because its budget of links was used up."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The shortest paths between two records."""

    found: tuple[tuple[LoggedLink, ...], ...]
    """The shortest paths, each as its links in order; sorted."""

    complete: bool
    """False if there may be others: not all links were read, or not all paths listed."""


@dataclass(slots=True)
class _Walker:
    links: LinkReader
    direction: Direction
    budget: int
    complete: bool = True

    def level(self, frontier: Sequence[str]) -> Iterator[tuple[str, str, LoggedLink]]:
        """Yield each step from a level: start, end, and link."""
        for start in range(0, len(frontier), _AT_ONCE):
            names = frontier[start : start + _AT_ONCE]
            for incoming in (False, True):
                wanted = Direction.IN if incoming else Direction.OUT
                if self.direction in (wanted, Direction.BOTH):
                    for each in self._read_links(names, incoming=incoming):
                        source, target, _ = each.link
                        yield (target, source, each) if incoming else (source, target, each)

    def _read_links(self, names: Sequence[str], *, incoming: bool) -> list[LoggedLink]:
        if not self.complete:
            return []
        # One more than the budget shows whether there are more.
        links = self.links(names, incoming, self.budget + 1)
        self.complete = len(links) <= self.budget
        links = links[: self.budget]
        self.budget -= len(links)
        return links


def walk(
    links: LinkReader, start: str, *, hops: int, budget: int, direction: Direction = Direction.BOTH
) -> WalkResult:
    """Return what can be reached from a name within some steps.

    Args:
        links: Returns links at names.
        start: The start.
        hops: The most steps, from 1 to ``MOST_HOPS``.
        budget: The most links to read.
        direction: The direction.

    Raises:
        ValueRefusedError: If ``hops`` or ``budget`` is out of range.
    """
    _refuse(hops, budget)
    walker, met = _Walker(links, direction, budget), {start}
    frontier, reached = [start], list[ReachedNode]()
    for hop in range(1, hops + 1):
        level = dict[str, LoggedLink]()
        for _, name, by in walker.level(frontier):
            if name not in met:
                level[name] = min(level.get(name, by), by, key=link_sort_key)
        frontier = sorted(level)
        met |= level.keys()
        reached += (ReachedNode(name, hop, level[name]) for name in frontier)
        if not frontier:
            break
    return WalkResult(tuple(reached), walker.complete)


def paths(  # noqa: PLR0913 - what a walk has, with an end and how many
    links: LinkReader,
    start: str,
    end: str,
    *,
    hops: int,
    budget: int,
    limit: int = 10,
    direction: Direction = Direction.BOTH,
) -> Paths:
    """Return the shortest paths between two names; none from a name to itself.

    Args:
        links: Returns links at names.
        start: The start.
        end: The end.
        hops: The most steps, from 1 to ``MOST_HOPS``.
        budget: The most links to read.
        limit: The most paths to return.
        direction: The direction.

    Raises:
        ValueRefusedError: If ``hops`` or ``budget`` is out of range.
    """
    _refuse(hops, budget)
    walker, before = _Walker(links, direction, budget), dict[str, set[tuple[str, LoggedLink]]]()
    frontier, met = [start], {start}
    for _ in range(hops):
        level = dict[str, set[tuple[str, LoggedLink]]]()
        for origin, name, by in walker.level(frontier):
            if name not in met:
                level.setdefault(name, set()).add((origin, by))
        before |= level
        met |= level.keys()
        frontier = sorted(level)
        if end in level or not level:
            break
    shortest = list[tuple[LoggedLink, ...]]()
    for path in _ways(before, start, end):
        if len(shortest) == limit:
            return Paths(tuple(shortest), complete=False)
        shortest.append(path)
    return Paths(tuple(shortest), walker.complete)


def _ways(
    before: dict[str, set[tuple[str, LoggedLink]]], start: str, end: str
) -> Iterator[tuple[LoggedLink, ...]]:
    """Yield the paths back from an end lazily; there may be very many."""
    waiting: list[tuple[str, tuple[LoggedLink, ...]]] = [(end, ())] if end in before else []
    while waiting:
        name, way = waiting.pop()
        if name == start:
            yield way
            continue
        steps = sorted(before[name], key=_in_order, reverse=True)
        waiting += ((origin, (by, *way)) for origin, by in steps)


def _in_order(step: tuple[str, LoggedLink]) -> tuple[tuple[int, str, str, str], str]:
    return link_sort_key(step[1]), step[0]


def _refuse(hops: int, budget: int) -> None:
    if not 1 <= hops <= MOST_HOPS:
        raise ValueRefusedError(f"a traversal can have 1 to {MOST_HOPS} steps", field="hops")
    if budget < 1:
        raise ValueRefusedError("a traversal must follow at least 1 link", field="budget")
