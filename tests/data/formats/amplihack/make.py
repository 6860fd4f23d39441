"""Writes the samples of amplihack's three formats, and what each holds; again: no change.

Every name, text and number is invented. ``other-*`` are read, but not written as they were.
"""

import gzip
import json
import sqlite3
from copy import deepcopy
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
DATABASES = HERE.with_name("amplihack_db")
FLAT = HERE.with_name("amplihack_flat")
Row = dict[str, Any]


def fact(name: str, content: str, **more: Any) -> Row:
    """Return a semantic node."""
    row = {
        "memory_id": f"sem-{name}",
        "concept": "ferry timetable",
        "content": content,
        "confidence": 0.9,
        "source_id": "epi-1",
        "tags": ["ferry", "harbour"],
        "metadata": {"category": "semantic"},
        "created_at": "2026-05-04T03:02:01.000123+00:00",
        "entity_name": "",
    }
    return {**row, **more}


def episode(name: str, content: str, **more: Any) -> Row:
    """Return an episodic node."""
    row = {
        "memory_id": f"epi-{name}",
        "content": content,
        "source_label": "",
        "tags": [],
        "metadata": {},
        "created_at": "2026-05-04T03:02:00.500000+00:00",
    }
    return {**row, **more}


def ends(source: str, target: str, **more: Any) -> Row:
    """Return an edge."""
    return {"source_id": source, "target_id": target, **more}


def whole(**more: Any) -> Row:
    """Return a file of version 1.1, with right statistics."""
    made: Row = {
        "agent_name": "harbour-agent",
        "exported_at": "1777863721",
        "format_version": "1.1",
        "semantic_nodes": [
            fact("1", "The first ferry leaves at 6"),
            fact(
                "2",
                "The first ferry leaves at 7",
                metadata={
                    "category": "semantic",
                    "note": "read from the large board at the pier, twice",
                    "temporal_index": 2,
                },
                confidence=1.0,
            ),
            fact("3", 'Ödön keeps the keys 🔑 \\ "here"', entity_name="ödön", source_id=""),
        ],
        "episodic_nodes": [
            episode("1", "Read the timetable at the pier.", source_label="session:2026-05-04"),
            episode("2", "The harbour master phoned."),
        ],
        "similar_to_edges": [
            ends("sem-2", "sem-1", weight=0.75, metadata={"contradiction": True}),
            ends("sem-3", "sem-1", weight=1.0, metadata={}),
        ],
        "derives_from_edges": [
            ends("sem-1", "epi-1", extraction_method="llm_extraction", confidence=1.0),
            ends("sem-2", "epi-2", extraction_method="by hand", confidence=0.5),
        ],
        "supersedes_edges": [
            ends("sem-2", "sem-1", reason="Updated values: 7 vs 6", temporal_delta="index 1 → 2")
        ],
        "transitioned_to_edges": [
            ends("sem-2", "sem-1", from_value="6", to_value="7", turn=2, transition_type="numeric")
        ],
    }
    made |= {name: part for name, part in more.items() if name in made}
    counts = {
        f"{name.removesuffix('s')}_count": len(part)
        for name, part in made.items()
        if isinstance(part, list)
    }
    more = {name: part for name, part in more.items() if name not in made}
    return {**made, "statistics": counts, **more}


def odd() -> Row:
    """Return a file with all that is unusual and still well-formed."""
    return whole(
        agent_name="a/b \u202e agent",
        exported_at="whenever",
        semantic_nodes=[
            fact("1", "", created_at="yesterday", confidence=7.25, tags=[]),
            fact("1b", "naive", created_at="2026-05-04T03:02:01.5", metadata="", confidence=0),
            fact("finer", "digits", created_at="2026-05-04T03:02:01.123456789+02:00"),
            fact(
                "big",
                "numbers",
                metadata={
                    "big": 12345678901234567890123,
                    "$int": "no number",
                    "list": [None, True, 0.1, [{"$bytes": 1}]],
                },
                embedding=[0.25, -1e-9, 3],
                nothing=None,
            ),
            fact("both", "one id, a fact and an episode", source_id="no episode at all"),
        ],
        episodic_nodes=[
            episode("1", "text", unknown={"a": 1}),
            episode("x", "same id", memory_id="sem-both"),
        ],
        similar_to_edges=[
            ends("sem-1", "sem-1", weight=-3.5, metadata=[]),
            ends("sem-1", "sem-1b", weight=2, metadata=None, odd="member"),
            ends("sem-1", "sem-1b", weight=2, metadata=None, odd="member"),
        ],
        derives_from_edges=[
            ends("sem-both", "sem-both", extraction_method="", confidence=0.0),
            ends("sem-1", "sem-1b", extraction_method="of a fact", confidence=2**70),
        ],
        supersedes_edges=[],
        transitioned_to_edges=[
            ends(
                "sem-1", "epi-1", from_value="", to_value="", turn=-(2**53) - 1, transition_type=""
            )
        ],
        extra={"x": [1, {"y": None}], "big": 2**80},
    )


