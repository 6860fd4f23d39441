"""Vectors of an agent's memories in its file: exported on request, reused if they fit."""

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
def manual_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed only on request, with a model that is deterministic."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "static")


def create_embedded_agent(folder: Path) -> None:
    """Create an agent whose memories have vectors."""
    syn(folder)
    with open_bank(settings(), "syn", writes=True) as bank:
        embed_bank(bank)


def reused_count(done: AgentImportResult) -> int:
    """Return how many vectors of a file were reused."""
    assert done.memory is not None
    told = done.memory.banks[0].reused
    return 0 if told is None else told.reused


def test_vectors_are_exported_on_request(tmp_path: Path) -> None:
    """In the row of each memory; the model is described before the memories."""
    create_embedded_agent(tmp_path)
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


def test_imported_vectors_of_the_same_model_are_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is embedded again, and the copy exports the same vectors."""
    create_embedded_agent(tmp_path)
    leave("syn", tmp_path / "a.agent.json", export=WITH)
    with monkeypatch.context() as patch:
        patch.setattr(StaticTable, "embed", lambda *_: pytest.fail("nothing is to be embedded"))
        done = arrive(tmp_path / "a.agent.json", name="copy", embed=True)
    assert reused_count(done) == 2
    leave("copy", tmp_path / "b.agent.json", export=WITH)
    rows = [written(tmp_path / f"{one}.agent.json")["memory"] for one in "ab"]
    assert rows[0]["embeddings"] == rows[1]["embeddings"]
    first, second = ([one["embedding"] for one in row["vectors"]] for row in rows)
    assert first == second


@pytest.mark.parametrize("how", ["text", "model", "length", "maker", "huge"])
def test_imported_vectors_that_do_not_fit_are_computed_again(tmp_path: Path, how: str) -> None:
    """A changed text, another model or length, no model, or a value out of range."""
    create_embedded_agent(tmp_path)
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
    assert reused_count(done) == 0
    with open_bank(settings(), "copy") as bank:
        vectors = stats(bank).vectors
        assert vectors is not None
        assert (vectors.count, vectors.missing) == (2, 0)


def test_an_embedding_without_a_model_is_preserved_but_not_used(tmp_path: Path) -> None:
    """It is exported again, also where the bank has vectors of its own."""
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
