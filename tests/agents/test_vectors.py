"""The vectors of an agent's memories in its file: where asked for, and used where they fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from whole_agents_kit import agent_file, arrive, leave, settings, syn, undo_import_into, written

from satchel.admin.statistics import stats
from satchel.bank.open_bank import open_bank
from satchel.inference.static_table import StaticTable
from satchel.recall.vector_updates import embed_bank
from satchel.transfer.export_records import ExportOptions

if TYPE_CHECKING:
    from pathlib import Path

    from satchel.agents.imports import AgentImportResult

WITH = ExportOptions(embeddings=True)


@pytest.fixture(autouse=True)
def only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no vector that nobody asks for; by a model that gives the same ones in each bank."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "static")


def embedded(folder: Path) -> None:
    """Make an agent whose memories have vectors."""
    syn(folder)
    with open_bank(settings(), "syn", writes=True) as bank:
        embed_bank(bank)


def reused(done: AgentImportResult) -> int:
    """Return how many vectors of a file were used."""
    assert done.memory is not None
    told = done.memory.banks[0].reused
    return 0 if told is None else told.reused


def test_vectors_are_included_on_request(tmp_path: Path) -> None:
    """Each in the row of its memory, as numbers; what made them is said before the memories."""
    embedded(tmp_path)
    done = leave("syn", tmp_path / "with.agent.json", export=WITH)
    leave("syn", tmp_path / "without.agent.json")
    memory = written(tmp_path / "with.agent.json")["memory"]
    assert [len(one["embedding"]) for one in memory["vectors"]] == [256, 256]
    assert memory["embeddings"]["dimensions"] == 256
    assert next(iter(memory)) == "embeddings"
    assert done.export.losses == []
    bare = written(tmp_path / "without.agent.json")["memory"]
    assert not any("embedding" in one for one in bare["vectors"])
    assert "embeddings" not in bare


def test_vectors_that_came_are_used_and_no_model_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the model that is used here, for the text that they were made of; the copy's go along."""
    embedded(tmp_path)
    leave("syn", tmp_path / "a.agent.json", export=WITH)
    with monkeypatch.context() as patch:
        patch.setattr(StaticTable, "embed", lambda *_: pytest.fail("nothing is to be embedded"))
        done = arrive(tmp_path / "a.agent.json", name="copy", embed=True)
    assert reused(done) == 2
    leave("copy", tmp_path / "b.agent.json", export=WITH)
    rows = [written(tmp_path / f"{one}.agent.json")["memory"] for one in "ab"]
    assert rows[0]["embeddings"] == rows[1]["embeddings"]
    first, second = ([one["embedding"] for one in row["vectors"]] for row in rows)
    assert first == second


@pytest.mark.parametrize("how", ["text", "model", "length", "maker", "huge"])
def test_a_vector_that_does_not_fit_is_not_used(tmp_path: Path, how: str) -> None:
    """A forged text, another model or length, or none: computed again; all is imported."""
    embedded(tmp_path)
    leave("syn", tmp_path / "a.agent.json", export=WITH)
    found = written(tmp_path / "a.agent.json")
    memory = found["memory"]
    if how == "maker":
        del memory["embeddings"]
    elif how == "model":
        memory["embeddings"]["model"] = "another"
    for one in memory["vectors"]:
        if how == "text":
            one["text"] += " Forged."
        elif how == "length":
            del one["embedding"][0]
        elif how == "huge":
            one["embedding"][0] = 1e39
    (tmp_path / "a.agent.json").write_text(json.dumps(found))
    done = arrive(tmp_path / "a.agent.json", name="copy", embed=True)
    assert reused(done) == 0
    with open_bank(settings(), "copy") as bank:
        vectors = stats(bank).vectors
        assert vectors is not None
        assert (vectors.count, vectors.missing) == (2, 0)


def test_an_embedding_that_nobody_says_the_model_of_stays_with_its_memory(tmp_path: Path) -> None:
    """As version 1 has it: kept, not used, and written back, also where the bank has its own."""
    vectors = [{"id": "v", "text": "tea", "metadata": {}, "embedding": [0.25, -0.5]}]
    arrive(agent_file(tmp_path / "a.agent.json", memory={"vectors": vectors}), name="a", embed=True)
    for name, options in (("with", WITH), ("without", ExportOptions())):
        done = leave("a", tmp_path / f"{name}.agent.json", export=options)
        assert done.export.losses == []
    (row,) = written(tmp_path / "without.agent.json")["memory"]["vectors"]
    assert row["embedding"] == [0.25, -0.5]
    (row,) = written(tmp_path / "with.agent.json")["memory"]["vectors"]
    assert (len(row["embedding"]), row["record"]["embedding"]) == (256, [0.25, -0.5])
    arrive(tmp_path / "with.agent.json", name="b")
    leave("b", tmp_path / "again.agent.json")
    (row,) = written(tmp_path / "again.agent.json")["memory"]["vectors"]
    assert row["embedding"] == [0.25, -0.5]
    undo_import_into("b")
