"""Which store of memory files a person means, opened."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.filing.following import follow
from satchel.actions.paths.permission import require_uncontained
from satchel.actions.permitted.owning import require_owner
from satchel.errors import LockedError, MemoryStoreError, StoreBusyError, UsageError
from satchel.files import MemoryStore
from satchel.files.namespace import Namespace, root_checked
from satchel.files.paths import key_checked

DEFAULT_KEY = "default"


def namespace_of(settings: Settings) -> Namespace:
    """Return the folder that the keys of these settings are in.

    Raises:
        MemoryStoreError: If the configuration names none that can be one.
    """
    files = settings.options.files
    return Namespace(
        root_checked(files.storage_root or str(settings.home / "files")),
        key_checked(files.org, "org"),
        key_checked(files.project, "project"),
        key_checked(files.domain, "domain"),
    )


@contextmanager
def opened_files(
    settings: Settings, key: str | None, root: Path | None = None, *, create: bool = False
) -> Iterator[MemoryStore]:
    """Open the memory files that are meant, and close them after the block.

    Args:
        settings: Where keys are.
        key: Name of the store; the bank that is meant when none is named, by default.
        root: A folder that has a store, in place of a key.
        create: Make one where there is none.

    Raises:
        UsageError: If both are given.
        MemoryStoreError: If there is none.
        ContainmentError: If folders are set that paths may be in.
    """
    require_owner(settings, "files")
    if root is not None:
        if key is not None:
            raise UsageError("--key and --root name two different stores")
        require_uncontained(settings, str(root))
        if not create and not root.is_dir():
            raise MemoryStoreError("there is no such folder", file=str(root))
        with MemoryStore(root=root) as store:
            yield store
        return
    where = namespace_of(settings)
    name = key or settings.options.store.bank or DEFAULT_KEY
    known = {**where._asdict(), "key": name}
    if not create and not MemoryStore.exists(**known):
        raise MemoryStoreError(
            f"there are no memory files of {name!r} yet", hint="Write one: satchel files write"
        )
    with MemoryStore.get_or_create(**known) as store:
        try:
            yield store
        finally:
            with suppress(StoreBusyError, LockedError):  # the next who opens them catches up
                follow(settings, store, name)
