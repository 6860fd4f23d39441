"""What is asked of a bank's memory, and what comes back."""

from dataclasses import dataclass
from typing import NamedTuple

from satchel.crypto.log import Head
from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.model.records import Entry, FileVersion
from satchel.model.values import Component, TrustClass, is_canonical_time
from satchel.ports.rows import Filter
from satchel.recall.fusion import Signals
from satchel.recall.time_expressions import TimeRange

DEFAULT_LIMIT, DEFAULT_LIMIT_IN_BUDGET = 10, 100
"""How many memories are given when nothing is said; with a budget, that is what bounds them."""

MOST = 1000
"""How many memories can be asked for at once."""

COMPONENTS = frozenset(component.value for component in Component)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked for; an absent member asks for nothing in particular.

    Raises:
        UsageError: If a member cannot be meant.
    """

    text: str = ""
    """Words; without any, the newest memories are given."""

    limit: int | None = None
    """How many memories at most, 1 to ``MOST``."""

    budget: int | None = None
    """How many tokens they may take together."""

    components: frozenset[str] = COMPONENTS
    tags: frozenset[str] = frozenset()
    """Tags that a memory must have, all of them."""

    any_tags: frozenset[str] = frozenset()
    """Tags of which it must have one."""

    since: str | None = None
    """First moment that it may be of, included: when it happened, else when it was made."""

    until: str | None = None
    """Last moment, not included."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    provider: str | None = None
    """The product that it comes from."""

    source: str | None = None
    """The account or container inside the product."""

    trust: TrustClass | None = None
    """How far it must be trusted at least."""

    as_of: int | str | None = None
    """How the bank was: with so many records, or at a moment. Validity is judged then, too."""

    with_expired: bool = False
    """Whether what has expired, is not true yet or not any more is given as well."""

    files: bool = False
    """Whether passages of memory files are given as well, where nothing is asked for that only
    memories have."""

    times: bool = True
    """Whether memories of a time that the words name rank higher, where ``since`` and ``until``
    say nothing."""

    rerank: bool | None = None
    """Whether a reranker puts the best in order again; None for as it is configured."""

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MOST:
            raise UsageError(f"the limit must be 1 to {MOST}", field="limit")
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        unknown = sorted(self.components - COMPONENTS)
        if unknown or not self.components:
            what = f"unknown type {unknown[0]!r}" if unknown else "no type given"
            hint = f"Choose from: {', '.join(sorted(COMPONENTS))}."
            raise UsageError(what, field="component", hint=hint)
        for name in ("since", "until", "as_of"):
            value = getattr(self, name)
            if isinstance(value, str) and not is_canonical_time(value):
                raise UsageError(f"{value!r} is not a canonical time", field=name)
        if isinstance(self.as_of, int) and self.as_of < 0:
            raise UsageError("the number of records must not be negative", field="as_of")

    @property
    def most(self) -> int:
        """How many memories are given at most."""
        return self.limit or (DEFAULT_LIMIT if self.budget is None else DEFAULT_LIMIT_IN_BUDGET)

    def filter(self, as_of: int | None) -> Filter:
        """Return the part of it that columns tell."""
        return Filter(
            types=self.components,
            user=self.user,
            agent=self.agent,
            run=self.run,
            app=self.app,
            since=self.since,
            until=self.until,
            as_of=as_of,
        )

    @property
    def narrows(self) -> bool:
        """Whether columns tell more than that it is a memory."""
        return self.components != COMPONENTS or any(
            member is not None
            for member in (self.user, self.agent, self.run, self.app, self.since, self.until)
        )

    @property
    def asks_for_files(self) -> bool:
        """Whether memory files can be meant, too: they have no component, tags, owner or origin."""
        whose = (self.user, self.agent, self.run, self.app, self.provider, self.source)
        return (
            self.files
            and self.components == COMPONENTS
            and not (self.tags or self.any_tags)
            and all(member is None for member in whose)
        )

    def wants(self, entry: Entry, now: str) -> bool:
        """Tell whether a memory has the tags and the origin that are asked for, and is valid.

        Args:
            entry: The memory.
            now: The moment at which it has to be valid.
        """
        tags, origin = frozenset(entry.tags), entry.origin
        return (
            self.tags <= tags
            and (not self.any_tags or bool(self.any_tags & tags))
            and (self.provider is None or (origin and origin.provider) == self.provider)
            and (self.source is None or (origin and origin.source) == self.source)
            and (self.with_expired or is_valid(entry, now))
        )


