"""Makes and reads a folder of Qdrant's local mode with the real client, offline.

Run it with the Python of ``benchmarks.peers.environment("qdrant-client")``:
``make FOLDER COUNT`` makes a collection ``notes`` of COUNT points, with one dense vector and one
sparse; ``read FOLDER OUT`` writes all points of all collections as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5


def make(folder: Path, count: int) -> None:
    """Make a folder."""
    from qdrant_client import QdrantClient, models  # type: ignore[import-not-found]

    client = QdrantClient(path=str(folder))
    client.create_collection(
        "notes",
        vectors_config={"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)},
        sparse_vectors_config={"words": models.SparseVectorParams()},
    )
    points = []
    for number in range(count):
        vector: dict[str, Any] = {"dense": [number + 1.0, 0.5, -0.25, 1 / 3]}
        if number % 3 == 1:
            vector["words"] = models.SparseVector(indices=[1, number + 2], values=[0.5, 0.25])
        identity = number if number % 2 else str(uuid5(NAMESPACE_URL, str(number)))
        points.append(models.PointStruct(id=identity, vector=vector, payload=_payload(number)))
    client.upsert("notes", points)
    client.close()


def _payload(number: int) -> dict[str, Any]:
    text = f"Fact {number}. \u4eac\u90fd"
    user = ("rosa", "kenta")[number % 2]
    payloads: list[dict[str, Any]] = [
        {"text": text, "user_id": user, "tags": ["a"], "n": number},
        {"page_content": text, "metadata": {"page": number, "x": [1, None, 2.5]}, "big": 2**60},
        {"document": text, "user_id": user, "agent_id": "guide"},
        {"data": {"only": "members"}, "n": number},
    ]
    return payloads[number % 4]


def read(folder: Path, out: Path) -> None:
    """Write every point."""
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(folder))
    contents = {}
    for collection in client.get_collections().collections:
        points, _ = client.scroll(collection.name, limit=1_000_000, with_vectors=True)
        contents[collection.name] = sorted(
            (json.loads(p.model_dump_json()) for p in points), key=_by_id
        )
    client.close()
    out.write_text(json.dumps(contents, ensure_ascii=False, indent=1), "utf-8")


def _by_id(point: dict[str, Any]) -> str:
    return str(point["id"])


if __name__ == "__main__":
    verb, where, given = sys.argv[1:]
    if verb == "make":
        make(Path(where), int(given))
    else:
        read(Path(where), Path(given))
