"""Writes the result of the real mem0ai's ``get_all()``, offline: local Qdrant, invented embeddings.

Run it with the Python of ``benchmarks.peers.environment("mem0ai")`` and the name of the file to
write.
"""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_DIMENSIONS = 32


class Embedder:
    """Gives each text its own vector, without a network."""

    def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
        """Return 32 numbers made from the text's hash."""
        return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()]

    def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
        """Return the vector of each text."""
        return [self.embed(text) for text in texts]


def main(target: Path) -> None:
    """Store some memories and write what ``get_all()`` returns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "MEM0_TELEMETRY": "false",
            "OPENAI_API_KEY": "none",
            "MEM0_DIR": folder,
        }
        from mem0 import Memory  # type: ignore[import-not-found]

        memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": f"{folder}/qdrant",
                        "collection_name": "memories",
                        "embedding_model_dims": _DIMENSIONS,
                    },
                },
                "history_db_path": f"{folder}/history.db",
            }
        )
        memory.embedding_model = Embedder()
        for text, fields in _MEMORIES:
            memory.add(text, user_id="ada", infer=False, **fields)
        found = memory.get_all(filters={"user_id": "ada"}, top_k=100, show_expired=True)
    target.write_text(json.dumps(found, ensure_ascii=False, indent=1), "utf-8")


_MEMORIES: list[tuple[str, dict[str, Any]]] = [
    ("Ada prefers metric units.", {"metadata": {"topic": "units", "n": [1, 2.5, {"b": None}]}}),
    ("\u4eac\u90fd\u306e\u590f\u306f\u6691\u3044\u3002", {"agent_id": "guide", "run_id": "r-1"}),
    ("The guest network changes in June.", {"expiration_date": "2020-01-01"}),
    ("Dollar keys are legal.", {"metadata": {"$int": "5", "big": 2**60}}),
]

if __name__ == "__main__":
    main(Path(sys.argv[1]))
