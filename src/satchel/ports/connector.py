"""What a connector is: a live source or target, listed page by page and written in batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from satchel.crypto.sealed_records import Sealed
from satchel.model.records import Model
from satchel.ports.format import Info
from satchel.ports.losses import Report


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A memory that is not current at the source any more."""

    item: Model | Sealed
    state: Literal["superseded", "deleted"]
    """Superseded by the next one of the same origin id; or deleted, then no other follows."""

    at: str | None = None
    """When that happened, where the source says it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a live source, and where the next ones start."""

    items: Sequence[Model | Sealed]
    cursor: str | None
    """Hand this back for the next page; None when this was the last."""

    past: Sequence[PastVersion] = ()
    """What came before ``items``: all older versions of a memory together, the oldest first."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of one record that a live target was given."""

    id: str
    """Our id of it."""

    there: str | None
    """Its id there, when it was accepted."""

    problem: str | None = None
    known: bool = False
    """Whether it was there already, saying the same; nothing was written then."""


class Connector(Protocol):
    """A product that is talked to, not a file."""

    info: ClassVar[Info]

    def page(self, cursor: str | None, report: Report) -> Page:
        """List records from ``cursor`` (None is the start); a cursor always gives one page."""
        ...

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write records; one result each, in order."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def pages(connector: Connector, report: Report) -> Iterator[Page]:
    """Yield all pages of a live source, from the start."""
    cursor: str | None = None
    while True:
        page = connector.page(cursor, report)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


@runtime_checkable
class VersionedConnector(Protocol):
    """A connector whose product also keeps what its memories said before."""

    def take_versions(
        self,
        batch: Sequence[Sealed],
        older: Mapping[str, Sequence[Sealed]],
        report: Report,
    ) -> Sequence[WriteResult]:
        """Write records as ``Connector.take`` does, each with its history.

        Args:
            batch: The current records.
            older: By our id of a current record: what it said before, oldest first.
            report: Where losses go.
        """
        ...
