"""Provenance of a whole file: unique IDs, existing parents, no cycles.

Linear in time and bounded in memory: a fixed number of rows is in memory, others are on disk in
partitions by the first bits of the ID, which are then compared one by one.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import Final

from satchel.runtime.scratch import Scratch, Spool

_PARTITIONS = 64
_ROW = 41  # 32 bytes of ID, 1 of role, 8 of position
_EXAMPLES = 20
_pack_tail = struct.Struct(">BQ").pack
_ids_of = struct.Struct("32s9x").iter_unpack


class Role(IntEnum):
    """The role of an ID in a file."""

    OTHER = 0
    """A record that cannot be a parent."""

    ENTRY = 1
    """An entry, full, redacted or withheld: it can be a parent."""

    TOMBSTONE = 2
    """The ID of an erased entry, named by its erasure record."""

    NEEDED = 3
    """A parent, named by a child."""

    MENTIONED = 4
    """An entry that another refers to without descending from it."""


@dataclass(slots=True)
class IdReport:
    """The result of ``IdIndex``: exact numbers, and at most twenty examples each."""

    duplicates: int = 0
    missing: int = 0
    dangling: int = 0
    """References that are not parents and have no target; reported, not fatal."""

    duplicate_examples: list[tuple[str, int]] = field(default_factory=list)
    """Duplicate IDs, with the position of the second."""

    missing_examples: list[tuple[str, int]] = field(default_factory=list)
    """Parents that are not in the file, with the position of a child."""


class IdIndex:
    """Collects ids and parents of a file in any order, then compares them.

    Args:
        held_rows: Rows in memory before they are written to disk.
    """

    def __init__(self, held_rows: int = 50_000) -> None:
        self._held_bytes: Final = held_rows * _ROW
        self._held = bytearray()
        self._segments: list[list[tuple[int, int]]] = [[] for _ in range(_PARTITIONS)]
        self._file = Spool()
        self._needed = False

    def add(self, identity: str, role: Role, position: int) -> None:
        """Add an ID at ``position`` (a line number or a count).

        Args:
            identity: A well-formed content address.
            role: Its role.
            position: Shown in the report.
        """
        self.add_raw(bytes.fromhex(identity[7:]), role, position)

    def add_raw(self, raw: bytes, role: Role, position: int) -> None:
        """As ``add``, for the 32 bytes of an ID."""
        self._held += raw + _pack_tail(role, position)
        self._needed = self._needed or role >= Role.NEEDED
        if len(self._held) >= self._held_bytes:
            self._spill()

    def add_rows(self, rows: bytes, *, refers: bool) -> None:
        """Add many rows: 32 bytes of an ID, one of role and eight of position each.

        Args:
            rows: The rows, next to each other.
            refers: Whether one of the roles is ``NEEDED`` or ``MENTIONED``.
        """
        self._held += rows
        self._needed = self._needed or refers
        if len(self._held) >= self._held_bytes:
            self._spill()

    def finish(self) -> IdReport:
        """Compare all IDs."""
        report = IdReport()
        if not any(self._segments):
            self._compare(bytes(self._held), report)
        else:
            self._spill()
            for segments in self._segments:
                self._compare(self._load(segments), report)
        for examples in (report.duplicate_examples, report.missing_examples):
            examples.sort(key=itemgetter(1, 0))
        return report

    def close(self) -> None:
        """Release the space on disk."""
        self._file.close()

    def _spill(self) -> None:
        """Move the rows in memory to disk, in partitions that can be compared one by one."""
        buffers = [bytearray() for _ in range(_PARTITIONS)]
        with memoryview(self._held) as rows:
            for start in range(0, len(rows), _ROW):
                buffers[rows[start] % _PARTITIONS] += rows[start : start + _ROW]
        for segments, buffer in zip(self._segments, buffers, strict=True):
            segments.append((self._file.size, len(buffer)))
            self._file.write(bytes(buffer))
        self._held.clear()

    def _load(self, segments: list[tuple[int, int]]) -> bytes:
        parts, spilled = [], self._file.handle()
        for offset, length in segments:
            spilled.seek(offset)
            parts.append(spilled.read(length))
        return b"".join(parts)

    def _compare(self, rows: bytes, report: IdReport) -> None:
        if not self._needed and len({raw for (raw,) in _ids_of(rows)}) * _ROW == len(rows):
            return  # unique, and not referred to
        present: dict[bytes, int] = {}
        needed: list[int] = []
        for start in range(0, len(rows), _ROW):
            role = rows[start + 32]
            if role >= Role.NEEDED:
                needed.append(start)
                continue
            raw = rows[start : start + 32]
            if raw in present and Role.TOMBSTONE not in (role, present[raw]):
                report.duplicates += 1
                _example(report.duplicate_examples, rows, start)
            present[raw] = max(role, present.get(raw, 0))
        for start in needed:
            if present.get(rows[start : start + 32]):
                continue
            if rows[start + 32] == Role.MENTIONED:
                report.dangling += 1
            else:
                report.missing += 1
                _example(report.missing_examples, rows, start)


def _example(examples: list[tuple[str, int]], rows: bytes, start: int) -> None:
    if len(examples) < _EXAMPLES:
        position = int.from_bytes(rows[start + 33 : start + _ROW], "big")
        examples.append((f"blake3:{rows[start : start + 32].hex()}", position))


class Lineage(Scratch):
    """The parents of entries, on disk if there are many; for cycles and for an entry's chain.

    SQLite's temporary database keeps small graphs in memory and spills large ones.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE node(id TEXT PRIMARY KEY, parents TEXT, note TEXT) WITHOUT ROWID;"
            "CREATE TABLE done(id TEXT PRIMARY KEY) WITHOUT ROWID;",
            cache_kib=8192,
        )

    def add(self, identity: str, parents: Iterable[str], note: str = "") -> None:
        """Add an entry with its parents and a note."""
        self._db.execute(
            "INSERT OR IGNORE INTO node VALUES (?, ?, ?)",
            (identity, json.dumps(list(parents)), note),
        )

    def find(self, identity: str) -> tuple[list[str], str] | None:
        """Return an entry's parents and note, or None."""
        row = self._db.execute(
            "SELECT parents, note FROM node WHERE id = ?", (identity,)
        ).fetchone()
        return None if row is None else (json.loads(row[0]), row[1])

    def matching(self, prefix: str) -> list[str]:
        """Return up to three ids that start with ``prefix``."""
        rows = self._db.execute(
            "SELECT id FROM node WHERE id >= ? AND id < ? ORDER BY id LIMIT 3",
            (prefix, prefix + "g"),
        )
        return [row[0] for row in rows]

    def chain(self, identity: str) -> Iterator[tuple[str, list[str] | None, str]]:
        """Yield an entry and all its ancestors once: (ID, parents or None if absent, note)."""
        waiting, seen = [identity], {identity}
        while waiting:
            current = waiting.pop()
            link = self.find(current)
            yield (current, *(link or (None, "")))
            for parent in link[0] if link else ():
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)

    def cycle(self) -> str | None:
        """Return an entry that is its own ancestor, or None; iterative, follows each edge once."""
        self._db.execute("DELETE FROM done")
        for (start,) in self._db.execute("SELECT id FROM node ORDER BY id").fetchall():
            if not self._is_done(start) and (found := self._walk(start)):
                return found
        return None

    def _walk(self, start: str) -> str | None:
        path: list[tuple[str, list[str]]] = [(start, self._parents(start))]
        on_path = {start}
        while path:
            current, left = path[-1]
            if not left:
                path.pop()
                on_path.discard(current)
                self._db.execute("INSERT OR IGNORE INTO done VALUES (?)", (current,))
                continue
            parent = left.pop()
            if parent in on_path:
                return parent
            if not self._is_done(parent):
                on_path.add(parent)
                path.append((parent, self._parents(parent)))
        return None

    def _parents(self, identity: str) -> list[str]:
        found = self.find(identity)
        return found[0] if found else []

    def _is_done(self, identity: str) -> bool:
        row = self._db.execute("SELECT 1 FROM done WHERE id = ?", (identity,)).fetchone()
        return row is not None
