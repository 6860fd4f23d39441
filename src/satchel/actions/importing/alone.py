"""One import at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from blake3 import blake3

from satchel.actions.config import Settings
from satchel.actions.wiring import local_path, shown_address
from satchel.disk.locks import ProcessLock
from satchel.disk.waiting import is_watched


@contextmanager
def import_lock(settings: Settings, *, waits: bool = False) -> Iterator[None]:
    """Keep other imports out of the store, so that two do not go on with the same one.

    Args:
        settings: Where the store is.
        waits: Whether to wait for another one where somebody is shown that it is waited for.

    Raises:
        LockedError: If another one is running.
    """
    path = local_path(settings.store)
    if path is None:  # a server's: of this machine, which is where a job would be gone on with
        name = blake3(shown_address(settings.store).encode()).hexdigest(length=8)
        lock = ProcessLock(settings.state / f"import-{name}.lock", purpose="import")
    else:
        beside = path.with_name(f"{path.name}.import.lock")
        lock = ProcessLock(beside, purpose="import", own_folder=False)
    with lock.exclusive(wait=inf if waits and is_watched() else 0):
        yield
