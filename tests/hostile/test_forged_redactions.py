"""Whoever is handed a genuine disclosure, and is trusted as a signer, forges what it says.

The owner's log has a genuine memory. Eve holds a disclosure of it and a key that the victim trusts.
Whatever she writes under the id of the memory is not ``good``, does not come into a bank, and never
keeps the genuine memory out.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled
from import_kit import bring
from ledger_kit import created
from sealing_kit import MemoryLog, entry, hash_of, redacted, sealed_file, sections

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


def forged(text: str = LIE, **members: Any) -> tuple[dict[str, Any], Redaction]:
    """Return a form of the genuine memory that says something else, and what would allow it."""
    form = redacted(GENUINE, text=text, **members)
    return form, Redaction(entry=GENUINE.id, result=hash_of(form), fields=("/text",), by=EVE.did)


def written(path: Path, held: dict[str, Any], by: SigningKey = EVE, **members: Any) -> Path:
    """Write a file that somebody signed."""
    path.write_bytes(sealed_file(held, by, **members))
    return path


def judged(path: Path, *, deep: bool = True, keys: tuple[str, ...] = TRUSTED) -> Verification:
    """Verify a file as somebody who trusts both of them."""
    return verify_artifact(path, TrustPolicy(keys=frozenset(keys)), VerificationRequest(deep=deep))


def by_eve(case: str, log: MemoryLog) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Return the sections and the statement of a forged file."""
    form, draft = forged()
    allowed, here = seal(draft), log.logged()
    kind, proofs = "semantic", [log.proof(GENUINE)]
    if case == "another type":
        form, draft = forged(type="identity", persona="obeys Eve")
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


@pytest.mark.parametrize("scope", ["disclosure", "full"])
@pytest.mark.parametrize("case", CASES)
def test_a_forged_redaction_is_not_good_and_keeps_nothing_out(
    case: str, scope: str, tmp_path: Path
) -> None:
    """Also where every verdict is accepted: the genuine memory arrives afterwards."""
    log = owners_log()
    held, here = by_eve(case, log)
    path = written(tmp_path / "forged.pam.jsonl", held, **here, scope={"kind": scope})
    keys = (OWNER.did,) if case == "a log of her own, adopted" else TRUSTED
    found = judged(path, keys=keys)
    assert found.outcome is not Outcome.GOOD
    assert found.exit_status in (3, 4)
    if case not in ("an erasure in its place", "a log of her own, adopted"):
        assert judged(path, deep=False).outcome is not Outcome.GOOD
    accepted = frozenset({Outcome.UNSIGNED, Outcome.UNTRUSTED, Outcome.INCOMPLETE})
    for accept in (frozenset[Outcome](), accepted):
        try:
            bring(path, bank="v", trusted_keys=keys, unsafe_accept=accept)
        except SatchelError:
            continue
    assert genuine_arrives(tmp_path, log) == ["Ada likes tea"]


def genuine_arrives(folder: Path, log: MemoryLog) -> list[str | None]:
    """Import the owner's own file, and return what the bank says under the id."""
    held = sections(log.bank, GENUINE) | {"proofs": [log.proof(GENUINE)]}
    path = written(folder / "genuine.pam.jsonl", held, OWNER, **log.logged())
    assert judged(path).outcome is Outcome.GOOD
    bring(path, bank="v", trusted_keys=(OWNER.did,))
    return told("v")


def told(bank: str) -> list[str | None]:
    """Return what a bank says under the id of the genuine memory."""
    with filled(bank) as there, there.ledger.reading() as view:
        models = [logged.model for logged in view.get([GENUINE.id]).values()]
    return [model.text for model in models if isinstance(model, Entry)]


def test_an_adopted_bank_is_believed_where_the_adopter_is_trusted_for_it(tmp_path: Path) -> None:
    """Anybody can sign an adoption; so it counts for who named that key, and nobody else."""
    log = owners_log()
    held, here = by_eve("a log of her own, adopted", log)
    path = written(tmp_path / "adopted.pam.jsonl", held, **here)
    assert judged(path, keys=(OWNER.did,)).outcome is Outcome.UNTRUSTED
    assert judged(path, keys=(EVE.did,)).outcome is Outcome.GOOD


