"""Blobs in the tables: pieces of one size, in their order under the number of their blob."""

from collections.abc import Iterable, Iterator

from satchel.errors import UnknownBlobError
from satchel.ports.blobs import PIECE_BYTES, Pieces
from satchel.stores.postgres.errors import damaged
from satchel.stores.postgres.statements import ID_PREFIX, Statements, raw_id


class Blobs(Statements):
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
                raise damaged(self._name, "a piece of a blob is in another place")
            yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        """Return the number of a blob, where it is there."""
        raw, number = raw_id(digest), self._number(bank)
        if ID_PREFIX + raw.hex() != digest:  # written otherwise, it names nothing
            return None
        sql = "SELECT number FROM blob WHERE bank = %s AND digest = %s"
        found = self._all(sql, number, raw)
        return int(found[0][0]) if found else None


class BlobsWriting(Blobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number = self._number(bank)
        pieces = Pieces(chunks)
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
