"""The backup of OpenMemory, Mem0's local server, from its ``/backup/export``.

It is an archive with ``memories.json`` (and the same without tables, as ``memories.jsonl.gz``), or
that file alone. A memory becomes a semantic entry; its user and app are the scope, its categories
tags. Deleted memories are not read. The server's tables (users, apps, categories, permissions,
history) are stored beside the records. Writing is not supported, since Mem0 retired the server.
Compared with mem0's repository of 2025.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

from satchel.crypto.canonical import escape_keys
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._conversations import (
    Row,
    moment_of,
    origin_at,
    read_only,
    rest_of,
    text_in,
    text_or_none,
)
from satchel.formats._json import json_members, parse_rows
from satchel.model.records import Model, Semantic
from satchel.model.values import Component, Scope
from satchel.ports.format import (
    HEAD_BYTES,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet

_NAME = "openmemory"
_MEMORIES, _LINKS, _CATEGORIES, _APPS = "memories", "memory_categories", "categories", "apps"
_SIGNS = (b"user", b"apps", b"categories", b"memory_categories", b"status_history", b"export_meta")
_MOST_SIGNS = 2
_SUPPORTED = ("id", "content", "metadata")
_TIMES = ("created_at", "updated_at")
_DELETED, _COMPRESSED_COPY = "deleted", "memories.jsonl.gz"


class OpenMemory:
    """The format."""

    info: ClassVar[Info] = Info(
        title="OpenMemory backup",
        suffixes=(),
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=(
                *combinations(_SIGNS, _MOST_SIGNS),
                *((b"memories", b"state", sign) for sign in _SIGNS),
            ),
        ),
        spec="mem0's OpenMemory, POST /api/v1/backup/export, 2025",
        checked="2026-11-23",
        traits=Traits(components=frozenset({Component.SEMANTIC}), writes=False),
    )

    def recognizes(self, location: Location) -> bool:
        return any(_is_backup(head) for head in heads(location))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        some = False
        with open_archive(location, reading.limits) as archive:
            for file in archive.files:
                if file.info is not None and not _has_backup(archive, file):
                    if file.name != _COMPRESSED_COPY:
                        reading.report.lost(file.name, "not a memory file")
                    continue
                around = _fields_around(archive, file, reading)
                reading.container.update(around)
                for entry in _memories(archive, file, reading, _Tables(around)):
                    some = True
                    yield entry
        if not some and not reading.report.total:
            raise EmptyInputError("the backup contains no memories", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("an OpenMemory backup")


class _Tables:
    """The tables beside the memories.

    Args:
        around: The tables.
    """

    def __init__(self, around: Row) -> None:
        user = around.get("user")
        self.user = text_or_none(user.get("user_id")) if type(user) is dict else None
        self._apps = _names(around.get(_APPS))
        categories = _names(around.get(_CATEGORIES))
        self._tags = dict[str, list[str]]()
        for link in _rows(around.get(_LINKS)):
            name = categories.get(str(link.get("category_id")))
            if name is not None:
                self._tags.setdefault(str(link.get("memory_id")), []).append(name)

    def app_of(self, row: Row) -> str | None:
        """Return the name of a memory's app."""
        return self._apps.get(str(row.get("app_id"))) or text_or_none(row.get("app_name"))

    def tags_of(self, identity: str) -> tuple[str, ...]:
        """Return the names of a memory's categories."""
        return tuple(self._tags.get(identity, ()))


def _rows(value: Any) -> list[Row]:
    return [one for one in value if type(one) is dict] if type(value) is list else []


def _names(value: Any) -> dict[str, str]:
    return {
        str(one.get("id")): one["name"] for one in _rows(value) if text_or_none(one.get("name"))
    }


def _is_backup(head: bytes) -> bool:
    paths = {path for path, _ in json_members(head)}
    signs = sum((sign,) in paths for sign in _SIGNS)
    memory = {(b"memories", 0, b"content"), (b"memories", 0, b"state")} <= paths
    return signs >= _MOST_SIGNS or (memory and signs > 0)


def _has_backup(archive: ChatArchive, file: ArchiveFile) -> bool:
    if not file.ends(".json"):
        return False
    with archive.stream(file) as stream:
        return _is_backup(stream.read(HEAD_BYTES))


def _fields_around(archive: ChatArchive, file: ArchiveFile, reading: ReadContext) -> Row:
    """Return the tables of a backup, except that of the memories, which may be in any position."""
    around = Row()
    with archive.document(file, reading, mends=False) as document:
        for name in document.members():
            if name == _MEMORIES and document.peek() == "[":
                for _ in document.values():
                    pass
            else:
                around.update(escape_keys([(name, document.value())]))
        document.end()
    return around


def _memories(
    archive: ChatArchive, file: ArchiveFile, reading: ReadContext, tables: _Tables
) -> Iterator[Semantic]:
    with archive.document(file, reading, mends=False) as document:
        for name in document.members():
            if name != _MEMORIES:
                document.value()
                continue
            parse = partial(_entries, tables=tables, reading=reading)
            yield from parse_rows(document.values(), document, reading, parse, _MEMORIES)


def _entries(row: Row, tables: _Tables, reading: ReadContext) -> Iterator[Semantic]:
    """Yield the entry of a memory; none for a deleted one."""
    identity, text = text_in(row, "id"), row.get("content")
    if type(text) is not str:
        raise MalformedError("`content` is missing, or not text", field="content")
    if row.get("state") == _DELETED:
        reading.report.lost(_MEMORIES, "deleted there", example=identity)
        return
    metadata = row.get("metadata")
    as_written = rest_of(row, known=_SUPPORTED, times=_TIMES)
    yield Semantic(
        text=text,
        created_at=moment_of(row.get("created_at")),
        updated_at=moment_of(row.get("updated_at")),
        tags=tables.tags_of(identity),
        metadata=metadata if type(metadata) is dict else {},
        scope=Scope(user=tables.user, app=tables.app_of(row)),
        origin=origin_at(
            _NAME,
            identity,
            tables.user,
            as_written
            if type(metadata) in (dict, type(None))
            else {**as_written, "metadata": metadata},
        ),
    )


FORMAT = OpenMemory()
"""The instance that the registry loads."""
