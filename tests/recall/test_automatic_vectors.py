"""Automatic vectors: missing ones are made in bounded steps."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, rows, write
from recall_kit import Remembering

from satchel.admin.statistics import stats
from satchel.bank.changes import forget, remember, restore
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import InferenceError
from satchel.inference.static_table import StaticTable
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Erasure, Receipt, Semantic, Source, Status
from satchel.ports.inference import Embedder
from satchel.ports.vectors import SKETCHES
from satchel.recall import vector_updates as step
from satchel.recall.models import automatic_embedders
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.recall.vector_index import (
    CURRENT,
    GenerationInfo,
    current_generation,
    fill,
    is_behind,
    keep_up,
    pending_generation,
)
from satchel.recall.vector_updates import embed_bank
from satchel.stores.memory import InMemoryStore

NO_LIMIT = 1_000_000


class FailingEmbedder(StaticTable):
    """An embedder that fails."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Fail."""
        raise InferenceError("no")


def unweighted(_made: GenerationInfo | None) -> Embedder:
    """Return a model without word weights, so that a generation never gets outdated."""
    return StaticTable()


def configured(made: GenerationInfo | None) -> Embedder | None:
    """Return the configured model."""
    return automatic_embedders(load_settings())(made)


def run_step(
    bank: Remembering, most: int = NO_LIMIT, by: Callable[[GenerationInfo | None], Any] = unweighted
) -> int:
    """Run one step; return how many vectors it made."""
    return keep_up(bank.store, bank.ledger, by, most)


def missing_texts(bank: Remembering) -> list[str | None]:
    """Return the texts of current memories without a vector in the current generation."""
    with bank.ledger.reading() as view:
        made = current_generation(view)
        there = {one.record.id: one for one in view.scan(CURRENT)}
        if made is not None:
            for name in view.vectors(made.generation, list(there)):
                del there[name]
    return [getattr(one.model, "text", None) for one in there.values()]


@pytest.fixture
def small_bank() -> Remembering:
    """A bank of forty memories."""
    bank = Remembering(InMemoryStore())
    bank.add(*(Semantic(text=f"tea number {number}") for number in range(40)))
    return bank


def test_a_bank_gets_vectors_for_its_memories_and_later_for_new_ones(
    small_bank: Remembering,
) -> None:
    """Each once: without new memories, nothing is done."""
    assert (run_step(small_bank), run_step(small_bank), missing_texts(small_bank)) == (40, 0, [])
    small_bank.add(Semantic(text="coffee"), Semantic(text="rain"))
    assert (run_step(small_bank), run_step(small_bank), missing_texts(small_bank)) == (2, 0, [])


