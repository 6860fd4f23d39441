"""Stores that break one promise each: a sound store, and a view of it that is not."""

import os
import pickle
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from satchel.errors import SatchelError, SlotTakenError
from satchel.ports.links import LoggedLink
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Commit, Store, StoredHead, StoreTraits
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

ALL = Filter(retired=True, held=True)
DURABLE = StoreTraits(durable=True, concurrent_writers=True)


class View:
    """Delegates to a view or transaction of a correct store.

    Args:
        inner: That view.
        store: What the subclasses remember things in.
    """

    def __init__(self, inner: Any, store: "Broken") -> None:
        self.inner = inner
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Broken:
    """A correct store behind incorrect views.

    Args:
        inner: The sound store.
        view: What its views and transactions are wrapped in.
    """

    def __init__(self, inner: Store, view: type[View] = View) -> None:
        self.inner = inner
        self.view = view
        self.traits = inner.traits
        self.name = inner.name
        self.kept: dict[Any, Any] = {}

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self.inner.reading() as reader:
            yield self.view(reader, self)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self.inner.writing() as writer:
            yield self.view(writer, self)

    def scrub(self) -> None:
        self.inner.scrub()

    def check(self) -> list[str]:
        return self.inner.check()

    def copy_to(self, path: Path, **options: Any) -> None:
        assert isinstance(self.inner, SqliteStore)
        self.inner.copy_to(path, **options)

    def close(self) -> None:
        self.inner.close()


def on_disk(view: type[View], path: Path) -> Store:
    """Open an SQLite file behind incorrect views, also from other processes."""
    return Broken(SqliteStore(path), view)


# -- identity ------------------------------------------------------------------------------


class Nameless(Broken):
    """Has no name."""

    def __init__(self, inner: Store, view: type[View] = View) -> None:
        super().__init__(inner, view)
        self.name = ""


class Furnished(View):
    """A new store that has a bank."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        return self.inner.banks(start, limit=limit) or ["blake3:" + "3" * 64]


class ListsTheBegun(View):
    """Lists a bank that has no head yet."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        return sorted(self.inner.banks(start, limit=limit) + self.inner.begun())


class ForgetsTheBegun(View):
    """Does not report pending imports."""

    def begun(self) -> list[str]:
        return []


class AnyStart(View):
    """Lists banks regardless of the given prefix."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        found: list[str] = self.inner.banks(limit=limit)
        return found


class BanksWithoutEnd(View):
    """Lists all banks regardless of the limit."""

    def banks(self, start: str = "", *, limit: int | None = None) -> list[str]:
        found: list[str] = self.inner.banks(start)
        return found


class Naming(View):
    """Finds banks by name in their rows."""

    types: frozenset[str] | None = frozenset({"bank", "config"})

    def named(self, said: bytes) -> list[str]:
        return [bank for bank in self.banks() if any(map(self.says(said), self.rows(bank)))]

    def rows(self, bank: str) -> Iterator[Row]:
        yield from self.inner.scan(bank, Filter(types=self.types, retired=True, held=True))

    def says(self, said: bytes) -> Callable[[Row], bool]:
        return lambda row: said in (row.body or b"")


class MissesRenamed(Naming):
    """Uses the founding name of a bank only."""

    types = frozenset({"bank"})


class MissesFounded(Naming):
    """Uses later names of a bank only."""

    types = frozenset({"config"})


class NamedByMemories(Naming):
    """Uses text of memories as the name of their bank."""

    types = None


class NamesTheBegun(Naming):
    """Returns a bank whose creation is not complete."""

    def banks(self) -> list[str]:
        return sorted(self.inner.banks() + self.inner.begun())


class FirstNameOnly(Naming):
    """Uses only the first name in the records."""

    def says(self, said: bytes) -> Callable[[Row], bool]:
        return lambda row: (row.body or b"").partition(b'"name":')[2].startswith(said[7:])


class StartsOfNames(Naming):
    """Matches names by prefix."""

    def says(self, said: bytes) -> Callable[[Row], bool]:
        return lambda row: said.rstrip(b'"') in (row.body or b"")


class StaleNames(View):
    """Caches the result of the first look-up of a name."""

    def named(self, said: bytes) -> list[str]:
        found: list[str] = self.store.kept.setdefault(said, self.inner.named(said))
        return found


class HeadOfNothing(View):
    """Returns a head for an unknown bank."""

    def head(self, bank: str) -> StoredHead:
        return self.inner.head(bank) or StoredHead(b"", b"")


class FailsClosing(Broken):
    """Can be closed only once."""

    closed = False

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True
        super().close()


# -- rows ---------------------------------------------------------------------------------


class Rows(View):
    """Returns each row changed."""

    def row(self, row: Row) -> Row:
        return row

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return map(self.row, self.inner.scan(bank, wanted, after=after, **more))

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        return [self.row(row) for row in self.inner.get(bank, ids)]

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        return [self.row(row) for row in self.inner.at(bank, places)]

    def current(self, bank: str, slot: str) -> Row | None:
        row = self.inner.current(bank, slot)
        return None if row is None else self.row(row)


def forgets(column: str, value: object = None) -> type[Rows]:
    """Return a store that returns every row with a column empty."""

    class Forgets(Rows):
        def row(self, row: Row) -> Row:
            return msgspec.structs.replace(row, **{column: value})

    return Forgets


class LosesTheLast(View):
    """Omits the newest row."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return iter(list(self.inner.scan(bank, wanted, after=after, **more))[:-1])


