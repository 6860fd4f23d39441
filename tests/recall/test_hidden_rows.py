"""Rows that only meaning nominates: an edit of their columns hides none of them."""

from pathlib import Path

import apsw
import pytest
from recall_kit import NOW, Remembering

from satchel.errors import VerificationError
from satchel.ledger import columns
from satchel.ledger.ledger import Ledger
from satchel.model.records import Edge, Semantic, Status
from satchel.recall.engine import recall
from satchel.recall.query import Query
from satchel.recall.vector_index import fill
from satchel.stores.sqlite import SqliteStore
from tests.recall.test_hybrid import Topics, topics

EDITS = {
    "retired": "UPDATE record SET retired = 5 WHERE id = ?1",
    "held": "UPDATE record SET hold = 1 WHERE id = ?1",
    "type": "UPDATE record SET type = CASE type WHEN 'edge' THEN 'semantic' ELSE 'edge' END"
    " WHERE id = ?1 OR type = 'edge'",
}


@pytest.mark.parametrize("large", [0, 1 << 20])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_column_does_not_hide_a_nearest_memory(
    tmp_path: Path, edit: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large bank, whose rows are verified as they are read, and in a small one."""
    monkeypatch.setattr(columns, "_LARGE", large)
    path = tmp_path / "a.db"
    bank = Remembering(SqliteStore(path))
    wanted, desk, _ = bank.add(
        Semantic(text="Ada likes sushi"),
        Semantic(text="the desk is grey"),
        Semantic(text="a report"),
    )
    bank.add(Edge(source=desk.id, target="grey", kind="is"))
    fill(bank.store, bank.ledger, Topics())

    def found() -> list[str | None]:
        ledger = Ledger(SqliteStore(path), bank.ledger.bank)
        with ledger.reading() as view:
            asked = recall(view, Query(text="dinner"), now=lambda: NOW, embedders=topics)
        return [hit.entry.text for hit in asked.hits]

    assert found() == ["Ada likes sushi"]
    connection = apsw.Connection(str(path))
    connection.execute(EDITS[edit], (bytes.fromhex(wanted.id.removeprefix("blake3:")),))
    assert connection.total_changes() > 0
    connection.close()
    with pytest.raises(VerificationError):
        found()


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_retired_memories_are_omitted_from_nearest_results(
    tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log retired them, so nothing is refused."""
    monkeypatch.setattr(columns, "_LARGE", large)
    bank = Remembering(SqliteStore(tmp_path / "a.db"))
    gone, kept = bank.add(Semantic(text="Ada likes sushi"), Semantic(text="Bela likes tea"))
    fill(bank.store, bank.ledger, Topics())
    bank.add(Status(target=gone.id, state="deleted"))
    with bank.ledger.reading() as view:
        asked = recall(view, Query(text="dinner"), now=lambda: NOW, embedders=topics)
    assert [hit.logged.record.id for hit in asked.hits] == [kept.id]
