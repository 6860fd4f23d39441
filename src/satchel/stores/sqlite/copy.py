"""Copying the file while it is used: one state of it, whole or not at all."""

import errno
import os
from contextlib import closing
from pathlib import Path

import apsw

from satchel.errors import TargetExistsError
from satchel.ports.store import Progress
from satchel.runtime.files import target_error, writing_by_name
from satchel.runtime.private_files import COMPANIONS
from satchel.stores.sqlite.ciphers import unlock, with_ciphers

PAGES = 256
"""Copied at a time: 1 MiB."""

_CACHE_KIB = 2 * 1024


def copy_database(
    source: apsw.Connection,
    path: Path,
    *,
    progress: Progress | None,
    vfs: str | None,
    secret: bytes | None = None,
) -> None:
    """Copy what a connection sees to a new private file, forced to disk with its name.

    Args:
        source: Inside a transaction that reads. Others may write meanwhile; their log grows for
            as long as it takes.
        path: The new file.
        progress: Told after each ``PAGES``.
        vfs: Name of the SQLite file system that is written to.
        secret: The key of the source, which the copy gets as well.

    Raises:
        TargetExistsError: If it is there, or a file that SQLite would take for a part of it.
        TargetError: If it cannot be written; nothing of it is left.
        apsw.Error: If the source cannot be read.
    """
    for ending in ("", *COMPANIONS):
        if os.path.lexists(taken := path.with_name(path.name + ending)):
            raise TargetExistsError(
                "the target of the copy already exists",
                file=str(taken),
                hint="Choose another path.",
            )
    # The first read settles what is seen; before it, each step would see something newer.
    source.pragma("schema_version")
    with writing_by_name(path) as temporary:
        try:
            _copy(source, temporary, progress, vfs, secret)
        except apsw.FullError as error:
            raise target_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error


def _copy(
    source: apsw.Connection,
    path: Path,
    progress: Progress | None,
    vfs: str | None,
    secret: bytes | None,
) -> None:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    system = vfs if secret is None else with_ciphers(vfs)
    with closing(apsw.Connection(str(path), flags=flags, vfs=system)) as target:
        if secret is not None:
            unlock(target, secret, str(path))
        # It is forced to disk at the end, and thrown away when anything goes wrong.
        target.pragma("journal_mode", "off")
        target.pragma("synchronous", "off")
        target.pragma("cache_size", -_CACHE_KIB)
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                if progress is not None:
                    progress(backup.page_count - backup.remaining, backup.page_count)