class Unordered(View):
    """Lists newest first."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        yield from list(self.inner.scan(bank, wanted, after=after, **more))[::-1]


class Greedy(View):
    """Reads the whole bank before it returns a row."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return iter(list(self.inner.scan(bank, wanted, after=after, **more)))


class SwapsBodies(View):
    """Returns each row with the body of its neighbor."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        rows = list(self.inner.scan(bank, wanted, after=after, **more))
        for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
            yield msgspec.structs.replace(row, body=other.body)


class EmptyForErased(Rows):
    """Returns an empty body for an erased record."""

    def row(self, row: Row) -> Row:
        return msgspec.structs.replace(row, body=row.body or b"")


class CutsLong(Rows):
    """Truncates records to 64 KiB."""

    def row(self, row: Row) -> Row:
        return msgspec.structs.replace(row, body=(row.body or b"")[: 2**16])


class CountsOnce(View):
    """Caches the counts of a bank."""

    def counts(self, bank: str) -> dict[str, int]:
        found: dict[str, int] = self.store.kept.setdefault(bank, self.inner.counts(bank))
        return found


class NodesOffByOne(View):
    """Returns the node after the requested one."""

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        found = self.inner.nodes(bank, [place + 1 for place in positions])
        return {place - 1: node for place, node in found.items()}


class NodesLost(View):
    """Finds no node after the first hundred."""

    def nodes(self, bank: str, positions: Sequence[int]) -> dict[int, bytes]:
        return dict(self.inner.nodes(bank, [place for place in positions if place < 100]))


# -- texts --------------------------------------------------------------------------------


class Folding(View):
    """Normalizes texts in rows, filters, slots and names."""

    def folded(self, text: str) -> str:
        return text

    def _folded(self, value: Any) -> Any:
        return self.folded(value) if isinstance(value, str) else value

    def append(self, bank: str, commit: Commit) -> None:
        names = ("slot", "kind", "user", "agent", "run", "app", "session")
        rows = [
            msgspec.structs.replace(row, **{n: self._folded(getattr(row, n)) for n in names})
            for row in commit.rows
        ]
        side = {self.folded(name): value for name, value in commit.side.items()}
        self.inner.append(bank, replace(commit, rows=rows, side=side))

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return iter(
            self.inner.scan(bank, replace(wanted, user=self._folded(wanted.user)), after=after)
        )

    def current(self, bank: str, slot: str) -> Row | None:
        row: Row | None = self.inner.current(bank, self.folded(slot))
        return row

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        return dict(self.inner.side(bank, self.folded(prefix)))


class CutsAtNul(Folding):
    """Truncates texts at the first NUL, as C does."""

    def folded(self, text: str) -> str:
        return text.partition("\0")[0]


class Composes(Folding):
    """Applies Unicode composition to texts."""

    def folded(self, text: str) -> str:
        return unicodedata.normalize("NFC", text)


class IgnoresCase(Folding):
    """Ignores case."""

    def folded(self, text: str) -> str:
        return text.casefold()


class Trims(Folding):
    """Strips spaces around a text."""

    def folded(self, text: str) -> str:
        return text.strip(" ")


# -- look-ups ------------------------------------------------------------------------------


class IgnoresAfter(View):
    """Lists from the start regardless of ``after``."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return iter(self.inner.scan(bank, wanted))


