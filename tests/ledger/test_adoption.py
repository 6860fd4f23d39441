"""Untrusted banks and adoption: banks whose keys are lost stay readable and gain no trust."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from ledger_kit import OWNER, WRITER, created, listed, memories, opened
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

from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    AdoptedError,
    ForkedError,
    ReadOnlyStoreError,
    RolledBackError,
    SigningKeyError,
    UsageError,
    VerificationError,
)
from satchel.ledger.authority import (
    ACCEPTED,
    ADOPTED,
    EpochDecision,
    LogState,
    admission_record,
    decision_record,
)
from satchel.ledger.decisions import Decider
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import Ticket, with_models
from satchel.ledger.witness import Witness
from satchel.model.records import Bank, Config
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

_OLD = FOUNDING + 3
_AT = "2026-01-01T00:00:00.000000Z"
_HEIR, _HEIRS_WRITER = SigningKey.from_seed(b"h" * 32), SigningKey.from_seed(b"i" * 32)
_SECOND = SigningKey.from_seed(b"j" * 32)


def _machine_at(one: Machine, name: str, **members: Any) -> Machine:
    """Return another machine that uses the same store and has seen nothing yet."""
    folder = one._folder.parent / name
    return Machine(one.store, one.bank, folder, **{"writer": _HEIRS_WRITER} | members)


def _require_refused(victim: Machine, error: type[Exception], match: str | None = None) -> None:
    """Require that a machine can neither read the bank nor add to it."""
    with pytest.raises(error, match=match):
        victim.listed()
    with pytest.raises(error, match=match):
        victim.add(1, start=99)


# -- untrusted banks ---------------------------------------------------------------------------


def test_an_untrusted_bank_can_be_read_and_is_marked(tmp_path: Path) -> None:
    """Everything is verified; to add to it, an owner must be trusted or the bank adopted."""
    one = machine(tmp_path)
    two = _machine_at(one, "two", writer=WRITER, trusted=frozenset({THIEF.did}))
    assert two.standing() == "untrusted"
    assert two.listed() == one.listed()
    with pytest.raises(ReadOnlyStoreError, match="adopt"):
        two.add(1, start=10)
    assert head_of(one.store, one.bank).size == _OLD

    two.trusted = frozenset({THIEF.did, OWNER.did})
    assert two.standing() == "own"
    two.add(1, start=10)
    two.trusted = frozenset()
    assert two.standing() == "own"  # this machine has added to it


def test_the_founder_of_a_bank_is_verified_only_on_request(tmp_path: Path) -> None:
    """Without a list of trusted owners, as in a fresh container."""
    one = machine(tmp_path)
    assert _machine_at(one, "two").standing() == "own"


def test_an_untrusted_bank_is_verified_like_any_other(tmp_path: Path) -> None:
    """An edit is refused, and so is a head by a key that nobody admitted."""
    one = machine(tmp_path)
    two = _machine_at(one, "two", trusted=frozenset())
    held = one.store._banks[one.bank].rows
    row = held[3]
    held[3] = msgspec.structs.replace(row, body=held[4].body)
    with pytest.raises(VerificationError, match="another one"):
        two.listed()
    held[3] = row
    assert two.standing() == "untrusted"
    forge(one.store, one.bank, memories(1, start=9), THIEF)
    _require_refused(two, VerificationError, "no owner admitted")


def test_a_running_reader_detects_a_rollback_of_an_untrusted_bank(tmp_path: Path) -> None:
    """The program compares with what it read itself, though no witness knows the bank."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(1, start=10)
    running = Ledger(one.store, one.bank, trusted=frozenset())
    with running.reading() as view:
        assert view.standing == "untrusted"
    newest = backup(one.store)
    put_back(one.store, kept)
    with pytest.raises(RolledBackError), running.reading():
        pass
    put_back(one.store, newest)
    _machine_at(one, "heir").decider(_HEIR).adopt()
    with running.reading() as view:
        assert view.standing == "untrusted"  # as before: no machine here trusted it


def test_a_bank_with_a_trusted_and_an_unknown_owner_is_untrusted(
    tmp_path: Path,
) -> None:
    """A bank record is unsigned: its author can write any names into it."""
    store = InMemoryStore()
    bank = seal(Bank(owner_keys=(OWNER.did, THIEF.did), created_at=_AT))
    made = Ledger(store, bank.id, writer=THIEF)
    with store.writing() as writing:
        records = [bank, admission_record(bank.id, WRITER.did, THIEF, _AT)]
        made._commit(writing, None, [Ticket(with_models(records))])
    victim = Machine(store, bank.id, tmp_path / "victim", trusted=frozenset({OWNER.did}))
    assert victim.standing() == "untrusted"
    with pytest.raises(ReadOnlyStoreError):
        victim.add(1, start=0)
    victim.trusted = frozenset({OWNER.did, THIEF.did})
    assert victim.standing() == "own"


