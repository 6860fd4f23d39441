"""Comparison of a store's columns and indexes with the log."""

from functools import partial
from operator import attrgetter
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from satchel.conformance.stores.oracle import BANK, OTHER, StoreSubject, bench, memory, named
from satchel.model.records import Edge, Semantic
from satchel.model.values import Scope
from satchel.ports.store import BLOCK_BITS, ColumnChange, MarkedRow, Reader
from satchel.ports.vectors import Generation

_BLOCK = 1 << BLOCK_BITS
_OWNER = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_OWNERS = st.lists(_OWNER, min_size=3, max_size=3)
_PLAIN = ("type", "kind", "agent", "run", "app", "session", "moment", "slot", "expires_at")


def _blocks(
    reader: Reader,
    first: int = 0,
    end: int | None = None,
    names: tuple[str, ...] = ("user",),
    bits: int = BLOCK_BITS,
) -> list[Any]:
    """Return blocks in a form in which stores agree: without the encoding of values."""
    return [
        (
            block.number,
            block.rows,
            block.first,
            block.last,
            len(block.values),
            _by_seq(block.marked),
        )
        for block in reader.column_blocks(BANK, names, first=first, end=end, bits=bits)
    ]


def _marked(reader: Reader, first: int = 0, end: int | None = None) -> list[Any]:
    blocks = reader.column_blocks(BANK, (), first=first, end=end)
    return _by_seq([row for block in blocks for row in block.marked])


def _by_seq(marked: list[MarkedRow]) -> list[MarkedRow]:
    return sorted(marked, key=attrgetter("seq"))


def test_blocks_contain_the_rows_of_their_positions_and_name_marked_ones(
    store: StoreSubject,
) -> None:
    """Between any two blocks; retired, pending and held rows with the columns of their leaves."""
    with bench(store) as both:
        both.append(*map(memory, range(_BLOCK + 4)))
        both.append(*map(memory, range(3)), bank=OTHER)
        assert both.same(_marked) == []
        changes = (ColumnChange(1, 3, hold=False), ColumnChange(2, -1, hold=False))
        both.append(memory(_BLOCK + 4), changes=(*changes, ColumnChange(_BLOCK, None, hold=True)))
        blocks = both.same(partial(_blocks, names=("user", "type")))
        assert [block[:5] for block in blocks] == [
            (0, _BLOCK, 0, _BLOCK - 1, 2),
            (1, 5, _BLOCK, _BLOCK + 4, 2),
        ]
        marked = both.same(_marked)
        assert [row.seq for row in marked] == [1, 2, _BLOCK]
        assert [row for block in blocks for row in block[5]] == marked
        assert both.same(partial(_blocks, first=1, names=("user", "type"))) == blocks[1:]
        assert both.same(partial(_marked, first=1)) == marked[2:]
        assert both.same(partial(_blocks, end=1, names=("user", "type"))) == blocks[:1]
        assert both.same(partial(_marked, end=1)) == marked[:2]
        assert both.same(partial(_marked, first=1, end=1)) == []
        (whole,) = both.same(partial(_blocks, bits=BLOCK_BITS + 4))
        assert whole[:4] == (0, _BLOCK + 5, 0, _BLOCK + 4)
        assert whole[5] == marked
        (small,) = both.same(partial(_blocks, bits=2, first=1, end=2))
        assert small[:4] == (1, 4, 4, 7)


def test_values_are_the_same_with_and_without_marks(store: StoreSubject) -> None:
    """They equal those with marks."""
    with bench(store) as both:
        both.append(*map(memory, range(5)))
        both.append(memory(5), changes=(ColumnChange(1, 5, hold=False),))
        with both.store.reading() as reader:
            blocks = partial(reader.column_blocks, BANK, ("user", "type"), first=0)
            assert [block.values for block in blocks(marked=False)] == [
                block.values for block in blocks()
            ]


@given(_OWNERS, _OWNERS)
@example(["", None, "a"], [None, "", "a"])
@example(["a", "b", None], ["a\0b", "", None])
@example(["a", None, None], ["a\0b", None, None])
@example(["a,b", "c", None], ["a", "b,c", None])
@example(['a","b', "c", None], ["a", 'b","c', None])
@example(["null", None, None], [None, None, None])
@example(["NULL", None, None], [None, None, None])
@example(["1", None, None], ["1.0", None, None])
@example(["\u00eb", None, None], ["e\u0308", None, None])
def test_different_values_of_a_column_are_different_bytes(
    store: StoreSubject, values: list[str | None], others: list[str | None]
) -> None:
    """The bytes of two blocks are equal if and only if their values are."""
    with bench(store) as both:
        for bank, owners in ((BANK, values), (OTHER, others)):
            both.append(*(Semantic(text="x", scope=Scope(user=user)) for user in owners), bank=bank)
        with both.store.reading() as reader:
            (first,) = reader.column_blocks(BANK, ("user",), first=0)
            (second,) = reader.column_blocks(OTHER, ("user",), first=0)
        assert (first.values == second.values) == (values == others)


