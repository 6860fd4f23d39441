"""The key beside a store: ``NAME.key``, and ``NAME.key.next`` during a change.

A new key is flushed to disk before the file that it opens replaces the old one. After an
interruption both keys exist, one of which opens the store.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote_from_bytes

import apsw

from satchel.crypto.encryption import MOST_BYTES, StoreKey, Unlocker, open_store_key
from satchel.errors import (
    EncryptionError,
    LimitError,
    SatchelError,
    StoreBusyError,
    StoreDamagedError,
    VerificationError,
)
from satchel.ports.store import Extent, Progress, beside, file_extent
from satchel.runtime.files import (
    PRIVATE_FILE,
    atomic_write,
    leftover_files,
    open_input,
    writing_by_name,
)
from satchel.runtime.private_files import require_secret
from satchel.stores.sqlite.connection import (
    KEY_ENDING,
    has_moved,
    holds,
    is_plain,
    looks_encrypted,
    open_for_reading,
    open_for_writing,
)
from satchel.stores.sqlite.statements import translated

_BUSY_MS = 30_000


def key_file(path: Path) -> Path:
    """Return the path of a store's key, existing or not."""
    return path.with_name(path.name + KEY_ENDING)


def next_file(path: Path) -> Path:
    """Return the path of the new key during a change."""
    return path.with_name(f"{path.name}{KEY_ENDING}.next")


def is_keyed(path: Path) -> bool:
    """Return whether a store is encrypted, or will be when it is created."""
    if os.path.lexists(key_file(path)):
        return True
    return os.path.lexists(next_file(path)) and is_plain(path) is False


def key_for(path: Path, unlocking: Unlocker | None = None) -> StoreKey | None:
    """Return the key of a store; None for a plain one, existing or not.

    Args:
        path: The store's file.
        unlocking: Decrypts the file with the key.

    Raises:
        EncryptionError: If the key cannot be decrypted, is missing, or belongs to another store.
        VerificationError: If the store is plain although it has a key.
        MalformedError: If the file contains no key.
        MissingExtraError: If the package for decryption is not installed.
    """
    files = [file for file in (key_file(path), next_file(path)) if os.path.lexists(file)]
    plain = is_plain(path) if files else None
    if not files:
        return None
    if plain and files[0] == next_file(path):
        return None  # interrupted before the store was encrypted
    if plain:
        raise VerificationError(
            "the store is not encrypted, although its key file exists",
            file=str(path),
            hint=(
                "If decryption was interrupted, finish it: satchel store decrypt. If not, the file "
                "was replaced: move the encrypted one back."
            ),
        )
    problem: EncryptionError | None = None
    for file in files:
        try:
            key = opened_key(file, unlocking)
        except EncryptionError as error:
            problem = problem or error
        else:
            if len(files) == 1 or plain is None or _opens(path, key):
                return key
    raise problem or EncryptionError("no key file of the store decrypts it", file=str(path))


def opened_key(file: Path, unlocking: Unlocker | None) -> StoreKey:
    """Return the key in a file; raises as ``key_for``."""
    with open_input(file) as stream:
        require_secret(file, os.fstat(stream.fileno()), "the key of this store")
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise LimitError(f"a store's key can have at most {MOST_BYTES:,} bytes", file=str(file))
    try:
        return open_store_key(content, unlocking or Unlocker())
    except SatchelError as error:
        raise error.located(file=str(file)) from error.__cause__


def put_next(path: Path, old: StoreKey | None, new: StoreKey | None) -> None:
    """Write the next key of a store, which the caller has locked.

    Args:
        path: The store's file.
        old: Its present key. An interrupted change is completed first.
        new: Its next key; None for a plain store.

    Raises:
        TargetError: If it cannot be written.
        OSError: If the folder cannot be written.
    """
    file = next_file(path)
    if old is not None and os.path.lexists(file) and file.read_bytes() == old.held:
        settle(path, encrypted=True)
    if new is not None:
        _put(file, new)


def put_key(path: Path, key: StoreKey) -> None:
    """Write the key of a new store.

    Raises:
        TargetExistsError: If it exists.
        TargetError: If it cannot be written.
    """
    _put(key_file(path), key, overwrite=False)


@contextmanager
def copied_key(path: Path, key: StoreKey | None) -> Iterator[None]:
    """Write the key of a store beside a copy that is made in a block; nothing for a plain one.

    Raises:
        TargetExistsError: If it exists.
        TargetError: If it cannot be written.
    """
    if key is None:
        yield
        return
    put_key(path, key)
    try:
        yield
    except BaseException:
        key_file(path).unlink()
        raise


def settle(path: Path, *, encrypted: bool) -> None:
    """Make the next key the key of the store; or remove its key.

    Raises:
        OSError: If the folder cannot be written.
    """
    if encrypted:
        next_file(path).replace(key_file(path))
    else:
        for one in (key_file(path), next_file(path)):
            with suppress(FileNotFoundError):
                one.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def require_key(path: Path) -> None:
    """Raise an error if a file that SQLite cannot read without a key is encrypted.

    Raises:
        EncryptionError: If its key is missing.
        StoreBusyError: If the key exists: it was written in the meantime.
    """
    if is_keyed(path):
        raise StoreBusyError(
            "the store was encrypted by another process",
            file=str(path),
            hint="Restart the programs that had it open.",
        )
    if looks_encrypted(path):
        raise EncryptionError(
            "the store is encrypted, and its key file is missing",
            file=str(path),
            hint=(
                f"Put {key_file(path).name} there, from a copy. The store cannot be opened without "
                "it; a backup can be restored into another store."
            ),
        )


