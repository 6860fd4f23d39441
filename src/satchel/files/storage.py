"""Places of stores: local folders and remote places."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from satchel.errors import MemoryStoreError
from satchel.files.commit import DAY, CollectResult, GroupCommit
from satchel.files.local_store import LocalFileStorage
from satchel.files.manifest import Policy
from satchel.files.paths import folder_of
from satchel.files.remote.objects import MemoryObjects, Objects
from satchel.files.remote.store import RemoteFileStorage


@dataclass(frozen=True)
class Dir:
    """The place of a saved store, like Flyte's ``Dir``."""

    path: str
    name: str = ""
    format: str = ""
    hash: str | None = None

    @classmethod
    def of(cls, address: str) -> "Dir":
        """Return the ``Dir`` of a place."""
        return cls(address, address.rstrip("/").rsplit("/", 1)[-1])


class FileStorage(Protocol):
    """The place of a store."""

    address: str
    folder: Path | None

    def is_at(self, root: Path) -> bool:
        """Return whether the place is this folder, so that nothing has to be saved there."""
        ...

    def exists(self) -> bool:
        """Return whether there is a store, also one of another program."""
        ...

    def create(self, policy: Policy) -> None:
        """Create an empty store.

        Raises:
            MemoryStoreError: If it exists.
        """
        ...

    def load_into(self, store: GroupCommit, policy: Policy) -> None:
        """Update a working copy's knowledge of the place."""
        ...

    def refresh(self, store: GroupCommit, discard: frozenset[str]) -> None:
        """Pull the saves of others."""
        ...

    def push(self, store: GroupCommit) -> None:
        """Save the changes of this working copy.

        Raises:
            ConcurrencyError: If another writer changed a file that was changed here.
        """
        ...

    def erase(self, path: str, until: int) -> None:
        """Erase the texts of a path up to the version with a number.

        Its deletion, or its later text, was saved before.
        """
        ...

    def collect(self, grace: float = DAY) -> CollectResult:
        """Remove unreferenced objects after a grace period in seconds."""
        ...

    def laid_open(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of each remote object."""
        ...

    def standing(self) -> tuple[str, int] | None:
        """Return the ID of the store and its last change; None for a folder.

        One request.

        Raises:
            TargetError: If the place does not answer.
        """
        ...

    def versions(self, since: int = -1) -> list[list[Any]]:
        """Return the versions that were saved after a change, in order, as lists."""
        ...

    def load_history(self, store: GroupCommit) -> None:
        """Read the saved versions into a working copy."""
        ...

    def examine(self) -> tuple[int, list[str]] | None:
        """Return the number of events, and the problems; None for a folder."""
        ...

    def tail(self, store: GroupCommit, number: int) -> list[dict[str, Any]] | None:
        """Return the last events; None if the working copy has them all."""
        ...


def file_storage(address: str) -> FileStorage:
    """Return the place of an address.

    Raises:
        MemoryStoreError: If the address is not valid.
    """
    folder = folder_of(address)
    if folder is not None:
        return LocalFileStorage(str(folder), folder)
    return RemoteFileStorage(address, _objects(address))


def _objects(address: str) -> Objects:
    scheme, _, rest = address.partition("://")
    if scheme == "memory":
        return MemoryObjects(address)
    if scheme == "sqlite":
        # Three and four slashes before an absolute path mean the same.
        rest = f"/{rest.lstrip('/')}" if rest.startswith("/") else rest
        file, found, prefix = unquote(rest).partition(".db/")
        if not found:
            raise MemoryStoreError(
                "sqlite:// needs a file whose name ends in .db", path="storage_root"
            )
        from satchel.files.remote.objects import SqliteObjects

        return SqliteObjects(Path(file + ".db").expanduser().absolute(), prefix)
    from satchel.files.remote.objects import ObstoreObjects

    return ObstoreObjects(address)
