"""Several owners of a bank, and how many of them must sign a decision."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_kit import OWNER, WRITER
from machines_kit import THIEF, Machine, backup, forge, machine, put_back

from satchel.crypto.keys import MOST_OWNERS, RETIRED, REVOKED, SigningKey
from satchel.crypto.sealed_records import Sealed, open_record
from satchel.errors import RolledBackError, SigningKeyError, ThresholdError, UsageError
from satchel.ledger.authority import (
    Authority,
    admission_record,
    apply_configs,
    key_end_record,
    owner_addition_record,
    rename_record,
    signers,
    succession_record,
    threshold_record,
    token_revocation_record,
)

BEN, CAT = SigningKey.from_seed(b"b" * 32), SigningKey.from_seed(b"c" * 32)
HEIR, OTHER = SigningKey.from_seed(b"h" * 32), SigningKey.from_seed(b"v" * 32)
_AT = "2026-01-01T00:00:00.000000Z"


def _authority(one: Machine) -> Authority:
    with one.ledger().reading() as view:
        return view.authority


@pytest.fixture
def two_of_three(tmp_path: Path) -> Machine:
    """A bank of three owners, two of whom must sign."""
    one = machine(tmp_path)
    assert one.decider().add_owner(BEN.did, BEN)
    assert one.decider().add_owner(CAT.did, CAT)
    assert one.decider().set_threshold(2)
    return one


def _decisions(one: Machine, *keys: SigningKey) -> dict[str, Sealed]:
    """Return one decision of each kind, signed by the given keys."""
    first, *also = keys
    return {
        "name": rename_record(one.bank, "mine", first, _AT, *also),
        "admit": admission_record(one.bank, OTHER.did, first, _AT, *also),
        "succeed": succession_record(one.bank, first, HEIR, _AT, *also),
        "add": owner_addition_record(one.bank, HEIR.did, _AT, *keys, HEIR),
        "fewer": threshold_record(one.bank, 1, 1, _AT, *keys),
        "retire": key_end_record(RETIRED, one.bank, WRITER.did, first, _AT, None, *also),
        "revoke": key_end_record(REVOKED, one.bank, CAT.did, first, _AT, None, *also),
    }


def _takes_effect(one: Machine, record: Sealed) -> bool:
    before = _authority(one)
    with one.ledger().reading() as view:
        size, root = view.head.size, view.head.root
    return apply_configs(before, one.bank, [(size, record)], lambda _: root) != before


def test_a_decision_of_one_owner_alone_has_no_effect(two_of_three: Machine) -> None:
    """For every kind of decision; with another owner's signature it has."""
    for kind, record in _decisions(two_of_three, OWNER).items():
        assert not _takes_effect(two_of_three, record), kind
    for kind, record in _decisions(two_of_three, OWNER, BEN).items():
        assert _takes_effect(two_of_three, record), kind


def test_only_owners_count_for_the_threshold(two_of_three: Machine) -> None:
    """Neither a writer nor a key that signs twice."""
    for keys in ((OWNER, THIEF), (OWNER, WRITER), (OWNER, OWNER)):
        for kind, record in _decisions(two_of_three, *keys).items():
            assert not _takes_effect(two_of_three, record), kind


def test_a_decision_with_too_few_signatures_is_refused_and_not_logged(
    two_of_three: Machine,
) -> None:
    """The error says how many are missing, and includes what is to be signed."""
    before = two_of_three.listed()
    with pytest.raises(ThresholdError, match=r"2 of the 3 owners .* 1 did") as caught:
        two_of_three.decider().rename("mine")
    assert "--co-signer" in (caught.value.hint or "")
    assert "--propose" in (caught.value.hint or "")
    assert signers(open_record(caught.value.drawn[0])[0]) == {OWNER.did}
    assert two_of_three.listed() == before
    two_of_three.decider(OWNER, CAT).rename("ours")
    assert _authority(two_of_three).name == "ours"
    with pytest.raises(SigningKeyError, match="not an owner"):
        two_of_three.decider(OWNER, THIEF).rename("theirs")


def test_replaying_an_old_record_does_not_lower_the_threshold(two_of_three: Machine) -> None:
    """Attack: a record from when one of two owners was enough."""
    lower = threshold_record(two_of_three.bank, 1, 1, _AT, OWNER, BEN)
    assert two_of_three.decider(OWNER, BEN).enact([lower])
    assert two_of_three.decider().set_threshold(2)
    assert not _takes_effect(two_of_three, lower)
    forge(
        two_of_three.store,
        two_of_three.bank,
        [threshold_record(*_replayed_threshold(two_of_three))],
    )
    assert _authority(two_of_three).threshold == 2


def _replayed_threshold(one: Machine) -> tuple[str, int, int, str, SigningKey, SigningKey]:
    return one.bank, 1, 1, _AT, OWNER, BEN


