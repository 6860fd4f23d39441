"""Epochs: only an owner may accept the loss of records and continue from an older store."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_kit import OWNER, WRITER, created, memories
from machines_kit import (
    FOUNDING,
    THIEF,
    Machine,
    actions,
    backup,
    configs,
    forge,
    head_of,
    machine,
    put_back,
)

from satchel.crypto.canonical import decode_canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ForkedError,
    ReadOnlyStoreError,
    RolledBackError,
    SigningKeyError,
    UnknownBankError,
    UsageError,
    VerificationError,
)
from satchel.ledger.authority import (
    ACCEPTED,
    DECISIONS,
    RESTORED,
    EpochDecision,
    LogState,
    decision_record,
)
from satchel.ledger.decisions import forget
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Config, Erasure, Status
from satchel.ports.rows import Filter
from satchel.stores.memory import InMemoryStore

_OLD = FOUNDING + 3
_AT = "2026-01-01T00:00:00.000000Z"
_OTHER_WRITER = SigningKey.from_seed(b"v" * 32)


def _rolled_back(root: Path) -> Machine:
    """Return a machine that saw two records more than the store has now."""
    one = machine(root)
    kept = backup(one.store)
    one.add(2, start=10)
    put_back(one.store, kept)
    return one


def _second_machine(root: Path, one: Machine) -> Machine:
    """Return another machine at the same store, with its own key and witness."""
    one.decider().admit(_OTHER_WRITER.did)
    return Machine(one.store, one.bank, root / "two", writer=_OTHER_WRITER)


def _acceptance(one: Machine, abandoned: LogState | None, **changed: Any) -> EpochDecision:
    """Return the decision that an owner would make about a store in its current state."""
    head = head_of(one.store, one.bank)
    members: dict[str, Any] = {
        "bank": one.bank,
        "epoch": 1 + max(head.epoch, abandoned.epoch if abandoned else 0),
        "resumed": LogState.of(head),
        "abandoned": abandoned,
    }
    return EpochDecision(**members | changed)


def _witnessed_state(one: Machine) -> LogState:
    found = one.witness.last(one.bank)
    assert found is not None
    return LogState.of(found.head)


def test_an_accepted_loss_allows_the_bank_to_continue(tmp_path: Path) -> None:
    """Reads and appends, in a new epoch; the log states what was given up, and why."""
    one = _rolled_back(tmp_path)
    with pytest.raises(RolledBackError, match="an owner can accept"):
        one.listed()
    seen = _witnessed_state(one)
    one.witness.note_removed(one.bank, [3, _OLD, _OLD + 1])

    decision = one.decider().accept_rollback("the disk died")

    assert decision is not None
    assert decision.abandoned == seen == LogState(epoch=0, size=_OLD + 2, root=seen.root)
    assert decision.resumed.size == _OLD
    assert (decision.epoch, decision.reason) == (1, "the disk died")
    assert actions(one.store, one.bank)[-1] == ACCEPTED
    assert len(one.listed()) == _OLD + 1 - 1 + 2  # the one that was erased before is so again
    assert one.notes() == ()
    assert one.witness.positions(one.bank) == (3,)
    one.add(1, start=20)
    assert head_of(one.store, one.bank).epoch == 1
    assert _witnessed_state(one) == LogState.of(head_of(one.store, one.bank))


def test_accepting_without_a_loss_changes_nothing(tmp_path: Path) -> None:
    """Nor does accepting the same loss twice."""
    one = machine(tmp_path)
    assert one.decider().accept_rollback() is None
    assert one.decider(witness=Witness(tmp_path / "fresh")).accept_rollback() is None
    assert head_of(one.store, one.bank).size == _OLD

    kept = backup(one.store)
    one.add(1, start=10)
    put_back(one.store, kept)
    assert one.decider().accept_rollback() is not None
    assert one.decider().accept_rollback() is None
    assert actions(one.store, one.bank).count(ACCEPTED) == 1


class _Crash(Exception):  # noqa: N818 - no error of anybody's
    pass


class _Cut(Witness):
    def record_verified(self, *_: Any, **__: Any) -> Any:
        raise _Crash


class _CutAfterPositions(Witness):
    def _advance(self, *_: Any) -> Any:
        raise _Crash


@pytest.mark.parametrize("cut", [_Cut, _CutAfterPositions])
def test_a_decision_interrupted_before_the_witness_write_can_be_repeated(
    tmp_path: Path, cut: type[Witness]
) -> None:
    """It is logged once, whatever was interrupted; until then reads continue with a note."""
    one = _rolled_back(tmp_path)
    one.witness.note_removed(one.bank, [_OLD])
    with pytest.raises(_Crash):
        one.decider(witness=cut(tmp_path / "one")).accept_rollback()
    assert "an owner" in one.notes()[0]

    again = one.decider().accept_rollback()
    assert again is not None
    assert actions(one.store, one.bank).count(ACCEPTED) == 1
    assert _witnessed_state(one).epoch == 1
    assert one.witness.positions(one.bank) == ()
    assert one.notes() == ()


def test_a_fork_can_be_accepted_like_a_loss(tmp_path: Path) -> None:
    """Same size, another root: the decision names the abandoned history."""
    one = _rolled_back(tmp_path)
    seen = _witnessed_state(one)
    forge(one.store, one.bank, memories(2, start=30))
    assert head_of(one.store, one.bank).size == seen.size
    with pytest.raises(ForkedError, match="an owner can accept"):
        one.listed()
    decision = one.decider().accept_rollback()
    assert decision is not None
    assert decision.abandoned == seen
    one.add(1, start=40)


def test_only_an_owner_can_accept_a_loss(tmp_path: Path) -> None:
    """Neither the writer of the bank nor anybody else; nothing is written."""
    one = _rolled_back(tmp_path)
    for key in (WRITER, THIEF):
        with pytest.raises(SigningKeyError, match="not an owner"):
            one.decider(key).accept_rollback()
    assert head_of(one.store, one.bank).size == _OLD


def test_a_machine_whose_admission_was_lost_can_be_admitted_again(tmp_path: Path) -> None:
    """The store was rolled back to a time before this machine was admitted."""
    one = machine(tmp_path)
    kept = backup(one.store)
    two = _second_machine(tmp_path, one)
    two.add(1, start=10)
    put_back(one.store, kept)
    assert two.decider().accept_rollback() is not None
    two.add(1, start=20)
    assert one.notes() != ()


def test_an_accepted_loss_does_not_validate_changed_records(tmp_path: Path) -> None:
    """Records changed in the old copy are refused after the decision as before."""
    for number, turn in enumerate(["accept_rollback", "accept_restore"]):
        one = _rolled_back(tmp_path / str(number))
        held = one.store._banks[one.bank]
        held.rows[3] = msgspec.structs.replace(held.rows[3], body=held.rows[4].body)
        assert getattr(one.decider(), turn)() is not None
        with pytest.raises(VerificationError, match="another one"):
            one.listed()


def test_a_head_that_does_not_verify_is_not_accepted(tmp_path: Path) -> None:
    """The signature, the tree and the counts of the store's head are all checked."""
    for number in range(3):
        one = _rolled_back(tmp_path / str(number))
        held = one.store._banks[one.bank]
        if number == 0:
            forge(one.store, one.bank, memories(1, start=60), THIEF)
        elif number == 1:
            held.head = held.head._replace(peaks=bytes(len(held.head.peaks)))
        else:
            held.rows.pop()
        for decide in (one.decider().accept_rollback, one.decider().accept_restore):
            with pytest.raises(VerificationError):
                decide()


