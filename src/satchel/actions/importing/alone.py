"""One import at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.actions.config import Settings
from satchel.actions.wiring import local_path
from satchel.disk.locks import ProcessLock


@contextmanager
def import_lock(settings: Settings) -> Iterator[None]:
    """Keep other imports out of the store, so that two do not go on with the same one.

    Raises:
        LockedError: If another one is running.
    """
    path = local_path(settings.store)
    if path is None:
        yield
        return
    lock = ProcessLock(
        path.with_name(f"{path.name}.import.lock"), purpose="import", own_folder=False
    )
    with lock.exclusive():
        yield
