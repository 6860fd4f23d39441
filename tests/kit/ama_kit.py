"""AMA archives, written and read without a bank."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from satchel.conformance.subject import sealed, source_of
from satchel.crypto.sealed_records import Sealed
from satchel.model.records import Model
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats

AMA = formats["ama"]

Row = dict[str, Any]

HEADER: Row = {
    "_ama_version": 1,
    "bank_id": "noor",
    "exported_at": "2026-04-03T12:00:00Z",
    "provider": "mem0",
}


def archive(path: Path, *rows: Row | bytes, **header: Any) -> Path:
    """Write an archive; a row of bytes is written unchanged, ``header`` replaces members."""
    first = {**HEADER, "memory_count": len(rows), **header}
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in (first, *rows)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def read(path: Path, **options: Any) -> tuple[list[Sealed], ReadContext]:
    """Return the records of an archive, and the context of the read."""
    reading = ReadContext(**options)
    return list(read_records(AMA, Location(path), reading)), reading


def write(
    path: Path,
    records: Iterable[Model | Sealed],
    reading: ReadContext | None = None,
    **options: Any,
) -> tuple[list[Row], WriteContext]:
    """Write records with the container they were read with; return the lines."""
    writing = WriteContext(**options)
    source = [] if reading is None else [source_of("ama", reading.container)]
    with sealed([*records, *source]) as found:
        AMA.write(found, Target(path, overwrite=True), writing)
    return lines(path), writing


def lines(path: Path) -> list[Row]:
    """Return the lines of an archive; NaN and Infinity are refused."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = path.read_text("utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines() if line]


def memory(name: str = "m-1", text: str = "Noor keeps bees.", **more: Any) -> Row:
    """Return a line of a memory."""
    return {"id": name, "text": text, **more}
