"""The conformance suite of connectors: it passes for a correct one and fails for broken ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from suite_kit import fails, shorten

from satchel.conformance import connectors as suite
from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, SatchelError
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Info, Page, Traits, WriteResult
from satchel.ports.record_set import Report


class InMemory:
    """A list with two entries per page, for semantic and procedural memories.

    Args:
        held: The initial entries.
    """

    info: ClassVar[Info] = Info(
        title="A list",
        suffixes=(),
        spec="this module",
        checked="2026-11-21",
        traits=Traits(components=frozenset({Component.SEMANTIC, Component.PROCEDURAL})),
    )
    size = 2

    def __init__(self, held: Sequence[Entry]) -> None:
        self.held: list[Model | Sealed] = list(held)

    def page(self, cursor: str | None, report: Report) -> Page:
        """List from a position."""
        starts = {str(start): start for start in range(self.size, len(self.held), self.size)}
        if cursor is not None and cursor not in starts:
            raise MalformedError("no page starts at this cursor", field="cursor")
        start = 0 if cursor is None else starts[cursor]
        following = str(start + self.size)
        return Page(
            self.held[start : start + self.size], following if following in starts else None
        )

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Append the memories of the two types."""
        return [self._take(record) for record in batch]

    def close(self) -> None:
        """Do nothing."""

    def _take(self, record: Sealed) -> WriteResult:
        if record.type not in self.info.traits.components:
            return WriteResult(record.id, None, f"a list has no place for {record.type}")
        self.held.append(record)
        return WriteResult(record.id, str(len(self.held)))


@pytest.fixture(scope="session")
def subject() -> ConnectorSubject:
    """A correct connector."""
    return ConnectorSubject("in_memory", InMemory)


class _Nameless(InMemory):
    """Has no title."""

    info = replace(InMemory.info, title="")


class _Endless(InMemory):
    """Always returns a cursor."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page([], "more")


class _Overlapping(InMemory):
    """Starts a page with the last record of the previous one."""

    def page(self, cursor: str | None, report: Report) -> Page:
        page = super().page(cursor, report)
        again = [] if cursor is None else [self.held[int(cursor) - 1]]
        return Page([*again, *page.items], page.cursor)


class _Truncating(InMemory):
    """Stops after the first page, like products with a default limit."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page(super().page(cursor, report).items, None)


class _Consuming(InMemory):
    """Returns each page once."""

    def page(self, cursor: str | None, report: Report) -> Page:
        page = super().page(cursor, report)
        seen = self.__dict__.setdefault("seen", set())
        items = [] if cursor in seen else page.items
        seen.add(cursor)
        return Page(items, page.cursor)


class _Trusting(InMemory):
    """Treats an unknown cursor as the start."""

    def page(self, cursor: str | None, report: Report) -> Page:
        try:
            return super().page(cursor, report)
        except SatchelError:
            return super().page(None, report)


class _Leaky(InMemory):
    """Raises the product's own errors."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page(self.held[int(cursor or 0) :], None)


class _Shuffling(InMemory):
    """Returns results in another order."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return list(reversed(super().take(batch, report)))


class _OmittingRefusals(InMemory):
    """Returns results for accepted records only."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [one for one in super().take(batch, report) if one.there]


class _HidingRefusals(InMemory):
    """Reports refused records as accepted."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [replace(one, there="x", problem=None) for one in super().take(batch, report)]


class _Forgetful(InMemory):
    """Accepts records and stores nothing."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [WriteResult(record.id, record.id) for record in batch]


class _Vague(InMemory):
    """Neither accepts nor refuses."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [WriteResult(record.id, None) for record in batch]


class _AddingResults(InMemory):
    """Returns a result for no record."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [*super().take(batch, report), WriteResult("blake3:0", "0")]


class _Fragile(InMemory):
    """Cannot be closed twice."""

    def close(self) -> None:
        del self.held


_BROKEN: dict[str, list[type[InMemory]]] = {
    "test_its_reference_is_complete": [_Nameless],
    "test_nothing_is_one_empty_page": [_Endless],
    "test_all_pages_together_give_each_record_once": [_Overlapping, _Truncating, _Endless],
    "test_a_cursor_always_gives_one_page": [_Consuming],
    "test_a_cursor_that_was_never_given_is_refused": [_Trusting, _Leaky],
    "test_each_record_taken_has_one_result_in_order": [_Shuffling, _Vague, _AddingResults],
    "test_what_was_accepted_is_there": [_Forgetful, _Vague],
    "test_a_refused_record_is_reported_not_dropped": [_HidingRefusals, _OmittingRefusals, _Vague],
    "test_taking_nothing_does_nothing": [_AddingResults],
    "test_it_can_be_closed_twice": [_Fragile],
}


def _suite_tests() -> dict[str, Callable[..., None]]:
    return {name: found for name, found in vars(suite).items() if name.startswith("test_")}


def test_each_test_of_connectors_has_a_broken_connector() -> None:
    """So a new test needs one."""
    assert _suite_tests()
    assert set(_suite_tests()) == set(_BROKEN)


@pytest.mark.parametrize(
    ("test_name", "broken"),
    [(name, one) for name, several in _BROKEN.items() for one in several],
)
def test_the_suite_detects_each_broken_connector(
    test_name: str, broken: type[InMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skip does not count as a failure."""
    check: Any = _suite_tests()[test_name]
    shorten(check, monkeypatch)
    assert fails(lambda: check(subject=ConnectorSubject("broken", broken)))