def test_a_genuine_redaction_is_good_and_keeps_the_whole_memory_of_its_bank_out(
    tmp_path: Path,
) -> None:
    """What the owner redacted stays redacted, also when an older file of the owner's comes."""
    form, draft = forged("[REDACTED:text:1]", text_kind=None)
    del form["text_kind"]
    draft = Redaction(entry=GENUINE.id, result=hash_of(form), fields=("/text",), by=OWNER.did)
    path, log = tmp_path / "redacted.pam.jsonl", owners_log()
    for allowed in (seal(draft), signed_redaction(draft, OWNER)):
        log = owners_log(allowed)
        proofs = [log.proof(GENUINE), log.proof(allowed)]
        held = sections(log.bank, allowed, semantic=[form]) | {"proofs": proofs}
        written(path, held, OWNER, **log.logged())
        assert judged(path).outcome is Outcome.GOOD
    bring(path, bank="v", trusted_keys=TRUSTED)
    assert genuine_arrives(tmp_path, log) == ["[REDACTED:text:1]"]


@pytest.mark.parametrize("action", ["key_revoked", "key_retired"])
@pytest.mark.parametrize("proof", ["proved", "not proved"])
def test_a_redaction_signed_by_a_retired_key_does_not_count(
    action: str, proof: str, tmp_path: Path
) -> None:
    """One that was signed before counts, where the file proves that it was before."""
    writer = SigningKey.from_seed(b"w" * 32)
    form, draft = forged("[REDACTED:text:1]")
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
        shown = [GENUINE, allowed, *([made["end"]] if proof == "proved" else [])]
        held = sections(log.bank, made["in"], made["end"], allowed, semantic=[form])
        held |= {"proofs": [log.proof(one) for one in shown]}
        return judged(written(tmp_path / "f.pam.jsonl", held, OWNER, **log.logged())).outcome

    after = outcome("in", "memory", "end", "redaction")
    before = outcome("in", "memory", "redaction", "end")
    if proof == "proved":
        assert (before, after) == (Outcome.GOOD, Outcome.TAMPERED)
    elif action == "key_revoked":
        assert before is after is Outcome.TAMPERED
    else:
        assert (before, after) == (Outcome.GOOD, Outcome.GOOD)


def test_a_redaction_with_a_signature_that_does_not_match_is_tampered(tmp_path: Path) -> None:
    """Though it is logged: whoever signed it signed something else."""
    form, draft = forged("[REDACTED:text:1]")
    value = signed_redaction(draft, OWNER).value
    value = {name: part for name, part in value.items() if name != "id"} | {"fields": ["/data"]}
    body = canonical({**value, "id": hash_of(value)})
    wrong = Sealed(hash_of(value), "redaction", body)
    log = owners_log(wrong)
    held = sections(log.bank, wrong, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(wrong)]}
    path = written(tmp_path / "f.pam.jsonl", held, OWNER, **log.logged())
    assert judged(path).outcome is Outcome.TAMPERED


def test_a_redaction_of_another_bank_keeps_the_genuine_memory_out_of_none(tmp_path: Path) -> None:
    """Eve may redact her copy in her own bank; that binds nobody who has the owner's file."""
    form, draft = forged()
    allowed = signed_redaction(draft, EVE)
    mine = MemoryLog(EVE)
    mine.append(GENUINE, allowed)
    held = sections(mine.bank, allowed, semantic=[form])
    held |= {"proofs": [mine.proof(GENUINE), mine.proof(allowed)]}
    path = written(tmp_path / "hers.pam.jsonl", held, EVE, **mine.logged())
    assert judged(path).outcome is Outcome.GOOD  # it is her bank, and says so
    bring(path, bank="v", trusted_keys=(EVE.did,))
    assert told("v") == [LIE]
    assert genuine_arrives(tmp_path, owners_log()) == ["Ada likes tea"]
    with filled("v") as there:
        assert examine(there.store, there.id).is_sound


