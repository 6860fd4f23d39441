"""Queries of memories, and their results."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from satchel.crypto.log import Head
from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.model.records import Entry, FileVersion
from satchel.model.values import Component, TrustClass, is_canonical_time, is_within
from satchel.ports.rows import Filter
from satchel.recall.order import Signals

DEFAULT_LIMIT, DEFAULT_LIMIT_IN_BUDGET = 10, 100
"""Default number of memories; with a budget, the budget limits them."""

MOST = 1000
"""Maximum number of memories of a query."""

COMPONENTS = frozenset(component.value for component in Component)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query; an absent member does not restrict it.

    Raises:
        UsageError: If a member is not valid.
    """

    text: str = ""
    """Words to search for; without any, the newest memories are returned."""

    limit: int | None = None
    """Maximum number of memories, 1 to ``MOST``."""

    budget: int | None = None
    """Maximum number of tokens of all memories."""

    components: frozenset[str] = COMPONENTS
    tags: frozenset[str] = frozenset()
    """Tags that a memory must have, all of them."""

    any_tags: frozenset[str] = frozenset()
    """Tags of which it must have one."""

    since: str | None = None
    """First moment, inclusive: when it happened, else when it was created."""

    until: str | None = None
    """Last moment, exclusive."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    provider: str | None = None
    """Product that it was imported from."""

    source: str | None = None
    """Account or container of the product."""

    trust: TrustClass | None = None
    """Lowest trust class."""

    as_of: int | str | None = None
    """The bank as of so many log records, or a moment. Validity is judged at that moment, too."""

    with_expired: bool = False
    """Include memories that have expired, or are not valid at the moment."""

    files: bool = False
    """Include passages of memory files, unless the query restricts what only memories have."""

    times: bool = True
    """Rank memories of a time that the words name higher, unless ``since`` or ``until`` is set."""

    rerank: bool | None = None
    """Whether to rerank the best memories; None for the configured default."""

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MOST:
            raise UsageError(f"the limit must be 1 to {MOST}", field="limit")
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget must be at least 1 token", field="budget")
        unknown = sorted(self.components - COMPONENTS)
        if unknown or not self.components:
            problem = f"unknown type {unknown[0]!r}" if unknown else "no type given"
            hint = f"Choose from: {', '.join(sorted(COMPONENTS))}."
            raise UsageError(problem, field="component", hint=hint)
        for name in ("since", "until", "as_of"):
            value = getattr(self, name)
            if isinstance(value, str) and not is_canonical_time(value):
                raise UsageError(f"{value!r} is not a canonical time", field=name)
        if isinstance(self.as_of, int) and self.as_of < 0:
            raise UsageError("the number of records must not be negative", field="as_of")

    @property
    def most(self) -> int:
        """Maximum number of memories."""
        return self.limit or (DEFAULT_LIMIT if self.budget is None else DEFAULT_LIMIT_IN_BUDGET)

    def column_filter(self, as_of: int | None) -> Filter:
        """Return the part of the query that columns of the store evaluate; see ``excluded_by``."""
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
    def has_column_filter(self) -> bool:
        """Whether the columns restrict the query to a part of the memories."""
        return self.components != COMPONENTS or any(
            member is not None
            for member in (self.user, self.agent, self.run, self.app, self.since, self.until)
        )

    @property
    def asks_for_files(self) -> bool:
        """Whether memory files can match: they have no type, tags, owner or origin."""
        scope = (self.user, self.agent, self.run, self.app, self.provider, self.source)
        return (
            self.files
            and self.components == COMPONENTS
            and not (self.tags or self.any_tags)
            and all(member is None for member in scope)
        )

    def excluded_by(self, entry: Entry, now: str) -> str | None:
        """Return the filter that excludes a nominated memory; None if it passes.

        These filters are evaluated after the nomination: none of them finds a memory. The trust
        class is not among them, because it depends on the log.

        Args:
            entry: The memory.
            now: The moment at which it must be valid.
        """
        tags, origin = frozenset(entry.tags), entry.origin
        if not self.tags <= tags or (self.any_tags and not self.any_tags & tags):
            return "tags"
        if self.provider is not None and (origin and origin.provider) != self.provider:
            return "provider"
        if self.source is not None and (origin and origin.source) != self.source:
            return "source"
        return None if self.with_expired or is_valid(entry, now) else "validity"


def is_valid(entry: Entry, now: str) -> bool:
    """Return whether a memory is valid at a moment and has not expired.

    That is from ``valid_from`` on, before ``valid_until``, and before ``expires_at``. A listing
    (``bank.memory.has_expired``) judges ``expires_at`` alone.
    """
    return is_within(now, entry.valid_from, entry.valid_until) and is_within(
        now, None, entry.expires_at
    )


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory that matches a query."""

    logged: VerifiedRecord
    """Its record."""

    entry: Entry
    """Its typed value."""

    score: float | None
    """How well it matches, for comparison within one answer; None without words."""

    trust: TrustClass
    terms: tuple[str, ...]
    """The terms of the query that it contains, normalized as for the search."""

    tokens: int
    """Estimated number of tokens."""

    signals: Signals | None = None
    """The parts of its score; None if memories are in log order."""

    other_time: bool = False
    """Whether it is of another time than the words name."""

    superseded_by: str | None = None
    """ID of its newer version, if an earlier state of the bank was searched."""

    replaces: tuple[str, ...] = ()
    """IDs of its earlier versions."""

    conflicts_with: tuple[str, ...] = ()
    """IDs of memories in the answer that contradict it about the same subject."""


