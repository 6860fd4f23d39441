"""Verification steps 6 to 8: the contents of a file, whoever signed it."""

import json
from pathlib import Path
from typing import Any

import pytest
from artifact_kit import MemoryLog, Part, entry, hash_of, redacted, sealed_file, sections

from satchel.artifact.encodings import Encoding
from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import PayloadType, SigningKey, sign, signed_part
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import MalformedError
from satchel.ledger.authority import succession_record
from satchel.model.records import Config, Episodic, Erasure, Redaction, Status

ID = "blake3:" + "11" * 32


@pytest.fixture
def judge(tmp_path: Path, key: SigningKey) -> Any:
    """Return a function that seals parts with a trusted key in each encoding and verifies them."""

    def verify(held: dict[str, list[Part]], **members: Any) -> Verification:
        results = []
        for encoding in Encoding:
            path = tmp_path / f"file.{encoding}"
            path.write_bytes(sealed_file(held, key, encoding=encoding, **members))
            policy = TrustPolicy(keys=frozenset([key.did]))
            results.append(verify_artifact(path, policy, VerificationRequest(deep=True)))
        first = results[0]
        assert {result.outcome for result in results} == {first.outcome}
        return first

    return verify


def messages_of(result: Verification) -> str:
    """Return the messages of all findings."""
    return "; ".join(finding.message for finding in result.findings)


# -- records -----------------------------------------------------------------------------------


def test_a_record_with_a_wrong_id_is_tampered_under_a_trusted_signature(judge: Any) -> None:
    """A careless signer signed what had been changed; a deep verification detects it."""
    tea = entry("tea")
    result = judge(sections(semantic=[{**tea.value, "text": "coffee"}]))
    assert result.outcome is Outcome.TAMPERED
    assert result.findings[0].id == tea.id
    assert "semantic" in result.findings[0].message


def test_an_entry_cannot_take_the_id_of_another(judge: Any) -> None:
    """In another product the forged entry made the real one a duplicate."""
    real = entry("real")
    forged = {**entry("forged").value, "id": real.id}
    assert judge(sections(semantic=[forged])).outcome is Outcome.TAMPERED
    assert judge(sections(semantic=[{**forged, "id": ""}])).outcome is Outcome.MALFORMED
    nameless = {k: v for k, v in forged.items() if k != "id"}
    assert judge(sections(semantic=[nameless])).outcome is Outcome.MALFORMED


@pytest.mark.parametrize(
    "claims",
    [
        {"counts": {"semantic": 2}},
        {"counts": {"semantic": 1, "status": 1}},
        {"counts": {}},
        {"root_hash": ID},
    ],
    ids=str,
)
def test_wrong_totals_of_a_signer_are_tampered(judge: Any, claims: dict[str, Any]) -> None:
    """Counts and root are recomputed, not trusted."""
    result = judge(sections(entry("tea")), claims=claims)
    assert result.outcome is Outcome.TAMPERED
    assert result.records == {"semantic": 1}


def test_a_record_in_another_section_is_tampered(judge: Any) -> None:
    """A status among the entries, an entry among the statuses."""
    tea, status = entry("tea"), seal(Status(target=ID, state="deleted"))
    assert judge(sections(semantic=[tea, status])).outcome is Outcome.TAMPERED
    assert judge(sections(tea, status=[seal(Episodic())])).outcome is Outcome.TAMPERED
    assert "in section" in messages_of(judge(sections(episodic=[tea])))


def test_a_duplicate_id_is_tampered_in_one_section_or_two(judge: Any) -> None:
    """Also where the second one is in a section that this version does not know."""
    tea, milk = entry("tea"), entry("milk")
    for held in (
        sections(tea, milk, semantic=[tea]),
        sections(milk, tea, acme_copy=[tea]),
    ):
        result = judge(held)
        assert result.outcome is Outcome.TAMPERED
        assert [one.id for one in result.findings] == [tea.id]
        assert "duplicate" in messages_of(result)