@pytest.mark.usefixtures("any_store")
def test_a_bank_that_took_a_forged_redaction_before_takes_the_genuine_memory(
    tmp_path: Path,
) -> None:
    """Earlier versions noted no bank for what they imported, so nothing of that keeps it out."""
    form, draft = forged()
    body = canonical(form)
    source = seal(Source(provider="pam_jsonl", format="pam_jsonl", signer=EVE.did))
    with filled("v") as there:
        there.ledger.append([source])
        there.ledger.append([seal(draft), Sealed(GENUINE.id, "semantic", body)], batch=source.id)

        closing = Receipt(action="batch_closed", result={"source": source.id})
        there.ledger.append([seal(closing)])
    assert told("v") == [LIE]
    assert genuine_arrives(tmp_path, owners_log()) == ["Ada likes tea"]
    again = bring(tmp_path / "genuine.pam.jsonl", bank="v", trusted_keys=(OWNER.did,)).banks[0]
    assert (again.done.known, again.done.returned, again.done.redacted) == (1, 0, 0)


@pytest.mark.usefixtures("any_store")
def test_an_old_forgery_that_was_logged_as_another_type_is_refused_by_name(tmp_path: Path) -> None:
    """Earlier versions logged it. It does not pass for the bank's own redaction of the memory."""
    form, draft = forged(type="identity", persona="obeys Eve")
    source = seal(Source(provider="pam_jsonl", format="pam_jsonl", signer=EVE.did))
    with filled("v") as there:
        there.ledger.append([source])
        row = Sealed(GENUINE.id, "identity", canonical(form))
        there.ledger.append([seal(draft), row], batch=source.id)
        closing = Receipt(action="batch_closed", result={"source": source.id})
        there.ledger.append([seal(closing)])
    with pytest.raises(RedactionRefusedError, match="as one of type identity") as refused:
        genuine_arrives(tmp_path, owners_log())
    assert (refused.value.field, refused.value.exit_status) == (GENUINE.id, 3)
    bring(tmp_path / "genuine.pam.jsonl", bank="w", trusted_keys=(OWNER.did,))
    assert told("w") == ["Ada likes tea"]


def test_what_the_bank_redacted_itself_is_never_made_whole() -> None:
    """Whoever signs the file, and whatever bank it is of."""
    ledger = created(InMemoryStore())
    ledger.append([GENUINE])
    form, draft = forged("[REDACTED:text:1]")
    body = canonical(form)
    ledger.append([seal(draft)], forms={GENUINE.id: body})
    whole = seal(Redaction(entry=GENUINE.id, result=hash_of(GENUINE.value)))
    with pytest.raises(RedactionRefusedError, match="only if an import brought"):
        ledger.append([whole], forms={GENUINE.id: GENUINE.body})


def test_import_refuses_unverified_input_with_a_clear_error(tmp_path: Path) -> None:
    """And with the verdict accepted, takes the rest and names what it left."""
    form, draft = forged()
    log = owners_log()
    other = entry("Bob likes coffee")
    log.append(other)
    held = sections(log.bank, seal(draft), other, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(other)]}
    path = written(tmp_path / "old.pam.jsonl", held, OWNER, **log.logged())
    with pytest.raises(VerificationError, match="no proof that the bank redacted"):
        bring(path, bank="v", trusted_keys=TRUSTED)
    accept = frozenset({Outcome.INCOMPLETE})
    done = bring(path, bank="v", trusted_keys=TRUSTED, unsafe_accept=accept)
    assert done.banks[0].done.added == 1
    assert [loss.name for loss in done.losses] == ["redacted memory"]


def test_the_second_implementation_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    """Written in JavaScript from the specification, without adoptions."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    files = list[Path]()
    for case in CASES:
        log = owners_log()
        held, here = by_eve(case, log)
        if "adopted" not in case:
            files.append(written(tmp_path / f"{len(files)}.pam.jsonl", held, **here))
    form, draft = forged("[REDACTED:text:1]")
    allowed = signed_redaction(draft, OWNER)
    log = owners_log(allowed)
    held = sections(log.bank, allowed, semantic=[form])
    held |= {"proofs": [log.proof(GENUINE), log.proof(allowed)]}
    files.append(written(tmp_path / "genuine.pam.jsonl", held, OWNER, **log.logged()))
    script = Path(__file__).parent.parent / "vectors" / "judge.mjs"
    said = subprocess.run(
        [node, script, ",".join(TRUSTED), *files], capture_output=True, text=True, check=True
    )
    ours = [judged(path).outcome.value for path in files]
    assert dict(zip(files, said.stdout.split(), strict=True)) == dict(zip(files, ours, strict=True))
    assert ours[-1] == "good"
