"""A bank's own vectors in files: each beside its memory, with the mark of its text.

A file names their maker once. A vector without mark and maker is one that came with a memory, and
is part of it.
"""

from collections.abc import Iterator
from itertools import islice
from math import copysign
from typing import Any

from satchel.crypto.sealed_records import Sealed
from satchel.model.records import Entry
from satchel.ports.format import ReadContext, WriteContext
from satchel.ports.rows import entry_texts
from satchel.ports.vectors import Maker, VectorSink, VectorSource, text_mark

_BATCH = 256

Vector = tuple[str, Any]
"""The mark of a text, and its vector in the form of the file."""


def minus_zeros(vector: Any) -> list[int]:
    """Return the positions of negative zeros in a vector, which JSON does not preserve."""
    if 0.0 not in vector:
        return []
    return [at for at, part in enumerate(vector) if part == 0 and copysign(1, part) < 0]


def signed(vector: Any, zeros: Any) -> Any:
    """Return a vector with its negative zeros restored; an invalid one is returned unchanged."""
    if type(vector) is list and type(zeros) is list:
        for at in zeros:
            if type(at) is int and 0 <= at < len(vector) and vector[at] == 0:
                vector[at] = -0.0
    return vector


class BankVectorWriter:
    """The bank's own vectors, for writing.

    Args:
        writing: Whether the bank has some, and whether to include them.
    """

    def __init__(self, writing: WriteContext) -> None:
        source = writing.vectors
        self.left = source.count if source is not None and not writing.embeddings else 0
        """Number of vectors that are not included, since they were not requested."""

        self.without = 0
        """Number of memories without one."""

        self.written = 0
        self._from: VectorSource | None = source if writing.embeddings else None
        if self._from is not None:
            self._from.begin()

    @property
    def maker(self) -> Maker | None:
        """Their maker; None if none are included."""
        return None if self._from is None else self._from.maker

    def beside(self, records: Iterator[Sealed]) -> Iterator[tuple[Sealed, Vector | None]]:
        """Yield each record with its vector."""
        if self._from is None:
            for record in records:
                yield record, None
            return
        while some := list(islice(records, _BATCH)):
            vectors = self._from.of([record.id for record in some])
            for record in some:
                vector, model = vectors.get(record.id), record.model
                if vector is None or not isinstance(model, Entry):
                    self.without += 1
                    yield record, None
                else:
                    mark = text_mark(entry_texts(model))
                    self.written += 1
                    self._from.wrote(mark, vector)
                    yield record, (mark, vector)

    def report(self, writing: WriteContext) -> None:
        """Report the vectors that were included, and those that were not."""
        report, source = writing.report, writing.vectors
        if source is None:
            return
        model = source.maker.model
        if self.left:
            report.note(
                f"{self.left:,} vectors of {model} were not exported; to include them: "
                "--include-embeddings"
            )
        if self.written:
            report.note(f"{self.written:,} vectors of {model} go along")
        if self.without:
            report.note(
                f"{self.without:,} memories have no vector yet; to compute them: satchel embed"
            )


class BankVectorReader:
    """Passes on the bank's own vectors found in lines.

    Args:
        reading: Takes them.
        maker: Their maker; None if the file does not name it.
    """

    def __init__(self, reading: ReadContext, maker: Maker | None) -> None:
        self._to: VectorSink | None = reading.vectors
        self._left = 0
        if self._to is not None and maker is not None:
            self._to.begin(maker)

    def take(self, vector: Vector, entry: Entry) -> None:
        """Take the vector of a line, if it is of the line's text."""
        mark, numbers = vector
        if self._to is None:
            self._left += 1
        elif mark == text_mark(entry_texts(entry)):
            self._to.take(mark, numbers)
        else:
            self._to.refuse("they were computed from another text")

    def report(self, reading: ReadContext) -> None:
        """Report the vectors that were not taken."""
        if self._left:
            reason = "vectors of a bank can only be exported and imported into banks"
            reading.report.lost("embedding", reason, count=self._left)
