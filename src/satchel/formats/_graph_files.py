"""Graphs of other programs in files of LadybugDB and its predecessor Kuzu.

Both engines register the same names, so a process can load only one of them; and a hostile file may
crash the process that opens it. So a separate program (``_graph_child``) opens a copy, and returns
it row by row (``rows_of``).
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from satchel.crypto.canonical import encode_foreign
from satchel.errors import InputError, LimitError, MalformedError, MissingExtraError, TargetError
from satchel.formats import _graph_child
from satchel.ports.format import Location, ReadContext
from satchel.runtime.files import open_input as opened

_HEADER = 12
"""Size of the header: four letters, and the number of the storage version."""


class Engine(NamedTuple):
    """A graph engine."""

    module: str
    title: str
    letters: bytes
    """The first bytes of its files."""

    extra: str
    newest: int
    """The newest storage version that it can read."""


ENGINES = (
    Engine("ladybug", "LadybugDB", b"LBUG", "graph", 49),
    Engine("kuzu", "Kuzu", b"KUZU", "graph", 39),
)
"""LadybugDB 0.22 reads storage versions from 40, Kuzu 0.11 only its own."""

GRAPH_MAGICS = tuple(engine.letters for engine in ENGINES)
"""The first bytes of their files."""

_RELEASES = {40: "0.15.3", 41: "0.17.1"}
"""Older storage versions of LadybugDB, with a release that writes them."""


class GraphHeader(NamedTuple):
    """The engine and storage version of a file."""

    engine: Engine
    storage: int

    def require_readable(self, name: str) -> None:
        """Refuse a file that is newer than the engine, and an engine that is not installed.

        Raises:
            MalformedError: If the file is newer.
            MissingExtraError: If the engine is not installed.
        """
        engine = self.engine
        if self.storage > engine.newest:
            raise MalformedError(
                f"the file is of storage version {self.storage} of {engine.title}, and"
                f" {engine.newest} is the newest supported",
                file=name,
                byte=len(engine.letters),
            )
        if find_spec(engine.module) is None:
            raise MissingExtraError(
                f"this file needs {engine.title}",
                file=name,
                hint=f'Install it: python -m pip install "satchel[{engine.extra}]"',
            )

    def log_hint(self) -> str:
        """Return a hint about the log of another version."""
        release = _RELEASES.get(self.storage, "the version that wrote it")
        return (
            "The latest writes are in the .wal file next to it. Open it once for writing with"
            f" {self.engine.module} {release} and close it, then read it again."
        )


def graph_header(head: bytes) -> GraphHeader | None:
    """Return the header in the first bytes of a file; None if neither engine wrote it."""
    for engine in ENGINES:
        if head.startswith(engine.letters) and len(head) >= _HEADER:
            return GraphHeader(
                engine, int.from_bytes(head[len(engine.letters) : _HEADER], "little")
            )
    return None


class GraphSchema(NamedTuple):
    """The tables of a program's memory."""

    owner: str
    """The owner, as in "not one of amplihack's"."""

    contents: str
    """Their collective name in messages."""

    key: str
    """The key column of each table of nodes."""

    tables: Mapping[str, str]
    """The tables in reading order, with their arrays in the JSON."""

    nodes: tuple[str, ...]
    """Tables of nodes; a graph without rows in any of them is not such a memory."""

    in_json: Mapping[str, type]
    """Columns with JSON in a text, with its type."""


AMPLIHACK = GraphSchema(
    owner="amplihack's",
    contents="hierarchical memory",
    key="memory_id",
    tables={
        "SemanticMemory": "semantic_nodes",
        "EpisodicMemory": "episodic_nodes",
        "SIMILAR_TO": "similar_to_edges",
        "DERIVES_FROM": "derives_from_edges",
        "SUPERSEDES": "supersedes_edges",
        "TRANSITIONED_TO": "transitioned_to_edges",
    },
    nodes=("SemanticMemory", "EpisodicMemory"),
    in_json={"tags": list, "metadata": dict},
)
"""amplihack's hierarchical memory."""

