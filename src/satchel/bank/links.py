"""What a memory is linked with, near and far, and how two things are connected.

Links are walked along as ``ports.traversal`` does it; the record that makes each link is proved.
What a link ends at may be a record of the bank, or a name that no record here has: a placeholder,
such as a parent that never came along. What is at an end is shown only while it is current and not
held back.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Literal

import msgspec

from satchel.bank.memory import CURRENT, Memory, has_expired, memory_of, notes_of, state_of
from satchel.bank.memory_input import find_record
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
"""Links that are looked at: when nothing is said, and at most."""

PATH_HOPS, PATHS = 6, 10
"""How long ways are, and how many are shown, when nothing is said."""

MOST_PATHS = 1000

Way = Literal["out", "in", "both"]
HELD, PLACEHOLDER, NOT_SHOWN = "held", "placeholder", "not shown"

_WAYS = {"out": Direction.OUT, "in": Direction.IN, "both": Direction.BOTH}
_TOGETHER = 256


class LinkStep(msgspec.Struct, frozen=True, kw_only=True):
    """A link."""

    source: str
    """Id of the record that it starts at, or the name of what is not here."""

    target: str
    type: str
    place: int
    """Place in the log of the record that makes it: the edge, or the memory with a parent."""


class LinkedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a link ends at."""

    id: str
    """Its id, or its name."""

    state: str
    """``current``, or why it is not; ``held``; ``placeholder`` for what no record here has;
    ``not shown`` for what was erased, or came with an import that is not complete."""

    type: str | None = None
    memory: Memory | None = None
    """The memory; while it is current, unless all are asked for, and not quarantined."""

    @property
    def text(self) -> str | None:
        """What the memory says."""
        return None if self.memory is None else self.memory.text