def test_a_record_of_an_unknown_section_must_have_a_valid_id(judge: Any) -> None:
    """An object with nonce and id is a record; any other object is not."""
    value = {"nonce": "0" * 32, "note": "n"}
    good = {**value, "id": hash_of(value)}
    assert judge(sections(acme=[good, {"any": 1}, {"id": 5}])).outcome is Outcome.GOOD
    assert judge(sections(acme=[{**good, "note": "m"}])).outcome is Outcome.TAMPERED
    assert judge(sections(acme=[{**good, "id": "blake3:x"}])).outcome is Outcome.TAMPERED


def test_only_entries_may_lack_a_nonce(judge: Any) -> None:
    """Only entries have redacted forms."""
    status = seal(Status(target=ID, state="deleted"))
    assert judge(sections(status=[redacted(status)])).outcome is Outcome.MALFORMED


def test_findings_are_limited_and_their_number_is_exact(judge: Any) -> None:
    """A file with a thousand faults does not print a thousand lines."""
    wrong = [{**entry("x").value, "text": str(number)} for number in range(150)]
    result = judge(sections(semantic=wrong))
    assert result.outcome is Outcome.TAMPERED
    assert len(result.findings) <= 102
    assert any(note.startswith("50 more") for note in result.notes)


def test_an_object_that_looks_like_a_section_line_is_refused(
    judge: Any, key: SigningKey, tmp_path: Path
) -> None:
    """Two values must not have the same body."""
    with pytest.raises(MalformedError, match="section"):
        sealed_file({"acme": [{"section": "bolt"}]}, key)
    assert judge({"acme": [{"section": "Bolt"}, {"section": "bolt", "a": 1}]})
    data = sealed_file({"acme": [{"sectiom": "bolt"}]}, key, encoding=Encoding.JSON)
    path = tmp_path / "f.pam"
    path.write_bytes(data.replace(b"sectiom", b"section"))
    result = verify_artifact(path, TrustPolicy(keys=frozenset([key.did])))
    assert result.outcome is Outcome.MALFORMED


# -- provenance --------------------------------------------------------------------------------


def test_a_parent_may_be_anywhere_in_the_file(judge: Any, log: MemoryLog) -> None:
    """Before, after, of another type, or as a tombstone with a proof."""
    root = seal(Episodic(observation="o"))
    gone = entry("gone")
    child = entry("child", root, gone)
    grave = seal(Erasure(entry=gone.id, reason="asked"))
    log.append(gone, root, child, grave)
    held = sections(log.bank, child, root, grave, proofs=[log.proof(grave)])
    assert judge(held, **log.logged()).outcome is Outcome.GOOD
    assert judge(sections(child, root, log.bank), **log.logged()).outcome is Outcome.INCOMPLETE


def test_a_tombstone_without_a_proof_does_not_replace_a_parent(judge: Any, log: MemoryLog) -> None:
    """Otherwise a signer could omit a parent by claiming its erasure."""
    gone = entry("gone")
    child, grave = entry("child", gone), seal(Erasure(entry=gone.id))
    assert judge(sections(child, grave)).outcome is Outcome.INCOMPLETE
    log.append(gone, child)
    assert judge(sections(child, grave, log.bank), **log.logged()).outcome is Outcome.INCOMPLETE


def test_a_record_that_is_not_an_entry_is_not_a_parent(judge: Any) -> None:
    """The id of a status does not stand in for a memory."""
    status = seal(Status(target=ID, state="deleted"))
    assert judge(sections(entry("x", status), status)).outcome is Outcome.INCOMPLETE
    free = {"nonce": "0" * 32}
    free["id"] = hash_of(free)
    assert judge(sections(entry("x", free["id"]), acme=[free])).outcome is Outcome.INCOMPLETE


# -- redaction ---------------------------------------------------------------------------------


def redacted_form_and_record(record: Sealed, text: str = "[REDACTED:name:1]") -> tuple[Any, Sealed]:
    """Return the redacted form of an entry and the record that permits it."""
    form = redacted(record, text=text)
    return form, seal(Redaction(entry=record.id, result=hash_of(form), fields=("/text",)))