# -- an owner's key is at hand -------------------------------------------------------------------


def test_an_owner_admits_a_machine(tmp_path: Path) -> None:
    """From its own machine or from the new one; asking again adds nothing."""
    one = machine(tmp_path)
    two = _machine_at(one, "two", trusted=frozenset())
    two.decider().admit()
    two.decider().admit()
    assert actions(one.store, one.bank).count("writer_added") == 2
    assert two.standing() == "own"
    two.add(1, start=10)
    one.decider().admit(_SECOND.did)
    three = _machine_at(one, "three", writer=_SECOND)
    three.add(1, start=20)
    assert one.listed() == two.listed() == three.listed()
    with pytest.raises(SigningKeyError):
        one.decider(THIEF).admit(THIEF.did)


def test_a_machine_is_not_admitted_to_a_rolled_back_store(tmp_path: Path) -> None:
    """That would accept the loss silently."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(1, start=10)
    put_back(one.store, kept)
    with pytest.raises(RolledBackError):
        one.decider().admit(_SECOND.did)


def test_an_owner_cannot_adopt_its_own_bank(tmp_path: Path) -> None:
    """Adoption is for lost keys; the error points to ``admit``."""
    one = machine(tmp_path)
    with pytest.raises(UsageError, match="admit"):
        one.decider().adopt()


# -- the keys are lost ---------------------------------------------------------------------------


def test_adoption_keeps_all_memories_when_keys_are_lost(tmp_path: Path) -> None:
    """A new owner continues the same log, which records the adoption."""
    one = machine(tmp_path)
    before = one.listed()
    resumed = LogState.of(head_of(one.store, one.bank))
    heir = _machine_at(
        one, "one", trusted=frozenset({OWNER.did})
    )  # the same machine, with a new key

    decision = heir.decider(_HEIR).adopt("the laptop was stolen")

    assert decision == EpochDecision(
        bank=one.bank,
        epoch=1,
        resumed=resumed,
        key=_HEIR.did,
        reason="the laptop was stolen",
    )
    assert actions(one.store, one.bank)[-2:] == [ADOPTED, "writer_added"]
    assert heir.standing() == "own"
    assert heir.listed()[:_OLD] == before
    heir.add(2, start=10)
    with pytest.raises(ReadOnlyStoreError):
        Machine(one.store, one.bank, heir._folder, writer=WRITER).add(1, start=50)


def test_an_adopted_bank_is_untrusted_on_other_machines(tmp_path: Path) -> None:
    """Except where the new owner's key is trusted for it; both can be read."""
    one = machine(tmp_path)
    _machine_at(one, "heir").decider(_HEIR).adopt()
    for trusted in (None, frozenset[str](), frozenset({THIEF.did})):
        other = _machine_at(one, "other", trusted=trusted)
        assert other.standing() == "untrusted"
        assert len(other.listed()) == _OLD + 2
        with pytest.raises(ReadOnlyStoreError):
            other.add(1, start=10)
    friend = _machine_at(one, "friend", trusted=frozenset({_HEIR.did}))
    assert friend.standing() == "own"
    friend.add(1, start=10)


def test_an_unknown_adoption_is_refused_by_machines_that_knew_the_bank(tmp_path: Path) -> None:
    """Attack: a copy of the store, adopted by whoever has it, replaces the owner's own."""
    one = machine(tmp_path)
    by_trust = _machine_at(one, "by trust", trusted=frozenset({OWNER.did}))
    by_both = _machine_at(one, "one", trusted=frozenset({OWNER.did}))
    running = Ledger(one.store, one.bank)
    with running.reading():
        pass

    _machine_at(one, "thief", writer=THIEF).decider(THIEF).adopt()

    for victim in (one, by_trust, by_both):
        _require_refused(victim, AdoptedError, "trust it for this bank")
    with pytest.raises(AdoptedError), running.reading():
        pass
    with pytest.raises(SigningKeyError):
        one.decider().accept_rollback()
    with pytest.raises(AdoptedError):
        one.decider(_HEIR).adopt(with_loss=True)
    by_both.trusted = frozenset({OWNER.did, THIEF.did})
    assert by_both.standing() == "own"  # an explicit word


