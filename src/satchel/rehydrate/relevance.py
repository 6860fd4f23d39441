"""Stage 3, rank: the relevance of each memory, with its parts.

Recall nominates memories for the task. Identity and working memory are always considered, and the
newest memories if few were found. At most ``MOST_READ`` records are read, whatever the size of the
bank. Source of the sum and its weights: the paper, section 3.4, step 3.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from satchel.errors import StoreError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Semantic
from satchel.model.text import memory_text
from satchel.model.values import Component, TrustClass, is_within
from satchel.ports.rows import Filter
from satchel.recall.engine import recall
from satchel.recall.order import Signals, effective_trust, is_trusted
from satchel.recall.query import MOST, Query, RecallResult
from satchel.recall.texts import is_stuffed
from satchel.rehydrate.request import (
    DAY,
    PipelineStage,
    RehydrateContext,
    RehydrateRequest,
    Relevance,
)
from satchel.screening.injection import FROM_OUTSIDE
from satchel.stores.text_search import Term, terms_of, tokens_of


def filter_of(request: RehydrateRequest) -> Filter:
    """Return the filter of columns for a request."""
    return Filter(
        types=request.components,
        user=request.user,
        agent=request.agent,
        run=request.run,
        app=request.app,
    )


def filtered(
    view: View, request: RehydrateRequest, context: RehydrateContext, before: PipelineStage
) -> PipelineStage:
    """Return the stage that describes the filter."""
    covered = context.allowed or ("all of the bank" if view.is_whole else "a part of the bank")
    conditions = [f"open: {covered}"]
    conditions += [
        f"{name} {getattr(request, name)}"
        for name in ("user", "agent", "run", "app", "trust")
        if getattr(request, name) is not None
    ]
    return PipelineStage(name="filter", detail="; ".join(conditions), entries=before.entries)


MOST_READ = 2000
"""Maximum records that are verified and read for a text."""

LEAST_TOKENS = 16
"""Minimum tokens of a memory, to limit how many are nominated."""

FEW, ALWAYS = 32, 100
"""Minimum number of memories; and maximum number of identity and working memories."""

OUTDATED, SUPERSEDED, STUFFED = 0.5, 0.5, 0.4
"""Factors of relevance: not valid now, superseded by an edge, stuffed with words."""

_COMPARED = 1 << 12
"""Maximum characters of a memory that are searched for the words of the task."""

_DEEPEST = 6
_MOST_PARENTS = 200
_MOST_LINKS = 200
_USED_OFTEN = 100.0
_SUPERSEDES = frozenset({"supersedes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A memory with its relevance."""

    logged: VerifiedRecord
    entry: Entry
    trust: TrustClass
    parts: Relevance
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceRanking:
    """All memories that were considered, best first."""

    memories: list[RankedMemory]
    expired: int
    """Number of expired memories."""

    looked_at: int
    complete: bool
    at: str
    """The moment at which age and validity were judged."""

    compared: str
    """How memories were compared, in words."""


@dataclass(slots=True)
class _Candidate:
    logged: VerifiedRecord
    entry: Entry
    trust: TrustClass
    signals: Signals | None


def ranked(
    view: View, request: RehydrateRequest, context: RehydrateContext, budget: int
) -> RelevanceRanking:
    """Return the memories that may be provided, best first.

    Raises:
        VerificationError: If a record does not verify.
    """
    return _Ranking(view, request, context, budget).result()


