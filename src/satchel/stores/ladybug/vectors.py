"""Vectors and blobs in tables: a generation is one stretch of a table, in log order."""

from collections.abc import Iterable, Iterator, Sequence

from satchel.model.values import is_encodable, is_id
from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation
from satchel.stores.ladybug.statements import NODES, LadybugStatements, thing_key
from satchel.stores.vectors import (
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    StoredVector,
    TableBlobs,
    TableVectors,
    TableVectorsWriter,
    nearest,
)

_OF = "MATCH (g:Generation) WHERE g.bank = $bank"
_KEY = f"{_OF} AND g.model = $model AND g.dimensions = $dimensions AND g.generation = $generation"
_VECTORS = "MATCH (v:Vector) WHERE v.place >= $first AND v.place <= $last"
_PAGE_BYTES = 1 << 22
_WIDEST = 8


class LadybugVectors(LadybugStatements, TableVectors):
    """Reading vectors. The table of a generation is the first place of its stretch."""

    def generations(self, bank: str) -> dict[Generation, int]:
        cypher = f"{_OF} RETURN g.model, g.dimensions, g.generation, g.number"
        rows = self._all(cypher, bank=self._number(bank))
        if not all(tuple(map(type, row)) == (str, int, int, int) for row in rows):
            raise self._damaged("a column contains an invalid value")
        return {self._generation(*key): self._count(number) for *key, number in sorted(rows)}

    def _table(self, bank: str, generation: Generation) -> int | None:
        rows = self._all(
            f"{_KEY} RETURN g.number",
            bank=self._number(bank),
            model=generation.model,
            dimensions=generation.dimensions,
            generation=generation.number,
        )
        return self._start(rows[0][0], SEQ_BITS) if rows else None

    def _positions(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        keys = {thing_key(number, identity): identity for identity in ids if is_id(identity)}
        cypher = "MATCH (t:Thing) WHERE t.key = x AND t.place IS NOT NULL RETURN t.key, t.place"
        positions = {keys[key]: place & SEQ_MASK for key, place in self._in(cypher, keys)}
        return {identity: positions[identity] for identity in ids if identity in positions}

    def _stored(
        self, table: int, positions: Sequence[int], dimensions: int
    ) -> Iterator[StoredVector]:
        del dimensions
        cypher = "MATCH (v:Vector) WHERE v.place = x RETURN v.place, v.width, v.numbers"
        for place, width, numbers in self._in(cypher, [table + seq for seq in positions]):
            yield place - table, width, numbers

    def _nearest(
        self, number: int, table: int, vector: tuple[float, ...], limit: int
    ) -> list[tuple[int, float]]:
        rows = self._current(table, number << SEQ_BITS, len(vector))
        return nearest(rows, vector, limit)

    def _ids(self, number: int, positions: Sequence[int]) -> dict[int, str]:
        first = number << SEQ_BITS
        cypher = "MATCH (r:Record) WHERE r.place = x RETURN r.place, r.id"
        rows = self._in(cypher, [first + position for position in positions])
        return {rowid - first: identity for rowid, identity in rows}

    def _current(
        self, first: int, bank: int, dimensions: int
    ) -> Iterator[tuple[int, bytes | None]]:
        """Yield the vectors of a generation's current records, in log order."""
        most = max(1, _PAGE_BYTES // (_WIDEST * dimensions))
        cypher = (
            f"{_VECTORS} MATCH (r:Record) WHERE r.place = v.place - $first0 + $start"
            " AND r.retired IS NULL AND r.hold = false"
            " RETURN v.place, v.width, v.numbers ORDER BY v.place LIMIT $most"
        )
        values = {"first": first, "first0": first, "start": bank, "last": first + SEQ_MASK}
        while page := self._all(cypher, **values, most=most):
            for rowid, width, numbers in page:
                whole = isinstance(numbers, bytes) and len(numbers) == (width or 0) * dimensions
                yield rowid & SEQ_MASK, numbers if whole else None
            values["first"] = page[-1][0] + 1

    def _count(self, number: int) -> int:
        first = self._start(number, SEQ_BITS)
        rows = self._all(f"{_VECTORS} RETURN count(*)", first=first, last=first + SEQ_MASK)
        return int(rows[0][0])


class LadybugVectorsWriter(LadybugVectors, TableVectorsWriter):
    """Writing vectors."""

    def _store(
        self, bank: str, generation: Generation, rows: Sequence[tuple[int, int, bytes]]
    ) -> None:
        first = self._create(bank, generation)
        nodes = [
            {"place": first + position, "width": width, "numbers": numbers}
            for position, width, numbers in rows
        ]
        cypher = "MATCH (v:Vector) WHERE v.place = x RETURN v.place"
        existing = {place for (place,) in self._in(cypher, [node["place"] for node in nodes])}
        self._many(
            "MATCH (v:Vector) WHERE v.place = x.place SET v.width = x.width, v.numbers = x.numbers",
            (node for node in nodes if node["place"] in existing),
            NODES["Vector"],
        )
        self._make("Vector", (node for node in nodes if node["place"] not in existing))

    def drop(self, bank: str, generation: Generation) -> None:
        first = self._table(bank, generation)
        if first is not None:
            self._run(f"{_VECTORS} DELETE v", first=first, last=first + SEQ_MASK)
            cypher = "MATCH (g:Generation {number: $number}) DELETE g"
            self._run(cypher, number=first >> SEQ_BITS)

    def drop_of(self, bank: str, places: Sequence[int]) -> None:
        """Remove the vectors of records; a generation exists while it has any."""
        cypher = f"{_OF} RETURN g.number"
        for (number,) in self._all(cypher, bank=self._number(bank)):
            first = self._start(number, SEQ_BITS)
            gone = "MATCH (v:Vector) WHERE v.place = x DELETE v"
            self._many(gone, (first + place for place in places), "INT64")
            if not self._count(number):
                self._run("MATCH (g:Generation {number: $number}) DELETE g", number=number)

    def _create(self, bank: str, generation: Generation) -> int:
        """Return the table of a generation, created when missing."""
        first = self._table(bank, generation)
        if first is None:
            number = self._next("Generation")
            self._run(
                "CREATE (:Generation {number: $number, bank: $bank, model: $model,"
                " dimensions: $dimensions, generation: $generation})",
                number=number,
                bank=self._number(bank),
                model=generation.model,
                dimensions=generation.dimensions,
                generation=generation.number,
            )
            first = self._start(number, SEQ_BITS)
        return first


_PIECES = "MATCH (p:Piece) WHERE p.place >= $first AND p.place <= $last"


class LadybugBlobs(LadybugStatements, TableBlobs):
    """Reading blobs."""

    def listed(self, bank: str) -> Iterator[tuple[str, int]]:
        cypher = "MATCH (b:Blob) WHERE b.bank = $bank AND b.digest IS NOT NULL"
        rows = self._all(f"{cypher} RETURN b.digest, b.size", bank=self._number(bank))
        if not all(isinstance(size, int) for _, size in rows):
            raise self._damaged("a column contains an invalid value")
        return iter(sorted((digest, size) for digest, size in rows))

    def _pieces(self, blob: int) -> Iterator[bytes]:
        first = self._start(blob, PIECE_BITS)
        ((size,),) = self._all("MATCH (b:Blob {number: $blob}) RETURN b.size", blob=blob)
        if not isinstance(size, int):
            raise self._damaged("a column contains an invalid value")
        for place in range(first, first + -(-size // PIECE_BYTES)):
            rows = self._all("MATCH (p:Piece {place: $place}) RETURN p.data", place=place)
            for (data,) in rows:
                if not isinstance(data, bytes):
                    raise self._damaged("a column contains an invalid value")
                yield data

    def _blob(self, bank: str, digest: str) -> int | None:
        number = self._number(bank)
        if not is_encodable(digest):
            return None
        cypher = "MATCH (b:Blob) WHERE b.bank = $bank AND b.digest = $digest RETURN b.number"
        rows = self._all(cypher, bank=number, digest=digest)
        return int(rows[0][0]) if rows else None


class LadybugBlobsWriter(LadybugBlobs):
    """Writing blobs. The engine has no savepoints, so a failed blob is removed by statements."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number, blob = self._number(bank), self._next("Blob")
        first = self._start(blob, PIECE_BITS)
        # The digest is known after the last piece.
        cypher = "CREATE (:Blob {number: $blob, bank: $bank, size: 0})"
        self._run(cypher, blob=blob, bank=number)
        pieces = BlobPieces(chunks)
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