def ignores(member: str) -> type[View]:
    """Return a store that ignores a member of a filter."""
    neutral: dict[str, Any] = {member: True if member in ("retired", "held") else None}

    class Ignores(View):
        def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
            yield from self.inner.scan(bank, replace(wanted, **neutral), after=after)

    return Ignores


class UntilIncluded(View):
    """Includes the end of a time range."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        wider = replace(wanted, until=None)
        for row in self.inner.scan(bank, wider, after=after):
            inside = row.moment is not None and row.moment <= (wanted.until or "")
            if wanted.until is None or inside:
                yield row


class FindsTwice(View):
    """Returns a record as often as its position is requested."""

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        return [row for place in places for row in self.inner.at(bank, [place])]


class CountsFromTheEnd(View):
    """Counts negative positions from the end."""

    def at(self, bank: str, places: Sequence[int]) -> list[Row]:
        size = sum(self.inner.counts(bank).values())
        return list(self.inner.at(bank, [place % size for place in places]))


class MissesIds(View):
    """Returns nothing if one of the IDs is unknown."""

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        found: list[Row] = self.inner.get(bank, ids)
        return found if len(found) == len(set(ids)) else []


class AnyDigits(View):
    """Finds IDs by the first digit only."""

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        return list(self.inner.ids(bank, digits[:1], limit=limit))


class DigitsOfPairs(View):
    """Finds IDs by whole bytes, and ignores a half byte."""

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        return list(self.inner.ids(bank, digits[: len(digits) // 2 * 2], limit=limit))


class IdsOfAll(View):
    """Finds IDs of every bank."""

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        banks = self.inner.banks()
        return sorted(each for one in banks for each in self.inner.ids(one, digits, limit=limit))


class IdsWithoutEnd(View):
    """Returns more IDs than the limit."""

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        return list(self.inner.ids(bank, digits, limit=9 * limit))


class CapitalDigits(View):
    """Accepts capital digits."""

    def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
        return list(self.inner.ids(bank, digits.lower(), limit=limit))


class OneWay(View):
    """Follows links from their source only."""

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        return iter(self.inner.neighbors(bank, end, incoming=False))


class NoParents(View):
    """Follows edges but not parents of entries."""

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        found = self.inner.neighbors(bank, end, incoming=incoming)
        return (row for row in found if row.type == "edge")


class Unsorted(View):
    """Returns links in any order."""

    def neighbors(self, bank: str, end: str, *, incoming: bool) -> Iterator[Row]:
        yield from list(self.inner.neighbors(bank, end, incoming=incoming))[::-1]


class AnyKind(View):
    """Follows links of any kind."""

    def links(self, bank: str, ends: Sequence[str], **asked: Any) -> list[LoggedLink]:
        return list(self.inner.links(bank, ends, **{**asked, "kinds": None}))


class OneWayWalk(View):
    """Walks from source to target only."""

    def links(self, bank: str, ends: Sequence[str], **asked: Any) -> list[LoggedLink]:
        return [] if asked["incoming"] else list(self.inner.links(bank, ends, **asked))


class Tireless(View):
    """Returns all links regardless of the limit."""

    def links(self, bank: str, ends: Sequence[str], **asked: Any) -> list[LoggedLink]:
        return list(self.inner.links(bank, ends, **{**asked, "limit": 10**9}))


class WalksAll(View):
    """Walks links of retired and quarantined records, too."""

    def links(self, bank: str, ends: Sequence[str], **asked: Any) -> list[LoggedLink]:
        found = (
            LoggedLink(row.seq, link)
            for end in ends
            for row in self.inner.neighbors(bank, end, incoming=asked["incoming"])
            for link in row.links
        )
        return sorted(found)[: asked["limit"]]


class OneEach(View):
    """Returns at most one link of each kind."""

    def links(self, bank: str, ends: Sequence[str], **asked: Any) -> list[LoggedLink]:
        found = self.inner.links(bank, ends, **asked)
        return list({linked.link.kind: linked for linked in reversed(found)}.values())


class AnyPrefix(View):
    """Returns all side values regardless of the prefix."""

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        return dict(self.inner.side(bank))


class KeepsSide(View):
    """Never removes a side value."""

    def append(self, bank: str, commit: Commit) -> None:
        side = {name: value for name, value in commit.side.items() if value is not None}
        self.inner.append(bank, replace(commit, side=side))


# -- words ---------------------------------------------------------------------------------


class Mute(View):
    """Claims to support full-text search, and finds nothing."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return []


