"""Writes the samples of Graphiti's graphs; run it again and nothing changes.

``python tests/data/formats/graphiti/make.py``. Every name and text is invented; the shapes are
those of graphiti-core 0.31.2, and of the rows that Zep's API gives.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-05-04T03:02:01Z"
ROSA, TEA, TALK, OLD, NEW, SEEN, CLUB, SAGA = (
    f"0000000{n}-0000-4000-8000-000000000000" for n in range(1, 9)
)


def node(identity: str, name: str, **more: Any) -> dict[str, Any]:
    """An entity."""
    return {
        "uuid": identity,
        "name": name,
        "group_id": "tea",
        "labels": ["Entity", "Person"],
        "created_at": THEN,
        "name_embedding": [0.25, -0.5],
        "summary": "Runs the tea house. ✓",
        "attributes": {"age": 41, "likes": ["oolong", {"at": "noon"}]},
    } | more


def episode(identity: str, **more: Any) -> dict[str, Any]:
    """An episode."""
    return {
        "uuid": identity,
        "name": "talk-1",
        "group_id": "tea",
        "labels": [],
        "created_at": THEN,
        "source": "message",
        "source_description": "chat",
        "content": "rosa: The kettle is mine now.",
        "valid_at": "2026-05-04T03:02:00.250000Z",
        "entity_edges": [OLD, NEW],
        "episode_metadata": {"channel": "#tea", "n": 2**60},
    } | more


def fact(identity: str, **more: Any) -> dict[str, Any]:
    """A fact."""
    return {
        "uuid": identity,
        "group_id": "tea",
        "source_node_uuid": ROSA,
        "target_node_uuid": TEA,
        "created_at": THEN,
        "name": "OWNS",
        "fact": "Rosa owns the tea house.",
        "fact_embedding": [0.5, 0.125],
        "episodes": [TALK],
        "expired_at": None,
        "valid_at": "2026-05-01T00:00:00Z",
        "invalid_at": None,
        "reference_time": THEN,
        "attributes": {"confidence": 0.8},
    } | more


def link(identity: str, start: str, end: str) -> dict[str, Any]:
    """A link that is no fact."""
    ends = {"source_node_uuid": start, "target_node_uuid": end}
    return {"uuid": identity, "group_id": "tea", **ends, "created_at": THEN}


GRAPH: dict[str, Any] = {
    "nodes": [
        node(ROSA, "Rosa Lima"),
        node(TEA, "Tea house", labels=["Entity"], summary="", attributes={}, name_embedding=None),
    ],
    "episodes": [episode(TALK)],
    "edges": [
        fact(NEW),
        fact(
            OLD,
            name="RENTS",
            fact="Rosa rents the tea house.",
            expired_at=THEN,
            invalid_at="2026-05-01T00:00:00Z",
            valid_at="2020-01-01T00:00:00Z",
        ),
        fact(
            SEEN, fact="Withdrawn, nobody said when.", expired_at=THEN, episodes=[], attributes={}
        ),
    ],
    "mentions": [link("0000000a-0000-4000-8000-000000000000", TALK, ROSA)],
}
WHOLE = {
    "exported_at": THEN,
    **GRAPH,
    "communities": [
        {
            k: v
            for k, v in node(CLUB, "Tea people", labels=["Community"]).items()
            if k != "attributes"
        }
    ],
    "sagas": [{"uuid": SAGA, "name": "May", "group_id": "tea", "labels": [], "created_at": THEN}],
    "has_member": [link("0000000b-0000-4000-8000-000000000000", CLUB, ROSA)],
    "has_episode": [link("0000000c-0000-4000-8000-000000000000", SAGA, TALK)],
    "next_episode": [link("0000000d-0000-4000-8000-000000000000", TALK, TALK)],
}
ZEP = {
    "nodes": [
        {
            "uuid": ROSA,
            "name": "Rosa Lima",
            "labels": ["Person"],
            "summary": "Runs the tea house.",
            "attributes": {},
            "created_at": "2026-05-04T03:02:01.123456789Z",
            "score": None,
        }
    ],
    "episodes": [
        {
            "uuid_": TALK,
            "content": "The kettle is mine now.",
            "created_at": THEN,
            "role": "rosa",
            "role_type": "user",
            "source": "message",
            "processed": True,
            "thread_id": "t-1",
        }
    ],
    "edges": [
        {
            "uuid": NEW,
            "name": "OWNS",
            "fact": "Rosa owns the tea house.",
            "source_node_uuid": ROSA,
            "target_node_uuid": "not-in-the-file",
            "created_at": THEN,
            "valid_at": "2026-05-01 00:00:00",
            "episodes": [TALK, "gone"],
        }
    ],
}
TURNED = {
    "entity_edges": GRAPH["edges"],
    "episode_nodes": GRAPH["episodes"],
    "entities": GRAPH["nodes"],
}


def _bad(table: str, row: Any) -> bytes:
    return json.dumps(GRAPH | {table: [*GRAPH[table], row]}).encode()


BAD: dict[str, bytes] = {
    "empty": b"",
    "not-an-object": b"[1]",
    "nothing": b'{"nodes": [], "episodes": [], "edges": []}',
    "cut": json.dumps(GRAPH).encode()[:-900],
    "trailing": json.dumps(GRAPH).encode() + b" x",
    "node-text": _bad("nodes", "x"),
    "node-without-id": _bad("nodes", {"name": "x"}),
    "node-name-number": _bad("nodes", node("n", 1)),  # type: ignore[arg-type]
    "episode-without-content": _bad("episodes", {"uuid": "e"}),
    "fact-number": _bad("edges", fact("f", fact=1)),
    "fact-without-id": _bad("edges", {"fact": "x", "source_node_uuid": ROSA}),
    "mention-without-end": _bad("mentions", {"uuid": "m", "source_node_uuid": TALK}),
    "key-twice": b'{"nodes": [{"uuid": "a", "uuid": "b", "name": "c", "group_id": ""}]}',
    "lone-surrogate": b'{"nodes": [{"uuid": "a", "name": "\\ud800", "group_id": ""}]}',
    "not-utf8": b'{"nodes": [{"uuid": "a", "name": "\xff", "group_id": ""}]}',
}


def main() -> None:
    """Write everything."""
    for name, made in (("whole", WHOLE), ("zep", ZEP), ("turned", TURNED)):
        text = json.dumps(made, ensure_ascii=False, indent=1)
        (HERE / f"good-{name}.json").write_text(text, "utf-8")
    packed = gzip.compress(json.dumps(GRAPH).encode(), mtime=0)
    (HERE / "good-packed.json.gz").write_bytes(packed)
    for name, data in BAD.items():
        (HERE / f"bad-{name}.json").write_bytes(data)
    subject = Subject("graphiti", formats["graphiti"], HERE)
    for sample in subject.good():
        found = subject.take(sample).contents
        text = json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True)
        subject.expectation(sample).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
