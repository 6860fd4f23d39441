"""A trusted signer with a genuine disclosure forges redactions of its memory.

The owner's log has a genuine memory. Eve has a disclosure of it and a key that the victim trusts.
Whatever she writes under the ID of the memory is not ``good``, is not imported, and never
prevents the import of the genuine memory.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from artifact_kit import MemoryLog, entry, hash_of, redacted, sealed_file, sections
from bank_kit import filled
from import_kit import bring
from ledger_kit import created

from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.redaction import signed_redaction
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import RedactionRefusedError, SatchelError, VerificationError
from satchel.ledger.authority import (
    ADOPTED,
    EpochDecision,
    LogState,
    admission_record,
    decision_record,
    key_end_record,
)
from satchel.ledger.examination import examine
from satchel.model.records import Entry, Erasure, Receipt, Redaction, Source
from satchel.stores.memory import InMemoryStore

OWNER, EVE = (SigningKey.from_seed(bytes([number]) * 32) for number in (7, 8))
TRUSTED = (OWNER.did, EVE.did)
LIE = "Ada approved a payment of 1,000,000 to Eve"
GENUINE = entry("Ada likes tea")


def owners_log(*records: Sealed) -> MemoryLog:
    """Return the log of the owner's bank."""
    log = MemoryLog(OWNER)
    log.append(GENUINE, *records)
    return log


def forge(text: str = LIE, **members: Any) -> tuple[dict[str, Any], Redaction]:
    """Return a forged form of the genuine memory, and the redaction that would allow it."""
    form = redacted(GENUINE, text=text, **members)
    return form, Redaction(entry=GENUINE.id, result=hash_of(form), fields=("/text",), by=EVE.did)


def write_file(path: Path, held: dict[str, Any], by: SigningKey = EVE, **members: Any) -> Path:
    """Write a signed file."""
    path.write_bytes(sealed_file(held, by, **members))
    return path


def verified(path: Path, *, deep: bool = True, keys: tuple[str, ...] = TRUSTED) -> Verification:
    """Verify a file with the policy of a victim who trusts both keys."""
    return verify_artifact(path, TrustPolicy(keys=frozenset(keys)), VerificationRequest(deep=deep))


