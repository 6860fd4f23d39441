"""Makes and reads a local store with the real mem0ai, offline, with invented embeddings.

Run it with the Python of ``benchmarks.peers.environment("mem0ai")``:
``make FOLDER COUNT`` stores COUNT memories of three users, changes and deletes some;
``read FOLDER FILE`` writes what ``get_all()`` and ``history()`` say of all of them as JSON;
``change FOLDER ID`` gives one memory another text.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

_DIMENSIONS = 8
_USERS = ("ada", "bo", "cy")


class Embedder:
    """Gives each text its own vector, without a network."""

    def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
        """Return eight numbers made from the text's hash."""
        return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:_DIMENSIONS]]

    def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
        """Return the vector of each text."""
        return [self.embed(text) for text in texts]


def opened(folder: Path) -> Any:
    """Open, or make, a local Mem0."""
    os.environ |= {
        "MEM0_TELEMETRY": "false",
        "OPENAI_API_KEY": "none",
        "MEM0_DIR": str(folder),
    }
    from mem0 import Memory  # type: ignore[import-not-found]

    store = {
        "path": f"{folder}/qdrant",
        "collection_name": "mem0",
        "embedding_model_dims": _DIMENSIONS,
        "on_disk": True,
    }
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": f"{folder}/history.db",
        }
    )
    memory.embedding_model = Embedder()
    return memory


def make(folder: Path, count: int) -> None:
    """Store memories, and change and delete some."""
    memory = opened(folder)
    names = []
    for number in range(count):
        result = memory.add(
            [{"role": "user", "content": _text(number), "name": "ada" if number % 5 else None}],
            user_id=_USERS[number % 3],
            infer=False,
            **_more(number),
        )
        names.append(result["results"][0]["id"])
    for number, name in enumerate(names):
        if number % 7 == 0:
            memory.update(name, f"{_text(number)} At least it was so.")
        if number % 21 == 0:
            memory.update(name, f"{_text(number)} Now it is not.", metadata={"revised": True})
        if number % 10 == 9:
            memory.delete(name)
    memory.close()


def _text(number: int) -> str:
    odd = ("", " \u4eac\u90fd\U0001f680", '\n"quoted"\\', "\x00", " e\u0301")[number % 5]
    return f"Fact {number} of {_USERS[number % 3]}.{odd}"


def _more(number: int) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if number % 4 == 1:
        more["metadata"] = {"topic": "n", "n": [1, 2.5, {"b": None}], "big": 2**60, "$int": "5"}
    if number % 4 == 2:
        more |= {"agent_id": "guide", "run_id": f"r-{number}"}
    if number % 8 == 3:
        more["expiration_date"] = "2020-01-01"
    if number % 8 == 5:
        more["metadata"] = {"created_at": "2021-02-03T04:05:06+02:00", "memory_type": "x"}
    return more


def read(folder: Path, target: Path) -> None:
    """Write everything that the library says."""
    memory = opened(folder)
    memories: list[Any] = []
    for user in _USERS:
        filters = {"user_id": user}
        memories += memory.get_all(filters=filters, top_k=100_000, show_expired=True)["results"]
    # The order of get_all() is that of the store's rows, the latest first.
    memories.sort(key=lambda row: row["id"])
    everything = [{**row, "history": memory.history(row["id"])} for row in memories]
    memory.close()
    target.write_text(json.dumps(everything, ensure_ascii=False, indent=1), "utf-8")


def change(folder: Path, name: str) -> None:
    """Change a memory."""
    memory = opened(folder)
    memory.update(name, "changed by the library")
    memory.close()


if __name__ == "__main__":
    _, verb, place, given = sys.argv
    if verb == "make":
        make(Path(place), int(given))
    elif verb == "read":
        read(Path(place), Path(given))
    else:
        change(Path(place), given)