def test_a_loss_can_be_accepted_in_a_bank_with_erased_records(tmp_path: Path) -> None:
    """The row is empty, and a record in the log explains it."""
    one = machine(tmp_path)
    erased = one.listed()[3]
    one.ledger().append([seal(Status(target=erased, state="deleted"))])
    one.ledger().append([seal(Erasure(entry=erased))])
    assert one.store._banks[one.bank].rows[3].body is None
    kept = backup(one.store)
    one.add(1, start=10)
    put_back(one.store, kept)
    assert one.decider().accept_rollback() is not None


def test_a_decision_cannot_be_appended_as_a_record(tmp_path: Path) -> None:
    """Otherwise an import that carries one would make the store unreadable."""
    one = machine(tmp_path)
    record = decision_record(RESTORED, _acceptance(one, None), OWNER, _AT)
    with pytest.raises(UsageError, match="decision"):
        one.ledger().append([record])


# -- attacks -----------------------------------------------------------------------------------


def test_a_writer_cannot_start_an_epoch(tmp_path: Path) -> None:
    """By claiming one in a head, with or without dropping records, on any machine."""
    for number, drop in enumerate([True, False]):
        one = machine(tmp_path / str(number))
        kept = backup(one.store)
        one.add(2, start=10)
        if drop:
            put_back(one.store, kept)
        forge(one.store, one.bank, memories(3, start=30), epoch=1)
        fresh = Machine(one.store, one.bank, tmp_path / str(number) / "fresh")
        for victim in (one, fresh):
            with pytest.raises(VerificationError, match="epoch"):
                victim.listed()
            with pytest.raises(VerificationError, match="epoch"):
                victim.add(1, start=50)


