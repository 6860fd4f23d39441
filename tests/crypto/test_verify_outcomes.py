"""Verdicts on sealed files: signatures, trust, revocation and the local history."""

from pathlib import Path
from typing import Any

import pytest
from artifact_kit import TIME, MemoryLog, entry, sealed_file, sections, signers

from satchel.artifact.encodings import Encoding
from satchel.artifact.verification import Outcome, TrustPolicy, Verification, VerificationFinding
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import Limits
from satchel.crypto.key_files import StatementHistory, TrustedKey, TrustRegistry
from satchel.crypto.keys import SigningKey
from satchel.errors import EmptyInputError, UnknownFormatError, UnreadableError, UsageError

DEEP = VerificationRequest(deep=True)
FRESH = VerificationRequest(require_fresh=True)


@pytest.fixture
def judge(tmp_path: Path) -> Any:
    """Return a function that writes bytes to a file and verifies it."""

    def verify(
        data: bytes, policy: TrustPolicy, request: VerificationRequest | None = None
    ) -> Verification:
        path = tmp_path / "file.pam"
        path.write_bytes(data)
        return verify_artifact(path, policy, request)

    return verify


def policy_for(*keys: SigningKey, **members: Any) -> TrustPolicy:
    """Return a policy that trusts these keys."""
    return TrustPolicy(keys=frozenset(key.did for key in keys), **members)


def state(result: Verification, number: int) -> str:
    """Return the state of a step."""
    return result.steps[number - 1].state


@pytest.mark.parametrize("encoding", Encoding)
def test_a_file_of_a_trusted_signer_is_good(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """In each encoding, with and without depth, under the same signature."""
    tea = entry("tea")
    data = sealed_file(sections(tea, entry("green tea", tea)), key, encoding=encoding)
    result = judge(data, policy_for(key))
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.GOOD, 0, True)
    assert not result.exhaustive
    assert [state(result, n) for n in (1, 2, 3, 4)] == ["passed"] * 4
    assert [state(result, n) for n in (5, 6, 7, 8)] == ["not run"] * 4
    assert "--deep" in result.steps[5].detail
    deep = judge(data, policy_for(key), DEEP)
    assert deep.outcome is Outcome.GOOD
    assert deep.exhaustive
    assert [state(deep, n) for n in (6, 7)] == ["passed", "passed"]
    assert "not from a bank" in deep.steps[7].detail
    assert deep.records == {"semantic": 2}


def test_an_unsigned_file_is_verified_deeply_and_is_not_good(judge: Any) -> None:
    """Without a signer every record is read, and the verdict is unsigned."""
    result = judge(sealed_file(sections(entry("tea"))), TrustPolicy())
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.UNSIGNED, 3, False)
    assert result.exhaustive


def test_a_file_signed_by_an_unknown_key_is_untrusted(judge: Any, key: SigningKey) -> None:
    """Any key makes a valid signature; the name inside is a claim."""
    data = sealed_file(sections(entry("tea")), key, source_agent={"name": "trusted"})
    result = judge(data, TrustPolicy())
    assert (result.outcome, result.exit_status) == (Outcome.UNTRUSTED, 3)
    assert result.exhaustive
    assert [signer.trust for signer in result.signers] == ["unknown"]


def test_every_signature_is_listed_including_invalid_ones(judge: Any, key: SigningKey) -> None:
    """One valid trusted signature is enough; an invalid one is reported."""
    other = SigningKey.generate()
    data = sealed_file(sections(entry("tea")), key, other)
    line = data.splitlines()[-1]
    start = line.index(other.did.encode())
    place = data.index(line) + line.index(b'"sig":"', start) + 7
    letter = b"A" if data[place : place + 1] != b"A" else b"B"
    result = judge(data[:place] + letter + data[place + 1 :], policy_for(key))
    assert result.outcome is Outcome.GOOD
    assert {signer.key: signer.valid for signer in result.signers} == {
        key.did: True,
        other.did: False,
    }


def test_stripping_every_signature_never_makes_a_file_good(judge: Any, key: SigningKey) -> None:
    """Unsigned is worse than signed, whatever was signed before."""
    held = sections(entry("tea"))
    assert judge(sealed_file(held, key), policy_for(key)).outcome is Outcome.GOOD
    assert judge(sealed_file(held), policy_for(key)).outcome is Outcome.UNSIGNED


