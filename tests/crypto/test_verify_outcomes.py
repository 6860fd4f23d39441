"""Each verdict on a sealed file, and who decides it: signatures, trust, and what was seen."""

from pathlib import Path
from typing import Any

import pytest
from artifact_kit import TIME, entry, sealed_file, sections, signers

from satchel.artifact.encodings import Encoding
from satchel.artifact.verification import Outcome, TrustPolicy, Verification, VerificationFinding
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import Limits
from satchel.crypto.keys import SigningKey
from satchel.errors import EmptyInputError, UnknownFormatError, UnreadableError, UsageError

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


def state(result: Verification, number: int) -> str:
    """Return what became of a step."""
    return result.steps[number - 1].state


@pytest.mark.parametrize("encoding", Encoding)
def test_a_file_of_a_trusted_signer_is_good(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """In each encoding, quickly and in depth, by the same signature."""
    tea = entry("tea")
    data = sealed_file(sections(tea, entry("green tea", tea)), key, encoding=encoding)
    result = judge(data, believing(key))
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.GOOD, 0, True)
    assert not result.exhaustive
    assert [state(result, n) for n in (1, 2, 3, 4)] == ["passed"] * 4
    assert [state(result, n) for n in (5, 6, 7, 8)] == ["not run"] * 4
    assert "--deep" in result.steps[5].detail
    deep = judge(data, believing(key), DEEP)
    assert deep.outcome is Outcome.GOOD
    assert deep.exhaustive
    assert [state(deep, n) for n in (6, 7)] == ["passed", "passed"]
    assert "not from a bank" in deep.steps[7].detail
    assert deep.records == {"semantic": 2}


def test_a_file_without_a_signature_is_unsigned_and_verified_deeply(judge: Any) -> None:
    """Nobody vouches for it, so every record is read, and the word is not good."""
    result = judge(sealed_file(sections(entry("tea"))), TrustPolicy())
    assert (result.outcome, result.exit_status, bool(result)) == (Outcome.UNSIGNED, 3, False)
    assert result.exhaustive


def test_a_file_signed_by_an_unknown_key_is_untrusted(judge: Any, key: SigningKey) -> None:
    """A valid signature by anybody is a signature by nobody; its name inside is a claim."""
    data = sealed_file(sections(entry("tea")), key, source_agent={"name": "trusted"})
    result = judge(data, TrustPolicy())
    assert (result.outcome, result.exit_status) == (Outcome.UNTRUSTED, 3)
    assert result.exhaustive
    assert [signer.trust for signer in result.signers] == ["unknown"]


def test_every_signature_is_listed_including_invalid_ones(judge: Any, key: SigningKey) -> None:
    """One good trusted signature is enough; a broken one beside it is told."""
    other = SigningKey.generate()
    data = sealed_file(sections(entry("tea")), key, other)
    line = data.splitlines()[-1]
    start = line.index(other.did.encode())
    place = data.index(line) + line.index(b'"sig":"', start) + 7
    letter = b"A" if data[place : place + 1] != b"A" else b"B"
    result = judge(data[:place] + letter + data[place + 1 :], believing(key))
    assert result.outcome is Outcome.GOOD
    assert {signer.key: signer.valid for signer in result.signers} == {
        key.did: True,
        other.did: False,
    }


def test_stripping_every_signature_never_makes_a_file_good(judge: Any, key: SigningKey) -> None:
    """Unsigned is worse than signed, whatever was signed before."""
    held = sections(entry("tea"))
    assert judge(sealed_file(held, key), believing(key)).outcome is Outcome.GOOD
    assert judge(sealed_file(held), believing(key)).outcome is Outcome.UNSIGNED


def test_a_signature_over_another_statement_is_tampered(judge: Any, key: SigningKey) -> None:
    """Every member of the statement is signed: the time, the agent, the scope, the unknown."""
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
        for policy in (believing(key), TrustPolicy()):
            result = judge(data.replace(old, new), policy)
            assert (result.outcome, result.exit_status) == (Outcome.TAMPERED, 3)
            assert state(result, 2) == "failed"


def test_a_changed_record_is_tampered_and_named(judge: Any, key: SigningKey) -> None:
    """Also without asking for depth, and the line and id are told."""
    tea = entry("tea")
    data = sealed_file(sections(entry("water"), tea), key).replace(b'"tea"', b'"TEA"')
    for request in (None, DEEP):
        result = judge(data, believing(key), request)
        assert (result.outcome, result.exit_status) == (Outcome.TAMPERED, 3)
        assert state(result, 4) == "failed"
    result = judge(data, believing(key), DEEP)
    (found,) = [one for one in result.findings if one.id == tea.id]
    assert found.line == data[: data.index(b'"TEA"')].count(b"\n") + 1