def _by_the_writer(one: Machine, seen: LogState) -> Sealed:
    return decision_record(ACCEPTED, _acceptance(one, seen), WRITER, _AT)


def _by_an_outsider(one: Machine, seen: LogState) -> Sealed:
    return decision_record(ACCEPTED, _acceptance(one, seen), THIEF, _AT)


def _of_another_bank(one: Machine, seen: LogState) -> Sealed:
    """An owner accepted a loss in another bank of the same size."""
    other = machine(one._folder.parent / "elsewhere")
    return decision_record(ACCEPTED, _acceptance(other, seen), OWNER, _AT)


def _of_another_bank_renamed(one: Machine, seen: LogState) -> Sealed:
    """The same, with its root, claimed for this bank: an owner never signs that."""
    other = machine(one._folder.parent / "elsewhere")
    return decision_record(ACCEPTED, _acceptance(other, seen, bank=one.bank), OWNER, _AT)


def _for_another_position(one: Machine, seen: LogState) -> Sealed:
    """Accepted earlier in the same log, at another position."""
    resumed = LogState(epoch=0, size=3, root=LogState.of(head_of(one.store, one.bank)).root)
    return decision_record(ACCEPTED, _acceptance(one, seen, resumed=resumed), OWNER, _AT)


def _for_another_history(one: Machine, seen: LogState) -> Sealed:
    """Accepted on a fork of the same size."""
    resumed = LogState(epoch=0, size=_OLD, root="blake3:" + "0" * 64)
    return decision_record(ACCEPTED, _acceptance(one, seen, resumed=resumed), OWNER, _AT)


def _for_a_later_epoch(one: Machine, seen: LogState) -> Sealed:
    return decision_record(ACCEPTED, _acceptance(one, seen, epoch=7), OWNER, _AT)


def _from_an_epoch_that_never_was(one: Machine, seen: LogState) -> Sealed:
    resumed = msgspec.structs.replace(LogState.of(head_of(one.store, one.bank)), epoch=3)
    return decision_record(ACCEPTED, _acceptance(one, seen, resumed=resumed), OWNER, _AT)


def _that_names_nothing(one: Machine, _: LogState) -> Sealed:
    return decision_record(ACCEPTED, _acceptance(one, None), OWNER, _AT)


def _with_a_foreign_signature(one: Machine, seen: LogState) -> Sealed:
    """Its signature covers something else."""
    record = decision_record(ACCEPTED, _acceptance(one, seen), OWNER, _AT)
    model = record.model
    assert isinstance(model, Config)
    payload = model.payload | {"reason": "another"}
    return seal(msgspec.structs.replace(model, id=None, payload=payload))


