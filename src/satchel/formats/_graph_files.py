"""Graphs of other programs in files of LadybugDB and of Kuzu, which it comes from.

Both engines register the same names, so a process can have one of them; and a file that somebody
sent may end the process that opens it. So a small program of its own opens a copy (``child``),
and what it reads comes back row by row (``rows``).
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
from satchel.ports.format import Place, ReadContext
from satchel.runtime.files import open_input as opened

_HEADER = 12
"""Bytes that tell it: four letters, and the number of the storage version."""


class Engine(NamedTuple):
    """An engine that may be installed."""

    module: str
    title: str
    letters: bytes
    """What its files start with."""

    extra: str
    newest: int
    """The newest storage version that it reads."""


ENGINES = (
    Engine("ladybug", "LadybugDB", b"LBUG", "graph", 49),
    Engine("kuzu", "Kuzu", b"KUZU", "kuzu", 39),
)
"""Both of them: LadybugDB 0.22 also reads versions from 40 on, Kuzu 0.11 its own."""

GRAPH_MAGICS = tuple(engine.letters for engine in ENGINES)
"""What their files start with."""

_LAST_OF = {40: "0.15.3", 41: "0.17.1"}
"""Older storage versions of LadybugDB, with a release that writes them."""


class GraphHeader(NamedTuple):
    """What a file says of itself."""

    engine: Engine
    storage: int

    def require_readable(self, name: str) -> None:
        """Refuse what is newer than the engine, and an engine that is not installed.

        Raises:
            MalformedError: If the file is newer.
            MissingExtraError: If there is no such engine here.
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
        """Return what to do about a log that another version left."""
        release = _LAST_OF.get(self.storage, "the version that wrote it")
        return (
            "The latest writes are in the .wal file next to it. Open it once for writing with"
            f" {self.engine.module} {release} and close it, then read it again."
        )


def graph_header(head: bytes) -> GraphHeader | None:
    """Return which engine's file starts with some bytes; None where it is neither's."""
    for engine in ENGINES:
        if head.startswith(engine.letters) and len(head) >= _HEADER:
            return GraphHeader(
                engine, int.from_bytes(head[len(engine.letters) : _HEADER], "little")
            )
    return None


class GraphSchema(NamedTuple):
    """The tables of a program's memory."""

    owner: str
    """Whose they are, as in "not one of amplihack's"."""

    what: str
    """What they are called together."""

    key: str
    """The column that is the key of each table of nodes."""

    tables: Mapping[str, str]
    """The tables in the order in which they are read, with the arrays of the JSON."""

    nodes: tuple[str, ...]
    """Those without which there is no such memory."""

    in_json: Mapping[str, type]
    """Columns with JSON in a text, and what it is of."""