def is_valid(entry: Entry, now: str) -> bool:
    """Tell whether a memory is true at a moment, and may be shown.

    From ``valid_from`` on, before ``valid_until``, before ``expires_at``.
    """
    return (
        (entry.valid_from is None or entry.valid_from <= now)
        and (entry.valid_until is None or now < entry.valid_until)
        and (entry.expires_at is None or now < entry.expires_at)
    )


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One memory that was found."""

    logged: VerifiedRecord
    """The record, proved."""

    entry: Entry
    """Its typed value."""

    score: float | None
    """How well it goes with the words, for comparison within one answer; None without words."""

    trust: TrustClass
    terms: tuple[str, ...]
    """Which of the words it has, folded as they are searched."""

    tokens: int
    """About how many it takes."""

    signals: Signals | None = None
    """Why it stands where it does; None where it was in no order but that of the log."""

    other_time: bool = False
    """Whether it is of another time than the one that the words name."""

    superseded_by: str | None = None
    """Id of what has taken its place since, where the bank was asked as it was before."""

    replaces: tuple[str, ...] = ()
    """Ids of what it took the place of."""

    conflicts_with: tuple[str, ...] = ()
    """Ids of what was found with it and says something else of the same subject."""


class Passage(NamedTuple):
    """Some lines of a text."""

    first: int
    """Number of the first line, from 1."""

    last: int
    text: str


@dataclass(frozen=True, slots=True)
class FileHit:
    """A passage of a memory file that was found."""

    logged: VerifiedRecord
    """The record of that version of the file, proved."""

    file: FileVersion
    passage: Passage
    score: float
    """How well the whole file goes with the words, for comparison among files; the best has 1."""

    trust: TrustClass
    terms: tuple[str, ...]
    """Which of the words the passage has."""

    tokens: int
    """About how many the passage takes."""

    superseded: bool = False
    """Whether the file is another by now, where the bank was asked as it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """How an answer was searched for."""

    terms: tuple[str, ...]
    """The search terms of the words; common words are omitted."""

    told: TimeRange | None = None
    """The time that the words name."""

    told_dropped: bool = False
    """Whether it made no difference, since nothing of that time was found."""

    told_beyond: int = 0
    """How many of the memories are of other times."""

    model: str | None = None
    """What made the vectors that were compared; None where none were."""

    note: str = ""
    """Why none were, where the bank has vectors."""

    reranker: str | None = None
    """What put the best in order again; None where nothing did."""

    reranker_note: str = ""
    """Why nothing did, where something should have."""

    by_words: int = 0
    """How many memories the words nominated."""

    by_meaning: int = 0
    """How many more their meaning did."""

    by_edges: int = 0
    """How many more edges to or from the best did."""

    looked_at: int = 0
    """How many were proved, and held against the filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """What was found, best first."""

    hits: tuple[SearchHit, ...]
    head: Head
    """The signed head that everything here is proved by."""

    size: int
    """How many records of the log count: all of them, or those of the moment asked for."""

    at: str
    """The moment at which validity was judged."""

    files: tuple[FileHit, ...] = ()
    """Passages of memory files, where they were asked for."""

    files_over_budget: int = 0
    """How many of them would have been given, had they fitted the budget."""

    over_budget: int = 0
    """How many memories would have been given, had they fitted the budget."""

    complete: bool = True
    """Whether everything nominated was looked at, until enough was found."""

    plan: QueryPlan

    @property
    def tokens(self) -> int:
        """About how many everything takes together."""
        return sum(hit.tokens for hit in self.hits) + sum(hit.tokens for hit in self.files)
