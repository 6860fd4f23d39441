"""Two sides are paired in steps that grow with the records, not with their square."""

from collections.abc import Iterator

import pytest

from satchel.receipts.comparison import Pairing, RecordIdentity

_FEW, _TIMES = 500, 8
_STEP = 1_000


def _records(number: int, *, column: str) -> Iterator[RecordIdentity]:
    for at in range(number):
        mark = (at * 7 % number).to_bytes(16)
        key, words = (mark if column == name else None for name in ("key", "words"))
        print_ = mark if column == "print" else at.to_bytes(16)
        yield RecordIdentity("semantic", print_, None, key, words, b"{}", None)


def _steps(number: int, column: str) -> int:
    """Return how many thousand instructions SQLite needs to pair the records of two sides."""
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    with Pairing() as pairing:
        for side in (0, 1):
            pairing.add(side, _records(number, column=column))
        pairing._db.set_progress_handler(count, _STEP)
        if column == "type":
            pairing.pair_by_turn()
        else:
            pairing.pair([column])
        pairing._db.set_progress_handler(None, 0)
        assert len([*pairing.pairs()]) == number
    return taken


@pytest.mark.parametrize("column", ["print", "key", "words", "type"])
def test_pairing_takes_linear_time(column: str) -> None:
    """Eight times as many records; comparing all pairs would take 64 times the steps."""
    assert _steps(_FEW * _TIMES, column) < 2 * _TIMES * _steps(_FEW, column)


def test_repeated_texts_are_paired_as_often_as_both_sides_have_one() -> None:
    """The others are paired in order by type, and the rest stays unpaired."""

    def said(text: bytes, kind: str = "semantic") -> RecordIdentity:
        return RecordIdentity(kind, text * 16, None, None, None, text, None)

    with Pairing() as pairing:
        pairing.add(0, [said(b"a"), said(b"a"), said(b"b"), said(b"c", "episodic")])
        pairing.add(1, [said(b"d"), said(b"a"), said(b"a"), said(b"a")])
        pairing.pair(["print"])
        assert [(pair.first, pair.second) for pair in pairing.pairs()] == [(0, 1), (1, 2)]
        pairing.pair_by_turn()
        assert [(pair.first, pair.second) for pair in pairing.pairs()] == [(0, 1), (1, 2), (2, 0)]
        assert [number for number, *_ in pairing.alone(0)] == [3]
        assert [number for number, *_ in pairing.alone(1)] == [3]