def test_a_redacted_form_is_accepted_with_its_logged_redaction(judge: Any, log: MemoryLog) -> None:
    """Its children stay verifiable; its own id is not recomputed, since the nonce is gone."""
    name = entry("Aiko lives in Kyoto")
    form, allowed = redacted_form_and_record(name)
    assert "nonce" not in form
    child = entry("child", name)
    log.append(name, child, allowed)
    proofs = [log.proof(name), log.proof(allowed)]
    held = sections(log.bank, child, allowed, semantic=[form], proofs=proofs)
    assert judge(held, **log.logged()).outcome is Outcome.GOOD
    for lacking in (proofs[:1], proofs[1:]):
        held = sections(log.bank, child, allowed, semantic=[form], proofs=lacking)
        result = judge(held, **log.logged())
        assert (result.outcome, result.unproved_forms) == (Outcome.INCOMPLETE, [name.id])


def test_a_redacted_form_in_a_file_without_a_log_is_incomplete(judge: Any) -> None:
    """Without a proof the redaction is only a claim."""
    name = entry("Aiko lives in Kyoto")
    form, allowed = redacted_form_and_record(name)
    result = judge(sections(entry("child", name), allowed, semantic=[form]))
    assert result.outcome is Outcome.INCOMPLETE
    assert "no proof that the bank redacted" in messages_of(result)


def test_an_unredacted_memory_with_its_redaction_is_tampered(judge: Any, log: MemoryLog) -> None:
    """SEAL-7.11: logged or not, in a file with a log and in one without."""
    name = entry("Aiko lives in Kyoto")
    _, allowed = redacted_form_and_record(name)
    assert judge(sections(name, allowed)).outcome is Outcome.TAMPERED
    log.append(name, allowed)
    held = sections(log.bank, name, allowed, proofs=[log.proof(name), log.proof(allowed)])
    assert judge(held, **log.logged()).outcome is Outcome.TAMPERED


@pytest.mark.parametrize("case", ["no record", "another entry", "another form", "own nonce"])
def test_a_redacted_form_without_its_redaction_is_tampered(judge: Any, case: str) -> None:
    """Removing the nonce does not bypass the id check."""
    name = entry("Aiko lives in Kyoto")
    form, allowed = redacted_form_and_record(name)
    records = {
        "no record": [],
        "another entry": [redacted_form_and_record(entry("other"))[1]],
        "another form": [redacted_form_and_record(name, "[REDACTED:city:1]")[1]],
        "own nonce": [allowed],
    }[case]
    if case == "own nonce":
        form["nonce"] = name.value["nonce"]
    result = judge(sections(*records, semantic=[form]))
    assert result.outcome is Outcome.TAMPERED


def test_the_latest_redaction_of_an_entry_wins(judge: Any, log: MemoryLog) -> None:
    """An earlier form shows more than the latest redaction permits."""
    name = entry("Aiko lives in Kyoto")
    early, first = redacted_form_and_record(name, "[REDACTED:name:1] lives in Kyoto")
    late, second = redacted_form_and_record(name)
    log.append(name, first, second)
    proofs = [log.proof(one) for one in (name, first, second)]

    def outcome(form: Any, *records: Sealed) -> Outcome:
        held = sections(log.bank, *records, semantic=[form], proofs=proofs)
        return Outcome(judge(held, **log.logged()).outcome)

    # By its place in the log, whatever the order in the file.
    assert outcome(late, first, second) is outcome(late, second, first) is Outcome.GOOD
    assert outcome(early, first, second) is outcome(early, second, first) is Outcome.TAMPERED


def test_redacted_forms_that_descend_from_each_other_are_tampered(judge: Any) -> None:
    """Their ids are not recomputed, so hashes alone do not rule out a cycle."""
    one, two = entry("one"), entry("two")
    forms = [redacted(one, parent_ids=[two.id]), redacted(two, parent_ids=[one.id])]
    allowed = [
        seal(Redaction(entry=record.id, result=hash_of(form), fields=("/text",)))
        for record, form in zip((one, two), forms, strict=True)
    ]
    result = judge(sections(*allowed, semantic=forms))
    assert result.outcome is Outcome.TAMPERED
    assert "ancestor" in messages_of(result)


# -- the log -----------------------------------------------------------------------------------


@pytest.fixture
def log(key: SigningKey) -> MemoryLog:
    """The log of a bank owned by ``key``."""
    return MemoryLog(key)


