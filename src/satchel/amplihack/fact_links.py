"""Which links new facts get as they are stored.

Likeness is kept beside the log (``similar``). That a fact took another's place is logged: an edge
``supersedes`` and, besides, ``transitioned_to`` with what changed, both from the newer to the
older. What contradicts each other forms a chain, each fact linked with the one right before it; one
that arrives late goes between its neighbours, whose edges are then retired. No fact is: what took
whose place is a guess of ours, and who recalls is told of it, not denied the older one.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from blake3 import blake3

from satchel.amplihack.similarity import (
    ComparedFact,
    FactChange,
    alike,
    change_between,
    fact_of,
    near,
    packed,
)
from satchel.crypto.sealed_records import PREFIX
from satchel.ledger.erasure import DERIVED
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Model, Semantic, Status
from satchel.model.values import now
from satchel.ports.rows import Filter

TERMS = f"{DERIVED}terms/"
THROUGH = f"{DERIVED}through"
"""Name of the value that says how many records of the log were looked at."""

NEWEST = 10
"""Facts that are kept for a word."""

RAREST = 4
"""Words of a fact by which others are looked for."""

COMPARED = 10
"""Facts that one is compared with at most."""

_COUNT, _ID = 4, 32
_MOST_TERMS = 50_000
_DIGEST = 6


@dataclass(slots=True)
class _Holders:
    """The facts that have a word."""

    count: int = 0
    newest: list[str] = field(default_factory=list)
    """Their ids, the newest last."""

    def add(self, identity: str) -> bool:
        """Add a fact, and tell whether it was new here."""
        if identity in self.newest:
            return False
        self.count += 1
        self.newest.append(identity)
        del self.newest[:-NEWEST]
        return True

    def packed(self) -> bytes:
        ids = (bytes.fromhex(one.removeprefix(PREFIX)) for one in self.newest)
        return self.count.to_bytes(_COUNT, "big") + b"".join(ids)


class TermIndex:
    """The words of a bank's facts, as far as they were asked for."""

    def __init__(self) -> None:
        self._held = dict[str, _Holders]()
        self._changed = set[str]()

    @property
    def changes(self) -> int:
        """How many values are different from what is kept."""
        return len(self._changed)

    def forget(self) -> None:
        """Read everything anew: somebody else may have changed it."""
        self._held.clear()
        self._changed.clear()

    def add(self, view: View, identity: str, terms: Iterable[str]) -> None:
        """Take a fact in, by its id and its words."""
        for term in terms:
            if self._of(view, term).add(identity):
                self._changed.add(term)

    def candidates(self, view: View, terms: Iterable[str]) -> list[str]:
        """Return the ids of facts that have the rarest of some words; those with most first."""
        held = [(one.count, term, one) for term in terms if (one := self._of(view, term)).count]
        found = Counter[str]()
        for _, _, one in sorted(held)[:RAREST]:
            found.update(reversed(one.newest))
        # Sorting is stable: of those with as many words, the newest of the rarest come first.
        return sorted(found, key=found.__getitem__, reverse=True)[:COMPARED]

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the values to keep, which then count as kept."""
        changed, self._changed = self._changed, set()
        values: dict[str, bytes | None] = {_name(one): self._held[one].packed() for one in changed}
        if len(self._held) > _MOST_TERMS:
            self._held.clear()
        return values

    def _of(self, view: View, term: str) -> _Holders:
        held = self._held.get(term)
        if held is None:
            value = view.side(_name(term)).get(_name(term), b"")
            held = self._held[term] = _unpacked(value)
        return held


def _name(term: str) -> str:
    return TERMS + blake3(term.encode()).hexdigest(length=_DIGEST)


def _unpacked(value: bytes) -> _Holders:
    ids = range(_COUNT, len(value) - _ID + 1, _ID)
    return _Holders(
        int.from_bytes(value[:_COUNT], "big"), [PREFIX + value[at : at + _ID].hex() for at in ids]
    )


SUPERSEDES, TRANSITIONED_TO = "supersedes", "transitioned_to"
FLAT_KINDS = frozenset(
    {"conversation", "decision", "pattern", "context", "learning", "artifact", "episode"}
)
"""Kinds of entries that are no facts of the hierarchical tier."""

CAUGHT_UP = 5000
"""Facts that are taken in before what is known of their words is set beside the log."""

_PLACE = 8
_FACTS = Filter(types=frozenset({"semantic"}))
_MOST_HELD, _LONGEST_CHAIN = 20_000, 1000
_REASON = "an intermediate fact was added later"


class FactLinks(NamedTuple):
    """What is to be written with new facts."""

    records: list[Model]
    """Edges, and statuses of those that they replace."""

    side: dict[str, bytes | None]
    superseded: dict[str, list[str]]
    """By new fact, what it takes the place of."""

    similar: dict[str, int]
    """By new fact, how many earlier ones it is like."""


NO_LINKS = FactLinks([], {}, {}, {})


class _Rivals(NamedTuple):
    """The facts that one stands between."""

    older: ComparedFact | None
    newer: ComparedFact | None


class Linker:
    """Finds what new facts of one bank are to be linked with; not for several threads at once."""

    def __init__(self) -> None:
        self._terms = TermIndex()
        self._facts = OrderedDict[str, ComparedFact]()
        self._late = dict[str, bytes | None]()
        """Links of facts that others have stored, as they are to be set beside the log."""

        self._size: int | None = None
        self._begin_chains()

    def _begin_chains(self) -> None:
        self._newer = dict[str, str]()
        self._turns = dict[str, int]()
        self._edges = dict[tuple[str, str], list[Edge]]()
        self._statuses = list[Status]()

    def link(self, view: View, new: Sequence[tuple[str, Semantic]]) -> FactLinks:
        """Return the links of new facts, with one another and with those of the bank.

        Args:
            view: The bank, without them.
            new: Facts with their ids, to be logged right behind it.
        """
        self._begin(view)
        facts = [
            fact_of(identity, entry, view.head.size + number)
            for number, (identity, entry) in enumerate(new)
        ]
        side, similar = dict[str, bytes | None](), dict[str, int]()
        for fact in _in_order(facts):
            others = self._known(view, self._terms.candidates(view, _indexed(fact)))
            others = [other for other in others if other.id != fact.id]
            found = near(fact, others)
            if links := alike(fact, found):
                side |= packed(links)
                similar[fact.id] = len(links)
            self._chain(view, fact, [other for _, other in found])
            self._terms.add(view, fact.id, _indexed(fact))
            self._remember(fact)
        side |= self._taken_in(view.head.size)
        edges = [edge for pair in self._edges.values() for edge in pair]
        superseded = dict[str, list[str]]()
        for newer, older in self._edges:
            superseded.setdefault(newer, []).append(older)
        return FactLinks([*self._statuses, *edges], side, superseded, similar)

    def logged(self, places: Sequence[int]) -> None:
        """Take note of where the facts and their links went, in the order they were given."""
        if self._size is not None and places and places[0] == self._size:
            self._size = places[-1] + 1
        else:
            self._size = None
        self._begin_chains()

    def failed(self) -> None:
        """Take note that nothing was logged."""
        self._size = None

    # -- what is known ---------------------------------------------------------------------

    def catch_up(self, view: View, *, wholly: bool = False) -> dict[str, bytes | None] | None:
        """Take in facts that others have stored since, some thousand at a time.

        They get their links of likeness. What supersedes what is left to whoever stored them.

        Args:
            view: The bank.
            wholly: Whether nothing is left for ``link`` to take in.

        Returns:
            What to set beside the log before this is called again; None where the rest is little,
            and ``link`` takes it in by itself.
        """
        if self._size == view.head.size:
            return None
        self._forget()
        number = 0
        for number, logged in enumerate(
            view.scan(_FACTS, after=_through(view) - 1, complete=False), 1
        ):
            self._take(view, logged)
            if number == CAUGHT_UP:
                return self._taken_in(logged.seq + 1)
        self._size = view.head.size
        return self._taken_in(view.head.size) if wholly and number else None

    def _taken_in(self, through: int) -> dict[str, bytes | None]:
        late, self._late = self._late, {}
        return {**late, **self._terms.take_changes(), THROUGH: through.to_bytes(_PLACE, "big")}

    def _begin(self, view: View) -> None:
        """Take in the facts that others have stored since ``catch_up``."""
        self._begin_chains()
        if self._size == view.head.size:
            return
        self._forget()
        for logged in view.scan(_FACTS, after=_through(view) - 1, complete=False):
            self._take(view, logged)
        self._size = view.head.size

    def _forget(self) -> None:
        self._size = None
        self._terms.forget()
        self._facts.clear()
        self._late.clear()

    def _take(self, view: View, logged: VerifiedRecord) -> None:
        if is_fact(logged):
            fact = _fact(logged)
            others = self._known(view, self._terms.candidates(view, _indexed(fact)))
            found = near(fact, [other for other in others if other.id != fact.id])
            if links := alike(fact, found):
                self._late |= packed(links)
            self._terms.add(view, fact.id, _indexed(fact))
            self._remember(fact)

    def _known(self, view: View, ids: Sequence[str]) -> list[ComparedFact]:
        """Return facts that are current, or come with this one."""
        missing = [identity for identity in ids if identity not in self._facts]
        if missing:
            for logged in view.get(missing).values():
                if logged.row.retired is None and not logged.row.hold and is_fact(logged):
                    self._remember(_fact(logged))
        return [self._facts[identity] for identity in ids if identity in self._facts]

    def _remember(self, fact: ComparedFact) -> None:
        self._facts[fact.id] = fact
        if len(self._facts) > _MOST_HELD:
            self._facts.popitem(last=False)

    # -- chains ----------------------------------------------------------------------------

    def _chain(self, view: View, fact: ComparedFact, others: Sequence[ComparedFact]) -> None:
        """Put a fact into the chain of those that it contradicts, where there is one."""
        between = self._between(view, fact, [one for one in others if _contradict(one, fact)])
        if between.older is not None and between.newer is not None:
            pair = between.newer.id, between.older.id
            if self._edges.pop(pair, None) is None:
                self._statuses += _retired(view, *pair)
        for older, newer in ((between.older, fact), (fact, between.newer)):
            change = change_between(older, newer) if older and newer else None
            if older is not None and newer is not None and change is not None:
                self._edges[newer.id, older.id] = self._made(view, older, newer, change)

    def _between(self, view: View, fact: ComparedFact, rivals: Sequence[ComparedFact]) -> _Rivals:
        """Return the facts of a chain right before and right after one."""
        older = newer = None
        for one in rivals:
            if one.is_before(fact):
                older = one if older is None or older.is_before(one) else older
            else:
                newer = one if newer is None or one.is_before(newer) else newer
        for _ in range(_LONGEST_CHAIN):
            after = None if older is None else self._after(view, older)
            if after is None or after.id == fact.id or not _contradict(after, fact):
                break
            if not after.is_before(fact):
                newer = after
                break
            older = after
        return _Rivals(older, newer)

    def _after(self, view: View, fact: ComparedFact) -> ComparedFact | None:
        """Return the fact that took the place of one."""
        there = self._newer.get(fact.id)
        if there is None:
            edges = _edges_to(view, fact.id) if fact.place < view.head.size else []
            there = next((edge.source for edge in edges if edge.kind == SUPERSEDES), None)
        found = self._known(view, [there]) if there is not None else []
        return found[0] if found else None

    def _made(
        self, view: View, older: ComparedFact, newer: ComparedFact, change: FactChange
    ) -> list[Edge]:
        self._newer[older.id] = newer.id
        turn = newer.order or self._turn(view, older) + 1
        self._turns[newer.id] = turn
        delta = f"{older.moment} -> {newer.moment}"
        if older.order and newer.order:
            delta = f"index {older.order} -> {newer.order}"
        at = now()
        properties = {"reason": change.reason, "temporal_delta": delta}
        moved = {
            "from_value": change.before,
            "to_value": change.after,
            "turn": turn,
            "transition_type": change.type,
        }
        return [
            Edge(source=newer.id, target=older.id, kind=kind, properties=said, at=at)
            for kind, said in ((SUPERSEDES, properties), (TRANSITIONED_TO, moved))
        ]

    def _turn(self, view: View, fact: ComparedFact) -> int:
        """Return which turn of its chain a fact is, from 1."""
        if fact.order or fact.id in self._turns:
            return fact.order or self._turns[fact.id]
        if fact.place < view.head.size:
            for logged in view.neighbours(fact.id):
                edge = logged.model
                if isinstance(edge, Edge) and edge.kind == TRANSITIONED_TO and _is_current(logged):
                    turn = edge.properties.get("turn")
                    return turn if type(turn) is int else 1
        return 1


def _through(view: View) -> int:
    """Return how many records of the log were looked at already."""
    return int.from_bytes(view.side(THROUGH).get(THROUGH, b""), "big")


def is_fact(logged: VerifiedRecord) -> bool:
    """Tell whether a record is a fact of the hierarchical tier."""
    entry = logged.model
    return isinstance(entry, Semantic) and bool(entry.text) and entry.kind not in FLAT_KINDS


def _fact(logged: VerifiedRecord) -> ComparedFact:
    assert isinstance(logged.model, Semantic)  # noqa: S101 - whoever calls has looked
    return fact_of(logged.record.id, logged.model, logged.seq)


def _indexed(fact: ComparedFact) -> frozenset[str]:
    return fact.terms | fact.concept


def _in_order(facts: Iterable[ComparedFact]) -> list[ComparedFact]:
    """Return new facts by when they held, so that chains grow at their end."""
    return sorted(facts, key=lambda fact: (fact.order, fact.moment, fact.place))


def _contradict(one: ComparedFact, other: ComparedFact) -> bool:
    older, newer = (one, other) if one.is_before(other) else (other, one)
    return change_between(older, newer) is not None


def _edges_to(view: View, identity: str) -> list[Edge]:
    found = view.neighbours(identity, incoming=True)
    return [one.model for one in found if isinstance(one.model, Edge) and _is_current(one)]


def _retired(view: View, source: str, target: str) -> list[Status]:
    """Return what says that the links from one fact to another are no longer those of a chain."""
    return [
        Status(target=one.record.id, state="superseded", reason=_REASON, at=now())
        for one in view.neighbours(target, incoming=True)
        if isinstance(one.model, Edge)
        and one.model.source == source
        and one.model.kind in (SUPERSEDES, TRANSITIONED_TO)
        and one.model.origin is None
        and _is_current(one)
    ]


def _is_current(logged: VerifiedRecord) -> bool:
    return logged.row.retired is None and not logged.row.hold
