"""Vectors in the tables: a generation is one stretch of a table, in log order.

Where pgvector is installed, the server looks at all of them in 32 bits and sends those that may be
among the nearest, with room for its rounding; what is sent is compared as in any other store, so
the answer is the same with and without.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from satchel.errors import UnknownBlobError, ValueRefusedError, VerificationError
from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation, Given, PackedVector, pack_vector, unpack_vector
from satchel.stores.nearest import nearest, unit_of
from satchel.stores.postgres.statements import (
    ID_PREFIX,
    MOST_AT_ONCE,
    PostgresStatements,
    damaged,
    raw_id,
)

_KEY = "bank = %s AND model = %s AND dimensions = %s AND generation = %s"
_NUMBERS = "CASE WHEN octet_length(numbers) = width * %s THEN numbers END"
"""What has another length is never loaded, however long it is."""

_TOGETHER_BYTES = 1 << 20
_PUT = """
INSERT INTO vector (generation, seq, bank, width, numbers{unit}) VALUES (%s, %s, %s, %s, %s{value})
ON CONFLICT (generation, seq) DO UPDATE SET width = excluded.width, numbers = excluded.numbers
{again}"""
_MOST_UNITS = 16_000
"""Numbers in a vector of the extension."""

_ROUNDING = 2.0**-22
"""Of a product of two vectors of length 1 on the server, for each number, at the very most."""

_LEAST = 1e-30  # what is smaller counts for nothing, and may be none for the extension
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


class PostgresVectors(PostgresStatements):
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
                kept = PackedVector(width, numbers or b"")
                found[names[place]] = self._unpacked(kept, generation.dimensions)
        return found

    def near(
        self, bank: str, generation: Generation, vector: Given, *, limit: int
    ) -> list[tuple[str, float]]:
        count = generation.dimensions
        wanted = unpack_vector(pack_vector(vector, count, "vector"), count)
        bank_number, number = self._number(bank), self._made(bank, generation)
        if number is None:
            return []
        try:
            best = nearest(self._current(bank_number, number, wanted, limit), wanted, limit)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error
        sql = "SELECT seq, id FROM record WHERE bank = %s AND seq = ANY (%s::bigint[])"
        names = dict(self._all(sql, bank_number, [place for place, _ in best]))
        return [(ID_PREFIX + names[place].hex(), cosine) for place, cosine in best]

    def _current(
        self, bank: int, number: int, wanted: tuple[float, ...], limit: int
    ) -> Iterator[tuple[int, bytes | None]]:
        """Yield the vectors of current records that may be the nearest, in the log's order."""
        count, extension = len(wanted), self._session.extension
        together = max(1, min(MOST_AT_ONCE, _TOGETHER_BYTES // (8 * count)))
        if extension is None or count > _MOST_UNITS or limit < 1:
            sql = f"SELECT vector.seq, {_NUMBERS}{_FROM} ORDER BY vector.seq"
            return self._each(sql, count, bank, number, together=together)
        sql = _NEARER.format(extension=extension, there=_FROM, numbers=_NUMBERS)
        room = (count + 8) * _ROUNDING
        values = (_unit(wanted), bank, number, count, number, room, limit)
        return self._each(sql, *values, together=together)

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
            raise damaged(self._name, "an invalid generation") from error

    def _unpacked(self, kept: PackedVector, dimensions: int) -> tuple[float, ...]:
        try:
            return unpack_vector(kept, dimensions)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error


class PostgresVectorsWriter(PostgresVectors):
    """The vectors of a store, for the one who may write."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Given]) -> None:
        bank_number = self._number(bank)
        places = self._places(bank_number, list(vectors))
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
                number = self._made(bank, generation)
                if number is None:
                    sql = (
                        "INSERT INTO generation (bank, model, dimensions, generation)"
                        " VALUES (%s, %s, %s, %s) RETURNING number"
                    )
                    number = int(self._all(sql, *self._key(bank, generation))[0][0])
                self._set(number, bank_number, count, rows)

    def _set(
        self, number: int, bank: int, count: int, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        extension = self._session.extension
        if extension is None or count > _MOST_UNITS:
            sql = _PUT.format(unit="", value="", again="")
            self._many(sql, ((number, place, bank, *kept) for place, *kept in rows))
            return
        sql = _PUT.format(
            unit=", unit", value=f", %s::{extension}.vector", again=", unit = excluded.unit"
        )
        values = (
            (
                number,
                place,
                bank,
                width,
                kept,
                _unit(unpack_vector(PackedVector(width, kept), count)),
            )
            for place, width, kept in rows
        )
        self._many(sql, values)

    def drop(self, bank: str, generation: Generation) -> None:
        number = self._made(bank, generation)
        if number is not None:
            self._all("DELETE FROM vector WHERE generation = %s", number)
            self._all("DELETE FROM generation WHERE number = %s", number)


def _unit(numbers: Sequence[float]) -> str:
    """Return the direction of a vector as the extension reads it."""
    short = struct.pack(f"<{len(numbers)}f", *unit_of(numbers))
    rounded = struct.unpack(f"<{len(numbers)}f", short)
    return f"[{','.join(repr(one) if abs(one) > _LEAST else '0' for one in rounded)}]"


class PostgresBlobs(PostgresStatements):
    """The blobs of a store, for reading."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT digest, size FROM blob WHERE bank = %s AND digest IS NOT NULL ORDER BY digest"
        found = self._each(sql, self._number(bank))
        return ((ID_PREFIX + digest.hex(), size) for digest, size in found)

    def has(self, bank: str, digest: str) -> bool:
        return self._blob(bank, digest) is not None

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        blob = self._blob(bank, digest)
        if blob is None:
            raise UnknownBlobError(f"no blob {digest} in the bank", file=self._name)
        return self._pieces(blob)

    def _pieces(self, blob: int) -> Iterator[bytes]:
        # What is longer than any piece is never loaded.
        sql = (
            "SELECT part, CASE WHEN octet_length(data) <= %s THEN data END FROM piece"
            " WHERE blob = %s ORDER BY part"
        )
        found = self._each(sql, PIECE_BYTES, blob, together=1)
        for expected, (part, data) in enumerate(found):
            if data is None:
                raise damaged(self._name, "a piece of a blob is too long")
            if part != expected:
                raise VerificationError(
                    "a piece of a blob is in another place",
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
        sql = "SELECT number FROM blob WHERE bank = %s AND digest = %s"
        found = self._all(sql, number, raw)
        return int(found[0][0]) if found else None


class PostgresBlobsWriter(PostgresBlobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number = self._number(bank)
        pieces = BlobPieces(chunks)
        with self._whole():
            # It has a name once all of it has passed.
            sql = "INSERT INTO blob (bank, size) VALUES (%s, 0) RETURNING number"
            blob = int(self._all(sql, number)[0][0])
            for part, data in enumerate(pieces):
                self._all("INSERT INTO piece VALUES (%s, %s, %s, %s)", blob, part, number, data)
            digest = pieces.digest
            self.drop(bank, digest)
            sql = "UPDATE blob SET digest = %s, size = %s WHERE number = %s"
            self._all(sql, raw_id(digest), pieces.size, blob)
        return digest

    def drop(self, bank: str, digest: str) -> None:
        blob = self._blob(bank, digest)
        if blob is not None:
            self._all("DELETE FROM piece WHERE blob = %s", blob)
            self._all("DELETE FROM blob WHERE number = %s", blob)
