"""Data beside the log: vectors and blobs."""

import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf, nan, sqrt
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.stores.oracle import BANK, Bench, StoreSubject, bench
from satchel.errors import UnknownBankError, UnknownBlobError, ValueRefusedError
from satchel.model.records import Semantic
from satchel.ports.store import PIECE_BYTES, ColumnChange, Store
from satchel.ports.vectors import Generation, VectorValues

_OTHER = "blake3:" + "2" * 64
_NOWHERE = "blake3:" + "3" * 64
_TWO = Generation("model", 2)
_NEAR = 1e-12
"""Largest difference of two cosines that count as equal."""


class _Enough(Exception):  # noqa: N818 - no error of anybody's
    pass


def _ids(both: Bench, count: int, bank: str = BANK) -> list[str]:
    """Log some memories and return their IDs."""
    first = both.sizes.get(bank, 0)
    drafts = (Semantic(text=f"memory {number}") for number in range(first, first + count))
    return [row.id for row in both.append(*drafts, bank=bank)]


def _put(
    store: Store, vectors: dict[str, VectorValues], generation: Generation = _TWO, bank: str = BANK
) -> None:
    with store.writing() as writing:
        writing.vectors.put(bank, generation, vectors)


def _refused(store: Store, vectors: dict[str, VectorValues]) -> str | None:
    """Put refused vectors, continue and commit; return the record that the error names."""
    with store.writing() as writing:
        with pytest.raises(ValueRefusedError) as refused:
            writing.vectors.put(BANK, _TWO, vectors)
        return refused.value.field


def _near(store: Store, vector: VectorValues, *, limit: int = 99, bank: str = BANK) -> list[str]:
    with store.reading() as reader:
        return [found for found, _ in reader.vectors.near(bank, _TWO, vector, limit=limit)]


def _blob_sizes(store: Store, bank: str = BANK) -> dict[str, int]:
    with store.reading() as reader:
        return dict(reader.blobs.listed(bank))


def _read_blob(store: Store, digest: str, bank: str = BANK) -> bytes:
    with store.reading() as reader:
        return b"".join(reader.blobs.get(bank, digest))


def _digest(data: bytes) -> str:
    return "blake3:" + blake3(data).hexdigest()


def _bits(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


_FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1.7e308, -1.7e308, 0.1]),
)
_SOME = st.integers(1, 4).flatmap(
    lambda count: st.lists(st.lists(_FINITE, min_size=count, max_size=count), min_size=2)
)


@given(_SOME)
def test_vectors_are_returned_bit_for_bit(store: StoreSubject, vectors: list[list[float]]) -> None:
    """For all finite numbers, passed as numbers or as bytes."""
    with bench(store) as both:
        both.need("vectors")
        ids, generation = _ids(both, len(vectors)), Generation("model", len(vectors[0]))
        given_: list[VectorValues] = [vectors[0], *map(_bits, vectors[1:])]
        _put(both.store, dict(zip(ids, given_, strict=True)), generation)
        with both.store.reading() as reader:
            found = reader.vectors.get(BANK, generation, [*ids, _NOWHERE, ""])
            assert reader.vectors.generations(BANK) == {generation: len(ids)}
        assert {name: _bits(numbers) for name, numbers in found.items()} == {
            name: _bits(numbers) for name, numbers in zip(ids, vectors, strict=True)
        }
        _put(both.store, {ids[0]: vectors[1]}, generation)
        with both.store.reading() as reader:
            (again,) = reader.vectors.get(BANK, generation, ids[:1]).values()
            assert reader.vectors.generations(BANK) == {generation: len(ids)}
        assert _bits(again) == _bits(vectors[1])


_WRONG: list[Any] = [
    *([nan, 1.0], [1.0, inf], [-inf, 1.0], [], [1.0], [1.0, 2.0, 3.0], b"", b"\0" * 9, "12"),
    *([1.0, None], [1.0, "2"], [2**53 + 1, 0], [10**400, 0], struct.pack("<2f", 1, nan)),
]


