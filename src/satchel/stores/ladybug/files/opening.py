"""Opening the files: a folder of our own, its lock, and what is done when they cannot be opened.

The engine writes ``graph.lbug`` and, beside it, a log that it empties into it. It makes files as
the umask says, so the folder is what is private. A second owner of the same files would lose what
the first one acknowledged, without a word: so the folder has a lock that its owner keeps.
"""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from satchel.disk.writing import writing
from satchel.errors import MissingExtraError, StoreDamagedError, StoreError, StoreVersionError
from satchel.stores.ladybug.errors import ours, translated
from satchel.stores.ladybug.schema import VERSION, statements

FILE = "graph.lbug"
LOG = FILE + ".wal"
LOCK = "lock"

_POOL_BYTES = 1 << 30
_LARGEST = 1 << 40  # bytes of addresses, not of memory; the engine's own choice is 8 times that
_THREADS = 2
_MAGIC = b"LBUG"
_HEADER = 12
_LAST_OF = {40: "0.15.3", 41: "0.17.1"}
"""Older storage versions, with a release that writes them."""

_LOG_FAILED = ("WAL", "Reading past the end", "Checksum verification failed")


def engine() -> Any:
    """Return the engine's module.

    Raises:
        MissingExtraError: If it is not installed, or something else of that name is.
    """
    hint = 'Install it: python -m pip install "satchel[graph]"'
    try:
        import ladybug
    except ImportError as error:
        raise MissingExtraError("this store needs LadybugDB", hint=hint) from error
    if not hasattr(ladybug, "Database"):
        raise MissingExtraError(
            "the installed package `ladybug` is not LadybugDB",
            hint="The weather package ladybug-core has the same name: uninstall it. " + hint,
        )
    return ladybug


def opened(folder: Path, file: str = FILE, *, read_only: bool = False) -> Any:
    """Open the database in a folder that this process has locked.

    Raises:
        StoreDamagedError: If it cannot be opened. Where that is because of its log, both files
            were copied aside and the log was cut to what can be read; opened again, the store
            has that.
        StoreVersionError: If its files are of a newer kind.
        StoreError: If it cannot be opened for another reason.
    """
    module, path = engine(), folder / file
    _look_at(module, path, read_only=read_only)
    try:
        return _database(module, path, read_only=read_only)
    except (RuntimeError, MemoryError) as error:
        said = str(error)
        log = path.with_name(path.name + ".wal")
        if read_only or not log.exists() or not any(part in said for part in _LOG_FAILED):
            raise ours(error, str(folder)) from error
        raise _quarantined(module, folder, path) from error


def prepare(database: Any, name: str, *, read_only: bool) -> None:
    """Make the tables of a new store, and refuse one that is not ours.

    Raises:
        StoreVersionError: If it is something else, or newer than this program.
    """
    with translated(name):
        connection = engine().Connection(database, num_threads=1)
        try:
            tables = {name for (name,) in connection.execute(_TABLES).get_all()}
            if not tables and not read_only:
                connection.execute("BEGIN TRANSACTION")
                for statement in statements():
                    connection.execute(statement)
                connection.execute("COMMIT")
            elif "Meta" not in tables:
                raise StoreVersionError("this is not a Satchel database", file=name)
            else:
                _refuse_newer(connection.execute(_VERSION).get_all(), name)
        finally:
            connection.close()


_TABLES = "CALL show_tables() RETURN name"
_VERSION = "MATCH (m:Meta {name: 'version'}) RETURN m.value"


def _refuse_newer(found: list[list[Any]], name: str) -> None:
    if found != [[VERSION]]:
        raise StoreVersionError(
            f"the store has version {found[0][0] if found else None},"
            f" this program reads version {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )


def _database(module: Any, path: Path, *, read_only: bool, throw: bool = True) -> Any:
    return module.Database(
        str(path),
        buffer_pool_size=_POOL_BYTES,
        max_num_threads=_THREADS,
        max_db_size=_LARGEST,
        read_only=read_only,
        # Only when nobody reads, and by us alone.
        auto_checkpoint=False,
        throw_on_wal_replay_failure=throw,
    )


def _look_at(module: Any, path: Path, *, read_only: bool) -> None:
    """Refuse files of a newer engine; keep a copy of older ones, which it would write anew."""
    own = int(module.Database.get_storage_version())
    with suppress(FileNotFoundError), path.open("rb") as file:
        header = file.read(_HEADER)
        if not header.startswith(_MAGIC):
            return  # empty, or none of the engine's: it says so itself
        found = int.from_bytes(header[len(_MAGIC) :], "little")
        if found > own:
            raise StoreVersionError(
                f"the files have storage version {found}, the installed engine writes {own}",
                file=str(path.parent),
                hint="Use a newer ladybug.",
            )
        if found < own:
            _refuse_older_log(path, found, own)
            if not read_only:
                _copy(path, path.with_name(f"{path.stem}.storage-{found}{path.suffix}"))


def _refuse_older_log(path: Path, found: int, own: int) -> None:
    """Refuse a log of an older engine: this one cannot read it, and would cut it off."""
    with suppress(FileNotFoundError):
        if path.with_name(path.name + ".wal").stat().st_size:
            release = _LAST_OF.get(found, "VERSION")
            raise StoreVersionError(
                f"the latest writes are in a log of storage version {found}, which the "
                f"installed engine ({own}) cannot read; nothing was changed",
                file=str(path.parent),
                hint="Open the store once with the engine that wrote it, which applies the log:"
                f" python -m pip install ladybug=={release}, then satchel doctor, then install"
                " the newer one again.",
            )


def _quarantined(module: Any, folder: Path, path: Path) -> StoreError:
    """Copy the files aside, leave the store with what can be read, and return what to say."""
    kept = next(
        place
        for number in range(1, 1 << 20)
        if not (place := folder / f"damaged-{number}").exists()
    )
    kept.mkdir(mode=0o700)
    log = path.with_name(path.name + ".wal")
    for each in (path, log):
        _copy(each, kept / each.name)
    try:
        database = _database(module, path, read_only=False, throw=False)
        connection = module.Connection(database, num_threads=1)
        connection.execute("CHECKPOINT")
        connection.close()
        database.close()
    except (RuntimeError, MemoryError) as error:
        return ours(error, str(folder))
    return StoreDamagedError(
        "the log of the store could not be read to its end, so the latest writes may be missing",
        file=str(folder),
        hint=(
            f"Both files were copied to {kept}. Run again to continue with what could be read, and "
            "verify the bank: the witness shows whether anything is missing."
        ),
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a file, private and forced to disk with its name; one that is there stays."""
    if not target.exists():
        with source.open("rb") as old, writing(target, overwrite=False, mode=0o600) as new:
            shutil.copyfileobj(old, new)