def _put(file: Path, key: StoreKey, *, overwrite: bool = True) -> None:
    with atomic_write(file, overwrite=overwrite, mode=PRIVATE_FILE) as stream:
        stream.write(key.held)


def _opens(path: Path, key: StoreKey) -> bool:
    try:
        open_for_reading(path, busy_ms=_BUSY_MS, vfs=None, secret=key.secret).connection.close()
    except EncryptionError:
        return False
    return True


_PAGES = 256
_LOG = "-wal"
_LOG_HEAD, _FRAME_HEAD = 32, 24


def laid_open(connection: apsw.Connection, path: Path, secret: bytes) -> Iterator[Extent]:
    """Yield the contents of a store's file and log, decrypted, and of the files beside it.

    Free pages are included. Copies with the same key are decrypted; other files are yielded
    unchanged.

    Args:
        connection: A connection to the store, with its key.
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
    """Yield the pages in the log, also those of an earlier round."""
    size, _ = pages(connection)  # reads, so the log is open
    with suppress(FileNotFoundError):
        length = path.with_name(f"{path.name}{_LOG}").stat().st_size
        for start in range(_LOG_HEAD, length - _FRAME_HEAD - size + 1, _FRAME_HEAD + size):
            yield connection.read("main", 1, start + _FRAME_HEAD, size)[1]


def pages(connection: apsw.Connection) -> tuple[int, int]:
    """Return the size of a page in bytes, and the number of pages."""
    (found,) = connection.execute("SELECT * FROM pragma_page_size, pragma_page_count").fetchall()
    size, count = found
    assert isinstance(size, int)  # noqa: S101 - of SQLite itself
    assert isinstance(count, int)  # noqa: S101 - idem
    return size, count


def _copy(path: Path, secret: bytes) -> Iterator[Extent]:
    try:
        opened = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None, secret=secret).connection
    except EncryptionError:  # of another key: unreadable with this one
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


_STEPS = 20_000
"""Instructions of SQLite's virtual machine between two calls of ``progress``."""

_REPLACE_BUSY_MS = 5_000


def rewrite_with_key(
    path: Path,
    old: StoreKey | None,
    new: StoreKey | None,
    *,
    first: Callable[[], None],
    last: Callable[[], None],
    progress: Progress | None = None,
) -> None:
    """Rewrite a store with another key, atomically.

    Args:
        path: The store's file.
        old: Its key; None for a plain one.
        new: The new key; None for none.
        first: Called when all is written and verified, before it replaces the store.
        last: Called after that, before others can open it for writing.
        progress: Called with the bytes written, and the approximate total.

    Raises:
        StoreBusyError: If another program has the store open.
        StoreDamagedError: If the copy differs; nothing is changed.
        TargetError: If there is no space; nothing is changed.
        StoreError: If the store cannot be read.
    """
    name = str(path)
    under, secret = (None if one is None else one.secret for one in (old, new))
    with closing(
        open_for_writing(path, busy_ms=_REPLACE_BUSY_MS, vfs=None, secret=under)
    ) as connection:
        with translated(name, connection):
            _alone(connection, name)
            before = holds(connection)
        for stale in leftover_files(path):
            stale.unlink()  # left by a killed process, maybe plain; no other process writes here
        with writing_by_name(path, overwrite=True) as temporary:
            with translated(name, connection):
                _write(connection, temporary, secret, progress)
            _compare(temporary, secret, before, name)
            first()
        last()


def _alone(connection: apsw.Connection, name: str) -> None:
    """Lock the file exclusively until the connection closes, with an empty log."""
    try:
        connection.pragma("locking_mode", "exclusive")
        mode = connection.pragma("journal_mode", "delete")
        connection.execute("BEGIN EXCLUSIVE; COMMIT")
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _busy(name) from error
    if mode != "delete" or has_moved(connection):  # the file was replaced during the wait
        raise _busy(name)


def _busy(name: str) -> StoreBusyError:
    return StoreBusyError(
        "another program has the store open, or is changing its key",
        file=name,
        hint="Stop it (satchel serve, satchel mcp, satchel watch), and try again.",
    )


def _write(
    connection: apsw.Connection, path: Path, secret: bytes | None, progress: Progress | None
) -> None:
    # An empty key is none: without one, the new file would get that of the old.
    keyed = "key=" if secret is None else f"cipher=chacha20&key=raw:{secret.hex()}"
    address = f"file:{quote_from_bytes(os.fsencode(path))}?{keyed}"
    whole = math.prod(pages(connection))

    def tell() -> bool:
        if progress is not None:
            progress(min(path.stat().st_size, whole), whole)
        return False

    connection.set_progress_handler(tell, _STEPS)
    try:
        connection.execute("VACUUM INTO ?", (address,))
    finally:
        connection.set_progress_handler(None)
    tell()


def _compare(path: Path, secret: bytes | None, before: object, name: str) -> None:
    opened = open_for_reading(path, busy_ms=_REPLACE_BUSY_MS, vfs=None, secret=secret).connection
    with closing(opened), translated(str(path), opened):
        problems = opened.execute("PRAGMA integrity_check(1)").fetchall()
        if problems != [("ok",)] or holds(opened) != before:
            raise StoreDamagedError(
                "the rewritten store differs from the original",
                file=name,
                hint="Nothing was changed. See: satchel doctor.",
            )
