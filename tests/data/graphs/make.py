"""Make the graphs in this folder, with the engine that is installed where this is run.

``python make.py ENGINE NAME`` makes a graph as amplihack's libraries do, ``python make.py satchel
NAME`` a store of our own; beside each what a program leaves that was killed, its log not empty.
``python make.py ladybug sample`` makes the sample of the format ``amplihack_graph``.
They were made with kuzu 0.11.3 and with ladybug 0.15.3 (storage version 40) and 0.17.1 (41).
"""

import base64
import gzip
import json
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "formats" / "amplihack_graph"
TABLES = (
    (
        "NODE TABLE SemanticMemory(memory_id STRING, concept STRING, content STRING,"
        " confidence DOUBLE, source_id STRING, agent_id STRING, tags STRING, metadata STRING,"
        " created_at STRING, entity_name STRING DEFAULT '', PRIMARY KEY (memory_id))"
    ),
    (
        "NODE TABLE EpisodicMemory(memory_id STRING, content STRING, source_label STRING,"
        " agent_id STRING, tags STRING, metadata STRING, created_at STRING,"
        " PRIMARY KEY (memory_id))"
    ),
    "REL TABLE SIMILAR_TO(FROM SemanticMemory TO SemanticMemory, weight DOUBLE, metadata STRING)",
    (
        "REL TABLE DERIVES_FROM(FROM SemanticMemory TO EpisodicMemory, extraction_method STRING,"
        " confidence DOUBLE)"
    ),
    (
        "REL TABLE SUPERSEDES(FROM SemanticMemory TO SemanticMemory, reason STRING,"
        " temporal_delta STRING)"
    ),
    (
        "REL TABLE TRANSITIONED_TO(FROM SemanticMemory TO SemanticMemory, from_value STRING,"
        " to_value STRING, turn INT64, transition_type STRING)"
    ),
    "NODE TABLE Sensory(node_id STRING, PRIMARY KEY (node_id))",
)
FACT = (
    "CREATE (:SemanticMemory {memory_id: $id, concept: 'queue workers', content: $content,"
    " confidence: $sure, source_id: $source, agent_id: $agent, tags: $tags, metadata: $metadata,"
    " created_at: $at, entity_name: 'queue'})"
)
EPISODE = (
    "CREATE (:EpisodicMemory {memory_id: $id, content: $content, source_label: 'chat',"
    " agent_id: 'builder', tags: $tags, metadata: $metadata, created_at: $at})"
)
FACTS = "MATCH (a:SemanticMemory {memory_id: $a}), (b:SemanticMemory {memory_id: $b}) CREATE (a)-"


def encoded(value: Any) -> str:
    """Return JSON as memory-lib puts it into a graph."""
    return base64.b64encode(json.dumps(value).encode()).decode()


def fill(connection: Any) -> None:
    """Write four facts, three episodes, and links of each kind; the first fact's JSON is plain."""
    for table in TABLES:
        connection.execute(f"CREATE {table}")
    for number in range(3):
        row: dict[str, Any] = {
            "id": f"ep{number}",
            "content": f"Épisode {number}: the queue had {4 * (number + 1)} workers",
            "tags": encoded(["raw"]),
            "metadata": "",
            "at": f"2026-03-0{number + 1}T10:00:00+00:00",
        }
        connection.execute(EPISODE, row)
    for number in range(4):
        in_json: Any = encoded if number else json.dumps
        row = {
            "id": f"f{number}",
            "content": f"the queue has {4 * (number + 1)} workers 🐝",
            "sure": 0.9 - number / 10,
            "source": f"ep{number}" if number < 3 else "",
            "agent": "builder" if number < 3 else "reviewer",
            "tags": in_json(["ops"]),
            "metadata": in_json({"category": "domain_specific", "temporal_index": number}),
            "at": f"2026-03-0{number + 1}T11:00:00+00:00",
        }
        connection.execute(FACT, row)
    for number in range(3):
        connection.execute(
            "MATCH (a:SemanticMemory {memory_id: $a}), (b:EpisodicMemory {memory_id: $b}) CREATE"
            " (a)-[:DERIVES_FROM {extraction_method: 'llm_extraction', confidence: 1.0}]->(b)",
            {"a": f"f{number}", "b": f"ep{number}"},
        )
    for older in range(2):
        ends = {"a": f"f{older + 1}", "b": f"f{older}"}
        said = {"x": str(4 * (older + 1)), "y": str(4 * (older + 2)), "turn": older + 1}
        link = "[:SIMILAR_TO {weight: 0.75, metadata: ''}]->(b)"
        connection.execute(FACTS + link, ends)
        link = "[:SUPERSEDES {reason: 'Updated values', temporal_delta: $delta}]->(b)"
        connection.execute(FACTS + link, {**ends, "delta": f"index {older} -> {older + 1}"})
        link = "[:TRANSITIONED_TO {from_value: $x, to_value: $y, turn: $turn,"
        link += " transition_type: 'numeric_update'}]->(b)"
        connection.execute(FACTS + link, {**ends, **said})


def amplihack(engine: Any, path: Path) -> None:
    """Make a graph, with a copy of what there was before it was closed."""
    database = engine.Database(str(path), max_db_size=1 << 30)
    connection = engine.Connection(database)
    fill(connection)
    for end in ("", ".wal"):
        shutil.copy(f"{path}{end}", f"{path}-killed{end}")
    del connection
    database.close()


def satchel(path: Path) -> None:
    """Make a store of our own, with a copy of what there was before it was closed."""
    from satchel.conformance.stores.oracle import AT, BANK, commit_of, memory
    from satchel.crypto.sealed_records import seal, seeded_nonces
    from satchel.model.records import Edge
    from satchel.ports.rows import derive_row
    from satchel.stores.ladybug import LadybugStore
    from satchel.stores.ladybug.database import FILE, LOG

    nonces = seeded_nonces(b"older graphs")
    records = [seal(memory(number), nonces=nonces) for number in range(5)]
    for number, kind in enumerate(("similar_to", "knows", "derives_from"), 1):
        link = Edge(source=records[0].id, target=records[number].id, kind=kind)
        records.append(seal(link, nonces=nonces))
    rows = [
        derive_row(record.model, seq=place, at=AT, body=record.body)
        for place, record in enumerate(records)
    ]
    store = LadybugStore(path.with_name("store"))
    with store.writing() as writing:
        writing.append(BANK, commit_of(rows, 0))
    shutil.copy(store.path / FILE, f"{path}-killed")
    shutil.copy(store.path / LOG, f"{path}-killed.wal")
    store.close()
    shutil.copy(store.path / FILE, path)


def main() -> None:
    """Make one of them."""
    engine, name = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if engine == "satchel":
            satchel(path)
        elif name == "sample":
            amplihack(import_module(engine), path)
            whole = path.read_bytes()
            (SAMPLES / "good-agents.graph").write_bytes(whole)
            (SAMPLES / "bad-cut.graph").write_bytes(whole[: len(whole) // 8])
            (SAMPLES / "bad-text.graph").write_bytes(b"KUZU is a city no more\n")
            (SAMPLES / "bad-empty.graph").write_bytes(b"")
            return
        else:
            amplihack(import_module(engine), path)
        for made in path.parent.glob(f"{name}*"):
            if made.is_file():
                data = gzip.compress(made.read_bytes(), mtime=0)
                (HERE / f"{made.name}.gz").write_bytes(data)


if __name__ == "__main__":
    main()
