"""Each promise of what is beside the log fails for a store that breaks it."""

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, Phase, settings

from satchel.conformance.stores import side_data as promises
from satchel.conformance.stores.oracle import StoreSubject
from satchel.errors import SatchelError
from satchel.ports.rows import RowState
from satchel.ports.store import StoreTraits
from satchel.ports.vectors import Generation, VectorValues
from satchel.stores.memory import InMemoryStore


class _Vectors:
    """Passes everything on."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Blobs(_Vectors):
    """Passes everything on."""


class _View(_Vectors):
    """A view whose vectors or blobs are broken."""

    def __init__(self, inner: Any, vectors: type[_Vectors], blobs: type[_Blobs]) -> None:
        super().__init__(inner)
        self._parts = vectors, blobs

    @property
    def vectors(self) -> Any:
        return self._parts[0](self._inner.vectors)

    @property
    def blobs(self) -> Any:
        return self._parts[1](self._inner.blobs)


class _Store:
    """A store in memory with something broken."""

    traits = replace(InMemoryStore.traits, durable=True)
    name = "broken"

    def __init__(self, vectors: type[_Vectors] = _Vectors, blobs: type[_Blobs] = _Blobs) -> None:
        self._inner = InMemoryStore()
        self._parts = vectors, blobs

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._inner.reading() as view:
            yield _View(view, *self._parts)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self._inner.writing() as view:
            yield _View(view, *self._parts)

    def scrub(self) -> None:
        self._inner.scrub()

    def check(self) -> list[str]:
        return self._inner.check()

    def close(self) -> None:
        """Keep everything: it is opened again."""


class _Short(_Vectors):
    """Keeps 32 bits of each number."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Any]) -> None:
        kind = f"<{generation.dimensions}f"
        short = dict(vectors)
        for name, vector in vectors.items():
            if not isinstance(vector, bytes):
                with suppress(OverflowError, struct.error):
                    short[name] = struct.unpack(kind, struct.pack(kind, *vector))
        self._inner.put(bank, generation, short)


class _Unsigned(_Vectors):
    """Takes the sign from zeros."""

    def get(self, *asked: Any) -> dict[str, tuple[float, ...]]:
        found = self._inner.get(*asked)
        return {name: tuple(x + 0.0 for x in numbers) for name, numbers in found.items()}


class _First(_Vectors):
    """Keeps what was put first."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        there = self._inner.get(bank, generation, list(vectors))
        new = {name: vector for name, vector in vectors.items() if name not in there}
        self._inner.put(bank, generation, new)


class _Lenient(_Vectors):
    """Leaves out what it cannot keep."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        for name, vector in vectors.items():
            with suppress(SatchelError):
                self._inner.put(bank, generation, {name: vector})


class _Halfway(_Vectors):
    """Keeps what came before a refused one."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        for name, vector in vectors.items():
            self._inner.put(bank, generation, {name: vector})


class _Nameless(_Vectors):
    """Does not say which vector it refuses."""

    def put(self, *given: Any) -> None:
        try:
            self._inner.put(*given)
        except SatchelError as error:
            error.field = None
            raise


class _Mixing(_Vectors):
    """Calls all generations of a length the same."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        self._inner.put(bank, Generation("any", generation.dimensions), vectors)

    def get(self, bank: str, generation: Generation, ids: Sequence[str]) -> Any:
        return self._inner.get(bank, Generation("any", generation.dimensions), ids)

    def near(self, bank: str, generation: Generation, vector: VectorValues, *, limit: int) -> Any:
        return self._inner.near(bank, Generation("any", len(vector)), vector, limit=limit)


class _Keeping(_Vectors):
    """Drops nothing."""

    def drop(self, *asked: Any) -> None:
        self._inner.generations(asked[0])


class _Dot(_Vectors):
    """Does not divide by the lengths."""

    def near(self, bank: str, generation: Generation, vector: Any, *, limit: int) -> Any:
        found = self._inner.near(bank, generation, vector, limit=limit)
        kept = self._inner.get(bank, generation, [name for name, _ in found])
        scores = {
            name: sum(x * y for x, y in zip(numbers, vector, strict=True))
            for name, numbers in kept.items()
        }
        return heapq.nlargest(limit, scores.items(), key=lambda pair: pair[1])


class _Shuffling(_Vectors):
    """Gives equal ones the other way around."""

    def near(self, *asked: Any, limit: int) -> Any:
        found = self._inner.near(*asked, limit=2**30)[::-1]
        return heapq.nlargest(limit, found, key=lambda pair: pair[1])