class LatinOnly(View):
    """Finds words between spaces only, and nothing in scripts without spaces."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return (
            list(self.inner.candidates(bank, text, limit=limit, **more)) if text.isascii() else []
        )


class RemembersWords(View):
    """Finds retired records."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        found = self.inner.candidates(bank, text, limit=limit, **more)
        if found:
            self.store.kept[bank, text] = found
        return list(self.store.kept.get((bank, text), []))


class WordsOfAll(View):
    """Finds positions of another bank."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return [
            found
            for every in self.inner.banks()
            for found in self.inner.candidates(every, text, limit=limit, **more)
        ]


class WorstFirst(View):
    """Ranks the best match last."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return list(self.inner.candidates(bank, text, limit=limit, **more))[::-1]


class Boundless(View):
    """Returns more candidates than the limit."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return list(self.inner.candidates(bank, text, limit=9 * limit, **more))


class CommonToo(View):
    """Matches every word, however common."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        words = [self.inner.candidates(bank, word, limit=limit, **more) for word in text.split()]
        found = {place: score for some in words for place, score in some}
        return sorted(found.items(), key=lambda pair: -pair[1])[:limit]


class KeepsStopWords(View):
    """Does not index words that are usually omitted."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return (
            [] if text == "to be" else list(self.inner.candidates(bank, text, limit=limit, **more))
        )


class WantsAll(View):
    """Matches by words only, and ignores the filter."""

    def candidates(
        self, bank: str, text: str, *, limit: int, **more: Any
    ) -> list[tuple[int, float]]:
        return list(self.inner.candidates(bank, text, limit=limit))


class OldestFirst(View):
    """Lists in one order only."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **_: Any) -> Iterator[Row]:
        return iter(self.inner.scan(bank, wanted, after=after))


class Turnless(View):
    """Does not index the previous turn."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = [msgspec.structs.replace(row, session=None) for row in commit.rows]
        self.inner.append(bank, replace(commit, rows=rows))


# -- banks ---------------------------------------------------------------------------------


class OneListing(View):
    """Lists the first bank for every request."""

    def scan(self, bank: str, wanted: Filter, *, after: int = -1, **more: Any) -> Iterator[Row]:
        return iter(self.inner.scan(self.inner.banks()[0], wanted, after=after, **more))


class OneSide(View):
    """Shares side values among all banks."""

    def side(self, bank: str, prefix: str = "") -> dict[str, bytes]:
        return dict(self.inner.side(self.inner.banks()[0], prefix))


class FindsEverywhere(View):
    """Finds records of any bank."""

    def get(self, bank: str, ids: Sequence[str]) -> list[Row]:
        return [row for every in self.inner.banks() for row in self.inner.get(every, ids)]


# -- committing ----------------------------------------------------------------------------


class TakesSlotTwice(View):
    """Allows two current records in one slot."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = commit.rows
        try:
            self.inner.append(bank, commit)
        except SlotTakenError:
            rows = [msgspec.structs.replace(row, slot=None) for row in rows]
            self.inner.append(bank, replace(commit, rows=rows, changes=()))


