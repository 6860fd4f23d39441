"""A bank's own vectors in files: each beside its memory, with a mark of the text it was made of.

What made them is said once in a file. Without mark and maker a number is what came with a memory,
and belongs to that.
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

_TOGETHER = 256

Vector = tuple[str, Any]
"""The mark of a text, and what stands in the file as the vector of it."""


def minus_zeros(vector: Any) -> list[int]:
    """Return where a vector has zeros with a sign, since JSON has one zero only."""
    if 0.0 not in vector:
        return []
    return [at for at, part in enumerate(vector) if part == 0 and copysign(1, part) < 0]


def signed(vector: Any, zeros: Any) -> Any:
    """Return a vector with minus zeros where they were; what it never was stays as it is."""
    if type(vector) is list and type(zeros) is list:
        for at in zeros:
            if type(at) is int and 0 <= at < len(vector) and vector[at] == 0:
                vector[at] = -0.0
    return vector


class BankVectorWriter:
    """The bank's own vectors, for the lines that are written.

    Args:
        writing: Says whether the bank has some, and whether they are wanted.
    """

    def __init__(self, writing: WriteContext) -> None:
        there = writing.vectors
        self.left = there.count if there is not None and not writing.embeddings else 0
        """How many stay in the bank because nobody asked for them."""

        self.without = 0
        """Memories that have none."""

        self.written = 0
        self._from: VectorSource | None = there if writing.embeddings else None
        if self._from is not None:
            self._from.begin()

    @property
    def maker(self) -> Maker | None:
        """What made them; None where none go along."""
        return None if self._from is None else self._from.maker

    def beside(self, records: Iterator[Sealed]) -> Iterator[tuple[Sealed, Vector | None]]:
        """Yield each record with its vector."""
        if self._from is None:
            for record in records:
                yield record, None
            return
        while some := list(islice(records, _TOGETHER)):
            found = self._from.of([record.id for record in some])
            for record in some:
                vector, model = found.get(record.id), record.model
                if vector is None or not isinstance(model, Entry):
                    self.without += 1
                    yield record, None
                else:
                    mark = text_mark(entry_texts(model))
                    self.written += 1
                    self._from.wrote(mark, vector)
                    yield record, (mark, vector)

    def tell(self, writing: WriteContext) -> None:
        """Say what went along, and what did not."""
        report, there = writing.report, writing.vectors
        if there is None:
            return
        model = there.maker.model
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
    """Hands on the bank's own vectors that are found in lines.

    Args:
        reading: Says who takes them.
        maker: What made them; None where the file does not say it.
    """

    def __init__(self, reading: ReadContext, maker: Maker | None) -> None:
        self._to: VectorSink | None = reading.vectors
        self._left = 0
        if self._to is not None and maker is not None:
            self._to.begin(maker)

    def take(self, vector: Vector, entry: Entry) -> None:
        """Take what a line has, where it is of what the line says."""
        mark, numbers = vector
        if self._to is None:
            self._left += 1
        elif mark == text_mark(entry_texts(entry)):
            self._to.take(mark, numbers)
        else:
            self._to.refuse("they were computed from another text")

    def tell(self, reading: ReadContext) -> None:
        """Say what nobody took."""
        if self._left:
            reason = "vectors of a bank can only be exported and imported into banks"
            reading.report.lost("embedding", reason, count=self._left)
