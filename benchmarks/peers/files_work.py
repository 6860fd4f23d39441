"""The same work on memory files, with flyte or with satchel: prints seconds as JSON.

``files_work.py flyte|satchel FOLDER WRITES PATHS LINES``
"""

import asyncio
import json
import sys
import time
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

_TEXT = "x" * 200
_TOGETHER = 32


def main() -> None:
    """Do it, and print."""
    which, folder, writes, paths, lines = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6])
    modules = {"flyte": "flyte.ai.agents.memory", "satchel": "satchel.files"}
    memory_store: Any = import_module(modules[which]).MemoryStore

    def opened(name: str) -> Any:
        more = {"key": name} if which == "flyte" else {}
        return memory_store(root=folder / name, keep_versions=True, audit=True, **more)

    measured = {"write": _write(opened("write"), writes)}
    listed = opened("list")
    _fill(folder / "list", paths)
    measured["list"] = _least(lambda: len(listed.list_paths()), paths)
    tailed = opened("tail")
    _grow(which, tailed, folder / "tail", lines)
    tailed.audit_tail_sync(1)
    measured["tail"] = _least(lambda: len(tailed.audit_tail_sync(10)), 10)
    tracemalloc.start()
    tailed.audit_tail_sync(10)
    measured["tail_memory"] = tracemalloc.get_traced_memory()[1]
    print(json.dumps(measured))


def _write(store: Any, number: int) -> float:
    """Return the seconds that a write takes, thirty-two awaited at once."""

    async def all_of_them() -> None:
        for start in range(0, number, _TOGETHER):
            several = range(start, min(start + _TOGETHER, number))
            await asyncio.gather(
                *(store.write_text.aio(f"d/{one % 100}/{one}.txt", _TEXT) for one in several)
            )

    store.write_text("warm.txt", "up")
    began = time.perf_counter()
    asyncio.run(all_of_them())
    return (time.perf_counter() - began) / number


def _fill(root: Path, number: int) -> None:
    """Lay files into a store's folder, as an earlier run would have left them."""
    for one in range(number):
        path = root / f"d{one % 100}" / f"{one}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(_TEXT)


def _grow(which: str, store: Any, root: Path, lines: int) -> None:
    """Write a long audit log: through the store if that is fast, else as lines of its file."""
    store.write_text("a.txt", "1")
    if which == "satchel":
        inner = store._store  # noqa: SLF001 - events by the hundred thousand
        with inner.manifest.committing() as rows:
            from satchel.files.audit import add_event, write_out

            for number in range(lines):
                add_event(rows, {"op": "update", "path": f"d/{number}", "actor": "x" * 150})
            write_out(rows, inner.tree)
        return
    with (root / "audit" / "log.jsonl").open("a") as log:
        for number in range(lines):
            event = {"op": "update", "path": f"d/{number}", "actor": "x" * 150, "prev": "0" * 64}
            log.write(json.dumps(event) + "\n")


def _least(work: Any, expected: int) -> float:
    """Return the least seconds of some turns of a piece of work."""
    least = float("inf")
    for _ in range(7):
        began = time.perf_counter()
        done = work()
        least = min(least, time.perf_counter() - began)
        assert done == expected, done
    return least


if __name__ == "__main__":
    main()
