"""An SQLite database of another product, opened as a private copy."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from satchel.crypto.json_reader import ForeignReader, ordinary_values
from satchel.errors import InputError, MalformedError, TargetError
from satchel.ports.format import Location, ReadContext
from satchel.runtime.foreign_databases import Database

MAGIC = b"SQLite format 3\x00"
"""The first bytes of an SQLite file."""

_JOURNAL_SUFFIXES = ("-journal", "-wal")
_LEAST, _LARGEST = 512, 65536
_PAGE_SIZE = slice(16, 18)


@contextmanager
def open_database_copy(location: Location, reading: ReadContext) -> Iterator[Database]:
    """Yield the database in a file, with the journal beside it.

    The bytes are copied first: SQLite opens files by name, and the name may refer to another file a
    moment later. The copy is only read, and its integrity is checked.

    Raises:
        MalformedError: If it is not a database, or damaged.
        TargetError: If the temporary folder is full.
    """
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        copy = Path(folder) / "copy.db"
        _copy(location, copy)
        database = Database(copy, most_bytes=reading.limits.line_bytes, name=location.name)
        try:
            database.require_whole()
            yield database
        finally:
            database.close()


def _copy(location: Location, copy: Path) -> None:
    with location.open() as stream:
        start = stream.read(_LEAST)
        if not start.startswith(MAGIC):
            raise MalformedError("not an SQLite database", file=location.name, byte=0)
        with _guarded(), copy.open("xb") as sink:
            sink.write(start)
            shutil.copyfileobj(stream, sink)
            size = sink.tell()
    # SQLite treats missing bytes of the last page as zeros.
    page = int.from_bytes(start[_PAGE_SIZE]) or _LEAST
    if size % (_LARGEST if page == 1 else page):
        raise MalformedError("the database is truncated", file=location.name, byte=size)
    for end in _JOURNAL_SUFFIXES:
        beside = location.path.with_name(location.path.name + end)
        with (
            suppress(FileNotFoundError),
            _opened(beside) as stream,
            _guarded(),
            copy.with_name(copy.name + end).open("xb") as sink,
        ):
            shutil.copyfileobj(stream, sink)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file that is not a link.

    Raises:
        MalformedError: If it is a link, or cannot be opened.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"files next to the database cannot be read: {error.strerror}"
        raise MalformedError(problem, file=str(path), byte=0) from error
    with os.fdopen(number, "rb") as stream:
        yield stream


@contextmanager
def _guarded() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TargetError(
            f"cannot copy the database: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error


def columns_of(database: Database, table: str, required: tuple[str, ...], file: str) -> list[str]:
    """Return the columns of a table, and require some of them.

    Raises:
        MalformedError: If it is not a plain table, or a column is missing.
    """
    columns = database.columns(table)
    missing = [name for name in required if name not in columns]
    if missing:
        problem = (
            f"`{table}` has no column `{missing[0]}`"
            if columns
            else f"the table `{table}` is missing"
        )
        raise MalformedError(problem, file=file, field=table)
    return columns


def other_tables(database: Database, known: frozenset[str]) -> Iterator[str]:
    """Yield the names of unknown tables."""
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
    for (name,) in database.rows(f"{sql} ESCAPE '\\'"):
        if name not in known:
            yield str(name)


def parsed(text: Any, name: str) -> Any:
    """Return the JSON in a column; None if it is empty.

    Raises:
        MalformedError: If it is not JSON, naming the column.
    """
    if type(text) is not str or not text:
        return None if text in ("", None) else text
    found = ordinary_values(text)
    if found is not None and len(found) == 1:
        return found[0]
    try:
        document = ForeignReader(BytesIO(text.encode()), "")
        value = document.value()
        document.end()
    except MalformedError as error:
        raise MalformedError(f"`{name}` is not JSON: {error.message}", field=name) from None
    return value


_HEADER = 100
_LARGEST_PAGE = 65536
_INTERIOR, _LEAF = 5, 13
_INTERIOR_HEADER, _LEAF_HEADER = 12, 8
_MOST_PAGES = 64
_LONGEST_VARINT = 9
_FIRST_TEXT = 13


def tables_of(location: Location) -> frozenset[str]:
    """Return the table names in a database file, without opening it; empty for other files."""
    if not location.head.startswith(MAGIC):
        return frozenset()
    try:
        with Location(location.path, held=location.held).open() as stream:
            return frozenset(_tables(stream))
    except (InputError, OSError, IndexError, ValueError):  # reading reports the problem
        return frozenset()


def _tables(stream: BinaryIO) -> Iterator[str]:
    start = stream.read(_HEADER)
    size = int.from_bytes(start[_PAGE_SIZE]) or 1
    size = _LARGEST_PAGE if size == 1 else size
    waiting, seen = [1], set[int]()
    while waiting and len(seen) < _MOST_PAGES:
        number = waiting.pop()
        if number in seen or number < 1:
            continue
        seen.add(number)
        stream.seek((number - 1) * size, os.SEEK_SET)
        page = stream.read(size)
        at = _HEADER if number == 1 else 0
        cells = int.from_bytes(page[at + 3 : at + 5])
        if page[at] == _LEAF:
            pointers = page[at + _LEAF_HEADER :]
            for index in range(cells):
                name = _name(page, int.from_bytes(pointers[2 * index : 2 * index + 2]))
                if name is not None:
                    yield name
        elif page[at] == _INTERIOR:
            pointers = page[at + _INTERIOR_HEADER :]
            for index in range(cells):
                cell = int.from_bytes(pointers[2 * index : 2 * index + 2])
                waiting.append(int.from_bytes(page[cell : cell + 4]))
            waiting.append(int.from_bytes(page[at + 8 : at + 12]))


def _name(page: bytes, at: int) -> str | None:
    """Return the name in a row of the schema, if the row is of a table."""
    _, at = _varint(page, at)
    _, at = _varint(page, at)
    end, first = _varint(page, at)
    end += at
    kind, first = _varint(page, first)
    name, _ = _varint(page, first)
    kind_size, name_size = (kind - _FIRST_TEXT) // 2, (name - _FIRST_TEXT) // 2
    if page[end : end + kind_size] != b"table" or name_size < 1:
        return None
    return page[end + kind_size : end + kind_size + name_size].decode("utf-8", "replace")


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        byte = page[at + index]
        if index == _LONGEST_VARINT - 1:
            return value << 8 | byte, at + index + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that there is more
            return value, at + index + 1
    raise IndexError
