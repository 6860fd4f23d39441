"""Vector search on PostgreSQL: the same results in the same order with and without pgvector."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ledger_kit import created, memories
from postgres_kit import run_sql, schema_of

from satchel.ports.vectors import Generation
from satchel.stores.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from satchel.ports.vectors import VectorValues

_MANY, _SEED = 400, 7


def _filled(place: str) -> tuple[PostgresStore, str, list[str]]:
    store = PostgresStore(place)
    ledger = created(store)
    records = memories(_MANY)
    ledger.append(records)
    return store, ledger.bank, [record.id for record in records]


def _vectors(dimensions: int) -> list[Sequence[float]]:
    """Return vectors that are nearly alike, equal, opposite, zero, huge and tiny."""
    chance = random.Random(_SEED)  # noqa: S311 - the same in every run
    middle = [chance.gauss(0, 1) for _ in range(dimensions)]
    found: list[Sequence[float]] = [
        [number + chance.gauss(0, 1e-7) for number in middle] for _ in range(_MANY // 2)
    ]
    found += [[chance.gauss(0, 1) for _ in range(dimensions)] for _ in range(_MANY // 4)]
    found += [middle] * 20
    found += [[-number for number in middle], [0.0] * dimensions, [1e308] * dimensions]
    found += [[number * 1e-300 for number in middle], [5e-324, *[0.0] * (dimensions - 1)]]
    return found


def test_nearest_vectors_are_the_same_with_and_without_pgvector(place: str, postgres: str) -> None:
    """Also vectors that 32 bits cannot distinguish; the server sends a few of them, not all."""
    for dimensions in (3, 64):
        store, bank, ids = _filled(f"{place}_{dimensions}")
        vectors, generation = _vectors(dimensions), Generation("model", dimensions)
        given: dict[str, VectorValues] = dict(zip(ids, vectors, strict=False))
        with store.writing() as writing:
            writing.vectors.put(bank, generation, given)
        schema = schema_of(f"{place}_{dimensions}")
        asked = [vectors[0], vectors[250], vectors[-3], vectors[-4], vectors[-1]]
        with store.reading() as reader:
            found = [
                reader.vectors.near(bank, generation, vector, limit=limit)
                for vector in asked
                for limit in (1, 10, 399)
            ]
            sent = list(reader.vectors._current(1, 1, tuple(vectors[250]), 5))
        assert len(sent) == 5
        store.close()
        run_sql(postgres, f"ALTER TABLE {schema}.vector DROP COLUMN unit")
        plain = PostgresStore(f"{place}_{dimensions}")
        with plain.reading() as reader:
            assert found == [
                reader.vectors.near(bank, generation, vector, limit=limit)
                for vector in asked
                for limit in (1, 10, 399)
            ]
            assert len(list(reader.vectors._current(1, 1, tuple(vectors[250]), 5))) == len(given)
        with plain.writing() as writing:
            writing.vectors.put(bank, generation, {ids[0]: vectors[1]})
        plain.close()
        run_sql(postgres, f"DROP SCHEMA {schema} CASCADE")


def test_a_vector_too_long_for_pgvector_is_stored_and_compared(place: str) -> None:
    """Without the extension's column."""
    store, bank, ids = _filled(place)
    generation = Generation("model", 20_000)
    with store.writing() as writing:
        vectors: dict[str, VectorValues] = {
            ids[n]: [1.0, float(n)] + [0.0] * 19_998 for n in range(3)
        }
        writing.vectors.put(bank, generation, vectors)
    with store.reading() as reader:
        found = reader.vectors.near(bank, generation, [1.0] + [0.0] * 19_999, limit=2)
    assert [identity for identity, _ in found] == ids[:2]
    store.close()
