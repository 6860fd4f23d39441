"""What an import's plan keeps of a long file in memory."""

import tracemalloc
from collections.abc import Iterator

import pytest

from satchel.crypto.sealed_records import random_nonce, seal, seal_many
from satchel.model.records import Edge, Model, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Row, unplaced_row
from satchel.runtime import scratch
from satchel.runtime.scratch import SpoolStreams
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_results import ImportRules
from satchel.transfer.import_stage import WIDTH, key_of, key_of_row

_ORIGIN = Origin(provider="mem0", id="1")
_FEW, _MANY, _TOGETHER = 2_000, 8_000, 500


def _rows(number: int) -> Iterator[list[Row]]:
    """Every other memory has an id where it comes from."""
    scope = Scope(user="ada")
    for start in range(0, number, _TOGETHER):
        drafts = [
            Semantic(
                text=f"fact {at}",
                scope=scope,
                origin=Origin(provider="mem0", id=str(at)) if at % 2 else None,
            )
            for at in range(start, start + _TOGETHER)
        ]
        made = zip(drafts, seal_many(drafts), strict=True)
        yield [unplaced_row(draft, one.id, one.body) for draft, one in made]


def _held(number: int) -> int:
    """Plan an import of some records, and return the bytes that it takes in memory."""
    strands = SpoolStreams()
    plan = ImportPlan(
        None, ImportRules(), strands, nonces=random_nonce, at="2026-01-01T00:00:00.000000Z"
    )
    tracemalloc.start(1)
    try:
        for rows in _rows(number):
            plan.take(rows)
        found = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    plan.finish()
    assert plan.done.added == number
    assert len(plan.keys) == WIDTH * number
    strands.close()
    return found


def test_the_plan_of_a_long_file_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a number of keys on, what it holds in memory does not grow with the file."""
    monkeypatch.setattr(scratch, "MOST_IN_MEMORY", 2_000)
    _held(_FEW)
    assert _held(_MANY) - _held(_FEW) < (_MANY - _FEW) * WIDTH


def test_the_plan_in_memory_takes_a_bounded_number_of_bytes_a_record() -> None:
    """At the most keys that it holds there, some tens of megabytes."""
    _held(_FEW)
    each = (_held(_MANY) - _held(_FEW)) / (_MANY - _FEW)
    assert each * scratch.MOST_IN_MEMORY * scratch.PLAN_TIMES / scratch.A_KEY < 40 * 10**6


@pytest.mark.parametrize(
    "model",
    [
        Semantic(text="tea", origin=_ORIGIN),
        Semantic(text="tea", parent_ids=("blake3:" + "0" * 64,), origin=_ORIGIN),
        Semantic(text="tea", parent_ids=("blake3:" + "0" * 64,)),
        Semantic(text='"parent_ids":[', metadata={"parent_ids": ["x"], "type": "edge"}),
        Semantic(text="tea", metadata={"type": "session_event"}, origin=_ORIGIN),
        Edge(source="blake3:" + "0" * 64, target="blake3:" + "1" * 64, kind="k", origin=_ORIGIN),
    ],
    ids=["plain", "parent", "parent without origin", "names in data", "types in data", "edge"],
)
def test_a_record_is_recognized_alike_by_its_row_and_by_its_bytes(model: Model) -> None:
    """What tells from the columns that nothing leads elsewhere gives the same fingerprint."""
    record = seal(model)
    row = unplaced_row(record.model, record.id, record.body)
    assert key_of_row(row) == key_of(record.id, record.body)
