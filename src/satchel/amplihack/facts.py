"""Facts of an agent: how similar they are, how they are linked, which contradict."""

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from blake3 import blake3

from satchel.crypto.sealed_records import PREFIX
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import DERIVED
from satchel.ledger.view import View
from satchel.model.records import Edge, Model, Semantic, Status
from satchel.model.values import now
from satchel.ports.rows import Filter
from satchel.recall.near_duplicates import NEGATIONS
from satchel.stores.text_search import DENIED, STOP_WORDS, tokens_of

INDEX = "temporal_index"
"""Member of a fact's metadata with its position in the order of events, from 1."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # noqa: RUF001 - both apostrophes
_QUANTITY = re.compile(r"[-+~<>=$€£]*(\d+(?:[.,]\d+)?)(?:%|[a-z]{1,3})?", re.IGNORECASE)
_DENIED = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001 - idem
_DIGIT = re.compile(r"\d")
_AROUND = ".,;:!?()[]{}<>\"'`*"
_NAMED = frozenset({"version", "release", "build", "in", "since", "until", "port", "id", "number"})
"""Words after which a number is a name, such as a year, not a quantity."""

_YEARS = range(1900, 2100)
_MOST_CHARACTERS = 4096
_MOST_TOKENS = 128

PAIRS = (
    "enabled disabled|enables disables|on off|true false|open closed|opens closes|up down"
    "|allowed forbidden|allowed denied|allows denies|allows forbids|active inactive"
    "|started stopped|starts stops|increased decreased|increases decreases|always never"
    "|available unavailable|supported unsupported|public private|required optional|passed failed"
    "|passes fails|online offline|valid invalid|accepted rejected|accepts rejects|added removed"
    "|likes dislikes|likes hates|loves hates|prefers avoids|healthy unhealthy|locked unlocked"
    "|connected disconnected|installed uninstalled|synchronous asynchronous|safe unsafe"
)
"""Pairs of words that, exchanged, turn a statement into its opposite."""


class ComparedFact(NamedTuple):
    """The features of a fact that are compared."""

    id: str
    terms: frozenset[str]
    """Stems of its words, without stop words, denials and numbers."""

    words: frozenset[str]
    """The terms and the quantities."""

    concept: frozenset[str]
    tags: frozenset[str]
    numbers: tuple[str, ...]
    """Quantities in their order; no dates, versions or IDs."""

    states: frozenset[str]
    """Stems that have an opposite."""

    denials: int
    order: int
    """Its position in the order of events, if stated; 0 otherwise."""

    moment: str
    """When it happened, else when it was created; empty if unknown."""

    position: int
    """Its log position; for a new fact, the one that it will get."""

    text: str
    """The first characters of its text."""

    def is_before(self, other: "ComparedFact") -> bool:
        """Return whether it precedes another: by stated order, by time, by log position."""
        if self.order and other.order and self.order != other.order:
            return self.order < other.order
        return (self.moment, self.position) < (other.moment, other.position)


def fact_of(identity: str, entry: Semantic, position: int) -> ComparedFact:
    """Return the features of an entry that are compared.

    Args:
        identity: Its ID.
        entry: The entry; its text is what is compared.
        position: Its log position, or the one that it will get.
    """
    text = (entry.text or "")[:_MOST_CHARACTERS]
    tokens = tokens_of(text)
    index = entry.metadata.get(INDEX)
    terms, numbers = _content_terms(tokens), quantities(text)
    return ComparedFact(
        id=identity,
        terms=terms,
        words=terms.union(numbers) if numbers else terms,
        concept=_concept(entry.subject or ""),
        tags=frozenset(map(str.casefold, entry.tags)),
        numbers=numbers,
        states=opposed().intersection(tokens),
        denials=_denials(text),
        order=index if type(index) is int and index > 0 else 0,
        moment=entry.occurred_at or entry.created_at or "",
        position=position,
        text=text[:200],
    )


def quantities(text: str) -> tuple[str, ...]:
    """Return the quantities in a text, in their order."""
    if _DIGIT.search(text) is None:
        return ()
    texts, previous = list[str](), ""
    for raw in text.split():
        word = raw.strip(_AROUND)
        if previous not in _NAMED and _DIGIT.search(word) is not None:
            match = _QUANTITY.fullmatch(word)
            if match is not None and not _is_year(word):
                texts.append(match[1])
        previous = word.casefold()
    return tuple(texts)


def _is_year(word: str) -> bool:
    return len(word) == len("2026") and word.isdecimal() and int(word) in _YEARS


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Return the stems that have an opposite, with it."""
    by_stem = dict[str, frozenset[str]]()
    for pair in PAIRS.split("|"):
        first, second = (tokens_of(word)[0] for word in pair.split())
        by_stem[first] = by_stem.get(first, frozenset()) | {second}
        by_stem[second] = by_stem.get(second, frozenset()) | {first}
    return by_stem


