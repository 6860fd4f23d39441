"""Blobs in the tables: pieces of one size, in their order under the number of their blob."""

from collections.abc import Iterable, Iterator

from satchel.errors import UnknownBlobError
from satchel.ports.blobs import PIECE_BYTES, Pieces
from satchel.stores.ladybug.errors import damaged
from satchel.stores.ladybug.schema import PIECE_BITS
from satchel.stores.ladybug.statements import Statements, writable

_PIECES = "MATCH (p:Piece) WHERE p.place >= $first AND p.place <= $last"


class Blobs(Statements):
    """The blobs of a store, for reading."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        cypher = "MATCH (b:Blob) WHERE b.bank = $bank AND b.digest IS NOT NULL"
        found = self._all(f"{cypher} RETURN b.digest, b.size", bank=self._number(bank))
        if not all(isinstance(size, int) for _, size in found):
            raise damaged(self._name, "a column contains an invalid value")
        return iter(sorted((digest, size) for digest, size in found))

    def has(self, bank: str, digest: str) -> bool:
        return self._blob(bank, digest) is not None

    def get(self, bank: str, digest: str) -> Iterator[bytes]:
        blob = self._blob(bank, digest)
        if blob is None:
            raise UnknownBlobError(f"no blob {digest} in the bank", file=self._name)
        return self._pieces(blob, self._start(blob, PIECE_BITS))

    def _pieces(self, blob: int, first: int) -> Iterator[bytes]:
        ((size,),) = self._all("MATCH (b:Blob {number: $blob}) RETURN b.size", blob=blob)
        if not isinstance(size, int):
            raise damaged(self._name, "a column contains an invalid value")
        for place in range(first, first + -(-size // PIECE_BYTES)):
            found = self._all("MATCH (p:Piece {place: $place}) RETURN p.data", place=place)
            for (data,) in found:
                if not isinstance(data, bytes):
                    raise damaged(self._name, "a column contains an invalid value")
                yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        """Return the number of a blob, where it is there."""
        number = self._number(bank)
        if not writable(digest):
            return None
        cypher = "MATCH (b:Blob) WHERE b.bank = $bank AND b.digest = $digest RETURN b.number"
        found = self._all(cypher, bank=number, digest=digest)
        return int(found[0][0]) if found else None


class BlobsWriting(Blobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number, blob = self._number(bank), self._next("Blob")
        first = self._start(blob, PIECE_BITS)
        # It has a name once all of it has passed.
        cypher = "CREATE (:Blob {number: $blob, bank: $bank, size: 0})"
        self._run(cypher, blob=blob, bank=number)
        pieces = Pieces(chunks)
        try:
            for place, data in enumerate(pieces, first):
                cypher = "CREATE (:Piece {place: $place, data: $data})"
                self._run(cypher, place=place, data=data)
        except BaseException:
            if self._block.over is None:
                self._remove(blob)
            raise
        self.drop(bank, pieces.digest)
        cypher = "MATCH (b:Blob {number: $blob}) SET b.digest = $digest, b.size = $size"
        self._run(cypher, blob=blob, digest=pieces.digest, size=pieces.size)
        return pieces.digest

    def drop(self, bank: str, digest: str) -> None:
        blob = self._blob(bank, digest)
        if blob is not None:
            self._remove(blob)

    def _remove(self, blob: int) -> None:
        first = self._start(blob, PIECE_BITS)
        self._run(f"{_PIECES} DELETE p", first=first, last=first + (1 << PIECE_BITS) - 1)
        self._run("MATCH (b:Blob {number: $blob}) DELETE b", blob=blob)