@pytest.mark.parametrize(
    "forged",
    [
        _by_the_writer,
        _by_an_outsider,
        _of_another_bank,
        _of_another_bank_renamed,
        _for_another_position,
        _for_another_history,
        _for_a_later_epoch,
        _from_an_epoch_that_never_was,
        _that_names_nothing,
        _with_a_foreign_signature,
    ],
)
@pytest.mark.parametrize("claimed", [True, False])
def test_a_forged_or_copied_acceptance_is_refused(
    tmp_path: Path, forged: Callable[[Machine, LogState], Sealed], claimed: object
) -> None:
    """The store and a writer's key are not enough to make a loss look accepted."""
    one = _rolled_back(tmp_path)
    record = forged(one, _witnessed_state(one))
    head = head_of(one.store, one.bank)
    forge(one.store, one.bank, [record], epoch=1 if claimed else head.epoch)
    with pytest.raises(VerificationError):
        one.listed()
    with pytest.raises(VerificationError):
        one.add(1, start=50)
    fresh = Machine(one.store, one.bank, tmp_path / "fresh")
    if claimed:
        with pytest.raises(VerificationError, match="epoch"):
            fresh.listed()
    else:
        assert len(fresh.listed()) == _OLD + 1  # a record without effect


def test_an_acceptance_cannot_name_a_new_owner(tmp_path: Path) -> None:
    """Only an adoption names one, and machines that knew the bank refuse that."""
    one = _rolled_back(tmp_path)
    decision = _acceptance(one, _witnessed_state(one), key=THIEF.did)
    for action in (ACCEPTED, RESTORED):
        kept = backup(one.store)
        forge(one.store, one.bank, [decision_record(action, decision, THIEF, _AT)], THIEF, epoch=1)
        for victim in (one, Machine(one.store, one.bank, tmp_path / "fresh")):
            with pytest.raises(VerificationError, match="no owner admitted"):
                victim.listed()
        put_back(one.store, kept)


def test_an_acceptance_copied_to_another_position_is_ignored(tmp_path: Path) -> None:
    """The owner's own record under another nonce and ID counts only where it was made."""
    one = _rolled_back(tmp_path)
    one.decider().accept_rollback()
    one.add(1, start=20)
    kept = backup(one.store)
    one.add(2, start=30)
    put_back(one.store, kept)
    (accepted,) = [record for record in configs(one.store, one.bank) if _is_acceptance(record)]
    model = accepted.model
    assert isinstance(model, Config)
    again = seal(msgspec.structs.replace(model, id=None, nonce="0" * 32))
    forge(one.store, one.bank, [again], epoch=2)
    with pytest.raises(VerificationError):
        one.listed()


def _is_acceptance(record: Sealed) -> bool:
    return isinstance(record.model, Config) and record.model.action == ACCEPTED


def test_an_acceptance_cannot_be_replayed(tmp_path: Path) -> None:
    """The store is rolled back to just after an acceptance: later records were not given up."""
    one = _rolled_back(tmp_path)
    one.decider().accept_rollback()
    kept = backup(one.store)
    one.add(2, start=20)
    put_back(one.store, kept)
    with pytest.raises(RolledBackError):
        one.listed()
    forge(one.store, one.bank, memories(4, start=60))
    with pytest.raises(ForkedError):
        one.listed()


def test_a_store_from_before_an_acceptance_is_a_rollback(tmp_path: Path) -> None:
    """The old epoch does not return; accepting that loss starts a third on all machines."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    kept = backup(one.store)
    two.add(2, start=10)
    put_back(one.store, kept)
    two.decider().accept_rollback()
    two.add(4, start=20)
    put_back(one.store, kept)
    with pytest.raises(RolledBackError):
        two.listed()

    decision = two.decider().accept_rollback()
    assert decision is not None
    assert decision.epoch == 2
    assert decision.resumed.epoch == 0
    assert decision.abandoned is not None
    assert decision.abandoned.epoch == 1
    two.add(1, start=40)
    assert one.notes() == ()  # it had seen nothing that was lost
    one.add(1, start=50)
    assert two.notes() == ()


# -- several machines --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(0, 2, False), (2, 0, True), (1, 1, True), (2, 3, True)],
)
def test_another_machine_continues_after_an_owners_decision_and_reports_it(
    tmp_path: Path, before: int, after: int, told: object
) -> None:
    """Whether it saw less than was given up, all of it, or more than the owner knew of."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    two_saw = 0
    if told:
        two.add(1, start=5)
        two_saw = head_of(two.store, two.bank).size
    kept = backup(one.store)
    if before:
        two.add(before, start=10)
        two_saw = head_of(two.store, two.bank).size
        two.witness.note_removed(two.bank, [two_saw - 1])
    one.add(1, start=80)
    if after:
        one.add(after, start=90)
    put_back(one.store, kept)
    assert one.decider().accept_rollback("lost") is not None

    assert bool(two.notes()) is bool(told)
    if told:
        assert f"saw {two_saw} records" in two.notes()[0]
        assert two.notes()[0].endswith("lost")
    two.add(1, start=110)
    assert two.notes() == ()
    assert two.witness.positions(two.bank) == ()
    assert one.notes() == ()
    assert one.listed() == two.listed()