def test_an_adopted_old_copy_is_refused_by_machines_that_saw_later_heads(tmp_path: Path) -> None:
    """Also when the adopter claims to have accepted the loss of exactly what was seen."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(2, start=10)
    seen = LogState.of(head_of(one.store, one.bank))
    put_back(one.store, kept)
    thief = _machine_at(one, "thief", writer=THIEF)
    thief.decider(THIEF).adopt()
    _require_refused(one, AdoptedError)

    head = head_of(one.store, one.bank)
    decision = EpochDecision(bank=one.bank, epoch=2, resumed=LogState.of(head), abandoned=seen)
    forge(one.store, one.bank, [decision_record(ACCEPTED, decision, THIEF, _AT)], THIEF, epoch=2)
    assert thief.standing() == "own"  # so the log itself is in order
    _require_refused(one, AdoptedError)


def test_an_unseen_adoption_with_a_seen_epoch_is_refused(tmp_path: Path) -> None:
    """Having seen the epoch does not mean having seen the adoption."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(1, start=10)
    put_back(one.store, kept)
    one.decider().accept_rollback()
    one.add(2, start=20)
    seen = LogState.of(head_of(one.store, one.bank))
    assert seen.epoch == 1
    put_back(one.store, kept)
    thief = _machine_at(one, "thief", writer=THIEF)
    assert thief.decider(THIEF).adopt().epoch == 1
    head = head_of(one.store, one.bank)
    decision = EpochDecision(bank=one.bank, epoch=2, resumed=LogState.of(head), abandoned=seen)
    forge(one.store, one.bank, [decision_record(ACCEPTED, decision, THIEF, _AT)], THIEF, epoch=2)
    thief.add(9, start=60)
    _require_refused(one, AdoptedError)


def test_a_writer_cannot_log_an_adoption_under_its_own_head(tmp_path: Path) -> None:
    """An adoption needs its own epoch and a head by its key; every machine refuses this log."""
    for number, epoch in enumerate((0, 1)):
        one = machine(tmp_path / str(number))
        adopted = _adoption_record(one)
        forge(one.store, one.bank, [adopted], epoch=epoch)
        for victim in (
            one,
            _machine_at(one, "fresh"),
            _machine_at(one, "friend", trusted=frozenset([_HEIR.did])),
        ):
            _require_refused(victim, VerificationError)


def _adoption_record(one: Machine, signer: SigningKey = _HEIR, **changed: Any) -> Sealed:
    """Return the record that adopts a store in its current state."""
    head = head_of(one.store, one.bank)
    members: dict[str, Any] = {
        "bank": one.bank,
        "epoch": head.epoch + 1,
        "resumed": LogState.of(head),
        "key": _HEIR.did,
    }
    return decision_record(ADOPTED, EpochDecision(**members | changed), signer, _AT)


@pytest.mark.parametrize(
    "forged",
    [
        lambda one: _adoption_record(one, THIEF),
        lambda one: _adoption_record(one, OWNER),
        lambda one: _adoption_record(one, bank="blake3:" + "0" * 64),
        lambda one: _adoption_record(one, resumed=LogState(epoch=0, size=3, root=one.bank)),
        lambda one: _adoption_record(one, epoch=2),
        lambda one: _adoption_record(one, key=None),
    ],
    ids=[
        "another signer",
        "signed by the owner",
        "another bank",
        "another position",
        "another epoch",
        "no key",
    ],
)
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_forged_adoption_changes_nothing(
    tmp_path: Path, forged: Callable[[Machine], Sealed], epoch: int
) -> None:
    """An adoption must be signed by the adopter, for this bank, position and epoch."""
    one = machine(tmp_path)
    forge(one.store, one.bank, [forged(one)], _HEIR, epoch=epoch)
    _require_refused(_machine_at(one, "friend", trusted=frozenset({_HEIR.did})), VerificationError)
    _require_refused(one, VerificationError)


def test_an_adoption_cannot_be_appended_as_a_record(tmp_path: Path) -> None:
    """A writer that logs what it received must not lose the bank by it."""
    one = machine(tmp_path)
    with pytest.raises(UsageError):
        one.ledger().append([_adoption_record(one)])


def test_two_adoptions_of_one_copy_are_two_banks(tmp_path: Path) -> None:
    """Each adopter has its own; the other's is a fork of it, with or without trust."""
    one = machine(tmp_path)
    kept = backup(one.store)
    first = _machine_at(one, "first", writer=_HEIRS_WRITER)
    first.decider(_HEIR).adopt()
    firsts = backup(one.store)
    put_back(one.store, kept)
    second = _machine_at(one, "second", writer=_SECOND)
    second.decider(_SECOND).adopt()
    _require_refused(first, AdoptedError)
    first.trusted = frozenset({_SECOND.did})
    _require_refused(first, ForkedError)
    put_back(one.store, firsts)
    assert first.standing() == "own"
    _require_refused(second, AdoptedError)


