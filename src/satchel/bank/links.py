"""Links of memories: what is linked to a record, and the paths between two records.

The record of each link is verified. A link may end at a record of the bank, or at a name that no
record of it has: a placeholder, such as a parent that was not imported. The content of a record is
included only while it is current and not quarantined.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Literal

import msgspec

from satchel.bank.memory import (
    CURRENT,
    Memory,
    find_record,
    has_expired,
    memory_of,
    notes_of,
    state_of,
)
from satchel.bank.open_bank import OpenBank
from satchel.errors import UnknownMemoryError, UsageError
from satchel.ledger.columns import LINKS
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, GraphNode
from satchel.model.values import Component, now
from satchel.ports.links import MOST_HOPS, Direction, LinkReader, LoggedLink, paths, walk
from satchel.ports.rows import Filter, RecordLink

BUDGET, MOST_BUDGET = 1000, 1_000_000
"""Links that are followed: by default, and at most."""

PATH_HOPS, PATHS = 6, 10
"""Default maximum steps of a path, and maximum number of paths."""

MOST_PATHS = 1000

Way = Literal["out", "in", "both"]
HELD, PLACEHOLDER, NOT_SHOWN = "held", "placeholder", "not shown"

_WAYS = {"out": Direction.OUT, "in": Direction.IN, "both": Direction.BOTH}
_BATCH = 256


class LinkStep(msgspec.Struct, frozen=True, kw_only=True):
    """A link."""

    source: str
    """ID of the record it starts at, or the name of a placeholder."""

    target: str
    type: str
    place: int
    """Log position of its record: the edge, or the memory that names a parent."""


class LinkedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record or placeholder at the end of a link."""

    id: str
    """Its ID, or the name of a placeholder."""

    state: str
    """``current``, or what ended it; ``held`` for quarantined; ``placeholder`` if the bank has no
    such record; ``not shown`` if it was erased, or is part of an incomplete import."""

    type: str | None = None
    memory: Memory | None = None
    """The memory, if it is current (or all are included) and not quarantined."""

    @property
    def text(self) -> str | None:
        """The memory in words."""
        return None if self.memory is None else self.memory.text


class ReachedItem(LinkedItem, frozen=True, kw_only=True, omit_defaults=True):
    """A record or placeholder that links lead to."""

    hops: int
    """Fewest steps to it."""

    by: LinkStep
    """The first link to it from one step nearer."""


