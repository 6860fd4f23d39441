"""Imports an archive into a bank of the real astrocyte on SQLite and exports it again, offline.

Run it with the Python of ``benchmarks.peers.environment("astrocyte")``: ``import ARCHIVE DATABASE``
prints what arrived as JSON, ``export DATABASE ARCHIVE`` writes the bank. The embeddings are those
of astrocyte's own stand-in for a model, a bag of words.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

_BANK = "bank"


def _brain(database: Path) -> tuple[Any, Any]:
    from astrocyte import Astrocyte  # type: ignore[import-not-found]
    from astrocyte.config import AstrocyteConfig  # type: ignore[import-not-found]
    from astrocyte.pipeline.orchestrator import (  # type: ignore[import-not-found]
        PipelineOrchestrator,
    )
    from astrocyte.testing.in_memory import MockLLMProvider  # type: ignore[import-not-found]
    from astrocyte_sqlite import SqliteStore  # type: ignore[import-not-found]

    store = SqliteStore(str(database))
    brain = Astrocyte(AstrocyteConfig())
    brain.set_pipeline(PipelineOrchestrator(vector_store=store, llm_provider=MockLLMProvider()))
    return brain, store


async def _import(archive: Path, database: Path) -> dict[str, Any]:
    brain, store = _brain(database)
    done = await brain.import_bank(_BANK, str(archive), allow_uncontained=True)
    memories: list[dict[str, Any]] = []
    while page := await store.list_vectors(_BANK, offset=len(memories), limit=1000):
        memories += [
            {
                "text": memory.text,
                "tags": memory.tags,
                "metadata": memory.metadata,
                "occurred_at": memory.occurred_at and memory.occurred_at.isoformat(),
            }
            for memory in page
        ]
    counts = {"imported": done.imported, "skipped": done.skipped, "errors": done.errors}
    return {**counts, "memories": memories}


async def _export(database: Path, archive: Path) -> int:
    brain, _ = _brain(database)
    count: int = await brain.export_bank(_BANK, str(archive), allow_uncontained=True)
    return count


if __name__ == "__main__":
    verb, one, other = sys.argv[1:]
    work = _import if verb == "import" else _export
    print(json.dumps(asyncio.run(work(Path(one), Path(other))), default=str))
