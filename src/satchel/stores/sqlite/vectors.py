"""Vectors and blobs in tables: a generation is one stretch of a table, in log order."""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation
from satchel.stores.sqlite.statements import SqliteStatements, decoding
from satchel.stores.tables import ID_PREFIX, PIECE_BITS, SEQ_BITS, SEQ_MASK, raw_id
from satchel.stores.vectors import (
    StoredVector,
    TableBlobs,
    TableBlobsWriter,
    TableVectors,
    TableVectorsWriter,
    nearest,
)

_KEY = "bank = ? AND model = ? AND dimensions = ? AND generation = ?"
_NUMBERS = "CASE WHEN length(numbers) = width * {} THEN numbers END"
"""Values of another length are never loaded, however long they are."""


class SqliteVectors(SqliteStatements, TableVectors):
    """Reading vectors. The table of a generation is the first place of its stretch."""

    def generations(self, bank: str) -> dict[Generation, int]:
        sql = "SELECT model, dimensions, generation, number FROM generation WHERE bank = ?"
        rows = self._all(sql, self._number(bank), kinds=(str, int, int, int))
        return {self._generation(*key): self._count(number) for *key, number in sorted(rows)}

    def _table(self, bank: str, generation: Generation) -> int | None:
        sql = f"SELECT number FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
        rows = self._all(sql, *self._key(bank, generation), kinds=(int,))
        return self._start(rows[0][0], SEQ_BITS) if rows else None

    def _positions(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        sql = f"SELECT id, place & {SEQ_MASK} FROM record WHERE bank = {number} AND id IN "  # noqa: S608 - our own numbers
        rows = self._in(sql, [raw_id(identity) for identity in ids], (bytes, int))
        positions = {ID_PREFIX + identity.hex(): position for identity, position in rows}
        return {identity: positions[identity] for identity in ids if identity in positions}

    def _stored(
        self, table: int, positions: Sequence[int], dimensions: int
    ) -> Iterator[StoredVector]:
        numbers = _NUMBERS.format(dimensions)
        sql = f"SELECT place, width, {numbers} FROM vector WHERE place IN "  # noqa: S608 - our own numbers
        places = [table + position for position in positions]
        for place, width, packed in self._in(sql, places, (int, int, bytes)):
            yield place - table, width, packed

    def _nearest(
        self, number: int, table: int, vector: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        sql = (
            f"SELECT vector.place - ?, {_NUMBERS.format(len(vector))} FROM vector"  # noqa: S608 - our own numbers
            " CROSS JOIN record ON record.place = vector.place + ?"
            " WHERE vector.place BETWEEN ? AND ? AND retired IS NULL AND hold = 0"
        )
        values = (table, (number << SEQ_BITS) - table, table, table + SEQ_MASK)
        with decoding(self._name, self._connection):
            return nearest(self._connection.execute(sql, values), vector, limit)

    def _ids(self, number: int, positions: Sequence[int]) -> dict[int, str]:
        first = number << SEQ_BITS
        places = [first + position for position in positions]
        rows = self._in("SELECT place, id FROM record WHERE place IN ", places, (int, bytes))
        return {place - first: ID_PREFIX + identity.hex() for place, identity in rows}

    def _key(self, bank: str, generation: Generation) -> tuple[Any, ...]:
        number = self._number(bank)
        return number, generation.model, generation.dimensions, generation.number

    def _count(self, number: int) -> int:
        first = self._start(number, SEQ_BITS)
        sql = "SELECT count(*) FROM vector WHERE place BETWEEN ? AND ?"
        return int(self._all(sql, first, first + SEQ_MASK)[0][0])


class SqliteVectorsWriter(SqliteVectors, TableVectorsWriter):
    """Writing vectors."""

    def drop(self, bank: str, generation: Generation) -> None:
        first = self._table(bank, generation)
        if first is not None:
            with self._whole():
                self._all("DELETE FROM vector WHERE place BETWEEN ? AND ?", first, first + SEQ_MASK)
                sql = f"DELETE FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
                self._all(sql, *self._key(bank, generation))

    def _store(
        self, bank: str, generation: Generation, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        with self._whole():
            first = self._table(bank, generation)
            if first is None:
                sql = "INSERT INTO generation VALUES (NULL, ?, ?, ?, ?) RETURNING number"
                number = self._all(sql, *self._key(bank, generation))[0][0]
                first = self._start(number, SEQ_BITS)
            values = ((first + position, *packed) for position, *packed in rows)
            self._many("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", values)


class SqliteBlobs(SqliteStatements, TableBlobs):
    """Reading blobs."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT digest, size FROM blob WHERE bank = ? ORDER BY digest"
        rows = self._each(sql, self._number(bank), kinds=(bytes, int))
        return ((ID_PREFIX + digest.hex(), size) for digest, size in rows)

    def _pieces(self, blob: int) -> Iterator[bytes]:
        first = self._start(blob, PIECE_BITS)
        sql = (
            # Values longer than any piece are never loaded.
            "SELECT place, CASE WHEN length(data) <= ? THEN data END FROM piece"
            " WHERE place BETWEEN ? AND ? ORDER BY place"
        )
        last = first + (1 << PIECE_BITS) - 1
        return self._in_order(self._each(sql, PIECE_BYTES, first, last, kinds=(int, bytes)), first)

    def _blob(self, bank: str, digest: str) -> int | None:
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # another spelling is the digest of no blob
            return None
        sql = "SELECT number FROM blob WHERE bank = ? AND digest = ?"
        rows = self._all(sql, number, raw, kinds=(int,))
        return int(rows[0][0]) if rows else None


class SqliteBlobsWriter(SqliteBlobs, TableBlobsWriter):
    """Writing blobs."""

    def _add(self, number: int, pieces: BlobPieces) -> int:
        sql = "INSERT INTO blob (bank, size) VALUES (?, 0) RETURNING number"
        blob = int(self._all(sql, number)[0][0])
        self._many("INSERT INTO piece VALUES (?, ?)", enumerate(pieces, blob << PIECE_BITS))
        return blob

    def _set_digest(self, blob: int, digest: str, size: int) -> None:
        sql = "UPDATE blob SET digest = ?, size = ? WHERE number = ?"
        self._all(sql, raw_id(digest), size, blob)

    def _remove(self, blob: int) -> None:
        with self._whole():
            first = self._start(blob, PIECE_BITS)
            last = first + (1 << PIECE_BITS) - 1
            self._all("DELETE FROM piece WHERE place BETWEEN ? AND ?", first, last)
            self._all("DELETE FROM blob WHERE number = ?", blob)