def test_an_adopted_bank_can_be_adopted_again(tmp_path: Path) -> None:
    """Machines that trust only an earlier owner refuse the bank from then on."""
    one = machine(tmp_path)
    first = _machine_at(one, "first")
    first.decider(_HEIR).adopt()
    first.add(1, start=10)
    friend = _machine_at(one, "friend", trusted=frozenset({_HEIR.did}))
    friend.add(1, start=20)

    again = _machine_at(one, "first", writer=_SECOND)
    decision = again.decider(_SECOND).adopt()
    assert decision.epoch == 2
    assert again.standing() == "own"
    _require_refused(friend, AdoptedError)
    _require_refused(_machine_at(one, "of the first", trusted=frozenset({_HEIR.did})), AdoptedError)
    _require_refused(
        _machine_at(one, "of the founder", trusted=frozenset({OWNER.did})), AdoptedError
    )
    assert _machine_at(one, "nobody").standing() == "untrusted"
    assert _machine_at(one, "of the second", trusted=frozenset({_SECOND.did})).standing() == "own"


def test_a_founder_who_recovers_the_key_reclaims_the_bank(tmp_path: Path) -> None:
    """By adopting it in turn; machines that trust the founder then continue."""
    one = machine(tmp_path)
    _machine_at(one, "heir").decider(_HEIR).adopt()
    fresh = _machine_at(one, "fresh")
    fresh.decider(OWNER).adopt("found again")
    two = _machine_at(one, "two", trusted=frozenset({OWNER.did}))
    assert two.standing() == "own"


def test_a_tampered_store_is_not_adopted(tmp_path: Path) -> None:
    """Every record and node is verified first, and nothing is written."""
    one = machine(tmp_path)
    thief = _machine_at(one, "heir")
    held = one.store._banks[one.bank]
    size = head_of(one.store, one.bank).size
    for place in range(_OLD):
        row = held.rows[place]
        for other in (
            msgspec.structs.replace(row, body=held.rows[place - 1].body),
            msgspec.structs.replace(row, body=None),
            msgspec.structs.replace(row, at=_AT),
            msgspec.structs.replace(row, type="working"),
        ):
            held.rows[place] = other
            with pytest.raises(VerificationError):
                thief.decider(_HEIR).adopt()
        held.rows[place] = row
    for place, node in enumerate(held.nodes):
        held.nodes[place] = bytes(32)
        with pytest.raises(VerificationError):
            thief.decider(_HEIR).adopt()
        held.nodes[place] = node
    assert head_of(one.store, one.bank).size == size
    thief.decider(_HEIR).adopt()


def test_adopting_a_rolled_back_store_requires_accepting_the_loss(tmp_path: Path) -> None:
    """The log then records what was given up."""
    one = machine(tmp_path)
    kept = backup(one.store)
    one.add(2, start=10)
    one.witness.note_removed(one.bank, [2, _OLD + 1])
    seen = LogState.of(head_of(one.store, one.bank))
    put_back(one.store, kept)
    with pytest.raises(RolledBackError):
        one.decider(_HEIR).adopt()
    forge(one.store, one.bank, memories(4, start=30))
    with pytest.raises(ForkedError):
        one.decider(_HEIR).adopt()
    put_back(one.store, kept)
    assert one.witness.positions(one.bank) == (2, _OLD + 1)

    decision = one.decider(_HEIR).adopt(with_loss=True)
    assert decision.abandoned == seen
    assert one.standing() == "own"
    assert one.witness.positions(one.bank) == (2,)
    one.add(1, start=40)


def test_another_machine_of_the_successor_sees_the_accepted_loss(tmp_path: Path) -> None:
    """It trusts the new owner; a loss that no adopter named is still refused."""
    one = machine(tmp_path)
    two = _machine_at(one, "two", trusted=frozenset({OWNER.did, _HEIR.did}))
    two.decider().admit()
    kept = backup(one.store)
    one.add(1, start=10)
    two.add(2, start=20)
    size = head_of(one.store, one.bank).size
    put_back(one.store, kept)
    _machine_at(one, "somebody").decider(_HEIR).adopt()
    with pytest.raises(ForkedError):
        two.listed()
    put_back(one.store, kept)
    one.decider(_HEIR).adopt(with_loss=True)
    (note,) = two.notes()
    assert f"saw {size} records" in note
    assert "the adopter of the bank" in note
    two.decider(_HEIR).admit()
    assert two.notes() == ()
    two.add(1, start=30)