@cache
def opposed() -> frozenset[str]:
    """Return the stems that have an opposite."""
    return frozenset(opposites())


def _content_terms(tokens: Sequence[str]) -> frozenset[str]:
    ignored = _ignored_terms()
    terms = [token for token in tokens[:_MOST_TOKENS] if token not in ignored]
    return frozenset([term for term in terms if not term.isdigit()])


@lru_cache(4096)
def _concept(text: str) -> frozenset[str]:
    return frozenset(tokens_of(text[:_MOST_CHARACTERS])) - _ignored_terms()


@cache
def _ignored_terms() -> frozenset[str]:
    words: Any = STOP_WORDS | DENIED | NEGATIONS | {"currently", "longer", "anymore", "now"}
    return frozenset(words) | frozenset(tokens_of(" ".join(sorted(words))))


def _denials(text: str) -> int:
    words = _WORD.findall(text.casefold())
    denied = len([word for word in words if word in NEGATIONS])
    return denied + len(_DENIED.findall(text)) if "’" in text or "'" in text else denied  # noqa: RUF001 - idem


_MOSTLY, _HALF = 0.6, 0.5
_SHOWN = 100


class FactChange(NamedTuple):
    """The difference between two facts that contradict each other."""

    type: str
    """``numeric_update``, ``negation`` or ``state_change``."""

    before: str
    after: str

    @property
    def reason(self) -> str:
        """The reason why the later fact supersedes the earlier one."""
        return f"Updated values: {self.before} -> {self.after}"

    @property
    def values(self) -> str:
        """The two values, earlier and later."""
        return f"{self.before} vs {self.after}"


def change_between(older: ComparedFact, newer: ComparedFact) -> FactChange | None:
    """Return the change from one fact to another; None if both may be true."""
    if not _may_differ(older, newer):
        return None
    mine, theirs = older.terms - older.states, newer.terms - newer.states
    if not _same_subject(older, newer, mine, theirs):
        return None
    if older.denials % 2 != newer.denials % 2:
        return FactChange("negation", older.text[:_SHOWN], newer.text[:_SHOWN])
    if older.states != newer.states:
        states = _replaced_state(older, newer)
        return None if states is None else FactChange("state_change", *states)
    before = [number for number in older.numbers if number not in newer.numbers]
    after = [number for number in newer.numbers if number not in older.numbers]
    if before and after:
        return FactChange("numeric_update", ", ".join(before), ", ".join(after))
    return None


def _may_differ(older: ComparedFact, newer: ComparedFact) -> bool:
    """Return quickly whether there may be a change."""
    return (
        older.numbers != newer.numbers
        or older.states != newer.states
        or (older.denials - newer.denials) % 2 == 1
    ) and (not older.terms.isdisjoint(newer.terms) or not older.concept.isdisjoint(newer.concept))


def _replaced_state(older: ComparedFact, newer: ComparedFact) -> tuple[str, str] | None:
    """Return a state and the opposite that replaces it."""
    for state in sorted(older.states - newer.states):
        for opposite in sorted(opposites()[state] & (newer.states - older.states)):
            return state, opposite
    return None


