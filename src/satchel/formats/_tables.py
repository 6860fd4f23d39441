"""Which tables a SQLite file has, from its first pages: enough to tell products apart.

SQLite itself would have to open the file, which may be somebody's; here only its schema is walked,
a bounded number of pages of it. Source: the file format, sqlite.org/fileformat2.html.
"""

import os
from collections.abc import Iterator
from typing import BinaryIO

from satchel.errors import InputError
from satchel.formats._database import MAGIC
from satchel.ports.place import Place

_HEADER = 100
_PAGE_SIZE = slice(16, 18)
_LARGEST = 65536
_INTERIOR, _LEAF = 5, 13
_INTERIOR_HEADER, _LEAF_HEADER = 12, 8
_MOST_PAGES = 64
_LONGEST_VARINT = 9
_FIRST_TEXT = 13


def tables_of(place: Place) -> frozenset[str]:
    """Return the names of a database's tables, as far as its file tells; none for other files."""
    if not place.head.startswith(MAGIC):
        return frozenset()
    try:
        with Place(place.path, held=place.held).open() as stream:
            return frozenset(_tables(stream))
    except (InputError, OSError, IndexError, ValueError):  # whoever reads it says what is wrong
        return frozenset()


def _tables(stream: BinaryIO) -> Iterator[str]:
    start = stream.read(_HEADER)
    size = int.from_bytes(start[_PAGE_SIZE]) or 1
    size = _LARGEST if size == 1 else size
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
            for place in range(cells):
                name = _name(page, int.from_bytes(pointers[2 * place : 2 * place + 2]))
                if name is not None:
                    yield name
        elif page[at] == _INTERIOR:
            pointers = page[at + _INTERIOR_HEADER :]
            for place in range(cells):
                cell = int.from_bytes(pointers[2 * place : 2 * place + 2])
                waiting.append(int.from_bytes(page[cell : cell + 4]))
            waiting.append(int.from_bytes(page[at + 8 : at + 12]))


def _name(page: bytes, at: int) -> str | None:
    """Return the name in a row of the schema, where the row is of a table."""
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
    for place in range(_LONGEST_VARINT):
        byte = page[at + place]
        if place == _LONGEST_VARINT - 1:
            return value << 8 | byte, at + place + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that there is more
            return value, at + place + 1
    raise IndexError