class Neighborhood(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The records and placeholders around a record."""

    start: LinkedItem
    things: list[ReachedItem]
    """Sorted by steps, then by ID."""

    complete: bool
    """False if the budget ended the search, so there may be more."""

    notes: list[str] = []


class LinkPaths(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The paths between two records."""

    things: dict[str, LinkedItem]
    """Everything on the paths, with both ends, by ID or name."""

    ways: list[list[LinkStep]]
    """The shortest paths, each as its links in order."""

    complete: bool
    """False if there may be others: the budget or the limit ended the search."""

    notes: list[str] = []


def links(  # noqa: PLR0913 - as the operation declares them
    bank: OpenBank,
    reference: str,
    *,
    types: Collection[str] = (),
    direction: Way = "both",
    hops: int = 1,
    budget: int = BUDGET,
    everything: bool = False,
) -> Neighborhood:
    """Return what can be reached from a record along links, each record once.

    Args:
        bank: The bank.
        reference: The record, as for ``find_record``, or the name of a placeholder.
        types: Types of links; all if empty.
        direction: ``out`` along the links, ``in`` against them, or ``both``.
        hops: Maximum steps, 1 to 100.
        budget: Maximum links to follow, 1 to 1,000,000.
        everything: Include the text of records that are not current.

    Raises:
        UnknownMemoryError: If there is no such record, and no link ends there.
        UsageError: If a number or a direction is not valid.
        StoreError: If the store cannot follow links.
    """
    along = _checked(direction, hops, budget)
    with bank.asked("links").ledger.reading() as view:
        view.require_columns(LINKS)
        start = _resolve(view, reference, "id")
        reader = _link_reader(view, types)
        result = walk(reader, start, hops=hops, budget=budget, direction=along)
        names = [start, *(each.name for each in result.reached)]
        things = _linked_items(view, names, everything=everything)
        return Neighborhood(
            start=things[start],
            things=[
                ReachedItem(
                    **msgspec.structs.asdict(things[each.name]), hops=each.hops, by=_step(each.by)
                )
                for each in result.reached
            ],
            complete=result.complete,
            notes=notes_of(view),
        )


def path(  # noqa: PLR0913 - what links have, with an end and how many
    bank: OpenBank,
    start: str,
    end: str,
    *,
    types: Collection[str] = (),
    direction: Way = "both",
    hops: int = PATH_HOPS,
    budget: int = BUDGET,
    limit: int = PATHS,
) -> LinkPaths:
    """Return the shortest paths between two records; none from a record to itself.

    Args:
        bank: The bank.
        start: As for ``links``.
        end: As for ``links``.
        types: Types of links; all if empty.
        direction: As for ``links``.
        hops: Maximum steps, 1 to 100.
        budget: Maximum links to follow, 1 to 1,000,000.
        limit: Maximum number of paths, 1 to 1,000.

    Raises:
        UnknownMemoryError, UsageError, StoreError: As for ``links``.
    """
    along = _checked(direction, hops, budget)
    if not 1 <= limit <= MOST_PATHS:
        raise UsageError(f"the limit must be 1 to {MOST_PATHS} paths", field="limit")
    with bank.asked("path").ledger.reading() as view:
        view.require_columns(LINKS)
        first, last = _resolve(view, start, "from"), _resolve(view, end, "to")
        result = paths(
            *(_link_reader(view, types), first, last),
            hops=hops,
            budget=budget,
            limit=limit,
            direction=along,
        )
        ends = [name for steps in result.found for each in steps for name in each.link[:2]]
        return LinkPaths(
            things=_linked_items(view, [first, last, *ends]),
            ways=[list(map(_step, steps)) for steps in result.found],
            complete=result.complete,
            notes=notes_of(view),
        )


def _checked(direction: str, hops: int, budget: int) -> Direction:
    if direction not in _WAYS:
        raise UsageError(
            f"unknown direction {direction!r}",
            field="direction",
            hint=f"Choose from: {', '.join(_WAYS)}.",
        )
    if not 1 <= hops <= MOST_HOPS:
        raise UsageError(f"hops must be 1 to {MOST_HOPS}", field="hops")
    if not 1 <= budget <= MOST_BUDGET:
        raise UsageError(f"the budget must be 1 to {MOST_BUDGET:,} links", field="budget")
    return _WAYS[direction]


def _link_reader(view: View, types: Collection[str]) -> LinkReader:
    kinds = frozenset(types) or None

    def read(names: Sequence[str], incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001 - signature of the port
        return view.links(names, incoming=incoming, kinds=kinds, limit=limit)

    return read


def _resolve(view: View, reference: str, field: str) -> str:
    """Return the ID of a record, else the name of a placeholder at which links end."""
    try:
        return find_record(view, reference, field).record.id
    except (UnknownMemoryError, UsageError):
        if _is_text(reference) and any(
            view.links([reference], incoming=incoming, limit=1) for incoming in (False, True)
        ):
            return reference
        raise


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no record can contain
        return False
    return True


def _linked_items(
    view: View, names: Iterable[str], *, everything: bool = False
) -> dict[str, LinkedItem]:
    """Return the records and placeholders of names, each once."""
    unique, moment, items = list(dict.fromkeys(names)), now(), dict[str, LinkedItem]()
    for first in range(0, len(unique), _BATCH):
        batch = unique[first : first + _BATCH]
        records, positions = view.get(batch), view.places(batch)
        for name in batch:
            logged = records.get(name)
            if logged is None:
                state = NOT_SHOWN if name in positions else PLACEHOLDER
                items[name] = LinkedItem(id=name, state=state)
                continue
            state = HELD if logged.row.hold else state_of(view, logged, moment=moment)
            is_visible = isinstance(logged.model, Entry) and (
                state == CURRENT or (everything and state != HELD)
            )
            items[name] = LinkedItem(
                id=name,
                state=state,
                type=logged.record.type,
                memory=memory_of(view, logged, moment=moment) if is_visible else None,
            )
    return items


def _step(linked: LoggedLink) -> LinkStep:
    source, target, kind = linked.link
    return LinkStep(source=source, target=target, type=kind, place=linked.place)


MOST_NODES = 20_000
"""Maximum nodes of an answer."""

_LONGEST = 200
_NODES = frozenset({*Component, "graph_node"})
_EDGES = Filter(types=frozenset({"edge"}))


class MemoryNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory, or a node of a provider's graph."""

    id: str
    type: str
    text: str
    """Its first 200 characters."""

    tags: list[str] = []
    state: str = "current"


class GraphLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link between two nodes, by their positions in the list of nodes."""

    source: int
    target: int
    type: str


class MemoryGraph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a bank, newest first, and the links between them."""

    nodes: list[MemoryNode]
    links: list[GraphLink]
    complete: bool
    """False if the bank has more nodes."""

    notes: list[str] = []


def graph(bank: OpenBank, *, limit: int, everything: bool) -> MemoryGraph:
    """Return the newest nodes of a bank and the links between them, each verified.

    Args:
        bank: The bank.
        limit: Maximum number of nodes.
        everything: Include memories that are replaced, forgotten, expired or quarantined.
    """
    with bank.asked("links").ledger.reading() as view:
        view.require_columns(LINKS)
        moment = now()
        condition = Filter(types=_NODES, retired=everything, held=everything)
        matching = (
            logged
            for logged in view.newest(condition)
            if everything or not has_expired(logged, moment)
        )
        newest = list(islice(matching, limit + 1))
        chosen = newest[:limit]
        nodes = [_node(view, logged, moment) for logged in chosen]
        positions = {node.id: position for position, node in enumerate(nodes)}
        links = dict.fromkeys(link for logged in chosen for link in logged.row.links)
        links |= dict.fromkeys(link for logged in view.scan(_EDGES) for link in logged.row.links)
        lines = [line for link in links if (line := _line(link, positions)) is not None]
        return MemoryGraph(
            nodes=nodes, links=lines, complete=len(newest) <= limit, notes=notes_of(view)
        )


def _node(view: View, logged: VerifiedRecord, moment: str) -> MemoryNode:
    model = logged.model
    if isinstance(model, Entry):
        text, tags = memory_of(view, logged, moment=moment).text, list(model.tags)
    else:
        text, tags = "", []
        if isinstance(model, GraphNode):
            text, tags = model.name or model.summary or "", list(model.labels)
    return MemoryNode(
        id=logged.record.id,
        type=logged.record.type,
        text=text[:_LONGEST],
        tags=tags,
        state=state_of(view, logged, moment=moment),
    )


def _line(link: RecordLink, positions: dict[str, int]) -> GraphLink | None:
    source, target = positions.get(link.source), positions.get(link.target)
    if source is None or target is None or source == target:
        return None
    return GraphLink(source=source, target=target, type=link.kind)