CORE: Row = {
    "agent_name": "harbour-agent",
    "edges": [
        ends("node-2", "node-1", relationship="SIMILAR_TO", weight=1.0, metadata={}),
        ends("node-2", "ep-1", relationship="MENTIONS", weight=0.5, metadata={"a": 1}),
    ],
    "episodes": [
        {
            "category": "episodic",
            "concept": "session:2026-05-04",
            "confidence": 1.0,
            "content": "Read the timetable.",
            "created_at": "2026-05-04T03:02:01.123456789+00:00",
            "metadata": {},
            "node_id": "ep-1",
            "source_id": "",
            "tags": [],
        }
    ],
    "nodes": [
        {
            "category": category,
            "concept": "ferry",
            "confidence": 0.9,
            "content": f"The ferry leaves at {hour}",
            "created_at": "2026-05-04T03:02:02.123456789+00:00",
            "metadata": {"temporal_index": 1},
            "node_id": f"node-{hour}",
            "source_id": "ep-1",
            "tags": ["ferry"],
        }
        for hour, category in ((1, "semantic"), (2, "procedural"))
    ],
    "statistics": {"total_edges": 2, "total_episodes": 1, "total_nodes": 2},
}


def version_1_0() -> Row:
    """Return a file of memory-lib."""
    made = whole(format_version="1.0", exported_at="2026-05-04T03:02:01.123456")
    del made["transitioned_to_edges"], made["statistics"]["transitioned_to_edge_count"]
    return made


def pretty(value: Any) -> bytes:
    """Return JSON as Rust writes it."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def changed(change: Any) -> bytes:
    """Return the usual file with something changed in it."""
    made = deepcopy(whole())
    change(made)
    return pretty(made)


def bad() -> dict[str, bytes]:
    """Return what has to be refused, by name."""
    good = pretty(whole())
    node = "semantic_nodes"
    deep = b"[" * 5000 + b"]" * 5000
    return {
        "agent-empty": changed(lambda made: made.update(agent_name="")),
        "agent-missing": changed(lambda made: made.pop("agent_name")),
        "agent-number": changed(lambda made: made.update(agent_name=1)),
        "concept-number": changed(lambda made: made[node][1].update(concept=1)),
        "confidence-text": changed(lambda made: made[node][1].update(confidence="high")),
        "confidence-true": changed(lambda made: made[node][1].update(confidence=True)),
        "cut": good[: len(good) // 2],
        "deep": good.replace(b'"category": "semantic"', b'"category": ' + deep, 1),
        "edge-list": changed(lambda made: made["similar_to_edges"].append([])),
        "edge-no-end": changed(lambda made: made["supersedes_edges"][0].pop("target_id")),
        "edge-turn-half": changed(lambda made: made["transitioned_to_edges"][0].update(turn=0.5)),
        "edges-object": changed(lambda made: made.update(similar_to_edges={})),
        "empty": b"",
        "id-empty": changed(lambda made: made[node][1].update(memory_id="")),
        "id-missing": changed(lambda made: made[node][1].pop("memory_id")),
        "id-null": changed(lambda made: made[node][1].update(memory_id=None)),
        "key-twice": good.replace(b'"concept"', b'"content"', 1),
        "lone-surrogate": good.replace(b"at 6", b"\\ud800", 1),
        "nodes-object": changed(lambda made: made.update({node: {}})),
        "not-an-object": b"[1]",
        "not-utf8": good.replace(b"at 6", b"\xff", 1),
        "nothing-in-it": pretty({name: [] for name in whole() if name.endswith("_nodes")}),
        "other-object": b'{"name": "left-pad", "agent_name": "x"}',
        "tag-number": changed(lambda made: made[node][1].update(tags=["a", 1])),
        "tags-text": changed(lambda made: made[node][1].update(tags="a")),
        "trailing": good + b" {}",
        "two-shapes": pretty({**CORE, node: []}),
        "version-missing": changed(lambda made: made.pop("format_version")),
        "version-number": changed(lambda made: made.update(format_version=1.1)),
        "version-unknown": changed(lambda made: made.update(format_version="9.9")),
    }


FLAT_SCHEMA = """
PRAGMA page_size = 512;
CREATE TABLE memory_entries (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    memory_type TEXT NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL, content_hash TEXT,
    metadata TEXT NOT NULL DEFAULT '{}', tags TEXT DEFAULT NULL, importance INTEGER DEFAULT NULL,
    created_at TEXT NOT NULL, accessed_at TEXT NOT NULL, expires_at TEXT DEFAULT NULL,
    parent_id TEXT DEFAULT NULL);
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL,
    last_accessed TEXT NOT NULL, metadata TEXT NOT NULL DEFAULT '{}');
