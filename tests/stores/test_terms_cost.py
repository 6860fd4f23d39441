"""What the words of a store cost: work that grows as the text does, and the size of the index."""

import sys
from itertools import pairwise
from random import Random

import apsw
import pytest

from satchel.stores.text_search import index_text, query

TABLE = (
    "CREATE VIRTUAL TABLE words USING fts5(text, detail=full, content='', contentless_delete=1, "
    "tokenize='porter unicode61 remove_diacritics 2'{})"
)


@pytest.mark.parametrize(
    "unit",
    ["茶", "ก", "ที่", "한", "a", "é", "🎂", "a.", "茶a", "ี", "茶\u200b", "ក្ក", "្ក", "ﷺ", "a\u0301"],
)
def test_twice_the_text_is_twice_the_work(unit: str) -> None:
    """Counted, not timed: the lines of Python that run grow as the text does, for any unit."""
    once, twice = (_lines_run(unit * size) for size in (2000, 4000))
    assert twice <= 2.1 * once
    assert len(index_text(unit * 4000)) <= 2.1 * len(index_text(unit * 2000)) + 8


def test_the_ends_of_runs_cost_less_than_every_character_would() -> None:
    """The reason in the module's docstring: sizes of optimized indexes, which are exact."""
    texts = _sentences(1500)
    pairs = ["".join(text).split("。") for text in texts]
    only_pairs = [" ".join(a + b for run in runs for a, b in pairwise(run)) for runs in pairs]
    singles = [" ".join(text.replace("。", "")) for text in texts]
    ours = _size([index_text(text) for text in texts])
    assert ours < 1.12 * _size(only_pairs)
    assert _size([f"{a} {b}" for a, b in zip(only_pairs, singles, strict=True)]) > 1.4 * ours
    assert _size([index_text(text) for text in texts], ", prefix='1'") > 1.4 * ours


def _lines_run(text: str) -> int:
    """Return how many lines of Python it takes to index and to search for ``text``."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # a tracer's type refers to itself
    try:
        index_text(text)
        query(text)
    finally:
        sys.settrace(before)
    return count


def _sentences(count: int) -> list[str]:
    """Return texts whose characters and words are as unevenly frequent as in a language."""
    random = Random(7)  # noqa: S311 - the same texts in every run, no secret
    characters = [chr(0x4E00 + 6 * number) for number in range(3000)]
    common = [1 / (rank + 1) for rank in range(3000)]
    words = [
        "".join(random.choices(characters, common, k=random.choice((1, 1, 2, 2, 2, 2, 2, 3, 4))))
        for _ in range(10_000)
    ]
    used = [1 / (rank + 1) ** 0.9 for rank in range(10_000)]
    return [
        "".join([*random.choices(words, used, k=9), "。", *random.choices(words, used, k=6)])
        for _ in range(count)
    ]


def _size(texts: list[str], options: str = "") -> int:
    """Return the bytes of the full-text index of ``texts``."""
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE.format(options))
    with connection:
        connection.executemany("INSERT INTO words(text) VALUES (?)", ((text,) for text in texts))
    connection.execute("INSERT INTO words(words) VALUES ('optimize')")
    size: int = connection.execute("SELECT sum(length(block)) FROM words_data").get
    connection.close()
    return size
