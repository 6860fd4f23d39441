"""Links of a memory and paths between two: verified and bounded, without withheld text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bank_kit import keep
from msgspec.structs import replace

from satchel.bank.changes import forget
from satchel.bank.links import Neighborhood, links, path
from satchel.bank.memory import memory_of
from satchel.crypto.sealed_records import seal
from satchel.errors import UnknownMemoryError, UsageError, VerificationError
from satchel.model.records import Edge, Erasure, Status
from satchel.model.values import now
from satchel.ports.rows import RecordLink

if TYPE_CHECKING:
    from satchel.bank.open_bank import OpenBank


def log_edge(bank: OpenBank, source: str, target: str, kind: str = "knows") -> None:
    """Log an edge."""
    bank.ledger.append([seal(Edge(source=source, target=target, kind=kind))])


def log_status(bank: OpenBank, target: str, state: Any) -> None:
    """Log the state of a record."""
    bank.ledger.append([seal(Status(target=target, state=state, at=now()))])


def reached(found: Neighborhood) -> list[tuple[str | None, int, str]]:
    """Return text, hops and link type of each thing reached."""
    return [(each.text, each.hops, each.by.type) for each in found.things]


def test_links_are_listed_nearest_first(bank: OpenBank) -> None:
    """Edges and parents, by type, direction and hops; each thing once at its shortest distance."""
    a, b = keep(bank, "a"), keep(bank, "b")
    c = keep(bank, "c", parents=[b])
    log_edge(bank, a, b)
    log_edge(bank, c, a, "similar_to")
    assert reached(links(bank, a)) == sorted(reached(links(bank, a)), key=lambda each: each[1])
    assert {each[0] for each in reached(links(bank, a))} == {"b", "c"}
    assert reached(links(bank, a, direction="out")) == [("b", 1, "knows")]
    assert reached(links(bank, a, direction="in")) == [("c", 1, "similar_to")]
    assert reached(links(bank, a, direction="in", hops=5)) == [("c", 1, "similar_to")]
    found = links(bank, a[:14], types=["knows", "derives_from"], hops=2)
    assert reached(found) == [("b", 1, "knows"), ("c", 2, "derives_from")]
    (step,) = [each.by for each in found.things if each.hops == 2]
    assert (step.source, step.target, step.type) == (c, b, "derives_from")
    assert found.complete
    assert (found.start.id, found.start.state, found.start.type) == (a, "current", "semantic")
    with bank.ledger.reading() as view:
        assert found.start.memory == memory_of(view, view.get([a])[a], moment=now())


def test_cycles_end_and_hubs_are_bounded_by_the_budget(
    bank: OpenBank,
) -> None:
    """The result says if it is incomplete."""
    ids = [keep(bank, f"number {number}") for number in range(6)]
    for one, next_ in zip(ids, [*ids[1:], ids[0]], strict=True):
        log_edge(bank, one, next_)
    log_edge(bank, ids[0], ids[0])
    found = links(bank, ids[0], direction="out", hops=100)
    assert [each.id for each in found.things] == ids[1:]
    assert found.complete
    for number in range(20):
        log_edge(bank, ids[0], f"leaf {number}", "has")
    short = links(bank, ids[0], types=["has"], budget=7)
    assert (len(short.things), short.complete) == (7, False)


def test_an_id_without_a_record_is_a_placeholder(bank: OpenBank) -> None:
    """It has no text, and links can start from it."""
    lost = "blake3:" + "7" * 64
    child = keep(bank, "child")
    log_edge(bank, child, lost)
    log_edge(bank, child, "Zoë's place")
    found = links(bank, child)
    assert {(each.id, each.state, each.text) for each in found.things} == {
        (lost, "placeholder", None),
        ("Zoë's place", "placeholder", None),
    }
    assert [each.text for each in links(bank, "Zoë's place").things] == ["child"]
    assert [each.text for each in links(bank, lost).things] == ["child"]
    for nothing in ("nowhere", "blake3:" + "8" * 64, "\ud800", "0" * 12):
        with pytest.raises((UnknownMemoryError, UsageError)):
            links(bank, nothing)


def test_quarantined_deleted_and_erased_ends_have_no_text(bank: OpenBank) -> None:
    """Neither in links nor in paths."""
    start, ends = keep(bank, "start"), [keep(bank, f"secret {n}") for n in range(3)]
    for end in ends:
        log_edge(bank, start, end)
    log_status(bank, ends[0], "quarantined")
    forget(bank, [ends[1], ends[2]])
    bank.ledger.append([seal(Erasure(entry=ends[2], at=now()))])
    states = {each.id: (each.state, each.text) for each in links(bank, start).things}
    assert states == {
        ends[0]: ("held", None),
        ends[1]: ("deleted", None),
        ends[2]: ("not shown", None),
    }
    ways = path(bank, start, ends[0])
    assert (ways.things[ends[0]].state, ways.things[ends[0]].text) == ("held", None)


def test_retired_and_quarantined_edges_are_not_followed(bank: OpenBank) -> None:
    """Neither for links nor for paths."""
    a, b = keep(bank, "a"), keep(bank, "b")
    first, second = (seal(Edge(source=a, target=b, kind=kind)) for kind in ("one", "two"))
    bank.ledger.append([first, second])
    log_status(bank, first.id, "deleted")
    assert [each.by.type for each in links(bank, a).things] == ["two"]
    log_status(bank, second.id, "quarantined")
    assert links(bank, a).things == []
    assert path(bank, a, b).ways == []


def test_the_shortest_paths_between_two_memories_are_found(bank: OpenBank) -> None:
    """All of them up to the limit; no longer ones, and none from a memory to itself."""
    a, b, c, d = (keep(bank, name) for name in "abcd")
    for one, other in ((a, b), (a, c), (b, d), (c, d), (d, a)):
        log_edge(bank, one, other)
    found = path(bank, a, d, direction="out")
    assert [[step.target for step in way] for way in found.ways] == [[b, d], [c, d]]
    assert {each.text for each in found.things.values()} == {"a", "b", "c", "d"}
    assert [len(way) for way in path(bank, a, d).ways] == [1]
    short = path(bank, a, d, direction="out", limit=1)
    assert (len(short.ways), short.complete) == (1, False)
    assert path(bank, a, d, direction="out", hops=1).ways == []
    assert path(bank, a, a).ways == []


@pytest.mark.parametrize(
    "asked",
    [{"hops": 0}, {"hops": 101}, {"budget": 0}, {"budget": 10**9}, {"direction": "up"}],
    ids=str,
)
def test_invalid_limits_and_directions_are_refused(bank: OpenBank, asked: dict[str, Any]) -> None:
    """A search is always bounded."""
    memory = keep(bank, "a")
    with pytest.raises(UsageError):
        links(bank, memory, **asked)
    with pytest.raises(UsageError):
        path(bank, memory, memory, **asked)
    with pytest.raises(UsageError):
        path(bank, memory, memory, limit=0)


def test_attack_a_forged_link_in_the_index_is_refused(bank: OpenBank) -> None:
    """Links are verified against the bodies of the records."""
    a, b = keep(bank, "a"), keep(bank, "b")
    with bank.store.writing() as writing:
        (row,) = writing.get(bank.id, [a])
        writing.rewrite(bank.id, [replace(row, text="a", links=(RecordLink(a, b, "knows"),))])
    with pytest.raises(
        VerificationError, match="other links of the records 0 to 3 than their bodies have"
    ):
        links(bank, a)