def test_a_machine_that_saw_more_than_the_owner_reports_the_full_loss(tmp_path: Path) -> None:
    """The epoch ends; the note says that the owner did not know of all records."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    kept = backup(one.store)
    one.add(1, start=10)
    two.add(5, start=20)
    size = head_of(one.store, one.bank).size
    put_back(one.store, kept)
    one.decider().accept_rollback()
    assert f"saw {size} records" in two.notes()[0]
    assert f"aware of {size - 5}" in two.notes()[0]


def test_an_acceptance_covers_only_the_history_that_it_names(
    tmp_path: Path,
) -> None:
    """Two copies diverged; each is given up by name, in two chained decisions."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    start = backup(one.store)
    one.add(2, start=10)
    put_back(one.store, start)
    two.add(2, start=20)
    put_back(one.store, start)

    one.decider().accept_rollback()
    with pytest.raises(ForkedError):
        two.listed()
    with pytest.raises(ForkedError):
        two.add(1, start=30)
    decision = two.decider().accept_rollback()
    assert decision is not None
    assert decision.epoch == 2
    two.add(1, start=30)
    assert one.notes() == ()  # everything that it saw since the first decision exists
    assert one.listed() == two.listed()


def test_a_machine_that_missed_two_decisions_continues(tmp_path: Path) -> None:
    """It saw only the first epoch and finds the third."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    for turn in range(2):
        kept = backup(one.store)
        two_adds = two.add(2, start=10) if not turn else []
        one.add(1, start=100 + turn)
        put_back(one.store, kept)
        one.decider().accept_rollback()
        assert not set(two_adds) & set(one.listed())
        one.add(3, start=50 + 10 * turn)
    assert head_of(one.store, one.bank).epoch == 2
    assert len(two.notes()) == 1
    two.add(1, start=90)
    assert two.notes() == ()


def test_a_fork_before_the_accepted_position_is_still_a_fork(tmp_path: Path) -> None:
    """The machine's records lie before the position that was resumed, and nobody gave them up."""
    one = machine(tmp_path)
    two = _second_machine(tmp_path, one)
    start = backup(one.store)
    two.add(1, start=10)
    put_back(one.store, start)
    one.add(4, start=20)
    kept = backup(one.store)
    one.add(1, start=30)
    put_back(one.store, kept)
    one.decider().accept_rollback()
    with pytest.raises(ForkedError):
        two.listed()


