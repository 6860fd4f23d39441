"""T10 to T15: every edit of one stored value is detected by reads or by ``doctor``."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from bank_kit import filled, keep, owner

from satchel.admin.bank_health import check_banks
from satchel.bank.banks import create_bank
from satchel.bank.changes import MemoryEdit as Change
from satchel.bank.changes import forget, update
from satchel.bank.checks import Check
from satchel.bank.token_operations import issue_token
from satchel.config.settings import Settings, load_settings
from satchel.conformance import edits
from satchel.crypto.sealed_records import seal
from satchel.ledger import columns, projection
from satchel.model.records import Edge, FileVersion
from satchel.model.text import Message
from satchel.ports.vectors import Generation
from satchel.rehydrate.quarantine import quarantine
from satchel.sessions.branches import create_checkpoint
from satchel.sessions.record import NewSession, begin
from satchel.stores.vectors import SEQ_MASK

_QUICK = ("record", "link")
REMEMBERING = [(1, columns._LARGE), (256, columns._LARGE), (256, 0)]


def filled_store(settings: Settings) -> tuple[str, str]:
    """Make a store with data in each table; return a bank and one of its memories."""
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
        begun = begin(
            bank, NewSession(name="talk", user="u0"), [Message(role="user", content="hi")]
        )
        create_checkpoint(bank, begun.session)
        begin(bank, NewSession(name="another talk"), [Message(role="user", content="wombat?")])
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


def _failures(found: Iterator[edits.EditOutcome]) -> list[str]:
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


@pytest.fixture
def settings() -> Settings:
    """A SQLite store with data in each table, which passes ``doctor``."""
    found = load_settings()
    filled_store(found)
    assert not edits.is_found(found)
    return found


def _problems_after(settings: Settings, *statements: str) -> list[Check]:
    """Edit the store and return the problems that ``doctor`` finds."""
    connection = apsw.Connection(settings.store)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return [check for check in check_banks(settings) if check.state == "problem"]


@pytest.mark.parametrize("change", ["none", "another word", "another order"])
def test_attack_replaced_index_words_are_detected(settings: Settings, change: str) -> None:
    """Only in the full-text index, with the same number of words as before."""
    connection = apsw.Connection(settings.store)
    ((place,),) = connection.execute(
        "SELECT place FROM record WHERE instr(body, 'the wombat sleeps') > 0 ORDER BY 1 LIMIT 1"
    )
    connection.execute("CREATE VIRTUAL TABLE temp.listed USING fts5vocab(main, words, instance)")
    found = connection.execute('SELECT term FROM listed WHERE doc = ? ORDER BY "offset"', (place,))
    words = [term for (term,) in found]
    assert len(words) > 2
    if change == "another word":
        words[0] = "koala"
    elif change == "another order":
        words.reverse()
    connection.execute("DELETE FROM words WHERE rowid = ?", (place,))
    connection.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (place, " ".join(words)))
    connection.close()
    problems = (
        []
        if change == "none"
        else [f"record {place & SEQ_MASK} cannot be found by its ID or words"]
    )
    assert [check.detail for check in _problems_after(settings)] == problems


@pytest.mark.in_check(4)
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "INSERT INTO words (rowid, terms) VALUES ((9 << 40) + 1, 'x')",
            "words that belong to no bank",
        ),
        (
            "INSERT INTO vector SELECT (9 << 40) + 1, 4, x'00000000'",
            "vectors that belong to no generation",
        ),
        ("UPDATE generation SET bank = 9", "vectors that belong to no bank"),
        ("INSERT INTO piece VALUES (9 << 24, x'00')", "pieces of files that belong to no file"),
        ("INSERT INTO blob VALUES (9, 9, x'00', 1)", "files that belong to no bank"),
        ("INSERT INTO blob VALUES (9, 1, NULL, 1)", "files without a digest"),
        ("INSERT INTO node VALUES (9 << 41, x'00')", "nodes of trees that belong to no bank"),
        ("INSERT INTO link VALUES (9, 'a', 'b', 'c', 9)", "links that belong to no bank"),
        ("UPDATE words_data SET block = x'0101' WHERE id = 1", "counts other words than it has"),
        ("INSERT INTO words_config VALUES ('rank', 'x()')", "settings that are not ours"),
    ],
)
def test_attack_orphaned_rows_are_reported(settings: Settings, statement: str, said: str) -> None:
    """By plain ``doctor``, though no answer depends on them."""
    problems = _problems_after(settings, statement)
    assert problems
    assert [check for check in problems if said in check.detail], problems


def test_doctor_notes_files_with_missing_bytes(settings: Settings) -> None:
    """A bank copied without its files is sound; the missing bytes are reported as a note."""
    with filled("other") as bank:
        with bank.store.writing() as writing:
            digest = writing.blobs.put(bank.id, [b"a picture"])
        bank.ledger.append([seal(FileVersion(path="/a.png", blob=digest))])
    assert not [one for one in check_banks(settings) if "files are not in" in one.detail]
    with filled("other") as bank, bank.store.writing() as writing:
        writing.blobs.drop(bank.id, digest)
    (note,) = [one for one in check_banks(settings) if "files are not in" in one.detail]
    assert (note.state, note.name) == ("note", bank.id)
    assert "the bytes of 1 files are not in the store" in note.detail


@pytest.mark.in_check(1)
@pytest.mark.parametrize(("worth_remembering", "large"), REMEMBERING)
def test_every_single_edit_of_rows_and_links_is_detected_in_sqlite(
    worth_remembering: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of each of the two tables, also with cached statuses and in a large bank.

    In a large bank, rows are verified as they are read.
    """
    monkeypatch.setattr(projection, "_MANY", worth_remembering)
    monkeypatch.setattr(columns, "_LARGE", large)
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.SqliteTables(Path(settings.store))
    some = (one for one in edits.edits(tables, rows=1) if one.table in _QUICK)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("worth_remembering", "large"), REMEMBERING)
def test_every_single_edit_of_any_table_is_detected_in_sqlite(
    worth_remembering: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column of each table, including the shadow tables of the full-text index."""
    monkeypatch.setattr(projection, "_MANY", worth_remembering)
    monkeypatch.setattr(columns, "_LARGE", large)
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.SqliteTables(Path(settings.store))
    some = edits.edits(tables)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_every_single_edit_of_any_table_is_detected_in_postgresql(
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
def test_every_single_edit_of_any_table_is_detected_in_ladybug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each column of each table of nodes and relations."""
    monkeypatch.setenv("SATCHEL_STORE", f"ladybug:///{tmp_path / 'graph'}")
    settings = load_settings()
    bank, memory = filled_store(settings)
    tables = edits.LadybugTables(tmp_path / "graph")
    some = edits.edits(tables, rows=1)
    assert _failures(edits.outcomes(settings, tables, bank, memory, some)) == []
