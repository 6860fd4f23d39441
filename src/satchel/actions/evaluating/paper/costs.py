"""Sizes of the paper's memory in each form, and how long its operations take."""

import gzip
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from satchel.actions.evaluating.continuity.carrying import Owner
from satchel.actions.evaluating.paper.mix import (
    MIX,
    conversation,
    latest,
    mix,
    sealed,
    written,
)
from satchel.actions.evaluating.paper.table import Cell, Table
from satchel.ports.inference.embedder import Embedder
from satchel.ports.records import opened_records
from satchel.seal.artifact.opening import Encoding
from satchel.seal.limits import DEFAULT_LIMITS
from satchel.seal.records import id_holds
from satchel.seal.signing.key import SigningKey

ROUNDS = 7
_TASK = "What is still to be done in the Tidewater reconciliation job?"
_BUDGET = 4096

_THEIRS = {
    "serialize": (2.3, 1.8),
    "deserialize": (1.9, 1.4),
    "verify all hashes": (4.1, 4.1),
    "full re-hydration pipeline": (12.7, 11.8),
}


def sizes_table(folder: Path) -> Table:
    """Return how large the memory is against the conversation that it was told in."""
    key, records = SigningKey.generate(), sealed()
    raw = conversation()
    json_file = written(folder / "memory.pam", records, Encoding.JSON, key)
    cbor_file = written(folder / "memory.pam.cbor", records, Encoding.CBOR, key)
    plain = json_file.read_bytes()
    sizes: dict[str, tuple[int, float | None]] = {
        "raw conversation (JSON)": (len(raw), 1.0),
        "signed artifact (.pam, JSON)": (len(plain), 0.31),
        "signed artifact (.pam.cbor)": (cbor_file.stat().st_size, 0.21),
        "signed artifact, compressed (.pam.gz)": (len(gzip.compress(plain, mtime=0)), None),
        "raw conversation, compressed": (len(gzip.compress(raw, mtime=0)), None),
    }
    rows: list[list[Cell]] = [
        [name, size, size / len(raw), theirs] for name, (size, theirs) in sizes.items()
    ]
    return Table(
        name="sizes",
        title=f"Sizes of {sum(MIX.values())} entries",
        columns=["form", "bytes", "relative", "the paper's"],
        rows=rows,
        note="The conversation is made up around the same memories: each is told once, and "
        "answered at "
        "the length that assistants often have. The ratio is as good as that guess; the bytes "
        "of the "
        "artifact are not a guess. Each entry carries a nonce, an id and its times.",
    )


def latencies_table(folder: Path, embedder: Embedder | None, *, rounds: int = ROUNDS) -> Table:
    """Return what the paper's operations take, in milliseconds of processor time."""
    key, records = SigningKey.generate(), sealed()
    files = {
        Encoding.JSON: written(folder / "memory.pam", records, Encoding.JSON, key),
        Encoding.CBOR: written(folder / "memory.pam.cbor", records, Encoding.CBOR, key),
    }

    def write(encoding: Encoding) -> Path:
        return written(files[encoding], records, encoding, key)

    def read(encoding: Encoding) -> int:
        with opened_records(files[encoding], DEFAULT_LIMITS) as found:
            return sum(1 for _ in found)

    found = dict[str, tuple[float, float]]()
    both = (Encoding.JSON, Encoding.CBOR)
    found["serialize"] = _pair([partial(write, one) for one in both], rounds)
    found["deserialize"] = _pair([partial(read, one) for one in both], rounds)
    hashes = _least(lambda: all(map(id_holds, records)), rounds)
    found["verify all hashes"] = (hashes, hashes)
    pipeline = _pipeline(folder, embedder, rounds)
    found["full re-hydration pipeline"] = (pipeline, pipeline)
    rows: list[list[Cell]] = [[name, *found[name], *_THEIRS[name]] for name in _THEIRS]
    return Table(
        name="latencies",
        title=f"Latency of {sum(MIX.values())} entries, ms",
        columns=["operation", "JSON", "CBOR", "the paper's JSON", "the paper's CBOR"],
        rows=rows,
        note="Processor time, the least of several rounds, on this machine; the paper's are of "
        "an Apple "
        "M2. Serialize ends with the file on the disk. The pipeline works on a bank, so it has one "
        f"figure: verify to inject, {_BUDGET:,} tokens.",
    )


def _pipeline(folder: Path, embedder: Embedder | None, rounds: int) -> float:
    owner = Owner(folder, embedder)
    owner.remember("latency", latest(mix()))
    with owner.framing("latency") as framing:
        return _least(lambda: framing(_TASK, "gpt-4o", _BUDGET), rounds)


def _pair(jobs: Sequence[Callable[[], object]], rounds: int) -> tuple[float, float]:
    first, second = (_least(job, rounds) for job in jobs)
    return first, second


def _least(job: Callable[[], object], rounds: int) -> float:
    """Return the least milliseconds of processor time that a job takes."""
    taken = list[float]()
    for _ in range(max(rounds, 1)):
        start = time.process_time()
        job()
        taken.append(time.process_time() - start)
    return 1000 * min(taken)
