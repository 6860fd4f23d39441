"""The pages of an encrypted store in plain: for whoever looks for what must be gone from them."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw

from satchel.disk.databases.ciphers import looks_encrypted
from satchel.errors import EncryptionError
from satchel.ports.store import Extent
from satchel.stores.raw_files import beside, file_extent
from satchel.stores.sqlite.opening import open_for_reading

_PAGES = 256
_LOG = "-wal"
_LOG_HEAD, _FRAME_HEAD = 32, 24
_BUSY_MS = 30_000


def laid_open(connection: apsw.Connection, path: Path, secret: bytes) -> Iterator[Extent]:
    """Yield what is in a store's file and log, free pages too, and in the files beside it.

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
        elif other.name == f"{path.name}{_LOG}":
            yield Extent(extent.name, lambda: _frames(connection, path))
        elif looks_encrypted(other):
            yield from _copy(other, secret)
        else:
            yield extent


def _frames(connection: apsw.Connection, path: Path) -> Iterator[bytes]:
    """Yield the pages in the log, also those that were left there by an earlier round."""
    size, _ = pages(connection)  # reads, so the log is open
    with suppress(FileNotFoundError):
        length = path.with_name(f"{path.name}{_LOG}").stat().st_size
        for start in range(_LOG_HEAD, length - _FRAME_HEAD - size + 1, _FRAME_HEAD + size):
            yield connection.read("main", 1, start + _FRAME_HEAD, size)[1]


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
