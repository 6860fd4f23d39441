"""What a connector is: a live source or target, listed page by page and written in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from satchel.memory.records import Model
from satchel.ports.format import Info
from satchel.ports.report import Report
from satchel.seal.records import Sealed


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a live source, and where the next ones start."""

    items: Sequence[Model | Sealed]
    cursor: str | None
    """Hand this back for the next page; None when this was the last."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one record that a live target was given."""

    id: str
    """Our id of it."""

    there: str | None
    """Its id there, when it was accepted."""

    problem: str | None = None


class Connector(Protocol):
    """A product that is talked to, not a file."""

    info: ClassVar[Info]

    def page(self, cursor: str | None, report: Report) -> Page:
        """List records from ``cursor`` (None is the start); a cursor always gives one page."""
        ...

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[Taken]:
        """Write records; one result each, in order."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
