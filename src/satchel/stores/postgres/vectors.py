"""Vectors in the tables: a generation is one stretch of a table, in log order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from satchel.errors import ValueRefusedError
from satchel.ports.vectors import Generation, Given, Packed, packed, unpacked
from satchel.stores._nearest import nearest
from satchel.stores.postgres.errors import damaged
from satchel.stores.postgres.statements import ID_PREFIX, MOST_AT_ONCE, Statements, raw_id

_KEY = "bank = %s AND model = %s AND dimensions = %s AND generation = %s"
_NUMBERS = "CASE WHEN octet_length(numbers) = width * %s THEN numbers END"
"""What has another length is never loaded, however long it is."""

_TOGETHER_BYTES = 1 << 20
_PUT = """
INSERT INTO vector (generation, seq, bank, width, numbers) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (generation, seq) DO UPDATE SET width = excluded.width, numbers = excluded.numbers"""


class Vectors(Statements):
    """The vectors of a store, for reading."""

    def generations(self, bank: str) -> dict[Generation, int]:
        sql = (
            "SELECT model, dimensions, generation.generation,"
            " (SELECT count(*) FROM vector WHERE vector.generation = number)"
            " FROM generation WHERE bank = %s"
        )
        found = self._all(sql, self._number(bank))
        there = {self._generation(*key): count for *key, count in found}
        return {key: there[key] for key in sorted(there)}

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        places = self._places(self._number(bank), ids)
        number = self._made(bank, generation)
        if number is None:
            return {}
        names = {place: identity for identity, place in places.items()}
        wanted, found = list(names), dict[str, tuple[float, ...]]()
        sql = (
            f"SELECT seq, width, {_NUMBERS} FROM vector"  # noqa: S608 - our own names
            " WHERE generation = %s AND seq = ANY (%s::bigint[])"
        )
        for start in range(0, len(wanted), MOST_AT_ONCE):
            part = wanted[start : start + MOST_AT_ONCE]
            for place, width, numbers in self._all(sql, generation.dimensions, number, part):
                kept = Packed(width, numbers or b"")
                found[names[place]] = self._unpacked(kept, generation.dimensions)
        return found

    def near(
        self, bank: str, generation: Generation, vector: Given, *, limit: int
    ) -> list[tuple[str, float]]:
        count = generation.dimensions
        wanted = unpacked(packed(vector, count, "vector"), count)
        bank_number, number = self._number(bank), self._made(bank, generation)
        if number is None:
            return []
        try:
            best = nearest(self._current(bank_number, number, count), wanted, limit)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error
        sql = "SELECT seq, id FROM record WHERE bank = %s AND seq = ANY (%s::bigint[])"
        names = dict(self._all(sql, bank_number, [place for place, _ in best]))
        return [(ID_PREFIX + names[place].hex(), cosine) for place, cosine in best]

    def _current(self, bank: int, number: int, count: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the vectors of a generation's current records, in the order of the log."""
        sql = (
            f"SELECT vector.seq, {_NUMBERS} FROM vector"  # noqa: S608 - our own names
            " JOIN record ON record.bank = %s AND record.seq = vector.seq"
            " WHERE vector.generation = %s AND retired IS NULL AND NOT hold ORDER BY vector.seq"
        )
        together = max(1, min(MOST_AT_ONCE, _TOGETHER_BYTES // (8 * count)))
        yield from self._each(sql, count, bank, number, together=together)

    def _places(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the places in the log of those records that are there, by id."""
        sql = "SELECT id, seq FROM record WHERE bank = %s AND id = ANY (%s::bytea[])"
        raw, there = list(map(raw_id, ids)), dict[str, int]()
        for start in range(0, len(raw), MOST_AT_ONCE):
            for identity, place in self._all(sql, number, raw[start : start + MOST_AT_ONCE]):
                there[ID_PREFIX + identity.hex()] = place
        return {identity: there[identity] for identity in ids if identity in there}

    def _made(self, bank: str, generation: Generation) -> int | None:
        """Return the number of a generation, where it is there."""
        sql = f"SELECT number FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
        found = self._all(sql, *self._key(bank, generation))
        return int(found[0][0]) if found else None

    def _key(self, bank: str, generation: Generation) -> tuple[Any, ...]:
        model = generation.model.encode()
        return self._number(bank), model, generation.dimensions, generation.number

    def _generation(self, model: bytes, dimensions: int, number: int) -> Generation:
        try:
            return Generation(model.decode(), dimensions, number)
        except (ValueRefusedError, UnicodeDecodeError) as error:
            raise damaged(self._name, "a generation is none that can be") from error

    def _unpacked(self, kept: Packed, dimensions: int) -> tuple[float, ...]:
        try:
            return unpacked(kept, dimensions)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error


class VectorsWriting(Vectors):
    """The vectors of a store, for the one who may write."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Given]) -> None:
        bank_number = self._number(bank)
        places = self._places(bank_number, list(vectors))
        for identity in vectors:
            if identity not in places:
                raise ValueRefusedError("there is no such record in the bank", field=identity)
        count = generation.dimensions
        rows = [
            (places[identity], *packed(vector, count, identity))
            for identity, vector in vectors.items()
        ]
        if rows:
            with self._whole():
                number = self._made(bank, generation)
                if number is None:
                    sql = (
                        "INSERT INTO generation (bank, model, dimensions, generation)"
                        " VALUES (%s, %s, %s, %s) RETURNING number"
                    )
                    number = int(self._all(sql, *self._key(bank, generation))[0][0])
                values = ((number, place, bank_number, width, kept) for place, width, kept in rows)
                self._many(_PUT, values)

    def drop(self, bank: str, generation: Generation) -> None:
        number = self._made(bank, generation)
        if number is not None:
            self._all("DELETE FROM vector WHERE generation = %s", number)
            self._all("DELETE FROM generation WHERE number = %s", number)