GRAPHITI = GraphSchema(
    owner="Graphiti's",
    contents="memory of Graphiti",
    key="uuid",
    tables={
        "Entity": "nodes",
        "Episodic": "episodes",
        "Community": "communities",
        "Saga": "sagas",
        "RelatesToNode_": "edges",
        "RELATES_TO": "relates_to",
        "MENTIONS": "mentions",
        "HAS_MEMBER": "has_member",
        "HAS_EPISODE": "has_episode",
        "NEXT_EPISODE": "next_episode",
    },
    nodes=("Entity", "Episodic", "RelatesToNode_"),
    in_json={"attributes": dict},
)
"""A graph of Graphiti over Kuzu, where each fact is a node with a link to either side."""

_GRAPHITI_TABLE = b"RelatesToNode_"
_PAGE, _MOST_PAGES = 4096, 1024
_CATALOG = struct.Struct("<II")
_CATALOG_OFFSET = 12
_LOG_BYTES = 1 << 20


def is_graphiti(location: Location) -> bool:
    """Return whether a graph file is one of Graphiti, by its catalog of tables."""
    if location.is_folder or graph_header(location.head) is None:
        return False
    start, pages = _CATALOG.unpack_from(
        location.head.ljust(_CATALOG_OFFSET + _CATALOG.size), _CATALOG_OFFSET
    )
    with suppress(InputError, OSError, OverflowError), location.open() as stream:
        stream.seek(start * _PAGE)
        if _GRAPHITI_TABLE in stream.read(min(pages, _MOST_PAGES) * _PAGE):
            return True
    return _GRAPHITI_TABLE in _start_of_log(location.path)


def _start_of_log(path: Path) -> bytes:
    """Return the first bytes of the log beside a file; empty if there is none."""
    with suppress(OSError, ValueError):
        name = path.with_name(path.name + ".wal")
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as stream:
            return stream.read(_LOG_BYTES)
    return b""


TABLES = AMPLIHACK.tables
"""The tables of amplihack."""

_GRAPH_NAMES = ("graph_db", "ladybug_db", "kuzu_db")
"""Names of the graph file in an agent's folder, newest first."""

_HEAD_BYTES = 4096
_LOG_SUFFIXES = (".wal", ".wal.checkpoint", ".shadow")
_SHOWN_CHARS = 200


class GraphRow(NamedTuple):
    """A node or a link."""

    array: str
    """The array of the program's JSON for such rows."""

    number: int
    """Its number in its table, from 0."""

    row: dict[str, Any]
    """Its columns in the reversible form; amplihack's nodes have ``agent_id``, too."""


def graph_file(location: Location) -> Path | None:
    """Return the graph file that a place is or contains; None for none."""
    if not location.is_folder:
        return location.path if graph_header(location.head) else None
    for name in _GRAPH_NAMES:
        path = location.path / name
        with suppress(OSError):
            if path.is_file() and not path.is_symlink() and graph_header(_head_of(path)):
                return path
    return None


def rows_of(
    location: Location, reading: ReadContext, tables: GraphSchema = AMPLIHACK
) -> Generator[GraphRow, None, None]:
    """Yield the rows of a graph: nodes, then links; other tables are counted as lost.

    Args:
        location: The file, or its folder.
        reading: The limits and the report.
        tables: The tables.

    Raises:
        MalformedError: If it is not such a graph, damaged, or of a newer engine.
        LimitError: If a row is too long.
        MissingExtraError: If the engine is not installed.
        TargetError: If there is no space for the copy.
    """
    path = graph_file(location)
    if path is None:
        raise MalformedError("not a LadybugDB or Kuzu graph", file=location.name, byte=0)
    source = location if path == location.path else Location(path)
    header = graph_header(source.head)
    assert header is not None  # noqa: S101 - it was looked at above
    header.require_readable(source.name)
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        copy = Path(folder) / "copy"
        _copy(source, copy)
        yield from _CopyReport(source, header, copy, reading, tables).rows()


