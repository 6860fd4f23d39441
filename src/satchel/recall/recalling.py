"""Recall: the words nominate, the log proves, filters decide, a budget ends it.

Only current rows are in a full-text index. As of an earlier moment, what was retired since is
read from the log, at most ``MOST_LOOKED_AT`` records, and ranked together with the rest.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from satchel.errors import UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import TrustClass
from satchel.memory.times import now as present
from satchel.recall.query import Hit, Query, Recalled
from satchel.recall.showing import text_of
from satchel.recall.tokens import PER_MEMORY, estimated_tokens
from satchel.recall.trust import effective_trust, is_trusted
from satchel.stores.matching import relevance, terms_of, tokens_of

MOST_LOOKED_AT = 2000
"""Records that are proved for one answer at most, whatever the filters leave of them."""

_FIRST = 100

_Found = tuple[Logged, float | None]


def recall(view: View, query: Query, *, now: Callable[[], str] = present) -> Recalled:
    """Return the memories of a bank that go with words and filters, best first.

    Without words, or with signs alone, the newest are given. A text of common words alone, such as
    "to be", is searched by the rarest of them. Each memory is proved; one that does not fit what
    is left of the budget is left out whole, and counted.

    Args:
        view: The bank.
        query: What is asked.
        now: Tells the moment at which memories must be valid, when none is asked for.

    Raises:
        VerificationError: If a record is not what was logged.
    """
    return _Recall(view, query, now).answer()


class _Recall:
    """One answer in the making."""

    def __init__(self, view: View, query: Query, now: Callable[[], str]) -> None:
        self.view = view
        self.query = query
        self.size, self.at = _moment(view, query, now)
        self.wanted = query.filter(None if query.as_of is None else self.size)
        self.terms = terms_of(query.text)
        self.complete = True

    def answer(self) -> Recalled:
        query, hits, over = self.query, list[Hit](), 0
        left = query.budget
        for logged, entry, score, trust in islice(self._kept(), query.most):
            tokens = estimated_tokens(text_of(entry)) + PER_MEMORY
            if left is not None and tokens > left:
                over += 1
                continue
            left = None if left is None else left - tokens
            hits.append(Hit(logged, entry, score, trust, self._why(logged), tokens))
        return Recalled(
            hits=tuple(hits),
            head=self.view.head,
            size=self.size,
            at=self.at,
            over_budget=over,
            complete=self.complete,
        )

    def _kept(self) -> Iterator[tuple[Logged, Entry, float | None, TrustClass]]:
        """Yield the memories that all filters leave, best first."""
        for number, (logged, score) in enumerate(self._nominated()):
            if number == MOST_LOOKED_AT:
                self.complete = False
                return
            entry = logged.model
            if isinstance(entry, Entry) and self.query.wants(entry, self.at):
                trust = effective_trust(self.view, logged)
                if self.query.trust is None or is_trusted(trust, self.query.trust):
                    yield logged, entry, score, trust

    def _nominated(self) -> Iterator[_Found]:
        if not self.terms:
            return ((logged, None) for logged in self.view.newest(self.wanted))
        return self._by_words() if self.query.as_of is None else iter(self._as_it_was())

    def _by_words(self) -> Iterator[_Found]:
        """Yield what the index nominates: few first, and more where filters leave too little."""
        seen, first = set[int](), max(_FIRST, 2 * self.query.most)
        # Asking the table for each row takes time; most often there is nothing to ask.
        narrowed = self.wanted if self.query.narrows else None
        for limit, wanted in ((first, narrowed), (MOST_LOOKED_AT + 1, self.wanted)):
            found = self.view.nominees(self.query.text, limit=limit, wanted=wanted)
            left = {seq: score for seq, score in found.items() if seq not in seen}
            yield from self.view.ranked(left, self.wanted)
            if len(found) < limit:
                return
            seen.update(found)
        self.complete = False

    def _as_it_was(self) -> list[_Found]:
        """Return what was there at the moment asked for, by one ranking for all of it."""
        there = {logged.seq: logged for logged in self._there_now()}
        since = self.view.retired_since(self.size)
        for number, logged in enumerate(since):
            if number == MOST_LOOKED_AT:
                self.complete = False
                break
            if self.wanted.matches(logged.row) and self._why(logged):
                there[logged.seq] = logged
        texts = {seq: tokens_of(logged.row.text or "") for seq, logged in there.items()}
        scores = relevance(self.terms, texts, self.size)
        best_first = sorted(there, key=lambda seq: (-scores.get(seq, 0.0), seq))
        return [(there[seq], scores.get(seq, 0.0)) for seq in best_first]

    def _there_now(self) -> Iterator[Logged]:
        most = max(_FIRST, 2 * self.query.most)
        found = self.view.nominees(self.query.text, limit=most, wanted=self.wanted)
        return (logged for logged, _ in self.view.ranked(found, self.wanted))

    def _why(self, logged: Logged) -> tuple[str, ...]:
        """Return the terms that a memory has itself; a part of another one says nothing more."""
        tokens = tokens_of(logged.row.text or "") if self.terms else []
        words = [term.words for term in self.terms if term.times(tokens)]
        parts = {one for one in words for other in words if one != other and one in other}
        return tuple(dict.fromkeys(one for one in words if one not in parts))


def _moment(view: View, query: Query, now: Callable[[], str]) -> tuple[int, str]:
    """Return how many records of the log count, and when validity is judged."""
    size = view.head.size
    if query.as_of is None:
        return size, now()
    if isinstance(query.as_of, str):
        return view.size_at(query.as_of), query.as_of
    if query.as_of > size:
        raise UsageError(f"the log has {size} records", field="as_of")
    return query.as_of, view.arrival(query.as_of - 1) if query.as_of else now()