def test_a_running_program_notices_an_accepted_loss(tmp_path: Path) -> None:
    """Without a witness: it compares with what it read itself."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(2, start=10)
    running = Ledger(one.store, one.bank)
    with running.reading():
        pass
    put_back(one.store, kept)
    with pytest.raises(RolledBackError, match="this program"), running.reading():
        pass
    one.decider().accept_rollback()
    with running.reading() as view:
        assert "this program" in view.notes[0]
    with running.reading() as view:
        assert view.notes == ()


def test_an_accepted_loss_does_not_affect_existing_records(tmp_path: Path) -> None:
    """A record deleted in the lost history is current again, also in a running program."""
    one = machine(tmp_path)
    target = one.listed()[-1]
    kept = backup(one.store)
    one.ledger().append([seal(Status(target=target, state="deleted"))])
    lost = backup(one.store)
    running = Ledger(one.store, one.bank)
    assert target not in _current(running)
    put_back(one.store, kept)
    one.decider().accept_rollback()
    assert target in _current(running)
    put_back(one.store, lost)
    with pytest.raises(RolledBackError):
        _current(running)


def test_a_refused_history_leaves_no_cached_state(tmp_path: Path) -> None:
    """Statuses from its records are forgotten when the right store is back."""
    one = machine(tmp_path)
    target = one.listed()[-1]
    kept = backup(one.store)
    running = one.ledger()
    assert target in _current(running)
    Machine(one.store, one.bank, tmp_path / "b").add(2, start=10)
    one.witness.record(_signed_head(one))
    right = backup(one.store)
    put_back(one.store, kept)
    forge(one.store, one.bank, [seal(Status(target=target, state="deleted")), *memories(2, 20)])
    with pytest.raises(ForkedError):
        _current(running)
    put_back(one.store, right)
    assert target in _current(running)


def _current(ledger: Ledger) -> list[str]:
    with ledger.reading() as view:
        return [logged.record.id for logged in view.scan(Filter())]


def _signed_head(one: Machine) -> dict[str, Any]:
    value: dict[str, Any] = decode_canonical(one.store._banks[one.bank].head.signed)
    return value


# -- restores, and banks that are gone -----------------------------------------------------------


def test_a_restore_always_starts_an_epoch(tmp_path: Path) -> None:
    """A machine that saw more gets a note; one that saw less notices nothing."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(2, start=10)
    put_back(one.store, kept)
    new = Machine(one.store, one.bank, tmp_path / "new", writer=_OTHER_WRITER)
    decision = new.decider().accept_restore("from Monday's backup")
    assert decision.abandoned is None
    assert decision.epoch == 1
    assert actions(one.store, one.bank)[-2:] == [RESTORED, "writer_added"]
    new.add(1, start=20)
    assert "Monday" in one.notes()[0]
    one.add(1, start=30)
    assert one.notes() == new.notes() == ()


def test_a_restore_can_accept_a_loss_against_the_witness(tmp_path: Path) -> None:
    """By name, like an accepted loss; a restore of the newest state gives up nothing."""
    one = _rolled_back(tmp_path)
    one.witness.note_removed(one.bank, [3, _OLD])
    seen = _witnessed_state(one)
    assert one.decider().accept_restore().abandoned == seen
    assert one.witness.positions(one.bank) == (3,)
    assert one.notes() == ()
    again = one.decider().accept_restore()
    assert again.abandoned is None
    assert again.epoch == 2
    with pytest.raises(SigningKeyError):
        one.decider(THIEF).accept_restore()


def test_an_interrupted_restore_can_be_repeated(tmp_path: Path) -> None:
    """Erased positions from after the backup are dropped, since those records are gone."""
    one = _rolled_back(tmp_path)
    one.witness.note_removed(one.bank, [3, _OLD])
    with pytest.raises(_Crash):
        one.decider(witness=_Cut(tmp_path / "one")).accept_restore()
    assert one.decider().accept_restore().epoch == 2
    assert one.witness.positions(one.bank) == (3,)
    assert one.notes() == ()


def test_a_missing_bank_needs_its_own_decision(tmp_path: Path) -> None:
    """Accepting a loss does not cover it, nor while it exists; erased positions stay noted."""
    one = machine(tmp_path)
    one.witness.note_removed(one.bank, [4])
    with pytest.raises(UsageError, match="not missing"):
        forget(one.store, one.bank, witness=one.witness)
    put_back(one.store, InMemoryStore())
    with pytest.raises(RolledBackError, match="accept-gone"):
        one.listed()
    with pytest.raises(RolledBackError, match="gone"):
        one.decider().accept_rollback()
    assert forget(one.store, one.bank, witness=one.witness)
    with pytest.raises(UnknownBankError):
        one.listed()
    assert one.witness.positions(one.bank) == (4,)
    assert not forget(one.store, one.bank, witness=one.witness)


