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

_SAID_BYTES = 16


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

    said: str = ""
    """A digest of all messages so far, as they are in the file."""


class ForkPoint(NamedTuple):
    """Where a fork begins."""

    place: BranchPoint
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
        self._places = ScratchMap()
        self._strands = SpoolStreams()
        self._waiting: dict[str, list[PendingFork]] = {}

    def close(self) -> None:
        """Free the temporary space."""
        self._places.close()
        self._strands.close()

    def note(self, name: str, place: BranchPoint) -> bool:
        """Store an element by its name in the file; return whether the name is unique."""
        value = msgspec.json.encode(place)
        is_new = self._places.add(_key(name), value)
        if not is_new:
            self._places.add(_key(name, place.number), value)
        return is_new

    def named(self, name: Any) -> BranchPoint | None:
        """Return the element with a name; of several, the first."""
        return self._at(_key(name)) if isinstance(name, str) else None

    def has_to_wait(self, row: Row) -> bool:
        """Return whether a conversation is a fork of one that was not read yet."""
        source = _source_of(row)
        return source is not None and _key(source) not in self._places

    def wait(self, row: Row, messages: Iterator[bytes], where: str) -> None:
        """Store a conversation for later."""
        strand = self._strands.new_stream()
        for line in messages:
            strand.write(line)
        self._waiting.setdefault(str(_source_of(row)), []).append(PendingFork(row, strand, where))

    def late(self) -> Iterator[PendingFork]:
        """Yield waiting forks, each after its origin; those without an origin in the file last."""
        ready = [name for name in self._waiting if _key(name) in self._places]
        while ready:
            for one in self._waiting.pop(ready.pop(), ()):
                yield one
                name = str(one.row.get("id"))
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
        said, source = row.get(FORKED), _source_of(row)
        start = self.named(source)
        if source is None or start is None or type(said) is not dict:
            return None
        after, at = said.get(AFTER), str(said.get(AT))
        found = self._at(_key(at, after)) or self.named(at)
        if found is None or found.number != after:
            return None
        included = said.get(INCLUDED) is True
        if included and not _begins_so(messages(), found):
            return None
        checkpoint = self.named(said.get(CHECKPOINT))
        return ForkPoint(
            found,
            start.element,
            None if checkpoint is None else checkpoint.element,
            "as-of" if said.get(MEMORIES) == "as-of" else None,
            included,
        )

    def _at(self, key: bytes) -> BranchPoint | None:
        found = self._places.get(key)
        return None if found is None else msgspec.json.decode(found, type=resolved(BranchPoint))


def said_after(before: str, row: Row) -> str:
    """Return the digest of messages with one more; it does not include a message's ID."""
    rest = {name: part for name, part in row.items() if name != "id"}
    whole = before.encode() + msgspec.json.encode(rest, order="deterministic")
    return blake3(whole).hexdigest(length=_SAID_BYTES)


def _begins_so(messages: Iterator[bytes], place: BranchPoint) -> bool:
    """Return whether messages begin with those up to a point of another conversation."""
    said, count = "", 0
    for line in messages:
        if count == place.number:
            break
        row = msgspec.json.decode(line)
        if type(row) is not dict:
            return False
        said, count = said_after(said, row), count + 1
    return (count, said) == (place.number, place.said)


def _source_of(row: Row) -> str | None:
    said = row.get(FORKED)
    found = said.get(SESSION) if type(said) is dict else None
    return found if type(found) is str else None


def _key(name: str, number: Any = "") -> bytes:
    return f"{number}/{name}".encode("utf-8", "surrogatepass")
