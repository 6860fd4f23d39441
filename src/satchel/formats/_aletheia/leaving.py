"""Records as the rows of an agent file.

What names another record names it as the file does: by the id that it came with, or its own.
"""

from collections.abc import Iterator
from typing import cast

from satchel.disk.databases.keyed import Keyed
from satchel.formats._aletheia.own_vectors import with_vector
from satchel.formats._aletheia.rows import (
    identity_of,
    is_path,
    row_of_edge,
    row_of_entry,
    row_of_node,
)
from satchel.formats._aletheia.shape import BINARY, PARTS, Row
from satchel.formats._aletheia.talks import Talks
from satchel.formats._order import in_order
from satchel.formats._own_vectors import Outgoing
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import Edge, FileVersion
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed

_ENTRIES = tuple(map(str, Component))
_HELD = frozenset({*_ENTRIES, "graph_node", "edge", "session_event", "file_version"})
_OF_THE_TRANSFER = frozenset({"source", "receipt"})


class Leaving:
    """What an agent file is made of.

    Args:
        records: What is written.
        agent: Whose file it is, or was where the agent came from.
        report: Where is counted what has no place.
    """

    def __init__(self, records: RecordSet, agent: str, report: Report) -> None:
        self._records = records
        self._agent = agent
        self._report = report
        self._names, self._used = Keyed(), Keyed()
        for kind in (*_ENTRIES, "graph_node"):
            for record in records.of(kind):
                self._name(record, identity_of(record, record.model))
        self.talks = Talks(records, agent, report, self._name, self._called)
        """The conversations."""

        self._count_what_has_no_place()

    def close(self) -> None:
        """Give the space back."""
        for one in (self._names, self._used, self.talks):
            one.close()

    def vectors(self, container: Row, own: Outgoing) -> Iterator[Row]:
        """Yield the memories, in the order that they came in as far as it is known.

        Args:
            container: What was around them.
            own: The bank's own vectors, which go along beside them.
        """
        for record, vector in own.beside(in_order(self._records, container)):
            entry = cast("Entry", record.model)
            found = [self._named(parent) for parent in entry.parent_ids]
            parents = [one for one in found if one is not None]
            if len(parents) < len(found):
                reason = "a parent is not in the file"
                self._report.lost("parent_ids", reason, example=record.id)
            row = row_of_entry(record, self._named(record.id) or record.id, parents, self._agent)
            yield row if vector is None else with_vector(row, vector)

    def nodes(self) -> Iterator[Row]:
        """Yield the nodes of the graph."""
        for record in self._records.of("graph_node"):
            yield row_of_node(record, self._named(record.id) or record.id, self._agent)

    def edges(self) -> Iterator[Row]:
        """Yield the edges of the graph."""
        for record in self._records.of("edge"):
            edge = cast("Edge", record.model)
            source, target = self._named(edge.source), self._named(edge.target)
            if source is None or target is None:
                reason = "its target is not in the file"
                self._report.lost("edge", reason, example=record.id)
            else:
                yield row_of_edge(record, (source, target), self._agent)

    def files(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the path of each text file, and its text in parts; count what has no place."""
        for path, versions in self._by_path():
            first, reason = versions[0], None
            if not is_path(path):
                reason = "not a valid workspace path"
            elif first.text is None and not first.metadata.get(BINARY):
                reason = "bytes outside the log are not exported"
            elif not first.metadata.get(BINARY):
                yield path, [version.text or "" for version in versions]
            if reason is not None:
                self._report.lost("file_version", reason, example=path[:80])

    def binaries(self) -> Iterator[tuple[str, Row | None]]:
        """Yield the path of each other file, and where there is more than that, its contents."""
        for path, versions in self._by_path():
            first = versions[0]
            if not is_path(path) or not first.metadata.get(BINARY):
                continue
            row = {k: v for k, v in first.metadata.items() if k not in (BINARY, PARTS, "part")}
            if "contentsBase64" in row:
                contents = (str(one.metadata.get("contentsBase64", "")) for one in versions)
                row["contentsBase64"] = "".join(contents)
            kept = first.origin.as_written if first.origin else {}
            yield path, {"path": path, **row, **kept} if row or kept else None

    def _by_path(self) -> Iterator[tuple[str, list[FileVersion]]]:
        waiting: list[FileVersion] = []
        for record in self._records.of("file_version"):
            version = cast("FileVersion", record.model)
            if waiting and waiting[0].path != version.path:
                yield waiting[0].path, waiting
                waiting = []
            waiting.append(version)
        if waiting:
            yield waiting[0].path, waiting

    # -- names -----------------------------------------------------------------------------

    def _name(self, record: Sealed, wanted: str) -> str:
        """Give a record the id that it has in the file, and no other record has."""
        name = wanted if self._used.add(wanted.encode()) else record.id
        self._used.add(name.encode())
        self._names.put(record.id.encode(), name.encode())
        return name

    def _called(self, record_id: str, name: str) -> None:
        """Remember what something is called in the file that has its name from elsewhere."""
        self._names.put(record_id.encode(), name.encode())

    def _named(self, identity: str) -> str | None:
        found = self._names.get(identity.encode())
        return None if found is None else found.decode()

    def _count_what_has_no_place(self) -> None:
        lose = self._report.lost
        for section, count in self._records.counts.items():
            kind = TYPED_SECTIONS.get(section)
            if kind is None:
                lose(section, "an agent file has no such section", count=count)
            elif kind not in _HELD | _OF_THE_TRANSFER:
                for record in self._records.of(kind):
                    lose(kind, "an agent file has no such records", example=record.id)