def test_a_signature_over_another_statement_is_tampered(judge: Any, key: SigningKey) -> None:
    """Every member of the statement is signed: time, agent, scope, unknown members."""
    held = sections(entry("tea"))
    data = sealed_file(held, key, metadata={"a": "xxxx"}, source_agent={"name": "guide"}, mood=1)
    for old, new in (
        (TIME.encode(), TIME.replace("2025", "2024").encode()),
        (b'"xxxx"', b'"yyyy"'),
        (b'"guide"', b'"guile"'),
        (b'"kind":"full"', b'"kind":"filter"'),
        (b'"mood":1', b'"mood":2'),
        (b'"mood":1,', b""),
    ):
        assert data.count(old) == 1
        for policy in (policy_for(key), TrustPolicy()):
            result = judge(data.replace(old, new), policy)
            assert (result.outcome, result.exit_status) == (Outcome.TAMPERED, 3)
            assert state(result, 2) == "failed"


def test_a_changed_record_is_tampered_and_reported(judge: Any, key: SigningKey) -> None:
    """Also without a deep verification, with its line and id."""
    tea = entry("tea")
    data = sealed_file(sections(entry("water"), tea), key).replace(b'"tea"', b'"TEA"')
    for request in (None, DEEP):
        result = judge(data, policy_for(key), request)
        assert (result.outcome, result.exit_status) == (Outcome.TAMPERED, 3)
        assert state(result, 4) == "failed"
    result = judge(data, policy_for(key), DEEP)
    (found,) = [one for one in result.findings if one.id == tea.id]
    assert found.line == data[: data.index(b'"TEA"')].count(b"\n") + 1


def test_a_changed_body_is_tampered_even_where_it_no_longer_parses(
    judge: Any, key: SigningKey
) -> None:
    """The verdict does not depend on the depth."""
    data = sealed_file(sections(entry("tea"), entry("milk")), key)
    for old, new in (
        (b'"text":"tea"', b'"text":"tea'),
        (b'"section"', b'"sectiom"'),
        (b"\n{", b"\n\n{"),
    ):
        for request in (None, DEEP):
            result = judge(data.replace(old, new, 1), policy_for(key), request)
            assert result.outcome is Outcome.TAMPERED


def test_a_missing_parent_is_incomplete(judge: Any, key: SigningKey) -> None:
    """Distinct from tampered: the present records are valid."""
    gone = entry("gone")
    result = judge(sealed_file(sections(entry("tea", gone)), key), policy_for(key), DEEP)
    assert (result.outcome, result.exit_status) == (Outcome.INCOMPLETE, 3)
    assert gone.id in result.findings[0].message
    assert state(result, 7) == "failed"


def test_missing_source_events_are_reported_and_not_fatal(judge: Any, key: SigningKey) -> None:
    """Sources are not parents."""
    data = sealed_file(sections(entry("tea", source_event_ids=(entry("x").id,))), key)
    result = judge(data, policy_for(key), DEEP)
    assert result.outcome is Outcome.GOOD
    assert any("source events" in note for note in result.notes)


def test_a_threshold_counts_distinct_trusted_keys(judge: Any) -> None:
    """Two of three, not one of them and an unknown key."""
    first, second, third = signers(3)
    held = sections(entry("tea"))
    two = policy_for(first, second, threshold=2)
    assert judge(sealed_file(held, first, second), two).outcome is Outcome.GOOD
    assert judge(sealed_file(held, third, second, first), two).outcome is Outcome.GOOD
    for keys in ((first,), (first, third), (third,)):
        result = judge(sealed_file(held, *keys), two)
        assert result.outcome is Outcome.UNTRUSTED
        assert result.exhaustive
    doubled = sealed_file(held, first, first)
    assert judge(doubled, two).outcome is Outcome.MALFORMED


# -- malformed files, and files that are not sealed --------------------------------------------


def test_a_truncated_structure_is_malformed_at_the_step_that_read_it(
    judge: Any, key: SigningKey
) -> None:
    """Step 1 reads the statement; step 6 reads the lines of the body, also when unsigned."""
    data = sealed_file(sections(entry("tea")), key)
    cut = judge(data[:-1], policy_for(key))
    assert (cut.outcome, cut.exit_status, state(cut, 1)) == (Outcome.MALFORMED, 4, "failed")
    assert cut.statement is None
    long_line = VerificationRequest(deep=True, limits=Limits(line_bytes=50))
    for keys in ((), (key,)):
        result = judge(sealed_file(sections(entry("tea")), *keys), policy_for(key), long_line)
        assert result.outcome is Outcome.MALFORMED
        assert [step.number for step in result.steps if step.state == "failed"][-1] == 6
        assert state(result, 3) != "failed"