class LogsTwice(View):
    """Appends a known record again."""

    def append(self, bank: str, commit: Commit) -> None:
        try:
            self.inner.append(bank, commit)
        except SlotTakenError:
            raise
        except SatchelError:
            rows = [msgspec.structs.replace(row, id=f"{row.id[:-1]}?") for row in commit.rows]
            self.inner.append(bank, replace(commit, rows=rows))


class KeepsPart(View):
    """Keeps the first rows of a refused append."""

    def append(self, bank: str, commit: Commit) -> None:
        try:
            self.inner.append(bank, commit)
        except SlotTakenError:
            self.inner.append(bank, replace(commit, rows=(), nodes=(), changes=()))
            raise


class IgnoresChanges(View):
    """Appends rows without updating earlier ones."""

    def append(self, bank: str, commit: Commit) -> None:
        self.inner.append(bank, replace(commit, changes=()))


class EagerSide(Broken):
    """Writes side values before the commit."""

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self.inner.writing() as writer:
            yield _Eager(writer, self)


class _Eager(View):
    def append(self, bank: str, commit: Commit) -> None:
        self.inner.append(bank, commit)
        memory = self.store.inner
        assert isinstance(memory, InMemoryStore)
        values = dict(memory._side.get(bank, {}))
        values.update({name: value for name, value in commit.side.items() if value is not None})
        memory._side[bank] = values


class Eager(Broken):
    """Shows appended rows before the commit, and keeps them after a failure."""

    @contextmanager
    def writing(self) -> Iterator[Any]:
        yield _AtOnce(None, self)


class _AtOnce(View):
    def append(self, bank: str, commit: Commit) -> None:
        with self.store.inner.writing() as writing:
            writing.append(bank, commit)

    def __getattr__(self, name: str) -> Any:
        with self.store.inner.reading() as reader:
            return getattr(reader, name)


class Moving(Broken):
    """A view shows commits of its lifetime."""

    @contextmanager
    def reading(self) -> Iterator[Any]:
        yield _Latest(None, self)


class _Latest(View):
    def __getattr__(self, name: str) -> Any:
        with self.store.inner.reading() as reader:
            return getattr(reader, name)


class Stale(Broken):
    """A thread always sees the state of its first read."""

    def __init__(self, inner: Store, view: type[View] = View) -> None:
        super().__init__(inner, view)
        self.local = threading.local()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        if not hasattr(self.local, "view"):
            with self.inner.reading() as self.local.view:
                pass
        yield self.local.view


class Unlocked(InMemoryStore):
    """Allows two concurrent writers, of which the later wins."""

    def __init__(self) -> None:
        super().__init__()
        self._met = threading.Barrier(2, timeout=1)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self.reading() as before:
            banks, side = dict(before._banks), dict(before._side)
        with InMemoryStore().writing() as mine:
            mine._banks, mine._side = banks, side
            with _despite(threading.BrokenBarrierError):
                self._met.wait()
            yield mine
            self._banks, self._side = mine._banks, mine._side


