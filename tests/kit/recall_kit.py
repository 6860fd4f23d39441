"""A bank for tests of recall, and a shorthand for its operations."""

from typing import Any

from ledger_kit import OWNER, WRITER

from satchel.crypto.sealed_records import Sealed, seal
from satchel.ledger.ledger import Clock, Ledger
from satchel.model.records import Model
from satchel.model.values import now
from satchel.ports.store import Store
from satchel.recall.engine import recall
from satchel.recall.query import Query, RecallResult

NOW = "2026-06-01T12:00:00.000000Z"


class Remembering:
    """A bank with a shorthand for its operations."""

    def __init__(self, store: Store, clock: Clock = now) -> None:
        self.store = store
        self.ledger = Ledger.create(store, owner=OWNER, writer=WRITER, clock=clock)

    def add(self, *drafts: Model, batch: str | None = None) -> list[Sealed]:
        """Append drafts, and return the records."""
        records = [seal(draft) for draft in drafts]
        self.ledger.append(records, batch=batch)
        return records

    def size(self) -> int:
        """Return how many records its log has."""
        with self.ledger.reading() as view:
            return view.head.size

    def ask(self, text: str = "", *, moment: str = NOW, **members: Any) -> RecallResult:
        """Recall at a fixed moment."""
        with self.ledger.reading() as view:
            return recall(view, Query(text=text, **members), now=lambda: moment)

    def texts(self, text: str = "", **members: Any) -> list[str | None]:
        """Recall, and return the texts."""
        return [hit.entry.text for hit in self.ask(text, **members).hits]