def disclosure_of(
    log: MemoryLog, *shown: Sealed, withheld: tuple[Sealed, ...] = ()
) -> dict[str, Any]:
    """Return a disclosure: chosen entries, proofs of them, and the ids that are withheld."""
    return sections(
        *shown,
        log.bank,
        proofs=[log.proof(record) for record in shown],
        withheld=[log.proof(record) for record in withheld],
    )


DISCLOSURE = {"scope": {"kind": "disclosure"}}


def test_a_disclosure_has_a_proof_for_each_entry_and_withholds_an_ancestor(
    judge: Any, log: MemoryLog
) -> None:
    """The recipient sees one branch and knows that the rest was recorded."""
    secret = entry("secret")
    middle = entry("middle", secret)
    shown = entry("shown", middle)
    log.append(secret, entry("unrelated"), middle, shown, entry("later"))
    held = disclosure_of(log, middle, shown, withheld=(secret,))
    result = judge(held, **log.logged(), **DISCLOSURE)
    assert result.outcome is Outcome.GOOD
    assert result.steps[7].state == "passed"
    assert "3 proofs" in result.steps[7].detail
    result = judge(disclosure_of(log, middle, shown), **log.logged(), **DISCLOSURE)
    assert result.outcome is Outcome.INCOMPLETE


def test_a_disclosed_entry_without_a_proof_is_tampered(judge: Any, log: MemoryLog) -> None:
    """A disclosure claims that every entry in it was recorded."""
    one, two = entry("one"), entry("two")
    log.append(one, two)
    held = disclosure_of(log, one)
    held["semantic"].append(two)
    result = judge(held, **log.logged(), **DISCLOSURE)
    assert result.outcome is Outcome.TAMPERED
    assert "no inclusion proof" in messages_of(result)
    smuggled = entry("never recorded")
    held = disclosure_of(log, one)
    held["semantic"].append(smuggled)
    held["proofs"].append({**log.proof(two), "id": smuggled.id})
    assert judge(held, **log.logged(), **DISCLOSURE).outcome is Outcome.TAMPERED


@pytest.mark.parametrize("section", ["proofs", "withheld"])
@pytest.mark.parametrize(
    "change",
    [
        {"seq": 2},
        {"seq": 10**6},
        {"type": "episodic"},
        {"at": "2025-03-04T05:06:08.000000Z"},
        {"path": []},
        {"path": ["00" * 32] * 3},
        {"id": ID},
    ],
    ids=str,
)
def test_a_proof_of_another_record_or_position_is_tampered(
    judge: Any, log: MemoryLog, section: str, change: dict[str, Any]
) -> None:
    """Another position, type, time, path or record does not lead to the head."""
    one = entry("one")
    log.append(one, entry("two"), entry("three"))
    shown = [one] if section == "proofs" else []
    held = sections(log.bank, *shown, **{section: [log.proof(one) | change]})
    assert judge(held, **log.logged()).outcome is Outcome.TAMPERED
    good = sections(log.bank, *shown, **{section: [log.proof(one)]})
    assert judge(good, **log.logged()).outcome is Outcome.GOOD


def test_a_proof_belongs_to_exactly_one_record_of_the_file(judge: Any, log: MemoryLog) -> None:
    """A proof of a missing record, or a duplicate proof, is refused."""
    one = entry("one")
    log.append(one)
    absent = sections(log.bank, proofs=[log.proof(one)])
    assert "match no record" in messages_of(judge(absent, **log.logged()))
    twice = sections(log.bank, one, proofs=[log.proof(one)] * 2)
    assert "duplicate" in messages_of(judge(twice, **log.logged()))


@pytest.mark.parametrize(
    "change", [{"note": 1}, {"seq": "1"}, {"path": ["zz" * 32]}, {"id": "x"}], ids=str
)
def test_a_proof_of_another_shape_is_malformed(
    judge: Any, log: MemoryLog, change: dict[str, Any]
) -> None:
    """It has exactly five members."""
    held = sections(log.bank, proofs=[log.proof(log.bank) | change])
    assert judge(held, **log.logged()).outcome is Outcome.MALFORMED


