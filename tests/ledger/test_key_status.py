"""Key status: keys that are replaced, retired or revoked keep their past records valid."""

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


def _changes_keys(one: Machine, *records: Sealed) -> bool:
    """Return whether records appended by any writer change the keys of the bank."""
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


def test_a_successor_key_decides_and_the_old_key_does_not(tmp_path: Path) -> None:
    """The log records it, signed by both; what was written before stays."""
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
    """A store that missed two replacements of a key records both."""
    one = machine(tmp_path)
    assert one.decider().hand_over([HEIR, NEXT])
    assert _owners(one) == {NEXT.did}
    assert actions(one.store, one.bank)[-2:] == [SUCCEEDED, SUCCEEDED]


@pytest.mark.parametrize("signers", [(OWNER,), (HEIR,), (THIEF, HEIR)], ids=["old", "new", "thief"])
def test_a_succession_needs_both_signatures(
    tmp_path: Path, signers: tuple[SigningKey, ...]
) -> None:
    """Nobody becomes an owner without agreeing, or by its own signature alone."""
    one = machine(tmp_path)
    payload = {"bank": one.bank, "old": OWNER.did, "new": HEIR.did}
    record = signed_config(Config(action=SUCCEEDED, payload=payload, at=_AT), *signers)
    assert not _changes_keys(one, record)


def test_a_succession_of_another_bank_changes_nothing(tmp_path: Path) -> None:
    """One bank's succession cannot be carried into another of the same owner."""
    one, two = machine(tmp_path / "a"), machine(tmp_path / "b")
    assert not _changes_keys(one, succession_record(two.bank, OWNER, HEIR, _AT))


def test_a_second_succession_of_a_key_is_ignored_as_a_fork(tmp_path: Path) -> None:
    """A thief of the old key comes too late; the log shows the attempt."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    assert not _changes_keys(one, succession_record(one.bank, OWNER, THIEF, _AT))
    with one.ledger().reading() as view:
        assert [found.heir for found in view.authority.forked] == [THIEF.did]
        assert any("second succession" in note for note in view.notes)


def test_a_retired_key_cannot_be_readmitted(tmp_path: Path) -> None:
    """Neither as a successor nor as a writer."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    assert not _changes_keys(
        one,
        succession_record(one.bank, HEIR, OWNER, _AT),
        admission_record(one.bank, OWNER.did, HEIR, _AT),
    )
    with pytest.raises(UsageError, match="role in the bank"):
        one.decider(HEIR).hand_over([OWNER])


def test_a_machine_that_trusts_the_old_key_trusts_its_successor(tmp_path: Path) -> None:
    """A machine that never saw the bank needs only the log."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    new = Machine(one.store, one.bank, tmp_path / "new", trusted=frozenset({OWNER.did}))
    assert new.standing() == "own"
    elsewhere = Machine(one.store, one.bank, tmp_path / "other", trusted=frozenset({THIEF.did}))
    assert elsewhere.standing() == "untrusted"


def test_the_successor_of_a_revoked_key_needs_confirmation(tmp_path: Path) -> None:
    """A thief may have named the successor before the key was revoked."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    one.decider(HEIR).end(REVOKED, OWNER.did, "stolen")
    new = Machine(one.store, one.bank, tmp_path / "new", trusted=frozenset({OWNER.did}))
    assert new.standing() == "untrusted"
    assert one.standing() == "own"  # it saw the bank before


# -- retirement and revocation ---------------------------------------------------------------------


def test_a_retired_writer_cannot_append(tmp_path: Path) -> None:
    """Its past records stay; the error says what to do."""
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


def test_a_head_signed_by_a_revoked_key_is_refused(tmp_path: Path) -> None:
    """Attack: a store and a writer's stolen key; also without a witness."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    assert one.decider().end(REVOKED, OTHER_WRITER.did, "stolen")
    one.add(1, start=5)
    forge(one.store, one.bank, memories(1, 30), OTHER_WRITER)
    new = Machine(one.store, one.bank, tmp_path / "new")
    for each in (one, new):
        with pytest.raises(VerificationError, match="revoked"):
            each.listed()


def test_a_machine_can_revoke_its_own_writer_key(tmp_path: Path) -> None:
    """The owner's key signs the head over it."""
    one = machine(tmp_path)
    decider = one.decider()
    decider = type(decider)(
        store=one.store, bank=one.bank, owner=OWNER, writer=OWNER, witness=one.witness
    )
    assert decider.end(REVOKED, WRITER.did)
    assert head_of(one.store, one.bank).key == OWNER.did
    assert _writers(one) == frozenset()


def test_the_last_owner_cannot_be_retired_or_revoked(tmp_path: Path) -> None:
    """Otherwise nobody could decide about the bank again."""
    one = machine(tmp_path)
    for action in (RETIRED, REVOKED):
        with pytest.raises(UsageError, match="as the last owner") as caught:
            one.decider().end(action, OWNER.did)
        assert "key rotate" in (caught.value.hint or "")
        assert not _changes_keys(one, key_end_record(action, one.bank, OWNER.did, OWNER, _AT))


@pytest.mark.parametrize("action", [RETIRED, REVOKED])
@pytest.mark.parametrize("by", [WRITER, THIEF], ids=["writer", "thief"])
def test_only_an_owner_can_retire_or_revoke_a_key(
    tmp_path: Path, action: str, by: SigningKey
) -> None:
    """Otherwise any writer could lock others out."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    assert not _changes_keys(one, key_end_record(action, one.bank, OTHER_WRITER.did, by, _AT))


def test_a_replaced_key_can_be_revoked_later_by_its_successor(tmp_path: Path) -> None:
    """For example when it turns out later that the key was stolen."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    with one.ledger().reading() as view:
        assert view.authority.unrevoked_end(OWNER.did) is not None
    assert one.decider(HEIR).end(REVOKED, OWNER.did)
    with one.ledger().reading() as view:
        assert view.authority.unrevoked_end(OWNER.did) is None
        assert view.authority.revoked_keys == {OWNER.did}


def test_records_signed_by_an_ended_key_are_ignored(tmp_path: Path) -> None:
    """Whatever time they claim: the log position counts."""
    one = machine(tmp_path)
    one.decider().hand_over([HEIR])
    early = "2020-01-01T00:00:00.000000Z"
    assert not _changes_keys(one, admission_record(one.bank, OTHER_WRITER.did, OWNER, early))
    assert not _changes_keys(one, rename_record(one.bank, "theirs", OWNER, early))
    assert ADMISSION in actions(one.store, one.bank)


def test_key_statuses_are_the_same_in_one_pass_and_step_by_step(tmp_path: Path) -> None:
    """A running program and a new one compute the same keys."""
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


def test_an_older_copy_does_not_reinstate_a_revoked_key(tmp_path: Path) -> None:
    """The machine saw the revocation, so the older store is refused."""
    one = machine(tmp_path)
    one.decider().admit(OTHER_WRITER.did)
    old = backup(one.store)
    one.decider().end(REVOKED, OTHER_WRITER.did)
    forge(old, one.bank, memories(4, 40), OTHER_WRITER)
    behind = Machine(old, one.bank, one._folder)
    with pytest.raises(VerificationError):
        behind.listed()
