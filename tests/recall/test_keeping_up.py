"""Vectors that nobody asked for: made where they are missed, a bounded step at a time."""

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

ALL = 1_000_000


class Failing(StaticTable):
    """A model that does not answer."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Fail."""
        raise InferenceError("no")


def keeper(_made: GenerationInfo | None) -> Embedder:
    """Give a model that weighs nothing, so that a generation never grows too old."""
    return StaticTable()


def weighing(made: GenerationInfo | None) -> Embedder | None:
    """Give the model that is configured."""
    return automatic_embedders(load_settings())(made)


def kept(
    bank: Remembering, most: int = ALL, by: Callable[[GenerationInfo | None], Any] = keeper
) -> int:
    """Do one step."""
    return keep_up(bank.store, bank.ledger, by, most)


def lacking(bank: Remembering) -> list[str | None]:
    """Return the texts of current memories that have no vector in the generation in use."""
    with bank.ledger.reading() as view:
        made = current_generation(view)
        there = {one.record.id: one for one in view.scan(CURRENT)}
        if made is not None:
            for name in view.vectors(made.generation, list(there)):
                del there[name]
    return [getattr(one.model, "text", None) for one in there.values()]


@pytest.fixture
def few() -> Remembering:
    """A bank of forty memories."""
    bank = Remembering(InMemoryStore())
    bank.add(*(Semantic(text=f"tea number {number}") for number in range(40)))
    return bank


def test_a_bank_gets_its_first_vectors_and_then_those_of_what_comes(few: Remembering) -> None:
    """Once each: when nothing is new, nothing is done."""
    assert (kept(few), kept(few), lacking(few)) == (40, 0, [])
    few.add(Semantic(text="coffee"), Semantic(text="rain"))
    assert (kept(few), kept(few), lacking(few)) == (2, 0, [])


