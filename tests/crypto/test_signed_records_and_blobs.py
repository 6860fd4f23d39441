"""What a record says beyond its id: the digest of a blob, and signatures inside records."""

import base64
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from artifact_kit import entry, sealed_file, sections

from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.keys import PayloadType, SigningKey, sign, signed_part
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.model.records import Blob, Config, Receipt, Redaction, Token

_ID = "blake3:" + "11" * 32
_DRAFTS: dict[PayloadType, Any] = {
    PayloadType.RECEIPT: Receipt(action="import", result={"written": 3}),
    PayloadType.CONFIG: Config(action="renamed", payload={"name": "tea"}),
    PayloadType.REDACTION: Redaction(entry=_ID, result=_ID),
    PayloadType.TOKEN: Token(payload={"v": 1}),
}


def _blob(data: bytes, found: bytes) -> Sealed:
    return seal(Blob(digest=digest(found), data=base64.b64encode(data).decode()))


def _signed(kind: PayloadType, key: SigningKey, change: Callable[[Any], None]) -> Sealed:
    """Seal a record whose signature covers it before ``change`` was made to what is signed."""
    draft = _DRAFTS[kind]
    plain = seal(draft)
    covered = plain.value["payload"] if kind is PayloadType.TOKEN else signed_part(plain.value)
    covered = msgspec.json.decode(msgspec.json.encode(covered))
    change(covered)
    signatures = tuple(msgspec.to_builtins(sign(kind, covered, [key])))
    nonce = plain.value["nonce"]
    return seal(msgspec.structs.replace(draft, nonce=nonce, signatures=signatures))


def _judged(path: Path, key: SigningKey, *records: Sealed, deep: bool = True) -> Verification:
    path.write_bytes(sealed_file(sections(entry("tea"), *records), key))
    return verify_artifact(
        path, TrustPolicy(keys=frozenset([key.did])), VerificationRequest(deep=deep)
    )


def test_a_blob_with_the_digest_of_other_bytes_is_tampered(key: SigningKey, tmp_path: Path) -> None:
    """SEAL-2.33."""
    path = tmp_path / "f.pam.jsonl"
    assert _judged(path, key, _blob(b"picture", b"picture")).outcome is Outcome.GOOD
    lie = _blob(b"picture", b"another")
    result = _judged(path, key, lie)
    assert result.outcome is Outcome.TAMPERED
    (finding,) = result.findings
    assert (finding.id, finding.message) == (
        lie.id,
        "blobs: the digest does not match the data",
    )


@pytest.mark.parametrize("data", ["cGljdHVyZQ", "cGljdHVyZR==", "cGlj dHVy", "§"])
def test_a_blob_that_is_not_canonical_base64_is_malformed(
    data: str, key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.33: one text for the same bytes."""
    blob = seal(Blob(digest=digest(b"picture"), data=data))
    result = _judged(tmp_path / "f.pam.jsonl", key, blob)
    assert result.outcome is Outcome.MALFORMED
    assert result.findings[0].field == "data"


def test_a_second_implementation_judges_blobs_alike(key: SigningKey, tmp_path: Path) -> None:
    """Written in JavaScript from the specification."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    files, ours = list[Path](), list[str]()
    odd = seal(Blob(digest=digest(b"picture"), data="cGljdHVyZR=="))
    for blob in (_blob(b"picture", b"picture"), _blob(b"picture", b"another"), odd):
        files.append(tmp_path / f"{len(files)}.pam.jsonl")
        ours.append(_judged(files[-1], key, blob).outcome.value)
    script = Path(__file__).parent.parent / "vectors" / "judge.mjs"
    said = subprocess.run(
        [node, script, key.did, *files], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ours == ["good", "tampered", "malformed"]


@pytest.mark.parametrize("kind", _DRAFTS, ids=lambda kind: kind.name.lower())
def test_a_false_signature_inside_a_record_is_named(
    kind: PayloadType, key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.34: the outcome stays, and a note says which record nobody is shown to have signed."""
    path = tmp_path / "f.pam.jsonl"
    genuine = _judged(path, key, _signed(kind, key, lambda _: None))
    assert (genuine.outcome, genuine.notes) == (Outcome.GOOD, [])

    false = _signed(kind, key, lambda value: value.update(forged=True))
    result = _judged(path, key, false)
    assert result.outcome is Outcome.GOOD
    (note,) = result.notes
    assert note.startswith("records with an invalid signature: 1, such as")
    assert key.did in note


def test_signatures_that_are_none_are_named_too(key: SigningKey, tmp_path: Path) -> None:
    """Not an array of key and signature."""
    false = seal(Receipt(action="import", signatures=({"sig": "x"},)))
    (note,) = _judged(tmp_path / "f.pam.jsonl", key, false).notes
    assert "not signatures" in note


def test_without_depth_a_trusted_signer_vouches_and_the_step_says_not_run(
    key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-4.12: what was not looked at is not called sound."""
    lie = _blob(b"picture", b"another")
    result = _judged(tmp_path / "f.pam.jsonl", key, lie, deep=False)
    assert result.outcome is Outcome.GOOD
    assert result.steps[5].state == "not run"
    assert "--deep" in result.steps[5].detail