def test_the_threshold_cannot_exceed_the_number_of_owners(two_of_three: Machine) -> None:
    """Otherwise nobody could decide about the bank again."""
    both = two_of_three.decider(OWNER, BEN)
    assert both.end(REVOKED, CAT.did)
    for action, key in ((RETIRED, BEN), (REVOKED, BEN)):
        by = (OWNER, CAT) if action == REVOKED else (OWNER, BEN)
        record = key_end_record(action, two_of_three.bank, key.did, by[0], _AT, None, *by[1:])
        assert not _takes_effect(two_of_three, record)
    with pytest.raises(UsageError, match="1 owners would remain, and 2 must sign"):
        both.end(RETIRED, BEN.did)
    with pytest.raises(UsageError, match="between 1 and that"):
        both.set_threshold(3)


def test_a_key_cannot_sign_its_own_revocation(two_of_three: Machine) -> None:
    """Its signature does not count toward the threshold."""
    with pytest.raises(ThresholdError, match="1 did"):
        two_of_three.decider(OWNER, CAT).end(REVOKED, CAT.did)
    assert two_of_three.decider(OWNER, BEN).end(REVOKED, CAT.did)


def test_nobody_becomes_an_owner_without_agreeing(tmp_path: Path) -> None:
    """The refusal includes what the new owner is to sign; signed elsewhere, it counts."""
    one = machine(tmp_path)
    with pytest.raises(ThresholdError, match="must agree") as caught:
        one.decider().add_owner(BEN.did)
    assert caught.value.drawn
    assert not _takes_effect(one, owner_addition_record(one.bank, BEN.did, _AT, OWNER))
    assert _takes_effect(one, owner_addition_record(one.bank, BEN.did, _AT, OWNER, BEN))


def test_the_number_of_owners_is_limited_to_the_signatures_of_a_record(tmp_path: Path) -> None:
    """Otherwise a threshold could need more signatures than a record holds."""
    one = machine(tmp_path)
    for number in range(1, MOST_OWNERS):
        key = SigningKey.from_seed(bytes([number]) * 32)
        assert one.decider().add_owner(key.did, key)
    with pytest.raises(UsageError, match="at most 15 owners"):
        one.decider().add_owner(THIEF.did, THIEF)
    assert not _takes_effect(one, owner_addition_record(one.bank, THIEF.did, _AT, OWNER, THIEF))


def test_each_owner_can_revoke_a_token_alone(two_of_three: Machine) -> None:
    """Removing a permission must be quick."""
    assert _takes_effect(
        two_of_three,
        token_revocation_record(two_of_three.bank, "blake3:" + "0" * 64, CAT, _AT, None),
    )


def test_accepting_a_loss_needs_the_threshold_of_owners(two_of_three: Machine) -> None:
    """One owner's key alone does not make other machines accept an older store."""
    old = backup(two_of_three.store)
    two_of_three.add(2, start=50)
    put_back(two_of_three.store, old)
    with pytest.raises(ThresholdError) as caught:
        two_of_three.decider().accept_rollback("the disk died")
    with pytest.raises(RolledBackError):
        two_of_three.listed()
    proposed = [open_record(one)[0] for one in caught.value.drawn]
    with pytest.raises(ThresholdError):
        two_of_three.decider(BEN).enact(proposed)
    assert two_of_three.decider(OWNER, BEN).accept_rollback() is not None
    two_of_three.add(1, start=60)


def test_a_machine_that_knows_the_first_owner_trusts_admitted_owners(two_of_three: Machine) -> None:
    """A machine that never saw the bank needs only the log; an untrusted one stays untrusted."""
    store, bank, folder = two_of_three.store, two_of_three.bank, two_of_three._folder
    new = Machine(store, bank, folder / "new", trusted=frozenset({OWNER.did}))
    assert new.standing() == "own"
    other = Machine(store, bank, folder / "other", trusted=frozenset({BEN.did}))
    assert other.standing() == "untrusted"  # unknown to this machine
    two_of_three.decider(BEN, CAT).end(REVOKED, OWNER.did, "stolen")
    late = Machine(store, bank, folder / "late", trusted=frozenset({OWNER.did}))
    assert late.standing() == "untrusted"  # a thief may have admitted them


@settings(max_examples=60, deadline=None)
@given(by=st.sets(st.integers(0, 4)), owners=st.integers(1, 4), number=st.integers(1, 4))
def test_a_decision_takes_effect_exactly_when_the_threshold_is_met(
    by: set[int], owners: int, number: int
) -> None:
    """For all banks, thresholds and signers."""
    keys = [SigningKey.from_seed(bytes([seed]) * 32) for seed in range(5)]
    own = frozenset(key.did for key in keys[:owners])
    bank, wanted = "blake3:" + "1" * 64, min(number, owners)
    before = Authority(own, name="old", threshold=wanted)
    chosen = [keys[place] for place in sorted(by)] or [keys[4]]
    record = rename_record(bank, "new", chosen[0], _AT, *chosen[1:])
    after = apply_configs(before, bank, [(5, record)], lambda _: "")
    assert (after.name == "new") is (len({key.did for key in chosen} & own) >= wanted)
