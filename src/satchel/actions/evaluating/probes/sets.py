"""Sets of probes: what is remembered in sessions, and the questions that only memory answers.

Three sets come along, made for this purpose: ``coding``, ``answering`` and ``planning``. A set of
one's own has the same form; ``data/`` shows it.
"""

from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from satchel.disk.reading import reading
from satchel.errors import EmptyInputError, LimitError, MalformedError
from satchel.memory.entries import Episodic, Identity, Procedural, Semantic, Working
from satchel.memory.parts import LeanTime
from satchel.type_info import resolved

SHIPPED = ("coding", "answering", "planning")
"""Names of the sets that come along."""

MOST_BYTES = 64 * 2**20
"""Of a set."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]


class Remembered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory of a session."""

    key: _Text
    """What probes and later memories of the same world name it by."""

    entry: Episodic | Semantic | Procedural | Working | Identity
    """A draft."""

    replaces: str | None = None
    """The earlier memory whose place it takes."""


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was remembered at one time."""

    at: LeanTime
    memories: tuple[Remembered, ...]


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, and what makes an answer right."""

    ask: _Text
    choices: tuple[_Text, ...] = ()
    """What may be answered; all of it stands in the question."""

    expect: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """An answer is right that says one of these."""

    never: tuple[_Text, ...] = ()
    """And none of these, such as what was true before."""

    needs: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Keys of the memories that answer it."""

    @property
    def question(self) -> str:
        """The question as an agent is asked it."""
        if not self.choices:
            return self.ask
        *most, last = self.choices
        return f"{self.ask.rstrip('?')}: {', '.join(most)} or {last}?"


class World(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that several sessions are about, and what is asked of it afterwards."""

    name: _Text
    sessions: tuple[Session, ...]
    probes: tuple[Probe, ...]

    def memories(self) -> Iterator[Remembered]:
        """Yield its memories, in the order of the sessions."""
        return chain.from_iterable(session.memories for session in self.sessions)


class ProbeSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The probes of one category."""

    format: Literal["satchel-probes-1"]
    category: _Text
    worlds: tuple[World, ...]

    def probes(self) -> Iterator[tuple[World, Probe]]:
        """Yield each probe, with the world that it is about."""
        return ((world, probe) for world in self.worlds for probe in world.probes)


def shipped_sets() -> tuple[ProbeSet, ...]:
    """Return the sets that come along."""
    folder = files(__package__) / "data"
    return tuple(_read((folder / f"{name}.json").read_bytes(), f"{name}.json") for name in SHIPPED)


def probe_set(path: Path) -> ProbeSet:
    """Return the set of a file.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is no set of probes, or names a memory that is not there.
        EmptyInputError: If it asks nothing.
        LimitError: If it is too large.
    """
    with reading(path) as source:
        raw = source.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise LimitError(f"a probe set can have at most {MOST_BYTES:,} bytes", file=str(path))
    return _read(raw, str(path))


def _read(raw: bytes, name: str) -> ProbeSet:
    try:
        found = msgspec.json.decode(raw, type=resolved(ProbeSet))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedError(f"not a probe set: {error}", file=name) from error
    for world in found.worlds:
        _check(world, name)
    if not any(world.probes for world in found.worlds):
        raise EmptyInputError("the probe set has no probes", file=name)
    return found


def _check(world: World, name: str) -> None:
    """Refuse a world whose memories share a key, or name one that is not there before them."""
    keys = set[str]()
    for memory in world.memories():
        if memory.key in keys:
            problem = f"two memories have the key {memory.key!r}"
            raise MalformedError(problem, file=name, field=world.name)
        if memory.replaces is not None and memory.replaces not in keys:
            problem = f"no memory before {memory.key!r} has the key {memory.replaces!r}"
            raise MalformedError(problem, file=name, field=world.name)
        keys.add(memory.key)
    for probe in world.probes:
        if missing := set(probe.needs) - keys:
            problem = f"{probe.ask!r} needs a memory that is missing: {min(missing)!r}"
            raise MalformedError(problem, file=name, field=world.name)
