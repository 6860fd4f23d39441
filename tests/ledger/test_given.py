"""Appends with preconditions on what was read, and the statuses of records."""

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
def memory_ledger() -> Ledger:
    """A bank in memory."""
    return created(InMemoryStore())


def status(target: Sealed, state: State, by: str | None = None) -> Sealed:
    """Return a status of another record."""
    return seal(Status(target=target.id, state=state, by=by, at=AT))


def states(memory_ledger: Ledger, record: Sealed) -> list[str]:
    """Return the states of a record that are in effect."""
    with memory_ledger.reading() as view:
        return [each.state for each in view.status_events(view.get([record.id])[record.id])]


def test_an_append_whose_precondition_changed_is_refused(memory_ledger: Ledger) -> None:
    """It logs nothing; appends that depend on other records succeed."""
    one, two = memories(2)
    memory_ledger.append([one, two])
    with memory_ledger.reading() as view:
        found = view.get([one.id, two.id])
        of_one, of_two = view.unchanged([found[one.id]]), view.unchanged([found[two.id]])
    memory_ledger.append([status(one, "quarantined")], precondition=of_one)
    with pytest.raises(ChangedError):
        memory_ledger.append([*memories(1, start=9), status(one, "deleted")], precondition=of_one)
    memory_ledger.append([status(two, "deleted")], precondition=of_two)
    assert (states(memory_ledger, one), states(memory_ledger, two)) == (
        ["quarantined"],
        ["deleted"],
    )
    with memory_ledger.reading() as view:
        assert view.head.size == 6


def test_a_status_changed_back_fails_the_precondition(memory_ledger: Ledger) -> None:
    """Deleted, restored and deleted is not the same as deleted once."""
    (one,) = memories(1)
    memory_ledger.append([one])
    memory_ledger.append([status(one, "deleted")])
    with memory_ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    memory_ledger.append([status(one, "restored")])
    memory_ledger.append([status(one, "deleted")])
    with pytest.raises(ChangedError):
        memory_ledger.append([status(one, "restored")], precondition=given)


def test_undoing_an_import_fails_preconditions_on_its_records(memory_ledger: Ledger) -> None:
    """Attack: an undo in between changes each record of the import."""
    source = seal(Source(provider="x", format="x", at=AT))
    (one,) = memories(1)
    memory_ledger.append([source])
    memory_ledger.append([one], batch=source.id)
    memory_ledger.append([closing_receipt(source.id, AT)])
    with memory_ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    memory_ledger.append([status(source, "deleted")])
    with pytest.raises(ChangedError):
        memory_ledger.append([status(one, "quarantined")], precondition=given)
    assert states(memory_ledger, one) == ["deleted"]


@pytest.mark.parametrize("whole", [False, True], ids=["record", "import"])
def test_one_of_two_concurrent_appends_with_the_same_precondition_is_refused(
    memory_ledger: Ledger, *, whole: bool
) -> None:
    """They share a commit, so no head lies between them."""
    source = seal(Source(provider="x", format="x", at=AT))
    (one,) = memories(1)
    memory_ledger.append([source])
    memory_ledger.append([one], batch=source.id)
    memory_ledger.append([closing_receipt(source.id, AT)])
    with memory_ledger.reading() as view:
        given = view.unchanged([view.get([one.id])[one.id]])
    outcomes = list[str]()
    firsts = [source if whole else one, one]

    def add(target: Sealed) -> None:
        try:
            memory_ledger.append([status(target, "deleted")], precondition=given)
            outcomes.append("kept")
        except ChangedError:
            outcomes.append("changed")

    waiting: list[threading.Thread] = []
    with memory_ledger._lock:  # both queue up behind it, in this order
        for number, target in enumerate(firsts, start=1):
            waiting.append(threading.Thread(target=add, args=(target,)))
            waiting[-1].start()
            while len(memory_ledger._queue) < number:
                pass
    for thread in waiting:
        thread.join(10)
    assert sorted(outcomes) == ["changed", "kept"]


def test_versions_are_followed_in_both_directions(memory_ledger: Ledger) -> None:
    """From any version, over any number; other memories are not included."""
    chain = memories(500)
    other = memories(1, start=900)[0]
    memory_ledger.append([*chain, other])
    memory_ledger.append([status(old, "superseded", new.id) for old, new in pairwise(chain)])
    memory_ledger.append([status(other, "deleted")])
    with memory_ledger.reading() as view:
        for start in (chain[0], chain[250], chain[-1]):
            assert view.versions(start.id) == {each.id for each in chain}
        assert view.versions(other.id) == {other.id}


def test_a_failed_append_adds_no_version(
    memory_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it stays in memory."""
    one, two = memories(2)
    memory_ledger.append([one])
    with memory_ledger.reading():
        pass

    def fails(*_: object) -> None:
        raise ChangedError("full")

    monkeypatch.setattr("satchel.ledger.ledger.signed_head", fails)
    with pytest.raises(ChangedError):
        memory_ledger.append([two, status(one, "superseded", two.id)])
    monkeypatch.undo()
    with memory_ledger.reading() as view:
        assert view.versions(one.id) == {one.id}
    assert states(memory_ledger, one) == []


def test_statuses_of_an_import_apply_when_it_is_complete(memory_ledger: Ledger) -> None:
    """Before that, it replaces nothing."""
    source = seal(Source(provider="x", format="x", at=AT))
    one, two = memories(1)[0], memories(1, start=5)[0]
    memory_ledger.append([one])
    memory_ledger.append([source])
    memory_ledger.append([two, status(one, "superseded", two.id)], batch=source.id)
    with memory_ledger.reading() as view:
        then = view.head.size
        assert view.versions(one.id) == {one.id}
    assert states(memory_ledger, one) == []
    memory_ledger.append([closing_receipt(source.id, AT)])
    with memory_ledger.reading() as view:
        assert view.versions(one.id) == {one.id, two.id}
        logged = view.get([one.id])[one.id]
        assert [each.by for each in view.status_events(logged)] == [two.id]
        assert view.status_events(logged, as_of=then) == []


def test_attack_a_store_that_returns_other_ids_for_a_prefix_is_refused(
    memory_ledger: Ledger,
) -> None:
    """Attack: the prefix of one memory leads to another."""
    one, two = memories(2)
    memory_ledger.append([one, two])
    with memory_ledger.reading() as view:
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


def test_an_append_whose_commit_failed_has_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next record takes its position."""
    store = InMemoryStore()
    memory_ledger = created(store)
    first, second = memories(2)
    memory_ledger.append([first])
    real = store.writing

    @contextmanager
    def full() -> Iterator[Writer]:
        with real() as writing:
            yield writing
            raise StoreFullError("no space", file="here")

    with monkeypatch.context() as patch:
        patch.setattr(store, "writing", full)
        with pytest.raises(StoreFullError):
            memory_ledger.append([status(first, "deleted")])
    memory_ledger.append([second])

    assert listed(memory_ledger)[-2:] == [first.id, second.id]
