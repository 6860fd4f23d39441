"""Memories without a text: found, named, refused or counted, never silently empty."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, texts

import satchel
from satchel.artifact.verification import Outcome
from satchel.errors import MalformedError
from satchel.model.records import Entry
from satchel.ports.rows import Filter

_FOLDER = Path(__file__).parent.parent / "data" / "chroma-folder"


def _get(path: Path, documents: list[str | None], metadatas: list[Any]) -> Path:
    ids = [f"r{number}" for number in range(len(documents))]
    path.write_text(json.dumps({"ids": ids, "documents": documents, "metadatas": metadatas}))
    return path


def _points(path: Path, *payloads: dict[str, Any] | None) -> Path:
    rows = [{"id": number, "payload": one} for number, one in enumerate(payloads)]
    path.write_text(json.dumps({"points": rows}))
    return path


def _memories(bank: str = "b") -> list[Entry]:
    with opened(bank) as there, there.ledger.reading() as view:
        found = [one.model for one in view.scan(Filter())]
    return [one for one in found if isinstance(one, Entry)]


def test_the_text_of_mem0_in_chroma_is_found(tmp_path: Path) -> None:
    """Mem0 stores the text of a Chroma record in its member ``data``, without a document."""
    path = _get(tmp_path / "c.json", [None], [{"data": "Bo likes tea", "user_id": "bo"}])
    done = bring(path)
    assert texts() == ["Bo likes tea"]
    assert (done.unaccepted, done.losses) == (0, [])
    assert satchel.Satchel.open().bank("b").recall("tea").memories


def test_the_text_of_mem0_in_a_chroma_database_is_found(tmp_path: Path) -> None:
    """The database of a PersistentClient is read by the same rule."""
    shutil.copytree(_FOLDER, tmp_path / "c")
    with closing(sqlite3.connect(tmp_path / "c" / "chroma.sqlite3")) as database, database:
        database.execute("UPDATE embedding_metadata SET key = 'data' WHERE key = 'chroma:document'")
    bring(_FOLDER, "before", skip_bad=True)
    bring(tmp_path / "c", skip_bad=True)
    assert texts() == texts("before")
    assert all(texts())


@pytest.mark.parametrize("named", ["text", "data", "body", "page_content", "fact"])
def test_a_usual_text_member_is_found_and_written_back(tmp_path: Path, named: str) -> None:
    """Convert and export write the row back unchanged."""
    path = _get(tmp_path / "c.json", [None, "doc"], [{named: "alpha beta", "n": 1}, {"n": 2}])
    satchel.convert(path, tmp_path / "d.json", from_="chroma_get", to="chroma_get", unsigned=True)
    assert json.loads((tmp_path / "d.json").read_bytes()) == json.loads(path.read_bytes())
    bring(path)
    satchel.Satchel.open().bank("b").export(tmp_path / "e.json", to="chroma_get")
    assert json.loads((tmp_path / "e.json").read_bytes()) == json.loads(path.read_bytes())


def test_an_empty_document_does_not_hide_the_text(tmp_path: Path) -> None:
    """A member with a text has precedence over an empty one."""
    bring(_get(tmp_path / "c.json", [""], [{"data": "Bo likes tea"}]), "c")
    bring(_points(tmp_path / "q.json", {"text": " ", "memory": "Bo drinks tea"}), "q")
    assert (texts("c"), texts("q")) == (["Bo likes tea"], ["Bo drinks tea"])


@pytest.mark.parametrize("kind", ["chroma", "qdrant"])
def test_a_row_without_a_known_text_member_is_refused(tmp_path: Path, kind: str) -> None:
    """The error lists possible members, and the option that selects one."""
    row = {"inhalt": "Bo trinkt gerne Tee", "lang": "de"}
    path = tmp_path / "f.json"
    path = _get(path, [None], [row]) if kind == "chroma" else _points(path, row)
    with pytest.raises(MalformedError) as caught:
        bring(path)
    assert "no text" in str(caught.value)
    assert "--text-member inhalt" in str(caught.value.hint)
    done = bring(path, text_member="inhalt")
    assert texts() == ["Bo trinkt gerne Tee"]
    assert done.unaccepted == 0
    assert _memories()[0].metadata == {"lang": "de"}


def test_rows_without_text_are_skipped_and_counted_when_asked(tmp_path: Path) -> None:
    """They are a loss, so that the exit status is 1."""
    path = _points(tmp_path / "q.json", {"text": "kept"}, {"n": 1}, None)
    done = bring(path, skip_bad=True)
    assert texts() == ["kept"]
    assert (len(done.refused), done.unaccepted) == (2, 2)
    assert "Complete: nothing was lost" not in json.dumps([one.notes for one in done.accounts])


def test_the_text_member_option_has_precedence(tmp_path: Path) -> None:
    """The member that would be detected stays in the metadata."""
    bring(_points(tmp_path / "q.json", {"text": "A title", "inhalt": "long"}), text_member="inhalt")
    (entry,) = _memories()
    assert (entry.text, entry.metadata) == ("long", {"text": "A title"})


def test_vectors_are_kept_with_a_selected_text_member(tmp_path: Path) -> None:
    """They belong to that text."""
    path = tmp_path / "q.json"
    row = {"id": 1, "payload": {"inhalt": "Tee"}, "vector": [0.5, 0.25]}
    path.write_text(json.dumps({"points": [row]}))
    bring(path, text_member="inhalt")
    done = (
        satchel.Satchel.open()
        .bank("b")
        .export(tmp_path / "o.json", to="qdrant_points", accept_loss=["all"])
    )
    assert json.loads((tmp_path / "o.json").read_bytes())["points"][0]["vector"] == [0.5, 0.25]
    assert any(loss.name == "text/inhalt" for loss in done.losses)


def test_a_mem0_export_read_as_points_is_refused(tmp_path: Path) -> None:
    """A wrong format does not make empty memories."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps([{"id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "memory": "x"}]))
    with pytest.raises(MalformedError, match="no text"):
        bring(path, source_format="qdrant_points")