def test_a_step_is_bounded_and_the_next_one_continues(
    small_bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are used once all exist; long texts count for more than short ones."""
    monkeypatch.setattr("satchel.recall.vector_index._STEP_SIZE", 8)
    small_bank.add(*(Semantic(text="long " * 2000) for _ in range(8)))
    steps = list[int]()
    while made := run_step(small_bank, most=8):
        with small_bank.ledger.reading() as view:
            assert (current_generation(view) is None) == is_behind(view, unweighted)
        steps.append(made)
    assert sum(steps) == 48
    assert max(steps) <= 16
    assert missing_texts(small_bank) == []


def test_a_restored_memory_gets_a_vector(small_bank: Remembering) -> None:
    """Deleted while vectors were made, restored later."""
    (gone,) = small_bank.add(Semantic(text="brought back"))
    small_bank.add(Status(target=gone.id, state="deleted"))
    assert run_step(small_bank) == 40
    small_bank.add(Status(target=gone.id, state="restored"))
    assert missing_texts(small_bank) == ["brought back"]
    assert (run_step(small_bank), missing_texts(small_bank)) == (1, [])


def test_imported_memories_get_vectors_when_the_import_is_complete(small_bank: Remembering) -> None:
    """However much was logged between its start and its end."""
    source = seal(Source(provider="mem0", format="mem0"))
    small_bank.ledger.append([source])
    brought = [seal(Semantic(text=text)) for text in ("imported", "likewise")]
    small_bank.ledger.append(brought, batch=source.id)
    small_bank.add(Semantic(text="beside it"))
    assert run_step(small_bank) == 41
    small_bank.ledger.append([closing_receipt(source.id, "2026-01-01T00:00:00.000000Z")])
    assert missing_texts(small_bank) == ["imported", "likewise"]
    assert (run_step(small_bank), run_step(small_bank), missing_texts(small_bank)) == (2, 0, [])


def test_sketches_removed_with_an_erased_one_are_made_again(small_bank: Remembering) -> None:
    """They share a block with the erased one; their vectors still exist."""
    assert run_step(small_bank) == 40
    with small_bank.ledger.reading() as view:
        gone = next(iter(view.scan(CURRENT))).record.id
    small_bank.add(Status(target=gone, state="deleted"))
    small_bank.ledger.append([seal(Erasure(entry=gone))])
    with small_bank.ledger.reading() as view:
        assert view.side(SKETCHES) == {}
    assert run_step(small_bank) == 0
    with small_bank.ledger.reading() as view:
        assert len(view.side(SKETCHES)) == 1


def test_attack_an_invalid_receipt_is_ignored(small_bank: Remembering) -> None:
    """Attack: a record that names an import which does not exist, and one of the wrong type."""
    small_bank.ledger.append(
        [
            seal(Receipt(action="something", result={"source": ["x"]})),
            seal(Receipt(action="batch_group", result={})),
        ]
    )
    assert (run_step(small_bank), missing_texts(small_bank)) == (40, [])


def test_word_weights_are_computed_again_when_a_bank_has_grown() -> None:
    """A new generation replaces the old one, which answers in the meantime."""
    bank = Remembering(InMemoryStore())
    numbers = list[int]()
    for count in (1, 2, 1, 12, 100):
        bank.add(*(Semantic(text=f"tea {len(numbers)} {number}") for number in range(count)))
        run_step(bank, by=configured)
        assert missing_texts(bank) == []
        with bank.ledger.reading() as view:
            made = current_generation(view)
            assert made is not None
            assert len(view.generations()) == 1
        numbers.append(made.number)
    assert numbers == [0, 0, 1, 2, 3]
    assert run_step(bank, by=configured) == 0


def test_another_revision_of_the_model_starts_a_new_generation(small_bank: Remembering) -> None:
    """Vectors of two revisions are never compared; the new ones are made automatically."""

    class Newer(StaticTable):
        def __init__(self) -> None:
            super().__init__()
            self.revision += "x"

    run_step(small_bank)
    assert run_step(small_bank, by=lambda _made: Newer()) == 40
    with small_bank.ledger.reading() as view:
        assert len(view.generations()) == 1
        made = current_generation(view)
        assert made is not None
        assert made.is_of(Newer())
        assert not is_behind(view, lambda _made: Newer())


def test_vectors_of_a_replaced_generation_are_dropped(small_bank: Remembering) -> None:
    """A step that was overtaken leaves no unused generation."""
    run_step(small_bank)
    small_bank.add(Semantic(text="late"))

    class Overtaken(StaticTable):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            fill(small_bank.store, small_bank.ledger, StaticTable(), rebuild=True)
            return super().embed(texts)

    assert run_step(small_bank, by=lambda _made: Overtaken()) == 0
    with small_bank.ledger.reading() as view:
        assert [one.number for one in view.generations()] == [1]
    assert missing_texts(small_bank) == []


@pytest.fixture
def imported_bank(tmp_path: Path) -> Iterator[OpenBank]:
    """A bank with thirty imported memories."""
    bring(write(tmp_path / "a.json", rows(*((str(n), f"tea {n} and rain") for n in range(30)))))
    with opened() as there:
        yield there


def plan_of(bank: OpenBank, text: str) -> Any:
    """Return the plan of a query."""
    return recall_memories(bank, Query(text=text)).plan


def test_an_import_makes_vectors_and_a_query_makes_the_new_ones(
    imported_bank: OpenBank,
) -> None:
    """Remembering itself makes none."""
    told = stats(imported_bank).vectors
    assert told is not None
    assert (told.count, told.missing) == (30, 0)
    remember(imported_bank, {"text": "a physician came"})
    told = stats(imported_bank).vectors
    assert told is not None
    assert told.missing == 1
    assert plan_of(imported_bank, "doctor").by_meaning >= 1
    told = stats(imported_bank).vectors
    assert told is not None
    assert told.missing == 0


def test_automatic_vectors_can_be_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank works by words, and the plan says so."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    bring(write(tmp_path / "a.json", rows(("1", "tea"))))
    with opened() as bank:
        plan = plan_of(bank, "tea")
        assert (plan.vectors, plan.by_words, plan.by_meaning) == (None, 1, 0)
        assert stats(bank).vectors is None


def test_memories_are_not_sent_to_a_server_automatically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only ``satchel embed`` sends them to a configured server."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "openai")
    bring(write(tmp_path / "a.json", rows(("1", "tea"))))
    with opened() as bank:
        assert plan_of(bank, "tea").vectors is None
        assert stats(bank).vectors is None


def test_a_failing_model_does_not_fail_a_query(
    imported_bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory without a vector is found by its words."""
    monkeypatch.setattr(
        step, "automatic_embedders", lambda _settings: lambda _made: FailingEmbedder()
    )
    remember(imported_bank, {"text": "a harbour"})
    assert [one.text for one in recall_memories(imported_bank, Query(text="harbour")).memories] == [
        "a harbour"
    ]


def test_a_query_of_a_read_only_bank_makes_no_vectors(imported_bank: OpenBank) -> None:
    """The bank is queried as it is."""
    remember(imported_bank, {"text": "a harbour"})
    with open_bank(load_settings(), "b") as reading:
        assert plan_of(reading, "harbour").by_words == 1
    told = stats(imported_bank).vectors
    assert told is not None
    assert told.missing == 1


def test_the_recall_command_makes_missing_vectors_first(imported_bank: OpenBank) -> None:
    """The bank is opened for writing only if some are missing."""
    for writes in (False, True):
        with step.open_bank_for_query(load_settings(), "b", "tea") as bank:
            assert bank.ledger.writes == writes
            plan_of(bank, "tea")
        remember(imported_bank, {"text": "a harbour"})
    with step.open_bank_for_query(load_settings(), "b", "") as bank:
        assert not bank.ledger.writes


def test_deleting_and_restoring_keeps_the_vector(imported_bank: OpenBank) -> None:
    """Nothing is made again."""
    with imported_bank.ledger.reading() as view:
        some = [one.record.id for one in view.scan(CURRENT)][:5]
    forget(imported_bank, some)
    restore(imported_bank, some)
    assert step.keep_up(imported_bank) == 0


_STEP = """
import os, signal, sys
from satchel.config.settings import load_settings
from satchel.recall.models import automatic_embedders
from satchel.bank.open_bank import open_bank as opened_bank
from satchel.recall import vector_index
vector_index._STEP_SIZE = 8
left = [int(sys.argv[1])]
keep = vector_index.store_vectors
def counting(*given):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return keep(*given)
vector_index.store_vectors = counting
settings = load_settings()
with opened_bank(settings, "b", writes=True) as bank:
    vector_index.keep_up(bank.store, bank.ledger, automatic_embedders(settings), 10**6)
"""


def test_a_killed_step_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each part: no vector is used before all exist, and none is made twice."""
    with monkeypatch.context() as off:
        off.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
        bring(write(tmp_path / "a.json", rows(*((str(n), f"tea {n}") for n in range(30)))))
    for parts in (0, 1, 2):
        done = subprocess.run(
            [sys.executable, "-c", _STEP, str(parts)], check=False, env=dict(os.environ)
        )
        assert done.returncode == -signal.SIGKILL
        with opened() as bank, bank.ledger.reading() as view:
            assert current_generation(view) is None
            assert pending_generation(view) is not None
    with opened() as bank:
        assert 0 < step.keep_up(bank) < 30
        done_again = embed_bank(bank)
        assert (done_again.made, done_again.kept, done_again.generation) == (0, 30, 0)