class _Worst(_Vectors):
    """Gives the worst first."""

    def near(self, *asked: Any, limit: int) -> Any:
        return self._inner.near(*asked, limit=limit)[::-1]


class _Generous(_Vectors):
    """Gives more than was asked for."""

    def near(self, *asked: Any, limit: int) -> Any:
        return self._inner.near(*asked, limit=limit + 1)


class _Late(_Vectors):
    """Takes the best, and looks only then which of them are current."""

    def near(self, bank: str, generation: Generation, vector: VectorValues, *, limit: int) -> Any:
        found = self._inner._banks[bank]
        rows = found.rows
        found.rows = [row.changed(RowState(None, hold=False)) for row in rows]
        try:
            best = self._inner.near(bank, generation, vector, limit=limit)
        finally:
            found.rows = rows
        gone = {row.id for row in rows if row.retired is not None or row.hold}
        return [pair for pair in best if pair[0] not in gone]


class _Final(_Vectors):
    """Has no vectors any more for what was retired once."""

    def get(self, bank: str, generation: Generation, ids: Sequence[str]) -> Any:
        current = {name for name, _ in self.near(bank, generation, [1, 0], limit=99)}
        return self._inner.get(bank, generation, [name for name in ids if name in current])


class _Anywhere(_Vectors):
    """Has vectors for banks that are not here."""

    def generations(self, bank: str) -> Any:
        return self._inner.generations(bank) if bank in self._inner._banks else {}


class _Hasty(_Vectors):
    """Changes what is there in its place."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        there = self._inner._banks[bank].vectors.get(generation)
        self._inner.put(bank, generation, vectors)
        if there is not None:
            there.update(self._inner._banks[bank].vectors[generation])


class _Padding(_Blobs):
    """Fills up the last piece."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return (piece or b"\0" for piece in [*self._inner.get(bank, digest), b""])


class _Twice(_Blobs):
    """Keeps the same once more."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        return ((digest, size * 2) for digest, size in self._inner.listed(bank))


class _ByPiece(_Blobs):
    """Names a blob by the hashes of the chunks that it came in."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = list(chunks)
        self._inner.put(bank, kept)
        hashes = b"".join(blake3(chunk).digest() for chunk in kept)
        return "blake3:" + blake3(hashes).hexdigest()


class _Whole(_Blobs):
    """Gives a blob in one piece."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return iter([b"".join(self._inner.get(bank, digest))])


class _Backwards(_Blobs):
    """Gives the last piece first."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return iter(list(self._inner.get(bank, digest))[::-1])


class _Shared(_Blobs):
    """Looks in all banks."""

    def has(self, bank: str, digest: str) -> bool:
        return any(digest in found.blobs for found in self._inner._banks.values())


class _Vague(_Blobs):
    """Gives nothing for what is not there."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return self._inner.get(bank, digest) if self._inner.has(bank, digest) else iter([])


class _Undropped(_Blobs):
    """Drops nothing."""

    def drop(self, bank: str, digest: str) -> None:
        self._inner.has(bank, digest)


class _Salvaging(_Blobs):
    """Keeps what came before the failure."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = list[bytes]()
        try:
            kept.extend(chunks)
        finally:
            digest: str = self._inner.put(bank, kept)
        return digest


class _Emptying(_Blobs):
    """Drops what is there before it has the new one."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        before = dict(self._inner._banks[bank].blobs)
        for digest in before:
            self._inner.drop(bank, digest)
        digest = self._inner.put(bank, chunks)
        for kept in before.values():
            self._inner.put(bank, kept)
        return str(digest)


class _Alone(_Blobs):
    """Cannot read while it writes."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = [chunk for chunk in chunks if isinstance(chunks, list)]
        return str(self._inner.put(bank, kept))


class _Nowhere(_Blobs):
    """Has blobs for banks that are not here."""

    def has(self, bank: str, digest: str) -> bool:
        return bank in self._inner._banks and self._inner.has(bank, digest)


