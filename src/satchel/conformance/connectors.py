"""What every connector promises, one test function a promise.

Use it on your own connector: import everything from here in a test module of yours and define a
session-scoped fixture ``subject`` that returns a ``ConnectorSubject``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.strategies import memories, simplest
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SatchelError
from satchel.model.records import RECORD_CLASSES, Entry, Model
from satchel.model.values import Component
from satchel.ports.format import Connector, Page, WriteResult
from satchel.ports.record_set import Report

__all__ = ["ConnectorSubject"]  # and every promise: see the end

_FIRST_YEAR = 2024
_MANY = 7
_MOST_PAGES = 1000


@dataclass(frozen=True, slots=True)
class ConnectorSubject:
    """A connector under test.

    Args:
        name: Its name.
        make: Returns a connector to a live product that contains exactly these entries.
        holds: Returns whether the product can hold an entry at all; one that it cannot, such as a
            text with a character that its database lacks, has to be refused.
    """

    name: str
    make: Callable[[Sequence[Entry]], Connector]
    holds: Callable[[Entry], bool] = lambda _: True

    def need_writes(self) -> None:
        """Skip the running test unless the connector claims to write."""
        with closing(self.make([])) as connector:
            if not connector.info.traits.writes:
                pytest.skip(f"{self.name} does not claim `writes`")

    def entries(self, count: int) -> list[Entry]:
        """Return entries that it can hold, each with a different text."""
        with closing(self.make([])) as connector:
            kinds = sorted(connector.info.traits.components)
        plain = [simplest(kinds[number % len(kinds)]) for number in range(count)]
        return [
            msgspec.structs.replace(entry, text=f"memory {number}")
            for number, entry in enumerate(plain)
            if isinstance(entry, Entry)
        ]


def pages(connector: Connector) -> Iterator[tuple[str | None, Page]]:
    """Yield every page with its cursor."""
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = connector.page(cursor, Report())
        yield cursor, page
        cursor = page.cursor
        if cursor is None:
            return
    raise AssertionError(f"no last page among {_MOST_PAGES}")


def listed(connector: Connector) -> list[str]:
    """Return the texts of all records."""
    return [_text(item) for _, page in pages(connector) for item in page.items]


def _text(item: Model | Sealed) -> str:
    model = item.model if isinstance(item, Sealed) else item
    assert isinstance(model, Entry)
    return str(model.text)


def test_its_reference_is_complete(subject: ConnectorSubject) -> None:
    """Title, specification and a real check date are written down."""
    with closing(subject.make([])) as connector:
        info = connector.info

    assert info.title
    assert info.spec
    assert info.traits.components
    assert date.fromisoformat(info.checked).year >= _FIRST_YEAR


def test_nothing_is_one_empty_page(subject: ConnectorSubject) -> None:
    """An empty product has one page, without records and without a cursor."""
    with closing(subject.make([])) as connector:
        page = connector.page(None, Report())

    assert (list(page.items), page.cursor) == ([], None)


@given(data=st.data())
def test_all_pages_together_give_each_record_once(
    subject: ConnectorSubject, data: st.DataObject
) -> None:
    """No record is missing between pages, and none is returned twice."""
    with closing(subject.make([])) as connector:
        traits = connector.info.traits
    memory = list(filter(subject.holds, data.draw(memories(traits, most=_MANY))))
    with closing(subject.make(memory)) as connector:
        assert sorted(listed(connector)) == sorted(str(entry.text) for entry in memory)


def test_a_cursor_always_gives_one_page(subject: ConnectorSubject) -> None:
    """Again, in any order, also over another connection: an import can resume."""
    memory = subject.entries(_MANY)
    with closing(subject.make(memory)) as connector:
        expected = [(cursor, _texts_and_cursor(page)) for cursor, page in pages(connector)]
        cursors = [cursor for cursor, _ in expected]

        assert len(set(cursors)) == len(cursors)
        for cursor, records in reversed(expected):
            assert _texts_and_cursor(connector.page(cursor, Report())) == records
    with closing(subject.make(memory)) as other:
        for cursor, records in expected:
            assert _texts_and_cursor(other.page(cursor, Report())) == records


def _texts_and_cursor(page: Page) -> tuple[list[str], str | None]:
    return [_text(item) for item in page.items], page.cursor


def test_a_cursor_that_was_never_given_is_refused(subject: ConnectorSubject) -> None:
    """A typed error, not the first page and not a crash: nothing is imported twice by mistake."""
    with closing(subject.make(subject.entries(_MANY))) as connector:
        for cursor in ("", "no such cursor", "\x00", "9" * 40, "-1"):
            with pytest.raises(SatchelError):
                connector.page(cursor, Report())


@given(data=st.data())
def test_each_record_taken_has_one_result_in_order(
    subject: ConnectorSubject, data: st.DataObject
) -> None:
    """Results name our ids, in the order of the batch, accepted or not."""
    subject.need_writes()
    with closing(subject.make([])) as connector:
        batch = [seal(one) for one in data.draw(memories(connector.info.traits, most=_MANY))]
        results = connector.take(batch, Report())

    assert [result.id for result in results] == [record.id for record in batch]
    assert all(_either(result) for result in results)


def _either(result: WriteResult) -> bool:
    return (result.there is None) != (result.problem is None) and result.problem != ""


def test_what_was_accepted_is_there(subject: ConnectorSubject) -> None:
    """An accepted record is listed afterwards, once, with the earlier ones."""
    subject.need_writes()
    before, *new = subject.entries(_MANY)
    with closing(subject.make([before])) as connector:
        results = connector.take([seal(entry) for entry in new], Report())
        accepted = [
            str(entry.text)
            for entry, result in zip(new, results, strict=True)
            if result.there is not None
        ]

        assert len({result.there for result in results if result.there}) == len(accepted)
        assert sorted(listed(connector)) == sorted([str(before.text), *accepted])
        assert accepted


def test_a_refused_record_is_reported_not_dropped(subject: ConnectorSubject) -> None:
    """Every type that it cannot hold is returned with a problem, or counted as lost."""
    subject.need_writes()
    batch = [seal(simplest(kind)) for kind in RECORD_CLASSES]
    report = Report()
    with closing(subject.make([])) as connector:
        results = connector.take(batch, report)
        held = len(listed(connector))

    assert [result.id for result in results] == [record.id for record in batch]
    assert all(_either(result) for result in results)
    refused = sum(result.problem is not None for result in results)
    assert held + refused + report.total >= len(batch)
    outside = set(RECORD_CLASSES) - set(Component)
    assert refused + report.total >= len(outside)


def test_taking_nothing_does_nothing(subject: ConnectorSubject) -> None:
    """An empty batch has no results."""
    subject.need_writes()
    with closing(subject.make([])) as connector:
        assert list(connector.take([], Report())) == []
        assert listed(connector) == []


def test_it_can_be_closed_twice(subject: ConnectorSubject) -> None:
    """Closing again is not an error."""
    connector = subject.make([])
    connector.close()
    connector.close()


__all__ += [name for name in globals() if name.startswith("test_")]