def test_a_file_that_is_not_sealed_is_reported_before_any_verdict(
    judge: Any, tmp_path: Path
) -> None:
    """Empty, a directory, missing, another format: each has its own error."""
    with pytest.raises(EmptyInputError):
        judge(b"", TrustPolicy())
    with pytest.raises(UnknownFormatError):
        judge(b"\x89PNG", TrustPolicy())
    for place in (tmp_path, tmp_path / "none", tmp_path / "file.pam" / "x"):
        with pytest.raises(UnreadableError):
            verify_artifact(place, TrustPolicy())


# -- the chain of an entry ---------------------------------------------------------------------


def test_the_chain_of_one_entry_leads_back_to_its_roots(judge: Any, key: SigningKey) -> None:
    """The ancestors with their known members; other entries are omitted."""
    root, other = entry("root"), entry("other")
    child = entry("child", entry("gone"), root)
    data = sealed_file(sections(root, other, child), key)
    result = judge(data, policy_for(key), VerificationRequest(entry=child.id[7:20]))
    assert {link.id: link.state for link in result.chain} == {
        child.id: "whole",
        root.id: "whole",
        child.value["parent_ids"][0]: "missing",
    }
    assert result.exhaustive


@pytest.mark.parametrize("wanted", ["blake3:" + "0" * 64, "zz", "%", "blake3:"])
def test_a_missing_or_ambiguous_entry_is_a_usage_error(
    judge: Any, key: SigningKey, wanted: str
) -> None:
    """No entry, or more than one, has that id prefix."""
    data = sealed_file(sections(*(entry(str(number)) for number in range(3))), key)
    with pytest.raises(UsageError):
        judge(data, policy_for(key), VerificationRequest(entry=wanted))


# -- the result as a value ---------------------------------------------------------------------


def test_the_worst_outcome_decides_and_the_others_are_listed() -> None:
    """The order and exit statuses are those of the specification."""
    order = [
        (Outcome.MALFORMED, 4),
        (Outcome.TAMPERED, 3),
        (Outcome.FORK, 3),
        (Outcome.INCOMPLETE, 3),
        (Outcome.ENTRIES_ONLY, 3),
        (Outcome.UNSIGNED, 3),
        (Outcome.UNTRUSTED, 3),
        (Outcome.OLDER, 0),
        (Outcome.GOOD, 0),
    ]
    assert [outcome for outcome, _ in order] == sorted(Outcome, key=lambda one: -one.severity)
    for place, (outcome, status) in enumerate(order):
        findings = [VerificationFinding(outcome=one, message="") for one, _ in order[place:]]
        result = Verification(
            file="f",
            encoding=None,
            steps=[],
            findings=findings[::-1],
            signers=[],
            statement=None,
            statement_digest=None,
            records={},
        )
        assert (result.outcome, result.exit_status) == (outcome, status)
        assert result.outcomes == [one for one, _ in order[place:]]
        assert result.to_json()["outcome"] == outcome.value
        assert bool(result) == (outcome is Outcome.GOOD)


# -- revoked keys ------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path, key: SigningKey) -> TrustRegistry:
    """A registry that trusts ``key``."""
    made = TrustRegistry(tmp_path / "trust.json")
    made.trust(TrustedKey(key=key.did, name="k", added_at=TIME))
    return made


def test_a_revoked_key_is_valid_only_for_files_verified_before(
    judge: Any, key: SigningKey, registry: TrustRegistry, tmp_path: Path
) -> None:
    """A thief can backdate a file, but cannot change the local history."""
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


def test_files_of_untrusted_signers_are_not_recorded_in_the_history(
    judge: Any, key: SigningKey, registry: TrustRegistry, tmp_path: Path
) -> None:
    """Only what verified under a trusted key is recorded."""
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


def test_a_key_of_another_bank_is_not_a_trusted_signer(
    judge: Any, key: SigningKey, tmp_path: Path
) -> None:
    """A key is trusted for the bank of its owner only."""
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
    """A bank's log with five records."""
    made = MemoryLog(key)
    made.append(*(entry(f"memory {number}") for number in range(4)))
    return made


def sealed_copy(
    log: MemoryLog, *keys: SigningKey, size: int | None = None, epoch: int = 0
) -> bytes:
    """Return a sealed copy of a bank at some size."""
    return sealed_file(sections(log.bank), *keys, **log.logged(size, epoch=epoch))


