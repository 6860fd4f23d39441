"""The pages of an encrypted file in plain, for whoever looks through them for what must be gone."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw

from satchel.disk.databases.ciphers import looks_encrypted
from satchel.errors import EncryptionError
from satchel.ports.store import Extent
from satchel.stores.raw_files import beside, file_extent
from satchel.stores.sqlite.opening import open_for_reading

_PAGES = 256
_BUSY_MS = 30_000


def laid_open(connection: apsw.Connection, path: Path, secret: bytes) -> Iterator[Extent]:
    """Yield what is in a store's file, free pages too, and in the files beside it.

    Copies beside it that the same key opens are yielded in plain, whatever else is there as it is.

    Args:
        connection: Of the store, with its key.
        path: The store's file.
        secret: Its key.
    """
    for extent in beside(path):
        other = Path(extent.name)
        if other == path:
            yield Extent(extent.name, lambda: _pages(connection))
        elif looks_encrypted(other):
            yield from _copy(other, secret)
        else:
            yield extent


def pages(connection: apsw.Connection) -> tuple[int, int]:
    """Return the size of a page, in bytes, and how many there are."""
    (found,) = connection.execute("SELECT * FROM pragma_page_size, pragma_page_count").fetchall()
    size, count = found
    assert isinstance(size, int)  # noqa: S101 - of SQLite itself
    assert isinstance(count, int)  # noqa: S101 - idem
    return size, count


def _copy(path: Path, secret: bytes) -> Iterator[Extent]:
    try:
        opened = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None, secret=secret).connection
    except EncryptionError:  # of another key: of no use to anybody who has only this one
        yield file_extent(path)
        return
    with closing(opened):
        yield Extent(str(path), lambda: _pages(opened))


def _pages(connection: apsw.Connection) -> Iterator[bytes]:
    size, count = pages(connection)
    for first in range(0, count, _PAGES):
        some = range(first, min(first + _PAGES, count))
        # Only whole pages can be decrypted.
        yield b"".join(connection.read("main", 0, place * size, size)[1] for place in some)