@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_an_invalid_vector_is_refused_by_name(store: StoreSubject, number: int) -> None:
    """NaN, infinities, other lengths, not numbers: the record is named, and none is stored."""
    with bench(store) as both:
        both.need("vectors")
        good, bad = _ids(both, 2)
        assert _refused(both.store, {good: [1, 2], bad: _WRONG[number]}) == bad
        with pytest.raises(ValueRefusedError):
            _near(both.store, _WRONG[number])
        with both.store.reading() as reader:
            assert reader.vectors.generations(BANK) == {}


@pytest.mark.parametrize("name", [_NOWHERE, "", "\0", "x" * 10_000, "\ud800"])
def test_a_vector_without_a_record_is_refused_by_name(store: StoreSubject, name: str) -> None:
    """Also for a record of another bank."""
    with bench(store) as both:
        both.need("vectors")
        (mine,), (other,) = _ids(both, 1), _ids(both, 1, _OTHER)
        for wrong in (name, other, mine.upper(), mine.removeprefix("blake3:")):
            assert _refused(both.store, {mine: [1, 2], wrong: [1, 2]}) == wrong
        with both.store.reading() as reader:
            assert reader.vectors.generations(BANK) == {}


def test_vectors_of_different_generations_never_mix(store: StoreSubject) -> None:
    """Of another model, length, number or bank: not found, counted or dropped together."""
    keys = [_TWO, Generation("model", 2, 1), Generation("Model", 2), Generation("model", 3)]
    with bench(store) as both:
        both.need("vectors")
        ids = _ids(both, len(keys))
        for name, key in zip(ids, keys, strict=True):
            _put(both.store, {name: [1.0] * key.dimensions}, key)
        (other,) = _ids(both, 1, _OTHER)
        _put(both.store, {other: [1, 1]}, bank=_OTHER)
        with both.store.writing() as writing:
            vectors = writing.vectors
            for index, key in enumerate(keys):
                assert vectors.generations(BANK) == dict.fromkeys(sorted(keys[index:]), 1)
                neighbors = vectors.near(BANK, key, [1.0] * key.dimensions, limit=9)
                assert [name for name, _ in neighbors] == [ids[index]]
                assert list(vectors.get(BANK, key, [*ids, other])) == [ids[index]]
                vectors.drop(BANK, key)
                vectors.drop(BANK, key)
                assert vectors.near(BANK, key, [1.0] * key.dimensions, limit=9) == []
        assert _near(both.store, [1, 1], bank=_OTHER) == [other]


