"""The measurements of the paper for this implementation: its mix of entries, its operations."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks import data
from benchmarks.measure import Table, best_of, report
from satchel.artifact.encodings import Encoding
from satchel.config.settings import load_settings
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Sealed, has_valid_id
from satchel.ports.record_set import open_record_set
from satchel.transfer.conversion import ConvertOptions, convert

MIX = 127
"""Entries: 42 episodic, 35 semantic, 20 procedural, 25 working, 5 identity."""

BOUNDS = {".pam": 75_000, ".pam.cbor": 69_000, ".pam.gz": 20_000}
ADDED = ("id", "nonce", "tags", "scope", "origin")
PAPER = {
    "serialize JSON": 2.3,
    "serialize CBOR": 1.8,
    "deserialize JSON": 1.9,
    "deserialize CBOR": 1.4,
    "verify all hashes": 4.1,
}
"""Milliseconds for 127 entries on the paper's machine; only for the reader of the table."""


def test_the_mix_of_the_paper_stays_within_its_sizes(tmp_path: Path) -> None:
    """Sealed and signed, in each encoding, against the size of the published SDK's file."""
    _sizes(tmp_path)


@pytest.mark.prove
def test_the_sizes_of_the_papers_mix_and_the_cost_of_each_added_member(tmp_path: Path) -> None:
    """The same, with the tables."""
    _sizes(tmp_path)


def _sizes(folder: Path) -> None:
    records = list(data.sealed(data.entries(MIX)))
    files = {suffix: _write(folder, records, suffix) for suffix in BOUNDS}
    sizes = {suffix: file.stat().st_size for suffix, file in files.items()}
    theirs = _sdk_size(folder, files[".pam"])
    report(
        "sizes",
        Table(
            f"Bytes of {MIX} entries",
            ["file", "bytes", "bound"],
            [
                ["the SDK's, compact JSON, the same entries", theirs, ""],
                *([suffix, size, BOUNDS[suffix]] for suffix, size in sizes.items()),
            ],
        ),
    )
    _report_costs(folder, records)
    # The bounds mean something only for entries as large as the paper's.
    assert 63_000 <= theirs <= 68_000
    assert {suffix for suffix, size in sizes.items() if size > BOUNDS[suffix]} == set()


def _write(folder: Path, records: list[Sealed], suffix: str) -> Path:
    encoding = Encoding.CBOR if suffix == ".pam.cbor" else Encoding.JSON
    file = folder / f"memory{suffix.removesuffix('.gz')}"
    data.write_artifact_of(file, iter(records), encoding)
    if suffix.endswith(".gz"):
        packed = folder / f"memory{suffix}"
        packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
        return packed
    return file


def _sdk_size(folder: Path, file: Path) -> int:
    """Return how large the same entries are as the published SDK writes them, without indents."""
    output = folder / "sdk.pam"
    asked = ConvertOptions(
        profile="pam-sdk-1.0", key=data.KEY, trusted_keys=(data.KEY.did,), overwrite=True
    )
    convert(file, output, load_settings(), asked)
    value = json.loads(output.read_bytes())
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _report_costs(folder: Path, records: list[Sealed]) -> None:
    """Measure each added member: written with it and without, plain and compressed."""
    imported = list(data.sealed(map(data.as_imported, data.entries(MIX))))
    whole = b"\n".join(record.body for record in imported)
    rows: list[list[object]] = []
    for name in ADDED:
        without = b"\n".join(_without(record.body, name) for record in imported)
        saved = len(whole) - len(without)
        packed = len(gzip.compress(whole, mtime=0)) - len(gzip.compress(without, mtime=0))
        rows.append([name, saved, saved / MIX, packed])
    bodies = sum(len(record.body) + 1 for record in records)
    signed = data.write_artifact_of(folder / "lines.pam.jsonl", iter(records)).stat().st_size
    rows.append(["statement, signature, section lines", signed - bodies, "", ""])
    report(
        "costs",
        Table(
            f"What each member costs in {MIX} imported entries",
            ["member", "bytes", "an entry", "bytes compressed"],
            rows,
        ),
    )


def _without(line: bytes, name: str) -> bytes:
    value = msgspec.json.decode(line)
    value.pop(name, None)
    return msgspec.json.encode(value, order="sorted")


def test_the_papers_operations_run_on_few_entries(tmp_path: Path) -> None:
    """Writing, reading and checking every hash, in JSON and CBOR."""
    assert _latency(tmp_path, 20, rounds=1).keys() == PAPER.keys()


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_the_latency_table_of_the_paper(tmp_path: Path) -> None:
    """Milliseconds, for the reader; the assertion is that ten thousand entries scale."""
    small, large = _latency(tmp_path, MIX), _latency(tmp_path, 10_000)
    report(
        "latency",
        Table(
            "The paper's operations, milliseconds of processor time",
            ["operation", f"{MIX} entries", "the paper's figure", "10,000 entries"],
            [[name, small[name] * 1e3, PAPER[name], large[name] * 1e3] for name in PAPER],
            "Serialize: sealed records to a file, on disk. Deserialize: a file to sealed records "
            "with checked ids. The paper's figures are of another machine.",
        ),
    )
    growth = 10_000 / MIX
    assert {name for name in PAPER if large[name] > 3 * growth * small[name]} == set()


def _latency(folder: Path, count: int, rounds: int = 5) -> dict[str, float]:
    records = list(data.sealed(data.entries(count)))
    json_file, cbor_file = folder / "memory.pam", folder / "memory.pam.cbor"
    return best_of(
        {
            "serialize JSON": _writer(json_file, records, Encoding.JSON),
            "serialize CBOR": _writer(cbor_file, records, Encoding.CBOR),
            "deserialize JSON": _reader(json_file, count),
            "deserialize CBOR": _reader(cbor_file, count),
            "verify all hashes": lambda: all(map(has_valid_id, records)),
        },
        rounds,
    )


def _writer(file: Path, records: list[Sealed], encoding: Encoding) -> Callable[[], object]:
    return lambda: data.write_artifact_of(file, iter(records), encoding)


def _reader(file: Path, count: int) -> Callable[[], object]:
    def read() -> None:
        with open_record_set(file, DEFAULT_LIMITS) as records:
            assert sum(1 for _ in records) == count

    return read