class _Direct(_Blobs):
    """Publishes what is put at once."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        before = self._inner._banks[bank]
        digest = self._inner.put(bank, chunks)
        before.blobs.update(self._inner._banks[bank].blobs)
        return str(digest)


_SABOTEURS: dict[str, Iterable[type[_Vectors]]] = {
    "test_vectors_are_returned_bit_for_bit": [_Short, _Unsigned, _First],
    "test_an_invalid_vector_is_refused_by_name": [_Lenient, _Halfway, _Nameless],
    "test_a_vector_without_a_record_is_refused_by_name": [_Lenient, _Halfway, _Nameless],
    "test_vectors_of_different_generations_never_mix": [_Mixing, _Keeping],
    "test_nearest_vectors_are_ordered_by_cosine": [_Dot, _Shuffling, _Worst, _Generous],
    "test_only_current_records_are_found_by_vectors": [_Late, _Final],
    "test_a_blob_is_read_as_written_whatever_its_chunks": [_Padding, _Twice, _ByPiece],
    "test_a_large_blob_is_read_in_small_chunks": [_Whole, _Backwards],
    "test_a_blob_exists_until_it_is_dropped": [_Shared, _Vague, _Undropped],
    "test_an_interrupted_blob_leaves_nothing": [_Salvaging, _Emptying],
    "test_a_blob_can_be_copied_within_a_store": [_Alone],
    "test_side_data_requires_its_bank": [_Anywhere, _Nowhere],
    "test_side_data_is_committed_with_its_transaction": [_Hasty, _Direct],
    "test_side_data_is_durable_after_reopening": [_Vectors, _Blobs],
}
"""In the last, a part is emptied when the store is opened again."""

_QUICKLY = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=200,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _promises() -> dict[str, Callable[..., None]]:
    return {name: getattr(promises, name) for name in promises.__all__}


def _runs(promise: str, subject: StoreSubject) -> None:
    """Keep a promise, once for each of its parameters."""
    check: Any = _promises()[promise]
    marks = [mark for mark in getattr(check, "pytestmark", []) if mark.name == "parametrize"]
    if not marks:
        check(store=subject)
    for mark in marks:
        name, values = mark.args
        for value in values:
            check(store=subject, **{name: value})


def _subject(broken: type[_Vectors], reopen: Any = lambda store: store) -> StoreSubject:
    """Return a store that is broken; ``reopen`` gives it again after it was closed."""
    parts = {"blobs" if issubclass(broken, _Blobs) else "vectors": broken}
    return StoreSubject("broken", lambda: _Store(**parts), lambda store: partial(reopen, store))  # type: ignore[arg-type]


def _emptied(broken: type[_Vectors]) -> Callable[[Any], Any]:
    def reopen(store: Any) -> Any:
        for bank in store._inner._banks.values():
            (bank.blobs if broken is _Blobs else bank.vectors).clear()
        return store

    return reopen


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in _promises().values():
        monkeypatch.setattr(check, "_hypothesis_internal_use_settings", _QUICKLY, raising=False)


def test_there_are_promises_and_each_has_a_saboteur() -> None:
    """A new promise comes with a store that breaks it."""
    assert set(_promises()) == set(_SABOTEURS)
    assert all(_SABOTEURS.values())


@pytest.mark.parametrize("promise", sorted(_SABOTEURS))
def test_a_store_in_the_same_clothes_keeps_the_promise(promise: str) -> None:
    """So it is the sabotage that is noticed, not the wrapping."""
    _runs(promise, _subject(_Vectors))


@pytest.mark.parametrize(
    ("promise", "saboteur"),
    [(name, one) for name, several in _SABOTEURS.items() for one in several],
)
def test_a_broken_promise_is_noticed(promise: str, saboteur: type[_Vectors]) -> None:
    """The promise fails for its saboteur; skipping it would hide the break."""
    again = promise == "test_side_data_is_durable_after_reopening"
    subject = _subject(saboteur, _emptied(saboteur)) if again else _subject(saboteur)
    noticed = False
    try:
        _runs(promise, subject)
    except (AssertionError, SatchelError):  # a refusal of what it promises; no other crash counts
        noticed = True
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        noticed = isinstance(outcome, pytest.fail.Exception)

    assert noticed


def test_a_store_without_vectors_keeps_all_promises_of_blobs() -> None:
    """Only what is about vectors alone is skipped where the trait is off."""

    class Modest(_Store):
        traits = StoreTraits(durable=True)

    skipped = set()
    for promise in _SABOTEURS:
        try:
            _runs(promise, StoreSubject("modest", Modest, lambda store: lambda: store))
        except pytest.skip.Exception:
            skipped.add(promise)

    assert skipped == {
        "test_vectors_are_returned_bit_for_bit",
        "test_an_invalid_vector_is_refused_by_name",
        "test_a_vector_without_a_record_is_refused_by_name",
        "test_vectors_of_different_generations_never_mix",
        "test_nearest_vectors_are_ordered_by_cosine",
        "test_only_current_records_are_found_by_vectors",
    }
