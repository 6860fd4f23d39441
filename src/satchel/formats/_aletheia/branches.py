"""Forks in an agent file: where they begin, and those that wait for their origin.

A fork's ``forkedFrom`` names the conversation of origin (``session``), the element that it
continues from (``at``), the number of messages up to it (``after``), the checkpoint that was
restored (``checkpoint``), and whether later memories are hidden from it (``memories``). It contains
its own messages; with ``included`` also those before it, to be readable alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from satchel.formats._aletheia.schema import Row
from satchel.model.values import resolved
from satchel.runtime.scratch import ScratchMap, SpoolStream, SpoolStreams

FORKED = "forkedFrom"
SESSION, AT, AFTER = "session", "at", "after"
WAS_FORKED = "wasForkedFrom"
"""The same as ``forkedFrom``, in a fork whose origin is not in the file; informative."""
CHECKPOINT, MEMORIES, INCLUDED = "checkpoint", "memories", "included"
BEFORE = "before"
"""Set in a moment of a fork's timeline that precedes the fork."""

_DIGEST_BYTES = 16


class BranchPoint(NamedTuple):
    """The state of a conversation at one of its elements."""

    element: str
    """The placeholder of its ID."""

    number: int = 0
    """Number of messages so far."""

    step: int = 0
    """Number of elements so far."""

    state: str | None = None
    """The placeholder of the last change of state."""

    latest: dict[str, str] = {}  # noqa: RUF012 - never changed in place
    """The placeholder of the last change, by kind."""

    digest: str = ""
    """A digest of all messages so far, as they are in the file."""


class ForkPoint(NamedTuple):
    """Where a fork begins."""

    point: BranchPoint
    source: str
    """The placeholder of the conversation of origin."""

    checkpoint: str | None = None
    memories: str | None = None
    included: bool = False


class PendingFork(NamedTuple):
    """A fork that was read before its conversation of origin."""

    row: Row
    messages: SpoolStream
    where: str


class Branches:
    """The elements of all conversations of a file, and the forks that wait for their origin."""

    def __init__(self) -> None:
        self._points = ScratchMap()
        self._streams = SpoolStreams()
        self._waiting: dict[str, list[PendingFork]] = {}

    def close(self) -> None:
        """Free the temporary space."""
        self._points.close()
        self._streams.close()

    def note(self, name: str, point: BranchPoint) -> bool:
        """Store an element by its name in the file; return whether the name is unique."""
        value = msgspec.json.encode(point)
        is_new = self._points.add(_key(name), value)
        if not is_new:
            self._points.add(_key(name, point.number), value)
        return is_new

    def named(self, name: Any) -> BranchPoint | None:
        """Return the element with a name; of several, the first."""
        return self._point_at(_key(name)) if isinstance(name, str) else None

    def has_to_wait(self, row: Row) -> bool:
        """Return whether a conversation is a fork of one that was not read yet."""
        source = _source_of(row)
        return source is not None and _key(source) not in self._points

    def wait(self, row: Row, messages: Iterator[bytes], where: str) -> None:
        """Store a conversation for later."""
        stream = self._streams.new_stream()
        for line in messages:
            stream.write(line)
        self._waiting.setdefault(str(_source_of(row)), []).append(PendingFork(row, stream, where))

    def late(self) -> Iterator[PendingFork]:
        """Yield waiting forks, each after its origin; those without an origin in the file last."""
        ready = [name for name in self._waiting if _key(name) in self._points]
        while ready:
            for fork in self._waiting.pop(ready.pop(), ()):
                yield fork
                name = str(fork.row.get("id"))
                if name in self._waiting:
                    ready.append(name)
        for rest in self._waiting.values():
            yield from rest
        self._waiting.clear()

    def beginning(self, row: Row, messages: Callable[[], Iterator[bytes]]) -> ForkPoint | None:
        """Return where a fork begins.

        Returns:
            None if it is not a fork, or if the file does not have its origin, or not with the same
            messages: it is a separate conversation then.
        """
        fork, source = row.get(FORKED), _source_of(row)
        start = self.named(source)
        if source is None or start is None or type(fork) is not dict:
            return None
        after, at = fork.get(AFTER), str(fork.get(AT))
        point = self._point_at(_key(at, after)) or self.named(at)
        if point is None or point.number != after:
            return None
        included = fork.get(INCLUDED) is True
        if included and not _begins_with(messages(), point):
            return None
        checkpoint = self.named(fork.get(CHECKPOINT))
        return ForkPoint(
            point,
            start.element,
            None if checkpoint is None else checkpoint.element,
            "as-of" if fork.get(MEMORIES) == "as-of" else None,
            included,
        )

    def _point_at(self, key: bytes) -> BranchPoint | None:
        encoded = self._points.get(key)
        return None if encoded is None else msgspec.json.decode(encoded, type=resolved(BranchPoint))


def digest_after(digest: str, row: Row) -> str:
    """Return the digest of messages with one more; it does not include a message's ID."""
    members = {name: part for name, part in row.items() if name != "id"}
    data = digest.encode() + msgspec.json.encode(members, order="deterministic")
    return blake3(data).hexdigest(length=_DIGEST_BYTES)


def _begins_with(messages: Iterator[bytes], point: BranchPoint) -> bool:
    """Return whether messages begin with those up to a point of another conversation."""
    digest, count = "", 0
    for line in messages:
        if count == point.number:
            break
        row = msgspec.json.decode(line)
        if type(row) is not dict:
            return False
        digest, count = digest_after(digest, row), count + 1
    return (count, digest) == (point.number, point.digest)


def _source_of(row: Row) -> str | None:
    fork = row.get(FORKED)
    session = fork.get(SESSION) if type(fork) is dict else None
    return session if type(session) is str else None


def _key(name: str, number: Any = "") -> bytes:
    return f"{number}/{name}".encode("utf-8", "surrogatepass")
