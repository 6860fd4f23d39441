"""What the signatures of a file, and members inside those of a record, have to be.

Judged here and by the second implementation, which is written from the specification.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from artifact_kit import entry, hash_of, sealed_file, sections, signers

from satchel.artifact.verification import TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.model.records import Embedding

Signatures = list[dict[str, Any]]

_JUDGE = Path(__file__).parent.parent / "vectors" / "judge.mjs"


def judged(path: Path, key: SigningKey) -> Verification:
    """Return the verdict for somebody who trusts one key."""
    return verify_artifact(
        path, TrustPolicy(keys=frozenset([key.did])), VerificationRequest(deep=True)
    )


def judged_by_the_other(key: SigningKey, paths: Sequence[Path]) -> list[str]:
    """Return what the JavaScript implementation says of some files."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    done = subprocess.run(
        [node, _JUDGE, key.did, *paths], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def _twice(genuine: Signatures) -> Signatures:
    return [*genuine, *genuine]


def _with(signature: Any) -> Callable[[Signatures], Any]:
    return lambda genuine: [*genuine, signature]


def _sig(text: str) -> Callable[[Signatures], Signatures]:
    """Replace the signature by a text."""
    return lambda genuine: [{**genuine[0], "sig": text}]


_OTHER = signers(1)[0].did
_ODD_KEY = "did:key:z6MkNoKeyAtAll"

CASES: dict[str, tuple[Callable[[Signatures], Any], str]] = {
    "as it is": (lambda genuine: genuine, "good"),
    "one key twice": (_twice, "malformed"),
    "seventeen": (
        lambda genuine: [
            *genuine,
            *({"key": one.did, "sig": genuine[0]["sig"]} for one in signers(16)),
        ],
        "malformed",
    ),
    "no object": (_with("x"), "malformed"),
    "a member more": (_with({"key": _OTHER, "sig": "", "at": "now"}), "malformed"),
    "a member less": (_with({"key": _OTHER}), "malformed"),
    "a key that is a number": (_with({"key": 1, "sig": ""}), "malformed"),
    "no key, beside a valid one": (_with({"key": _ODD_KEY, "sig": "AAAA"}), "good"),
    "no base64, beside a valid one": (_with({"key": _OTHER, "sig": "§"}), "good"),
    "too short, beside a valid one": (_with({"key": _OTHER, "sig": "AAAA"}), "good"),
    "a false one, beside a valid one": (
        lambda genuine: [*genuine, {"key": _OTHER, "sig": genuine[0]["sig"]}],
        "good",
    ),
    "no key alone": (lambda genuine: [{**genuine[0], "key": _ODD_KEY}], "tampered"),
    "no base64 alone": (_sig("§"), "tampered"),
    "too short alone": (_sig("AAAA"), "tampered"),
}
"""SEAL-3.39: what is done to the signatures of a file, and the outcome."""


def test_signatures_that_are_none_are_judged_by_the_rule(key: SigningKey, tmp_path: Path) -> None:
    """SEAL-3.39: shape refuses the file; what is no key or no signature is an invalid one."""
    paths, ours = list[Path](), dict[str, str]()
    for name, (change, _) in CASES.items():
        path = tmp_path / f"{len(paths)}.pam.jsonl"
        data = sealed_file(sections(entry("tea")), key)
        start = data.rstrip(b"\n").rindex(b"\n") + 1
        last = json.loads(data[start:])
        last["signatures"] = change(last["signatures"])
        path.write_bytes(data[:start] + canonical(last) + b"\n")
        paths.append(path)
        ours[name] = judged(path, key).outcome.value
    expected = {name: outcome for name, (_, outcome) in CASES.items()}
    assert ours == expected
    assert dict(zip(CASES, judged_by_the_other(key, paths), strict=True)) == expected


def _changed(record: Sealed, **members: Any) -> dict[str, Any]:
    """Return a record with other members, under the id of these."""
    form = {**{name: one for name, one in record.value.items() if name != "id"}, **members}
    return {**form, "id": hash_of(form)}


_REQUIRED: dict[str, dict[str, Any]] = {
    "an entity without name": {"entities": [{"entity_type": "person"}]},
    "an entity with the name null": {"entities": [{"name": None}]},
    "a source without kind": {"sources": [{"id": "1"}]},
    "a source without id": {"sources": [{"kind": "message"}]},
}


@pytest.mark.parametrize("members", _REQUIRED.values(), ids=_REQUIRED.keys())
def test_a_record_without_a_required_inner_member_is_refused(
    members: dict[str, Any], key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-2.32."""
    path = tmp_path / "f.pam.jsonl"
    path.write_bytes(sealed_file({"semantic": [_changed(entry("tea"), **members)]}, key))
    assert judged(path, key).outcome.value == "malformed"


@pytest.mark.parametrize("number", [-1, 1.5, "3"])
def test_a_number_that_has_to_be_whole_and_not_negative_is_refused(
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
    assert judged(path, key).outcome.value == "malformed"
