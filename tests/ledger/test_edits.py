"""T10 to T15: an edit of one value at rest changes no answer unnoticed, and doctor finds it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bank_kit import filled, keep, owner

from satchel.actions.banks import create_bank
from satchel.actions.config import Settings, load_settings
from satchel.actions.memories.changing import Edit as Change
from satchel.actions.memories.changing import forget, update
from satchel.actions.sessions.branching import create_checkpoint
from satchel.actions.sessions.recording import Beginning, begin
from satchel.actions.tokens.issuing import issue_token
from satchel.actions.waking.quarantining import quarantine
from satchel.conformance import edits
from satchel.continuity.drafting import Said
from satchel.ledger import columns, fold_cache
from satchel.memory.records import Edge, FileVersion
from satchel.ports.vectors import Generation
from satchel.seal.sealing import seal

_QUICK = ("record", "link")
REMEMBERING = [(1, columns._LARGE), (256, columns._LARGE), (256, 0)]


def filled_store(settings: Settings) -> tuple[str, str]:
    """Make a store with something in each table; return a bank and a memory of it."""
    with filled() as bank:
        home = bank.id
    create_bank(settings, "other", owner())
    with filled("other") as other:
        keep(other, "the wombat of another", scope={"user": "u0"})
    with filled(home) as bank:
        wanted = keep(
            bank,
            "the wombat sleeps",
            scope={"user": "u0", "agent": "a0", "run": "r0", "app": "p0"},
            kind="fact",
            key="k0",
            tags=["t0"],
        )
        child = keep(bank, "a child of the wombat", scope={"user": "u0"}, parents=[wanted])
        gone = keep(bank, "a wombat that is forgotten", scope={"user": "u1"})
        forget(bank, [gone])
        keep(bank, "an episode of a wombat", type="episodic", scope={"run": "r0"})
        keep(bank, "a fact", scope={"user": "u1", "agent": "a1"}, kind="fact", key="k1")
        held = keep(bank, "a wombat that is held back", scope={"user": "u0"})
        quarantine(bank, [held])
        keep(bank, "a wombat for a while", expires_at="2020-01-01T00:00:00Z")
        update(bank, child, Change(members={"text": "another child of the wombat"}))
        begun = begin(bank, Beginning(name="talk", user="u0"), [Said(role="user", content="hi")])
        create_checkpoint(bank, begun.session)
        begin(bank, Beginning(name="another talk"), [Said(role="user", content="wombat?")])
        issue_token(bank, bearer=True, everything=True, expires="1h")
        bank.ledger.append([seal(FileVersion(path="/notes.md", text="a wombat"))])
        edge = Edge(source=wanted, target=child, kind="similar_to")
        bank.ledger.append([seal(edge)], side={"beside": b"value"})
        with bank.store.writing() as writing:
            if bank.store.traits.vectors:
                made = Generation("model", 2, 0)
                writing.vectors.put(bank.id, made, {wanted: [1.0, 2.0], child: [2.0, 1.0]})
            writing.blobs.put(bank.id, [b"bytes of a file"])
            writing.blobs.put(bank.id, [b"bytes of another"])
        return bank.id, wanted


def _failures(found: Iterator[edits.Outcome]) -> list[str]:
    wrong, taken = list[str](), 0
    for one in found:
        taken += 1
        if one.got_through or one.is_missed:
            row = {name: str(value)[:30] for name, value in one.edit.rows[0].items()}
            wrong.append(
                f"{one.edit.class_} {one.edit.name}: through {sorted(one.got_through)},"
                f" found {one.found}, {row}"
            )
    assert taken
    print("\n".join(wrong))  # noqa: T201 - all of them
    return wrong


@pytest.mark.parametrize(("worth_remembering", "large"), REMEMBERING)
def test_no_single_edit_of_rows_and_links_gets_through_in_sqlite(
    worth_remembering: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of each of the two tables; also where this machine remembers what the log said.

    And in a bank that is large, where rows are verified as they are met.
    """
    monkeypatch.setattr(fold_cache, "_MANY", worth_remembering)
    monkeypatch.setattr(columns, "_LARGE", large)
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.SqliteTables(Path(settings.store))
    some = (one for one in edits.edits(tables, rows=1) if one.table in _QUICK)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("worth_remembering", "large"), REMEMBERING)
def test_no_single_edit_of_any_table_gets_through_in_sqlite(
    worth_remembering: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column of each table, shadow tables of the index of words included."""
    monkeypatch.setattr(fold_cache, "_MANY", worth_remembering)
    monkeypatch.setattr(columns, "_LARGE", large)
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.SqliteTables(Path(settings.store))
    some = edits.edits(tables)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_no_single_edit_of_any_table_gets_through_in_postgresql(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column of each table; the attacker owns the schema."""
    mark = "&" if "?" in postgres else "?"
    monkeypatch.setenv("SATCHEL_STORE", f"{postgres}{mark}schema=attacked")
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.PostgresTables(postgres, "attacked")
    try:
        some = edits.edits(tables, rows=1)
        assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []
    finally:
        tables.close()


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_no_single_edit_of_any_table_gets_through_in_ladybug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column of each table of nodes and relations."""
    monkeypatch.setenv("SATCHEL_STORE", f"ladybug:///{tmp_path / 'graph'}")
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.LadybugTables(tmp_path / "graph")
    some = edits.edits(tables, rows=1)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []
