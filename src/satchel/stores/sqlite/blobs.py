"""Blobs in the tables: pieces of one size, in their order under the number of their blob."""

from collections.abc import Iterable, Iterator

from satchel.errors import UnknownBlobError
from satchel.ports.blobs import PIECE_BYTES, Pieces
from satchel.stores.sqlite.errors import damaged
from satchel.stores.sqlite.schema import PIECE_BITS
from satchel.stores.sqlite.statements import ID_PREFIX, Statements, raw_id

_LAST = (1 << PIECE_BITS) - 1


class Blobs(Statements):
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
                raise damaged(self._name, "a piece of a file is in another place")
            yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        """Return the number of a blob, where it is there."""
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # written otherwise, it names nothing
            return None
        sql = "SELECT number FROM blob WHERE bank = ? AND digest = ?"
        found = self._all(sql, number, raw, kinds=(int,))
        return int(found[0][0]) if found else None


class BlobsWriting(Blobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number = self._number(bank)
        pieces = Pieces(chunks)
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
