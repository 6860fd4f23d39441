"""The conformance suite of side data fails for stores that break it."""

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from blake3 import blake3
from suite_kit import fails, shorten

from satchel.conformance.stores import side_data as suite
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
    """A store in memory with a broken part."""

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
        """Do nothing, since it is opened again."""


class _SinglePrecision(_Vectors):
    """Stores 32 bits of each number."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Any]) -> None:
        kind = f"<{generation.dimensions}f"
        short = dict(vectors)
        for name, vector in vectors.items():
            if not isinstance(vector, bytes):
                with suppress(OverflowError, struct.error):
                    short[name] = struct.unpack(kind, struct.pack(kind, *vector))
        self._inner.put(bank, generation, short)


class _UnsignedZeros(_Vectors):
    """Drops the sign of zeros."""

    def get(self, *asked: Any) -> dict[str, tuple[float, ...]]:
        found = self._inner.get(*asked)
        return {name: tuple(x + 0.0 for x in numbers) for name, numbers in found.items()}


class _NotReplacing(_Vectors):
    """Does not replace a vector."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        there = self._inner.get(bank, generation, list(vectors))
        new = {name: vector for name, vector in vectors.items() if name not in there}
        self._inner.put(bank, generation, new)


class _Skipping(_Vectors):
    """Skips invalid vectors."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        for name, vector in vectors.items():
            with suppress(SatchelError):
                self._inner.put(bank, generation, {name: vector})


class _NotAtomic(_Vectors):
    """Stores the vectors before an invalid one."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        for name, vector in vectors.items():
            self._inner.put(bank, generation, {name: vector})


class _Unnamed(_Vectors):
    """Does not name the invalid vector."""

    def put(self, *given: Any) -> None:
        try:
            self._inner.put(*given)
        except SatchelError as error:
            error.field = None
            raise


class _MixingGenerations(_Vectors):
    """Mixes generations of the same length."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        self._inner.put(bank, Generation("any", generation.dimensions), vectors)

    def get(self, bank: str, generation: Generation, ids: Sequence[str]) -> Any:
        return self._inner.get(bank, Generation("any", generation.dimensions), ids)

    def near(self, bank: str, generation: Generation, vector: VectorValues, *, limit: int) -> Any:
        return self._inner.near(bank, Generation("any", len(vector)), vector, limit=limit)


class _KeepingGenerations(_Vectors):
    """Drops no generation."""

    def drop(self, *asked: Any) -> None:
        self._inner.generations(asked[0])


class _DotProduct(_Vectors):
    """Does not normalize."""

    def near(self, bank: str, generation: Generation, vector: Any, *, limit: int) -> Any:
        found = self._inner.near(bank, generation, vector, limit=limit)
        kept = self._inner.get(bank, generation, [name for name, _ in found])
        scores = {
            name: sum(x * y for x, y in zip(numbers, vector, strict=True))
            for name, numbers in kept.items()
        }
        return heapq.nlargest(limit, scores.items(), key=lambda pair: pair[1])


class _ReversingTies(_Vectors):
    """Returns equal scores in reverse order."""

    def near(self, *asked: Any, limit: int) -> Any:
        found = self._inner.near(*asked, limit=2**30)[::-1]
        return heapq.nlargest(limit, found, key=lambda pair: pair[1])


class _WorstFirst(_Vectors):
    """Returns the worst results first."""

    def near(self, *asked: Any, limit: int) -> Any:
        return self._inner.near(*asked, limit=limit)[::-1]


class _OverLimit(_Vectors):
    """Returns more than the limit."""

    def near(self, *asked: Any, limit: int) -> Any:
        return self._inner.near(*asked, limit=limit + 1)


class _FilteringLate(_Vectors):
    """Selects the best results before it filters the current ones."""

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


class _ForgettingRetired(_Vectors):
    """Drops the vectors of retired records."""

    def get(self, bank: str, generation: Generation, ids: Sequence[str]) -> Any:
        current = {name for name, _ in self.near(bank, generation, [1, 0], limit=99)}
        return self._inner.get(bank, generation, [name for name in ids if name in current])


class _VectorsWithoutBank(_Vectors):
    """Accepts vectors of banks that do not exist."""

    def generations(self, bank: str) -> Any:
        return self._inner.generations(bank) if bank in self._inner._banks else {}


class _VectorsWithoutTransaction(_Vectors):
    """Changes vectors before the commit."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, VectorValues]) -> None:
        there = self._inner._banks[bank].vectors.get(generation)
        self._inner.put(bank, generation, vectors)
        if there is not None:
            there.update(self._inner._banks[bank].vectors[generation])