class _Ranking:
    """The ranking of a request."""

    def __init__(
        self, view: View, request: RehydrateRequest, context: RehydrateContext, budget: int
    ) -> None:
        self._view = view
        self._request = request
        self._context = context
        self._most = max(FEW, min(MOST, budget // LEAST_TOKENS))
        self._terms: list[Term] = terms_of(request.task)
        self._read = 0
        self._expired = 0

    def result(self) -> RelevanceRanking:
        recalled = self._recalled() if self._request.task.strip() else None
        now = self._context.now() if recalled is None else recalled.at
        candidates = {
            hit.logged.record.id: _Candidate(hit.logged, hit.entry, hit.trust, hit.signals)
            for hit in (() if recalled is None else recalled.hits)
        }
        for logged in self._beside(len(candidates)):
            if logged.record.id not in candidates and isinstance(logged.model, Entry):
                trust = effective_trust(self._view, logged)
                if self._request.trust is None or is_trusted(trust, self._request.trust):
                    candidate = _Candidate(logged, logged.model, trust, None)
                    candidates[logged.record.id] = candidate
        unexpired = [each for each in candidates.values() if not _has_expired(each.entry, now)]
        self._expired = len(candidates) - len(unexpired)
        memories = self._judged(unexpired, now)
        return RelevanceRanking(
            memories=sorted(memories, key=lambda memory: (-memory.score, -memory.logged.seq)),
            expired=self._expired,
            looked_at=self._read,
            complete=recalled is None or recalled.complete,
            at=now,
            compared=self._compared(recalled),
        )

    def _recalled(self) -> RecallResult:
        request = self._request
        query = Query(
            text=request.task,
            limit=self._most,
            components=request.components,
            user=request.user,
            agent=request.agent,
            run=request.run,
            app=request.app,
            trust=request.trust,
            with_expired=True,
            times=request.times,
        )
        context = self._context
        result = recall(
            self._view,
            query,
            now=context.now,
            embedders=context.embedders,
            reranker=context.reranker,
        )
        self._read += result.plan.looked_at
        return result

    def _beside(self, count: int) -> Iterator[VerifiedRecord]:
        """Yield identity and working memory, then the newest memories if few were found."""
        every = filter_of(self._request)
        types = _ALWAYS & (every.types or _ALWAYS)
        if types:
            yield from self._newest(replace(every, types=types), ALWAYS)
        yield from self._newest(every, self._most - count)

    def _newest(self, conditions: Filter, most: int) -> Iterator[VerifiedRecord]:
        for logged in islice(
            self._view.newest(conditions), max(0, min(most, MOST_READ - self._read))
        ):
            self._read += 1
            yield logged

    def _judged(self, candidates: Sequence[_Candidate], now: str) -> Iterator[RankedMemory]:
        best = max(
            (candidate.signals.score for candidate in candidates if candidate.signals is not None),
            default=0.0,
        )
        depths = self._depths(candidates)
        superseded = self._superseded(candidates)
        for candidate in candidates:
            name = candidate.logged.record.id
            parts = Relevance(
                recency=self._recency(candidate.logged, now),
                salience=self._salience(candidate),
                similarity=self._similarity(candidate, best),
                depth=1 / (1 + depths[name]),
                penalty=self._penalty(candidate.entry, now, is_superseded=name in superseded),
            )
            judge = self._context.judge
            score = (
                parts.score(self._request.weights)
                if judge is None
                else judge(candidate.logged, parts)
            )
            yield RankedMemory(
                logged=candidate.logged,
                entry=candidate.entry,
                trust=candidate.trust,
                parts=parts,
                score=round(min(1.0, max(0.0, score)), 6),
            )

    def _similarity(self, candidate: _Candidate, best: float) -> float | None:
        signals = candidate.signals
        if self._request.similarity == "cosine":
            return None if signals is None or signals.cosine is None else signals.cosine
        if not self._terms:
            return None  # nothing was compared
        if signals is not None:
            return min(1.0, signals.score / best) if best else 0.0
        # What recall did not nominate may still have the words, in members that no index has.
        tokens = tokens_of(memory_text(candidate.entry)[:_COMPARED])
        return sum(term.times(tokens) > 0 for term in self._terms) / len(self._terms)

    def _recency(self, logged: VerifiedRecord, now: str) -> float:
        moment = logged.row.moment or logged.row.at
        age = (datetime.fromisoformat(now) - datetime.fromisoformat(moment)).total_seconds()
        return min(1.0, max(0.0, 1 - age / (self._request.max_age * DAY)))

    def _salience(self, candidate: _Candidate) -> float:
        entry = candidate.entry
        default = self._request.salience.get(candidate.logged.record.type, 0.5)
        stated = entry.salience
        if stated is None and isinstance(entry, Semantic):
            stated = entry.confidence
        if stated is None and candidate.logged.record.type == Component.PROCEDURAL:
            used = entry.metadata.get("usage_count")
            if isinstance(used, int | float) and used > 0:
                stated = min(1.0, used / _USED_OFTEN)
        salience = default if stated is None else stated
        return (
            min(salience, self._request.untrusted_salience)
            if candidate.trust in FROM_OUTSIDE
            else salience
        )

    def _penalty(self, entry: Entry, now: str, *, is_superseded: bool) -> float:
        penalty = SUPERSEDED if is_superseded else 1.0
        if not is_within(now, entry.valid_from, entry.valid_until):
            penalty *= OUTDATED
        return penalty * STUFFED if is_stuffed(memory_text(entry), self._terms) else penalty

    def _depths(self, candidates: Sequence[_Candidate]) -> dict[str, int]:
        """Return the number of steps from each memory to its farthest known ancestors.

        Parents are read level by level, up to ``_DEEPEST`` levels and ``_MOST_PARENTS`` parents.
        """
        above = {
            candidate.logged.record.id: set(candidate.entry.parent_ids) for candidate in candidates
        }
        depths = dict.fromkeys(above, 0)
        known = {candidate.logged.record.id: candidate.entry for candidate in candidates}
        left = min(_MOST_PARENTS, MOST_READ - self._read)
        for _ in range(_DEEPEST):
            waiting = {name for name, parents in above.items() if parents}
            if not waiting:
                break
            unknown = {parent for name in waiting for parent in above[name]} - known.keys()
            missing = sorted(unknown)[:left]
            loaded = self._view.get(missing) if missing else {}
            left -= len(missing)
            self._read += len(loaded)
            known |= {
                name: logged.model
                for name, logged in loaded.items()
                if isinstance(logged.model, Entry)
            }
            for name in waiting:
                depths[name] += 1
                above[name] = {
                    ancestor
                    for parent in above[name]
                    if parent in known
                    for ancestor in known[parent].parent_ids
                }
        return depths

    def _superseded(self, candidates: Sequence[_Candidate]) -> set[str]:
        """Return the IDs of the memories that an edge marks as superseded."""
        names = [candidate.logged.record.id for candidate in candidates]
        try:
            edges = self._view.links(
                names, incoming=True, kinds=_SUPERSEDES, limit=min(_MOST_LINKS, self._room)
            )
        except StoreError:
            return set()  # the store cannot follow links
        self._read += len(edges)
        return {edge.link.target for edge in edges}

    @property
    def _room(self) -> int:
        return max(1, MOST_READ - self._read)

    def _compared(self, recalled: RecallResult | None) -> str:
        if recalled is None:
            return "nothing: no task given"
        plan = recalled.plan
        if plan.vectors is None:
            compared = "words" + (f" ({plan.note})" if plan.note else "")
        else:
            compared = f"words and meaning ({plan.vectors})"
        if plan.reranker is not None:
            return f"{compared}, reranked by {plan.reranker}"
        return f"{compared}; {plan.reranker_note}" if plan.reranker_note else compared


_ALWAYS = frozenset({Component.IDENTITY.value, Component.WORKING.value})


def _has_expired(entry: Entry, now: str) -> bool:
    return entry.expires_at is not None and entry.expires_at <= now
