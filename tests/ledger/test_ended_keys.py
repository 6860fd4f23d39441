"""Keys of a bank that are replaced, retired and revoked: what stands stays, nothing comes after."""

from pathlib import Path

import pytest
from ledger_kit import OWNER, WRITER, memories
from machines_kit import THIEF, Machine, actions, backup, forge, head_of, machine

from satchel.crypto.keys import RETIRED, REVOKED, SUCCEEDED, SigningKey
from satchel.crypto.sealed_records import Sealed
from satchel.errors import ReadOnlyStoreError, SigningKeyError, UsageError, VerificationError
from satchel.ledger.authority import (
    ADMISSION,
    admission_record,
    key_end_record,
    rename_record,
    signed_config,
    succession_record,
)
from satchel.model.records import Config

HEIR, NEXT = SigningKey.from_seed(b"h" * 32), SigningKey.from_seed(b"n" * 32)
OTHER_WRITER = SigningKey.from_seed(b"v" * 32)
_AT = "2026-01-01T00:00:00.000000Z"


def _owners(one: Machine) -> frozenset[str]:
    with one.ledger().reading() as view:
        return view.authority.owners


def _writers(one: Machine) -> frozenset[str]:
    with one.ledger().reading() as view:
        return view.authority.writers


def _counts(one: Machine, *records: Sealed) -> bool:
    """Tell whether records that anybody may append change whose bank it is."""
    with one.ledger().reading() as view:
        before = view.authority.keys
    forge(one.store, one.bank, records)
    with Machine(one.store, one.bank, one._folder / "new").ledger().reading() as view:
        after = view.authority.keys
    return (before.owners, before.writers, before.ended) != (
        after.owners,
        after.writers,
        after.ended,
    )


# -- succession ----------------------------------------------------------------------------------


def test_an_heir_decides_and_the_old_key_does_not(tmp_path: Path) -> None:
    """The log says so, signed by both; what was written before stays."""
    one = machine(tmp_path)
    before = one.listed()
    assert one.decider().hand_over([HEIR])
    assert _owners(one) == {HEIR.did}
    assert one.listed()[: len(before)] == before
    with pytest.raises(SigningKeyError, match="not an owner"):
        one.decider().rename("mine again")
    one.decider(HEIR).rename("the heir's")
    one.add(1, start=10)
    with one.ledger().reading() as view:
        assert view.authority.name == "the heir's"


def test_several_successions_are_recorded_together(tmp_path: Path) -> None:
    """A store that was away while a key was replaced twice learns both."""
    one = machine(tmp_path)
    assert one.decider().hand_over([HEIR, NEXT])
    assert _owners(one) == {NEXT.did}
    assert actions(one.store, one.bank)[-2:] == [SUCCEEDED, SUCCEEDED]


@pytest.mark.parametrize("signers", [(OWNER,), (HEIR,), (THIEF, HEIR)], ids=["old", "new", "thief"])
def test_a_succession_that_not_both_signed_changes_nothing(
    tmp_path: Path, signers: tuple[SigningKey, ...]
) -> None:
    """Nobody is made an owner who did not agree, and nobody makes itself one."""
    one = machine(tmp_path)
    payload = {"bank": one.bank, "old": OWNER.did, "new": HEIR.did}
    record = signed_config(Config(action=SUCCEEDED, payload=payload, at=_AT), *signers)
    assert not _counts(one, record)


def test_a_succession_of_another_bank_changes_nothing(tmp_path: Path) -> None:
    """Else one bank's could be carried into another of the same owner."""
    one, two = machine(tmp_path / "a"), machine(tmp_path / "b")
    assert not _counts(one, succession_record(two.bank, OWNER, HEIR, _AT))


def test_the_second_succession_of_a_key_is_a_fork_and_counts_for_nothing(tmp_path: Path) -> None:
    """Whoever stole the old key comes too late; the log shows that it was tried."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    assert not _counts(one, succession_record(one.bank, OWNER, THIEF, _AT))
    with one.ledger().reading() as view:
        assert [found.heir for found in view.authority.forked] == [THIEF.did]
        assert any("second succession" in note for note in view.notes)


def test_a_retired_key_does_not_return(tmp_path: Path) -> None:
    """Not as an heir, not as a writer."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    assert not _counts(
        one,
        succession_record(one.bank, HEIR, OWNER, _AT),
        admission_record(one.bank, OWNER.did, HEIR, _AT),
    )
    with pytest.raises(UsageError, match="role in the bank"):
        one.decider(HEIR).hand_over([OWNER])


def test_a_machine_that_trusts_the_old_key_trusts_its_successor(tmp_path: Path) -> None:
    """A machine that never saw the bank needs no more than the log."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    new = Machine(one.store, one.bank, tmp_path / "new", trusted=frozenset({OWNER.did}))
    assert new.standing() == "own"
    elsewhere = Machine(one.store, one.bank, tmp_path / "other", trusted=frozenset({THIEF.did}))
    assert elsewhere.standing() == "untrusted"


def test_an_heir_of_a_key_that_was_revoked_is_asked_about(tmp_path: Path) -> None:
    """Whoever stole it may have named the heir, and revoked it after that."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    one.decider(HEIR).end(REVOKED, OWNER.did, "stolen")
    new = Machine(one.store, one.bank, tmp_path / "new", trusted=frozenset({OWNER.did}))
    assert new.standing() == "untrusted"
    assert one.standing() == "own"  # it saw the bank before


