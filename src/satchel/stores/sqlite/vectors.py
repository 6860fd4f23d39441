"""Vectors in the tables: a generation is one stretch of a table, in log order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from satchel.errors import UnknownBlobError, ValueRefusedError, VerificationError
from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation, Given, PackedVector, pack_vector, unpack_vector
from satchel.stores.nearest import nearest
from satchel.stores.sqlite.statements import (
    ID_PREFIX,
    PIECE_BITS,
    SEQ_BITS,
    SqliteStatements,
    damaged,
    decoding,
    raw_id,
)

_SEQ = (1 << SEQ_BITS) - 1
_KEY = "bank = ? AND model = ? AND dimensions = ? AND generation = ?"
_NUMBERS = "CASE WHEN length(numbers) = width * {} THEN numbers END"
"""What has another length is never loaded, however long it is."""


class SqliteVectors(SqliteStatements):
    """The vectors of a store, for reading."""

    def generations(self, bank: str) -> dict[Generation, int]:
        sql = "SELECT model, dimensions, generation, number FROM generation WHERE bank = ?"
        found = self._all(sql, self._number(bank), kinds=(str, int, int, int))
        return {self._generation(*key): self._count(number) for *key, number in sorted(found)}

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        places = self._places(self._number(bank), ids)
        first = self._first(bank, generation)
        if first is None:
            return {}
        names = {first + place: identity for identity, place in places.items()}
        numbers = _NUMBERS.format(generation.dimensions)
        sql = f"SELECT place, width, {numbers} FROM vector WHERE place IN "  # noqa: S608 - our own numbers
        found = self._in(sql, list(names), (int, int, bytes))
        return {
            names[place]: self._unpacked(PackedVector(width, numbers), generation.dimensions)
            for place, width, numbers in found
        }

    def near(
        self, bank: str, generation: Generation, vector: Given, *, limit: int
    ) -> list[tuple[str, float]]:
        count = generation.dimensions
        wanted = unpack_vector(pack_vector(vector, count, "vector"), count)
        number, first = self._number(bank), self._first(bank, generation)
        if first is None:
            return []
        try:
            best = self._nearest(first, number << SEQ_BITS, wanted, limit)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error
        sql = "SELECT place, id FROM record WHERE place IN "
        places = [(number << SEQ_BITS) + place for place, _ in best]
        names = dict(self._in(sql, places, (int, bytes)))
        return [
            (ID_PREFIX + names[place].hex(), cosine)
            for place, (_, cosine) in zip(places, best, strict=True)
        ]

    def _nearest(
        self, first: int, bank: int, wanted: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        """Look at the vectors of a generation's current records."""
        sql = (
            f"SELECT vector.place - ?, {_NUMBERS.format(len(wanted))} FROM vector"  # noqa: S608 - our own numbers
            " CROSS JOIN record ON record.place = vector.place + ?"
            " WHERE vector.place BETWEEN ? AND ? AND retired IS NULL AND hold = 0"
        )
        values = (first, bank - first, first, first + _SEQ)
        with decoding(self._name, self._connection):
            return nearest(self._connection.execute(sql, values), wanted, limit)

    def _places(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the places in the log of those records that are there, by id."""
        sql = f"SELECT id, place & {_SEQ} FROM record WHERE bank = {number} AND id IN "  # noqa: S608 - our own numbers
        found = self._in(sql, [raw_id(identity) for identity in ids], (bytes, int))
        there = {ID_PREFIX + identity.hex(): place for identity, place in found}
        return {identity: there[identity] for identity in ids if identity in there}

    def _first(self, bank: str, generation: Generation) -> int | None:
        """Return what the places of a generation's vectors begin with, where it is there."""
        sql = f"SELECT number FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
        found = self._all(sql, *self._key(bank, generation), kinds=(int,))
        return self._start(found[0][0], SEQ_BITS) if found else None

    def _key(self, bank: str, generation: Generation) -> tuple[Any, ...]:
        number = self._number(bank)
        return number, generation.model, generation.dimensions, generation.number

    def _count(self, number: int) -> int:
        first = self._start(number, SEQ_BITS)
        sql = "SELECT count(*) FROM vector WHERE place BETWEEN ? AND ?"
        return int(self._all(sql, first, first + _SEQ)[0][0])

    def _generation(self, model: str, dimensions: int, number: int) -> Generation:
        try:
            return Generation(model, dimensions, number)
        except ValueRefusedError as error:
            raise damaged(self._name, error.message) from error

    def _unpacked(self, kept: PackedVector, dimensions: int) -> tuple[float, ...]:
        try:
            return unpack_vector(kept, dimensions)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error


class SqliteVectorsWriter(SqliteVectors):
    """The vectors of a store, for the one who may write."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Given]) -> None:
        places = self._places(self._number(bank), list(vectors))
        for identity in vectors:
            if identity not in places:
                raise ValueRefusedError("no such record in the bank", field=identity)
        count = generation.dimensions
        rows = [
            (places[identity], *pack_vector(vector, count, identity))
            for identity, vector in vectors.items()
        ]
        if rows:
            with self._whole():
                first = self._made(bank, generation)
                values = ((first + place, *kept) for place, *kept in rows)
                self._many("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", values)

    def drop(self, bank: str, generation: Generation) -> None:
        first = self._first(bank, generation)
        if first is not None:
            with self._whole():
                self._all("DELETE FROM vector WHERE place BETWEEN ? AND ?", first, first + _SEQ)
                sql = f"DELETE FROM generation WHERE {_KEY}"  # noqa: S608 - our own names
                self._all(sql, *self._key(bank, generation))

    def _made(self, bank: str, generation: Generation) -> int:
        first = self._first(bank, generation)
        if first is None:
            sql = "INSERT INTO generation VALUES (NULL, ?, ?, ?, ?) RETURNING number"
            first = self._start(self._all(sql, *self._key(bank, generation))[0][0], SEQ_BITS)
        return first


_LAST = (1 << PIECE_BITS) - 1


class SqliteBlobs(SqliteStatements):
    """The blobs of a store, for reading."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT digest, size FROM blob WHERE bank = ? ORDER BY digest"
        found = self._each(sql, self._number(bank), kinds=(bytes, int))
        return ((ID_PREFIX + digest.hex(), size) for digest, size in found)

    def has(self, bank: str, digest: str) -> bool:
        return self._blob(bank, digest) is not None

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        blob = self._blob(bank, digest)
        if blob is None:
            raise UnknownBlobError(f"no blob {digest} in the bank", file=self._name)
        return self._pieces(self._start(blob, PIECE_BITS))

    def _pieces(self, first: int) -> Iterator[bytes]:
        sql = (
            # What is longer than any piece is never loaded.
            "SELECT place, CASE WHEN length(data) <= ? THEN data END FROM piece"
            " WHERE place BETWEEN ? AND ? ORDER BY place"
        )
        found = self._each(sql, PIECE_BYTES, first, first + _LAST, kinds=(int, bytes))
        for expected, (place, data) in enumerate(found, first):
            if place != expected:
                raise VerificationError(
                    "a piece of a file is in another place",
                    file=self._name,
                    hint="The store was changed by another program. Store it again from its "
                    "source.",
                )
            yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        """Return the number of a blob, where it is there."""
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # written otherwise, it names nothing
            return None
        sql = "SELECT number FROM blob WHERE bank = ? AND digest = ?"
        found = self._all(sql, number, raw, kinds=(int,))
        return int(found[0][0]) if found else None


class SqliteBlobsWriter(SqliteBlobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number = self._number(bank)
        pieces = BlobPieces(chunks)
        with self._whole():
            # It has a name once all of it has passed.
            sql = "INSERT INTO blob (bank, size) VALUES (?, 0) RETURNING number"
            blob = int(self._all(sql, number)[0][0])
            rows = enumerate(pieces, blob << PIECE_BITS)
            self._many("INSERT INTO piece VALUES (?, ?)", rows)
            digest = pieces.digest
            self.drop(bank, digest)
            sql = "UPDATE blob SET digest = ?, size = ? WHERE number = ?"
            self._all(sql, raw_id(digest), pieces.size, blob)
        return digest

    def drop(self, bank: str, digest: str) -> None:
        blob = self._blob(bank, digest)
        if blob is not None:
            with self._whole():
                first = self._start(blob, PIECE_BITS)
                self._all("DELETE FROM piece WHERE place BETWEEN ? AND ?", first, first + _LAST)
                self._all("DELETE FROM blob WHERE number = ?", blob)
