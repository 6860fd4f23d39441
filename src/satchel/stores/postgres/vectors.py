"""Vectors in the tables: a generation is one stretch of a table, in log order.

Where pgvector is installed, the server compares all vectors in 32 bits and returns those that may
be among the nearest, with a margin for its rounding; these are compared as in any other store, so
the result is the same with and without.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from satchel.model.values import ID_PREFIX
from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation, PackedVector, unpack_vector
from satchel.stores.postgres.statements import MOST_AT_ONCE, PostgresStatements, translated
from satchel.stores.vectors import (
    StoredVector,
    TableBlobs,
    TableBlobsWriter,
    TableVectors,
    TableVectorsWriter,
    nearest,
    raw_id,
    unit_of,
)

_KEY = "bank = %s AND model = %s AND dimensions = %s AND generation = %s"
_NUMBERS = "CASE WHEN octet_length(numbers) = width * %s THEN numbers END"
"""Values of another length are never loaded, however long they are."""

_TOGETHER_BYTES = 1 << 20
_PUT = """
INSERT INTO vector (generation, seq, bank, width, numbers{unit}) VALUES (%s, %s, %s, %s, %s{value})
ON CONFLICT (generation, seq) DO UPDATE SET width = excluded.width, numbers = excluded.numbers
{again}"""
_MOST_UNITS = 16_000
"""Maximum length of a vector of the extension."""

_ROUNDING = 2.0**-22
"""Maximum rounding error on the server of a product of two unit vectors, for each number."""

_LEAST = 1e-30  # smaller numbers do not matter, and the extension may reject them
_FROM = """
 FROM vector JOIN record ON record.bank = %s AND record.seq = vector.seq
 WHERE vector.generation = %s AND retired IS NULL AND NOT hold"""
_NEARER = """
WITH near AS MATERIALIZED (
    SELECT vector.seq, vector.unit OPERATOR({extension}.<#>) %s::{extension}.vector AS away{there}
)
SELECT vector.seq, {numbers} FROM vector JOIN near ON near.seq = vector.seq
WHERE vector.generation = %s AND (away IS NULL OR away <= %s + (
    SELECT max(away) FROM (
        SELECT away FROM near WHERE away IS NOT NULL ORDER BY away LIMIT %s) AS best))
ORDER BY vector.seq"""


class PostgresVectors(PostgresStatements, TableVectors):
    """Reading vectors. The table of a generation is its number."""

    def generations(self, bank: str) -> dict[Generation, int]:
        sql = (
            "SELECT model, dimensions, generation.generation,"
            " (SELECT count(*) FROM vector WHERE vector.generation = number)"
            " FROM generation WHERE bank = %s"
        )
        rows = self._all(sql, self._number(bank))
        with translated(self._name):
            counts = {self._generation(model.decode(), *key): count for model, *key, count in rows}
        return {key: counts[key] for key in sorted(counts)}

    def _table(self, bank: str, generation: Generation) -> int | None:
        sql = f"SELECT number FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
        rows = self._all(sql, *self._key(bank, generation))
        return int(rows[0][0]) if rows else None

    def _positions(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        sql = "SELECT id, seq FROM record WHERE bank = %s AND id = ANY (%s::bytea[])"
        rows = self._in(sql, list(map(raw_id, ids)), number)
        positions = {ID_PREFIX + identity.hex(): position for identity, position in rows}
        return {identity: positions[identity] for identity in ids if identity in positions}

    def _stored(
        self, table: int, positions: Sequence[int], dimensions: int
    ) -> Iterator[StoredVector]:
        sql = (
            f"SELECT seq, width, {_NUMBERS} FROM vector"  # noqa: S608 - our own names
            " WHERE generation = %s AND seq = ANY (%s::bigint[])"
        )
        for position, width, packed in self._in(sql, positions, dimensions, table):
            yield position, width, packed or b""

    def _nearest(
        self, number: int, table: int, vector: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        return nearest(self._current(number, table, vector, limit), vector, limit)

    def _ids(self, number: int, positions: Sequence[int]) -> dict[int, str]:
        sql = "SELECT seq, id FROM record WHERE bank = %s AND seq = ANY (%s::bigint[])"
        rows = self._in(sql, positions, number)
        return {position: ID_PREFIX + identity.hex() for position, identity in rows}

    def _current(
        self, bank: int, number: int, vector: tuple[float, ...], limit: int
    ) -> Iterator[tuple[int, bytes | None]]:
        """Yield the vectors of current records that may be the nearest, in log order."""
        count, extension = len(vector), self._session.extension
        together = max(1, min(MOST_AT_ONCE, _TOGETHER_BYTES // (8 * count)))
        if extension is None or count > _MOST_UNITS or limit < 1:
            sql = f"SELECT vector.seq, {_NUMBERS}{_FROM} ORDER BY vector.seq"
            return self._each(sql, count, bank, number, together=together)
        sql = _NEARER.format(extension=extension, there=_FROM, numbers=_NUMBERS)
        room = (count + 8) * _ROUNDING
        values = (_unit(vector), bank, number, count, number, room, limit)
        return self._each(sql, *values, together=together)

    def _key(self, bank: str, generation: Generation) -> tuple[Any, ...]:
        model = generation.model.encode()
        return self._number(bank), model, generation.dimensions, generation.number


class PostgresVectorsWriter(PostgresVectors, TableVectorsWriter):
    """Writing vectors."""

    def _store(
        self, bank: str, generation: Generation, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        with self._whole():
            table = self._table(bank, generation)
            if table is None:
                sql = (
                    "INSERT INTO generation (bank, model, dimensions, generation)"
                    " VALUES (%s, %s, %s, %s) RETURNING number"
                )
                table = int(self._all(sql, *self._key(bank, generation))[0][0])
            self._set(table, self._number(bank), generation.dimensions, rows)

    def _set(
        self, number: int, bank: int, count: int, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        extension = self._session.extension
        if extension is None or count > _MOST_UNITS:
            sql = _PUT.format(unit="", value="", again="")
            self._many(sql, ((number, position, bank, *packed) for position, *packed in rows))
            return
        sql = _PUT.format(
            unit=", unit", value=f", %s::{extension}.vector", again=", unit = excluded.unit"
        )
        values = (
            (
                number,
                position,
                bank,
                width,
                numbers,
                _unit(unpack_vector(PackedVector(width, numbers), count)),
            )
            for position, width, numbers in rows
        )
        self._many(sql, values)

    def drop(self, bank: str, generation: Generation) -> None:
        table = self._table(bank, generation)
        if table is not None:
            self._all("DELETE FROM vector WHERE generation = %s", table)
            self._all("DELETE FROM generation WHERE number = %s", table)


def _unit(numbers: Sequence[float]) -> str:
    """Return the unit vector as a text for the extension."""
    short = struct.pack(f"<{len(numbers)}f", *unit_of(numbers))
    rounded = struct.unpack(f"<{len(numbers)}f", short)
    return f"[{','.join(repr(one) if abs(one) > _LEAST else '0' for one in rounded)}]"


class PostgresBlobs(PostgresStatements, TableBlobs):
    """Reading blobs."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT digest, size FROM blob WHERE bank = %s AND digest IS NOT NULL ORDER BY digest"
        rows = self._each(sql, self._number(bank))
        return ((ID_PREFIX + digest.hex(), size) for digest, size in rows)

    def _pieces(self, blob: int) -> Iterator[bytes]:
        # Values longer than any piece are never loaded.
        sql = (
            "SELECT part, CASE WHEN octet_length(data) <= %s THEN data END FROM piece"
            " WHERE blob = %s ORDER BY part"
        )
        for data in self._in_order(self._each(sql, PIECE_BYTES, blob, together=1), 0):
            if data is None:
                raise self._damaged("a piece of a blob is too long")
            yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # another spelling is the digest of no blob
            return None
        sql = "SELECT number FROM blob WHERE bank = %s AND digest = %s"
        rows = self._all(sql, number, raw)
        return int(rows[0][0]) if rows else None


class PostgresBlobsWriter(PostgresBlobs, TableBlobsWriter):
    """Writing blobs."""

    def _add(self, number: int, pieces: BlobPieces) -> int:
        sql = "INSERT INTO blob (bank, size) VALUES (%s, 0) RETURNING number"
        blob = int(self._all(sql, number)[0][0])
        for part, data in enumerate(pieces):
            self._all("INSERT INTO piece VALUES (%s, %s, %s, %s)", blob, part, number, data)
        return blob

    def _set_digest(self, blob: int, digest: str, size: int) -> None:
        sql = "UPDATE blob SET digest = %s, size = %s WHERE number = %s"
        self._all(sql, raw_id(digest), size, blob)

    def _remove(self, blob: int) -> None:
        self._all("DELETE FROM piece WHERE blob = %s", blob)
        self._all("DELETE FROM blob WHERE number = %s", blob)