def _cosine(one: Sequence[float], two: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, from exact numbers."""
    left, right = [Fraction(x) for x in one], [Fraction(x) for x in two]
    product = sum(x * y for x, y in zip(left, right, strict=True))
    lengths = sum(x * x for x in left) * sum(x * x for x in right)
    cosine = sqrt(product * product / lengths) if lengths else 0.0
    return cosine if product > 0 else -cosine


@given(_SOME, st.integers(0, 9))
def test_nearest_vectors_are_ordered_by_cosine(
    store: StoreSubject, vectors: list[list[float]], limit: int
) -> None:
    """For all finite numbers, including the largest and smallest; ties in log order."""
    with bench(store) as both:
        both.need("vectors")
        query, *rest = vectors
        rest += rest[:2]
        ids, generation = _ids(both, len(rest)), Generation("model", len(query))
        stored = dict(zip(ids, rest, strict=True))
        _put(both.store, dict(reversed(stored.items())), generation)
        with both.store.reading() as reader:
            limited = reader.vectors.near(BANK, generation, query, limit=limit)
            whole = reader.vectors.near(BANK, generation, query, limit=len(ids))
        assert limited == whole[:limit]
        assert sorted(name for name, _ in whole) == sorted(ids)
        for name, score in whole:
            assert abs(score - _cosine(query, stored[name])) < _NEAR
            assert -1 <= score <= 1
        for (nearer, more), (farther, less) in pairwise(whole):
            assert (more, -ids.index(nearer)) > (less, -ids.index(farther))
            assert _cosine(query, stored[nearer]) > _cosine(query, stored[farther]) - 2 * _NEAR
        scores = dict(whole)
        assert all(
            scores[nearer] == scores[farther]
            for nearer, farther in zip(ids, ids[-2:], strict=False)
        )


def test_only_current_records_are_found_by_vectors(store: StoreSubject) -> None:
    """Retired and held ones are not in the result, until they are current again."""
    with bench(store) as both:
        both.need("vectors")
        ids = _ids(both, 6)
        _put(both.store, {name: [1, position] for position, name in enumerate(ids)})
        retired = [ColumnChange(position, 6, hold=False) for position in (0, 1)]
        both.append(Semantic(text="a"), changes=[*retired, ColumnChange(2, None, hold=True)])
        assert _near(both.store, [1, 0], limit=2) == ids[3:5]
        back = [ColumnChange(position, None, hold=False) for position in (1, 2)]
        both.append(Semantic(text="b"), changes=back)
        assert _near(both.store, [1, 0], limit=3) == ids[1:4]
        with both.store.reading() as reader:
            assert len(reader.vectors.get(BANK, _TWO, ids)) == len(ids)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_a_blob_is_read_as_written_whatever_its_chunks(
    store: StoreSubject, chunks: list[bytes], size: int
) -> None:
    """For all bytes: the digest is that of the whole, and a duplicate is stored once."""
    whole = b"".join(chunks)
    with bench(store) as both:
        _ids(both, 1)
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, chunks)
            again = (whole[start : start + size] for start in range(0, len(whole), size))
            assert writing.blobs.put(BANK, again) == digest == _digest(whole)
        assert _blob_sizes(both.store) == {digest: len(whole)}
        assert _read_blob(both.store, digest) == whole


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_a_large_blob_is_read_in_small_chunks(store: StoreSubject, size: int) -> None:
    """In order, none above the size limit, however it was passed."""
    block = bytes(range(251))
    data = (block * (size // len(block) + 1))[:size]
    with bench(store) as both:
        _ids(both, 1)
        for chunks in ([data], [data[:7], data[7:]]):
            with both.store.writing() as writing:
                digest = writing.blobs.put(BANK, chunks)
            with both.store.reading() as reader:
                pieces = list(reader.blobs.get(BANK, digest))
            assert b"".join(pieces) == data
            assert max(map(len, pieces)) <= PIECE_BYTES
        assert _blob_sizes(both.store) == {_digest(data): size}


def test_a_blob_exists_until_it_is_dropped(store: StoreSubject) -> None:
    """In its bank only; reading a missing one is an error, dropping it is not."""
    with bench(store) as both:
        _ids(both, 1)
        _ids(both, 1, _OTHER)
        with both.store.writing() as writing:
            blobs = writing.blobs
            digest = blobs.put(BANK, [b"a"])
            assert (blobs.has(BANK, digest), blobs.has(_OTHER, digest)) == (True, False)
            blobs.put(_OTHER, [b"a"])
            last = blobs.put(BANK, [b"b"])
            blobs.drop(BANK, digest)
            for wrong in (digest, digest.upper(), digest[7:], last.upper(), "", "\0", "\ud800"):
                assert not blobs.has(BANK, wrong)
                blobs.drop(BANK, wrong)
                with pytest.raises(UnknownBlobError):
                    blobs.get(BANK, wrong)
        assert _blob_sizes(both.store) == {last: 1}
        assert _blob_sizes(both.store, _OTHER) == {digest: 1}
        assert _read_blob(both.store, digest, _OTHER) == b"a"


def test_an_interrupted_blob_leaves_nothing(store: StoreSubject) -> None:
    """Also if the block continues and is committed; earlier blobs remain."""

    def failing() -> Iterator[bytes]:
        yield from [bytes(PIECE_BYTES)] * 3
        raise _Enough

    with bench(store) as both:
        _ids(both, 1)
        with both.store.writing() as writing:
            before = writing.blobs.put(BANK, [b"before"])
            with pytest.raises(_Enough):
                writing.blobs.put(BANK, failing())
            after = writing.blobs.put(BANK, [b"after"])
        assert _blob_sizes(both.store) == {before: 6, after: 5}
        assert _read_blob(both.store, after) == b"after"


def test_a_blob_can_be_copied_within_a_store(store: StoreSubject) -> None:
    """From one bank to another, while it is read."""
    data = [bytes([number]) * PIECE_BYTES for number in range(3)]
    with bench(store) as both:
        _ids(both, 1)
        _ids(both, 1, _OTHER)
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, data)
            assert writing.blobs.put(_OTHER, writing.blobs.get(BANK, digest)) == digest
        assert _read_blob(both.store, digest, _OTHER) == b"".join(data)


def test_side_data_requires_its_bank(store: StoreSubject) -> None:
    """A missing bank is an error, for reading and for writing."""
    with bench(store) as both, both.store.writing() as writing:
        vectors, blobs = writing.vectors, writing.blobs
        calls: list[Callable[[], object]] = [
            lambda: blobs.listed(BANK),
            lambda: blobs.has(BANK, _digest(b"")),
            lambda: blobs.get(BANK, _digest(b"")),
            lambda: blobs.put(BANK, [b""]),
            lambda: blobs.drop(BANK, _digest(b"")),
        ]
        if both.store.traits.vectors:
            calls += [
                lambda: vectors.generations(BANK),
                lambda: vectors.get(BANK, _TWO, []),
                lambda: vectors.near(BANK, _TWO, [1, 1], limit=1),
                lambda: vectors.put(BANK, _TWO, {}),
                lambda: vectors.drop(BANK, _TWO),
            ]
        for call in calls:
            with pytest.raises(UnknownBankError):
                call()


def test_side_data_is_committed_with_its_transaction(store: StoreSubject) -> None:
    """A failed block rolls back what it put and dropped; a view does not see later commits."""
    with bench(store) as both:
        (name,) = _ids(both, 1)
        vectors = both.store.traits.vectors
        if vectors:
            _put(both.store, {name: [1, 2]})
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, [b"kept"])

        def fail() -> None:
            with both.store.writing() as writing:
                writing.blobs.put(BANK, [b"lost"])
                writing.blobs.drop(BANK, digest)
                if vectors:
                    writing.vectors.put(BANK, _TWO, {name: [3, 4]})
                    writing.vectors.drop(BANK, _TWO)
                    writing.vectors.put(BANK, Generation("lost", 2), {name: [3, 4]})
                raise _Enough

        with pytest.raises(_Enough):
            fail()
        assert _blob_sizes(both.store) == {digest: 4}
        assert _read_blob(both.store, digest) == b"kept"
        if vectors:
            with both.store.reading() as reader:
                assert reader.vectors.generations(BANK) == {_TWO: 1}
                assert reader.vectors.get(BANK, _TWO, [name]) == {name: (1, 2)}


def test_side_data_is_durable_after_reopening(store: StoreSubject) -> None:
    """Vectors and blobs survive the object."""
    with bench(store) as both:
        opener = both.opener("durable")
        (name,) = _ids(both, 1)
        with both.store.writing() as writing:
            digest = writing.blobs.put(BANK, [b"kept"])
            if both.store.traits.vectors:
                writing.vectors.put(BANK, _TWO, {name: [0.1, 1]})
        both.store.close()
        both.store = opener()
        assert _read_blob(both.store, digest) == b"kept"
        if both.store.traits.vectors:
            assert _near(both.store, [1, 1]) == [name]


__all__ = [name for name in dir() if name.startswith("test_")]
