"""Verdicts that depend on what this machine knows: revoked and bound keys, and what was seen."""

from pathlib import Path
from typing import Any

import pytest
from artifact_kit import TIME, MemoryLog, entry, sealed_file, sections, signers

from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.key_files import StatementHistory, TrustedKey, TrustRegistry
from satchel.crypto.keys import SigningKey

DEEP = VerificationRequest(deep=True)
FRESH = VerificationRequest(require_fresh=True)


@pytest.fixture
def judge(tmp_path: Path) -> Any:
    """Write bytes to a file and verify it."""

    def verify(
        data: bytes, policy: TrustPolicy, request: VerificationRequest | None = None
    ) -> Verification:
        path = tmp_path / "file.pam"
        path.write_bytes(data)
        return verify_artifact(path, policy, request)

    return verify


def believing(*keys: SigningKey, **members: Any) -> TrustPolicy:
    """Return a policy that believes these keys."""
    return TrustPolicy(keys=frozenset(key.did for key in keys), **members)


# -- revoked keys ------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path, key: SigningKey) -> TrustRegistry:
    """Return a registry that trusts ``key``."""
    made = TrustRegistry(tmp_path / "trust.json")
    made.trust(TrustedKey(key=key.did, name="k", added_at=TIME))
    return made


def test_a_revoked_key_counts_for_what_was_seen_before_and_nothing_else(
    judge: Any, key: SigningKey, registry: TrustRegistry, tmp_path: Path
) -> None:
    """A thief can write any time into a file, but not into our record of what we saw."""
    old = sealed_file(sections(entry("tea")), key)
    backdated = sealed_file(sections(entry("poison")), key)
    policy = TrustPolicy(registry=registry, seen=StatementHistory(tmp_path / "seen"))
    assert judge(old, policy).outcome is Outcome.GOOD
    registry.revoke(key.did)
    result = judge(old, policy)
    assert result.outcome is Outcome.GOOD
    assert any("revoked" in note for note in result.notes)
    for request in (None, DEEP):
        result = judge(backdated, policy, request)
        assert (result.outcome, result.exit_status) == (Outcome.UNTRUSTED, 3)
        assert result.signers[0].trust == "revoked"
    forgetful = TrustPolicy(registry=registry)
    assert judge(old, forgetful).outcome is Outcome.UNTRUSTED
    insisting = TrustPolicy(registry=registry, keys=frozenset([key.did]))
    assert judge(old, insisting).outcome is Outcome.UNTRUSTED


def test_an_untrusted_signer_cannot_have_a_file_remembered(
    judge: Any, key: SigningKey, registry: TrustRegistry, tmp_path: Path
) -> None:
    """Only what verified under a trusted key is seen."""
    thief = SigningKey.generate()
    policy = TrustPolicy(registry=registry, seen=StatementHistory(tmp_path / "seen"))
    data = sealed_file(sections(entry("tea")), thief)
    judge(data, policy)
    judge(sealed_file(sections(entry("tea", entry("gone"))), key), policy, DEEP)
    assert policy.seen is not None
    assert list(policy.seen.all()) == []
    registry.trust(TrustedKey(key=thief.did, name="t", added_at=TIME))
    registry.revoke(thief.did)
    assert judge(data, policy).outcome is Outcome.UNTRUSTED


def test_a_key_of_another_bank_is_no_trusted_signer(
    judge: Any, key: SigningKey, tmp_path: Path
) -> None:
    """Trust in one bank's owner is no trust for another bank."""
    mine, other = MemoryLog(key), MemoryLog(key)
    registry = TrustRegistry(tmp_path / "bound.json")
    registry.trust(TrustedKey(key=key.did, name="k", added_at=TIME, banks=[mine.bank.id]))
    policy = TrustPolicy(registry=registry)
    good = sealed_file(sections(mine.bank), key, **mine.logged())
    assert judge(good, policy).outcome is Outcome.GOOD
    for data in (
        sealed_file(sections(other.bank), key, **other.logged()),
        sealed_file(sections(entry("tea")), key),
    ):
        result = judge(data, policy)
        assert result.outcome is Outcome.UNTRUSTED
        assert result.signers[0].trust == "other bank"


# -- freshness ---------------------------------------------------------------------------------


@pytest.fixture
def log(key: SigningKey) -> MemoryLog:
    """Return a bank's log with five records."""
    made = MemoryLog(key)
    made.append(*(entry(f"memory {number}") for number in range(4)))
    return made