AMPLIHACK = GraphSchema(
    owner="amplihack's",
    what="hierarchical memory",
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
    what="memory of Graphiti",
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

_SIGN = b"RelatesToNode_"
_PAGE, _MOST_PAGES = 4096, 1024
_CATALOG = struct.Struct("<II")
_BEHIND = 12
_LOG_BYTES = 1 << 20


def is_graphiti(place: Place) -> bool:
    """Tell whether a graph's file is one of Graphiti's, by the catalog of its tables."""
    if place.is_folder or graph_header(place.head) is None:
        return False
    start, pages = _CATALOG.unpack_from(place.head.ljust(_BEHIND + _CATALOG.size), _BEHIND)
    with suppress(InputError, OSError, OverflowError), place.open() as stream:
        stream.seek(start * _PAGE)
        if _SIGN in stream.read(min(pages, _MOST_PAGES) * _PAGE):
            return True
    return _SIGN in _start_of_log(place.path)


def _start_of_log(path: Path) -> bytes:
    """Return the first bytes of what a program left beside its file; nothing where nothing is."""
    with suppress(OSError, ValueError):
        name = path.with_name(path.name + ".wal")
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as stream:
            return stream.read(_LOG_BYTES)
    return b""


TABLES = AMPLIHACK.tables
"""Those of amplihack."""

_FOLDED = ("graph_db", "ladybug_db", "kuzu_db")
"""What a folder of an agent has its graph in, the newest first."""

_HEAD = 4096
_BESIDE = (".wal", ".wal.checkpoint", ".shadow")
_SHOWN = 200


class GraphRow(NamedTuple):
    """A node or a link."""

    array: str
    """The array of the program's JSON that such rows are in."""

    number: int
    """From 0, among those of its table."""

    row: dict[str, Any]
    """Its columns in the reversible form; those of amplihack's nodes have ``agent_id`` as well."""


def graph_file(place: Place) -> Path | None:
    """Return the file with the graph that a place is, or that is in a folder; None for none."""
    if not place.is_folder:
        return place.path if graph_header(place.head) else None
    for name in _FOLDED:
        path = place.path / name
        with suppress(OSError):
            if path.is_file() and not path.is_symlink() and graph_header(_head_of(path)):
                return path
    return None


def rows_of(
    place: Place, reading: ReadContext, wanted: GraphSchema = AMPLIHACK
) -> Generator[GraphRow, None, None]:
    """Yield what is in a graph: nodes, then links; other tables are counted as lost.

    Args:
        place: The file, or the folder that has it.
        reading: The bounds, and where the report is.
        wanted: The tables.

    Raises:
        MalformedError: If it is no such graph, or damaged, or of an engine that is too new.
        LimitError: If a row is too long.
        MissingExtraError: If the engine is not installed.
        TargetError: If there is no room for the copy.
    """
    path = graph_file(place)
    if path is None:
        raise MalformedError("not a LadybugDB or Kuzu graph", file=place.name, byte=0)
    source = place if path == place.path else Place(path)
    found = graph_header(source.head)
    assert found is not None  # noqa: S101 - it was looked at above
    found.require_readable(source.name)
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        copy = Path(folder) / "copy"
        _copy(source, copy)
        yield from _CopyReport(source, found, copy, reading, wanted).rows()


class _CopyReport:
    """What the program says of a copy."""

    def __init__(
        self,
        source: Place,
        found: GraphHeader,
        copy: Path,
        reading: ReadContext,
        wanted: GraphSchema,
    ) -> None:
        self._wanted = wanted
        self._source = source
        self._found = found
        self._copy = copy
        self._most = reading.limits.line_bytes
        self._report = reading.report

    def rows(self) -> Iterator[GraphRow]:
        """Yield all rows."""
        tables = self._wanted.tables
        numbers, others = dict.fromkeys(tables, 0), list[str]()
        with self._running() as stream:
            for kind, *told in self._lines(stream):
                if kind == "table":
                    others.append(told[0])
                    continue
                table, row = told
                row = self._carried(row)
                yield GraphRow(tables[table], numbers[table], row)
                numbers[table] += 1
        if not any(numbers[table] for table in self._wanted.nodes):
            raise self._nothing(others)
        for name in others:
            self._report.lost("table", f"not one of {self._wanted.owner}", example=name[:_SHOWN])

    def _carried(self, row: dict[str, Any]) -> dict[str, Any]:
        for name, kind in self._wanted.in_json.items():
            text = row.get(name)
            if type(text) is not str:
                continue
            try:
                value = _parsed(text) if text else None
            except (ValueError, RecursionError):  # engines of 2025 spoilt it as they wrote
                self._report.note(f"`{name}` that is not JSON was stored as text")
                value = [text] if kind is list else text
            row[name] = value
        return {name: encode_foreign(value) for name, value in row.items()}

    @contextmanager
    def _running(self) -> Iterator[IO[bytes]]:
        command = [sys.executable, "-P", _graph_child.__file__, self._found.engine.module]
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(self._copy), self._wanted.key, *self._wanted.tables],
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
            told: list[Any] = json.loads(line)
            if told[0] == "end":
                return
            if told[0] == "error":
                raise self._damaged(str(told[1])[:_SHOWN])
            yield told

    def _damaged(self, what: str) -> MalformedError:
        engine = self._found.engine
        older = self._found.storage < engine.newest and _has_log(self._copy)
        return MalformedError(
            f"{engine.title} cannot read it: {what}",
            file=self._source.name,
            byte=0,
            hint=self._found.log_hint() if older else None,
        )

    def _nothing(self, others: list[str]) -> MalformedError:
        if "Record" in others and "Thing" in others:
            return MalformedError(
                "this is a Satchel store",
                file=self._source.name,
                hint="Use its folder: satchel --store ladybug:///FOLDER",
            )
        return MalformedError(
            f"the graph contains no {self._wanted.what}",
            file=self._source.name,
            hint=None
            if _has_log(self._copy)
            else "If it had a .wal file next to it, copy that file, too.",
        )


def _parsed(text: str) -> Any:
    """Return the JSON in a text, or in a text that is base64: memory-lib writes it so.

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
        return stream.read(_HEAD)


def _copy(source: Place, copy: Path) -> None:
    with source.open() as stream:
        _write(stream, copy)
    for end in _BESIDE:
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
