"""A connector that is honest keeps every promise; each promise catches one that is not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings

from satchel.conformance import connectors as promises
from satchel.conformance.connectors import *  # noqa: F403
from satchel.conformance.connectors import ConnectorSubject
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, SatchelError
from satchel.model.records import Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Info, Page, Traits, WriteResult
from satchel.ports.record_set import Report


class InMemory:
    """Two entries a page; takes facts and routines, no other memory.

    Args:
        held: What is there at first.
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
        """Append what has a place."""
        return [self._take(record) for record in batch]

    def close(self) -> None:
        """Nothing to let go of."""

    def _take(self, record: Sealed) -> WriteResult:
        if record.type not in self.info.traits.components:
            return WriteResult(record.id, None, f"a list has no place for {record.type}")
        self.held.append(record)
        return WriteResult(record.id, str(len(self.held)))


@pytest.fixture(scope="session")
def subject() -> ConnectorSubject:
    """The honest one."""
    return ConnectorSubject("in_memory", InMemory)


class _Nameless(InMemory):
    """Has no title."""

    info = replace(InMemory.info, title="")


class _Endless(InMemory):
    """Always promises one page more."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page([], "more")


class _Overlapping(InMemory):
    """Starts a page with the last record of the one before."""

    def page(self, cursor: str | None, report: Report) -> Page:
        page = super().page(cursor, report)
        again = [] if cursor is None else [self.held[int(cursor) - 1]]
        return Page([*again, *page.items], page.cursor)


class _Truncating(InMemory):
    """Stops after the first page, as products do that have a default limit."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page(super().page(cursor, report).items, None)


class _Consuming(InMemory):
    """Hands out each page once."""

    def page(self, cursor: str | None, report: Report) -> Page:
        page = super().page(cursor, report)
        seen = self.__dict__.setdefault("seen", set())
        items = [] if cursor in seen else page.items
        seen.add(cursor)
        return Page(items, page.cursor)


class _Trusting(InMemory):
    """Takes any cursor for the start."""

    def page(self, cursor: str | None, report: Report) -> Page:
        try:
            return super().page(cursor, report)
        except SatchelError:
            return super().page(None, report)


class _Leaky(InMemory):
    """Lets the product's own errors out."""

    def page(self, cursor: str | None, report: Report) -> Page:
        return Page(self.held[int(cursor or 0) :], None)


class _Shuffling(InMemory):
    """Answers in another order."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return list(reversed(super().take(batch, report)))


class _Terse(InMemory):
    """Answers for what it took only."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [one for one in super().take(batch, report) if one.there]


class _Silent(InMemory):
    """Accepts everything and drops what has no place."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [replace(one, there="x", problem=None) for one in super().take(batch, report)]


class _Forgetful(InMemory):
    """Accepts and keeps nothing."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [WriteResult(record.id, record.id) for record in batch]


class _Vague(InMemory):
    """Neither accepts nor refuses."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [WriteResult(record.id, None) for record in batch]


class _Eager(InMemory):
    """Answers when nothing was asked."""

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        return [*super().take(batch, report), WriteResult("blake3:0", "0")]


class _Fragile(InMemory):
    """Can be closed once."""

    def close(self) -> None:
        del self.held


_SABOTEURS: dict[str, list[type[InMemory]]] = {
    "test_its_reference_is_complete": [_Nameless],
    "test_nothing_is_one_empty_page": [_Endless],
    "test_all_pages_together_give_each_record_once": [_Overlapping, _Truncating, _Endless],
    "test_a_cursor_always_gives_one_page": [_Consuming],
    "test_a_cursor_that_was_never_given_is_refused": [_Trusting, _Leaky],
    "test_each_record_taken_has_one_result_in_order": [_Shuffling, _Vague, _Eager],
    "test_what_was_accepted_is_there": [_Forgetful, _Vague],
    "test_a_refused_record_is_reported_not_dropped": [_Silent, _Terse, _Vague],
    "test_taking_nothing_does_nothing": [_Eager],
    "test_it_can_be_closed_twice": [_Fragile],
}

_QUICKLY = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=200,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _promises() -> dict[str, Callable[..., None]]:
    return {name: found for name, found in vars(promises).items() if name.startswith("test_")}


def test_there_are_promises_and_each_has_a_saboteur() -> None:
    """A new promise comes with a connector that breaks it."""
    assert _promises()
    assert set(_promises()) == set(_SABOTEURS)


@pytest.mark.parametrize(
    ("promise", "saboteur"),
    [(name, one) for name, several in _SABOTEURS.items() for one in several],
)
def test_a_broken_promise_is_noticed(
    promise: str, saboteur: type[InMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise fails for its saboteur; skipping it would hide the break."""
    check: Any = _promises()[promise]
    monkeypatch.setattr(check, "_hypothesis_internal_use_settings", _QUICKLY, raising=False)
    noticed = False
    try:
        check(subject=ConnectorSubject("saboteur", saboteur))
    except Exception:  # noqa: BLE001 - a crash of the saboteur counts as noticed
        noticed = True
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        noticed = isinstance(outcome, pytest.fail.Exception)

    assert noticed