def test_every_column_can_be_read(store: StoreSubject) -> None:
    """Columns of equal rows are equal; others differ where the rows do."""
    with bench(store) as both:
        both.append(named("1"), memory(1))
        both.append(named("1"), memory(1), bank=OTHER)
        for name in _PLAIN:
            with both.store.reading() as reader:
                (first,) = reader.column_blocks(BANK, (name,), first=0)
                (second,) = reader.column_blocks(OTHER, (name,), first=0)
            assert first.values == second.values, name
            assert len(first.values) == 1
        both.append(named("2", user="bela"), bank=BANK)
        both.append(Edge(source="a", target="b", kind="c"), bank=OTHER)
        for name in ("type", "id", "slot"):
            with both.store.reading() as reader:
                (first,) = reader.column_blocks(BANK, (name,), first=0)
                (second,) = reader.column_blocks(OTHER, (name,), first=0)
            assert first.values != second.values, name


def test_all_links_of_a_bank_are_listed(store: StoreSubject) -> None:
    """Including those of retired records, each once, and none of another bank."""
    with bench(store) as both:
        one, two = both.append(memory(1), memory(2, parent_ids=(BANK, OTHER)))
        both.append(Edge(source=one.id, target=two.id, kind="like"))
        both.append(Edge(source=one.id, target=two.id, kind="like"), bank=OTHER)
        both.append(memory(3, parent_ids=(one.id,)), changes=(ColumnChange(1, 3, hold=False),))
        found = both.same(lambda reader: sorted(reader.every_link(BANK)))
        assert [link.place for link in found] == [1, 1, 2, 3]


def test_rows_that_differ_from_the_word_index_are_reported(store: StoreSubject) -> None:
    """None in an intact index; otherwise missing rows, and rows with other words."""
    with bench(store) as both:
        both.need("full_text")
        rows = both.append(*(memory(number, tags=("a", "b")) for number in range(5)))
        both.append(memory(9), bank=OTHER)
        assert both.same(partial(_misindexed, rows=rows)) == []
        assert both.same(partial(_misindexed, rows=rows[2:4])) == []
        others = [*rows[:3], replace(rows[3], text="quite another text of many words"), rows[4]]
        assert both.same(partial(_misindexed, rows=others)) == [3]
        first, *rest = (rows[3].text or "").split()
        for words in ([*rest, first], ["another", *rest]):  # as many as before
            others = [*rows[:3], replace(rows[3], text=" ".join(words)), rows[4]]
            assert both.same(partial(_misindexed, rows=others)) == [3]
        lacking = [*rows[:4], replace(rows[4], id=rows[0].id[:-8] + "00000000")]
        assert both.same(partial(_misindexed, rows=lacking)) == [4]


def _misindexed(reader: Reader, rows: list[Any]) -> list[int]:
    return sorted(reader.misindexed(BANK, rows))


def test_the_log_positions_found_by_words_are_reported(store: StoreSubject) -> None:
    """Current rows and those in quarantine that have words; no others, and of this bank only."""
    with bench(store) as both:
        both.need("full_text")
        both.append(*map(memory, range(4)), Edge(source="a", target="b", kind="c"))
        both.append(*map(memory, range(9)), bank=OTHER)
        changes = (ColumnChange(1, 5, hold=False), ColumnChange(2, None, hold=True))
        both.append(memory(5), changes=changes)
        found = both.same(lambda reader: sorted(reader.word_positions(BANK)))
        assert found == [0, 2, 3, 5]


def test_all_data_belongs_to_a_bank(store: StoreSubject) -> None:
    """Nothing remains when banks, vectors and files are added and removed."""
    with bench(store) as both:
        rows = both.append(*map(memory, range(3)), Edge(source="a", target="b", kind="c"))
        both.append(memory(1), bank=OTHER, side={"note": b"one"})
        with both.store.writing() as writing:
            first = writing.blobs.put(BANK, [b"one"])
            writing.blobs.put(BANK, [b"two"])
            writing.blobs.put(OTHER, [b"one"])
            if both.store.traits.vectors:
                made = Generation("model", 2, 0)
                writing.vectors.put(BANK, made, {rows[0].id: [1.0, 2.0]})
                writing.vectors.put(BANK, Generation("model", 3, 0), {rows[0].id: [1.0, 2.0, 3.0]})
        with both.store.reading() as reader:
            assert reader.orphans() == []
        with both.store.writing() as writing:
            writing.blobs.drop(BANK, first)
            if both.store.traits.vectors:
                writing.vectors.drop(BANK, Generation("model", 2, 0))
            writing.remove(OTHER)
        with both.store.reading() as reader:
            assert reader.orphans() == []


__all__ = [name for name in dir() if name.startswith("test_")]