def test_an_older_copy_is_reported_and_refused_if_freshness_is_required(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """An old backup stays usable; a replay is refused where it matters."""
    policy = policy_for(key, seen=StatementHistory(tmp_path / "seen"))
    for size in (3, 5):
        assert judge(sealed_copy(log, key, size=size), policy).outcome is Outcome.GOOD
    result = judge(sealed_copy(log, key, size=4), policy)
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.OLDER, 0, False)
    assert result.steps[4].state == "failed"
    refused = judge(sealed_copy(log, key, size=4), policy, FRESH)
    assert (refused.outcome, refused.exit_status) == (Outcome.OLDER, 3)
    assert judge(sealed_copy(log, key, size=5), policy, FRESH).exit_status == 0
    assert judge(sealed_copy(log, key, size=1, epoch=1), policy, FRESH).exit_status == 0
    assert judge(sealed_copy(log, key, size=5), policy, FRESH).exit_status == 3


def test_the_order_of_signatures_does_not_hide_an_older_copy(
    judge: Any, log: MemoryLog, tmp_path: Path
) -> None:
    """The order is not signed, and must not select the history."""
    first, second = signers(2)
    policy = policy_for(first, second, seen=StatementHistory(tmp_path / "seen"))
    assert judge(sealed_copy(log, first, second, size=5), policy).outcome is Outcome.GOOD
    for keys in ((first, second), (second, first), (first,), (second,)):
        result = judge(sealed_copy(log, *keys, size=3), policy, FRESH)
        assert (result.outcome, result.exit_status) == (Outcome.OLDER, 3)


def test_a_revoked_signature_in_front_does_not_hide_an_older_copy(
    judge: Any, key: SigningKey, log: MemoryLog, registry: TrustRegistry, tmp_path: Path
) -> None:
    """The history of a stolen, revoked key is not used."""
    stolen = SigningKey.generate()
    registry.trust(TrustedKey(key=stolen.did, name="s", added_at=TIME))
    registry.revoke(stolen.did)
    policy = TrustPolicy(registry=registry, seen=StatementHistory(tmp_path / "seen"))
    assert judge(sealed_copy(log, key, size=5), policy).outcome is Outcome.GOOD
    result = judge(sealed_copy(log, stolen, key, size=3), policy, FRESH)
    assert (result.outcome, result.exit_status) == (Outcome.OLDER, 3)


def test_an_untrusted_signer_cannot_make_a_current_copy_older(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """The history grows only with trusted files."""
    policy = policy_for(key, seen=StatementHistory(tmp_path / "seen"))
    outsider = SigningKey.generate()
    assert judge(sealed_copy(log, outsider, size=5, epoch=9), policy).outcome is Outcome.UNTRUSTED
    assert judge(sealed_copy(log, key, size=3), policy, FRESH).exit_status == 0


def test_two_histories_of_the_same_length_are_a_fork(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """The log was rewritten, or two machines wrote independently."""
    policy = policy_for(key, seen=StatementHistory(tmp_path / "seen"))
    assert judge(sealed_copy(log, key), policy).outcome is Outcome.GOOD
    log.rows[-1] = ("semantic", entry("another past").id)
    result = judge(sealed_copy(log, key), policy)
    assert (result.outcome, result.exit_status) == (Outcome.FORK, 3)
    log.rows.append(("semantic", entry("later").id))
    assert judge(sealed_copy(log, key), policy).outcome is Outcome.GOOD


def test_copies_of_different_banks_do_not_affect_each_other(
    judge: Any, key: SigningKey, log: MemoryLog, tmp_path: Path
) -> None:
    """The history is per bank."""
    policy = policy_for(key, seen=StatementHistory(tmp_path / "seen"))
    judge(sealed_copy(log, key), policy)
    assert judge(sealed_copy(MemoryLog(key), key), policy, FRESH).exit_status == 0


def test_a_history_that_cannot_be_written_does_not_change_the_verdict(
    judge: Any, key: SigningKey, tmp_path: Path
) -> None:
    """A note reports a read-only disk."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "seen").symlink_to(tmp_path / "elsewhere")
    policy = policy_for(key, seen=StatementHistory(tmp_path / "seen"))
    result = judge(sealed_file(sections(entry("tea")), key), policy)
    assert result.outcome is Outcome.GOOD
    assert any("recorded" in note for note in result.notes)
