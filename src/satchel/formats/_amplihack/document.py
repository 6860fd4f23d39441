"""amplihack's hierarchical JSON, read: versions 1.0 and 1.1, and agent-core's own shape.

Agent-core writes ``nodes``, ``edges`` and ``episodes`` without a version; its nodes are taken as
version 1.1 has them. What is around the arrays is kept as it was found.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError
from satchel.formats._amplihack.gathering import Gathering, Where
from satchel.formats._amplihack.rows import from_agent_core
from satchel.formats._amplihack.shape import (
    ARRAYS,
    EDGES,
    EPISODES,
    FACTS,
    NODES,
    array_of,
    statistic_of,
)
from satchel.formats._unpacked_json import reader_of
from satchel.memory.parts import Scope
from satchel.memory.records import Model
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.seal.encoding.carry import escape_keys
from satchel.seal.encoding.foreign_json import ForeignReader

VERSIONS = ("1.0", "1.1")
"""The versions that are known."""

_CORE = {"nodes": FACTS, "episodes": EPISODES, "edges": ""}
_CORE_COUNTS = {"nodes": "total_nodes", "episodes": "total_episodes", "edges": "total_edges"}
_KIND_OF = {array_of(kind): kind for kind in EDGES}
_AROUND = ("agent_name", "exported_at", "format_version", "statistics")


class Document:
    """One JSON export that is being read.

    Args:
        place: The file.
        reading: The bounds, and what is asked for.
    """

    def __init__(self, place: Place, reading: Reading) -> None:
        self._place = place
        self._reading = reading
        self._around: dict[str, Any] = {}
        self._core = self._versioned = False
        self._agent: str | None = reading.agent
        self._line: int | None = None

    def records(self) -> Iterator[Model]:
        """Yield the episodes, then the facts, then the edges.

        Raises:
            MalformedError: If it is no such export, or of a version that is not known.
            EmptyInputError: If there is no memory in it.
        """
        reading, name = self._reading, self._place.name
        reading.linked = True
        with self._place.open() as stream, Gathering(reading, name) as gathering:
            document = reader_of(stream, self._place, reading)
            reading.line = lambda: document.value_line
            if document.peek() != "{":
                raise MalformedError("not an amplihack export: not an object", line=document.line)
            for key in document.members():
                yield from self._member(document, key, gathering)
            document.end()
            self._settle(document, gathering)
            if not gathering.nodes:
                raise EmptyInputError("the file contains no memories", file=name)
            reading.line = lambda: self._line_of(gathering.last)
            yield from gathering.rest()

    def _member(self, document: ForeignReader, key: str, gathering: Gathering) -> Iterator[Model]:
        if key in ARRAYS and not self._core:
            self._versioned = True
            yield from self._array(document, key, gathering)
        elif key in _CORE and not self._versioned and "format_version" not in self._around:
            self._core = True
            yield from self._array(document, key, gathering)
        else:
            self._keep(document, key)

    def _keep(self, document: ForeignReader, key: str) -> None:
        """Keep a member that is around the arrays."""
        line = document.line
        value = document.value()
        if key in ARRAYS:
            problem = f"`{key}` beside agent-core's own arrays"
            raise MalformedError(problem, line=line, field=key)
        if key == "format_version":
            self._require_version(value, line)
        if key == "agent_name":
            if type(value) is not str or not value:
                problem = "is empty" if value == "" else "is not text"
                raise MalformedError(f"`agent_name` {problem}", line=line, field=key)
            self._agent = self._reading.agent or value
        self._around.update(escape_keys([(key, value)]))
        size = len(msgspec.json.encode(self._around))
        bound = self._reading.limits.entry_bytes // 2
        if size > bound:
            problem = f"the data around the arrays exceeds {bound} bytes"
            raise LimitError(problem, line=line, field=key)

    def _require_version(self, value: Any, line: int) -> None:
        if value in VERSIONS or self._reading.any_version:
            return
        raise MalformedError(
            f"version {str(value)[:40]!r} is not supported; supported: {' and '.join(VERSIONS)}",
            line=line,
            field="format_version",
            hint="satchel amplihack import --unknown-version reads it as version 1.1.",
        )

    def _array(self, document: ForeignReader, key: str, gathering: Gathering) -> Iterator[Model]:
        scope = Scope(agent=self._found_agent())
        if document.peek() != "[":
            raise MalformedError(f"`{key}` is not a list", line=document.line, field=key)
        table = _CORE[key] if self._core else key
        prepare = partial(from_agent_core, table) if self._core else None
        for place, row in enumerate(document.values()):
            where = Where(key, place)
            if table in NODES:
                yield from gathering.node(where, table, row, scope, prepare)
            else:
                gathering.edge(where, _KIND_OF.get(key), row, scope)

    def _found_agent(self) -> str:
        """Return whose memory it is, also where that stands behind the arrays."""
        if self._agent is None:
            with self._place.open() as stream:
                document = reader_of(stream, self._place, self._reading)
                for key in document.members():
                    if key == "agent_name":
                        self._keep(document, key)
                        del self._around[key]
                        break
                    _skip(document)
        if self._agent is None:
            raise MalformedError("`agent_name` is missing", line=1, field="agent_name")
        return self._agent

    def _settle(self, document: ForeignReader, gathering: Gathering) -> None:
        """Say what is odd about the file as a whole, and keep what was around the arrays."""
        if not (self._core or self._versioned):
            raise MalformedError(
                "not an export of amplihack: neither semantic_nodes nor nodes",
                file=self._place.name,
                line=document.line,
            )
        versioned = "format_version" in self._around or self._reading.any_version
        if self._versioned and not versioned:
            raise MalformedError(
                "`format_version` is missing",
                file=self._place.name,
                line=1,
                field="format_version",
                hint="satchel amplihack import --unknown-version reads it as version 1.1.",
            )
        self._compare_statistics(gathering)
        container, around = self._reading.container, self._around
        container["shape"] = "agent-core" if self._core else "hierarchical"
        for key in _AROUND[:3]:
            if type(around.get(key)) is str:
                container[key] = around.pop(key)
        around.pop("statistics", None)
        if around:
            container["fields"] = around

    def _compare_statistics(self, gathering: Gathering) -> None:
        said = self._around.get("statistics")
        if type(said) is not dict:
            return
        names = _CORE_COUNTS if self._core else {array: statistic_of(array) for array in ARRAYS}
        for array, name in names.items():
            if name in said and said[name] != gathering.counts[array]:
                self._reading.report.note(
                    f"statistics/{name} says {str(said[name])[:40]}, and there are"
                    f" {gathering.counts[array]:,}"
                )

    def _line_of(self, where: Where | None) -> int | None:
        """Return the line of a record that waited; the file is read again for it."""
        if where is None:
            return None
        with suppress(InputError), self._place.open() as stream:
            document = reader_of(stream, self._place, self._reading)
            for key in document.members():
                if key != where.array:
                    _skip(document)
                    continue
                for _ in islice(document.values(), where.place + 1):
                    pass
                return document.value_line
        return None


def _skip(document: ForeignReader) -> None:
    if document.peek() == "[":
        for _ in document.values():
            pass
    else:
        document.value()