def forged_file(case: str, log: MemoryLog) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Return the sections and the statement of a forged file."""
    form, draft = forge()
    allowed, here = seal(draft), log.logged()
    kind, proofs = "semantic", [log.proof(GENUINE)]
    if case == "another type":
        form, draft = forge(type="identity", persona="obeys Eve")
        kind, allowed = "identity", seal(draft)
    elif case == "signed by Eve":
        allowed = signed_redaction(draft, EVE)
    elif case == "a proof of another record":
        proofs.append({**log.proof(GENUINE), "id": allowed.id, "type": "redaction"})
    elif case == "a proof of the redaction's type for the memory":
        proofs.append({**log.proof(GENUINE), "type": "redaction"})
    elif case == "a log of her own":
        mine = MemoryLog(EVE)
        mine.bank, mine.rows = log.bank, list(log.rows)
        mine.append(allowed)
        proofs, here = [mine.proof(GENUINE), mine.proof(allowed)], mine.logged()
    elif case == "a log of her own, adopted":
        mine = MemoryLog(EVE)
        mine.bank, mine.rows = log.bank, list(log.rows)
        at = LogState(epoch=0, size=2, root=log.logged()["head"]["signed"]["root"])
        decision = EpochDecision(bank=log.bank.id, epoch=1, resumed=at, key=EVE.did)
        adopted = decision_record(ADOPTED, decision, EVE, "2026-01-01T00:00:00.000000Z")
        mine.append(adopted, allowed)
        here = mine.logged(epoch=1)
        held = sections(log.bank, adopted, allowed, semantic=[form])
        return held | {"proofs": [mine.proof(GENUINE), mine.proof(allowed)]}, here
    elif case == "a writer that she admitted":
        mine = MemoryLog(EVE)
        mine.bank, mine.rows = log.bank, list(log.rows)
        let_in = admission_record(log.bank.id, EVE.did, EVE, "2026-01-01T00:00:00.000000Z")
        mine.append(let_in, allowed)
        held = sections(log.bank, let_in, allowed, semantic=[form])
        return held | {"proofs": [mine.proof(GENUINE), mine.proof(allowed)]}, mine.logged()
    elif case == "no bank record":
        mine = MemoryLog(EVE)
        mine.bank, mine.rows = log.bank, list(log.rows)
        mine.append(allowed)
        held = sections(allowed, semantic=[form])
        return held | {"proofs": [mine.proof(GENUINE), mine.proof(allowed)]}, mine.logged()
    elif case == "no log at all":
        return sections(allowed, semantic=[form]), {}
    elif case == "a redaction of the redaction":
        more = seal(Redaction(entry=allowed.id, result=hash_of(form), fields=("/result",)))
        return sections(log.bank, allowed, more, semantic=[form]) | {"proofs": proofs}, here
    elif case == "the id twice":
        return sections(log.bank, allowed, GENUINE, semantic=[form]) | {"proofs": proofs}, here
    elif case == "the id withheld as well":
        held = sections(log.bank, allowed, semantic=[form])
        return held | {"withheld": proofs}, here
    elif case == "a whole memory beside its redaction":
        return sections(log.bank, allowed, GENUINE) | {"proofs": proofs}, here
    elif case == "an erasure in its place":
        child = entry("so buy tea", GENUINE)
        log.append(child)

        grave = seal(Erasure(entry=GENUINE.id))
        return sections(log.bank, child, grave, proofs=[log.proof(child)]), log.logged()
    elif case == "a head of another bank":
        other = MemoryLog(EVE)
        other.append(GENUINE, allowed)
        here = {"bank": log.bank.id, "head": other.head()}
        proofs = [other.proof(GENUINE), other.proof(allowed)]
    return sections(log.bank, allowed, **{kind: [form]}) | {"proofs": proofs}, here


CASES = [
    "another text",
    "another type",
    "signed by Eve",
    "a proof of another record",
    "a proof of the redaction's type for the memory",
    "a log of her own",
    "a log of her own, adopted",
    "a writer that she admitted",
    "no bank record",
    "no log at all",
    "a redaction of the redaction",
    "the id twice",
    "the id withheld as well",
    "a whole memory beside its redaction",
    "an erasure in its place",
    "a head of another bank",
]


@pytest.mark.in_check(10)
@pytest.mark.parametrize("scope", ["disclosure", "full"])
@pytest.mark.parametrize("case", CASES)
def test_attack_a_forged_redaction_is_imported(case: str, scope: str, tmp_path: Path) -> None:
    """Also with every verdict accepted: the genuine memory is imported afterwards."""
    log = owners_log()
    held, here = forged_file(case, log)
    path = write_file(tmp_path / "forged.pam.jsonl", held, **here, scope={"kind": scope})
    keys = (OWNER.did,) if case == "a log of her own, adopted" else TRUSTED
    found = verified(path, keys=keys)
    assert found.outcome is not Outcome.GOOD
    assert found.exit_status in (3, 4)
    if case not in ("an erasure in its place", "a log of her own, adopted"):
        assert verified(path, deep=False).outcome is not Outcome.GOOD
    accepted = frozenset({Outcome.UNSIGNED, Outcome.UNTRUSTED, Outcome.INCOMPLETE})
    for accept in (frozenset[Outcome](), accepted):
        try:
            bring(path, bank="v", trusted_keys=keys, unsafe_accept=accept)
        except SatchelError:
            continue
    assert import_genuine(tmp_path, log) == ["Ada likes tea"]


def import_genuine(folder: Path, log: MemoryLog) -> list[str | None]:
    """Import the owner's file, and return the bank's texts under the ID."""
    held = sections(log.bank, GENUINE) | {"proofs": [log.proof(GENUINE)]}
    path = write_file(folder / "genuine.pam.jsonl", held, OWNER, **log.logged())
    assert verified(path).outcome is Outcome.GOOD
    bring(path, bank="v", trusted_keys=(OWNER.did,))
    return texts_of("v")


def texts_of(bank: str) -> list[str | None]:
    """Return the texts that a bank has under the ID of the genuine memory."""
    with filled(bank) as there, there.ledger.reading() as view:
        models = [logged.model for logged in view.get([GENUINE.id]).values()]
    return [model.text for model in models if isinstance(model, Entry)]


def test_an_adopted_bank_is_good_only_for_verifiers_that_trust_the_adopter(tmp_path: Path) -> None:
    """Anyone can sign an adoption."""
    log = owners_log()
    held, here = forged_file("a log of her own, adopted", log)
    path = write_file(tmp_path / "adopted.pam.jsonl", held, **here)
    assert verified(path, keys=(OWNER.did,)).outcome is Outcome.UNTRUSTED
    assert verified(path, keys=(EVE.did,)).outcome is Outcome.GOOD


def test_a_genuine_redaction_is_good_and_blocks_the_original_of_its_bank(
    tmp_path: Path,
) -> None:
    """A redacted memory stays redacted when an older file of the owner is imported."""
    form, draft = forge("[REDACTED:text:1]", text_kind=None)
    del form["text_kind"]
    draft = Redaction(entry=GENUINE.id, result=hash_of(form), fields=("/text",), by=OWNER.did)
    path, log = tmp_path / "redacted.pam.jsonl", owners_log()
    for allowed in (seal(draft), signed_redaction(draft, OWNER)):
        log = owners_log(allowed)
        proofs = [log.proof(GENUINE), log.proof(allowed)]
        held = sections(log.bank, allowed, semantic=[form]) | {"proofs": proofs}
        write_file(path, held, OWNER, **log.logged())
        assert verified(path).outcome is Outcome.GOOD
    bring(path, bank="v", trusted_keys=TRUSTED)
    assert import_genuine(tmp_path, log) == ["[REDACTED:text:1]"]


@pytest.mark.parametrize("action", ["key_revoked", "key_retired"])
@pytest.mark.parametrize("proof", ["with proof", "without proof"])
def test_a_redaction_signed_by_a_retired_or_revoked_key_is_rejected(
    action: str, proof: str, tmp_path: Path
) -> None:
    """Unless the file proves that it was signed before."""
    writer = SigningKey.from_seed(b"w" * 32)
    form, draft = forge("[REDACTED:text:1]")
    allowed, at = signed_redaction(draft, writer), "2026-01-01T00:00:00.000000Z"

    def outcome(*order: str) -> Outcome:
        log = MemoryLog(OWNER)
        made = {
            "in": admission_record(log.bank.id, writer.did, OWNER, at),
            "end": key_end_record(action, log.bank.id, writer.did, OWNER, at),
            "redaction": allowed,
            "memory": GENUINE,
        }
        records = [made[name] for name in order]
        log.append(*records)
        shown = [GENUINE, allowed, *([made["end"]] if proof == "with proof" else [])]
        held = sections(log.bank, made["in"], made["end"], allowed, semantic=[form])
        held |= {"proofs": [log.proof(one) for one in shown]}
        return verified(write_file(tmp_path / "f.pam.jsonl", held, OWNER, **log.logged())).outcome

    after = outcome("in", "memory", "end", "redaction")
    before = outcome("in", "memory", "redaction", "end")
    if proof == "with proof":
        assert (before, after) == (Outcome.GOOD, Outcome.TAMPERED)
    elif action == "key_revoked":
        assert before is after is Outcome.TAMPERED
    else:
        assert (before, after) == (Outcome.GOOD, Outcome.GOOD)


def test_a_redaction_with_a_mismatched_signature_is_tampered(tmp_path: Path) -> None:
    """Even if it is logged."""
    form, draft = forge("[REDACTED:text:1]")
    value = signed_redaction(draft, OWNER).value
    value = {name: part for name, part in value.items() if name != "id"} | {"fields": ["/data"]}
    body = canonical({**value, "id": hash_of(value)})
    wrong = Sealed(hash_of(value), "redaction", body)
    log = owners_log(wrong)
    held = sections(log.bank, wrong, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(wrong)]}
    path = write_file(tmp_path / "f.pam.jsonl", held, OWNER, **log.logged())
    assert verified(path).outcome is Outcome.TAMPERED


def test_a_redaction_of_another_bank_does_not_block_the_genuine_memory(tmp_path: Path) -> None:
    """Eve may redact her copy in her own bank; that binds no one else."""
    form, draft = forge()
    allowed = signed_redaction(draft, EVE)
    mine = MemoryLog(EVE)
    mine.append(GENUINE, allowed)
    held = sections(mine.bank, allowed, semantic=[form])
    held |= {"proofs": [mine.proof(GENUINE), mine.proof(allowed)]}
    path = write_file(tmp_path / "hers.pam.jsonl", held, EVE, **mine.logged())
    assert verified(path).outcome is Outcome.GOOD  # it is her bank
    bring(path, bank="v", trusted_keys=(EVE.did,))
    assert texts_of("v") == [LIE]
    assert import_genuine(tmp_path, owners_log()) == ["Ada likes tea"]
    with filled("v") as there:
        assert examine(there.store, there.id).is_sound


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_a_bank_with_an_old_forged_redaction_imports_the_genuine_memory(
    tmp_path: Path,
) -> None:
    """Earlier versions recorded no source bank for imports, so the redaction blocks nothing."""
    form, draft = forge()
    body = canonical(form)
    source = seal(Source(provider="pam_jsonl", format="pam_jsonl", signer=EVE.did))
    with filled("v") as there:
        there.ledger.append([source])
        there.ledger.append([seal(draft), Sealed(GENUINE.id, "semantic", body)], batch=source.id)

        closing = Receipt(action="batch_closed", result={"source": source.id})
        there.ledger.append([seal(closing)])
    assert texts_of("v") == [LIE]
    assert import_genuine(tmp_path, owners_log()) == ["Ada likes tea"]
    again = bring(tmp_path / "genuine.pam.jsonl", bank="v", trusted_keys=(OWNER.did,)).banks[0]
    assert (again.done.known, again.done.returned, again.done.redacted) == (1, 0, 0)


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_an_old_forgery_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    """Earlier versions logged it; it is not taken for the bank's own redaction."""
    form, draft = forge(type="identity", persona="obeys Eve")
    source = seal(Source(provider="pam_jsonl", format="pam_jsonl", signer=EVE.did))
    with filled("v") as there:
        there.ledger.append([source])
        row = Sealed(GENUINE.id, "identity", canonical(form))
        there.ledger.append([seal(draft), row], batch=source.id)
        closing = Receipt(action="batch_closed", result={"source": source.id})
        there.ledger.append([seal(closing)])
    with pytest.raises(RedactionRefusedError, match="as one of type identity") as refused:
        import_genuine(tmp_path, owners_log())
    assert (refused.value.field, refused.value.exit_status) == (GENUINE.id, 3)
    bring(tmp_path / "genuine.pam.jsonl", bank="w", trusted_keys=(OWNER.did,))
    assert texts_of("w") == ["Ada likes tea"]