# -- retirement and revocation ---------------------------------------------------------------------


def test_a_retired_writer_adds_nothing_more(tmp_path: Path) -> None:
    """What it wrote stays; the sentence says what to do."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    two = Machine(one.store, one.bank, tmp_path / "two", writer=OTHER_WRITER)
    two.add(2, start=10)
    written = two.listed()
    assert one.decider().end(RETIRED, OTHER_WRITER.did)
    assert not one.decider().end(RETIRED, OTHER_WRITER.did)
    with pytest.raises(ReadOnlyStoreError, match="retired") as caught:
        two.add(1, start=20)
    assert "key rotate" in (caught.value.hint or "")
    assert one.listed()[: len(written)] == written


def test_a_head_that_a_revoked_key_signs_afterwards_is_refused(tmp_path: Path) -> None:
    """With a store, a writer's stolen key and a program that asks nobody; also without witness."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    assert one.decider().end(REVOKED, OTHER_WRITER.did, "stolen")
    one.add(1, start=5)
    forge(one.store, one.bank, memories(1, 30), OTHER_WRITER)
    new = Machine(one.store, one.bank, tmp_path / "new")
    for each in (one, new):
        with pytest.raises(VerificationError, match="revoked"):
            each.listed()


def test_a_machines_own_key_can_be_revoked_at_that_machine(tmp_path: Path) -> None:
    """The owner's key signs the head over it."""
    one = machine(tmp_path)
    decider = one.decider()
    decider = type(decider)(
        store=one.store, bank=one.bank, owner=OWNER, writer=OWNER, witness=one.witness
    )
    assert decider.end(REVOKED, WRITER.did)
    assert head_of(one.store, one.bank).key == OWNER.did
    assert _writers(one) == frozenset()


def test_the_last_owner_is_neither_retired_nor_revoked(tmp_path: Path) -> None:
    """Nobody could ever decide about the bank again."""
    one = machine(tmp_path)
    for action in (RETIRED, REVOKED):
        with pytest.raises(UsageError, match="as the last owner") as caught:
            one.decider().end(action, OWNER.did)
        assert "key rotate" in (caught.value.hint or "")
        assert not _counts(one, key_end_record(action, one.bank, OWNER.did, OWNER, _AT))


@pytest.mark.parametrize("action", [RETIRED, REVOKED])
@pytest.mark.parametrize("by", [WRITER, THIEF], ids=["writer", "thief"])
def test_only_an_owner_ends_a_key(tmp_path: Path, action: str, by: SigningKey) -> None:
    """Else whoever can add to the log could shut others out."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    assert not _counts(one, key_end_record(action, one.bank, OTHER_WRITER.did, by, _AT))


def test_a_replaced_key_can_be_revoked_later_by_its_heir(tmp_path: Path) -> None:
    """It was replaced in honor, and then it turned out that it was stolen."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    with one.ledger().reading() as view:
        assert view.authority.unrevoked_end(OWNER.did) is not None
    assert one.decider(HEIR).end(REVOKED, OWNER.did)
    with one.ledger().reading() as view:
        assert view.authority.unrevoked_end(OWNER.did) is None
        assert view.authority.revoked_keys == {OWNER.did}


def test_what_an_ended_key_signs_afterwards_changes_nothing(tmp_path: Path) -> None:
    """Whatever time it writes into what it signs: the place in the log counts."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    early = "2020-01-01T00:00:00.000000Z"
    assert not _counts(one, admission_record(one.bank, OTHER_WRITER.did, OWNER, early))
    assert not _counts(one, rename_record(one.bank, "theirs", OWNER, early))
    assert ADMISSION in actions(one.store, one.bank)


def test_key_statuses_are_the_same_in_one_pass_and_step_by_step(tmp_path: Path) -> None:
    """A program that has the bank open and one that was just started believe the same."""
    one = machine(tmp_path)
    ledger = one.ledger()
    with ledger.reading():
        pass
    one.decider().hand_over([HEIR])
    one.decider(HEIR).end(REVOKED, OWNER.did)
    one.decider(HEIR).admit(OTHER_WRITER.did)
    with ledger.reading() as view:
        step = view.authority
    with one.ledger().reading() as view:
        assert view.authority == step


def test_a_copy_from_before_does_not_bring_a_revoked_key_back(tmp_path: Path) -> None:
    """The machine saw the revocation, so the older store is refused."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    old = backup(one.store)
    one.decider().end(REVOKED, OTHER_WRITER.did)
    forge(old, one.bank, memories(4, 40), OTHER_WRITER)
    behind = Machine(old, one.bank, one._folder)
    with pytest.raises(VerificationError):
        behind.listed()
