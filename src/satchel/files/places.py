"""Where a store can be: a folder of this machine, or a remote place."""

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
    """Where a store was saved; the equal of Flyte's ``Dir``."""

    path: str
    name: str = ""
    format: str = ""
    hash: str | None = None

    @classmethod
    def of(cls, place: str) -> "Dir":
        """Return what names a place."""
        return cls(place, place.rstrip("/").rsplit("/", 1)[-1])


class FileStorage(Protocol):
    """Where a store is."""

    address: str
    folder: Path | None

    def is_at(self, root: Path) -> bool:
        """Tell whether the place is this folder, so that nothing has to be brought there."""
        ...

    def exists(self) -> bool:
        """Tell whether there is a store, also one that something else made."""
        ...

    def create(self, policy: Policy) -> None:
        """Make an empty store.

        Raises:
            MemoryStoreError: If there is one.
        """
        ...

    def load_into(self, store: GroupCommit, policy: Policy) -> None:
        """Have a working copy know what is there."""
        ...

    def refresh(self, store: GroupCommit, discard: frozenset[str]) -> None:
        """Take in what others saved."""
        ...

    def bring(self, store: GroupCommit) -> None:
        """Save the changes of this working copy.

        Raises:
            ConcurrencyError: If another writer changed a file that was changed here.
        """
        ...

    def erase(self, path: str, until: int) -> None:
        """Leave nothing of the texts that a path had up to the version of a number.

        That it is deleted, or has another text since, was brought before.
        """
        ...

    def collect(self, grace: float = DAY) -> CollectResult:
        """Remove what nothing refers to, once readers had their time, in seconds."""
        ...

    def laid_open(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of everything that is not in the folder."""
        ...

    def standing(self) -> tuple[str, int] | None:
        """Return which store is there, and up to which change; None where it is a folder.

        One request.

        Raises:
            TargetError: If the place does not answer.
        """
        ...

    def versions(self, since: int = -1) -> list[list[Any]]:
        """Return the versions that were saved after a change, in order, as lists."""
        ...

    def load_history(self, store: GroupCommit) -> None:
        """Have a working copy know the versions that were saved."""
        ...

    def examine(self) -> tuple[int, list[str]] | None:
        """Return how many events there are, and what is wrong; None where it is a folder."""
        ...

    def tail(self, store: GroupCommit, number: int) -> list[dict[str, Any]] | None:
        """Return the last events; None where the working copy has them all."""
        ...


def place_of(address: str) -> FileStorage:
    """Return the place that a name means.

    Raises:
        MemoryStoreError: If it means none.
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
        # Of an absolute path, three slashes and four mean the same.
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
