"""Appends: repeated checks between appends, preconditions, and statuses."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from heads_kit import BANK, KEY, signed
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_kit import created, listed, memories, opened

from satchel.crypto.canonical import canonical
from satchel.crypto.log import Head, check_head, parse_head, sign_head, signed_head
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ChangedError,
    RolledBackError,
    StoreFullError,
    VerificationError,
    WitnessError,
)
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.ledger.witness import Witness, WitnessOutcome
from satchel.ledger.witness_file import WitnessedHead, format_line, frame_line, parse_line
from satchel.model.records import Source, State, Status
from satchel.ports.store import Reader, Writer
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """The witness of a running program."""
    return Witness(tmp_path / "witness")


@pytest.fixture
def ledger(tmp_path: Path, witness: Witness) -> Ledger:
    """A bank on disk in a running program."""
    return created(SqliteStore(tmp_path / "satchel.db"), witness)


def witnessed_head(value: dict[str, Any]) -> WitnessedHead:
    """Return a head as its signer passes it to the witness."""
    return WitnessedHead(head=parse_head(value).signed, signed=canonical(value))


def heads_file(witness: Witness, bank: str = BANK) -> Path:
    """Return the file of heads of a bank."""
    return witness.folder / f"{bank.removeprefix('blake3:')}.heads"


def test_an_append_respects_heads_witnessed_by_another_process(witness: Witness) -> None:
    """The other head is newer, or it is another history; a cached own head shows neither."""
    witness.record_verified(witnessed_head(signed(1)))
    Witness(witness.folder).record(signed(5))
    assert witness.record_verified(witnessed_head(signed(3))) is WitnessOutcome.COVERED
    assert witness.record_verified(witnessed_head(signed(6))) is WitnessOutcome.WRITTEN
    Witness(witness.folder).record(signed(9, branch="theirs"))
    with pytest.raises(WitnessError, match="forked"):
        witness.record_verified(witnessed_head(signed(9)))


@pytest.mark.parametrize("place", [0, 10, 30, 300, -2])
def test_an_append_detects_a_change_of_its_last_witness_line(witness: Witness, place: int) -> None:
    """Attack: the line is changed in place between two appends of one program."""
    witness.record_verified(witnessed_head(signed(1)))
    data = bytearray(heads_file(witness).read_bytes())
    data[place] ^= 1
    heads_file(witness).write_bytes(data)
    with pytest.raises(WitnessError, match="changed after it was recorded"):
        witness.record_verified(witnessed_head(signed(2)))
    assert heads_file(witness).read_bytes() == data


def test_an_append_refuses_an_unsigned_head_in_place_of_its_own(witness: Witness) -> None:
    """Attack: a whole line with a valid length and checksum that nobody signed."""
    witness.record_verified(witnessed_head(signed(1)))
    forged = signed(2)
    forged["signed"] = forged["signed"] | {"root": BANK}
    heads_file(witness).write_bytes(frame_line(canonical(forged)))
    with pytest.raises(WitnessError, match="signature"):
        witness.record_verified(witnessed_head(signed(3)))


def test_an_append_reads_a_replaced_or_removed_witness_file(witness: Witness) -> None:
    """By another of the same length: no descriptor of the old file stays open."""
    witness.record_verified(witnessed_head(signed(1)))
    other = heads_file(witness).with_suffix(".new")
    other.write_bytes(format_line(signed(8)))
    other.chmod(0o600)
    other.replace(heads_file(witness))
    assert witness.record_verified(witnessed_head(signed(7))) is WitnessOutcome.COVERED
    assert Witness(witness.folder).forget(BANK)
    assert witness.record_verified(witnessed_head(signed(2))) is WitnessOutcome.WRITTEN
    assert heads_file(witness).read_bytes() == format_line(signed(2))


def test_an_append_locks_the_current_lock_file(witness: Witness, tmp_path: Path) -> None:
    """Otherwise the holders of the old and of the new file would both write."""
    witness.record_verified(witnessed_head(signed(1)))
    lock = heads_file(witness).with_suffix(".lock")
    lock.rename(tmp_path / "old")
    lock.symlink_to(tmp_path / "old")
    with pytest.raises(WitnessError, match="did not create"):
        witness.record_verified(witnessed_head(signed(2)))
    lock.unlink()
    assert witness.record_verified(witnessed_head(signed(2))) is WitnessOutcome.WRITTEN
    assert lock.stat().st_ino != (tmp_path / "old").stat().st_ino


def test_an_append_makes_the_witness_folder_private_again(ledger: Ledger) -> None:
    """Each append restricts the folder to its owner."""
    witness = ledger._witness
    assert witness is not None
    witness.folder.chmod(0o777)
    ledger.append(memories(1))
    assert witness.folder.stat().st_mode & 0o777 == 0o700


def test_an_append_refuses_a_linked_witness_folder_and_recreates_a_missing_one(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Attack: a link to a folder of older heads."""
    witness = ledger._witness
    assert witness is not None
    witness.folder.rename(tmp_path / "theirs")
    witness.folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(WitnessError, match="did not create"):
        ledger.append(memories(1))
    witness.folder.unlink()
    ledger.append(memories(1, start=1))
    assert witness.folder.stat().st_mode & 0o777 == 0o700
    assert [found.head.size for found in Witness(witness.folder).heads(ledger.bank)] == [3]


