"""Writes the samples but ``good-astrocyte``, and what each good one holds; run it again: no change.

``good-astrocyte.ama.jsonl`` was exported by astrocyte 0.22.0 with astrocyte-sqlite 0.22.0 (see
``benchmarks/peers/astrocyte_bank.py``). Every name, text and number is invented.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject, sealed
from satchel.model.records import Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import Entity, Evidence, Origin, Scope, TrustClass
from satchel.ports.format import formats

HERE = Path(__file__).parent
SUBJECT = Subject("ama", formats["ama"], HERE)
THEN = "2026-05-04T03:02:01.000001Z"

SEED = [
    {
        "id": "mem_001",
        "text": "Calvin prefers dark mode",
        "fact_type": "experience",
        "tags": ["preference"],
        "metadata": {"source": "chat"},
        "occurred_at": "2026-03-15T10:30:00Z",
        "created_at": "2026-03-15T10:30:05Z",
    },
    {
        "id": "mem_002",
        "text": "The deployment pipeline uses GitHub Actions",
        "fact_type": "world",
        "tags": ["technical"],
        "metadata": {"source": "onboarding"},
        "occurred_at": "2026-03-10T09:00:00Z",
        "created_at": "2026-03-10T09:00:12Z",
    },
]

ODD: list[dict[str, Any]] = [
    {
        "id": "m-1",
        "text": "Noor keeps bees on the roof; 蜂は屋上にいる。",
        "fact_type": "world",
        "tags": [],
        "metadata": {},
        "source": "chat",
        "bank_id": "noor",
        "entities": [
            {"name": "Noor", "entity_type": "PERSON", "aliases": ["N."]},
            {"name": "Oslo", "entity_type": "LOCATION", "aliases": [], "confidence": 0.75},
        ],
        "embedding": [0.125, -0.5, 0.0, 1e-07, 3],
        "memory_layer": "fact",
    },
    {
        "id": "m-2",
        "text": " edges of space \r\nand other line ends ",
        "fact_type": "observation",
        "occurred_at": "2026-03-15T10:30:00.250+05:30",
        "created_at": "2026-03-15T10:30:00",
        "bank_id": "elsewhere",
        "retained_at": None,
    },
    {
        "id": "m-3",
        "text": "Dates that are none are kept.",
        "fact_type": "experience",
        "occurred_at": "May 2026",
        "created_at": "2026-05",
        "tags": None,
        "metadata": None,
        "entities": None,
        "embedding": None,
        "source": None,
        "bank_id": None,
    },
    {"id": "", "text": "A memory whose engine gave it no id.", "fact_type": "opinion"},
    {"id": "m-5", "text": "", "fact_type": None},
    {
        "id": "m-6",
        "text": "Numbers and keys that others refuse.",
        "metadata": {"$int": "5", "big": 2**70, "$ref": {"$absent": True}, "nested": [[{}]]},
        "$odd": 1,
        "occurred_at": "2026-01-01T00:00:00.123456Z",
    },
]


def archive(rows: list[Any], **header: Any) -> bytes:
    """Return an archive; ``header`` replaces members of its first line."""
    first = {
        "_ama_version": 1,
        "bank_id": "noor",
        "exported_at": "2026-04-03T12:00:00Z",
        "provider": "mem0",
        "memory_count": len(rows),
        **header,
    }
    lines = [json.dumps(row, ensure_ascii=False) for row in (first, *rows)]
    return "".join(line + "\n" for line in lines).encode()


def everything() -> list[Any]:
    """Entries of all components, with what AMA has no place for."""
    return [
        Semantic(
            subject="Noor", predicate="keeps", object="bees", confidence=0.75, created_at=THEN
        ),
        Episodic(
            observation="Noor asked when the honey is ready.",
            actor="user:noor",
            event_type="outcome",
            occurred_at=THEN,
            scope=Scope(user="noor", run="r-1"),
            sources=(Evidence(kind="message", id="msg-7"),),
        ),
        Episodic(text="The hives were moved.", event_type="reflection", salience=0.5),
        Identity(persona="A patient beekeeper's help.", language="en"),
        Procedural(name="harvest", body="First smoke, then lift.", preconditions=("dry weather",)),
        Working(goals=("order jars",), data={"jars": 40}, kind="plan"),
        Semantic(
            text="Honey keeps.",
            tags=("food",),
            metadata={"sure": True, "nan": {"$float": "NaN"}},
            entities=(Entity(name="honey"),),
            origin=Origin(
                provider="mem0", id="7", trust=TrustClass.IMPORTED, as_written={"hash": "h"}
            ),
        ),
    ]


def good() -> None:
    """Write the samples that must be read."""
    _write("good-seed.ama.jsonl", archive(SEED, bank_id="user-123"))
    _write("good-odd.ama.jsonl", archive(ODD, note="kept", _extra={"big": 2**64}))
    _write("good-windows.ama.jsonl", b"\xef\xbb\xbf" + archive(SEED).replace(b"\n", b"\r\n"))
    _write("good-packed.ama.jsonl.gz", gzip.compress(archive([*SEED, *ODD]), mtime=0))
    with sealed(everything()) as records, SUBJECT.written(records, "x.ama.jsonl") as (path, _):
        _write("good-everything.ama.jsonl", path.read_bytes())
    for sample in SUBJECT.good():
        contents = json.dumps(SUBJECT.take(sample).contents, ensure_ascii=False, indent=1)
        _write(SUBJECT.expectation(sample).name, contents.encode() + b"\n")


def bad() -> None:
    """Write the samples that must be refused."""
    whole, one = archive(SEED), SEED[0]
    lines = whole.splitlines(keepends=True)
    changed: dict[str, Any] = {
        "empty": b"",
        "blank": b"\n\n",
        "no-header": b"".join(lines[1:]),
        "header-list": b"[]\n" + lines[1],
        "header-number": b"5\n" + lines[1],
        "header-text": b'"_ama_version"\n' + lines[1],
        "version-2": archive(SEED, _ama_version=2),
        "version-text": archive(SEED, _ama_version="1"),
        "version-true": archive(SEED, _ama_version=True),
        "no-bank": archive(SEED, bank_id=None),
        "provider-number": archive(SEED, provider=5),
        "provider-huge": archive(SEED, provider="p" * 5000),
        "count-true": archive([one], memory_count=True),
        "count-negative": archive(SEED, memory_count=-5),
        "count-short": archive(SEED, memory_count=42),
        "count-over": archive(SEED, memory_count=1),
        "count-zero": archive(SEED, memory_count=0),
        "nothing": archive([]),
        "cut": whole[:-30],
        "cut-after-a-line": b"".join(lines[:-1]),
        "not-utf8": whole.replace(b"dark", b"d\xffrk"),
        "utf16": whole.decode().encode("utf-16"),
        "not-json": whole.replace(b'"tags":', b'"tags"'),
        "two-on-a-line": whole.replace(b'"}\n{"id": "mem_002"', b'"} {"id": "mem_002"'),
        "key-twice": whole.replace(b'"tags"', b'"text"'),
        "surrogate": whole.replace(b"Calvin", b"\\ud800"),
        "deep": archive([{**one, "metadata": _nested(100)}]),
        "very-deep": whole.replace(b'"chat"', b"[" * 100_000 + b"]" * 100_000),
        "huge-integer": whole.replace(b'"chat"', b"7" * 5000),
        "many-keys": archive([{**one, "metadata": {f"k{n}": n for n in range(1025)}}]),
        "many-tags": archive([{**one, "tags": ["t"] * 257}]),
        "packed-cut": gzip.compress(whole, mtime=0)[:-12],
        "packed-trailing": gzip.compress(whole, mtime=0) + b"x",
    }
    members: dict[str, Any] = {
        "id": [None, 5, ["a"]],
        "text": [None, 5, {}],
        "fact_type": [5],
        "tags": ["preference", [1]],
        "metadata": [["a"], "x"],
        "occurred_at": [1_750_000_000, {}],
        "created_at": [5.5],
        "source": [{"a": 1}],
        "bank_id": [7],
        "entities": [{}, ["Noor"], [{"entity_type": "PERSON"}], [{"name": "N", "aliases": "n"}]],
        "embedding": ["AAAA", [True], [0.5, "x"], [[0.5]]],
    }
    for name, values in members.items():
        for place, value in enumerate(values):
            changed[f"{name}-{place}"] = archive([one, {**SEED[1], name: value}])
    for name in ("id", "text"):
        rest = {key: part for key, part in one.items() if key != name}
        changed[f"no-{name}"] = archive([SEED[1], rest])
    for name, data in changed.items():
        suffix = ".ama.jsonl.gz" if name.startswith("packed") else ".ama.jsonl"
        _write(f"bad-{name}{suffix}", data)


def _nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def _write(name: str, data: bytes) -> None:
    (HERE / name).write_bytes(data)


if __name__ == "__main__":
    bad()
    good()
