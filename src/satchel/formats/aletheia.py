"""Agent files: an agent's memory, conversations, workspace and settings in one file.

The writer produces version 1 of the specification; other data of the log are in
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
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

_DIGITS = frozenset(b"0123456789")
_NOBODY = "agent"
_GENERATOR = "satchel"


class Aletheia:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Agent file (Aletheia)",
        suffixes=(".agent.json",),
        signs=Signs(texts=((b"version", b"nous"),)),
        spec="Agent Portability, version 1; aletheia-export/1.0; aletheia-rust 2 to 4",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True),
        lost_on_writing=(
            "Checkpoints not created by a distillation, file contents stored outside the log, "
            "and edges out of the file."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        starts = {
            path: start for path, start in json_members(location.unpacked_head) if len(path) == 1
        }
        is_versioned = starts.get((b"version",), b"x")[0] in _DIGITS
        return is_versioned and (b"nous",) in starts

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with AletheiaDocument(location, reading) as document:
            yield from document.records()

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        container = container_of(records, writing.report)
        head = _head(container, writing)
        with (
            closing(AletheiaWriter(records, source_of(head["nous"]), writing.report)) as writer,
            target.open() as sink,
        ):
            if writing.compress:
                with gzip_sink(sink) as packed:
                    _File(packed, writing).write(writer, container, head)
            else:
                _File(sink, writing).write(writer, container, head)


FORMAT = Aletheia()
"""The instance that the registry loads."""


def container_of(records: RecordSet, report: Report) -> Row:
    """Return the members around the records; of several files, those of the last one."""
    last: Row = {}
    for record in records.of("source"):
        source = cast("Source", record.model)
        if source.format != NAME:
            continue
        container = source.container
        if last and last.get("nous") != container.get("nous") and not container.get("whole"):
            report.lost("container", "only one agent can be stored", example=record.id)
        last = container
    return last


def _head(container: Row, writing: WriteContext) -> Row:
    created = (writing.header.extra or {}).get("created_at")
    exported = container.get("exportedAt") if writing.bank is None else None
    head: Row = {"version": VERSION, "exportedAt": exported or (created or now())}
    generator = container.get("generator") if writing.bank is None else _GENERATOR
    head |= {"generator": generator} if generator is not None or "generator" in container else {}
    name = writing.bank if writing.bank and is_agent_name(writing.bank) else _NOBODY
    nous = container.get("nous") or {"id": name, "name": name, "model": None, "config": {}}
    return {**head, "nous": nous}


class _File:
    """An agent file that is being written."""

    def __init__(self, sink: BinaryIO, writing: WriteContext) -> None:
        self._sink = sink
        self._writing = writing
        self._report = writing.report

    def write(self, writer: AletheiaWriter, container: Row, head: Row) -> None:
        self._sink.write(b"{\n")
        for name, value in head.items():
            self._member(name, value)
            self._sink.write(b",\n")
        self._workspace(writer, container.get("workspace", {}))
        self._memory(writer, container)
        self._sessions(writer, container)
        held = {"receipts": [], "reflections": [], **container.get("distillation", {})}
        held["receipts"] = writer.conversations.receipts(held["receipts"] or [])
        self._member("distillation", held)
        if container.get("exportMetadata") is not None:
            self._next("exportMetadata", self._with_losses(container["exportMetadata"]))
        for name, value in container.get("fields", {}).items():
            if name not in (*HEAD, *_SECTIONS):
                self._next(name, value)
        if container.get("knowledge"):
            self._next("knowledge", container["knowledge"])
        self._sink.write(b"\n}\n")

    def _workspace(self, writer: AletheiaWriter, more: Row) -> None:
        self._sink.write(b'"workspace": {"files": {')
        for index, (path, parts) in enumerate(writer.files()):
            self._sink.write(b",\n" if index else b"\n")
            self._sink.write(self._json(path) + b': "')
            for part in parts:
                self._sink.write(self._json(part)[1:-1])
            self._sink.write(b'"')
        self._sink.write(b'},\n"binaryFiles": ')
        self._array(path for path, _ in writer.binaries())
        contents = (row for _, row in writer.binaries() if row is not None)
        first = next(contents, None)
        if first is not None:
            self._sink.write(b',\n"binaryFileContents": ')
            self._array(_chained(first, contents))
        self._more(more, ("files", "binaryFiles", "binaryFileContents"))
        self._sink.write(b"},\n")

    def _memory(self, writer: AletheiaWriter, container: Row) -> None:
        own = BankVectorWriter(self._writing)
        self._sink.write(b'"memory": {')
        if own.maker is not None:
            self._member(MAKER, msgspec.to_builtins(own.maker))
            self._sink.write(b",\n")
        self._sink.write(b'"vectors": ')
        self._array(writer.vectors(container, own))
        own.report(self._writing)
        self._sink.write(b',\n"graph": {"nodes": ')
        self._array(writer.nodes())
        self._sink.write(b',\n"edges": ')
        self._array(writer.edges())
        self._more(container.get("graph", {}), ("nodes", "edges"))
        self._sink.write(b"}")
        self._more(container.get("memory", {}), ("vectors", "graph"))
        self._sink.write(b"},\n")

    def _sessions(self, writer: AletheiaWriter, container: Row) -> None:
        self._sink.write(b'"sessions": {"primary": ')
        primary = container.get("primary")
        conversations = list(writer.conversations.all())
        main = next(
            (
                conversation
                for conversation in conversations
                if primary in (conversation.identity, conversation.key)
            ),
            None,
        )
        if main is None:
            main = conversations[0] if conversations else None
        alone = not container.get("others", True)
        if main is None:
            self._sink.write(b"null")
        else:
            self._session(writer.conversations, main, whole=True, alone=alone)
        more = dict(container.get("sessions", {}))
        self._sink.write(b',\n"background": ' + self._json(more.pop("background", [])))
        if len(conversations) > 1 and not alone:
            self._sink.write(b',\n"others": [')
            rest = (conversation for conversation in conversations if conversation is not main)
            for index, conversation in enumerate(rest):
                self._sink.write(b",\n" if index else b"\n")
                self._session(writer.conversations, conversation, whole=False, alone=False)
            self._sink.write(b"]")
        self._more(more, ("primary", "others"))
        self._sink.write(b"},\n")

    def _session(
        self,
        conversations: AletheiaSessionsWriter,
        conversation: AletheiaSessionWriter,
        *,
        whole: bool,
        alone: bool,
    ) -> None:
        head = self._json(conversations.head(conversation, whole=whole, alone=alone))
        self._sink.write(head[:-1] + b',\n"messages": ')
        self._array(conversations.messages(conversation, whole=whole))
        self._more(conversations.beside(conversation, whole=whole), ())
        self._sink.write(b"}")

    def _with_losses(self, metadata: Any) -> Any:
        """Return the report inside the file, with the losses of writing it."""
        if type(metadata) is not dict or self._report.total == 0:
            return metadata
        omitted = [
            {"section": loss.name, "reason": loss.reason, "count": loss.count}
            for loss in self._report.losses.values()
        ]
        return {
            **metadata,
            "lossless": False,
            "omittedSections": [*(metadata.get("omittedSections") or []), *omitted],
        }

    def _array(self, rows: Iterable[Any]) -> None:
        self._sink.write(b"[")
        for index, row in enumerate(rows):
            self._sink.write((b",\n" if index else b"\n") + self._json(row))
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
