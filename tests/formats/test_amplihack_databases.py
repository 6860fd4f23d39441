"""amplihack's SQLite databases: cases outside of the shared suite."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from amplihack_kit import tables_in

from satchel.conformance.subject import Subject, record_set
from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, MalformedError, UsageError
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats

DATABASE, FLAT = formats["amplihack_db"], formats["amplihack_flat"]
SAMPLES = Path(__file__).parent.parent / "data" / "formats"
GOOD = SAMPLES / "amplihack_db" / "good-agent.db"


def read(path: Path, **how: Any) -> tuple[list[Sealed], ReadContext]:
    """Read a database."""
    reading = ReadContext(**how)
    return list(read_records(DATABASE, Location(path), reading)), reading


def changed(path: Path, *statements: str) -> Path:
    """Return a changed copy of the sample."""
    path.write_bytes(GOOD.read_bytes())
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


def test_a_written_database_has_the_schema_of_amplihack(tmp_path: Path) -> None:
    """Tables, columns, defaults and indexes; unlike theirs it is private."""
    with record_set(Subject("amplihack_db", DATABASE, GOOD.parent), GOOD) as records:
        DATABASE.write(records, Target(tmp_path / "x.db"), WriteContext(bank="harbour-agent"))
    path = tmp_path / "x.db"
    assert path.stat().st_mode & 0o777 == 0o600
    assert tables_in(path.read_bytes()) == tables_in(GOOD.read_bytes())
    with closing(sqlite3.connect(path)) as db:
        indexes = db.execute("SELECT count(*) FROM sqlite_schema WHERE sql LIKE 'CREATE INDEX%'")
        assert indexes.fetchone() == (14,)
        assert db.execute("PRAGMA user_version").fetchone() == (0,)


def test_rows_are_read_for_the_requested_agent(tmp_path: Path) -> None:
    """In amplihack, importing the file of A as B shows nothing (defect 11)."""
    found, _ = read(GOOD, agent="other")
    scopes = {one.model.scope.agent for one in found}  # type: ignore[union-attr]
    assert scopes == {"other"}

    two = "UPDATE semantic_memories SET agent_id = 'second' WHERE memory_id = 'sem-3'"
    path = changed(tmp_path / "x.db", two)
    owners = Counter(one.model.scope.agent for one in read(path)[0])  # type: ignore[union-attr]
    assert owners == {"harbour-agent": 9, "second": 1}, "an edge to another's is no edge"
    found, reading = read(path, agent="second")
    assert len(found) == 1
    assert reading.report.losses["row", "they belong to another agent"].count == 9
    with pytest.raises(MalformedError, match="of 2 agents"):
        read(path, agent="third")


def test_the_write_ahead_log_of_a_database_is_read(tmp_path: Path) -> None:
    """Amplihack copies only the file and loses it (defect 11)."""
    path = changed(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE semantic_memories SET content = 'newer' WHERE memory_id = 'sem-1'")
        db.commit()
        before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        texts = [one.value.get("text") for one in read(path)[0]]
        assert "newer" in texts
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_attack_a_write_ahead_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """It would be read from any file that the link names."""
    path = changed(tmp_path / "x.db")
    (tmp_path / "elsewhere").write_bytes(b"x")
    (tmp_path / "x.db-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="next to the database"):
        read(path)


_COMPUTED = """
    CREATE TABLE similar_to_edges (source_id, target_id, weight, metadata,
    slow AS (hex(zeroblob(1000000))))
"""
_ENDLESS = """
    CREATE VIEW supersedes_edges AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)
    SELECT i AS source_id, i AS target_id, i AS reason, i AS temporal_delta FROM n
