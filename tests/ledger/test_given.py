"""Appends that build on what was seen, and what was said of records."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from ledger_kit import created, listed, memories

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ChangedError, StoreFullError, VerificationError
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Source, State, Status
from satchel.ports.store import Reader, Writer
from satchel.stores.memory import InMemoryStore

AT = "2026-03-01T09:30:00.000001Z"


@pytest.fixture
def ledger() -> Ledger:
    """A bank in memory."""
    return created(InMemoryStore())


def said(target: Sealed, state: State, by: str | None = None) -> Sealed:
    """Return a record that says something of another."""
    return seal(Status(target=target.id, state=state, by=by, at=AT))


def states(ledger: Ledger, record: Sealed) -> list[str]:
    """Return what was said of a record that counts."""
    with ledger.reading() as view:
        return [each.state for each in view.status_events(view.get([record.id])[record.id])]


def test_an_append_that_builds_on_what_is_so_no_more_is_refused(ledger: Ledger) -> None:
    """Nothing of it is kept; what builds on other records goes on."""
    one, two = memories(2)
    ledger.append([one, two])
    with ledger.reading() as view:
        found = view.get([one.id, two.id])
        of_one, of_two = view.unchanged([found[one.id]]), view.unchanged([found[two.id]])
    ledger.append([said(one, "quarantined")], precondition=of_one)
    with pytest.raises(ChangedError):
        ledger.append([*memories(1, start=9), said(one, "deleted")], precondition=of_one)
    ledger.append([said(two, "deleted")], precondition=of_two)
    assert (states(ledger, one), states(ledger, two)) == (["quarantined"], ["deleted"])
    with ledger.reading() as view:
        assert view.head.size == 6


def test_there_and_back_again_is_a_change(ledger: Ledger) -> None:
    """Deleted, restored and deleted: it is not the same as deleted once."""
    (one,) = memories(1)
    ledger.append([one])
    ledger.append([said(one, "deleted")])
    with ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    ledger.append([said(one, "restored")])
    ledger.append([said(one, "deleted")])
    with pytest.raises(ChangedError):
        ledger.append([said(one, "restored")], precondition=given)


def test_a_status_of_an_import_applies_to_its_records(ledger: Ledger) -> None:
    """Attack: an undo in between; a record of the import is not what was seen any more."""
    source = seal(Source(provider="x", format="x", at=AT))
    (one,) = memories(1)
    ledger.append([source])
    ledger.append([one], batch=source.id)
    ledger.append([closing_receipt(source.id, AT)])
    with ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    ledger.append([said(source, "deleted")])
    with pytest.raises(ChangedError):
        ledger.append([said(one, "quarantined")], precondition=given)
    assert states(ledger, one) == ["deleted"]


@pytest.mark.parametrize("whole", [False, True], ids=["record", "import"])
def test_of_appends_that_are_committed_together_one_builds_on_what_it_saw(
    ledger: Ledger, *, whole: bool
) -> None:
    """Both saw the same; what one says, the other is told, though no head is in between."""
    source = seal(Source(provider="x", format="x", at=AT))
    (one,) = memories(1)
    ledger.append([source])
    ledger.append([one], batch=source.id)
    ledger.append([closing_receipt(source.id, AT)])
    with ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    outcomes = list[str]()
    firsts = [source if whole else one, one]

    def add(target: Sealed) -> None:
        try:
            ledger.append([said(target, "deleted")], precondition=given)
            outcomes.append("kept")
        except ChangedError:
            outcomes.append("changed")

    waiting: list[threading.Thread] = []
    with ledger._lock:  # both queue up behind it, in this order
        for number, target in enumerate(firsts, start=1):
            waiting.append(threading.Thread(target=add, args=(target,)))
            waiting[-1].start()
            while len(ledger._queue) < number:
                pass
    for thread in waiting:
        thread.join(10)
    assert sorted(outcomes) == ["changed", "kept"]


def test_versions_are_followed_both_ways(ledger: Ledger) -> None:
    """From any of them, over any number; others are not among them."""
    chain = memories(500)
    other = memories(1, start=900)[0]
    ledger.append([*chain, other])
    ledger.append([said(old, "superseded", new.id) for old, new in pairwise(chain)])
    ledger.append([said(other, "deleted")])
    with ledger.reading() as view:
        for start in (chain[0], chain[250], chain[-1]):
            assert view.versions(start.id) == {each.id for each in chain}
        assert view.versions(other.id) == {other.id}


def test_a_version_that_was_not_committed_is_none(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed append leaves nothing in what is known."""
    one, two = memories(2)
    ledger.append([one])
    with ledger.reading():
        pass

    def fails(*_: object) -> None:
        raise ChangedError("full")

    monkeypatch.setattr("satchel.ledger.ledger.signed_head", fails)
    with pytest.raises(ChangedError):
        ledger.append([two, said(one, "superseded", two.id)])
    monkeypatch.undo()
    with ledger.reading() as view:
        assert view.versions(one.id) == {one.id}
    assert states(ledger, one) == []


def test_what_an_import_says_counts_when_it_is_complete(ledger: Ledger) -> None:
    """Before that, it took no place of anything."""
    source = seal(Source(provider="x", format="x", at=AT))
    one, two = memories(1)[0], memories(1, start=5)[0]
    ledger.append([one])
    ledger.append([source])
    ledger.append([two, said(one, "superseded", two.id)], batch=source.id)
    with ledger.reading() as view:
        then = view.head.size
        assert view.versions(one.id) == {one.id}
    assert states(ledger, one) == []
    ledger.append([closing_receipt(source.id, AT)])
    with ledger.reading() as view:
        assert view.versions(one.id) == {one.id, two.id}
        logged = view.get([one.id])[one.id]
        assert [each.by for each in view.status_events(logged)] == [two.id]
        assert view.status_events(logged, as_of=then) == []


def test_a_store_that_returns_other_ids_is_refused(ledger: Ledger) -> None:
    """Attack: digits of one memory that lead to another."""
    one, two = memories(2)
    ledger.append([one, two])
    with ledger.reading() as view:
        (found,) = view.with_prefix(one.id[7:20], limit=5)
        assert found.record.id == one.id

        class Misleading:
            def __init__(self, inner: Reader) -> None:
                self.inner = inner

            def __getattr__(self, name: str) -> object:
                return getattr(self.inner, name)

            def ids(self, bank: str, digits: str, *, limit: int) -> list[str]:
                return [two.id]

        view._reader = Misleading(view._reader)  # type: ignore[assignment]
        with pytest.raises(VerificationError):
            view.with_prefix(one.id[7:20], limit=5)


def test_an_append_that_the_store_lost_was_never_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The transaction fails as it is committed: another record takes the place, not the effect."""
    store = InMemoryStore()
    ledger = created(store)
    first, second = memories(2)
    ledger.append([first])
    real = store.writing

    @contextmanager
    def full() -> Iterator[Writer]:
        with real() as writing:
            yield writing
            raise StoreFullError("no space", file="here")

    with monkeypatch.context() as patch:
        patch.setattr(store, "writing", full)
        with pytest.raises(StoreFullError):
            ledger.append([said(first, "deleted")])
    ledger.append([second])

    assert listed(ledger)[-2:] == [first.id, second.id]
