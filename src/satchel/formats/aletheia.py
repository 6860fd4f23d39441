"""Agent files: an agent's memory, conversations, workspace and settings in one file.

The writer produces version 1 of the specification (seed 003); other data of the log are in
additional members (``record``, ``others``, ``exportMetadata``), which a reader of version 1
ignores. The reader accepts that, the files of the TypeScript program (version 1, generator
``aletheia-export``) and those of the Rust program (versions 2 to 4), which become version 1.
Compared with forkwright/aletheia at v0.41.0 and at f5347f74e.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, ClassVar, cast

import msgspec

from satchel.artifact.encodings import gzip_sink
from satchel.crypto.sealed_records import Sealed
from satchel.formats._aletheia.reader import AletheiaDocument
from satchel.formats._aletheia.schema import HEAD, MAKER, NAME, VERSION, Row, source_of
from satchel.formats._aletheia.writer import (
    AletheiaSessionsWriter,
    AletheiaSessionWriter,
    AletheiaWriter,
)
from satchel.formats._json import as_json, json_members
from satchel.formats._own_vectors import BankVectorWriter
from satchel.model.records import Model, Source
from satchel.model.values import Component, is_agent_name, now
from satchel.ports.format import Info, Place, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet

_DIGITS = frozenset(b"0123456789")
_NOBODY = "agent"
_GENERATOR = "satchel"


class Aletheia:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Agent file (Aletheia)",
        suffixes=(".agent.json",),
        signs=Signs(texts=((b"version", b"nous"),)),
        spec="Agent Portability, version 1 (seed 003); aletheia-export/1.0; aletheia-rust 2 to 4",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True),
        lost_on_writing=(
            "Checkpoints not created by a distillation, file contents stored outside the log, "
            "and edges out of the file."
        ),
    )

    def recognises(self, place: Place) -> bool:
        found = {path: start for path, start in json_members(place.unpacked_head) if len(path) == 1}
        is_versioned = found.get((b"version",), b"x")[0] in _DIGITS
        return is_versioned and (b"nous",) in found

    def read(self, place: Place, reading: ReadContext) -> Iterator[Model | Sealed]:
        with AletheiaDocument(place, reading) as document:
            yield from document.records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        container = container_of(records, writing.report)
        head = _head(container, writing)
        with (
            closing(AletheiaWriter(records, source_of(head["nous"]), writing.report)) as leaving,
            target.open() as sink,
        ):
            if writing.compress:
                with gzip_sink(sink) as packed:
                    _File(packed, writing).write(leaving, container, head)
            else:
                _File(sink, writing).write(leaving, container, head)


FORMAT = Aletheia()
"""The instance that the registry loads."""


def container_of(records: RecordSet, report: Report) -> Row:
    """Return the members around the records; of several files, those of the last one."""
    last: Row = {}
    for record in records.of("source"):
        source = cast("Source", record.model)
        if source.format != NAME:
            continue
        found = source.container
        if last and last.get("nous") != found.get("nous") and not found.get("whole"):
            report.lost("container", "only one agent can be stored", example=record.id)
        last = found
    return last


def _head(container: Row, writing: WriteContext) -> Row:
    made = (writing.header.extra or {}).get("created_at")
    exported = container.get("exportedAt") if writing.bank is None else None
    head: Row = {"version": VERSION, "exportedAt": exported or (made or now())}
    kept = container.get("generator") if writing.bank is None else _GENERATOR
    head |= {"generator": kept} if kept is not None or "generator" in container else {}
    name = writing.bank if writing.bank and is_agent_name(writing.bank) else _NOBODY
    nous = container.get("nous") or {"id": name, "name": name, "model": None, "config": {}}
    return {**head, "nous": nous}


class _File:
    """An agent file that is being written."""

    def __init__(self, sink: BinaryIO, writing: WriteContext) -> None:
        self._sink = sink
        self._writing = writing
        self._report = writing.report

    def write(self, leaving: AletheiaWriter, container: Row, head: Row) -> None:
        self._sink.write(b"{\n")
        for name, value in head.items():
            self._member(name, value)
            self._sink.write(b",\n")
        self._workspace(leaving, container.get("workspace", {}))
        self._memory(leaving, container)
        self._sessions(leaving, container)
        held = {"receipts": [], "reflections": [], **container.get("distillation", {})}
        held["receipts"] = leaving.talks.receipts(held["receipts"] or [])
        self._member("distillation", held)
        if container.get("exportMetadata") is not None:
            self._next("exportMetadata", self._told(container["exportMetadata"]))
        for name, value in container.get("fields", {}).items():
            if name not in (*HEAD, *_SECTIONS):
                self._next(name, value)
        if container.get("knowledge"):
            self._next("knowledge", container["knowledge"])
        self._sink.write(b"\n}\n")

    def _workspace(self, leaving: AletheiaWriter, more: Row) -> None:
        self._sink.write(b'"workspace": {"files": {')
        for place, (path, parts) in enumerate(leaving.files()):
            self._sink.write(b",\n" if place else b"\n")
            self._sink.write(self._json(path) + b': "')
            for part in parts:
                self._sink.write(self._json(part)[1:-1])
            self._sink.write(b'"')
        self._sink.write(b'},\n"binaryFiles": ')
        self._array(path for path, _ in leaving.binaries())
        contents = (row for _, row in leaving.binaries() if row is not None)
        first = next(contents, None)
        if first is not None:
            self._sink.write(b',\n"binaryFileContents": ')
            self._array(_chained(first, contents))
        self._more(more, ("files", "binaryFiles", "binaryFileContents"))
        self._sink.write(b"},\n")

    def _memory(self, leaving: AletheiaWriter, container: Row) -> None:
        own = BankVectorWriter(self._writing)
        self._sink.write(b'"memory": {')
        if own.maker is not None:
            self._member(MAKER, msgspec.to_builtins(own.maker))
            self._sink.write(b",\n")
        self._sink.write(b'"vectors": ')
        self._array(leaving.vectors(container, own))
        own.tell(self._writing)
        self._sink.write(b',\n"graph": {"nodes": ')
        self._array(leaving.nodes())
        self._sink.write(b',\n"edges": ')
        self._array(leaving.edges())
        self._more(container.get("graph", {}), ("nodes", "edges"))
        self._sink.write(b"}")
        self._more(container.get("memory", {}), ("vectors", "graph"))
        self._sink.write(b"},\n")

    def _sessions(self, leaving: AletheiaWriter, container: Row) -> None:
        self._sink.write(b'"sessions": {"primary": ')
        wanted = container.get("primary")
        everyone = list(leaving.talks.all())
        main = next((one for one in everyone if wanted in (one.identity, one.key)), None)
        if main is None:
            main = everyone[0] if everyone else None
        alone = not container.get("others", True)
        if main is None:
            self._sink.write(b"null")
        else:
            self._session(leaving.talks, main, whole=True, alone=alone)
        more = dict(container.get("sessions", {}))
        self._sink.write(b',\n"background": ' + self._json(more.pop("background", [])))
        if len(everyone) > 1 and not alone:
            self._sink.write(b',\n"others": [')
            rest = (one for one in everyone if one is not main)
            for place, one in enumerate(rest):
                self._sink.write(b",\n" if place else b"\n")
                self._session(leaving.talks, one, whole=False, alone=False)
            self._sink.write(b"]")
        self._more(more, ("primary", "others"))
        self._sink.write(b"},\n")

    def _session(
        self, talks: AletheiaSessionsWriter, one: AletheiaSessionWriter, *, whole: bool, alone: bool
    ) -> None:
        head = self._json(talks.head(one, whole=whole, alone=alone))
        self._sink.write(head[:-1] + b',\n"messages": ')
        self._array(talks.messages(one, whole=whole))
        self._more(talks.beside(one, whole=whole), ())
        self._sink.write(b"}")

    def _told(self, said: Any) -> Any:
        """Return the report inside the file, with the losses of writing it."""
        if type(said) is not dict or self._report.total == 0:
            return said
        omitted = [
            {"section": loss.name, "reason": loss.reason, "count": loss.count}
            for loss in self._report.losses.values()
        ]
        return {
            **said,
            "lossless": False,
            "omittedSections": [*(said.get("omittedSections") or []), *omitted],
        }

    def _array(self, rows: Iterable[Any]) -> None:
        self._sink.write(b"[")
        for place, row in enumerate(rows):
            self._sink.write((b",\n" if place else b"\n") + self._json(row))
        self._sink.write(b"]")

    def _more(self, members: Row, but: tuple[str, ...]) -> None:
        for name, value in members.items():
            if name not in but:
                self._next(name, value)

    def _next(self, name: str, value: Any) -> None:
        self._sink.write(b",\n")
        self._member(name, value)

    def _member(self, name: str, value: Any) -> None:
        self._sink.write(self._json(name) + b": " + self._json(value))

    def _json(self, value: Any) -> bytes:
        """Encode as Python's ``json`` does, including NaN and large integers."""
        return as_json(value, self._report)


_SECTIONS = ("nous", "workspace", "memory", "sessions", "distillation", "exportMetadata")


def _chained(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest
