"""A set of sealed records that can be read more than once, as writers need it."""

from collections.abc import Iterator

from satchel.seal.artifact.body import Body
from satchel.seal.artifact.sections import RECORD_SECTIONS, TYPED_SECTIONS
from satchel.seal.records import Sealed, open_record


class RecordSet:
    """The records of a body.

    Args:
        body: The body; its file stays open as long as the set is used.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._spans = body.spans()

    def __iter__(self) -> Iterator[Sealed]:
        """Yield every record, in body order; objects that are no records are left out."""
        for section in self._spans:
            if section in TYPED_SECTIONS:
                yield from self._section(section)

    def of(self, record_type: str) -> Iterator[Sealed]:
        """Yield the records of one type."""
        yield from self._section(RECORD_SECTIONS[record_type])

    def count(self, record_type: str) -> int:
        """Return how many records of a type there are."""
        span = self._spans.get(RECORD_SECTIONS[record_type])
        return 0 if span is None else span.count

    @property
    def counts(self) -> dict[str, int]:
        """How many objects each section holds, sections without records included."""
        return {name: span.count for name, span in self._spans.items()}

    def _section(self, section: str) -> Iterator[Sealed]:
        span = self._spans.get(section)
        if span is not None:
            for line in self._body.within(span):
                yield open_record(line)[0]
