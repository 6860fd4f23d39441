"""Reads agent files: version 1, and the files of the two Aletheia programs.

A file is streamed. Only records that may refer to later ones wait on disk: derived memories and
edges. A conversation waits until all of it except its messages is known.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import msgspec

from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError
from satchel.formats._aletheia import branches, schema
from satchel.formats._aletheia.conversations import AletheiaConversation
from satchel.formats._aletheia.rows import (
    NODES,
    VECTORS,
    AletheiaLinks,
    binary_files,
    entry_of,
    maker_in,
    node_of,
    require_path,
    text_files,
    without_vector,
)
from satchel.formats._aletheia.schema import (
    HEAD,
    KNOWN,
    MAKER,
    MOST_NAMED,
    NAMED,
    AgentFile,
    BinaryRow,
    EdgeRow,
    MessageRow,
    NodeRow,
    Row,
    SessionRow,
    VectorRow,
    a_list,
    a_row,
    an_object,
    require,
    require_id,
    require_part,
    require_version,
    source_of,
    text_in,
)
from satchel.formats._json import reader_of
from satchel.formats._own_vectors import BankVectorReader
from satchel.formats._row_lists import Order
from satchel.model.records import Model
from satchel.ports.drafts import require_content
from satchel.ports.format import Location, ReadContext
from satchel.runtime.scratch import Spool

_SHOWN_CHARS = 80
_TOP_MEMBERS = ("version", "nous", "exportedAt", "generator", "distillation", "exportMetadata")
_MOST_NAMES = 100_000


class AletheiaDocument:
    """A file that is being read; a context manager.

    Args:
        location: The file.
        reading: The limits, and the report.
    """

    def __init__(self, location: Location, reading: ReadContext) -> None:
        self._location = location
        self._reading = reading
        self._around: Row = {}
        self._container = reading.container
        self._branches = branches.Branches()
        self._own = BankVectorReader(reading, None)
        self._links = AletheiaLinks(reading, location.name, self._branches)
        self._order = Order()
        self._count = 0
        self._agent_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._links.close()
        self._branches.close()

    def records(self) -> Iterator[Model]:
        """Yield the records of the file; a record comes before those that refer to it.

        Raises:
            MalformedError: If it is not an agent file, or of an unknown version.
            EmptyInputError: If it has nothing but the agent's identity.
        """
        reading, name = self._reading, self._location.name
        reading.linked = reading.chained = reading.has_text_member = True
        with self._location.open() as stream:
            document = reader_of(stream, self._location, reading)
            reading.line = lambda: document.line
            if document.peek() != "{":
                raise MalformedError("not an agent file: not an object", line=document.line)
            for key in document.members():
                yield from self._member(document, key)
            document.end()
            self._settle(document.line)
            yield from self._late()
        reading.line = lambda: None
        yield from self._links.waiting(self._agent())
        self._order.store(reading)
        yield from self._links.joined(self._agent())
        self._own.report(reading)
        if not self._count:
            raise EmptyInputError("the file contains no memories", file=name)

    def _member(self, document: ForeignReader, key: str) -> Iterator[Model]:
        start = document.peek()
        if key == "workspace" and start == "{":
            yield from self._workspace(document)
        elif key == "memory" and start == "{":
            yield from self._memory(document)
        elif key == "knowledge" and start == "{":
            for part in document.members():
                table, prepare = schema.KNOWLEDGE.get(part, ("", a_row))
                if not table:
                    self._store_member("knowledge", part, document)
                    continue
                yield from self._rows(document, f"knowledge/{part}", table, prepare)
        elif key == "sessions" and start == "[":
            yield from self._flat(document)
        elif key == "sessions" and start == "{":
            yield from self._sessions(document)
        else:
            line, value = document.line, document.value()
            if key == "version":
                require_version(value, line, any_version=self._reading.any_version)
            self._around.update(escape_keys([(key, value)]))
            self._require_bound(line)

    def _agent(self) -> str:
        """Return the agent of the file, even if it comes after the other members."""
        if self._agent_id is None:
            nous = self._around.get("nous")
            if nous is None:
                with self._location.open() as stream:
                    document = reader_of(stream, self._location, self._reading)
                    for key in document.members():
                        nous = document.value()
                        if key == "nous":
                            break
                        nous = None
            self._agent_id = source_of(nous)
        return self._agent_id

    def _require_bound(self, line: int) -> None:
        size = len(msgspec.json.encode([self._around, self._container]))
        bound = self._reading.limits.entry_bytes // 2
        if size > bound:
            problem = f"the data around the memories exceeds {bound} bytes"
            raise LimitError(problem, file=self._location.name, line=line)

    def _store_member(self, section: str, part: str, document: ForeignReader) -> None:
        """Store a member of a section that is not an array of rows."""
        line, value = document.line, document.value()
        try:
            require_part(section, part, value)
        except MalformedError as error:
            inside = {"graph": "memory/graph"}.get(section, section)
            where = f"{inside}/{error.field or part}"
            raise MalformedError(
                error.message, file=self._location.name, line=line, field=where
            ) from None
        held = self._container.setdefault(section, {})
        held.update(escape_keys([(part, value)]))
        self._require_bound(line)

    def _settle(self, line: int) -> None:
        around, container, name = self._around, self._container, self._location.name
        if "version" not in around or "nous" not in around:
            missing = "version" if "version" not in around else "nous"
            raise MalformedError(f"`{missing}` is missing", file=name, line=1, field=missing)
        try:
            require_id(around["nous"])
            held = an_object(around.get("distillation"), "distillation")
            for part in ("receipts", "reflections"):
                a_list(held.get(part), f"distillation/{part}")
            require(
                {name: part for name, part in around.items() if name in _TOP_MEMBERS}, AgentFile
            )
            around.pop("distillation", None)
        except MalformedError as error:
            raise error.located(file=name, line=line) from None
        if held:
            container["distillation"] = held
        for key in (*HEAD, "nous", "exportMetadata"):
            if key in around:
                container[key] = around.pop(key)
        # A section that is null or of another type is stored unchanged.
        if around:
            container["fields"] = around
        for key in set(around) & set(KNOWN):
            if around[key] is not None:
                problem = f"`{key}` has an invalid value"
                raise MalformedError(problem, file=name, line=line, field=key)

    # -- sections --------------------------------------------------------------------------

    def _workspace(self, document: ForeignReader) -> Iterator[Model]:
        named = list[Row]()
        for part in document.members():
            start = document.peek()
            if part == "files" and start == "{":
                for path in document.members():
                    yield from self._text_file(path, document)
            elif part in ("binaryFiles", "binaryFileContents") and start == "[":
                for index, value in enumerate(document.values()):
                    with self._refusing(document, f"workspace/{part}/{index}"):
                        row = {"path": value} if type(value) is str else a_row(value)
                        require(row, BinaryRow)
                        path = require_path(text_in(row, "path"), "path")
                        if part == "binaryFiles":
                            named.append(row)
                            if len(named) > _MOST_NAMES:
                                raise LimitError(f"more than {_MOST_NAMES:,} binary files")
                        else:
                            self._links.is_new(path)
                            yield from self._binary(row, path)
            else:
                self._store_member("workspace", part, document)
        yield from self._names(named)

    def _names(self, named: list[Row]) -> Iterator[Model]:
        """Yield the files whose names are in the file, but not their contents."""
        for row in named:
            if self._links.is_new(row["path"]):
                bare = self._container.setdefault(NAMED, [])
                bare.extend([row["path"]] if len(bare) < MOST_NAMED else [])
                yield from self._binary(row, row["path"])

    def _binary(self, row: Row, path: str) -> Iterator[Model]:
        versions = binary_files(row, path, self._agent())
        self._count += len(versions)
        yield from versions

    def _text_file(self, path: str, document: ForeignReader) -> Iterator[Model]:
        where = f"workspace/files/{path[:_SHOWN_CHARS]}"
        with self._refusing(document, where):
            text = document.value()
            require_path(path, "")
            if type(text) is not str:
                raise MalformedError("the content of a file is not text")
            versions = text_files(path, text, self._agent())
            self._count += len(versions)
            yield from versions

    def _memory(self, document: ForeignReader) -> Iterator[Model]:
        for part in document.members():
            start = document.peek()
            if part == MAKER and start == "{":
                maker = maker_in(value := document.value())
                if maker is None:
                    self._container.setdefault("memory", {}).update(escape_keys([(part, value)]))
                self._own = BankVectorReader(self._reading, maker)
            elif part == "vectors" and start == "[":
                yield from self._rows(document, "memory/vectors", "vectors", a_row)
            elif part == "graph" and start == "{":
                for table in document.members():
                    if table in ("nodes", "edges") and document.peek() == "[":
                        where = f"memory/graph/{table}"
                        yield from self._rows(document, where, table, a_row)
                    else:
                        self._store_member("graph", table, document)
            else:
                self._store_member("memory", part, document)

    def _rows(
        self, document: ForeignReader, where: str, table: str, prepare: Callable[[Any], Row]
    ) -> Iterator[Model]:
        take = {"vectors": self._vector, "nodes": self._node, "edges": self._edge}[table]
        if document.peek() != "[":
            self._store_member(where.partition("/")[0], where.rpartition("/")[2], document)
            return
        for index, value in enumerate(document.values()):
            with self._refusing(document, f"{where}/{index}"):
                yield from take(prepare(value))

    def _vector(self, row: Row) -> Iterator[Model]:
        row, vector = without_vector(row)
        entry, parents = entry_of(row, self._agent())
        if self._reading.requires_content and "text" not in row:
            require_content(entry)
        self._links.note(VECTORS, row["id"], entry)
        require(row, VectorRow)
        self._count += 1
        self._order.add(entry)
        if vector is not None:
            self._own.take(vector, entry)
        draft = self._links.derived(row, entry, parents)
        if draft is not None:
            yield draft

    def _node(self, row: Row) -> Iterator[Model]:
        row = schema.node_of(row)
        node = node_of(row, self._agent())
        require(row, NodeRow)
        self._links.note(NODES, row["id"], node)
        self._count += 1
        yield node

    def _edge(self, row: Row) -> Iterator[Model]:
        row = schema.edge_of(row)
        text_in(row, "source")
        text_in(row, "target")
        require(row, EdgeRow)
        self._links.edge(row)
        self._count += 1
        yield from ()

    def _sessions(self, document: ForeignReader) -> Iterator[Model]:
        for part in document.members():
            start = document.peek()
            if part == "primary" and start == "{":
                yield from self._session(document, "sessions/primary", flat=False)
                if "primary" not in self._container:
                    raise MalformedError("`id` is missing", field="sessions/primary/id")
            elif part == "others" and start == "[":
                for index in document.elements():
                    yield from self._session(document, f"sessions/others/{index}", flat=False)
            else:
                self._store_member("sessions", part, document)

    def _flat(self, document: ForeignReader) -> Iterator[Model]:
        self._container["flat"] = True
        for index in document.elements():
            yield from self._session(document, f"sessions/{index}", flat=True)

    def _session(self, document: ForeignReader, where: str, *, flat: bool) -> Iterator[Model]:
        """Read a conversation; its messages wait until the rest of it is known."""
        row: Row = {}
        with ExitStack() as stack:
            spool = Spool()
            stack.callback(spool.close)
            if document.peek() != "{":
                raise MalformedError("not an object", line=document.line, field=where)
            for key in document.members():
                if key == "messages" and document.peek() == "[":
                    for value in document.values():
                        spool.write(msgspec.json.encode(value) + b"\n")
                else:
                    row.update(escape_keys([(key, document.value())]))
            with self._refusing(document, where):
                row = schema.session_of(row) if flat else row
                if where == "sessions/primary" or (flat and self._is_main(row)):
                    self._container["primary"] = text_in(row, "id")
                if not flat and self._branches.has_to_wait(row):
                    self._branches.wait(row, spool.lines(), where)
                else:
                    yield from self._conversation(row, spool.lines, where, flat=flat)

    def _late(self) -> Iterator[Model]:
        """Read the forks that precede their conversation of origin."""
        for fork in self._branches.late():
            try:
                yield from self._conversation(fork.row, fork.messages.lines, fork.where, flat=False)
            except InputError as error:
                self._reading.refuse(error.within(fork.where).located(file=self._location.name))

    def _conversation(
        self, row: Row, lines: Callable[[], Iterator[bytes]], where: str, *, flat: bool
    ) -> Iterator[Model]:
        fork = None if flat else self._branches.beginning(row, lines)
        if fork is None and not flat and branches.FORKED in row:
            self._reading.report.lost("session", "its parent conversation is not in the file")
        conversation = AletheiaConversation(row, self._agent(), self._note, fork)
        require(row, SessionRow)
        self._count += 1
        yield conversation.start
        yield from conversation.moments()
        yield from self._messages(conversation, lines(), where, flat=flat)
        yield from conversation.rest()

    def _note(self, name: str, point: branches.BranchPoint) -> None:
        if not self._branches.note(name, point):
            self._links.note_twice(name)

    def _is_main(self, row: Row) -> bool:
        is_first = "primary" not in self._container
        if schema.is_primary(row) and not self._container.get("found"):
            self._container["found"] = True
            return True
        return is_first

    def _messages(
        self, conversation: AletheiaConversation, lines: Iterator[bytes], where: str, *, flat: bool
    ) -> Iterator[Model]:
        for index, line in enumerate(lines):
            try:
                row = a_row(msgspec.json.decode(line))
                row = schema.message_of(row) if flat else row
                event = conversation.message(row)
                require(row, MessageRow)
            except InputError as error:
                error.within(f"messages/{index}")
                if not self._reading.skip_bad:
                    raise
                self._reading.refuse(error.within(where).located(file=self._location.name))
                continue
            if event is not None:
                self._count += 1
                yield event
            yield from conversation.moments()

    @contextmanager
    def _refusing(self, document: ForeignReader, where: str) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            error.located(file=self._location.name, line=document.line)
            self._reading.refuse(error.within(where))