def test_a_step_does_no_more_than_allowed_and_the_next_continues(
    few: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compared before all is there; long texts count for more than short ones."""
    monkeypatch.setattr("satchel.recall.vector_index._STEP_SIZE", 8)
    few.add(*(Semantic(text="long " * 2000) for _ in range(8)))
    steps = list[int]()
    while made := kept(few, most=8):
        with few.ledger.reading() as view:
            assert (current_generation(view) is None) == is_behind(view, keeper)
        steps.append(made)
    assert sum(steps) == 48
    assert max(steps) <= 16
    assert lacking(few) == []


def test_what_a_status_brings_back_gets_a_vector(few: Remembering) -> None:
    """Deleted while vectors were made, restored since."""
    (gone,) = few.add(Semantic(text="brought back"))
    few.add(Status(target=gone.id, state="deleted"))
    assert kept(few) == 40
    few.add(Status(target=gone.id, state="restored"))
    assert lacking(few) == ["brought back"]
    assert (kept(few), lacking(few)) == (1, [])


def test_what_an_import_brought_gets_vectors_when_it_is_complete(few: Remembering) -> None:
    """However much was logged and looked at between its beginning and its end."""
    source = seal(Source(provider="mem0", format="mem0"))
    few.ledger.append([source])
    brought = [seal(Semantic(text=text)) for text in ("imported", "likewise")]
    few.ledger.append(brought, batch=source.id)
    few.add(Semantic(text="beside it"))
    assert kept(few) == 41
    few.ledger.append([closing_receipt(source.id, "2026-01-01T00:00:00.000000Z")])
    assert lacking(few) == ["imported", "likewise"]
    assert (kept(few), kept(few), lacking(few)) == (2, 0, [])


def test_those_beside_an_erased_one_get_their_sketches_back(few: Remembering) -> None:
    """They went with its own; the vectors are there."""
    assert kept(few) == 40
    with few.ledger.reading() as view:
        gone = next(iter(view.scan(CURRENT))).record.id
    few.add(Status(target=gone, state="deleted"))
    few.ledger.append([seal(Erasure(entry=gone))])
    with few.ledger.reading() as view:
        assert view.side(SKETCHES) == {}
    assert kept(few) == 0
    with few.ledger.reading() as view:
        assert len(view.side(SKETCHES)) == 1


def test_a_receipt_that_says_nonsense_makes_no_trouble(few: Remembering) -> None:
    """Attack: a record of the log that names an import which is none, and one of the wrong kind."""
    few.ledger.append(
        [
            seal(Receipt(action="something", result={"source": ["x"]})),
            seal(Receipt(action="batch_group", result={})),
        ]
    )
    assert (kept(few), lacking(few)) == (40, [])


def test_word_weights_are_computed_again_when_a_bank_has_grown() -> None:
    """A new generation takes the place of the old one; meanwhile the old one answers."""
    bank = Remembering(InMemoryStore())
    numbers = list[int]()
    for count in (1, 2, 1, 12, 100):
        bank.add(*(Semantic(text=f"tea {len(numbers)} {number}") for number in range(count)))
        kept(bank, by=weighing)
        assert lacking(bank) == []
        with bank.ledger.reading() as view:
            made = current_generation(view)
            assert made is not None
            assert len(view.generations()) == 1
        numbers.append(made.number)
    assert numbers == [0, 0, 1, 2, 3]
    assert kept(bank, by=weighing) == 0


def test_another_make_of_the_model_is_followed_by_a_new_generation(few: Remembering) -> None:
    """Vectors of two makes are never compared, and the new ones are made without being asked."""

    class Newer(StaticTable):
        def __init__(self) -> None:
            super().__init__()
            self.revision += "x"

    kept(few)
    assert kept(few, by=lambda _made: Newer()) == 40
    with few.ledger.reading() as view:
        assert len(view.generations()) == 1
        made = current_generation(view)
        assert made is not None
        assert made.is_of(Newer())
        assert not is_behind(view, lambda _made: Newer())


def test_vectors_replaced_concurrently_are_not_kept(few: Remembering) -> None:
    """A step that was overtaken leaves no generation behind that nobody uses."""
    kept(few)
    few.add(Semantic(text="late"))

    class Overtaken(StaticTable):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            fill(few.store, few.ledger, StaticTable(), rebuild=True)
            return super().embed(texts)

    assert kept(few, by=lambda _made: Overtaken()) == 0
    with few.ledger.reading() as view:
        assert [one.number for one in view.generations()] == [1]
    assert lacking(few) == []


@pytest.fixture
def banked(tmp_path: Path) -> Iterator[OpenBank]:
    """A bank that thirty memories were imported into."""
    bring(write(tmp_path / "a.json", rows(*((str(n), f"tea {n} and rain") for n in range(30)))))
    with opened() as there:
        yield there


def found(bank: OpenBank, text: str) -> Any:
    """Return the plan of a question."""
    return recall_memories(bank, Query(text=text)).plan


def test_an_import_ends_with_vectors_and_a_question_makes_those_that_are_new(
    banked: OpenBank,
) -> None:
    """Nobody asks for them; remembering itself makes none."""
    told = stats(banked).vectors
    assert told is not None
    assert (told.count, told.missing) == (30, 0)
    remember(banked, {"text": "a physician came"})
    told = stats(banked).vectors
    assert told is not None
    assert told.missing == 1
    assert found(banked, "doctor").by_meaning >= 1
    told = stats(banked).vectors
    assert told is not None
    assert told.missing == 0


def test_a_setting_switches_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank works by words, and the plan says so."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    bring(write(tmp_path / "a.json", rows(("1", "tea"))))
    with opened() as bank:
        plan = found(bank, "tea")
        assert (plan.vectors, plan.by_words, plan.by_meaning) == (None, 1, 0)
        assert stats(bank).vectors is None


def test_nothing_is_sent_to_a_server_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is configured gets memories by satchel embed alone."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "openai")
    bring(write(tmp_path / "a.json", rows(("1", "tea"))))
    with opened() as bank:
        assert found(bank, "tea").vectors is None
        assert stats(bank).vectors is None


def test_what_goes_wrong_with_it_hinders_no_question(
    banked: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that has no vector yet is found by its words."""
    monkeypatch.setattr(step, "automatic_embedders", lambda _settings: lambda _made: Failing())
    remember(banked, {"text": "a harbour"})
    assert [one.text for one in recall_memories(banked, Query(text="harbour")).memories] == [
        "a harbour"
    ]


def test_a_bank_that_is_open_for_reading_is_not_written_to(banked: OpenBank) -> None:
    """Asked as it is."""
    remember(banked, {"text": "a harbour"})
    with open_bank(load_settings(), "b") as reading:
        assert found(reading, "harbour").by_words == 1
    told = stats(banked).vectors
    assert told is not None
    assert told.missing == 1


def test_a_question_of_the_command_makes_them_first(banked: OpenBank) -> None:
    """Opened for reading when there is nothing to do, and for writing when there is."""
    for writes in (False, True):
        with step.open_bank_for_query(load_settings(), "b", "tea") as bank:
            assert bank.ledger.writes == writes
            found(bank, "tea")
        remember(banked, {"text": "a harbour"})
    with step.open_bank_for_query(load_settings(), "b", "") as bank:
        assert not bank.ledger.writes


def test_deleting_and_restoring_make_nothing_twice(banked: OpenBank) -> None:
    """What has its vector still keeps it."""
    with banked.ledger.reading() as view:
        some = [one.record.id for one in view.scan(CURRENT)][:5]
    forget(banked, some)
    restore(banked, some)
    assert step.keep_up(banked) == 0


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


def test_a_killed_transfer_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each of its parts: nothing is used before all is there, nothing made twice."""
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