CREATE TABLE session_agents (session_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    first_used TEXT NOT NULL, last_used TEXT NOT NULL, PRIMARY KEY (session_id, agent_id));
"""
NANOSECONDS = "2026-05-04T03:02:01.123456789+00:00"
WHEN = "2026-05-04T03:02:01.123456+00:00"
LONG = '{"task":"a text that is longer than all the others in the file, for those who look for it"}'


def flat(path: Path, *more: str) -> None:
    """Write a flat database."""
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript(FLAT_SCHEMA)
    seen = ("sess-A", WHEN, NANOSECONDS, '{"a":1}'), ("sess-B", NANOSECONDS, NANOSECONDS, "{}")
    db.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", seen)
    who = [("sess-A", one, WHEN, WHEN) for one in ("builder", "reviewer")]
    db.executemany("INSERT INTO session_agents VALUES (?, ?, ?, ?)", who)
    memories = [
        (
            "mem-1",
            "sess-A",
            "builder",
            "learning",
            "Use",
            "Use the pier",
            None,
            LONG,
            '["pier"]',
            5,
            NANOSECONDS,
            NANOSECONDS,
            None,
            None,
        ),
        (
            "mem-2",
            "sess-A",
            "reviewer",
            "conversation",
            "Hi",
            "Hello",
            "hash",
            "{}",
            None,
            77,
            WHEN,
            WHEN,
            WHEN,
            "mem-1",
        ),
        (
            "mem-3",
            "sess-B",
            "builder",
            "decision",
            "",
            "",
            None,
            "[1]",
            "[1]",
            None,
            "soon",
            WHEN,
            "never",
            None,
        ),
    ]
    marks = ", ".join("?" * 14)
    db.executemany(f"INSERT INTO memory_entries VALUES ({marks})", memories)  # noqa: S608 - our own
    for statement in more:
        db.execute(statement)
    db.commit()
    db.close()


def database(path: Path, *more: str) -> None:
    """Write a hierarchical database, of pages that are small."""
    from satchel.conformance.subject import record_set

    found = Subject("amplihack", formats["amplihack"], HERE)
    subject = Subject("amplihack_db", formats["amplihack_db"], DATABASES)
    with (
        record_set(found, HERE / "good-rust.json") as records,
        subject.written(records, "x.db") as (made, _),
    ):
        path.unlink(missing_ok=True)
        db = sqlite3.connect(made)
        for statement in more:
            db.execute(statement)
        db.commit()
        db.execute("PRAGMA page_size = 512")
        db.execute(f"VACUUM INTO '{path}'")
        db.close()


def main() -> None:
    """Write them all."""
    (HERE / "good-rust.json").write_bytes(pretty(whole()))
    python = whole(exported_at="2026-05-04T03:02:01.123456+00:00")
    python["semantic_nodes"][1]["metadata"] = {"temporal_index": 2, "category": "semantic"}
    (HERE / "good-python.json").write_bytes(pretty(python))
    (HERE / "good-odd.json").write_bytes(json.dumps(odd()).encode())
    packed = gzip.compress(b"\xef\xbb\xbf" + pretty(whole()), mtime=0)
    (HERE / "good-packed.json.gz").write_bytes(packed)
    (HERE / "other-agent-core.json").write_bytes(pretty(CORE))
    (HERE / "other-1.0.json").write_bytes(pretty(version_1_0()))
    for name, data in bad().items():
        (HERE / f"bad-{name}.json").write_bytes(data)
    database(DATABASES / "good-agent.db")
    whole_one = (DATABASES / "good-agent.db").read_bytes()
    (DATABASES / "bad-cut.db").write_bytes(whole_one[:2048])
    (DATABASES / "bad-text.db").write_bytes(b"this is no database")
    (DATABASES / "bad-empty.db").write_bytes(b"")
    drop = "DROP TABLE similar_to_edges"
    columns = "1 AS source_id, 2 AS target_id, 3 AS weight, 4 AS metadata"
    view = f"CREATE VIEW similar_to_edges AS SELECT {columns}"
    database(DATABASES / "bad-no-table.db", drop)
    database(DATABASES / "bad-view.db", drop, view)
    database(DATABASES / "bad-tags.db", "UPDATE semantic_memories SET tags = 'a, b'")
    database(DATABASES / "bad-blob.db", "UPDATE semantic_memories SET content = x'00ff'")
    empty = ("DELETE FROM semantic_memories", "DELETE FROM episodic_memories")
    database(DATABASES / "bad-no-rows.db", *empty)
    flat(FLAT / "good-memory.db")
    (FLAT / "bad-cut.db").write_bytes((FLAT / "good-memory.db").read_bytes()[:1024])
    (FLAT / "bad-empty.db").write_bytes(b"")
    flat(FLAT / "bad-blob.db", "UPDATE memory_entries SET content = x'00'")
    flat(FLAT / "bad-no-table.db", "DROP TABLE sessions")
    flat(FLAT / "bad-no-rows.db", "DELETE FROM sessions", "DELETE FROM memory_entries")
    for folder in (HERE, DATABASES, FLAT):
        subject = Subject(folder.name, formats[folder.name], folder)
        for sample in subject.good():
            text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
            subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