class ReachedItem(LinkedItem, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was reached."""

    hops: int
    """The fewest steps to it."""

    by: LinkStep
    """The first link that leads to it from one step nearer."""


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What something is linked with."""

    start: LinkedItem
    things: list[ReachedItem]
    """By steps, then by name."""

    complete: bool
    """False if there may be more: not all links were followed."""

    notes: list[str] = []


class LinkPaths(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How two things are connected."""

    things: dict[str, LinkedItem]
    """All that is on the ways, with both ends, by id or name."""

    ways: list[list[LinkStep]]
    """The shortest ways from one to the other, each as its links in order."""

    complete: bool
    """False if there may be others: not all links were followed, or not all paths listed."""

    notes: list[str] = []


def links(  # noqa: PLR0913 - as the operation declares them
    bank: OpenBank,
    wanted: str,
    *,
    types: Collection[str] = (),
    direction: Way = "both",
    hops: int = 1,
    budget: int = BUDGET,
    everything: bool = False,
) -> Neighbourhood:
    """Return what can be reached from something along links, each thing once.

    Args:
        bank: The bank.
        wanted: Id of a record, its first six digits or more, or the name of a placeholder.
        types: The types of links; all when empty.
        direction: ``out`` along the links, ``in`` against them, or ``both``.
        hops: The most steps, from 1 to 100.
        budget: The most links that are looked at, from 1 to 1,000,000.
        everything: Also the text of what is not current.

    Raises:
        UnknownMemoryError: If there is no such record, and no link ends there.
        UsageError: If a number or a direction cannot be.
        StoreError: If the store cannot be walked.
    """
    way = _checked(direction, hops, budget)
    with bank.asked("links").ledger.reading() as view:
        view.require_columns(LINKS)
        start = _named(view, wanted, "id")
        found = walk(_along(view, types), start, hops=hops, budget=budget, direction=way)
        names = [start, *(each.name for each in found.reached)]
        things = _things(view, names, everything=everything)
        return Neighbourhood(
            start=things[start],
            things=[
                ReachedItem(
                    **msgspec.structs.asdict(things[each.name]), hops=each.hops, by=_step(each.by)
                )
                for each in found.reached
            ],
            complete=found.complete,
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
    """Return the shortest ways between two things; none from a thing to itself.

    Args:
        bank: The bank.
        start: As ``links`` takes it.
        end: The same.
        types: The types of links; all when empty.
        direction: As ``links``.
        hops: The most steps, from 1 to 100.
        budget: The most links that are looked at, from 1 to 1,000,000.
        limit: How many ways, from 1 to 1,000.

    Raises:
        UnknownMemoryError: As ``links``.
        UsageError: As ``links``.
        StoreError: As ``links``.
    """
    way = _checked(direction, hops, budget)
    if not 1 <= limit <= MOST_PATHS:
        raise UsageError(f"the limit must be 1 to {MOST_PATHS} paths", field="limit")
    with bank.asked("path").ledger.reading() as view:
        view.require_columns(LINKS)
        one, other = _named(view, start, "from"), _named(view, end, "to")
        found = paths(
            *(_along(view, types), one, other),
            hops=hops,
            budget=budget,
            limit=limit,
            direction=way,
        )
        ends = [name for steps in found.found for each in steps for name in each.link[:2]]
        return LinkPaths(
            things=_things(view, [one, other, *ends]),
            ways=[list(map(_step, steps)) for steps in found.found],
            complete=found.complete,
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


def _along(view: View, types: Collection[str]) -> LinkReader:
    kinds = frozenset(types) or None

    def found(names: Sequence[str], incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001 - as the port has it
        return view.links(names, incoming=incoming, kinds=kinds, limit=limit)

    return found


def _named(view: View, wanted: str, field: str) -> str:
    """Return the id of the record that is meant, or else the name that links end at."""
    try:
        return find_record(view, wanted, field).record.id
    except (UnknownMemoryError, UsageError):
        if _is_text(wanted) and any(
            view.links([wanted], incoming=incoming, limit=1) for incoming in (False, True)
        ):
            return wanted
        raise


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character: no record can hold it
        return False
    return True


def _things(view: View, names: Iterable[str], *, everything: bool = False) -> dict[str, LinkedItem]:
    """Return what there is of names, each once."""
    wanted, moment, found = list(dict.fromkeys(names)), now(), dict[str, LinkedItem]()
    for first in range(0, len(wanted), _TOGETHER):
        some = wanted[first : first + _TOGETHER]
        there, placed = view.get(some), view.places(some)
        for name in some:
            logged = there.get(name)
            if logged is None:
                state = NOT_SHOWN if name in placed else PLACEHOLDER
                found[name] = LinkedItem(id=name, state=state)
                continue
            state = HELD if logged.row.hold else state_of(view, logged, moment=moment)
            shown = isinstance(logged.model, Entry) and (
                state == CURRENT or (everything and state != HELD)
            )
            found[name] = LinkedItem(
                id=name,
                state=state,
                type=logged.record.type,
                memory=memory_of(view, logged, moment=moment) if shown else None,
            )
    return found


def _step(linked: LoggedLink) -> LinkStep:
    source, target, kind = linked.link
    return LinkStep(source=source, target=target, type=kind, place=linked.place)


MOST_NODES = 20_000
"""Nodes of one answer at most."""

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
    """False where the bank has more nodes."""

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
        wanted = Filter(types=_NODES, retired=everything, held=everything)
        there = (
            logged
            for logged in view.newest(wanted)
            if everything or not has_expired(logged, moment)
        )
        found = list(islice(there, limit + 1))
        chosen = found[:limit]
        nodes = [_node(view, logged, moment) for logged in chosen]
        positions = {node.id: position for position, node in enumerate(nodes)}
        links = dict.fromkeys(link for logged in chosen for link in logged.row.links)
        links |= dict.fromkeys(link for logged in view.scan(_EDGES) for link in logged.row.links)
        lines = [line for link in links if (line := _line(link, positions)) is not None]
        return MemoryGraph(
            nodes=nodes, links=lines, complete=len(found) <= limit, notes=notes_of(view)
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
