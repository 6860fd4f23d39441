"""The published test vectors: this package, their generator and a second implementation agree."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from satchel.artifact.encodings import open_artifact
from satchel.artifact.verification import TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto import keys
from satchel.crypto.canonical import Limits, canonical, check_value, decode_canonical
from satchel.crypto.cbor import CborReader, encode
from satchel.crypto.json_reader import JsonReader
from satchel.crypto.keys import PayloadType, Signature, SigningKey, check, did_key, pae, public_key
from satchel.crypto.log import record_leaf, root_of, verify_audit_path, verify_consistency_path
from satchel.crypto.sealed_records import digest, open_record
from satchel.errors import EmptyInputError, MalformedError, UnknownFormatError, ValueRefusedError
from satchel.model.records import RECORD_CLASSES

VECTORS = Path(__file__).parent.parent / "vectors"
ARTIFACTS = VECTORS / "artifacts"


def load(name: str) -> Any:
    """Return a file of vectors."""
    return json.loads((VECTORS / name).read_text())


def one_test_per_case(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """Run a test once for each case, under the name of the case."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case["name"])


def read_json(data: bytes) -> Any:
    """Read one strict JSON value."""
    reader = JsonReader(io.BytesIO(data), "vector")
    value = reader.value()
    reader.end()
    return check_value(value)


def read_cbor(data: bytes) -> Any:
    """Read one strict CBOR item."""
    reader = CborReader(io.BytesIO(data), "vector", again=io.BytesIO(data))
    value = reader.value()
    reader.end()
    return value


CANONICAL, REFUSED, RECORDS = load("canonical.json"), load("refused.json"), load("records.json")
TREE, SIGNATURES, FILES = (
    load("tree.json"),
    load("signatures.json"),
    load("artifacts/artifacts.json"),
)


@one_test_per_case(CANONICAL["cases"])
def test_every_canonical_vector_is_written_and_read_back(case: dict[str, Any]) -> None:
    """A value has one canonical text and one CBOR item, and both are read back."""
    value, text = read_json(case["input"].encode()), case["canonical"].encode()
    assert canonical(value) == text
    assert encode(value).hex() == case["cbor"]
    assert canonical(read_cbor(bytes.fromhex(case["cbor"]))) == text
    assert canonical(decode_canonical(text)) == text


@one_test_per_case(REFUSED["json"])
def test_every_refused_json_vector_is_refused_by_both_readers(case: dict[str, Any]) -> None:
    """What is not strict JSON raises a typed error, whole or as a stream."""
    data = bytes.fromhex(case["input_hex"])
    with pytest.raises((MalformedError, ValueRefusedError)):
        read_json(data)
    with pytest.raises(MalformedError):
        decode_canonical(data)


@one_test_per_case(REFUSED["cbor"])
def test_every_refused_cbor_vector_is_refused(case: dict[str, Any]) -> None:
    """What is not deterministic CBOR in the JSON domain raises a typed error."""
    with pytest.raises(MalformedError):
        read_cbor(bytes.fromhex(case["input_hex"]))


@one_test_per_case(RECORDS["cases"])
def test_every_record_vector_has_the_stated_id(case: dict[str, Any]) -> None:
    """The id is the hash of the canonical bytes without it, and the model accepts the record."""
    value = read_json(case["input"].encode())
    line = canonical(value)
    assert line == case["canonical"].encode()
    hashed = canonical({name: part for name, part in value.items() if name != "id"})
    assert hashed == case["hashed"].encode()
    assert digest(hashed) == case["id"]
    record, model = open_record(line)
    assert (record.id, model.id, record.type) == (case["id"], case["id"], value["type"])


@one_test_per_case(RECORDS["wrong"])
def test_every_record_vector_with_a_wrong_id_is_refused(case: dict[str, Any]) -> None:
    """A record whose id does not match is never opened."""
    with pytest.raises(MalformedError):
        open_record(canonical(read_json(case["input"].encode())))


def test_the_record_vectors_include_every_type() -> None:
    """A second implementation finds an example of each record type."""
    assert {json.loads(case["input"])["type"] for case in RECORDS["cases"]} == set(RECORD_CLASSES)


def test_the_tree_vectors_are_reproduced() -> None:
    """Leaves, roots, paths and proofs are those of the vectors."""
    leaves = [record_leaf(*leaf["input"]) for leaf in TREE["leaves"]]
    assert [leaf.hex() for leaf in leaves] == [leaf["hash"] for leaf in TREE["leaves"]]
    for case in TREE["roots"]:
        assert f"blake3:{root_of(leaves[: case['size']]).hex()}" == case["root"]
    for case in TREE["audit"]:
        root, path = root_of(leaves[: case["size"]]), [*map(bytes.fromhex, case["path"])]
        assert verify_audit_path(leaves[case["index"]], case["index"], case["size"], path, root)
    for case in TREE["consistency"]:
        proof = [*map(bytes.fromhex, case["proof"])]
        old, new = root_of(leaves[: case["old"]]), root_of(leaves[: case["new"]])
        assert verify_consistency_path(case["old"], old, case["new"], new, proof)


@one_test_per_case(TREE["wrong_audit"])
def test_every_invalid_path_vector_is_refused(case: dict[str, Any]) -> None:
    """A path is valid for one leaf at one position of one tree."""
    leaf, root = bytes.fromhex(case["leaf"]), bytes.fromhex(case["root"])
    path = [*map(bytes.fromhex, case["path"])]
    assert not verify_audit_path(leaf, case["index"], case["size"], path, root)