def test_every_witnessed_head_has_a_valid_signature(ledger: Ledger) -> None:
    """Writing does not check it again, so a new program checks each one."""
    for number in range(5):
        ledger.append(memories(1, start=number))
    parse_line.cache_clear()
    witness = ledger._witness
    assert witness is not None
    found = Witness(witness.folder).heads(ledger.bank)
    assert [one.head.size for one in found] == list(range(2, 8))
    with ledger.reading() as view:
        assert found[-1].head == view.head


def test_an_append_continues_after_those_of_another_program(ledger: Ledger, tmp_path: Path) -> None:
    """Its records and its head were unknown to this program."""
    other = opened(SqliteStore(tmp_path / "satchel.db"), ledger.bank, tmp_path / "witness")
    for number in range(0, 6, 2):
        assert ledger.append(memories(1, start=number)) == [2 + number]
        assert other.append(memories(1, start=number + 1)) == [3 + number]
    assert len(listed(ledger)) == 8


def test_the_next_append_to_a_rolled_back_store_is_refused(tmp_path: Path) -> None:
    """By a new program, and by one that is still running."""
    path, folder = tmp_path / "store.db", tmp_path / "witness"
    store = SqliteStore(path)
    ledger = created(store, Witness(folder))
    store.copy_to(tmp_path / "older.db")
    ledger.append(memories(1))
    store.close()
    os.replace(tmp_path / "older.db", path)  # noqa: PTH105 - as another program would
    store = SqliteStore(path)
    with pytest.raises(RolledBackError):
        opened(store, ledger.bank, folder).append(memories(1, start=1))
    with pytest.raises(RolledBackError):
        Ledger(store, ledger.bank, writer=ledger._writer, witness=ledger._witness).append(
            memories(1, start=1)
        )


counts = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(0, 2**48), max_size=5
)


@settings(deadline=None)
@given(counts, st.integers(0, 2**53 - 1))
def test_a_signed_head_is_written_as_canonical_json(counted: dict[str, int], epoch: int) -> None:
    """For any counts: keys that JCS sorts in another way, and numbers of sixteen digits."""
    size = sum(counted.values())
    head = Head(
        v=1,
        bank=BANK,
        epoch=epoch,
        size=size,
        root=BANK,
        counts=counted,
        at="2025-03-04T05:06:07.000000Z",
        key=KEY.did,
    )
    value = sign_head(head, KEY)
    assert signed_head(head, KEY) == canonical(value)
    assert parse_head(value).signed == head
    assert check_head(value, parse_head(value)).valid


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
