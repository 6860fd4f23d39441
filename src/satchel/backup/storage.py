"""Where backups are: objects by name in a folder or an object store, each whole or not there.

What is read is somebody's who may mean ill: no link is followed, no name leaves the folder, and
nobody reads more than he asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from satchel.errors import LimitError, PathRefusedError, SatchelError, TargetError, UnreadableError
from satchel.files.remote.objects import MemoryObjects, Objects
from satchel.runtime.contained_folder import ContainedFolder

SCHEMES = ("s3", "gs", "az", "memory")
"""Object stores; any other destination is a folder of this machine."""

TOPS = ("catalogue", "marks", "packs", "erased")
"""The folders of a destination."""

_DEEPEST = 4


class BackupStorage(Protocol):
    """Objects by name; names are parts of plain letters and digits, with ``/`` between them."""

    name: str
    """What to call it in messages."""

    def get(self, name: str, most: int) -> bytes | None:
        """Return an object; None where there is none.

        Raises:
            LimitError: If it has more bytes than ``most``.
            TargetError: If the place does not answer.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return how many bytes an object has; None where there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whatever is there; when this returns, it is there for good.

        Raises:
            TargetError: If it cannot be written; what was there before is there still.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        ...

    def names(self, under: str) -> Iterator[str]:
        """Yield the names of the objects whose names start with ``under`` and a ``/``."""
        ...

    def tidy(self) -> None:
        """Remove what writers that were killed left; nobody else may be writing."""
        ...

    def close(self) -> None:
        """Give back what is held open."""
        ...


class FolderStorage:
    """A folder of this machine; what is made in it is its owner's alone.

    Args:
        path: The folder.
        create: Make it where there is none.

    Raises:
        UnreadableError: If it is not there.
        TargetError: If it cannot be made.
        PathRefusedError: If it is a link.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.name = str(path)
        self._folder = ContainedFolder(path, create=create)
        self._made = set[str]()

    def get(self, name: str, most: int) -> bytes | None:
        """See ``Shelf``."""
        try:
            return self._folder.read(name, limit=most)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def size(self, name: str) -> int | None:
        """See ``Shelf``."""
        try:
            with self._folder.open(name) as stream:
                return stream.seek(0, 2)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def put(self, name: str, data: bytes) -> None:
        """See ``Shelf``."""
        above, _, _ = name.rpartition("/")
        if above and above not in self._made:
            self._folder.make_folder(above)
            self._made.add(above)
        self._folder.write(name, data)

    def remove(self, name: str) -> None:
        """See ``Shelf``."""
        try:
            self._folder.remove(name)
        except (UnreadableError, TargetError) as error:
            _unless_missing(error)

    def names(self, under: str) -> Iterator[str]:
        """See ``Shelf``."""
        yield from (name for name in self._walk(under) if not _is_draft(name))

    def _walk(self, under: str) -> Iterator[str]:
        waiting = [under]
        while waiting:
            folder = waiting.pop()
            try:
                found = self._folder.listing(folder)
            except UnreadableError as error:
                _unless_missing(error)
                continue
            for one in found:
                name = f"{folder}/{one.name}"
                if one.kind == "folder" and name.count("/") < _DEEPEST:
                    waiting.append(name)
                elif one.kind == "file":
                    yield name

    def tidy(self) -> None:
        """See ``Shelf``."""
        for top in TOPS:
            for name in [name for name in self._walk(top) if _is_draft(name)]:
                self.remove(name)

    def close(self) -> None:
        """See ``Shelf``."""
        self._folder.close()


class ObjectStorage:
    """An object store.

    Args:
        address: Where, such as ``s3://BUCKET/PREFIX``.

    Raises:
        MissingExtraError: If what talks to it is not installed.
        TargetError: If the address cannot be one.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self._address = address.rstrip("/")
        self._parts = dict[str, Objects]()

    def _at(self, name: str) -> tuple[Objects, str]:
        """Return the objects below the first part of a name, and the rest of it."""
        top, _, rest = name.partition("/")
        if top not in self._parts:
            self._parts[top] = _objects(f"{self._address}/{top}")
        return self._parts[top], rest

    def get(self, name: str, most: int) -> bytes | None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        size = objects.size(rest)
        if size is None:
            return None
        if size > most:
            raise LimitError(f"the object has more than {most:,} bytes", file=f"{self.name}/{name}")
        # It may be another by now: no more than asked for is read.
        return objects.part(rest, 0, size)

    def size(self, name: str) -> int | None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        return objects.size(rest)

    def put(self, name: str, data: bytes) -> None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        objects.put(rest, data)

    def remove(self, name: str) -> None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        objects.remove(rest)

    def names(self, under: str) -> Iterator[str]:
        """See ``Shelf``."""
        objects, rest = self._at(under)
        top = under.partition("/")[0]
        for name in objects.names():
            if not rest or name.startswith(f"{rest}/"):
                yield f"{top}/{name}"

    def tidy(self) -> None:
        """See ``Shelf``; an object store keeps nothing by halves."""

    def close(self) -> None:
        """See ``Shelf``; nothing is held open."""


def open_storage(destination: str, *, create: bool = False) -> BackupStorage:
    """Open a destination: the path of a folder, or the address of an object store.

    Raises:
        UnreadableError: If there is no such folder, and it is not to be made.
        TargetError: If it cannot be opened or made.
        PathRefusedError: If it is none.
    """
    scheme, is_address, _ = destination.partition("://")
    if not is_address:
        return FolderStorage(Path(destination).expanduser().absolute(), create=create)
    if scheme == "file":
        path = destination.removeprefix("file://")
        if not path.startswith("/"):
            raise PathRefusedError(
                "not a backup destination: file:// needs an absolute path",
                file=destination,
                hint="Write it as file:///absolute/folder.",
            )
        return FolderStorage(Path(path), create=create)
    if scheme not in SCHEMES:
        raise PathRefusedError(
            f"not a backup destination: {scheme}://",
            file=destination,
            hint=f"Use a folder, or an address that starts with one of {', '.join(SCHEMES)}.",
        )
    return ObjectStorage(destination)


def _is_draft(name: str) -> bool:
    """Tell whether a file is what a writer that was killed left, or one writes now."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".tmp")


def _unless_missing(error: SatchelError) -> None:
    if not isinstance(error.__cause__, FileNotFoundError):
        raise error


def _objects(address: str) -> Objects:
    if address.startswith("memory://"):
        return MemoryObjects(address)
    from satchel.files.remote.objects import ObstoreObjects

    return ObstoreObjects(address)