"""


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE similar_to_edges RENAME COLUMN weight TO heavy",),
        (
            "DROP TABLE similar_to_edges",
            _COMPUTED,
        ),
        (
            "DROP TABLE supersedes_edges",
            _ENDLESS,
        ),
    ],
    ids=["other columns", "computed columns", "an endless view"],
)
def test_attack_a_schema_that_computes_its_rows_is_refused(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """No code in the schema of a hostile file runs."""
    with pytest.raises(MalformedError) as refusal:
        read(changed(tmp_path / "x.db", *statements))
    assert refusal.value.field in ("similar_to_edges", "supersedes_edges")


def test_attack_a_trigger_in_a_database_does_not_run(tmp_path: Path) -> None:
    """The file is opened read-only."""
    does = "BEGIN DELETE FROM episodic_memories; END"
    trigger = f"CREATE TRIGGER t AFTER INSERT ON semantic_memories {does}"
    assert len(read(changed(tmp_path / "x.db", trigger))[0]) == 11


def test_an_overwritten_page_is_detected(tmp_path: Path) -> None:
    """Amplihack accepts any file as a database (defect 11)."""
    data = bytearray(GOOD.read_bytes())
    place = data.rfind(b"sem-1")
    start = place - place % 512
    data[start : start + 512] = b"\xff" * 512
    path = tmp_path / "x.db"
    path.write_bytes(data)
    with pytest.raises(MalformedError, match="damaged"):
        read(path)


def test_rows_of_unknown_tables_are_counted(tmp_path: Path) -> None:
    """They are reported as lost."""
    _, reading = read(
        changed(tmp_path / "x.db", "CREATE TABLE mine (a)", "INSERT INTO mine VALUES (1)")
    )
    assert reading.report.losses["table", "not an amplihack table"].examples == ["mine"]


def test_a_malformed_row_is_reported_and_can_be_skipped(tmp_path: Path) -> None:
    """By table, row and column."""
    path = changed(
        tmp_path / "x.db", "UPDATE semantic_memories SET tags = '[1]' WHERE memory_id = 'sem-3'"
    )
    with pytest.raises(MalformedError) as refusal:
        read(path)
    assert refusal.value.field == "semantic_memories/2/tags/0"
    found, reading = read(path, skip_bad=True)
    assert len(found) == 9
    assert len(reading.report.refused) == 2


def test_flat_memory_is_read_and_never_written(tmp_path: Path) -> None:
    """Types, agents and sessions are preserved; importance becomes salience."""
    path = SAMPLES / "amplihack_flat" / "good-memory.db"
    found = list(read_records(FLAT, Location(path), ReadContext()))
    kinds = [(one.type, one.value.get("kind")) for one in found]
    assert kinds.count(("session_event", None)) == 3
    assert kinds[3:] == [
        ("semantic", "learning"),
        ("episodic", "conversation"),
        ("semantic", "decision"),
    ]
    assert found[3].value["salience"] == 0.5
    assert found[3].value["scope"] == {"agent": "builder", "run": "sess-A"}
    subject = Subject("amplihack_flat", FLAT, path.parent)
    with record_set(subject, path) as records, pytest.raises(UsageError, match="read-only"):
        FLAT.write(records, Target(tmp_path / "x.db"), WriteContext())


@pytest.mark.shared
def test_real_databases_are_read(shared_data: Path, tmp_path: Path) -> None:
    """The hierarchical one has each edge twice, as amplihack's merge left it (defect 2)."""
    raw = shared_data / "amplihack" / "raw"
    found, reading = read(raw / "amplihack-rs-sqlite-raw.db")
    assert Counter(one.type for one in found) == {"semantic": 7, "episodic": 3, "edge": 28}
    assert reading.report.total == 0
    with record_set(
        Subject("amplihack_db", DATABASE, raw), raw / "amplihack-rs-sqlite-raw.db"
    ) as records:
        DATABASE.write(records, Target(tmp_path / "x.db"), WriteContext())
    before, after = (
        tables_in(one.read_bytes())
        for one in (raw / "amplihack-rs-sqlite-raw.db", tmp_path / "x.db")
    )
    assert after == before
    flat = list(read_records(FLAT, Location(raw / "amplihack-rs-flat-memory.db"), ReadContext()))
    assert Counter(one.type for one in flat) == {"semantic": 2, "session_event": 2}


def test_a_database_truncated_within_a_page_is_refused(tmp_path: Path) -> None:
    """SQLite itself reads the missing part as zeros."""
    path = tmp_path / "x.db"
    path.write_bytes(GOOD.read_bytes()[:-17])
    with pytest.raises(MalformedError, match="truncated"):
        read(path)
