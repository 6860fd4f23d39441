"""A part of a bank: what a capability token does not cover is not there.

Everything that a view hands out is proved first, and judged here on its proved bytes, so a column
or an index that was edited shows nothing more. Source: docs/spec/6-keys-and-tokens.md, 6.7.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from satchel.errors import UnknownBlobError
from satchel.ledger.authority import ADMISSION, DECISIONS
from satchel.ledger.logged import Import, Logged, Said
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import is_id
from satchel.memory.records import Bank, Config, Edge, Model, Status
from satchel.ports.linking.traversal import Kinds, Linked
from satchel.ports.rows import Filter, Row
from satchel.ports.vectors import Generation, Given
from satchel.seal.tokens.scope import Covers

_CURRENT = Filter()


class ScopedView(View):
    """A verified view of a bank, with what a token covers.

    Entries are there when the token covers them; a status when its target is, and what it names in
    the target's place; an edge when both its ends are. Of the log itself, whose it is and who may
    sign its head. Nothing else: nodes, conversations, files, sources, receipts and tokens belong
    to the bank as a whole. Vectors and what is kept beside the log are not there either: they were
    learnt from all of it.

    Args:
        whole: The same moment of the bank, all of it.
        covers: Tells whether an entry is in the scope.
        types: Types that entries in the scope can have at all; None for any.
    """

    def __init__(
        self, whole: View, covers: Covers, types: frozenset[str] | None = None
    ) -> None:  # the state of ``whole`` is shared, nothing of it is read again
        vars(self).update(vars(whole))
        self._all = whole
        self._covers = covers
        self._types = types
        self._known: dict[str, bool] = {}

    @property
    def whole(self) -> View:
        """All of the bank, for what decides and is not shown: settings, trust, standing."""
        return self._all

    def covers(self, entry: Entry) -> bool:
        """Tell whether an entry is in the scope, or would be."""
        return self._covers(entry)

    def has(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that are of entries to be seen here."""
        wanted = list(dict.fromkeys(ids))
        unknown = [one for one in wanted if one not in self._known and is_id(one)]
        if unknown:
            found = self._all.get(unknown)
            for one in unknown:
                model = found[one].model if one in found else None
                self._known[one] = isinstance(model, Entry) and self._covers(model)
        return {one for one in wanted if self._known.get(one, False)}

    def _proved(self, rows: list[Row], *, pending: bool = False) -> list[Logged]:
        found = super()._proved(rows, pending=pending)
        ends = {end for logged in found for end in ends_of(logged.model)}
        there = self.has(ends) if ends else set()
        return [logged for logged in found if self._shows(logged.model, there)]

    def _shows(self, model: Model, there: set[str]) -> bool:
        if isinstance(model, Entry):
            return self._covers(model)
        if isinstance(model, Status | Edge):
            ends = ends_of(model)
            return bool(ends) and ends <= there
        if isinstance(model, Config):
            return model.action == ADMISSION or model.action in DECISIONS
        return isinstance(model, Bank)

    def said(self, logged: Logged, *, as_of: int | None = None) -> list[Said]:
        """As ``View.said``, without the names of what is not to be seen."""
        found = super().said(logged, as_of=as_of)
        there = self.has(one.by for one in found if one.by is not None)
        return [one if one.by in there else one._replace(by=None) for one in found]

    def retirement(self, row: Row, as_of: int | None = None) -> Said | None:
        """As ``View.retirement``, without the name of what is not to be seen."""
        found = super().retirement(row, as_of)
        if found is None or found.by is None or self.has([found.by]):
            return found
        return found._replace(by=None)

    def versions(self, identity: str) -> set[str]:
        """As ``View.versions``, those that are to be seen."""
        return self.has(super().versions(identity))

    def links(
        self, ends: Sequence[str], *, incoming: bool, kinds: Kinds = None, limit: int
    ) -> list[Linked]:
        """As ``View.links``, of records that are to be seen."""
        found = self._all.links(ends, incoming=incoming, kinds=kinds, limit=limit)
        there = {logged.seq for logged in self.at([linked.place for linked in found])}
        return [linked for linked in found if linked.place in there]

    def nominees(self, text: str, *, limit: int, wanted: Filter | None = None) -> dict[int, float]:
        """As ``View.nominees``, of the types that can be in the scope."""
        if self._types is None:
            return super().nominees(text, limit=limit, wanted=wanted)
        asked = wanted or _CURRENT
        types = self._types if asked.types is None else self._types & asked.types
        if not types:
            return {}
        return super().nominees(text, limit=limit, wanted=replace(asked, types=types))

    def nominal(self, places: Sequence[int]) -> dict[int, Row]:
        """As ``View.nominal``, of what is to be seen: a rank may not tell of what is not."""
        found = super().nominal(places)
        there = self.has(row.id for row in found.values())
        return {place: row for place, row in found.items() if row.id in there}

    def near(self, generation: Generation, vector: Given, *, limit: int) -> list[tuple[str, float]]:
        """Return nothing; see ``vectors``."""
        del generation, vector, limit
        return []

    def source_at(self, batch: int) -> Logged | None:
        """As ``View.source_at``: how far an import is trusted counts for everybody."""
        return self._all.source_at(batch)

    def places(self, ids: Sequence[str]) -> dict[str, int]:
        """As ``View.places``, of what is to be seen."""
        return super().places(sorted(self.has(ids)))

    def rows(self, places: Sequence[int]) -> list[Row]:
        """As ``View.rows``, of what is to be seen."""
        found = super().rows(places)
        there = self.has(row.id for row in found)
        return [row for row in found if row.id in there]

    def held(self, source: str) -> Iterator[Row]:
        """Yield nothing: an import that is under way is its owner's."""
        del source
        return iter(())

    def returned(self) -> list[tuple[int, str]]:
        """Return nothing: what was erased is its owner's to know."""
        return []

    def imports(self) -> list[Import]:
        """Return nothing: imports are of the bank as a whole."""
        return []

    def side(self, prefix: str) -> dict[str, bytes]:
        """Return nothing: what is kept beside the log is of the bank as a whole."""
        del prefix
        return {}

    def nearest(
        self, generation: Generation, vector: Given, *, limit: int = 100
    ) -> list[tuple[Logged, float]]:
        """Return nothing; see ``vectors``."""
        del generation, vector, limit
        return []

    def generations(self) -> dict[Generation, int]:
        """Return nothing; see ``vectors``."""
        return {}

    def vectors(self, generation: Generation, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Return nothing: vectors are made with what was learnt from the whole bank."""
        del generation, ids
        return {}

    def blob(self, digest: str) -> NoReturn:
        """Refuse: bytes beside the log are of the bank as a whole.

        Raises:
            UnknownBlobError: Always.
        """
        raise UnknownBlobError("no such blob", field=digest)


def ends_of(model: Model) -> frozenset[str]:
    """Return the ids that a status or an edge names; none for another record.

    An end of an edge that is no id is a name, which stands for itself.
    """
    if isinstance(model, Status):
        return frozenset({model.target} if model.by is None else {model.target, model.by})
    if isinstance(model, Edge):
        return frozenset(end for end in (model.source, model.target) if is_id(end))
    return frozenset()
