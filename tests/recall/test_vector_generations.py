"""Vector generations: made once, resumed, and never mixed."""

import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, rows, texts, write

from satchel.admin.statistics import stats
from satchel.bank.changes import forget
from satchel.errors import InferenceError
from satchel.ledger.view import View
from satchel.recall import vector_index
from satchel.recall.vector_index import current_generation, fill, pending_generation
from satchel.recall.vector_updates import embed_bank


class LengthEmbedder:
    """An embedder whose vectors hold the length of a text, for a limited number of texts."""

    dimensions = 2

    def __init__(self, revision: str = "1", model: str = "lengths", most: int = 10**6) -> None:
        self.revision, self.model, self.left = revision, model, most

    def embed(self, given: Sequence[str]) -> list[bytes]:
        """Return vectors, until it may no more."""
        self.left -= len(given)
        if self.left < 0:
            raise InferenceError("the server gave status 503")
        return [struct.pack("<2f", float(len(text)), 1.0) for text in given]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read eight memories at a time."""
    monkeypatch.setattr(vector_index, "_TOGETHER", 8)
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")  # vectors are made only on request


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Any]:
    """A bank of 30 memories."""
    bring(write(tmp_path / "a.json", rows(*((str(n), f"tea {n} " * (n + 1)) for n in range(30)))))
    with opened() as there:
        yield there


def vectors_by_generation(view: View) -> dict[Any, dict[str, tuple[float, ...]]]:
    """Return all vectors of a bank by generation."""
    ids = [one.record.id for one in view.scan(vector_index.CURRENT)]
    return {one: view.vectors(one, ids) for one in view.generations()}


def test_each_current_memory_gets_a_vector_once(bank: Any) -> None:
    """The second run has nothing to do."""
    first, second = (fill(bank.store, bank.ledger, LengthEmbedder()) for _ in range(2))

    assert (first.new, first.kept) == (30, 0)
    assert (second.new, second.kept, second.info) == (0, 30, first.info)
    with bank.ledger.reading() as view:
        assert current_generation(view) == first.info
        assert pending_generation(view) is None
        assert [len(found) for found in vectors_by_generation(view).values()] == [30]


def test_an_interrupted_generation_is_not_used_and_is_resumed(bank: Any) -> None:
    """Vectors that were paid for are not made again."""
    with pytest.raises(InferenceError):
        fill(bank.store, bank.ledger, LengthEmbedder(most=20))
    with bank.ledger.reading() as view:
        assert current_generation(view) is None
        assert pending_generation(view) is not None
    done = fill(bank.store, bank.ledger, LengthEmbedder(most=14))

    assert (done.new, done.kept) == (14, 16)


def test_rebuilding_keeps_the_old_vectors_until_the_new_ones_are_complete(bank: Any) -> None:
    """Queries in the meantime use one generation."""
    first = fill(bank.store, bank.ledger, LengthEmbedder())
    with pytest.raises(InferenceError):
        fill(bank.store, bank.ledger, LengthEmbedder(most=20), rebuild=True)
    with bank.ledger.reading() as view:
        assert current_generation(view) == first.info
        assert len(vectors_by_generation(view)[first.info.generation]) == 30
    done = fill(bank.store, bank.ledger, LengthEmbedder(), rebuild=True)

    assert (done.info.number, done.dropped) == (1, 30)
    with bank.ledger.reading() as view:
        assert {one.number for one in view.generations()} == {1}


@pytest.mark.parametrize(
    "other",
    [LengthEmbedder("2"), LengthEmbedder(model="other")],
    ids=["another revision", "another model"],
)
def test_another_model_begins_its_own_generation(bank: Any, other: LengthEmbedder) -> None:
    """Vectors of two models are never mixed, not even after one was abandoned."""
    with pytest.raises(InferenceError):
        fill(bank.store, bank.ledger, LengthEmbedder(most=20))
    done = fill(bank.store, bank.ledger, other)

    assert done.new == 30
    with bank.ledger.reading() as view:
        assert list(view.generations().values()) == [30]


def test_forgotten_memories_get_no_vector_and_new_ones_do(bank: Any, tmp_path: Path) -> None:
    """Only current memories need one; stats count the missing ones."""
    fill(bank.store, bank.ledger, LengthEmbedder())
    with bank.ledger.reading() as view:
        gone = next(iter(view.scan(vector_index.CURRENT))).record.id
    forget(bank, [gone])
    bring(write(tmp_path / "b.json", rows(("new", "something new"), ("too", "and this"))))

    found = stats(bank).vectors
    assert found is not None
    assert (found.model, found.count, found.missing) == ("lengths", 30, 2)
    assert fill(bank.store, bank.ledger, LengthEmbedder()).new == 2
    found = stats(bank).vectors
    assert found is not None
    assert found.missing == 0


def test_a_bank_without_vectors_reports_it(bank: Any) -> None:
    """No vectors are made until they are requested."""
    assert stats(bank).vectors is None


def test_damaged_vectors_are_rebuilt(bank: Any) -> None:
    """They are not verified, so nothing depends on them."""
    fill(bank.store, bank.ledger, LengthEmbedder())
    with bank.store.writing() as writing:
        writing.put_side(bank.id, {"vectors/used": b"{", "vectors/making": b"[]"})

    assert fill(bank.store, bank.ledger, LengthEmbedder()).new in (0, 30)
    with bank.ledger.reading() as view:
        assert current_generation(view) is not None


def test_word_weights_of_a_generation_do_not_change(bank: Any, tmp_path: Path) -> None:
    """Later vectors are comparable with the first; a note says when to rebuild all."""
    first = embed_bank(bank, "static-idf")
    many = rows(*((f"x{n}", f"coffee number {n}") for n in range(40)))
    bring(write(tmp_path / "b.json", many))
    with bank.ledger.reading() as view:
        before = current_generation(view)
    second = embed_bank(bank)
    with bank.ledger.reading() as view:
        assert current_generation(view) == before

    assert (first.made, second.made, second.kept) == (30, 40, 30)
    assert first.notes == []
    assert "--rebuild" in second.notes[0]
    assert embed_bank(bank, rebuild=True).notes == []


_EMBED = """
import os, signal, sys
from satchel.config.settings import load_settings
from satchel.recall.vector_updates import embed_bank
from satchel.bank.open_bank import open_bank as opened_bank
from satchel.recall import vector_index
vector_index._TOGETHER = 8
left = [int(sys.argv[1])]
put = vector_index._embed
def counting(*given):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(*given)
vector_index._embed = counting
with opened_bank(load_settings(), "b", writes=True) as bank:
    embed_bank(bank, "static-idf")
"""


def test_a_killed_run_is_resumed_with_the_same_vectors(bank: Any) -> None:
    """Killed at each part and resumed: the vectors are equal bit for bit."""
    for parts in (0, 1, 3):
        done = subprocess.run([sys.executable, "-c", _EMBED, str(parts)], check=False)
        assert done.returncode == -signal.SIGKILL
    embed_bank(bank, "static-idf")
    with bank.ledger.reading() as view:
        pieced = list(vectors_by_generation(view).values())
    embed_bank(bank, "static-idf", rebuild=True)

    with bank.ledger.reading() as view:
        assert list(vectors_by_generation(view).values()) == pieced
    assert len(pieced[0]) == 30 == len(texts())
