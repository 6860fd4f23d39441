"""Signatures of files, required members, blobs, and signatures inside records.

Verified here and by the second implementation, which is written from the specification.
"""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from artifact_kit import entry, hash_of, sealed_file, sections, signers

from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import PayloadType, SigningKey, sign, signed_part
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.model.records import Blob, Config, Embedding, Receipt, Redaction, Token

Signatures = list[dict[str, Any]]

_JUDGE = Path(__file__).parent.parent / "vectors" / "judge.mjs"


def verdict_of(path: Path, key: SigningKey) -> Verification:
    """Return the verdict with one trusted key."""
    return verify_artifact(
        path, TrustPolicy(keys=frozenset([key.did])), VerificationRequest(deep=True)
    )


def verdicts_of_javascript(key: SigningKey, paths: Sequence[Path]) -> list[str]:
    """Return the verdicts of the JavaScript implementation on some files."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    done = subprocess.run(
        [node, _JUDGE, key.did, *paths], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def _duplicated(genuine: Signatures) -> Signatures:
    return [*genuine, *genuine]


def _with_extra(signature: Any) -> Callable[[Signatures], Any]:
    return lambda genuine: [*genuine, signature]


def _with_text(text: str) -> Callable[[Signatures], Signatures]:
    """Replace the signature with a text."""
    return lambda genuine: [{**genuine[0], "sig": text}]


_OTHER = signers(1)[0].did
_ODD_KEY = "did:key:z6MkNoKeyAtAll"

CASES: dict[str, tuple[Callable[[Signatures], Any], str]] = {
    "unchanged": (lambda genuine: genuine, "good"),
    "a duplicate key": (_duplicated, "malformed"),
    "seventeen signatures": (
        lambda genuine: [
            *genuine,
            *({"key": one.did, "sig": genuine[0]["sig"]} for one in signers(16)),
        ],
        "malformed",
    ),
    "not an object": (_with_extra("x"), "malformed"),
    "an extra member": (_with_extra({"key": _OTHER, "sig": "", "at": "now"}), "malformed"),
    "a missing member": (_with_extra({"key": _OTHER}), "malformed"),
    "a key of another type": (_with_extra({"key": 1, "sig": ""}), "malformed"),
    "an invalid key and a valid signature": (_with_extra({"key": _ODD_KEY, "sig": "AAAA"}), "good"),
    "invalid base64 and a valid signature": (_with_extra({"key": _OTHER, "sig": "§"}), "good"),
    "a short and a valid signature": (_with_extra({"key": _OTHER, "sig": "AAAA"}), "good"),
    "an invalid and a valid signature": (
        lambda genuine: [*genuine, {"key": _OTHER, "sig": genuine[0]["sig"]}],
        "good",
    ),
    "an invalid key": (lambda genuine: [{**genuine[0], "key": _ODD_KEY}], "tampered"),
    "invalid base64": (_with_text("§"), "tampered"),
    "a short signature": (_with_text("AAAA"), "tampered"),
}
"""SEAL-3.39: a change of the signatures of a file, and the outcome."""


def test_malformed_signatures_get_the_specified_verdict(key: SigningKey, tmp_path: Path) -> None:
    """SEAL-3.39: a wrong shape is malformed; an invalid key counts as an invalid signature."""
    paths, ours = list[Path](), dict[str, str]()
    for name, (change, _) in CASES.items():
        path = tmp_path / f"{len(paths)}.pam.jsonl"
        data = sealed_file(sections(entry("tea")), key)
        start = data.rstrip(b"\n").rindex(b"\n") + 1
        last = json.loads(data[start:])
        last["signatures"] = change(last["signatures"])
        path.write_bytes(data[:start] + canonical(last) + b"\n")
        paths.append(path)
        ours[name] = verdict_of(path, key).outcome.value
    expected = {name: outcome for name, (_, outcome) in CASES.items()}
    assert ours == expected
    assert dict(zip(CASES, verdicts_of_javascript(key, paths), strict=True)) == expected


def _changed(record: Sealed, **members: Any) -> dict[str, Any]:
    """Return a record with other members, under the id of the result."""
    form = {**{name: one for name, one in record.value.items() if name != "id"}, **members}
    return {**form, "id": hash_of(form)}


_REQUIRED: dict[str, dict[str, Any]] = {
    "an entity without a name": {"entities": [{"entity_type": "person"}]},
    "an entity with a null name": {"entities": [{"name": None}]},
    "a source without a kind": {"sources": [{"id": "1"}]},
    "a source without an id": {"sources": [{"kind": "message"}]},
}


@pytest.mark.parametrize("members", _REQUIRED.values(), ids=_REQUIRED.keys())
def test_a_record_without_a_required_inner_member_is_refused(
    members: dict[str, Any], key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.32."""
    path = tmp_path / "f.pam.jsonl"
    path.write_bytes(sealed_file({"semantic": [_changed(entry("tea"), **members)]}, key))
    assert verdict_of(path, key).outcome.value == "malformed"


