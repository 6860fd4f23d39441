"""Recall: words, meaning and edges nominate memories; records are verified, filtered and ranked.

The full-text index has only current rows. For an earlier state of the bank, the records retired
since then are read from the log, at most ``MOST_LOOKED_AT``, and ranked with the rest. Passages of
memory files are found by words alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isfinite

from msgspec import structs

from satchel.errors import InferenceError, SatchelError, StoreError, UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, Episodic, FileVersion, Model, Semantic
from satchel.model.text import PER_MEMORY, estimated_tokens, memory_text
from satchel.model.values import ENTRY_TYPES, TrustClass, is_id, is_within
from satchel.model.values import now as present
from satchel.ports.inference import Reranker
from satchel.ports.links import LoggedLink
from satchel.ports.rows import Filter, Row
from satchel.recall.order import (
    AROUND,
    LINKED,
    WORDS,
    ParsedQuery,
    Scores,
    SignalRanking,
    Signals,
    effective_trust,
    is_trusted,
    lower,
)
from satchel.recall.query import FileHit, Passage, Query, RecallResult, SearchHit, SearchPlan
from satchel.recall.texts import (
    LONGEST,
    SearchTerms,
    TimeRange,
    forget_erased,
    parse_time_range,
    search_text,
)
from satchel.recall.vector_index import Embedders, SemanticQuery
from satchel.stores.text_search import Term, relevance, terms_of, tokens_of

NEAREST = 100
"""Minimum number of memories that meaning nominates."""

_FEW_LEFT = 30
_NEXT_NEAREST = 1000
_HOPPED_FROM = 5
"""Number of the best memories whose edges are followed."""

_MOST_LINKS = 40

_WITH_NEIGHBORS = 30
"""Minimum number of the best turns whose neighbors are added."""

_SUPERSEDES = "supersedes"


class Pool:
    """The nominated memories of a query, ranked.

    Args:
        view: A view of the bank.
        question: The query.
        wanted: The filter of columns.
        meaning: The vector of the query.
        at: The moment at which edges must be valid.
        most: Maximum number of memories in the answer.
    """

    def __init__(
        self,
        view: View,
        question: ParsedQuery,
        conditions: Filter,
        meaning: SemanticQuery,
        at: str,
        most: int,
    ) -> None:
        self._time = question.time
        self._ranking = SignalRanking(question, meaning.weights)
        self._at = at
        self._most = most
        self._view = view
        self._conditions = conditions
        self._meaning = meaning
        self.scores: dict[int, float] = {}
        """Scores by log position, best first; equal ones in log order."""

        self._linked = dict[int, Signals]()
        self.by_words = 0
        self.by_meaning = 0
        self.by_edges = 0
        self.is_of_time = False
        """Whether any memory is of the time that the query names."""

    def fill(self, words: Scores) -> None:
        """Rank the nominees of words together with those of meaning and edges."""
        rows = self._rows(list(words))
        # The columns of nominees that the filter excludes are verified against their bytes.
        self._view.verified_columns(sorted(words.keys() - rows.keys()))
        self.by_words = len(rows)
        similar = self._similar(rows)
        self.by_meaning = len(similar.keys() - rows.keys())
        rows |= similar
        self.scores = self._ranking.add(rows, words, self._meaning.cosines(list(rows.values())))
        neighbors = self._neighbors(rows)
        if neighbors:
            rows |= neighbors
            cosines = self._meaning.cosines(list(neighbors.values()))
            self.scores = self._ranking.add(neighbors, {}, cosines)
        self.scores = self._ranking.with_phrases(self.scores)
        self.is_of_time = self._ranking.is_of_time
        self._follow_edges(rows)

    def signals(self, position: int) -> Signals:
        """Return the signals of a memory."""
        return self._linked.get(position) or self._ranking.signals(position)

    def _neighbors(self, rows: dict[int, Row]) -> dict[int, Row]:
        """Return the turns around the best ones that were not nominated."""
        threads = dict[int, str]()
        for position in islice(self.scores, max(_WITH_NEIGHBORS, self._most)):
            thread = rows[position].run
            if thread is not None:
                threads |= {position - far: thread for far in AROUND if position - far not in rows}
        neighbors = self._rows([position for position in threads if position > 0])
        return {
            position: row for position, row in neighbors.items() if row.run == threads[position]
        }

    def _rows(self, positions: Sequence[int], *, memories: bool = False) -> dict[int, Row]:
        """Return the rows at positions that match the filter; excluded rows are verified.

        Args:
            positions: The log positions.
            memories: Whether all of them should be memories.
        """
        nominal = self._view.nominal(positions)
        rows = {position: row for position, row in nominal.items() if self._conditions.matches(row)}
        excluded = [row for position, row in nominal.items() if position not in rows]
        self._view.require_excluded(excluded)
        if memories:
            others = sorted(row.seq for row in excluded if row.type not in ENTRY_TYPES)
            self._view.verified_columns(others)
        return rows

    def _similar(self, known: Mapping[int, Row]) -> dict[int, Row]:
        """Return the rows nearest in meaning; more are tried if the filter leaves few.

        Args:
            known: Rows that are read already.
        """
        if not self._meaning:
            return {}
        nearest = max(NEAREST, self._most)
        positions = self._meaning.nearest(nearest)
        rows = {position: known[position] for position in positions if position in known}
        rows |= self._rows(
            [position for position in positions if position not in known], memories=True
        )
        if self._time is None and (len(rows) >= _FEW_LEFT or len(positions) < nearest):
            return dict(islice(rows.items(), nearest))
        positions = self._meaning.nearest(_NEXT_NEAREST)
        rows = self._rows(positions, memories=True)
        rows = {position: rows[position] for position in positions if position in rows}
        similar = dict(islice(rows.items(), nearest))
        if self._time is not None:
            time = self._time
            of_time = (
                (position, row) for position, row in rows.items() if time.includes(row.moment)
            )
            similar |= islice(of_time, nearest)
        return similar

    def _follow_edges(self, rows: dict[int, Row]) -> None:
        """Pass a part of the scores of the best memories on to linked ones."""
        best = {rows[position].id: position for position in islice(self.scores, _HOPPED_FROM)}
        ends = dict[str, str]()
        for incoming in (False, True):
            for linked in self._links(list(best), incoming=incoming):
                source, target, kind = linked.link
                near, far = (target, source) if incoming else (source, target)
                if kind != _SUPERSEDES and near in best and far not in best and is_id(far):
                    ends.setdefault(far, near)
        if not ends:
            return
        others = self._rows(list(self._view.places(list(ends)).values()))
        for position, row in others.items():
            self._add_linked(position, LINKED * self.scores[best[ends[row.id]]], ends[row.id])
        keys = sorted((-score, position) for position, score in self.scores.items())
        self.scores = {position: -score for score, position in keys}

    def _add_linked(self, position: int, part: float, name: str) -> None:
        """Raise the score of a memory to the part that a linked one passes on."""
        if position not in self.scores:
            self.by_edges += 1
            signals = Signals(linked=part, linked_to=name)
        elif self.scores[position] < part:
            linked = part - self.scores[position]
            signals = structs.replace(self.signals(position), linked=linked, linked_to=name)
        else:
            return
        self._linked[position], self.scores[position] = signals, signals.score

    def _links(self, names: list[str], *, incoming: bool) -> list[LoggedLink]:
        """Return the verified links of records that are valid at the moment."""
        try:
            links = self._view.links(names, incoming=incoming, limit=_MOST_LINKS)
        except StoreError:
            return []  # a store that cannot follow links
        if not links:
            return []
        models = {each.seq: each.model for each in self._view.at([link.place for link in links])}
        return [link for link in links if self._is_valid(models.get(link.place))]

    def _is_valid(self, model: Model | None) -> bool:
        if not isinstance(model, Edge):
            return True  # an entry with parents
        return is_within(self._at, model.valid_from, model.valid_until)


FIRST = 30
"""Number of the best memories that are reranked."""

_LONGEST = 1 << 13
"""Maximum characters of a memory that a reranker reads, from its start."""


def rerank_scores(reranker: Reranker, question: str, entries: Sequence[Entry]) -> list[float]:
    """Return the reranker's score of each memory, scaled from 0 for the worst to 1 for the best.

    A turn of a conversation is scored with the name of its speaker before it.

    Raises:
        InferenceError: If the reranker fails, or does not return a score for each.
    """
    texts = [_with_speaker(entry)[:_LONGEST] for entry in entries]
    scores = reranker.scores(question, texts)
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        raise InferenceError(
            f"{reranker.model} did not return a number for each of {len(texts)} texts"
        )
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    if not least < most or not isfinite(most - least):
        return [0.0] * len(scores)
    return [(score - least) / (most - least) for score in scores]


def _with_speaker(entry: Entry) -> str:
    text = memory_text(entry)
    if isinstance(entry, Episodic) and entry.actor:
        return f"{entry.actor.rpartition(':')[2]}: {text}"
    return text


_MOST = 20
"""Maximum earlier versions that are named for a memory."""


def with_relations(view: View, hits: Sequence[SearchHit], *, past: bool) -> tuple[SearchHit, ...]:
    """Return memories with their earlier and newer versions, and the memories they contradict.

    Two facts of an answer contradict each other if they have the same subject and predicate, and
    different objects.

    Args:
        view: A view of the bank.
        hits: The memories.
        past: Whether an earlier state of the bank was searched, so that newer versions may exist.
    """
    contradictions = _contradictions(hits)
    return tuple(
        replace(
            hit,
            superseded_by=_newer(view, hit) if past else None,
            replaces=_older(view, hit),
            conflicts_with=contradictions.get(number, ()),
        )
        for number, hit in enumerate(hits)
    )


def _newer(view: View, hit: SearchHit) -> str | None:
    row = view.nominal([hit.logged.seq]).get(hit.logged.seq)
    status = None if row is None else view.retirement(row)
    return None if status is None else status.by


def _older(view: View, hit: SearchHit) -> tuple[str, ...]:
    """Return the IDs of the versions before a memory, in log order."""
    name = hit.logged.record.id
    others = view.versions(name) - {name}
    positions = view.places(sorted(others)) if others else {}
    before = sorted(
        (position, other) for other, position in positions.items() if position < hit.logged.seq
    )
    return tuple(other for _, other in before[-_MOST:])


def _contradictions(hits: Sequence[SearchHit]) -> dict[int, tuple[str, ...]]:
    objects = dict[tuple[str, str], dict[int, str]]()
    for number, hit in enumerate(hits):
        fact = hit.entry
        if isinstance(fact, Semantic) and fact.subject and fact.predicate and fact.object:
            key = (fact.subject.casefold(), fact.predicate.casefold())
            objects.setdefault(key, {})[number] = fact.object.casefold()
    return {
        number: tuple(
            hits[other].logged.record.id for other, theirs in facts.items() if theirs != own
        )
        for facts in objects.values()
        for number, own in facts.items()
    }


MOST_LOOKED_AT = 2000
"""Maximum records that are verified for an answer, whatever the filters leave of them."""

_FIRST = 120
_NEWEST = 20
"""Number of the newest memories; relative times count from the latest moment of these."""

_Nominee = tuple[VerifiedRecord, Signals | None]
_Match = tuple[VerifiedRecord, Entry, Signals | None, TrustClass]


def recall(
    view: View,
    query: Query,
    *,
    now: Callable[[], str] = present,
    embedders: Embedders | None = None,
    reranker: Reranker | None = None,
) -> RecallResult:
    """Return the memories of a bank that match words and filters, best first.

    These steps exclude memories, in this order; ranking (``order``) excludes none:

    1. Nomination (``Pool.fill``): by words, by meaning, and by links of the best; a filter
       nominates nothing. ``View.nominees`` omits incomplete imports and what a token does not
       include; columns (type, owner, time, state, quarantine: ``Query.column_filter``) exclude.
    2. Verification (``View.ranked``): the columns are compared with the signed records. At most
       ``MOST_LOOKED_AT`` records; ``RecallResult.complete`` is False if there were more.
    3. ``Query.excluded_by``: tags, provider, source, validity; then the trust class. Counted in
       ``SearchPlan.excluded`` as far as matches are read.
    4. ``_Recall.answer``: the limit, and the budget (``RecallResult.over_budget``).

    Before them, ``recall.search`` applies the settings of the bank and the fork of a session.

    Without words, or with punctuation alone, the newest are returned. A text of common words only,
    such as "to be", is searched by the rarest of them. Each record is verified. A memory that does
    not fit what is left of the budget is skipped and counted.

    A time that the words name is not a filter: memories of that time rank higher, the others are
    marked. Relative times ("last week") count from the newest memory, or from ``as_of``; from now,
    if no memory is of the former.

    Args:
        view: A view of the bank.
        query: The query.
        now: Returns the moment at which memories must be valid, if the query names none.
        embedders: Returns the embedder for the query; without one, or if the bank has no vectors,
            words alone nominate.
        reranker: Reranks the best memories that pass the filters. If it fails, the order stays, and
            the plan has the reason.

    Raises:
        VerificationError: If a record does not verify.
    """
    forget_erased(view)
    return _Recall(view, query, now, embedders, reranker).answer()


def _named_time(view: View, query: Query, conditions: Filter, at: str) -> TimeRange | None:
    """Return the time that a query names; None if it names none, or has limits of its own."""
    if not query.times or not query.text or not (query.since is None and query.until is None):
        return None
    absolute = parse_time_range(query.text, at)
    if absolute is None or query.as_of is not None:
        return absolute
    newest = (logged.row.moment for logged in islice(view.newest(conditions), _NEWEST))
    latest = max((moment for moment in newest if moment is not None and moment <= at), default=at)
    relative = parse_time_range(query.text, latest)
    if relative is None or relative == absolute:
        return absolute
    for time in (relative, absolute):  # the first that a memory is of
        of_time = replace(conditions, since=time.since, until=time.until)
        if view.nominees(query.text, limit=1, where=of_time):
            return time
    return relative


class _Recall:
    """The evaluation of a query."""

    def __init__(
        self,
        view: View,
        query: Query,
        now: Callable[[], str],
        embedders: Embedders | None,
        reranker: Reranker | None,
    ) -> None:
        self.view = view
        self.query = query
        self.size, self.at = _moment(view, query, now)
        self.conditions = query.column_filter(None if query.as_of is None else self.size)
        self.time = _named_time(view, query, self.conditions, self.at)
        self._is_of_time = False
        self.terms = terms_of(query.text)
        self._sought = SearchTerms(self.terms)
        self.complete = True
        self._embedders = embedders if self.terms else None
        self._reranker = reranker if self.terms else None
        self._plan = SearchPlan(
            terms=[term.words for term in self.terms],
            time=self.time.words if self.time else "",
            since=self.time.since if self.time else None,
            until=self.time.until if self.time else None,
            by_words=0,
            by_meaning=0,
            by_edges=0,
            looked_at=0,
        )
        self._looked_at = 0
        self._excluded = Counter[str]()

    def answer(self) -> RecallResult:
        query, hits, over = self.query, list[SearchHit](), 0
        files = find_files(self.view, query, self.terms, self.size)
        left, for_files = split_budget(query.budget, files)
        for logged, entry, signals, trust in islice(self._reranked_matches(), query.most):
            tokens = estimated_tokens(memory_text(entry)) + PER_MEMORY
            if left is not None and tokens > left:
                over += 1
                continue
            left = None if left is None else left - tokens
            score = None if signals is None else signals.score
            terms = self._matching_terms(logged)
            hit = SearchHit(logged, entry, score, trust, terms, tokens, signals)
            if self._is_of_time and signals is not None and not signals.time:
                hit = replace(hit, other_time=True)
            hits.append(hit)
        fitting = fitting_files(files, None if left is None else left + for_files)
        return RecallResult(
            hits=with_relations(self.view, hits, past=query.as_of is not None),
            files=fitting,
            files_over_budget=len(files) - len(fitting),
            head=self.view.head,
            size=self.size,
            at=self.at,
            over_budget=over,
            complete=self.complete,
            plan=structs.replace(
                self._plan,
                looked_at=self._looked_at,
                excluded=dict(self._excluded),
                time_dropped=self.time is not None and not self._is_of_time,
                time_beyond=sum(hit.other_time for hit in hits),
            ),
        )

    def _reranked_matches(self) -> Iterator[_Match]:
        """Yield the matches, the best of them in the order of the reranker, if there is one."""
        matches = self._matches()
        if self._reranker is not None:
            first = list(islice(matches, FIRST))
            yield from self._rerank(self._reranker, first)
        yield from matches

    def _rerank(self, reranker: Reranker, first: list[_Match]) -> list[_Match]:
        try:
            scores = rerank_scores(reranker, self.query.text, [entry for _, entry, _, _ in first])
        except SatchelError as error:
            note = f"{reranker.model} did not respond; not reranked: {error.message}"
            self._plan = structs.replace(self._plan, reranker_note=note)
            return first
        self._plan = structs.replace(self._plan, reranker=reranker.model)
        matches = [
            (logged, entry, signals and structs.replace(signals, reranked=score), trust)
            for (logged, entry, signals, trust), score in zip(first, scores, strict=True)
        ]
        return sorted(matches, key=lambda match: -(match[2].score if match[2] else 0.0))

    def _matches(self) -> Iterator[_Match]:
        """Yield the nominated memories that pass all filters, best first."""
        for number, (logged, signals) in enumerate(self._nominated()):
            if number == MOST_LOOKED_AT:
                self.complete = False
                return
            self._looked_at = number + 1
            entry = logged.model
            if not isinstance(entry, Entry):
                continue
            trust = effective_trust(self.view, logged)
            excluded = self.query.excluded_by(entry, self.at)
            if excluded is None and self.query.trust is not None:
                excluded = None if is_trusted(trust, self.query.trust) else "trust"
            if excluded is None:
                yield logged, entry, signals, trust
            else:
                self._excluded[excluded] += 1

    def _nominated(self) -> Iterator[_Nominee]:
        if not self.terms:
            return ((logged, None) for logged in self.view.newest(self.conditions))
        return self._nominated_now() if self.query.as_of is None else iter(self._nominated_then())

    def _nominated_now(self) -> Iterator[_Nominee]:
        """Yield the nominees: few first, then more if the filters leave too few."""
        limit = max(_FIRST, 2 * self.query.most)
        # Filtering in the store takes time, and most queries have no filter of columns.
        narrowed = self.conditions if self.query.has_column_filter else None
        words = self.view.nominees(self.query.text, limit=limit, where=narrowed)
        count = len(words)
        if self.time is not None and count == limit:
            # Among so many, memories of the named time must be nominated as well.
            of_time = replace(self.conditions, since=self.time.since, until=self.time.until)
            words = self.view.nominees(self.query.text, limit=limit, where=of_time) | words
        meaning = self._meaning()
        pool = Pool(self.view, self._question, self.conditions, meaning, self.at, self.query.most)
        pool.fill(words)
        self._is_of_time = pool.is_of_time
        self._note_counts(meaning, pool.by_words, pool.by_meaning, pool.by_edges)
        yield from self._verified(pool.scores, pool.signals)
        if count < limit:
            return
        more = self.view.nominees(self.query.text, limit=MOST_LOOKED_AT + 1, where=self.conditions)
        least = min(pool.scores.values(), default=0.0) / WORDS
        most = max(more.values(), default=0.0) or 1.0
        rest = {
            seq: Signals(words=min(least, score / most))
            for seq, score in more.items()
            if seq not in pool.scores
        }
        yield from self._verified(dict.fromkeys(rest, 0.0), rest.__getitem__)

    def _verified(
        self, scores: Mapping[int, float], signals: Callable[[int], Signals]
    ) -> Iterator[_Nominee]:
        for logged, _ in self.view.ranked(scores, self.conditions):
            yield logged, signals(logged.seq)

    def _nominated_then(self) -> list[_Nominee]:
        """Return the nominees of an earlier state of the bank, ranked together.

        Records retired since then are in no index, so they are read. Edges are not followed.
        """
        meaning = self._meaning()
        records = {logged.seq: logged for logged in self._still_current(meaning)}
        near, since = len(records), self.view.retired_since(self.size)
        for number, logged in enumerate(since):
            if number == MOST_LOOKED_AT:
                self.complete = False
                break
            if self.conditions.matches(logged.row) and self._matching_terms(logged):
                records[logged.seq] = logged
        texts = {seq: tokens_of(logged.row.text or "") for seq, logged in records.items()}
        rows = {seq: logged.row for seq, logged in records.items()}
        words = relevance(self.terms, texts, self.size)
        self._note_counts(meaning, len(words), max(0, near - len(words)), 0)
        ranking = SignalRanking(self._question, meaning.weights)
        scores = ranking.add(rows, words, meaning.cosines(list(rows.values())))
        scores = ranking.with_phrases(scores)
        self._is_of_time = ranking.is_of_time
        return [(records[seq], ranking.signals(seq)) for seq in scores]

    def _still_current(self, meaning: SemanticQuery) -> Iterator[VerifiedRecord]:
        most = max(_FIRST, 2 * self.query.most)
        scores = self.view.nominees(self.query.text, limit=most, where=self.conditions)
        scores |= dict.fromkeys(meaning.nearest(NEAREST), 0.0)
        return (logged for logged, _ in self.view.ranked(scores, self.conditions))

    @property
    def _question(self) -> ParsedQuery:
        return ParsedQuery(self.terms, self.query.text, self.time)

    def _meaning(self) -> SemanticQuery:
        return SemanticQuery(self.view, self.query.text, self._embedders)

    def _note_counts(self, meaning: SemanticQuery, words: int, near: int, edges: int) -> None:
        model = meaning.info.model if meaning and meaning.info is not None else None
        is_empty = not any(self.view.head.counts.get(name) for name in ENTRY_TYPES)
        self._plan = structs.replace(
            self._plan,
            vectors=model,
            note="the bank has no memories" if is_empty else meaning.note,
            by_words=words,
            by_meaning=near,
            by_edges=edges,
        )

    def _matching_terms(self, logged: VerifiedRecord) -> tuple[str, ...]:
        """Return the terms that a memory contains, without terms that are parts of others."""
        text = (logged.row.text or "") if self.terms else ""
        if 0 < len(text) <= LONGEST:
            words = [self.terms[at].words for at in search_text(logged.row).times(self._sought)]
        else:
            tokens = tokens_of(text)
            words = [term.words for term in self.terms if term.times(tokens)]
        parts = {word for word in words for other in words if word != other and word in other}
        return tuple(dict.fromkeys(word for word in words if word not in parts))


def _moment(view: View, query: Query, now: Callable[[], str]) -> tuple[int, str]:
    """Return the number of log records to search, and the moment at which validity is judged."""
    size = view.head.size
    if query.as_of is None:
        return size, now()
    if isinstance(query.as_of, str):
        return view.size_at(query.as_of), query.as_of
    if query.as_of > size:
        raise UsageError(f"the log has {size} records", field="as_of")
    return query.as_of, view.arrival(query.as_of - 1) if query.as_of else now()


MOST_FILES = 10
"""Maximum memory files of an answer."""

MOST_RETIRED_FILES = 500
"""Maximum retired versions of files that are verified for an earlier state of the bank."""

FILE_SHARE = 4
"""The share of a budget that is reserved for files, as its divisor."""

_FILE_VERSIONS = frozenset({"file_version"})
_PASSAGE = 600


def find_files(view: View, query: Query, terms: Sequence[Term], size: int) -> tuple[FileHit, ...]:
    """Return the memory files that match words, best first, each with its best passage.

    None match a query that is restricted by type, tags, owner or provider, which files do not have.
    A file is trusted at most as an agent, since its author is not verified. Versions without text
    in the log, such as very large ones, are not found.

    Args:
        view: A view of the bank.
        query: The query.
        terms: Its terms.
        size: Number of log records to search.

    Raises:
        VerificationError: If a record does not verify.
    """
    if not terms or not query.asks_for_files or not view.head.counts.get("file_version", 0):
        return ()
    conditions = Filter(
        types=_FILE_VERSIONS,
        since=query.since,
        until=query.until,
        as_of=None if query.as_of is None else size,
    )
    hits = list[FileHit]()
    for logged, score in _nominated_files(view, query.text, conditions, terms, size):
        hit = _file_hit(view, logged, score, terms)
        if hit is not None and (query.trust is None or is_trusted(hit.trust, query.trust)):
            hits.append(hit)
        if len(hits) == min(MOST_FILES, query.most):
            break
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    return tuple(replace(hit, score=hit.score / best) for hit in hits)


def split_budget(budget: int | None, files: Sequence[FileHit]) -> tuple[int | None, int]:
    """Return the part of a budget for memories, and the part reserved for files.

    What memories do not use is left to files.
    """
    if budget is None:
        return None, 0
    reserved = min(sum(hit.tokens for hit in files), budget // FILE_SHARE)
    return budget - reserved, reserved


def fitting_files(files: Sequence[FileHit], left: int | None) -> tuple[FileHit, ...]:
    """Return the files that fit what is left of a budget, best first."""
    fitting = list[FileHit]()
    for hit in files:
        if left is None or hit.tokens <= left:
            left = None if left is None else left - hit.tokens
            fitting.append(hit)
    return tuple(fitting)


def _nominated_files(
    view: View, text: str, conditions: Filter, terms: Sequence[Term], size: int
) -> Iterator[tuple[VerifiedRecord, float]]:
    """Yield the file versions that have some of the words, best first, with their scores."""
    scores = view.nominees(text, limit=MOST_RETIRED_FILES, where=conditions)
    if conditions.as_of is None:
        yield from view.ranked(scores, conditions)
        return
    versions = {logged.seq: logged for logged, _ in view.ranked(scores, conditions)}
    for number, logged in enumerate(view.retired_since(size)):
        if number == MOST_RETIRED_FILES:
            break
        if conditions.matches(logged.row):
            versions[logged.seq] = logged
    texts = {seq: tokens_of(logged.row.text or "") for seq, logged in versions.items()}
    ranked = relevance(terms, texts, size)
    for seq in sorted(ranked, key=lambda seq: (-ranked[seq], seq)):
        yield versions[seq], ranked[seq]


def _file_hit(
    view: View, logged: VerifiedRecord, score: float, terms: Sequence[Term]
) -> FileHit | None:
    file = logged.model
    if not isinstance(file, FileVersion) or not file.text:
        return None
    passage, matching = _best_passage(file.text, terms)
    if not matching:
        return None
    return FileHit(
        logged,
        file,
        passage,
        score,
        lower(TrustClass.AGENT, effective_trust(view, logged)),
        matching,
        estimated_tokens(f"{file.path}\n{passage.text}") + PER_MEMORY,
        view.retirement(logged.row) is not None,
    )


def _best_passage(text: str, terms: Sequence[Term]) -> tuple[Passage, tuple[str, ...]]:
    """Return the passage with most of the terms, the first of equal ones, and its terms."""
    best, most, matching = Passage(1, 1, ""), (0, 0), tuple[str, ...]()
    for passage in _passages(text):
        tokens = tokens_of(passage.text)
        times = [term.times(tokens) for term in terms]
        count = sum(map(bool, times)), sum(times)
        if count > most:
            best, most = passage, count
            matching = tuple(
                term.words for term, occurrences in zip(terms, times, strict=True) if occurrences
            )
    return best, matching


def _passages(text: str) -> Iterator[Passage]:
    """Yield a text in passages of whole lines, up to a length; longer lines are split."""
    first, lines, length = 1, list[str](), 0
    for number, line in enumerate(text.split("\n"), 1):
        if lines and (length + len(line) > _PASSAGE or not line.strip()):
            yield Passage(first, number - 1, "\n".join(lines))
            lines, length = [], 0
        if not line.strip():
            continue
        if not lines:
            first = number
        for start in range(0, max(0, len(line) - _PASSAGE), _PASSAGE):
            yield Passage(number, number, line[start : start + _PASSAGE + _PASSAGE // 4])
        lines.append(line[max(0, len(line) - 1) // _PASSAGE * _PASSAGE :].rstrip("\r"))
        length += len(lines[-1]) + 1
    if lines:
        yield Passage(first, first + len(lines) - 1, "\n".join(lines))