def test_a_proof_without_a_head_is_refused(judge: Any, log: MemoryLog) -> None:
    """There is no root to verify, and a withheld parent needs a proof."""
    parent = entry("parent")
    log.append(parent)
    held = sections(entry("child", parent), withheld=[log.proof(parent)])
    assert judge(held).outcome is Outcome.TAMPERED


def test_a_head_of_another_bank_or_with_an_invalid_signature_is_tampered(
    judge: Any, log: MemoryLog, key: SigningKey
) -> None:
    """The signature of the file does not cover the claims of the log."""
    other = MemoryLog(key)
    mixed = {"bank": log.bank.id, "head": other.head()}
    assert "another bank" in messages_of(judge(sections(log.bank), **mixed))
    forged = json.loads(json.dumps(log.logged()))
    forged["head"]["signed"]["epoch"] = 7
    result = judge(sections(log.bank), **forged)
    assert result.outcome is Outcome.TAMPERED
    assert result.steps[7].state == "failed"


@pytest.mark.parametrize(
    "change",
    [
        {"bank": ID, "head": None},
        {"bank": None},
        {"head": {}},
        {"head": {"signed": {}}},
        {"bank": "x"},
    ],
    ids=str,
)
def test_a_bank_with_a_missing_or_malformed_head_is_malformed(
    judge: Any, log: MemoryLog, change: dict[str, Any]
) -> None:
    """Bank and head are both present or both absent; step 1 checks it."""
    members = {k: v for k, v in (log.logged() | change).items() if v is not None}
    result = judge(sections(log.bank), claims=members)
    assert result.outcome is Outcome.MALFORMED
    assert result.steps[0].state == "failed"


def test_a_head_signed_by_a_key_that_the_bank_never_admitted_is_tampered(
    judge: Any, log: MemoryLog, key: SigningKey
) -> None:
    """SEAL-5.12: only a record of an owner in the file admits a writer."""
    writer, outsider = SigningKey.generate(), SigningKey.generate()

    def admitted_by(signer: SigningKey, bank: str = log.bank.id) -> Sealed:
        payload = {"bank": bank, "key": writer.did}
        draft = Config(action="writer_added", payload=payload, nonce="0" * 32)
        covered = signed_part(seal(draft).value)
        (signature,) = sign(PayloadType.CONFIG, covered, [signer])
        value = {"key": signature.key, "sig": signature.sig}
        return seal(Config(**{**_members(draft), "signatures": (value,)}))

    def refused(*records: Sealed) -> bool:
        result = judge(sections(log.bank, *records), **log.logged(key=writer))
        found = "never admitted" in messages_of(result)
        assert result.outcome is (Outcome.TAMPERED if found else Outcome.GOOD)
        return found

    assert not refused(admitted_by(key))
    assert refused()
    assert refused(admitted_by(outsider))
    assert refused(admitted_by(writer))
    assert refused(admitted_by(key, bank=ID))  # an admission of another bank
    heir = SigningKey.generate()
    handed = succession_record(log.bank.id, key, heir, "2026-01-01T00:00:00.000000Z")
    assert not refused(handed, admitted_by(heir))
    assert refused(admitted_by(heir))


def _members(draft: Config) -> dict[str, Any]:
    return {"action": draft.action, "payload": draft.payload, "nonce": draft.nonce}


def test_a_line_of_a_signed_body_that_is_not_canonical_is_malformed(
    key: SigningKey, tmp_path: Path
) -> None:
    """Satchel would not write it; a deep verification does not repair it."""
    spaced = entry("tea").body.replace(b":", b": ", 1)
    doubled = entry("tea").body.replace(b'"text"', b'"text":"x","text"')
    for part in (spaced, doubled, b"[]", b"5", b"{", canonical("text")):
        path = tmp_path / "f.pam.jsonl"
        path.write_bytes(sealed_file({"semantic": [part]}, key))
        policy = TrustPolicy(keys=frozenset([key.did]))
        result = verify_artifact(path, policy, VerificationRequest(deep=True))
        assert (result.outcome, result.exit_status) == (Outcome.MALFORMED, 4)
        assert result.findings[0].line == 3
