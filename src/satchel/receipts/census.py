"""What a dry run finds out on the way: how many records of which type, and how much text."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

import msgspec

from satchel.inference.tokenizers import estimated_tokens
from satchel.model.values import Component, resolved
from satchel.receipts.plans import EmbeddingCost

_ENTRIES = frozenset(map(str, Component))


class _Spoken(msgspec.Struct, gc=False):
    text: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


_decode = msgspec.json.Decoder(resolved(_Spoken)).decode


class RecordCounter:
    """Counts what goes past.

    Args:
        texts: Whether to look at texts as well.
    """

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self._since: float | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was counted; it is going to be read again."""
        self.types = Counter[str]()
        self.size = 0
        """Bytes of records."""

        self._before, self._since = 0.0, None
        self._records = self._characters = self._tokens = 0

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Count records, given type and canonical bytes."""
        for record_type, body in lines:
            self.types[record_type] += 1
            self.size += len(body)
            if self._texts and record_type in _ENTRIES:
                self._add_text(body)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time that a block takes, or has taken so far."""
        self._since = perf_counter()
        try:
            yield
        finally:
            self._before, self._since = self.spent, None

    @property
    def spent(self) -> float:
        """Seconds that were spent."""
        return self._before + (0.0 if self._since is None else perf_counter() - self._since)

    @property
    def embedding(self) -> EmbeddingCost:
        """What embedding all of it would take."""
        return EmbeddingCost(
            records=self._records, characters=self._characters, tokens=self._tokens
        )

    def seconds_for(self, passes: float) -> float:
        """Return how long so many such passes take, to the hundredth."""
        return round(self.spent * passes, 2)

    def rate(self, size: int) -> int:
        """Return bytes a second, of an input of so many bytes."""
        spent = self.spent
        return int(size / spent) if spent > 0 else 0

    def _add_text(self, body: bytes) -> None:
        said = _decode(body)
        triple = (said.subject, said.predicate, said.object)
        text = said.text or " ".join(part for part in triple if part)
        if text:
            self._records += 1
            self._characters += len(text)
            self._tokens += estimated_tokens(text)