class _Padding(_Blobs):
    """Pads the last chunk."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return (piece or b"\0" for piece in [*self._inner.get(bank, digest), b""])


class _WrongSize(_Blobs):
    """Lists twice the size."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        return ((digest, size * 2) for digest, size in self._inner.listed(bank))


class _HashOfChunks(_Blobs):
    """Names a blob by the hashes of its chunks."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = list(chunks)
        self._inner.put(bank, kept)
        hashes = b"".join(blake3(chunk).digest() for chunk in kept)
        return "blake3:" + blake3(hashes).hexdigest()


class _Unchunked(_Blobs):
    """Returns a blob in one chunk."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return iter([b"".join(self._inner.get(bank, digest))])


class _ReversingChunks(_Blobs):
    """Returns the last chunk first."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return iter(list(self._inner.get(bank, digest))[::-1])


class _SharedBlobs(_Blobs):
    """Looks in all banks."""

    def has(self, bank: str, digest: str) -> bool:
        return any(digest in found.blobs for found in self._inner._banks.values())


class _EmptyIfMissing(_Blobs):
    """Returns nothing for a missing blob."""

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        return self._inner.get(bank, digest) if self._inner.has(bank, digest) else iter([])


class _KeepingBlobs(_Blobs):
    """Drops no blob."""

    def drop(self, bank: str, digest: str) -> None:
        self._inner.has(bank, digest)


class _KeepingPartialBlobs(_Blobs):
    """Stores the chunks before a failure."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = list[bytes]()
        try:
            kept.extend(chunks)
        finally:
            digest: str = self._inner.put(bank, kept)
        return digest


class _DroppingBeforePut(_Blobs):
    """Drops other blobs while it stores one."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        before = dict(self._inner._banks[bank].blobs)
        for digest in before:
            self._inner.drop(bank, digest)
        digest = self._inner.put(bank, chunks)
        for kept in before.values():
            self._inner.put(bank, kept)
        return str(digest)


class _NotReadingWhileWriting(_Blobs):
    """Cannot read during a write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        kept = [chunk for chunk in chunks if isinstance(chunks, list)]
        return str(self._inner.put(bank, kept))


class _BlobsWithoutBank(_Blobs):
    """Accepts blobs of banks that do not exist."""

    def has(self, bank: str, digest: str) -> bool:
        return bank in self._inner._banks and self._inner.has(bank, digest)


