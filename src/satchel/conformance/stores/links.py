"""Walks along links: the same steps as in the oracle, in any graph."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.stores.oracle import BANK, OTHER, Bench, StoreSubject, bench, memory
from satchel.model.records import Edge, Model
from satchel.ports.links import Direction, LinkReader, LinkView, LoggedLink, paths, walk
from satchel.ports.store import ColumnChange, Reader

_MANY = 10_000
_NAMES = ("a", "b", "c", "d", "e", "E", "e\0", "é")
_KINDS = ("derives_from", "similar_to", "supersedes", "transitioned_to", "knows", "EDGE", "'")
_EDGES = st.builds(
    Edge,
    source=st.sampled_from(_NAMES),
    target=st.sampled_from(_NAMES),
    kind=st.sampled_from(_KINDS),
)
_WANTED = st.none() | st.frozensets(st.sampled_from(_KINDS), max_size=3)


def _link_reader(
    reader: Reader, kinds: frozenset[str] | None = None, bank: str = BANK
) -> LinkReader:
    walked = cast("LinkView", reader)

    def links(names: Any, incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001 - as called
        return walked.links(bank, names, incoming=incoming, kinds=kinds, limit=limit)

    return links


def _same(
    both: Bench, ask: Callable[[LinkReader], Any], kinds: frozenset[str] | None = None
) -> Any:
    return both.same(lambda reader: ask(_link_reader(reader, kinds)))


@given(
    st.lists(_EDGES, min_size=1, max_size=12),
    _WANTED,
    st.sampled_from(Direction),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_traversals_reach_what_the_oracle_reaches(
    store: StoreSubject,
    edges: list[Model],
    kinds: frozenset[str] | None,
    direction: Direction,
    hops: int,
    budget: int,
) -> None:
    """For all graphs, with cycles and missing ends: the same result, also at the limit."""
    with bench(store) as both:
        both.need("traversal")
        both.append(*edges)
        both.append(memory(1), changes=[ColumnChange(0, None, hold=True)])
        for most in (budget, _MANY):
            asked: dict[str, Any] = {"hops": hops, "budget": most, "direction": direction}
            _same(both, partial(walk, start="a", **asked), kinds)
            _same(both, partial(paths, start="a", end="c", limit=3, **asked), kinds)


def test_a_traversal_visits_each_node_once_at_its_shortest_distance(store: StoreSubject) -> None:
    """A cycle of links ends, from either side; parents are links, as edges are."""
    with bench(store) as both:
        both.need("traversal")
        (parent,) = both.append(memory(0))
        (child,) = both.append(memory(1, parent_ids=(parent.id,)))
        both.append(Edge(source=parent.id, target="x", kind="knows"))
        both.append(Edge(source="x", target=child.id, kind="similar_to"))
        both.append(Edge(source="x", target="x", kind="similar_to"))
        for direction, expected in (
            (Direction.OUT, [(parent.id, 1), ("x", 2)]),
            (Direction.IN, [("x", 1), (parent.id, 2)]),
            (Direction.BOTH, sorted([(parent.id, 1), ("x", 1)])),
        ):
            ask = partial(walk, start=child.id, hops=9, budget=_MANY, direction=direction)
            found = _same(both, ask)
            assert [(name, hops) for name, hops, _ in found.reached] == expected
            assert found.complete


def test_a_traversal_stops_at_its_budget_and_reports_it(store: StoreSubject) -> None:
    """A hub with many links costs no more than the budget."""
    with bench(store) as both:
        both.need("traversal")
        spokes = [Edge(source="hub", target=f"{n:03}", kind="knows") for n in range(300)]
        both.append(*spokes)
        found = _same(both, partial(walk, start="hub", hops=3, budget=10))
        assert [name for name, _, _ in found.reached] == [f"{number:03}" for number in range(10)]
        assert not found.complete
        assert len(_same(both, lambda links: links(["hub"], False, 10))) == 10  # noqa: FBT003, PLR2004
        exact = _same(both, partial(walk, start="hub", hops=1, budget=len(spokes)))
        assert len(exact.reached) == len(spokes)
        assert exact.complete


def test_links_of_retired_or_quarantined_rows_are_not_followed(store: StoreSubject) -> None:
    """Nor those in another bank; they are walked again when their record is current."""
    with bench(store) as both:
        both.need("traversal")
        both.append(*(Edge(source="a", target=name, kind="knows") for name in "bcd"))
        both.append(Edge(source="a", target="z", kind="knows"), bank=OTHER)
        both.append(
            memory(1), changes=[ColumnChange(0, 3, hold=False), ColumnChange(1, None, hold=True)]
        )
        ask = partial(walk, start="a", hops=1, budget=_MANY)
        assert [name for name, _, _ in _same(both, ask).reached] == ["d"]
        both.append(memory(2), changes=[ColumnChange(0, None, hold=False)])
        assert [name for name, _, _ in _same(both, ask).reached] == ["b", "d"]


def test_all_shortest_paths_between_two_nodes_are_found(store: StoreSubject) -> None:
    """Each as its links, in order; at most the requested number, and no longer ones."""
    with bench(store) as both:
        both.need("traversal")
        steps = ["ab", "ac", "bd", "cd", "de", "ax", "xy", "yz", "zd"]
        both.append(*(Edge(source=way[0], target=way[1], kind="knows") for way in steps))
        ask = partial(paths, start="a", end="e", hops=5, budget=_MANY, direction=Direction.OUT)
        result = _same(both, ask)
        ways = [[linked.link.target for linked in way] for way in result.found]
        assert ways == [["b", "d", "e"], ["c", "d", "e"]]
        assert result.complete
        limited = _same(both, partial(ask, limit=1))
        assert limited.found == result.found[:1]
        assert not limited.complete
        assert _same(both, partial(ask, hops=2)).found == ()
        assert _same(both, partial(ask, end="a")).found == ()


__all__ = [name for name in dir() if name.startswith("test_")]
