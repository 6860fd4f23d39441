"""What a remote place has to be able to do: objects by name, written under a condition."""

import itertools
import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from satchel.errors import TargetError


class Taken(NamedTuple):
    """An object and its tag, which is another one after each change."""

    data: bytes
    tag: str


class NotWritten(Exception):  # noqa: N818 - says what is known
    """A conditional write was not acknowledged: refused, or the answer was lost.

    So whoever gets this reads the object again: what is there may be one's own.
    """


class Objects(Protocol):
    """Objects of one place; several threads may use it."""

    shared: str
    """What tells one place from another, for whatever is known of the service behind it."""

    def get(self, name: str) -> Taken | None:
        """Return an object, None where there is none.

        Raises:
            TargetError: If the service does not answer.
        """
        ...

    def part(self, name: str, start: int, length: int) -> bytes:
        """Return some bytes of an object.

        Raises:
            TargetError: As ``get``, and if the object is gone.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return how many bytes an object has, None where there is none.

        Raises:
            TargetError: As ``get``.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write an object that is not there yet.

        Raises:
            NotWritten: If there is one, or it is not known.
        """
        ...

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Write an object in place of the one with a tag.

        Raises:
            NotWritten: If it is another one now, or it is not known.
        """
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whatever is there.

        Raises:
            TargetError: If the service does not take it.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the names of all objects."""
        ...

    def probe(self) -> bool:
        """Tell whether conditions are kept; a service that ignores them loses writes."""
        ...


class MemoryObjects:
    """Objects of this process, gone with it.

    Args:
        address: The place's; who names the same has the same objects.
    """

    _places: dict[str, dict[str, tuple[bytes, int]]] = {}  # noqa: RUF012 - that is the point
    _lock = threading.Lock()
    _numbers = itertools.count()

    def __init__(self, address: str) -> None:
        self.shared = "memory"
        self._prefix = address.rstrip("/") + "/"

    @property
    def _held(self) -> dict[str, tuple[bytes, int]]:
        return self._places.setdefault(self._prefix, {})

    def get(self, name: str) -> Taken | None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
        return None if found is None else Taken(found[0], str(found[1]))

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
        if found is None:
            raise TargetError("part of the store is missing", file=self._prefix + name)
        return found[0][start : start + length]

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
        return None if found is None else len(found[0])

    def _put(self, name: str, data: bytes) -> None:
        self._held[name] = (data, next(self._numbers))

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._lock:
            if name in self._held:
                raise NotWritten
            self._put(name, data)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        with self._lock:
            found = self._held.get(name)
            if found is None or str(found[1]) != tag:
                raise NotWritten
            self._put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._lock:
            self._put(name, data)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._lock:
            self._held.pop(name, None)

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        with self._lock:
            found = list(self._held)
        yield from found

    def probe(self) -> bool:
        """See ``Objects``."""
        return True