class _BlobsWithoutTransaction(_Blobs):
    """Stores blobs before the commit."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        before = self._inner._banks[bank]
        digest = self._inner.put(bank, chunks)
        before.blobs.update(self._inner._banks[bank].blobs)
        return str(digest)


_BROKEN: dict[str, Iterable[type[_Vectors]]] = {
    "test_vectors_are_returned_bit_for_bit": [_SinglePrecision, _UnsignedZeros, _NotReplacing],
    "test_an_invalid_vector_is_refused_by_name": [_Skipping, _NotAtomic, _Unnamed],
    "test_a_vector_without_a_record_is_refused_by_name": [_Skipping, _NotAtomic, _Unnamed],
    "test_vectors_of_different_generations_never_mix": [_MixingGenerations, _KeepingGenerations],
    "test_nearest_vectors_are_ordered_by_cosine": [
        _DotProduct,
        _ReversingTies,
        _WorstFirst,
        _OverLimit,
    ],
    "test_only_current_records_are_found_by_vectors": [_FilteringLate, _ForgettingRetired],
    "test_a_blob_is_read_as_written_whatever_its_chunks": [_Padding, _WrongSize, _HashOfChunks],
    "test_a_large_blob_is_read_in_small_chunks": [_Unchunked, _ReversingChunks],
    "test_a_blob_exists_until_it_is_dropped": [_SharedBlobs, _EmptyIfMissing, _KeepingBlobs],
    "test_an_interrupted_blob_leaves_nothing": [_KeepingPartialBlobs, _DroppingBeforePut],
    "test_a_blob_can_be_copied_within_a_store": [_NotReadingWhileWriting],
    "test_side_data_requires_its_bank": [_VectorsWithoutBank, _BlobsWithoutBank],
    "test_side_data_is_committed_with_its_transaction": [
        _VectorsWithoutTransaction,
        _BlobsWithoutTransaction,
    ],
    "test_side_data_is_durable_after_reopening": [_Vectors, _Blobs],
}
"""The last two lose their data when the store is opened again."""


def _suite_tests() -> dict[str, Callable[..., None]]:
    return {name: getattr(suite, name) for name in suite.__all__}


def _run(test_name: str, subject: StoreSubject) -> None:
    """Run a test of the suite, once for each of its parameters."""
    check: Any = _suite_tests()[test_name]
    marks = [mark for mark in getattr(check, "pytestmark", []) if mark.name == "parametrize"]
    if not marks:
        check(store=subject)
    for mark in marks:
        name, values = mark.args
        for value in values:
            check(store=subject, **{name: value})


def _subject_of(broken: type[_Vectors], reopen: Any = lambda store: store) -> StoreSubject:
    """Return a store with a broken part; ``reopen`` returns it after a close."""
    parts = {"blobs" if issubclass(broken, _Blobs) else "vectors": broken}
    return StoreSubject("broken", lambda: _Store(**parts), lambda store: partial(reopen, store))  # type: ignore[arg-type]


def _losing(broken: type[_Vectors]) -> Callable[[Any], Any]:
    def reopen(store: Any) -> Any:
        for bank in store._inner._banks.values():
            (bank.blobs if broken is _Blobs else bank.vectors).clear()
        return store

    return reopen


@pytest.fixture(autouse=True)
def _short_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in _suite_tests().values():
        shorten(check, monkeypatch)


def test_each_test_of_side_data_has_a_broken_store() -> None:
    """So a new test needs one."""
    assert set(_suite_tests()) == set(_BROKEN)
    assert all(_BROKEN.values())


@pytest.mark.in_check(5)
@pytest.mark.parametrize("test_name", sorted(_BROKEN))
def test_a_wrapped_store_passes_the_suite(test_name: str) -> None:
    """So the wrapper does not cause the failures."""
    _run(test_name, _subject_of(_Vectors))


@pytest.mark.parametrize(
    ("test_name", "broken"),
    [(name, one) for name, several in _BROKEN.items() for one in several],
)
def test_the_suite_detects_each_broken_store(test_name: str, broken: type[_Vectors]) -> None:
    """A skip does not count as a failure."""
    again = test_name == "test_side_data_is_durable_after_reopening"
    subject = _subject_of(broken, _losing(broken)) if again else _subject_of(broken)
    # Other errors do not count.
    assert fails(lambda: _run(test_name, subject), (AssertionError, SatchelError))


def test_a_store_without_vectors_passes_the_other_tests() -> None:
    """Only tests of vectors are skipped if the trait is off."""

    class WithoutVectors(_Store):
        traits = StoreTraits(durable=True)

    skipped = set()
    for test_name in _BROKEN:
        try:
            _run(test_name, StoreSubject("modest", WithoutVectors, lambda store: lambda: store))
        except pytest.skip.Exception:
            skipped.add(test_name)

    assert skipped == {
        "test_vectors_are_returned_bit_for_bit",
        "test_an_invalid_vector_is_refused_by_name",
        "test_a_vector_without_a_record_is_refused_by_name",
        "test_vectors_of_different_generations_never_mix",
        "test_nearest_vectors_are_ordered_by_cosine",
        "test_only_current_records_are_found_by_vectors",
    }
