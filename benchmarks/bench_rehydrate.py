"""Rehydration: the cost of the pipeline compared with its query, by the size of the bank."""

import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from blake3 import blake3

from benchmarks.measure import Table, report
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.view import View
from satchel.model.records import Semantic
from satchel.recall.engine import recall
from satchel.recall.query import Query
from satchel.rehydrate.frames import encoded
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.relevance import LEAST_TOKENS
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult
from satchel.stores.sqlite import SqliteStore

FEW, SMALL, MANY, MILLION = 300, 10_000, 100_000, 1_000_000
BUDGET, GROUP, QUESTIONS = 4096, 5000, 8
BESIDE, GROWTH = 3.0, 5.0


@pytest.mark.prove
def test_a_bank_is_rehydrated(tmp_path: Path) -> None:
    """The work of the benchmarks below, once, on a small input."""
    with _filled(tmp_path / "a.db", FEW).reading() as view:
        assert _costs(view)[1] > 0


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_pipeline_costs_no_more_than_three_times_its_query(tmp_path: Path) -> None:
    """Processor time at 4,096 tokens: recall, and writing and counting the selected text."""
    _compare(tmp_path, SMALL, MANY)


@pytest.mark.bench_full
@pytest.mark.timeout(7200)
def test_a_million_memories_cost_at_most_five_times_ten_thousand(tmp_path: Path) -> None:
    """The same at a million."""
    _compare(tmp_path, SMALL, MILLION)


def _compare(folder: Path, *sizes: int) -> None:
    rows, whole = list[list[object]](), dict[int, float]()
    for size in sizes:
        with _filled(folder / f"{size}.db", size).reading() as view:
            parts, all_of_it, result = _costs(view)
        whole[size] = all_of_it
        rows.append(
            [f"{size:,}", f"{parts:.1f}", f"{all_of_it:.1f}", result.looked_at, len(result.entries)]
        )
        assert result.looked_at <= 2000
        assert all_of_it <= BESIDE * parts
    names = ["memories", "query and text, ms", "pipeline, ms", "read", "shown"]
    report(f"rehydrate {sizes[-1]}", Table("Rehydration at 4,096 tokens", names, rows))
    assert whole[sizes[-1]] <= GROWTH * whole[sizes[0]]


def _costs(view: View) -> tuple[float, float, RehydrateResult]:
    """Return milliseconds of the query and the text alone, and of the pipeline; and a result."""
    tasks = [*islice(_questions(), QUESTIONS)]
    around = RehydrateContext()
    result = rehydrate(view, RehydrateRequest(task=tasks[0], budget=BUDGET, model="gpt-4o"), around)

    def query() -> None:
        for task in tasks:
            recall(view, Query(text=task, limit=BUDGET // LEAST_TOKENS, with_expired=True))

    def text() -> None:
        for _ in tasks:
            for _ in result.entries:
                encoded(_TEXT)

    def pipeline() -> None:
        for task in tasks:
            rehydrate(view, RehydrateRequest(task=task, budget=BUDGET, model="gpt-4o"), around)

    return _cpu(query) + _cpu(text), _cpu(pipeline), result


def _cpu(work: Callable[[], None]) -> float:
    """Return the processor time of one question, the least of three tries, in milliseconds."""
    times = list[float]()
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / QUESTIONS * 1000


_TEXT = "It is what the meeting said about the garden [and the tea] at 10:30; nobody objected."


def _word(number: int) -> str:
    return "w" + blake3(number.to_bytes(4)).hexdigest()[:6]


def _questions() -> Iterator[str]:
    draw = random.Random(7)  # noqa: S311 - not for secrets
    while True:
        word, tea = _word(draw.randrange(2000)), draw.randrange(50)
        yield f"what did the meeting say of {word} and tea{tea}"


def _filled(path: Path, count: int) -> Ledger:
    draw = random.Random(1)  # noqa: S311 - not for secrets
    key = SigningKey.generate()
    ledger = Ledger.create(SqliteStore(path), owner=key, writer=key)
    for start in range(0, count, GROUP):
        drafts = [
            Semantic(
                text=" ".join(_word(draw.randrange(2000)) for _ in range(9))
                + f" tea{(start + number) % 50}. {_TEXT}",
                created_at="2026-05-02T00:00:00.000000Z",
            )
            for number in range(min(GROUP, count - start))
        ]
        ledger.append([seal(draft) for draft in drafts])
    return ledger