def test_a_changed_body_is_tampered_even_where_it_no_longer_parses(
    judge: Any, key: SigningKey
) -> None:
    """The verdict does not depend on how deep one looked."""
    data = sealed_file(sections(entry("tea"), entry("milk")), key)
    for old, new in (
        (b'"text":"tea"', b'"text":"tea'),
        (b'"section"', b'"sectiom"'),
        (b"\n{", b"\n\n{"),
    ):
        for request in (None, DEEP):
            result = judge(data.replace(old, new, 1), believing(key), request)
            assert result.outcome is Outcome.TAMPERED


def test_a_missing_parent_is_incomplete(judge: Any, key: SigningKey) -> None:
    """Distinct from tampered: what is there is sound."""
    gone = entry("gone")
    result = judge(sealed_file(sections(entry("tea", gone)), key), believing(key), DEEP)
    assert (result.outcome, result.exit_status) == (Outcome.INCOMPLETE, 3)
    assert gone.id in result.findings[0].message
    assert state(result, 7) == "failed"


def test_missing_source_events_are_reported_and_not_fatal(judge: Any, key: SigningKey) -> None:
    """They are no parents."""
    data = sealed_file(sections(entry("tea", source_event_ids=(entry("x").id,))), key)
    result = judge(data, believing(key), DEEP)
    assert result.outcome is Outcome.GOOD
    assert any("source events" in note for note in result.notes)


def test_a_threshold_counts_distinct_trusted_keys(judge: Any) -> None:
    """Two of three, not one of them and an unknown key."""
    first, second, third = signers(3)
    held = sections(entry("tea"))
    two = believing(first, second, threshold=2)
    assert judge(sealed_file(held, first, second), two).outcome is Outcome.GOOD
    assert judge(sealed_file(held, third, second, first), two).outcome is Outcome.GOOD
    for keys in ((first,), (first, third), (third,)):
        result = judge(sealed_file(held, *keys), two)
        assert result.outcome is Outcome.UNTRUSTED
        assert result.exhaustive
    doubled = sealed_file(held, first, first)
    assert judge(doubled, two).outcome is Outcome.MALFORMED


# -- malformed, and what is no sealed file at all ----------------------------------------------


def test_a_truncated_structure_is_malformed_at_the_step_that_read_it(
    judge: Any, key: SigningKey
) -> None:
    """The statement is step 1; the body's lines are step 6, also when nobody signed."""
    data = sealed_file(sections(entry("tea")), key)
    cut = judge(data[:-1], believing(key))
    assert (cut.outcome, cut.exit_status, state(cut, 1)) == (Outcome.MALFORMED, 4, "failed")
    assert cut.statement is None
    long_line = VerificationRequest(deep=True, limits=Limits(line_bytes=50))
    for keys in ((), (key,)):
        result = judge(sealed_file(sections(entry("tea")), *keys), believing(key), long_line)
        assert result.outcome is Outcome.MALFORMED
        assert [step.number for step in result.steps if step.state == "failed"][-1] == 6
        assert state(result, 3) != "failed"


def test_a_file_that_is_not_sealed_is_reported_before_any_verdict(
    judge: Any, tmp_path: Path
) -> None:
    """Empty, a directory, not there, something else: each is its own error."""
    with pytest.raises(EmptyInputError):
        judge(b"", TrustPolicy())
    with pytest.raises(UnknownFormatError):
        judge(b"\x89PNG", TrustPolicy())
    for place in (tmp_path, tmp_path / "none", tmp_path / "file.pam" / "x"):
        with pytest.raises(UnreadableError):
            verify_artifact(place, TrustPolicy())


# -- one entry's chain -------------------------------------------------------------------------


def test_the_chain_of_one_entry_leads_back_to_its_roots(judge: Any, key: SigningKey) -> None:
    """Each ancestor with what is known of it; the rest of the file is not in it."""
    root, other = entry("root"), entry("other")
    child = entry("child", entry("gone"), root)
    data = sealed_file(sections(root, other, child), key)
    result = judge(data, believing(key), VerificationRequest(entry=child.id[7:20]))
    assert {link.id: link.state for link in result.chain} == {
        child.id: "whole",
        root.id: "whole",
        child.value["parent_ids"][0]: "missing",
    }
    assert result.exhaustive


@pytest.mark.parametrize("wanted", ["blake3:" + "0" * 64, "zz", "%", "blake3:"])
def test_an_entry_that_is_not_there_is_a_mistake_of_the_request(
    judge: Any, key: SigningKey, wanted: str
) -> None:
    """None, or more than one, of that id."""
    data = sealed_file(sections(*(entry(str(number)) for number in range(3))), key)
    with pytest.raises(UsageError):
        judge(data, believing(key), VerificationRequest(entry=wanted))


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