class _CopyReport:
    """Reads the output of the program for a copy."""

    def __init__(
        self,
        source: Location,
        header: GraphHeader,
        copy: Path,
        reading: ReadContext,
        schema: GraphSchema,
    ) -> None:
        self._schema = schema
        self._source = source
        self._header = header
        self._copy = copy
        self._most = reading.limits.line_bytes
        self._report = reading.report

    def rows(self) -> Iterator[GraphRow]:
        """Yield all rows."""
        tables = self._schema.tables
        numbers, others = dict.fromkeys(tables, 0), list[str]()
        with self._running() as stream:
            for kind, *values in self._lines(stream):
                if kind == "table":
                    others.append(values[0])
                    continue
                table, row = values
                row = self._carried(row)
                yield GraphRow(tables[table], numbers[table], row)
                numbers[table] += 1
        if not any(numbers[table] for table in self._schema.nodes):
            raise self._nothing(others)
        for name in others:
            self._report.lost(
                "table", f"not one of {self._schema.owner}", example=name[:_SHOWN_CHARS]
            )

    def _carried(self, row: dict[str, Any]) -> dict[str, Any]:
        for name, kind in self._schema.in_json.items():
            text = row.get(name)
            if type(text) is not str:
                continue
            try:
                value = _parsed(text) if text else None
            except (ValueError, RecursionError):  # engines of 2025 damaged it on writing
                self._report.note(f"`{name}` that is not JSON was stored as text")
                value = [text] if kind is list else text
            row[name] = value
        return {name: encode_foreign(value) for name, value in row.items()}

    @contextmanager
    def _running(self) -> Iterator[IO[bytes]]:
        command = [sys.executable, "-P", _graph_child.__file__, self._header.engine.module]
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(self._copy), self._schema.key, *self._schema.tables],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._copy.parent,
        )
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield process.stdout
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    def _lines(self, stream: IO[bytes]) -> Iterator[list[Any]]:
        while True:
            line = stream.readline(self._most + 1)
            if len(line) > self._most:
                raise LimitError(f"a row is longer than {self._most} bytes", file=self._source.name)
            if not line.endswith(b"\n"):
                raise self._damaged("the engine crashed while reading the file")
            message: list[Any] = json.loads(line)
            if message[0] == "end":
                return
            if message[0] == "error":
                raise self._damaged(str(message[1])[:_SHOWN_CHARS])
            yield message

    def _damaged(self, problem: str) -> MalformedError:
        engine = self._header.engine
        older = self._header.storage < engine.newest and _has_log(self._copy)
        return MalformedError(
            f"{engine.title} cannot read it: {problem}",
            file=self._source.name,
            byte=0,
            hint=self._header.log_hint() if older else None,
        )

    def _nothing(self, others: list[str]) -> MalformedError:
        if "Record" in others and "Thing" in others:
            return MalformedError(
                "this is a Satchel store",
                file=self._source.name,
                hint="Use its folder: satchel --store ladybug:///FOLDER",
            )
        return MalformedError(
            f"the graph contains no {self._schema.contents}",
            file=self._source.name,
            hint=None
            if _has_log(self._copy)
            else "If it had a .wal file next to it, copy that file, too.",
        )


def _parsed(text: str) -> Any:
    """Return the JSON in a text, or in a base64 text, as memory-lib writes it.

    Raises:
        ValueError: If there is none.
    """
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(b64decode(text, validate=True))


def _has_log(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.with_name(path.name + ".wal").stat().st_size > 0
    return False


def _head_of(path: Path) -> bytes:
    with opened(path) as stream:
        return stream.read(_HEAD_BYTES)


def _copy(source: Location, copy: Path) -> None:
    with source.open() as stream:
        _write(stream, copy)
    for end in _LOG_SUFFIXES:
        beside = source.path.with_name(source.path.name + end)
        try:
            number = os.open(beside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise MalformedError(
                f"files next to the graph cannot be read: {error.strerror}", file=str(beside)
            ) from error
        with os.fdopen(number, "rb") as stream:
            _write(stream, copy.with_name(copy.name + end))


def _write(stream: BinaryIO, path: Path) -> None:
    try:
        with path.open("xb") as sink:
            shutil.copyfileobj(stream, sink)
    except OSError as error:
        raise TargetError(
            f"cannot copy the graph: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error
