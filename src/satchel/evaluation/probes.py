"""Probes, and a judge of answers without a model: required phrases, forbidden phrases, length.

A phrase must not be negated: "certainly not 5433" does not state 5433. An answer that repeats its
whole input is wrong. Words are compared without case, accents and punctuation.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from satchel.errors import EmptyInputError, LimitError, MalformedError
from satchel.model.records import Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import LeanTime, resolved
from satchel.runtime.files import open_input

SHIPPED = ("coding", "answering", "planning")
"""Names of the built-in sets."""

MOST_BYTES = 64 * 2**20
"""Maximum bytes of a set."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]


class ProbeMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory of a session."""

    key: _Text
    """Its key for probes and later memories of the same world."""

    entry: Episodic | Semantic | Procedural | Working | Identity
    """A draft."""

    replaces: str | None = None
    """Key of the earlier memory that it replaces."""


class ProbeSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memories of one time."""

    at: LeanTime
    memories: tuple[ProbeMemory, ...]


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, and the criteria of a right answer."""

    ask: _Text
    choices: tuple[_Text, ...] = ()
    """Possible answers; all are in the question."""

    expect: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """A right answer states one of these."""

    never: tuple[_Text, ...] = ()
    """And none of these, such as former facts."""

    needs: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Keys of the memories with the answer."""

    @property
    def question(self) -> str:
        """The question for an agent."""
        if not self.choices:
            return self.ask
        *most, last = self.choices
        return f"{self.ask.rstrip('?')}: {', '.join(most)} or {last}?"


class World(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The subject of several sessions, and the probes about it."""

    name: _Text
    sessions: tuple[ProbeSession, ...]
    probes: tuple[Probe, ...]

    def memories(self) -> Iterator[ProbeMemory]:
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
    """Return the built-in sets."""
    folder = files(__package__) / "data"
    return tuple(_read((folder / f"{name}.json").read_bytes(), f"{name}.json") for name in SHIPPED)


def probe_set(path: Path) -> ProbeSet:
    """Return the set of a file.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is not a set of probes, or names an unknown memory.
        EmptyInputError: If it has no probes.
        LimitError: If it is too large.
    """
    with open_input(path) as source:
        raw = source.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise LimitError(f"a probe set can have at most {MOST_BYTES:,} bytes", file=str(path))
    return _read(raw, str(path))


def _read(raw: bytes, name: str) -> ProbeSet:
    try:
        probe_set = msgspec.json.decode(raw, type=resolved(ProbeSet))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedError(f"not a probe set: {error}", file=name) from error
    for world in probe_set.worlds:
        _check(world, name)
    if not any(world.probes for world in probe_set.worlds):
        raise EmptyInputError("the probe set has no probes", file=name)
    return probe_set


def _check(world: World, name: str) -> None:
    """Refuse a world with duplicate keys, or with references to unknown or later memories."""
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


MOST_WORDS = 60
"""Maximum words of an answer; a longer one is wrong."""

_DENIALS = "not no never neither nor without isnt wasnt dont doesnt didnt cannot"
_NEGATIONS = frozenset(_DENIALS.split())
_REACH = 4
"""Number of words that a negation applies to."""

_CLAUSE = re.compile(r"[;:!?]|,(?!\d)|\.(?=\s|$)|\bbut\b|\n", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})


def is_right(probe: Probe, answer: str) -> bool:
    """Return whether an answer is right."""
    if len(answer.split()) > MOST_WORDS:
        return False
    wrong = probe.never + tuple(_wrong_choices(probe))
    return says(answer, probe.expect) and not says(answer, wrong)


def says(answer: str, phrases: Iterable[str]) -> bool:
    """Return whether a text states one of the phrases, without negation."""
    clauses = [_words(clause) for clause in _CLAUSE.split(_joined(answer))]
    phrase_words = [words for phrase in phrases if (words := _words(_joined(phrase)))]
    return any(_states(clause, words) for clause in clauses for words in phrase_words)


def without_article(choice: str) -> str:
    """Return a choice without its article: "the desks" as "desks"."""
    first, _, rest = choice.strip().partition(" ")
    return rest if rest and first.lower() in _ARTICLES else choice.strip()


def _wrong_choices(probe: Probe) -> list[str]:
    """Return the choices that are not right."""
    choices = map(without_article, probe.choices)
    return [
        choice for choice in choices if not any(_overlap(choice, right) for right in probe.expect)
    ]


def _overlap(choice: str, other: str) -> bool:
    first, second = _words(choice), _words(other)
    return _index_of(first, second) >= 0 or _index_of(second, first) >= 0


def _joined(text: str) -> str:
    """Return a text without apostrophes within words."""
    return text.replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    # A comma between digits groups them: 55,000 and 55000 are one number.
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))


def _states(clause: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether words occur in a clause with no negation shortly before them."""
    start = 0
    while (at := _index_of(clause[start:], words)) >= 0:
        position = start + at
        if _NEGATIONS.isdisjoint(clause[max(position - _REACH, 0) : position]):
            return True
        start = position + 1
    return False


def _index_of(words: Sequence[str], phrase: Sequence[str]) -> int:
    """Return the index of a sequence of words among others; -1 if missing."""
    size = len(phrase)
    last = len(words) - size
    return next((at for at in range(last + 1) if [*words[at : at + size]] == [*phrase]), -1)
