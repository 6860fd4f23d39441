"""A bank's own vectors in an archive: what made them is in the header, each in its memory's line.

They stand where Astrocyte has embeddings. ``_satchel`` of the line has a mark of the text that the
vector was made of; without it an embedding is one that came with the memory, and belongs to that.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from satchel.formats._ama.rows import SATCHEL
from satchel.memory.entries import Entry
from satchel.ports.carried import Carried, Carrying, Maker, mark_of
from satchel.ports.format import Reading, Writing
from satchel.ports.rows import texts_of
from satchel.seal.records import Sealed

MODEL = "embedding_model"
"""In ``_satchel`` of the header: the model of all embeddings, also where others wrote them."""

_VECTORS, _BEFORE = "vectors", "model_before"
_TOGETHER = 256

Vector = tuple[str, Any]
"""The mark of a text, and what stands in the line as the vector of it."""


def maker_in(extra: dict[str, Any]) -> Maker | None:
    """Return what made the bank's own vectors in a file, where its header says it."""
    ours = extra.get(SATCHEL)
    try:
        return msgspec.convert(ours[_VECTORS], Maker) if isinstance(ours, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def header_member(found: Any, maker: Maker | None) -> Any:
    """Return ``_satchel`` of a header that is written.

    Args:
        found: As it was in the archive that memories came from; None for nothing.
        maker: What made the bank's own vectors, where these go along.
    """
    if not isinstance(found, dict):
        found = {} if found is None or maker is not None else found
    if not isinstance(found, dict):
        return found
    ours = {name: part for name, part in found.items() if name != _VECTORS}
    there = found.get(_VECTORS)
    if isinstance(there, dict):  # it spoke of the vectors of another file
        ours.pop(MODEL, None)
        if _BEFORE in there:
            ours[MODEL] = there[_BEFORE]
    if maker is None:
        return ours
    before = {_BEFORE: ours[MODEL]} if MODEL in ours else {}
    return {**ours, MODEL: maker.model, _VECTORS: {**msgspec.to_builtins(maker), **before}}


class Outgoing:
    """The bank's own vectors, for the lines that are written.

    Args:
        writing: Says whether the bank has some, and whether they are wanted.
    """

    def __init__(self, writing: Writing) -> None:
        there = writing.vectors
        self.left = there.count if there is not None and not writing.embeddings else 0
        """How many stay in the bank because nobody asked for them."""

        self.without = 0
        """Memories that have none."""

        self.written = 0
        self._from: Carrying | None = there if writing.embeddings else None
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
                    mark = mark_of(texts_of(model))
                    self.written += 1
                    self._from.wrote(mark, vector)
                    yield record, (mark, vector)

    def tell(self, writing: Writing) -> None:
        """Say what went along, and what did not."""
        report, there = writing.report, writing.vectors
        if there is None:
            return
        model = there.maker.model
        if self.left:
            report.note(f"{self.left:,} vectors of {model} stay in the bank: --include-embeddings")
        if self.written:
            report.note(f"{self.written:,} vectors of {model} go along")
        if self.without:
            report.note(f"{self.without:,} memories have no vector yet: satchel embed")


class Incoming:
    """Hands on the bank's own vectors that are found in lines.

    Args:
        reading: Says who takes them.
        maker: What made them; None where the file does not say it.
    """

    def __init__(self, reading: Reading, maker: Maker | None) -> None:
        self._to: Carried | None = reading.vectors
        self._left = 0
        if self._to is not None and maker is not None:
            self._to.begin(maker)

    def take(self, vector: Vector, entry: Entry) -> None:
        """Take what a line has, where it is of what the line says."""
        mark, numbers = vector
        if self._to is None:
            self._left += 1
        elif mark == mark_of(texts_of(entry)):
            self._to.take(mark, numbers)
        else:
            self._to.refuse("they were made of another text")

    def tell(self, reading: Reading) -> None:
        """Say what nobody took."""
        if self._left:
            reason = "vectors of a bank go from bank to bank, by export and import"
            reading.report.lost("embedding", reason, count=self._left)