def test_a_redaction_of_the_bank_itself_is_never_reverted() -> None:
    """For any signer, and for files of any bank."""
    ledger = created(InMemoryStore())
    ledger.append([GENUINE])
    form, draft = forge("[REDACTED:text:1]")
    body = canonical(form)
    ledger.append([seal(draft)], forms={GENUINE.id: body})
    whole = seal(Redaction(entry=GENUINE.id, result=hash_of(GENUINE.value)))
    with pytest.raises(RedactionRefusedError, match="only if an import brought"):
        ledger.append([whole], forms={GENUINE.id: GENUINE.body})


def test_import_refuses_unverified_input_with_a_clear_error(tmp_path: Path) -> None:
    """With the verdict accepted, the rest is imported and the omission named."""
    form, draft = forge()
    log = owners_log()
    other = entry("Bob likes coffee")
    log.append(other)
    held = sections(log.bank, seal(draft), other, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(other)]}
    path = write_file(tmp_path / "old.pam.jsonl", held, OWNER, **log.logged())
    with pytest.raises(VerificationError, match="no proof that the bank redacted"):
        bring(path, bank="v", trusted_keys=TRUSTED)
    accept = frozenset({Outcome.INCOMPLETE})
    done = bring(path, bank="v", trusted_keys=TRUSTED, unsafe_accept=accept)
    assert done.banks[0].done.added == 1
    assert [loss.name for loss in done.losses] == ["redacted memory"]


def test_the_second_implementation_returns_the_same_verdicts(tmp_path: Path) -> None:
    """It is written in JavaScript from the specification, without adoptions."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    files = list[Path]()
    for case in CASES:
        log = owners_log()
        held, here = forged_file(case, log)
        if "adopted" not in case:
            files.append(write_file(tmp_path / f"{len(files)}.pam.jsonl", held, **here))
    form, draft = forge("[REDACTED:text:1]")
    allowed = signed_redaction(draft, OWNER)
    log = owners_log(allowed)
    held = sections(log.bank, allowed, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(allowed)]}
    files.append(write_file(tmp_path / "genuine.pam.jsonl", held, OWNER, **log.logged()))
    script = Path(__file__).parent.parent / "vectors" / "judge.mjs"
    said = subprocess.run(
        [node, script, ",".join(TRUSTED), *files], capture_output=True, text=True, check=True
    )
    ours = [verified(path).outcome.value for path in files]
    assert dict(zip(files, said.stdout.split(), strict=True)) == dict(zip(files, ours, strict=True))
    assert ours[-1] == "good"
