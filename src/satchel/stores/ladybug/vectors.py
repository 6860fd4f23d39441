"""Vectors in the tables: a generation is one stretch of a table, in log order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from satchel.errors import UnknownBlobError, ValueRefusedError
from satchel.model.values import is_id
from satchel.ports.store import PIECE_BYTES, BlobPieces
from satchel.ports.vectors import Generation, Given, PackedVector, pack_vector, unpack_vector
from satchel.stores.ladybug.statements import (
    NODES,
    PIECE_BITS,
    SEQ_BITS,
    SEQ_MASK,
    LadybugStatements,
    damaged,
    thing_key,
    writable,
)
from satchel.stores.nearest import nearest

_OF = "MATCH (g:Generation) WHERE g.bank = $bank"
_KEY = f"{_OF} AND g.model = $model AND g.dimensions = $dimensions AND g.generation = $generation"
_VECTORS = "MATCH (v:Vector) WHERE v.place >= $first AND v.place <= $last"
_PAGE_BYTES = 1 << 22
_WIDEST = 8


class LadybugVectors(LadybugStatements):
    """The vectors of a store, for reading."""

    def generations(self, bank: str) -> dict[Generation, int]:
        cypher = f"{_OF} RETURN g.model, g.dimensions, g.generation, g.number"
        found = self._all(cypher, bank=self._number(bank))
        if not all(tuple(map(type, row)) == (str, int, int, int) for row in found):
            raise damaged(self._name, "a column contains an invalid value")
        return {self._generation(*key): self._count(number) for *key, number in sorted(found)}

    def get(
        self, bank: str, generation: Generation, ids: Sequence[str]
    ) -> dict[str, tuple[float, ...]]:
        places = self._places(self._number(bank), ids)
        first = self._first(bank, generation)
        if first is None:
            return {}
        names = {first + place: identity for identity, place in places.items()}
        cypher = "MATCH (v:Vector) WHERE v.place = x RETURN v.place, v.width, v.numbers"
        return {
            names[place]: self._unpacked(width, numbers, generation.dimensions)
            for place, width, numbers in self._in(cypher, names)
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
            rows = self._current(first, number << SEQ_BITS, count)
            best = nearest(rows, wanted, limit)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error
        cypher = "MATCH (r:Record) WHERE r.place = x RETURN r.place, r.id"
        places = [(number << SEQ_BITS) + place for place, _ in best]
        names = dict(self._in(cypher, places))
        return [(names[place], cosine) for place, (_, cosine) in zip(places, best, strict=True)]

    def _current(
        self, first: int, bank: int, dimensions: int
    ) -> Iterator[tuple[int, bytes | None]]:
        """Yield the vectors of a generation's current records, by place in the log."""
        most = max(1, _PAGE_BYTES // (_WIDEST * dimensions))
        cypher = (
            f"{_VECTORS} MATCH (r:Record) WHERE r.place = v.place - $first0 + $start"
            " AND r.retired IS NULL AND r.hold = false"
            " RETURN v.place, v.width, v.numbers ORDER BY v.place LIMIT $most"
        )
        values = {"first": first, "first0": first, "start": bank, "last": first + SEQ_MASK}
        while found := self._all(cypher, **values, most=most):
            for place, width, numbers in found:
                whole = isinstance(numbers, bytes) and len(numbers) == (width or 0) * dimensions
                yield place & SEQ_MASK, numbers if whole else None
            values["first"] = found[-1][0] + 1

    def _places(self, number: int, ids: Sequence[str]) -> dict[str, int]:
        """Return the places in the log of those records that are there, by id."""
        keys = {thing_key(number, identity): identity for identity in ids if is_id(identity)}
        cypher = "MATCH (t:Thing) WHERE t.key = x AND t.place IS NOT NULL RETURN t.key, t.place"
        there = {keys[key]: place & SEQ_MASK for key, place in self._in(cypher, keys)}
        return {identity: there[identity] for identity in ids if identity in there}

    def _first(self, bank: str, generation: Generation) -> int | None:
        """Return what the places of a generation's vectors begin with, where it is there."""
        found = self._all(
            f"{_KEY} RETURN g.number",
            bank=self._number(bank),
            model=generation.model,
            dimensions=generation.dimensions,
            generation=generation.number,
        )
        return self._start(found[0][0], SEQ_BITS) if found else None

    def _count(self, number: int) -> int:
        first = self._start(number, SEQ_BITS)
        found = self._all(f"{_VECTORS} RETURN count(*)", first=first, last=first + SEQ_MASK)
        return int(found[0][0])

    def _generation(self, model: str, dimensions: int, number: int) -> Generation:
        try:
            return Generation(model, dimensions, number)
        except ValueRefusedError as error:
            raise damaged(self._name, error.message) from error

    def _unpacked(self, width: Any, numbers: Any, dimensions: int) -> tuple[float, ...]:
        if not (isinstance(width, int) and isinstance(numbers, bytes)):
            raise damaged(self._name, "a column contains an invalid value")
        try:
            return unpack_vector(PackedVector(width, numbers), dimensions)
        except ValueError as error:
            raise damaged(self._name, str(error)) from error


class LadybugVectorsWriter(LadybugVectors):
    """The vectors of a store, for the one who may write."""

    def put(self, bank: str, generation: Generation, vectors: Mapping[str, Given]) -> None:
        places = self._places(self._number(bank), list(vectors))
        for identity in vectors:
            if identity not in places:
                raise ValueRefusedError("no such record in the bank", field=identity)
        count = generation.dimensions
        new = {
            places[identity]: pack_vector(vector, count, identity)
            for identity, vector in vectors.items()
        }
        if not new:
            return
        first = self._made(bank, generation)
        rows = [
            {"place": first + place, "width": width, "numbers": numbers}
            for place, (width, numbers) in new.items()
        ]
        there = "MATCH (v:Vector) WHERE v.place = x RETURN v.place"
        old = {place for (place,) in self._in(there, [row["place"] for row in rows])}
        self._many(
            "MATCH (v:Vector) WHERE v.place = x.place SET v.width = x.width, v.numbers = x.numbers",
            (row for row in rows if row["place"] in old),
            NODES["Vector"],
        )
        self._make("Vector", (row for row in rows if row["place"] not in old))

    def drop(self, bank: str, generation: Generation) -> None:
        first = self._first(bank, generation)
        if first is not None:
            self._run(f"{_VECTORS} DELETE v", first=first, last=first + SEQ_MASK)
            cypher = "MATCH (g:Generation {number: $number}) DELETE g"
            self._run(cypher, number=first >> SEQ_BITS)

    def drop_of(self, bank: str, places: Sequence[int]) -> None:
        """Remove the vectors of records; a generation is there while it has any."""
        cypher = f"{_OF} RETURN g.number"
        for (number,) in self._all(cypher, bank=self._number(bank)):
            first = self._start(number, SEQ_BITS)
            gone = "MATCH (v:Vector) WHERE v.place = x DELETE v"
            self._many(gone, (first + place for place in places), "INT64")
            if not self._count(number):
                self._run("MATCH (g:Generation {number: $number}) DELETE g", number=number)

    def _made(self, bank: str, generation: Generation) -> int:
        first = self._first(bank, generation)
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


class LadybugBlobs(LadybugStatements):
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


class LadybugBlobsWriter(LadybugBlobs):
    """The blobs of a store, for the one who may write."""

    def put(self, bank: str, chunks: Iterable[bytes]) -> str:
        number, blob = self._number(bank), self._next("Blob")
        first = self._start(blob, PIECE_BITS)
        # It has a name once all of it has passed.
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