@one_test_per_case(TREE["wrong_consistency"])
def test_every_invalid_consistency_vector_is_refused(case: dict[str, Any]) -> None:
    """A proof is valid for one pair of trees."""
    old, new = bytes.fromhex(case["old_root"]), bytes.fromhex(case["new_root"])
    proof = [*map(bytes.fromhex, case["proof"])]
    assert not verify_consistency_path(case["old"], old, case["new"], new, proof)


@one_test_per_case(SIGNATURES["keys"])
def test_every_key_vector_has_its_did(case: dict[str, Any]) -> None:
    """A seed has one public key, and that has one text."""
    public = bytes.fromhex(case["public"])
    assert SigningKey.from_seed(bytes.fromhex(case["seed"])).did == did_key(public) == case["did"]
    assert public_key(case["did"]) == public


@one_test_per_case(SIGNATURES["bad_keys"])
def test_every_invalid_key_vector_is_refused_when_read(case: dict[str, Any]) -> None:
    """Before any signature is checked."""
    with pytest.raises(MalformedError):
        public_key(case["did"])


@one_test_per_case(SIGNATURES["signatures"])
def test_every_signature_vector_is_valid_only_for_its_type(case: dict[str, Any]) -> None:
    """A signature of one payload type is never accepted as another."""
    signature = Signature(key=case["key"], sig=case["sig"])
    payload = case["payload"].encode()
    for kind in PayloadType:
        message = pae(kind, payload)
        is_own = kind == case["type"]
        assert (message.hex() == case["pae_hex"]) == is_own
        assert keys._check(message, signature).valid == is_own


@one_test_per_case(SIGNATURES["bad_signatures"])
def test_every_invalid_signature_vector_is_refused(case: dict[str, Any]) -> None:
    """A signature has exactly one form."""
    signature = Signature(key=case["key"], sig=case["sig"])
    (found,) = check(PayloadType(case["type"]), json.loads(case["payload"]), [signature])
    assert not found.valid
    assert found.problem


def outcome(data: bytes, folder: Path, trusted: list[str], name: str = "file") -> str:
    """Return the verdict; a file of unknown format counts as malformed."""
    path = folder / name
    path.write_bytes(data)
    try:
        result = verify_artifact(
            path, TrustPolicy(keys=frozenset(trusted)), VerificationRequest(deep=True)
        )
    except (EmptyInputError, UnknownFormatError):
        return "malformed"
    return result.outcome.value


@pytest.mark.parametrize("name", FILES["files"])
def test_every_sample_artifact_is_good_in_its_encoding(name: str, tmp_path: Path) -> None:
    """One memory under one signature verifies in each encoding, with the same totals."""
    path = ARTIFACTS / name
    assert outcome(path.read_bytes(), tmp_path, FILES["trusted"]) == "good"
    assert outcome(path.read_bytes(), tmp_path, []) == "untrusted"
    with open_artifact(path, Limits()) as artifact:
        assert artifact.body.hash() == FILES["body_hash"] == artifact.statement.body_hash
        assert artifact.statement.root_hash == FILES["root_hash"]
        assert artifact.statement.counts == FILES["counts"]
        assert [signature.key for signature in artifact.signatures] == [FILES["signer"]]
        values = [json.loads(line.data) for line in artifact.body.lines()]
        assert [value["id"] for value in values if "id" in value] == FILES["ids"]


@pytest.mark.parametrize(
    "case", FILES["variants"], ids=lambda case: f"{case['base']}: {case['name']}"
)
def test_every_edited_artifact_has_the_expected_verdict(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """An edit of a sealed file is distinguished from another encoding of the same value."""
    data, offset = (ARTIFACTS / case["base"]).read_bytes(), case["offset"]
    edited = data[:offset] + bytes.fromhex(case["replace_hex"]) + data[offset + case["remove"] :]
    assert outcome(edited, tmp_path, FILES["trusted"]) in case["expect"]


@one_test_per_case(FILES["whole"])
def test_every_unusual_artifact_has_the_expected_verdict(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """Two implementations agree about files with faults of the signer."""
    assert outcome(case["text"].encode(), tmp_path, FILES["trusted"]) in case["expect"]


def test_the_generator_reproduces_the_vectors(tmp_path: Path) -> None:
    """Byte for byte; the generator does not use this package."""
    copy = tmp_path / "vectors"
    copy.mkdir()
    shutil.copy(VECTORS / "make.py", copy)
    shutil.copytree(
        VECTORS / "makers", copy / "makers", ignore=shutil.ignore_patterns("__pycache__")
    )
    subprocess.run([sys.executable, "-B", copy / "make.py"], check=True, capture_output=True)
    made = {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*.json")}
    made |= {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*.pam*")}
    assert {Path("records.json"), Path("artifacts/small.pam.cbor")} <= made.keys()
    for name, data in made.items():
        assert (VECTORS / name).read_bytes() == data, name
    kept = {path.relative_to(VECTORS) for path in VECTORS.rglob("*.json")}
    assert kept <= made.keys()


def test_a_second_implementation_in_javascript_agrees() -> None:
    """It checks every vector and shares no code with this package."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed; the JavaScript checker needs it")
    done = subprocess.run(
        [node, VECTORS / "check.mjs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all vectors hold\n")


def test_the_generators_do_not_import_the_package() -> None:
    """The vectors are independent of the code that they test."""
    for path in [VECTORS / "make.py", *(VECTORS / "makers").glob("*.py")]:
        assert "satchel." not in path.read_text().replace("vnd.satchel.", ""), path