def copy(log: MemoryLog, *keys: SigningKey, size: int | None = None, epoch: int = 0) -> bytes:
    """Return a sealed copy of a bank at some size."""
    return sealed_file(sections(log.bank), *keys, **log.logged(size, epoch=epoch))


def test_an_older_copy_is_reported_and_refused_if_freshness_is_required(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """A verified old backup stays usable; a replay does not pass where it matters."""
    policy = believing(key, seen=StatementHistory(tmp_path / "seen"))
    for size in (3, 5):
        assert judge(copy(log, key, size=size), policy).outcome is Outcome.GOOD
    result = judge(copy(log, key, size=4), policy)
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.OLDER, 0, False)
    assert result.steps[4].state == "failed"
    refused = judge(copy(log, key, size=4), policy, FRESH)
    assert (refused.outcome, refused.exit_status) == (Outcome.OLDER, 3)
    assert judge(copy(log, key, size=5), policy, FRESH).exit_status == 0
    assert judge(copy(log, key, size=1, epoch=1), policy, FRESH).exit_status == 0
    assert judge(copy(log, key, size=5), policy, FRESH).exit_status == 3


def test_an_old_copy_with_its_signatures_in_another_order_is_still_older(
    judge: Any, log: MemoryLog, tmp_path: Path
) -> None:
    """The order of signatures is not signed, and must not choose whose memory is asked."""
    first, second = signers(2)
    policy = believing(first, second, seen=StatementHistory(tmp_path / "seen"))
    assert judge(copy(log, first, second, size=5), policy).outcome is Outcome.GOOD
    for keys in ((first, second), (second, first), (first,), (second,)):
        result = judge(copy(log, *keys, size=3), policy, FRESH)
        assert (result.outcome, result.exit_status) == (Outcome.OLDER, 3)


def test_a_worthless_signature_in_front_does_not_hide_that_a_copy_is_old(
    judge: Any, key: SigningKey, log: MemoryLog, registry: TrustRegistry, tmp_path: Path
) -> None:
    """A stolen, revoked key in front of the good one is not whose memory is asked."""
    stolen = SigningKey.generate()
    registry.trust(TrustedKey(key=stolen.did, name="s", added_at=TIME))
    registry.revoke(stolen.did)
    policy = TrustPolicy(registry=registry, seen=StatementHistory(tmp_path / "seen"))
    assert judge(copy(log, key, size=5), policy).outcome is Outcome.GOOD
    result = judge(copy(log, stolen, key, size=3), policy, FRESH)
    assert (result.outcome, result.exit_status) == (Outcome.OLDER, 3)


def test_an_untrusted_signer_cannot_make_a_good_copy_look_old(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """What is remembered moves only after trust."""
    policy = believing(key, seen=StatementHistory(tmp_path / "seen"))
    outsider = SigningKey.generate()
    assert judge(copy(log, outsider, size=5, epoch=9), policy).outcome is Outcome.UNTRUSTED
    assert judge(copy(log, key, size=3), policy, FRESH).exit_status == 0


def test_two_histories_of_the_same_length_are_a_fork(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """Somebody rewrote the log, or two machines did not know of each other."""
    policy = believing(key, seen=StatementHistory(tmp_path / "seen"))
    assert judge(copy(log, key), policy).outcome is Outcome.GOOD
    log.rows[-1] = ("semantic", entry("another past").id)
    result = judge(copy(log, key), policy)
    assert (result.outcome, result.exit_status) == (Outcome.FORK, 3)
    log.rows.append(("semantic", entry("later").id))
    assert judge(copy(log, key), policy).outcome is Outcome.GOOD


def test_copies_of_different_banks_do_not_make_each_other_old(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """What is remembered is remembered of one bank."""
    policy = believing(key, seen=StatementHistory(tmp_path / "seen"))
    judge(copy(log, key), policy)
    assert judge(copy(MemoryLog(key), key), policy, FRESH).exit_status == 0


def test_a_record_that_cannot_be_written_does_not_change_the_verdict(
    judge: Any, key: SigningKey, tmp_path: Path
) -> None:
    """A read-only disk is told in a note."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "seen").symlink_to(tmp_path / "elsewhere")
    policy = believing(key, seen=StatementHistory(tmp_path / "seen"))
    result = judge(sealed_file(sections(entry("tea")), key), policy)
    assert result.outcome is Outcome.GOOD
    assert any("recorded" in note for note in result.notes)