def test_an_adoption_interrupted_before_the_witness_write_can_be_repeated(
    tmp_path: Path,
) -> None:
    """Until then this machine does not accept it; nothing is logged twice."""

    class _Crash(Exception):  # noqa: N818 - no error of anybody's
        pass

    class _Cut(Witness):
        def record_verified(self, *_: Any, **__: Any) -> Any:
            raise _Crash

    one = machine(tmp_path)
    with pytest.raises(_Crash):
        one.decider(_HEIR, witness=_Cut(one._folder)).adopt()
    _require_refused(one, AdoptedError)
    decision = one.decider(_HEIR).adopt()
    assert decision.key == _HEIR.did
    assert one.standing() == "own"
    assert actions(one.store, one.bank).count(ADOPTED) == 1
    one.decider(_HEIR).adopt()
    assert actions(one.store, one.bank).count(ADOPTED) == 1


def test_an_adopter_decides_like_any_owner(tmp_path: Path) -> None:
    """It accepts losses and admits machines; the former owner can do neither any more."""
    one = machine(tmp_path)
    heir = _machine_at(one, "one")
    heir.decider(_HEIR).adopt()
    kept = backup(one.store)
    heir.add(2, start=10)
    put_back(one.store, kept)
    with pytest.raises(SigningKeyError):
        heir.decider(OWNER).accept_rollback()
    assert heir.decider(_HEIR).accept_rollback() is not None
    heir.decider(_HEIR).admit(_SECOND.did)
    with pytest.raises(SigningKeyError):
        heir.decider(OWNER).admit(THIEF.did)
    assert heir.standing() == "own"
    forge(one.store, one.bank, memories(1, start=70), OWNER)
    _require_refused(heir, VerificationError, "no owner admitted")


def test_an_adoption_copied_into_another_bank_changes_nothing(tmp_path: Path) -> None:
    """The other bank has the same size, and the key is trusted there."""
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    _machine_at(one, "heir").decider(_HEIR).adopt()
    records = [
        record for record in configs(one.store, one.bank) if isinstance(record.model, Config)
    ]
    forge(other.store, other.bank, records[-2:], _HEIRS_WRITER, epoch=1)
    _require_refused(
        _machine_at(other, "friend", trusted=frozenset({OWNER.did, _HEIR.did})), VerificationError
    )


def test_a_store_on_disk_is_restored_accepted_and_adopted(tmp_path: Path) -> None:
    """The same with files: an old copy, an owner's decision, then lost keys."""
    path, seen = tmp_path / "store" / "satchel.db", tmp_path / "witness"
    path.parent.mkdir()
    store = SqliteStore(path)
    bank = created(store, Witness(seen)).bank
    opened(store, bank, seen).append(memories(600))
    store.close()
    shutil.copytree(path.parent, tmp_path / "old")
    store = SqliteStore(path)
    opened(store, bank, seen).append(memories(5, start=600))
    store.close()
    shutil.rmtree(path.parent)
    shutil.copytree(tmp_path / "old", path.parent)

    store = SqliteStore(path)
    with pytest.raises(RolledBackError):
        listed(opened(store, bank, seen))
    decider = Decider(store=store, bank=bank, owner=OWNER, writer=WRITER, witness=Witness(seen))
    assert decider.accept_rollback() is not None
    opened(store, bank, seen).append(memories(5, start=700))
    assert len(listed(opened(store, bank, seen))) == FOUNDING + 600 + 1 + 5

    connection = apsw.Connection(str(path))
    connection.execute("UPDATE node SET hash = zeroblob(32) WHERE place % 1024 = 7")
    connection.close()
    with pytest.raises(VerificationError, match="is damaged"):
        replace(decider, owner=_HEIR).adopt()
    store.close()


def test_a_store_on_disk_is_adopted_in_place_with_all_memories(tmp_path: Path) -> None:
    """After its keys are lost, it continues with everything it had."""
    store, seen = SqliteStore(tmp_path / "satchel.db"), tmp_path / "witness"
    bank = created(store, Witness(seen)).bank
    opened(store, bank, seen).append(memories(20))
    decider = Decider(store=store, bank=bank, owner=_HEIR, writer=_SECOND, witness=Witness(seen))
    decider.adopt()
    heir = Ledger(store, bank, writer=_SECOND, witness=Witness(seen))
    heir.append(memories(5, start=20))
    assert len(listed(heir)) == FOUNDING + 20 + 2 + 5
    with pytest.raises(ReadOnlyStoreError):
        opened(store, bank, seen).append(memories(1, start=50))
    store.close()
