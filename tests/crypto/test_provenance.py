"""Provenance in a file: unique ids, present parents, no cycles, in bounded memory."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.artifact.verification import IdIndex, IdReport, Lineage, Role
from satchel.crypto.sealed_records import digest

Row = tuple[int, Role, int]


def identity(number: int) -> str:
    """Return a content address that spreads over the partitions."""
    return digest(b"%d" % number)


def report_of(rows: list[Row], held_rows: int) -> IdReport:
    """Return the report of an index that keeps this number of rows in memory."""
    with closing(IdIndex(held_rows)) as index:
        for number, role, position in rows:
            index.add(identity(number), role, position)
        return index.finish()


rows_of = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(Role), st.integers(0, 2**40)), max_size=120
)


@given(rows_of, st.integers(1, 40))
def test_an_index_on_disk_reports_the_same_as_one_in_memory(
    rows: list[Row], held_rows: int
) -> None:
    """For all rows in all orders."""
    assert report_of(rows, held_rows) == report_of(rows, 10**6)


@given(rows_of, st.integers(1, 200))
def test_the_index_agrees_with_sets(rows: list[Row], held_rows: int) -> None:
    """For all rows: missing, dangling and repeated ids are those that sets report."""
    found = report_of(rows, held_rows)
    present = {n for n, role, _ in rows if role in (Role.ENTRY, Role.TOMBSTONE)}
    missing = [n for n, role, _ in rows if role is Role.NEEDED and n not in present]
    dangling = [n for n, role, _ in rows if role is Role.MENTIONED and n not in present]
    assert (found.missing, found.dangling) == (len(missing), len(dangling))
    assert {one for one, _ in found.missing_examples} <= {identity(n) for n in missing}
    repeated: dict[int, int] = {}
    buried = {n for n, role, _ in rows if role is Role.TOMBSTONE}
    for number, role, _ in rows:
        if role in (Role.ENTRY, Role.OTHER):
            repeated[number] = repeated.get(number, 0) + 1
    sure = sum(count - 1 for number, count in repeated.items() if number not in buried)
    assert found.duplicates >= sure
    if not buried:
        assert found.duplicates == sure


def test_a_parent_is_an_entry_a_tombstone_or_withheld() -> None:
    """A record that is not a memory cannot stand in for a missing parent."""
    for role, missing in ((Role.ENTRY, 0), (Role.TOMBSTONE, 0), (Role.OTHER, 1)):
        rows = [(1, role, 5), (1, Role.NEEDED, 9)]
        assert report_of(rows, 50).missing == missing
        assert report_of(rows[::-1], 1).missing == missing
    assert report_of([(1, Role.MENTIONED, 9), (2, Role.NEEDED, 3)], 50) == IdReport(
        missing=1, dangling=1, missing_examples=[(identity(2), 3)]
    )


def test_a_repeated_id_is_reported_with_its_second_line() -> None:
    """The line can be found in the file."""
    rows = [(1, Role.ENTRY, 5), (2, Role.ENTRY, 6), (1, Role.ENTRY, 7), (1, Role.OTHER, 8)]
    found = report_of(rows, 2)
    assert found.duplicates == 2
    assert found.duplicate_examples == [(identity(1), 7), (identity(1), 8)]


def test_a_tombstone_does_not_repeat_the_id_of_its_entry() -> None:
    """An erasure names the id of the entry that was erased."""
    rows = [(1, Role.TOMBSTONE, 5), (1, Role.ENTRY, 6)]
    assert report_of(rows, 50).duplicates == 0
    assert report_of(rows[::-1], 50).duplicates == 0


def test_a_report_has_few_examples_and_exact_counts() -> None:
    """A file with a million faults does not make a report of a million lines."""
    found = report_of([(n, Role.NEEDED, n) for n in range(500)], 100)
    assert found.missing == 500
    assert len(found.missing_examples) == 20


@pytest.fixture
def lineage() -> Iterator[Lineage]:
    """An empty graph."""
    with closing(Lineage()) as made:
        yield made


def test_a_cycle_is_detected_at_any_position(lineage: Lineage) -> None:
    """Two forged entries that cite each other."""
    lineage.add("a", [])
    lineage.add("b", ["a"])
    lineage.add("c", ["b", "e"])
    lineage.add("d", ["c", "a"])
    assert lineage.cycle() is None
    lineage.add("e", ["d"])
    found = lineage.cycle()
    assert found in {"c", "d", "e"}


def test_an_entry_that_is_its_own_parent_is_a_cycle(lineage: Lineage) -> None:
    """The shortest one."""
    lineage.add("a", ["a"])
    assert lineage.cycle() == "a"


def test_a_diamond_and_a_missing_parent_are_not_cycles(lineage: Lineage) -> None:
    """Two paths to one ancestor are common."""
    for name, parents in (("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c", "gone"])):
        lineage.add(name, parents)
    assert lineage.cycle() is None


@pytest.mark.prove
def test_a_hundred_thousand_generations_are_checked_without_recursion(lineage: Lineage) -> None:
    """Deep lineage does not exhaust the stack, and each edge is visited once."""
    count = 100_000
    for number in range(count):
        lineage.add(f"{number:06}", [f"{number - 1:06}"] if number else [])
    assert lineage.cycle() is None
    assert sum(1 for _ in lineage.chain(f"{count - 1:06}")) == count


def test_a_cycle_of_twenty_thousand_entries_is_detected(lineage: Lineage) -> None:
    """However long it is."""
    count = 20_000
    for number in range(count):
        lineage.add(f"{number:06}", [f"{(number - 1) % count:06}"])
    assert lineage.cycle() is not None


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16)


@given(edges)
def test_cycle_detection_agrees_with_exhaustive_search(pairs: list[tuple[int, int]]) -> None:
    """For all small graphs."""
    parents: dict[str, list[str]] = {}
    for child, parent in pairs:
        parents.setdefault(str(child), []).append(str(parent))
    with closing(Lineage()) as lineage:
        for name, named in parents.items():
            lineage.add(name, named)
        found = lineage.cycle()
    reach = {name: set(named) for name, named in parents.items()}
    for _ in range(8):
        for above in reach.values():
            above.update(*[reach.get(other, set()) for other in above])
    cyclic = {name for name, above in reach.items() if name in above}
    assert found in cyclic if cyclic else found is None


def test_a_chain_lists_every_ancestor_once_and_missing_parents(lineage: Lineage) -> None:
    """From one entry back to the roots."""
    lineage.add("a", [], "whole")
    lineage.add("b", ["a", "gone"], "redacted")
    lineage.add("c", ["a", "b"], "whole")
    lineage.add("z", [], "whole")
    found = {name: (parents, note) for name, parents, note in lineage.chain("c")}
    assert found == {
        "c": (["a", "b"], "whole"),
        "b": (["a", "gone"], "redacted"),
        "a": ([], "whole"),
        "gone": (None, ""),
    }


def test_entries_are_found_by_an_id_prefix(lineage: Lineage) -> None:
    """Up to two, which shows that a prefix is not unique; wildcards of SQL match nothing."""
    for name in ("blake3:aa0", "blake3:aa1", "blake3:ab", "blake3:af", "blake3:b"):
        lineage.add(name, [])
    assert lineage.matching("blake3:aa") == ["blake3:aa0", "blake3:aa1"]
    assert lineage.matching("blake3:ab") == ["blake3:ab"]
    assert len(lineage.matching("blake3:a")) == 3
    assert lineage.matching("blake3:%") == lineage.matching("blake3:_") == []