@pytest.mark.parametrize("number", [-1, 1.5, "3"])
def test_dimensions_that_are_not_a_natural_number_are_refused(
    number: object, key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.32: ``dimensions`` of an embedding."""
    memory = entry("tea")
    vector = seal(Embedding(target=memory.id, model="m", dimensions=2, vector=(0.5, 1.0)))
    path = tmp_path / "f.pam.jsonl"
    path.write_bytes(
        sealed_file(
            {"semantic": [memory], "embeddings": [_changed(vector, dimensions=number)]}, key
        )
    )
    assert verdict_of(path, key).outcome.value == "malformed"


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
    """Seal a record whose signature covers its signed part before ``change``."""
    draft = _DRAFTS[kind]
    plain = seal(draft)
    covered = plain.value["payload"] if kind is PayloadType.TOKEN else signed_part(plain.value)
    covered = msgspec.json.decode(msgspec.json.encode(covered))
    change(covered)
    signatures = tuple(msgspec.to_builtins(sign(kind, covered, [key])))
    nonce = plain.value["nonce"]
    return seal(msgspec.structs.replace(draft, nonce=nonce, signatures=signatures))


def _verdict_on(path: Path, key: SigningKey, *records: Sealed, deep: bool = True) -> Verification:
    path.write_bytes(sealed_file(sections(entry("tea"), *records), key))
    return verify_artifact(
        path, TrustPolicy(keys=frozenset([key.did])), VerificationRequest(deep=deep)
    )


def test_a_blob_with_the_digest_of_other_bytes_is_tampered(key: SigningKey, tmp_path: Path) -> None:
    """SEAL-2.33."""
    path = tmp_path / "f.pam.jsonl"
    assert _verdict_on(path, key, _blob(b"picture", b"picture")).outcome is Outcome.GOOD
    lie = _blob(b"picture", b"another")
    result = _verdict_on(path, key, lie)
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
    """SEAL-2.33: a byte string has one spelling."""
    blob = seal(Blob(digest=digest(b"picture"), data=data))
    result = _verdict_on(tmp_path / "f.pam.jsonl", key, blob)
    assert result.outcome is Outcome.MALFORMED
    assert result.findings[0].field == "data"


def test_a_second_implementation_gives_blobs_the_same_verdict(
    key: SigningKey, tmp_path: Path
) -> None:
    """Written in JavaScript from the specification."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    files, ours = list[Path](), list[str]()
    odd = seal(Blob(digest=digest(b"picture"), data="cGljdHVyZR=="))
    for blob in (_blob(b"picture", b"picture"), _blob(b"picture", b"another"), odd):
        files.append(tmp_path / f"{len(files)}.pam.jsonl")
        ours.append(_verdict_on(files[-1], key, blob).outcome.value)
    script = Path(__file__).parent.parent / "vectors" / "judge.mjs"
    said = subprocess.run(
        [node, script, key.did, *files], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ours == ["good", "tampered", "malformed"]


@pytest.mark.parametrize("kind", _DRAFTS, ids=lambda kind: kind.name.lower())
def test_an_invalid_signature_inside_a_record_is_reported(
    kind: PayloadType, key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.34: the outcome does not change, and a note names the record."""
    path = tmp_path / "f.pam.jsonl"
    genuine = _verdict_on(path, key, _signed(kind, key, lambda _: None))
    assert (genuine.outcome, genuine.notes) == (Outcome.GOOD, [])

    false = _signed(kind, key, lambda value: value.update(forged=True))
    result = _verdict_on(path, key, false)
    assert result.outcome is Outcome.GOOD
    (note,) = result.notes
    assert note.startswith("records with an invalid signature: 1, such as")
    assert key.did in note


def test_malformed_signatures_inside_a_record_are_reported(key: SigningKey, tmp_path: Path) -> None:
    """Not an array of key and signature."""
    false = seal(Receipt(action="import", signatures=({"sig": "x"},)))
    (note,) = _verdict_on(tmp_path / "f.pam.jsonl", key, false).notes
    assert "not signatures" in note


def test_a_shallow_verification_reports_skipped_steps_as_not_run(
    key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-4.12: a trusted signer is enough, and unread records are not reported as verified."""
    lie = _blob(b"picture", b"another")
    result = _verdict_on(tmp_path / "f.pam.jsonl", key, lie, deep=False)
    assert result.outcome is Outcome.GOOD
    assert result.steps[5].state == "not run"
    assert "--deep" in result.steps[5].detail
