"""Makes and reads Chroma's folders with the real library, offline, with invented vectors.

Run it with the Python of ``benchmarks.peers.environment("chromadb")``:
``make FOLDER COUNT SYNC`` makes two collections of COUNT records each, some changed and one gone,
whose index is written after every SYNC; ``read FOLDER OUT`` writes what ``get()`` returns of each
as JSON; ``take FILE FOLDER`` puts the lists of a file into a new collection ``memories``.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

_TOGETHER = 200


def _client(folder: Path) -> Any:
    import chromadb  # type: ignore[import-not-found]
    from chromadb.config import Settings  # type: ignore[import-not-found]

    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def _vector(text: str) -> list[float]:
    return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def make(folder: Path, count: int, sync: int) -> None:
    """Make a folder."""
    client = _client(folder)
    for name, space in (("memories", "cosine"), ("notes", "l2")):
        index = {"space": space, "sync_threshold": sync, "batch_size": min(sync, 100)}
        collection = client.create_collection(
            name, metadata={"owner": "rosa"}, configuration={"hnsw": index}, embedding_function=None
        )
        for start in range(0, count, _TOGETHER):
            numbers = range(start, min(count, start + _TOGETHER))
            texts = [f"Fact {number} of {name}. \u4eac\u90fd" for number in numbers]
            collection.add(
                ids=[f"m{number}" for number in numbers],
                documents=texts,
                embeddings=[_vector(text) for text in texts],
                metadatas=[_members(number) for number in numbers],
            )
        collection.delete(ids=["m3"])
        collection.update(
            ids=["m4"],
            documents=["Changed."],
            embeddings=[_vector("Changed.")],
            metadatas=[{"changed": True}],
        )


def _members(number: int) -> dict[str, Any]:
    more: dict[str, Any] = {"tags": ["a", "b"], "scores": [0.5, 1.5]} if number % 3 == 1 else {}
    user = ("rosa", "kenta")[number % 2]
    return {"user_id": user, "n": number, "share": 0.25, "ok": number % 2 == 0, **more}


def read(folder: Path, out: Path) -> None:
    """Write what the library returns."""
    contents = {}
    for collection in _client(folder).list_collections():
        records = collection.get(include=["documents", "metadatas", "embeddings"])
        vectors = records["embeddings"]
        records["embeddings"] = None if vectors is None else [list(map(float, v)) for v in vectors]
        contents[collection.name] = records
    out.write_text(json.dumps(contents, ensure_ascii=False, indent=1), "utf-8")


def take(path: Path, folder: Path) -> None:
    """Add the lists of a file to a collection."""
    said = json.loads(path.read_bytes())
    lists = {
        name: said[name] for name in ("ids", "documents", "metadatas", "embeddings") if name in said
    }
    collection = _client(folder).create_collection("memories", embedding_function=None)
    collection.upsert(**lists)


if __name__ == "__main__":
    verb, *given = sys.argv[1:]
    if verb == "make":
        make(Path(given[0]), int(given[1]), int(given[2]))
    elif verb == "read":
        read(Path(given[0]), Path(given[1]))
    else:
        take(Path(given[0]), Path(given[1]))
