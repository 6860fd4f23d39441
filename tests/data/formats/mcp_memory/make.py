"""Writes the samples of the MCP memory server's file; run it again and nothing changes.

``python tests/data/formats/mcp_memory/make.py``. Every name and text is invented; the shapes are
those of server-memory 2026.8.31.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent

ENTITIES: list[dict[str, Any]] = [
    {
        "name": "Rosa Lima",
        "entityType": "person",
        "observations": ["Takes her tea cold.", 'Ünïcode ✓ 日本語 "quoted" \\ back\nnewline', ""],
    },
    {"name": "Tea house", "entityType": "place", "observations": []},
    {"name": "", "entityType": "", "observations": ["An observation of nobody."]},
    {
        "name": "Kettle",
        "entityType": "thing",
        "observations": ["Boils in 4 minutes.", "Boils in 4 minutes."],
    },
]
RELATIONS = [
    {"from": "Rosa Lima", "to": "Tea house", "relationType": "works at"},
    {"from": "Rosa Lima", "to": "Nobody defined", "relationType": "knows"},
]
MORE = {"id": "x1", "createdAt": "2026-01-01T00:00:00Z", "confidence": 0.9, "large": 2**60}

BAD: dict[str, bytes] = {
    "empty": b"",
    "broken-line": b'{"type":"entity","name":"a","entityType":"b","observations":["c"]}\n{broken',
    "line-is-list": b"[1]",
    "line-without-type": b'{"name":"a","entityType":"b","observations":[]}',
    "type-number": b'{"type":1,"name":"a","entityType":"b","observations":[]}',
    "no-name": b'{"type":"entity","entityType":"b","observations":[]}',
    "name-number": b'{"type":"entity","name":1,"entityType":"b","observations":[]}',
    "entity-type-number": b'{"type":"entity","name":"a","entityType":1,"observations":[]}',
    "observations-text": b'{"type":"entity","name":"a","entityType":"b","observations":"c"}',
    "observation-number": b'{"type":"entity","name":"a","entityType":"b","observations":[1]}',
    "relation-without-end": b'{"type":"relation","from":"a","relationType":"b"}',
    "key-twice": b'{"type":"entity","name":"a","name":"b","entityType":"b","observations":[]}',
    "not-utf8": b'{"type":"relation","from":"\xff","to":"b","relationType":"c"}',
    "two-on-a-line": b'{"type":"note"} {"type":"note"}',
    "graph-entity-text": b'{"entities":[{"entityType":"a"},"x"],"relations":[]}',
    "graph-cut": b'{"entities":[{"name":"a","entityType":"b","observations":["c"]}',
    "graph-empty": b'{"entities":[],"relations":[{"relationType":1}]}',
}


def _lines(*rows: dict[str, Any]) -> bytes:
    compact = (",", ":")
    return "\n".join(json.dumps(r, ensure_ascii=False, separators=compact) for r in rows).encode()


def main() -> None:
    """Write them all."""
    entities = [{"type": "entity", **row} for row in ENTITIES]
    relations = [{"type": "relation", **row} for row in RELATIONS]
    server = _lines(*entities, *relations)
    (HERE / "good-server.jsonl").write_bytes(server)
    (HERE / "good-packed.jsonl.gz").write_bytes(gzip.compress(server, mtime=0))
    extras = [{**row, **MORE} for row in (*entities, *relations)]
    (HERE / "good-extras.jsonl").write_bytes(_lines(*extras) + b"\n")
    graph = {"entities": ENTITIES, "relations": RELATIONS, "note": {"n": 7}}
    (HERE / "good-graph.json").write_text(json.dumps(graph, indent=1, ensure_ascii=False))
    for name, data in BAD.items():
        (HERE / f"bad-{name}.jsonl").write_bytes(data)
    subject = Subject("mcp_memory", formats["mcp_memory"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