@contextmanager
def _despite(error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except error:
        return


# -- removing ------------------------------------------------------------------------------


class ErasesNothing(View):
    """Notes an erasure, and keeps the record."""

    def append(self, bank: str, commit: Commit) -> None:
        self.inner.append(bank, replace(commit, erased=()))


class ErasesBytesOnly(View):
    """Empties the body, and keeps derived values."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = {row.seq: row for row in self.inner.at(bank, list(commit.erased))}
        self.inner.append(bank, replace(commit, erased=()))
        found = {row.seq: row for row in self.inner.at(bank, list(rows))}
        emptied = [
            msgspec.structs.replace(row, body=None, retired=found[seq].retired)
            for seq, row in rows.items()
        ]
        if emptied:
            self.inner.rewrite(bank, emptied)


class ReplacesNothing(View):
    """Erases without storing the replacement."""

    def append(self, bank: str, commit: Commit) -> None:
        self.inner.append(bank, replace(commit, replaced=()))


class ReplacesBytesOnly(View):
    """Replaces the body, and keeps the old index entries."""

    def append(self, bank: str, commit: Commit) -> None:
        before = {row.seq: row for row in self.inner.at(bank, list(commit.erased))}
        old = [msgspec.structs.replace(before[row.seq], body=row.body) for row in commit.replaced]
        self.inner.append(bank, replace(commit, replaced=old))


class KeepsVectorsOfErased(View):
    """Keeps vectors of erased records."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = self.inner.at(bank, list(commit.erased))
        kept = [
            (generation, self.inner.vectors.get(bank, generation, [row.id for row in rows]))
            for generation in (self.inner.vectors.generations(bank) if rows else ())
        ]
        self.inner.append(bank, commit)
        for generation, vectors in kept:
            self.inner.vectors.put(bank, generation, vectors)


class RemembersTurns(View):
    """Keeps index entries of earlier turns."""

    def candidates(self, bank: str, text: str, *, limit: int) -> list[tuple[int, float]]:
        return [(place, 1.0) for place in range(9)][:limit]


class ErasesAtOnce(View):
    """Erases before the rest of the transaction is valid."""

    def append(self, bank: str, commit: Commit) -> None:
        rows = self.inner.at(bank, list(commit.erased))
        if rows:
            self.inner.rewrite(bank, [row.erased() for row in rows])
        self.inner.append(bank, replace(commit, erased=()))


class RewritesFullOnly(View):
    """Repairs only rows with a body."""

    def rewrite(self, bank: str, rows: Any) -> None:
        self.inner.rewrite(bank, [row for row in rows if row.body is not None])


class RemovesNothing(View):
    """Never removes a bank."""

    def remove(self, bank: str) -> None:
        pass


class RemovesAll(View):
    """Removes every bank."""

    def remove(self, bank: str) -> None:
        for every in self.inner.banks():
            self.inner.remove(every)


class KeepsSideOfRemoved(View):
    """Removes a bank without its side values."""

    def remove(self, bank: str) -> None:
        side = self.inner.side(bank)
        self.inner.remove(bank)
        self.inner.put_side(bank, side)


class RemovesAtOnce(Broken):
    """Removes a bank even if the transaction fails."""

    @contextmanager
    def writing(self) -> Iterator[Any]:
        removed = list[str]()
        try:
            with self.inner.writing() as writer:
                yield _Removing(writer, self, removed)
        finally:
            with self.inner.writing() as writer:
                for bank in removed:
                    writer.remove(bank)


class _Removing(View):
    def __init__(self, inner: Any, store: Broken, removed: list[str]) -> None:
        super().__init__(inner, store)
        self.removed = removed

    def remove(self, bank: str) -> None:
        self.removed.append(bank)


class ScrubsTooMuch(Broken):
    """Treats side values as garbage."""

    def scrub(self) -> None:
        self.inner.scrub()
        with self.inner.writing() as writer:
            for bank in writer.banks():
                writer.put_side(bank, dict.fromkeys(writer.side(bank)))


class ScrubsRetired(Broken):
    """Treats the newest record as garbage."""

    def scrub(self) -> None:
        self.inner.scrub()
        with self.inner.writing() as writer:
            for bank in writer.banks():
                last = sum(writer.counts(bank).values()) - 1
                (row,) = writer.at(bank, [last])
                writer.rewrite(bank, [row.erased()])


# -- durability ----------------------------------------------------------------------------


class Forgetful(InMemoryStore):
    """Claims to be durable, and stores nothing."""

    traits = DURABLE


class WholeFile(InMemoryStore):
    """Reads a file when it is opened, and rewrites it for each commit.

    Durable, but of two processes the later one overwrites the changes of the earlier.
    """

    traits = DURABLE
    each_commit = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.name = str(path)
        if path.exists():
            self._banks, self._side = pickle.loads(path.read_bytes())  # noqa: S301 - our own

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with super().writing() as writing:
            yield writing
        if self.each_commit:
            self.save()

    def save(self) -> None:
        """Write the complete state."""
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_bytes(pickle.dumps((self._banks, self._side)))
        new.rename(self.path)


class SavesLast(WholeFile):
    """Writes its file only when it is closed."""

    each_commit = False

    def close(self) -> None:
        if self._banks:
            self.save()
        super().close()


class CopiesTheNewest(Broken):
    """Copies the newest state instead of that of the view."""

    def copy_to(self, path: Path, **options: Any) -> None:
        newest = SqliteStore(Path(self.name))
        newest.copy_to(path, **options)
        newest.close()


class CopiesOver(Broken):
    """Overwrites an existing copy."""

    def copy_to(self, path: Path, **options: Any) -> None:
        path.unlink(missing_ok=True)
        super().copy_to(path, **options)


class SameStamp(View):
    """Returns the same stamp after changes by others."""

    def stamp(self) -> int:
        return 0


class RestlessStamp(View):
    """Returns a new stamp each time."""

    def stamp(self) -> int:
        self.store.kept["stamp"] = self.store.kept.get("stamp", 0) + 1
        return int(self.store.kept["stamp"])


class ForgetsMarks(View):
    """Reports no row as retired, pending or quarantined."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        blocks = self.inner.column_blocks(bank, names, first=first, end=end, **how)
        return [block._replace(marked=[]) for block in blocks]


class StartsAtTheFirstBlock(View):
    """Ignores the start of a range of blocks."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        return list(self.inner.column_blocks(bank, names, first=0, end=end, **how))


class GoesOnToTheLastBlock(View):
    """Ignores the end of a range of blocks."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        return list(self.inner.column_blocks(bank, names, first=first, **how))


class BlocksOfOneSize(View):
    """Returns blocks of 256 rows regardless of the requested size."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        return list(self.inner.column_blocks(bank, names, first=first, end=end))


class OtherValuesWithoutMarks(View):
    """Returns empty columns if marks are not requested."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        blocks = self.inner.column_blocks(bank, names, first=first, end=end, **how)
        is_marked = how.get("marked", True)
        values = None if is_marked else (b"",) * len(names)
        return [block if values is None else block._replace(values=values) for block in blocks]


class JoinsValues(View):
    """Concatenates the values of a column ambiguously."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        rows, found = list(self.inner.scan(bank, ALL)), []
        for block in self.inner.column_blocks(bank, names, first=first, end=end, **how):
            kept = [",".join(getattr(row, name) or "" for row in rows).encode() for name in names]
            found.append(block._replace(values=tuple(kept)))
        return found


class SameForAllColumns(View):
    """Returns the same bytes for any values of a column."""

    def column_blocks(
        self, bank: str, names: Any, *, first: int, end: int | None = None, **how: Any
    ) -> list[Any]:
        blocks = self.inner.column_blocks(bank, names, first=first, end=end, **how)
        return [block._replace(values=(b"",) * len(names)) for block in blocks]


class LinksOfAll(View):
    """Lists links of every bank."""

    def every_link(self, bank: str) -> list[LoggedLink]:
        return [link for one in self.inner.banks() for link in self.inner.every_link(one)]


class LinksOnce(View):
    """Lists one link of each record."""

    def every_link(self, bank: str) -> list[LoggedLink]:
        return list({link.place: link for link in self.inner.every_link(bank)}.values())


class NeverMisindexed(View):
    """Reports every index as correct."""

    def misindexed(self, bank: str, rows: Any) -> list[int]:
        return []


class Orphaning(View):
    """Reports leftover rows."""

    def orphans(self) -> list[str]:
        return ["there are files that belong to no bank"]


class WordsOfAllRows(View):
    """Reports that every row is indexed."""

    def word_positions(self, bank: str) -> list[int]:
        return [row.seq for row in self.inner.scan(bank, ALL)]