def _same_subject(
    older: ComparedFact, newer: ComparedFact, mine: frozenset[str], theirs: frozenset[str]
) -> bool:
    if not mine or not theirs:
        return bool(older.concept) and older.concept == newer.concept
    if older.concept and older.concept == newer.concept:
        return jaccard(mine, theirs) >= _HALF
    if older.concept and newer.concept and older.concept.isdisjoint(newer.concept):
        return False
    return (mine <= theirs or theirs <= mine) and jaccard(mine, theirs) >= _MOSTLY


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the Jaccard index of two sets, from 0 to 1; 0 for two empty sets."""
    if first == second:  # as are the tags and concepts of most facts
        return 1.0 if first else 0.0
    both = len(first & second)
    if not both:
        return 0.0
    return both / (len(first) + len(second) - both)


SIMILAR_TO = "similar_to"
SIMILAR = f"{DERIVED}similar/"
"""Prefix of the names of these values; the ID of the later fact follows."""

CONSIDERED = 0.2
"""Least similarity of two facts that may be about one subject."""

LEAST = 0.3
CONTRADICTS = 0.5
"""Least similarity of facts that are linked, and of facts whose contradiction is recorded."""

MOST_LINKS = 8
"""Largest number of links from one fact to earlier ones; the most similar are used."""

_ID, _ROW, _STEPS = 32, 34, 255
_TOGETHER = 256


class SimilarityLink(NamedTuple):
    """A computed link of similarity."""

    source: str
    """ID of the later fact."""

    target: str
    weight: float
    """From 0 to 1, in steps of 1/255."""

    contradicts: bool


def likeness(fact: ComparedFact, other: ComparedFact) -> float:
    """Return the similarity of two facts, from 0 to 1: words 0.5, concept 0.3, tags 0.2."""
    weight = 0.5 * jaccard(fact.words, other.words)
    if fact.concept and other.concept:
        weight += 0.3 * jaccard(fact.concept, other.concept)
    if fact.tags and other.tags:
        weight += 0.2 * jaccard(fact.tags, other.tags)
    return weight


def near(fact: ComparedFact, others: Sequence[ComparedFact]) -> list[tuple[float, ComparedFact]]:
    """Return the facts similar to one, with their similarity, most similar first."""
    weighted = [(likeness(fact, other), other.id, other) for other in others]
    weighted.sort(reverse=True)
    return [(weight, other) for weight, _, other in weighted if weight > CONSIDERED]


def alike(
    fact: ComparedFact, nearest: Sequence[tuple[float, ComparedFact]]
) -> list[SimilarityLink]:
    """Return the links from a fact to the most similar results of ``near``."""
    return [
        SimilarityLink(
            fact.id,
            other.id,
            weight,
            weight > CONTRADICTS and change_between(other, fact) is not None,
        )
        for weight, other in nearest[:MOST_LINKS]
        if weight > LEAST
    ]


def packed(links: Sequence[SimilarityLink]) -> dict[str, bytes]:
    """Return the value to store for the links of one fact; empty for no links."""
    rows = [
        bytes.fromhex(link.target.removeprefix(PREFIX))
        + bytes([round(link.weight * _STEPS), link.contradicts])
        for link in links
    ]
    return {SIMILAR + links[0].source.removeprefix(PREFIX): b"".join(rows)} if rows else {}


def similar_links(view: View, source: str | None = None) -> Iterator[SimilarityLink]:
    """Yield the computed links, of one fact or of all; both ends are current.

    The similarities are not signed; that both ends are memories of the bank is verified.
    """
    digits = "" if source is None else source.removeprefix(PREFIX)
    stored = list(_unpacked(view.side(SIMILAR + digits)))
    for start in range(0, len(stored), _TOGETHER):
        batch = stored[start : start + _TOGETHER]
        ends = view.get(sorted({end for link in batch for end in (link.source, link.target)}))
        current = {identity for identity, logged in ends.items() if logged.row.retired is None}
        yield from (link for link in batch if {link.source, link.target} <= current)


def _unpacked(values: Mapping[str, bytes]) -> Iterator[SimilarityLink]:
    for name in sorted(values):
        value, source = values[name], PREFIX + name.removeprefix(SIMILAR)
        for at in range(0, len(value) - len(value) % _ROW, _ROW):
            target = PREFIX + value[at : at + _ID].hex()
            yield SimilarityLink(
                source, target, value[at + _ID] / _STEPS, bool(value[at + _ID + 1])
            )


TERMS = f"{DERIVED}terms/"
THROUGH = f"{DERIVED}through"
"""Name of the value with the number of log records that were indexed."""

NEWEST = 10
"""Largest number of facts stored for a word."""

RAREST = 4
"""Number of a fact's rarest words by which others are looked up."""

