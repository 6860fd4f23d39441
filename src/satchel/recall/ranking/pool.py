"""What is put in order for a question: nominated by words, by meaning, and along edges."""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import structs

from satchel.errors import StoreError
from satchel.ledger.view import View
from satchel.memory.parts import Component, is_id
from satchel.memory.records import Edge, Model
from satchel.ports.linking.traversal import Linked
from satchel.ports.rows import Filter, Row
from satchel.recall.ranking.fusing import AROUND, LINKED, Scores, Signals
from satchel.recall.ranking.meaning import Meaning
from satchel.recall.ranking.order import Question, Ranking

NEAREST = 100
"""Memories that are nominated by what they mean, at least."""

_MEMORIES = frozenset(map(str, Component))
_FEW_LEFT = 30
_NEXT_NEAREST = 1000
_HOPPED_FROM = 5
"""How many of the best memories edges are looked at of."""

_MOST_LINKS = 40

_LOOKED_BESIDE = 30
"""Of how many of the best turns those around them are looked at, at least."""

_SUPERSEDES = "supersedes"


class Pool:
    """What was nominated, in order.

    Args:
        view: The bank.
        question: What is asked.
        wanted: What columns tell of what is wanted.
        meaning: What the question means.
        at: The moment at which edges have to be valid.
        most: How many memories are given at most.
    """

    def __init__(
        self,
        view: View,
        question: Question,
        wanted: Filter,
        meaning: Meaning,
        at: str,
        most: int,
    ) -> None:
        self._told = question.told
        self._ranking = Ranking(question, meaning.weights)
        self._at = at
        self._most = most
        self._view = view
        self._wanted = wanted
        self._meaning = meaning
        self.scores: dict[int, float] = {}
        """Of the memories, by position, best first; equal ones in log order."""

        self._lifted = dict[int, Signals]()
        self.by_words = 0
        self.by_meaning = 0
        self.by_edges = 0
        self.is_of_time = False
        """Whether any of it is of the time that the question names."""

    def fill(self, words: Scores) -> None:
        """Put what words nominate in order, with what meaning and edges nominate."""
        rows = self._rows(list(words))
        # What the words nominate and the columns rule out has to be ruled out by its bytes too.
        self._view.verified_columns(sorted(words.keys() - rows.keys()))
        self.by_words = len(rows)
        near = self._near(rows)
        self.by_meaning = len(near.keys() - rows.keys())
        rows |= near
        self.scores = self._ranking.add(rows, words, self._meaning.cosines(list(rows.values())))
        beside = self._beside(rows)
        if beside:
            rows |= beside
            cosines = self._meaning.cosines(list(beside.values()))
            self.scores = self._ranking.add(beside, {}, cosines)
        self.scores = self._ranking.with_phrases(self.scores)
        self.is_of_time = self._ranking.is_of_time
        self._hop(rows)

    def signals(self, place: int) -> Signals:
        """Return the signals of one of the memories."""
        return self._lifted.get(place) or self._ranking.signals(place)

    def _beside(self, rows: dict[int, Row]) -> dict[int, Row]:
        """Return the turns around the best ones that nothing nominated."""
        threads = dict[int, str]()
        for place in islice(self.scores, max(_LOOKED_BESIDE, self._most)):
            thread = rows[place].run
            if thread is not None:
                threads |= {place - far: thread for far in AROUND if place - far not in rows}
        found = self._rows([place for place in threads if place > 0])
        return {place: row for place, row in found.items() if row.run == threads[place]}

    def _rows(self, places: Sequence[int], *, memories: bool = False) -> dict[int, Row]:
        """Return the rows at positions that are wanted; none is left out for an edit of it.

        Args:
            places: The positions.
            memories: Whether all of them should be memories.
        """
        found = self._view.nominal(places)
        rows = {place: row for place, row in found.items() if self._wanted.matches(row)}
        excluded = [row for place, row in found.items() if place not in rows]
        self._view.require_excluded(excluded)
        if memories:
            others = sorted(row.seq for row in excluded if row.type not in _MEMORIES)
            self._view.verified_columns(others)
        return rows

    def _near(self, known: Mapping[int, Row]) -> dict[int, Row]:
        """Return what means nearly the same; filters may leave little of the first.

        Args:
            known: Rows that need not be read again.
        """
        if not self._meaning:
            return {}
        nearest = max(NEAREST, self._most)
        places = self._meaning.nearest(nearest)
        rows = {place: known[place] for place in places if place in known}
        rows |= self._rows([place for place in places if place not in known], memories=True)
        if self._told is None and (len(rows) >= _FEW_LEFT or len(places) < nearest):
            return dict(islice(rows.items(), nearest))
        places = self._meaning.nearest(_NEXT_NEAREST)
        rows = self._rows(places, memories=True)
        rows = {place: rows[place] for place in places if place in rows}
        found = dict(islice(rows.items(), nearest))
        if self._told is not None:
            told = self._told
            then = ((place, row) for place, row in rows.items() if told.includes(row.moment))
            found |= islice(then, nearest)
        return found

    def _hop(self, rows: dict[int, Row]) -> None:
        """Give what the best memories are linked with a part of their scores."""
        best = {rows[place].id: place for place in islice(self.scores, _HOPPED_FROM)}
        ends = dict[str, str]()
        for incoming in (False, True):
            for one in self._links(list(best), incoming=incoming):
                source, target, kind = one.link
                here, there = (target, source) if incoming else (source, target)
                if kind != _SUPERSEDES and here in best and there not in best and is_id(there):
                    ends.setdefault(there, here)
        if not ends:
            return
        others = self._rows(list(self._view.places(list(ends)).values()))
        for place, row in others.items():
            self._lift(place, LINKED * self.scores[best[ends[row.id]]], ends[row.id])
        keys = sorted((-score, place) for place, score in self.scores.items())
        self.scores = {place: -score for score, place in keys}

    def _lift(self, place: int, part: float, name: str) -> None:
        if place not in self.scores:
            self.by_edges += 1
            lifted = Signals(linked=part, linked_to=name)
        elif self.scores[place] < part:
            linked = part - self.scores[place]
            lifted = structs.replace(self.signals(place), linked=linked, linked_to=name)
        else:
            return
        self._lifted[place], self.scores[place] = lifted, lifted.score

    def _links(self, names: list[str], *, incoming: bool) -> list[Linked]:
        """Return links of records, proved, without those that are not valid now."""
        try:
            found = self._view.links(names, incoming=incoming, limit=_MOST_LINKS)
        except StoreError:
            return []  # a store that cannot be walked
        if not found:
            return []
        made = {one.seq: one.model for one in self._view.at([each.place for each in found])}
        return [each for each in found if self._is_valid(made.get(each.place))]

    def _is_valid(self, model: Model | None) -> bool:
        if not isinstance(model, Edge):
            return True  # an entry that names its parents
        return (model.valid_from is None or model.valid_from <= self._at) and (
            model.valid_until is None or self._at < model.valid_until
        )