def _agent_file(path: Path, *vectors: dict[str, Any]) -> Path:
    agent: dict[str, Any] = {"id": "a", "name": "a", "model": None, "config": {}}
    memory = {"vectors": list(vectors)}
    path.write_text(json.dumps({"version": 1, "nous": agent, "memory": memory}))
    return path


def test_a_null_text_in_an_agent_file_is_a_missing_text(tmp_path: Path) -> None:
    """The text member is present, so no other member is suggested."""
    row = {"id": "1", "text": None, "metadata": {"lang": "de"}}
    done = bring(_agent_file(tmp_path / "a.agent.json", row), source_format="aletheia")
    assert [(one.text, one.metadata) for one in _memories()] == [(None, {"lang": "de"})]
    assert done.notes == ["memories without text at their source: 1 (1)"]


def test_a_row_of_an_agent_file_without_the_text_member_is_refused(tmp_path: Path) -> None:
    """Another member may be the text; a skipped row is counted."""
    rows = {"id": "1", "metadata": {"inhalt": "Tee"}}, {"id": "2", "text": "tea", "metadata": {}}
    path = _agent_file(tmp_path / "a.agent.json", *rows)
    with pytest.raises(MalformedError, match="no text") as caught:
        bring(path, source_format="aletheia")
    assert "--text-member inhalt" in str(caught.value.hint)
    done = bring(path, source_format="aletheia", skip_bad=True)
    assert (texts(), done.unaccepted) == (["tea"], 1)


def test_an_empty_text_is_reported_in_the_receipt(tmp_path: Path) -> None:
    """It is imported unchanged."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps([{"id": "1", "memory": ""}, {"id": "2", "memory": "tea"}]))
    done = bring(path)
    assert done.notes == ["memories without text at their source: 1 (1)"]
    assert done.accounts[0].notes == done.notes


def test_an_empty_text_of_a_row_is_a_loss(tmp_path: Path) -> None:
    """Another member may be the text."""
    done = bring(_points(tmp_path / "q.json", {"text": "", "inhalt": "Tee"}))
    assert [(one.name, one.count, one.examples) for one in done.losses] == [("text", 1, ["0"])]
    assert done.unaccepted == 1
    assert bring(tmp_path / "q.json", "other", accept_loss=("text",)).unaccepted == 0


_INTO = ["o.pam.jsonl", "o.pam", "o.pam.cbor.gz"]


@pytest.mark.parametrize("name", _INTO)
@pytest.mark.parametrize("kind", ["chroma", "qdrant"])
def test_a_conversion_into_an_artifact_refuses_rows_without_text(
    tmp_path: Path, kind: str, name: str
) -> None:
    """The rule is that of an import, since the artifact can be imported."""
    row = {"inhalt": "Bo trinkt gerne Tee", "lang": "de"}
    path, out = tmp_path / "f.json", tmp_path / name
    path = _get(path, [None], [row]) if kind == "chroma" else _points(path, row)
    form = "chroma_get" if kind == "chroma" else "qdrant_points"
    with pytest.raises(MalformedError, match="no text") as caught:
        satchel.convert(path, out, from_=form, unsigned=True)
    assert "--text-member inhalt" in str(caught.value.hint)
    assert not out.exists()
    done = satchel.convert(path, out, from_=form, unsigned=True, text_member="inhalt")
    assert done.lost == 0
    bring(out, unsafe_accept=frozenset({Outcome.UNSIGNED}))
    assert texts() == ["Bo trinkt gerne Tee"]


def test_a_conversion_into_an_artifact_counts_skipped_rows_and_empty_texts(
    tmp_path: Path,
) -> None:
    """As an import does: both are losses."""
    path = _points(tmp_path / "q.json", {"text": "kept"}, {"n": 1}, {"text": "", "inhalt": "Tee"})
    done = satchel.convert(
        path, tmp_path / "o.pam.jsonl", from_="qdrant_points", unsigned=True, skip_bad=True
    )
    assert (len(done.refused), done.records["semantic"]) == (1, 2)
    assert ("text", 1) in {(one.name, one.count) for one in done.losses}
    assert done.unaccepted == 2


def test_a_conversion_into_an_artifact_reports_empty_texts(tmp_path: Path) -> None:
    """They are converted unchanged, and a note counts them."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps([{"id": "1", "memory": ""}, {"id": "2", "memory": "tea"}]))
    done = satchel.convert(path, tmp_path / "o.pam.jsonl", from_="mem0", unsigned=True)
    assert "memories without text at their source: 1 (1)" in done.notes
