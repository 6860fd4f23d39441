"""Writes the samples of Cognee's archives; run it again and nothing changes.

``python tests/data/formats/cognee/make.py``. Every name and text is invented; the shapes are those
of cognee 1.6.5.
"""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from graphs_kit import files_in

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-05-04T03:02:01Z"


def row(kind: str, identity: str, **more: Any) -> dict[str, Any]:
    """A row as Cognee writes it."""
    common = {"external_system": "cognee", "external_id": identity, "scope": {}, "metadata": {}}
    return {**common, "kind": kind} | more


FILES: dict[str, list[dict[str, Any]]] = {
    "documents.jsonl": [
        row("document", "d-1", content="A page about kettles. ✓", title="Kettles", created_at=THEN)
    ],
    "episodes.jsonl": [
        row(
            "episode",
            "e-1",
            title="Monday",
            created_at=THEN,
            turns=[
                {"role": "user", "content": "Hello.", "occurred_at": THEN},
                {"role": "assistant", "content": "Hi.\u2028There."},
            ],
        ),
        row("episode", "e-2", turns=[], x={"n": 2**60}),
    ],
    "entities.jsonl": [
        row(
            "entity",
            "n-1",
            name="Rosa",
            entity_type="person",
            description="Runs it.",
            aliases=["R."],
            attributes={"age": 41},
            created_at=THEN,
        ),
        row("entity", "n-2", name="Tea house", description="", aliases=[], attributes={}),
    ],
    "facts.jsonl": [
        row(
            "fact",
            "n-1:OWNS:n-2",
            subject_ref="n-1",
            predicate="OWNS",
            object_ref="n-2",
            fact_text="Rosa owns the tea house.",
            valid_at="2026-05-01T00:00:00Z",
            provenance=["d-1"],
        ),
        row(
            "fact",
            "n-1:is_a:t-1",
            subject_ref="n-1",
            predicate="is_a",
            object_ref="t-1",
            valid_at="2020-01-01T00:00:00Z",
            invalid_at=THEN,
            confidence=0.5,
            provenance=[],
        ),
        row(
            "fact", "f-3", subject_ref="Rosa", predicate="knows", object_ref="Nobody", provenance=[]
        ),
    ],
    "memories.jsonl": [
        row(
            "memory",
            "m-1",
            content="Takes it cold.",
            categories=["tea"],
            updated_at=THEN,
            scope={"user_id": "rosa", "session_id": "s-1", "run_id": "r"},
            metadata={"n": [1, None]},
        ),
        row("memory", "m-2", content="", categories=[]),
    ],
    "memory_blocks.jsonl": [
        row("memory_block", "b-1", label="persona", value="I keep the tea house.", limit=2000),
        row("memory_block", "b-2", label="human", value="Rosa."),
    ],
    "nodes.jsonl": [
        {
            "id": "t-1",
            "name": "Person",
            "type": "EntityType",
            "created_at": 1795294240124,
            "x": None,
        }
    ],
}


def manifest(files: dict[str, list[dict[str, Any]]], **more: Any) -> bytes:
    """The manifest of an archive."""
    kinds = {"nodes.jsonl": "raw_node"}
    counts = {kinds.get(name, rows[0].get("kind", "")): len(rows) for name, rows in files.items()}
    said = {"cogx_version": "0.1", "source_system": "cognee", "exported_at": THEN, "counts": counts}
    return json.dumps(
        said | {"embedding_model": None, "notes": ["From Cognee."]} | more, indent=2
    ).encode()


def contents(files: dict[str, list[dict[str, Any]]]) -> dict[str, bytes]:
    """Files as bytes, the manifest first."""
    made = {
        name: b"".join(
            json.dumps(one, ensure_ascii=False).replace("\u2028", "\\u2028").encode() + b"\n"
            for one in rows
        )
        for name, rows in files.items()
    }
    return {"manifest.json": manifest(files)} | made


def tar(files: dict[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """A tar."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            about = tarfile.TarInfo(name)
            about.size, about.mtime, about.type, about.linkname = len(data), 1.5, kind, link
            archive.addfile(about, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
    return sink.getvalue()


def packed_zip(files: dict[str, bytes]) -> bytes:
    """A folder as it is put together."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return sink.getvalue()


WHOLE = contents(FILES)
MEMORIES = contents({"memories.jsonl": FILES["memories.jsonl"]})


def with_row(file: str, line: bytes) -> bytes:
    """An archive with one line more."""
    return gzip.compress(tar({**WHOLE, file: WHOLE[file] + line + b"\n"}), mtime=0)


BAD: dict[str, bytes] = {
    "empty.cogx.tar": b"",
    "nothing.cogx.tar": tar(contents({})),
    "no-manifest.cogx.tar": tar({"memories.jsonl": MEMORIES["memories.jsonl"]}),
    "newer.cogx.tar": tar({**MEMORIES, "manifest.json": manifest({}, cogx_version="1.0")}),
    "no-version.cogx.tar": tar({**MEMORIES, "manifest.json": b"{}"}),
    "cut.cogx.tar": tar(WHOLE)[:3000],
    "cut.cogx.tar.gz": gzip.compress(tar(WHOLE), mtime=0)[:-20],
    "damaged.cogx.tar": tar(MEMORIES).replace(b"memories.jsonl\0", b"memorieZ.jsonl\0"),
    "leads-out.cogx.tar": tar({**MEMORIES, "../x.jsonl": b"{}"}),
    "link.cogx.tar": tar({"memories.jsonl": b""}, tarfile.SYMTYPE, "/etc/passwd"),
    "long-name.cogx.tar": tar({**MEMORIES, "x" * 300: b""}),
    "memory-number.cogx.tar.gz": with_row("memories.jsonl", b'{"external_id": "x", "content": 1}'),
    "memory-without-id.cogx.tar.gz": with_row("memories.jsonl", b'{"content": "x"}'),
    "fact-without-end.cogx.tar.gz": with_row(
        "facts.jsonl", b'{"external_id": "x", "subject_ref": "a", "predicate": "b"}'
    ),
    "entity-text.cogx.tar.gz": with_row("entities.jsonl", b'"x"'),
    "turn-text.cogx.tar.gz": with_row("episodes.jsonl", b'{"external_id": "x", "turns": ["y"]}'),
    "block-without-label.cogx.tar.gz": with_row(
        "memory_blocks.jsonl", b'{"external_id": "x", "value": "y"}'
    ),
    "not-utf8.cogx.tar.gz": with_row("memories.jsonl", b'{"external_id": "\xff"}'),
    "key-twice.cogx.tar.gz": with_row("memories.jsonl", b'{"content": "x", "content": "y"}'),
    "of-no-kind.zip": packed_zip({"manifest.json": manifest({}), "x.jsonl": b"{}\n"}),
}


def main() -> None:
    """Write everything."""
    (HERE / "good-whole.cogx.tar.gz").write_bytes(gzip.compress(tar(WHOLE), mtime=0))
    (HERE / "good-memories.cogx.tar").write_bytes(tar(MEMORIES))
    for name, data in BAD.items():
        (HERE / f"bad-{name}").write_bytes(data)
    subject = Subject("cognee", formats["cognee"], HERE, files_in)
    for sample in subject.good():
        found = subject.take(sample).contents
        text = json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True)
        subject.expectation(sample).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