def test_a_config_record_with_unreadable_signatures_is_ignored(
    tmp_path: Path,
) -> None:
    """Otherwise any writer could make the bank unreadable."""
    one = machine(tmp_path)
    payload = {"bank": one.bank, "key": THIEF.did}
    wrong: list[list[dict[str, Any]]] = [[{"key": 1}], [{"key": "a", "sig": "b"}] * 2, [{}] * 20]
    for signatures in wrong:
        draft = Config(action="writer_added", payload=payload, signatures=tuple(signatures))
        one.ledger().append([seal(draft)])
    thief = Machine(one.store, one.bank, tmp_path / "thief", writer=THIEF)
    with pytest.raises(ReadOnlyStoreError):
        thief.add(1, start=9)
    assert len(one.listed()) == _OLD + 3


def test_two_banks_of_one_owner_have_separate_epochs(tmp_path: Path) -> None:
    """In one store, with one witness."""
    one = _rolled_back(tmp_path)
    other = created(one.store, one.witness)
    one.decider().accept_rollback()
    with other.reading() as view:
        assert view.head.epoch == 0
    assert head_of(one.store, one.bank).epoch == 1


_WRITERS = [SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2)]
_SEVERAL = range(len(_WRITERS))
_who = st.integers(0, len(_WRITERS) - 1)
_steps = st.one_of(
    st.tuples(st.sampled_from(["add", "add", "accept", "restore"]), _who),
    st.tuples(st.just("keep"), st.just(0)),
    st.tuples(st.just("put back"), st.integers(0, 3)),
)


class _World:
    """Two machines at one store, the copies that were taken, and what each machine saw."""

    def __init__(self, root: Path) -> None:
        self.store = InMemoryStore()
        bank = created(self.store, Witness(root / "0")).bank
        self.machines = [
            Machine(self.store, bank, root / str(number), writer=_WRITERS[number])
            for number in _SEVERAL
        ]
        for one in self.machines:
            one.decider().admit()
        self.copies = [backup(self.store)]
        self.told = [self.raw_ids() for _ in _SEVERAL]
        self.told[0] = self.told[0][:-1]  # the admission of the other came after
        self.made = 0

    def raw_ids(self) -> list[str]:
        """Return the IDs in the store, without any verification."""
        bank = self.machines[0].bank
        return [row.id for row in self.store._banks[bank].rows]

    def step(self, action: str, number: int) -> None:
        """Do one thing; if it is refused, nothing changed."""
        self.made += 1
        if action == "keep":
            self.copies.append(backup(self.store))
        elif action == "put back":
            put_back(self.store, self.copies[number % len(self.copies)])
        else:
            one = self.machines[number]
            before = self.raw_ids()
            with suppress(RolledBackError, ForkedError, ReadOnlyStoreError):
                if action == "add":
                    one.add(1, start=self.made)
                elif action == "accept":
                    one.decider().accept_rollback()
                    assert one.notes() == ()
                else:
                    one.decider().accept_restore()
                    assert one.notes() == ()
                self.told[number] = self.raw_ids()
                return
            assert self.raw_ids() == before

    def check(self) -> None:
        """Require that each machine reads all it saw, gets a note, or is refused."""
        raw, bank = self.raw_ids(), self.machines[0].bank
        decisions = [action for action in actions(self.store, bank) if action in DECISIONS]
        for one, told in zip(self.machines, self.told, strict=True):
            kept = raw[: len(told)] == told
            try:
                with one.ledger().reading() as view:
                    found = [logged.record.id for logged in view.scan()]
                    noted = bool(view.notes)
            except (RolledBackError, ForkedError):
                assert not kept
                continue
            assert found == raw
            assert noted is not kept
            assert not noted or decisions
        if head_of(self.store, bank).epoch == 0:
            assert not decisions


@given(steps=st.lists(_steps, max_size=14))
def test_a_machine_in_any_history_reads_what_it_saw_or_gets_the_reason(
    steps: list[tuple[str, int]],
) -> None:
    """Without an owner's decision in the log, what a machine saw exists or the read is refused."""
    with TemporaryDirectory() as root:
        world = _World(Path(root))
        world.check()
        for action, number in steps:
            world.step(action, number)
            world.check()
