"""All memories of a bank and their links, as nodes and edges."""

from itertools import islice

import msgspec

from satchel.actions.memories.values import has_expired, memory_of, notes_of, state_of
from satchel.actions.opened import OpenBank
from satchel.ledger.columns import LINKS
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import GraphNode
from satchel.memory.times import now
from satchel.ports.rows import Filter, Link

MOST_NODES = 20_000
"""Nodes of one answer at most."""

_LONGEST = 200
_NODES = frozenset({*Component, "graph_node"})
_EDGES = Filter(types=frozenset({"edge"}))


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory, or a node of a provider's graph."""

    id: str
    type: str
    text: str
    """Its first 200 characters."""

    tags: list[str] = []
    state: str = "current"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A link between two nodes, by their positions in the list of nodes."""

    source: int
    target: int
    type: str


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a bank, newest first, and the links between them."""

    nodes: list[Node]
    links: list[Line]
    complete: bool
    """False where the bank has more nodes."""

    notes: list[str] = []


def graph(bank: OpenBank, *, limit: int, everything: bool) -> Graph:
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
        return Graph(nodes=nodes, links=lines, complete=len(found) <= limit, notes=notes_of(view))


def _node(view: View, logged: Logged, moment: str) -> Node:
    model = logged.model
    if isinstance(model, Entry):
        text, tags = memory_of(view, logged, moment=moment).text, list(model.tags)
    else:
        text, tags = "", []
        if isinstance(model, GraphNode):
            text, tags = model.name or model.summary or "", list(model.labels)
    return Node(
        id=logged.record.id,
        type=logged.record.type,
        text=text[:_LONGEST],
        tags=tags,
        state=state_of(view, logged, moment=moment),
    )


def _line(link: Link, positions: dict[str, int]) -> Line | None:
    source, target = positions.get(link.source), positions.get(link.target)
    if source is None or target is None or source == target:
        return None
    return Line(source=source, target=target, type=link.kind)