class Passage(NamedTuple):
    """A passage of a text: some of its lines."""

    first: int
    """Number of the first line, from 1."""

    last: int
    text: str


@dataclass(frozen=True, slots=True)
class FileHit:
    """A memory file that matches a query, with its best passage."""

    logged: VerifiedRecord
    """The record of the version of the file."""

    file: FileVersion
    passage: Passage
    score: float
    """How well the whole file matches, for comparison among files; the best has 1."""

    trust: TrustClass
    terms: tuple[str, ...]
    """The terms of the query that the passage contains."""

    tokens: int
    """Estimated number of tokens of the passage."""

    superseded: bool = False
    """Whether the file has a newer version, if an earlier state of the bank was searched."""


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a query was evaluated."""

    terms: list[str]
    """The terms that were searched; common words are ignored."""

    time: str = ""
    """The time that the words name, as written."""

    since: str | None = None
    """Start of that time, inclusive."""

    until: str | None = None
    """End of that time, exclusive."""

    time_dropped: bool = False
    """Whether the time was ignored, because no memory is of it."""

    time_beyond: int = 0
    """Memories of the answer that are of other times."""

    vectors: str | None = None
    """Model of the vectors that were compared; None if words alone counted."""

    note: str = ""
    """Why no vectors were compared, if the bank has some, or has no memories."""

    reranker: str | None = None
    """Model that reranked the best memories; None if none did."""

    reranker_note: str = ""
    """Why none did, if one is configured."""

    by_words: int
    """Memories nominated by words."""

    by_meaning: int
    """Further memories nominated by meaning alone."""

    by_edges: int
    """Further memories nominated by an edge from or to one of the best."""

    looked_at: int
    """Memories that were verified and checked against the filters."""

    excluded: dict[str, int] = {}
    """How many of these a filter excluded: tags, provider, source, validity or trust."""

    @property
    def text_of_excluded(self) -> str:
        """How many each filter excluded, such as ``1 by tags, 2 by trust``."""
        return ", ".join(f"{number:,} by {name}" for name, number in self.excluded.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """The result of a query, best first."""

    hits: tuple[SearchHit, ...]
    head: Head
    """The signed head that all records were verified against."""

    size: int
    """Log records that were searched: all, or those up to the moment in the query."""

    at: str
    """The moment at which validity was judged."""

    files: tuple[FileHit, ...] = ()
    """Passages of memory files, if requested."""

    files_over_budget: int = 0
    """Matching passages that did not fit the budget."""

    over_budget: int = 0
    """Matching memories that did not fit the budget."""

    complete: bool = True
    """Whether all nominated memories were considered, until there were enough."""

    plan: SearchPlan

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of everything."""
        return sum(hit.tokens for hit in self.hits) + sum(hit.tokens for hit in self.files)