COMPARED = 10
"""Largest number of facts that a fact is compared with."""

_COUNT, _ID = 4, 32
_MOST_TERMS = 50_000
_DIGEST = 6


@dataclass(slots=True)
class _Holders:
    """The facts with a word."""

    count: int = 0
    newest: list[str] = field(default_factory=list)
    """Their IDs, oldest first."""

    def add(self, identity: str) -> bool:
        """Add a fact; return whether it was new."""
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
    """An index of the words of a bank's facts, loaded on demand."""

    def __init__(self) -> None:
        self._held = dict[str, _Holders]()
        self._changed = set[str]()

    @property
    def changes(self) -> int:
        """Number of values that differ from the stored ones."""
        return len(self._changed)

    def forget(self) -> None:
        """Drop loaded values; others may have changed them."""
        self._held.clear()
        self._changed.clear()

    def add(self, view: View, identity: str, terms: Iterable[str]) -> None:
        """Add a fact, by its ID and its words."""
        for term in terms:
            if self._holders(view, term).add(identity):
                self._changed.add(term)

    def candidates(self, view: View, terms: Iterable[str]) -> list[str]:
        """Return the IDs of facts with the rarest of some words; those with most of them first."""
        rarest = [
            (holders.count, term, holders)
            for term in terms
            if (holders := self._holders(view, term)).count
        ]
        matches = Counter[str]()
        for _, _, holders in sorted(rarest)[:RAREST]:
            matches.update(reversed(holders.newest))
        # Sorting is stable: of those with as many words, the newest of the rarest come first.
        return sorted(matches, key=matches.__getitem__, reverse=True)[:COMPARED]

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the changed values, which then count as stored."""
        changed, self._changed = self._changed, set()
        values: dict[str, bytes | None] = {_name(one): self._held[one].packed() for one in changed}
        if len(self._held) > _MOST_TERMS:
            self._held.clear()
        return values

    def _holders(self, view: View, term: str) -> _Holders:
        held = self._held.get(term)
        if held is None:
            value = view.side(_name(term)).get(_name(term), b"")
            held = self._held[term] = _unpacked_holders(value)
        return held


def _name(term: str) -> str:
    return TERMS + blake3(term.encode()).hexdigest(length=_DIGEST)


def _unpacked_holders(value: bytes) -> _Holders:
    ids = range(_COUNT, len(value) - _ID + 1, _ID)
    return _Holders(
        int.from_bytes(value[:_COUNT], "big"),
        [PREFIX + value[at : at + _ID].hex() for at in ids],
    )


SUPERSEDES, TRANSITIONED_TO = "supersedes", "transitioned_to"
FLAT_KINDS = frozenset(
    {"conversation", "decision", "pattern", "context", "learning", "artifact", "episode"}
)
"""Kinds of entries that are not facts of the hierarchical tier."""

CAUGHT_UP = 5000
"""Number of facts to index before the index is stored."""

_PLACE = 8
_FACTS = Filter(types=frozenset({"semantic"}))
_MOST_HELD, _LONGEST_CHAIN = 20_000, 1000
_REASON = "an intermediate fact was added later"


class FactLinks(NamedTuple):
    """The links to write with new facts."""

    records: list[Model]
    """Edges, and statuses of edges that they replace."""

    side: dict[str, bytes | None]
    superseded: dict[str, list[str]]
    """IDs of the superseded facts, by new fact."""

    similar: dict[str, int]
    """Number of similar earlier facts, by new fact."""


NO_LINKS = FactLinks([], {}, {}, {})


class _Rivals(NamedTuple):
    """The facts before and after one in a chain."""

    older: ComparedFact | None
    newer: ComparedFact | None


class Linker:
    """Finds the links of new facts of one bank; not thread-safe."""

    def __init__(self) -> None:
        self._terms = TermIndex()
        self._facts = OrderedDict[str, ComparedFact]()
        self._late = dict[str, bytes | None]()
        """Links of facts that others have stored, to be stored beside the log."""

        self._size: int | None = None
        self._begin_chains()

    def _begin_chains(self) -> None:
        self._newer = dict[str, str]()
        self._turns = dict[str, int]()
        self._edges = dict[tuple[str, str], list[Edge]]()
        self._statuses = list[Status]()

    def link(self, view: View, new: Sequence[tuple[str, Semantic]]) -> FactLinks:
        """Return the links of new facts, among themselves and with those of the bank.

        Args:
            view: The bank, without them.
            new: Facts with their IDs, which will be logged next.
        """
        self._begin(view)
        facts = [
            fact_of(identity, entry, view.head.size + number)
            for number, (identity, entry) in enumerate(new)
        ]
        side, similar = dict[str, bytes | None](), dict[str, int]()
        for fact in _in_order_of_truth(facts):
            others = self._current_facts(view, self._terms.candidates(view, _indexed(fact)))
            others = [other for other in others if other.id != fact.id]
            nearest = near(fact, others)
            if links := alike(fact, nearest):
                side |= packed(links)
                similar[fact.id] = len(links)
            self._chain(view, fact, [other for _, other in nearest])
            self._terms.add(view, fact.id, _indexed(fact))
            self._remember(fact)
        side |= self._values_to_store(view.head.size)
        edges = [edge for pair in self._edges.values() for edge in pair]
        superseded = dict[str, list[str]]()
        for newer, older in self._edges:
            superseded.setdefault(newer, []).append(older)
        return FactLinks([*self._statuses, *edges], side, superseded, similar)

    def logged(self, places: Sequence[int]) -> None:
        """Note the log positions of the facts and their links, in the order of ``link``."""
        if self._size is not None and places and places[0] == self._size:
            self._size = places[-1] + 1
        else:
            self._size = None
        self._begin_chains()

    def failed(self) -> None:
        """Note that nothing was logged."""
        self._size = None

    # -- index -----------------------------------------------------------------------------

    def catch_up(self, view: View, *, wholly: bool = False) -> dict[str, bytes | None] | None:
        """Index facts that others have stored since, some thousand at a time.

        They get their links of similarity. Supersession is up to those who stored them.

        Args:
            view: The bank.
            wholly: Whether to leave nothing for ``link`` to index.

        Returns:
            The values to store before this is called again; None if the rest is small,
            and ``link`` indexes it.
        """
        if self._size == view.head.size:
            return None
        self._forget()
        number = 0
        for number, logged in enumerate(
            view.scan(_FACTS, after=_indexed_size(view) - 1, complete=False), 1
        ):
            self._index(view, logged)
            if number == CAUGHT_UP:
                return self._values_to_store(logged.seq + 1)
        self._size = view.head.size
        return self._values_to_store(view.head.size) if wholly and number else None

    def _values_to_store(self, through: int) -> dict[str, bytes | None]:
        late, self._late = self._late, {}
        return {**late, **self._terms.take_changes(), THROUGH: through.to_bytes(_PLACE, "big")}

    def _begin(self, view: View) -> None:
        """Index the facts that others have stored since ``catch_up``."""
        self._begin_chains()
        if self._size == view.head.size:
            return
        self._forget()
        for logged in view.scan(_FACTS, after=_indexed_size(view) - 1, complete=False):
            self._index(view, logged)
        self._size = view.head.size

    def _forget(self) -> None:
        self._size = None
        self._terms.forget()
        self._facts.clear()
        self._late.clear()

    def _index(self, view: View, logged: VerifiedRecord) -> None:
        if is_fact(logged):
            fact = _fact(logged)
            others = self._current_facts(view, self._terms.candidates(view, _indexed(fact)))
            nearest = near(fact, [other for other in others if other.id != fact.id])
            if links := alike(fact, nearest):
                self._late |= packed(links)
            self._terms.add(view, fact.id, _indexed(fact))
            self._remember(fact)

    def _current_facts(self, view: View, ids: Sequence[str]) -> list[ComparedFact]:
        """Return facts that are current, or new like this one."""
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
        """Insert a fact into the chain of those that it contradicts, if there is one."""
        between = self._rivals(view, fact, [other for other in others if _contradict(other, fact)])
        if between.older is not None and between.newer is not None:
            pair = between.newer.id, between.older.id
            if self._edges.pop(pair, None) is None:
                self._statuses += _retired(view, *pair)
        for older, newer in ((between.older, fact), (fact, between.newer)):
            change = change_between(older, newer) if older and newer else None
            if older is not None and newer is not None and change is not None:
                self._edges[newer.id, older.id] = self._change_edges(view, older, newer, change)

    def _rivals(self, view: View, fact: ComparedFact, rivals: Sequence[ComparedFact]) -> _Rivals:
        """Return the facts of a chain next to one."""
        older = newer = None
        for rival in rivals:
            if rival.is_before(fact):
                older = rival if older is None or older.is_before(rival) else older
            else:
                newer = rival if newer is None or rival.is_before(newer) else newer
        for _ in range(_LONGEST_CHAIN):
            after = None if older is None else self._successor(view, older)
            if after is None or after.id == fact.id or not _contradict(after, fact):
                break
            if not after.is_before(fact):
                newer = after
                break
            older = after
        return _Rivals(older, newer)

    def _successor(self, view: View, fact: ComparedFact) -> ComparedFact | None:
        """Return the fact that superseded one."""
        successor = self._newer.get(fact.id)
        if successor is None:
            edges = _edges_to(view, fact.id) if fact.position < view.head.size else []
            successor = next((edge.source for edge in edges if edge.kind == SUPERSEDES), None)
        facts = self._current_facts(view, [successor]) if successor is not None else []
        return facts[0] if facts else None

    def _change_edges(
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
            Edge(source=newer.id, target=older.id, kind=kind, properties=members, at=at)
            for kind, members in ((SUPERSEDES, properties), (TRANSITIONED_TO, moved))
        ]

    def _turn(self, view: View, fact: ComparedFact) -> int:
        """Return the position of a fact in its chain, from 1."""
        if fact.order or fact.id in self._turns:
            return fact.order or self._turns[fact.id]
        if fact.position < view.head.size:
            for logged in view.neighbors(fact.id):
                edge = logged.model
                if isinstance(edge, Edge) and edge.kind == TRANSITIONED_TO and _is_current(logged):
                    turn = edge.properties.get("turn")
                    return turn if type(turn) is int else 1
        return 1


def _indexed_size(view: View) -> int:
    """Return the number of log records that are indexed."""
    return int.from_bytes(view.side(THROUGH).get(THROUGH, b""), "big")


def is_fact(logged: VerifiedRecord) -> bool:
    """Return whether a record is a fact of the hierarchical tier."""
    entry = logged.model
    return isinstance(entry, Semantic) and bool(entry.text) and entry.kind not in FLAT_KINDS


def _fact(logged: VerifiedRecord) -> ComparedFact:
    assert isinstance(logged.model, Semantic)  # noqa: S101 - callers check
    return fact_of(logged.record.id, logged.model, logged.seq)


def _indexed(fact: ComparedFact) -> frozenset[str]:
    return fact.terms | fact.concept


def _in_order_of_truth(facts: Iterable[ComparedFact]) -> list[ComparedFact]:
    """Return new facts in the order in which they were true, so that chains grow at their end."""
    return sorted(facts, key=lambda fact: (fact.order, fact.moment, fact.position))


def _contradict(fact: ComparedFact, other: ComparedFact) -> bool:
    older, newer = (fact, other) if fact.is_before(other) else (other, fact)
    return change_between(older, newer) is not None


def _edges_to(view: View, identity: str) -> list[Edge]:
    incoming = view.neighbors(identity, incoming=True)
    return [
        logged.model
        for logged in incoming
        if isinstance(logged.model, Edge) and _is_current(logged)
    ]


def _retired(view: View, source: str, target: str) -> list[Status]:
    """Return statuses that remove the links from one fact to another from a chain."""
    return [
        Status(target=logged.record.id, state="superseded", reason=_REASON, at=now())
        for logged in view.neighbors(target, incoming=True)
        if isinstance(logged.model, Edge)
        and logged.model.source == source
        and logged.model.kind in (SUPERSEDES, TRANSITIONED_TO)
        and logged.model.origin is None
        and _is_current(logged)
    ]


def _is_current(logged: VerifiedRecord) -> bool:
    return logged.row.retired is None and not logged.row.hold
