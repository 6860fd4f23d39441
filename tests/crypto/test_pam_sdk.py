"""Profile ``pam-sdk-1.0``: the vectors of the reference, verdicts, and attacks."""

import gzip
import io
import json
import struct
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.artifact.pam_sdk.layout import (
    CAPS,
    COMPONENTS,
    check_json,
    content_text,
    entry_id,
    is_signed_by,
    parents_first,
    root_hash,
    sdk_text,
    sign_root,
)
from satchel.artifact.pam_sdk.reader import open_sdk_file
from satchel.artifact.pam_sdk.verifier import CLAIM, NOT_COVERED, verify_sdk_file
from satchel.artifact.pam_sdk.writer import dump_cbor, dump_json, make_document, make_entry
from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import verify_file
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.cbor import CborReader
from satchel.crypto.key_files import TrustedKey, TrustRegistry
from satchel.crypto.keys import SigningKey, did_key
from satchel.errors import LimitError, MalformedError, UnknownFormatError

AT = "2026-01-02T03:04:05+00:00"
PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
ENVELOPE: dict[str, Any] = {
    "created_at": AT,
    "source_agent": {"name": "n", "model_family": "m", "runtime": "r", "version": ""},
}
NOBODY = TrustPolicy()

VECTORS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "episodic",
        {},
        (
            '{"actor":"","created_at":"2026-01-02T03:04:05+00:00","event_type":"observation",'
            '"observation":"","parent_ids":[],"salience":0.5,"schema_version":"1.0","tags":[],'
            '"timestamp":""}'
        ),
        "blake3:9e5786bd66d4a83b89f70aed5a733dec9ebcccf7d5a25b05a01d9a51cecda32b",
    ),
    (
        "episodic",
        {
            "actor": "user",
            "event_type": "interaction",
            "observation": "User prefers dark mode",
            "salience": 0.9,
            "tags": ["ui", "pref"],
            "timestamp": "2026-01-01T00:00:00Z",
        },
        (
            '{"actor":"user","created_at":"2026-01-02T03:04:05+00:00","event_type":"interaction",'
            '"observation":"User prefers dark mode","parent_ids":[],"salience":0.9,'
            '"schema_version":"1.0","tags":["ui","pref"],"timestamp":"2026-01-01T00:00:00Z"}'
        ),
        "blake3:c1111578d33313e4edf917a3de5eddd9cf9e34b2fc146ed9ac2454cc914e9688",
    ),
    (
        "semantic",
        {
            "subject": "caf\u00e9",
            "predicate": "is",
            "object": "\u597d \U0001f600",
            "confidence": 1.0,
        },
        (
            '{"confidence":1.0,"created_at":"2026-01-02T03:04:05+00:00",'
            '"object":"\\u597d \\ud83d\\ude00","parent_ids":[],"predicate":"is",'
            '"schema_version":"1.0","source_event_ids":[],"subject":"caf\\u00e9","tags":[]}'
        ),
        "blake3:7bfefb32a6fdea1e0e04d7430f13938a470a3331605bd1f30040d16e58be7d17",
    ),
    (
        "procedural",
        {
            "body": "kubectl apply",
            "description": "Deploy",
            "language": "shell",
            "name": "deploy",
            "parameters": [{"a": 1e-7, "b": True, "n": None, "z": 1}],
        },
        (
            '{"body":"kubectl apply","created_at":"2026-01-02T03:04:05+00:00",'
            '"description":"Deploy","language":"shell","last_used":null,"name":"deploy",'
            '"parameters":[{"a":1e-07,"b":true,"n":null,"z":1}],"parent_ids":[],'
            '"preconditions":[],"schema_version":"1.0","tags":[],"usage_count":0}'
        ),
        "blake3:7b37fd6e698ed9ca60413ae278364c9e8e783b1dc6d0f9948162df8e27f54235",
    ),
    (
        "identity",
        {"persona": "Dev", "policies": ["p1"], "preferences": {"style": "concise"}},
        (
            '{"created_at":"2026-01-02T03:04:05+00:00","custom_instructions":"","language":"en",'
            '"parent_ids":[],"persona":"Dev","policies":["p1"],'
            '"preferences":{"style":"concise"},"schema_version":"1.0","tags":[]}'
        ),
        "blake3:abd606eea400c9401b1abdc20e7242a16bcee941d6f1538f0bbe4986a89bb885",
    ),
]
ROOT = "blake3:3c03306058191d29d2b6c853fa8037a32ecaab8a67019af7e272fda5f9b8bf30"
SIGNATURE = (
    "8add5045f1113430072ce25e0763a6b3a363a9fe011487f527329949a4527aea"
    "1f9629415faf50d42893b5d254095e845c242968f46ebcf2a3b64f45699d7b0b"
)


def document(key: SigningKey | None = None) -> dict[str, Any]:
    """Return a file with one entry of each type; the semantic one has a parent."""
    episodic = make_entry("episodic", {"created_at": AT, "observation": "seen", "salience": 1.0})
    parents = [episodic["id"]]
    components: dict[str, list[dict[str, Any]]] = {
        "episodic": [episodic],
        "semantic": [{"created_at": AT, "subject": "a", "confidence": 1.0, "parent_ids": parents}],
        "procedural": [{"created_at": AT, "name": "p", "parameters": [{"x": 1.0}]}],
        "working": [{"created_at": AT, "scratch": "s"}],
        "identity": [{"created_at": AT, "preferences": {"style": "polite", "limit": None}}],
    }
    return make_document(components, ENVELOPE, key)


class FileVerifier:
    """Writes files and verifies them with the function that every interface uses."""

    def __init__(self, folder: Path, key: SigningKey) -> None:
        self.path = folder / "file.pam"
        self.key = key
        self.policy = TrustPolicy(keys=frozenset([key.did]))

    def __call__(self, data: bytes, policy: TrustPolicy | None = None) -> Verification:
        """Return the verdict on some bytes, with the test key trusted."""
        self.path.write_bytes(data)
        return verify_file(self.path, policy or self.policy)

    def edited(self, edit: Callable[[dict[str, Any]], object]) -> Verification:
        """Return the verdict on the signed file after an edit."""
        changed = document(self.key)
        edit(changed)
        return self(json.dumps(changed).encode())

    def refusal(self, data: bytes) -> Verification:
        """Assert that the bytes are malformed, and return the verdict."""
        found = self(data)
        assert found.outcome is Outcome.MALFORMED
        assert found.outcomes == [Outcome.MALFORMED]
        assert found.exit_status == 4
        assert found.steps[0].state == "failed"
        assert {step.state for step in found.steps[1:]} == {"not run"}
        return found


@pytest.fixture
def judge(tmp_path: Path, key: SigningKey) -> FileVerifier:
    """A verifier that trusts the test key."""
    return FileVerifier(tmp_path, key)


# -- vectors of the reference --------------------------------------------------------------


@pytest.mark.parametrize(("component", "members", "text", "identity"), VECTORS)
def test_an_entry_has_the_id_of_the_reference(
    component: str, members: dict[str, Any], text: str, identity: str
) -> None:
    """Vectors V1 to V5: the hashed text, byte for byte, and the id."""
    entry = make_entry(component, {"created_at": AT, **members})

    assert content_text(entry) == text
    assert entry["id"] == entry_id(entry) == identity


def test_the_root_and_its_signature_are_those_of_the_reference(key: SigningKey) -> None:
    """The root over V2 and V3, its signature by seed 00..1f, and the root of an empty list."""
    entries = {
        component: [{"created_at": AT, **members}]
        for component, members, _, _ in (VECTORS[1], VECTORS[2])
    }
    made = make_document(entries, ENVELOPE, key)

    assert made["root_hash"] == ROOT
    assert made["signature"] == sign_root(ROOT, key) == SIGNATURE
    assert is_signed_by(ROOT, SIGNATURE, bytes.fromhex(PUBLIC))
    assert root_hash([]).startswith("blake3:d53d18c2")
    assert root_hash([]).endswith("bbd5ab")


def test_json_and_cbor_have_the_layout_of_the_sdk(key: SigningKey) -> None:
    """JSON: two spaces, ASCII, no final newline. CBOR: a map of 13 in writing order."""
    made = document(key)

    assert dump_json(made).startswith(b'{\n  "pam_version": "1.0",\n  "schema_version": "1.0",')
    assert dump_json(made).endswith(b"\n}")
    assert dump_cbor(made)[:8] == bytes.fromhex("ad6b70616d5f7665")
    assert cbor2.loads(dump_cbor(made)) == json.loads(dump_json(made)) == made


@pytest.mark.shared
def test_the_samples_of_the_reference_are_written_byte_for_byte(
    shared_data: Path, key: SigningKey
) -> None:
    """Entries and envelope of sample 01 give exactly its JSON and its CBOR file."""
    folder = shared_data / "pam-sdk"
    sample = (folder / "01_signed.pam").read_bytes()
    value = json.loads(sample)
    components = {name: value.pop(name) for name in COMPONENTS}
    made = make_document(components, value, key)

    assert dump_json(made) == sample
    assert dump_cbor(made) == (folder / "01_signed.pam.cbor").read_bytes()


@pytest.mark.parametrize("component", ["working", "identity"])
def test_a_list_longer_than_the_sdk_loads_is_not_written(component: str) -> None:
    """The SDK saves 1,001 working entries and can never load them; Satchel does not write them."""
    entries = [
        {"created_at": f"{AT} {number}", "tags": [str(number)]}
        for number in range(CAPS[component] + 1)
    ]
    with pytest.raises(LimitError, match="at most"):
        make_document({component: entries}, ENVELOPE)


# -- verdicts ------------------------------------------------------------------------------


def test_a_trusted_sdk_file_is_entries_only_and_lists_uncovered_members(
    judge: FileVerifier,
) -> None:
    """The best verdict of this profile is entries-only."""
    found = judge(dump_json(document(judge.key)))

    assert found.outcomes == [Outcome.ENTRIES_ONLY]
    assert not found
    assert found.exit_status == 3
    assert found.notes == [f"{CLAIM}{name}" for name in NOT_COVERED]
    assert found.records == dict.fromkeys(COMPONENTS, 1)
    assert [signer.key for signer in found.signers] == [judge.key.did]
    assert [step.state for step in found.steps] == [
        *["passed"] * 4,
        "not run",
        *["passed"] * 2,
        "not run",
    ]
    assert all(step.detail for step in found.steps)


def test_json_cbor_compact_and_gzip_get_the_same_verdict(judge: FileVerifier) -> None:
    """The profile is strict about types, not about layout."""
    made = document(judge.key)
    for data in (
        dump_json(made),
        dump_cbor(made),
        json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode(),
        cbor2.dumps(made, canonical=True),
        gzip.compress(dump_json(made)),
        b"\xbf" + dump_cbor(made)[1:] + b"\xff",
    ):
        assert judge(data).outcomes == [Outcome.ENTRIES_ONLY]


def test_an_unknown_key_is_untrusted_and_entries_only(judge: FileVerifier) -> None:
    """The file names no key: without a matching key its signer is untrusted."""
    found = judge(dump_json(document(judge.key)), NOBODY)

    assert found.outcomes == [Outcome.ENTRIES_ONLY, Outcome.UNTRUSTED]
    assert found.signers == []
    assert found.exit_status == 3


def test_a_file_without_a_signature_has_the_verdict_unsigned(judge: FileVerifier) -> None:
    """An empty signature is not an invalid one."""
    assert judge(dump_json(document())).outcomes == [Outcome.UNSIGNED]


def _registry(tmp_path: Path, key: SigningKey, profile: Any) -> TrustRegistry:
    registry = TrustRegistry(tmp_path / "trust.json")
    registry.trust(TrustedKey(key=key.did, name="old bot", added_at=AT, profile=profile))
    return registry


def test_only_registry_keys_with_the_profile_are_trusted(
    judge: FileVerifier, tmp_path: Path
) -> None:
    """A key that is trusted for sealed artifacts is not trusted for files of the SDK."""
    data = dump_json(document(judge.key))
    marked = _registry(tmp_path / "a", judge.key, "pam-sdk-1.0")
    unmarked = _registry(tmp_path / "b", judge.key, "satchel")

    assert judge(data, TrustPolicy(registry=marked)).outcomes == [Outcome.ENTRIES_ONLY]
    assert judge(data, TrustPolicy(registry=marked)).signers[0].name == "old bot"
    assert Outcome.UNTRUSTED in judge(data, TrustPolicy(registry=unmarked)).outcomes
    marked.revoke(judge.key.did)
    revoked = judge(data, TrustPolicy(registry=marked))
    assert Outcome.UNTRUSTED in revoked.outcomes
    assert revoked.signers[0].trust == "revoked"
    assert (
        Outcome.UNTRUSTED
        in judge(data, TrustPolicy(registry=marked, keys=judge.policy.keys)).outcomes
    )


def test_one_signature_never_meets_a_threshold_of_two(judge: FileVerifier) -> None:
    """These files have a single signature."""
    policy = TrustPolicy(keys=judge.policy.keys, threshold=2)

    assert Outcome.UNTRUSTED in judge(dump_json(document(judge.key)), policy).outcomes


def test_a_list_over_the_caps_is_reported_and_verified(judge: FileVerifier) -> None:
    """The reader does not enforce the length limits of the SDK; it reports them."""
    many = document()
    many["identity"] = [
        make_entry("identity", {"created_at": f"{AT} {number}"}) for number in range(101)
    ]
    ids = [entry["id"] for name in COMPONENTS for entry in many[name]]
    many["root_hash"] = root_hash(ids)
    found = judge(dump_json(many))

    assert found.outcomes == [Outcome.UNSIGNED]
    assert found.notes[-1] == "the SDK loads no more than 100 identity entries"


EXPECTED = {
    "01_signed.pam": Outcome.ENTRIES_ONLY,
    "01_signed.pam.cbor": Outcome.ENTRIES_ONLY,
    "02_disclosed_sdk_descendants.pam": Outcome.INCOMPLETE,
    "03_disclosed_spec_ancestors.pam": Outcome.ENTRIES_ONLY,
    "04_tampered_text.pam": Outcome.TAMPERED,
    "05_tampered_envelope_undetected.pam": Outcome.ENTRIES_ONLY,
    "09_dangling_parent.pam": Outcome.INCOMPLETE,
}


@pytest.mark.shared
@pytest.mark.parametrize(("name", "outcome"), EXPECTED.items())
def test_a_published_sample_has_the_expected_verdict(
    shared_data: Path, name: str, outcome: Outcome
) -> None:
    """The real SDK made the samples; none is good, whether or not its key is trusted."""
    folder = shared_data / "pam-sdk"
    trusting = TrustPolicy(keys=frozenset([did_key((folder / "signer.pub").read_bytes())]))
    known = verify_file(folder / name, trusting)
    unknown = verify_file(folder / name, NOBODY)

    assert known.outcome is outcome
    assert Outcome.UNTRUSTED not in known.outcomes
    assert {Outcome.UNTRUSTED, Outcome.ENTRIES_ONLY} <= set(unknown.outcomes)
    assert not known
    assert not unknown


@pytest.mark.shared
def test_a_sample_with_another_envelope_gets_the_same_verdict(shared_data: Path) -> None:
    """01 and 05 have the same root and signature: same outcome, same list of claims."""
    folder = shared_data / "pam-sdk"
    trusting = TrustPolicy(keys=frozenset([did_key((folder / "signer.pub").read_bytes())]))
    first = verify_file(folder / "01_signed.pam", trusting)
    fifth = verify_file(folder / "05_tampered_envelope_undetected.pam", trusting)

    assert first.outcomes == fifth.outcomes == [Outcome.ENTRIES_ONLY]
    assert first.notes == fifth.notes
    assert first.findings == fifth.findings


# -- coverage of a signature of the SDK ----------------------------------------------------


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("source_agent", {**ENVELOPE["source_agent"], "name": "trusted-bank-agent"}),
        ("created_at", "1999"),
        ("pam_version", "9.9"),
        ("schema_version", "0"),
        ("metadata", {"approved_by": "security"}),
        ("capability_tokens", ["anything"]),
    ],
)
def test_d01_an_edited_envelope_is_listed_as_a_claim(
    judge: FileVerifier, member: str, value: Any
) -> None:
    """The verdict is the same before and after; the member is not covered by the signature."""
    before = judge(dump_json(document(judge.key)))
    after = judge.edited(lambda file: file.update({member: value}))

    assert after.outcomes == before.outcomes == [Outcome.ENTRIES_ONLY]
    assert after.notes == before.notes
    assert f"{CLAIM}{member}" in after.notes


def test_d04_an_edited_entry_is_tampered_and_reported(judge: FileVerifier) -> None:
    """A changed text no longer gives the id; the finding has line, field and id."""
    data = dump_json(document(judge.key)).replace(b'"seen"', b'"SEEN"')
    found = judge(data)
    finding = next(part for part in found.findings if part.outcome is Outcome.TAMPERED)

    assert found.outcome is Outcome.TAMPERED
    assert finding.field == "episodic/0"
    assert finding.line == data[: data.index(b'"observation": "SEEN"')].count(b"\n") - 7
    assert finding.id is not None


def test_d04_a_file_edited_and_rehashed_is_untrusted(judge: FileVerifier) -> None:
    """An attacker who recomputes ids and root has to sign with an unknown key."""
    other = document(SigningKey.from_seed(bytes(32)))

    assert judge(dump_json(other)).outcomes == [Outcome.ENTRIES_ONLY, Outcome.UNTRUSTED]
    assert judge.edited(lambda file: file.update(signature="")).outcomes == [Outcome.UNSIGNED]


@pytest.mark.parametrize("member", ["root_hash", "id"])
def test_d03_an_emptied_id_or_root_is_refused(judge: FileVerifier, member: str) -> None:
    """The SDK recomputes empty ids at load, so that edited text verifies."""
    changed = document(judge.key)
    (changed if member == "root_hash" else changed["semantic"][0])[member] = ""

    assert judge.refusal(dump_json(changed)).findings[0].field in ("root_hash", "semantic/0/id")


def test_a_root_of_other_ids_is_tampered(judge: FileVerifier) -> None:
    """An entry is removed from the signed set."""
    found = judge.edited(lambda file: file["identity"].clear())

    assert found.outcome is Outcome.TAMPERED
    assert found.steps[3].state == "failed"
    assert found.steps[1].state == "passed"


def test_d05_a_garbage_signature_is_untrusted_or_malformed(judge: FileVerifier) -> None:
    """128 digits of an unknown key are untrusted; anything else is malformed."""
    found = judge.edited(lambda file: file.update(signature="ab" * 64))

    assert found.outcomes == [Outcome.ENTRIES_ONLY, Outcome.UNTRUSTED]
    whole = document(judge.key)["signature"]
    for bad in ("zz" * 64, whole[:-2], whole.upper(), whole + "00", f"ed25519:{whole}", " "):
        changed = document(judge.key)
        changed["signature"] = bad
        assert judge.refusal(dump_json(changed)).findings[0].field == "signature"


@pytest.mark.parametrize("public", ["", "did:key:z", "did:key:z6Mk"])
def test_d06_an_empty_or_short_key_is_refused(judge: FileVerifier, public: str) -> None:
    """An empty key file made the SDK return True."""
    policy = TrustPolicy(keys=frozenset([public]))
    for data in (dump_json(document(judge.key)), dump_json(document())):
        found = judge(data, policy)
        assert {Outcome.UNTRUSTED, Outcome.UNSIGNED} & set(found.outcomes)
        assert not any(signer.valid for signer in found.signers)


def test_d08_a_small_order_key_is_refused(judge: FileVerifier) -> None:
    """In the SDK the identity point with R = identity, S = 0 is valid for every root."""
    identity_point = bytes([1, *[0] * 31])
    forged = (identity_point + bytes(32)).hex()

    with pytest.raises(MalformedError):
        did_key(identity_point)
    with pytest.raises(MalformedError):
        is_signed_by(root_hash([]), forged, identity_point)
    found = judge.edited(lambda file: file.update(signature=forged))
    assert Outcome.UNTRUSTED in found.outcomes


@pytest.mark.parametrize(
    ("component", "member", "value"),
    [
        ("episodic", "salience", 1),
        ("episodic", "salience", "1.0"),
        ("episodic", "salience", True),
        ("episodic", "salience", None),
        ("episodic", "salience", 1.5),
        ("episodic", "salience", -0.5),
        ("episodic", "event_type", "OBSERVATION"),
        ("episodic", "event_type", ["observation"]),
        ("semantic", "confidence", 1),
        ("semantic", "subject", None),
        ("semantic", "source_event_ids", [None]),
        ("procedural", "usage_count", "5"),
        ("procedural", "usage_count", 5.0),
        ("procedural", "usage_count", True),
        ("procedural", "language", "bash"),
        ("procedural", "last_used", 0),
        ("procedural", "parameters", ["x"]),
        ("working", "scratch", {}),
        ("working", "goals", "goal"),
        ("identity", "preferences", []),
        ("identity", "parent_ids", None),
        ("identity", "tags", {}),
        ("identity", "created_at", ""),
        ("identity", "id", "abc"),
    ],
)
def test_d16_a_coerced_value_is_refused(
    judge: FileVerifier, component: str, member: str, value: Any
) -> None:
    """The SDK turns many spellings into one id; only what it writes itself is accepted."""
    changed = document(judge.key)
    changed[component][0][member] = value

    for data in (json.dumps(changed).encode(), cbor2.dumps(changed)):
        assert judge.refusal(data).findings[0].field == f"{component}/0/{member}"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("pam_version", 1.0),
        ("source_agent", {"name": "n", "model_family": "m", "runtime": "r"}),
        ("source_agent", {**ENVELOPE["source_agent"], "extra": ""}),
        ("capability_tokens", {}),
        ("metadata", []),
        ("semantic", {}),
        ("semantic", ["entry"]),
        ("root_hash", "blake3:XYZ"),
    ],
)
def test_d16_envelope_members_of_other_types_are_refused(
    judge: FileVerifier, member: str, value: Any
) -> None:
    """The members around the entries have the types that the SDK writes."""
    changed = {**document(judge.key), member: value}

    for data in (json.dumps(changed).encode(), cbor2.dumps(changed)):
        field = judge.refusal(data).findings[0].field
        assert field is not None
        assert field.startswith(member)


def test_a_missing_or_extra_member_is_refused(judge: FileVerifier) -> None:
    """In the file, in an entry, and in the agent: exactly the members of the SDK."""
    for member in document():
        changed = document(judge.key)
        del changed[member]
        if member != "pam_version":  # without that it is no file of the SDK to begin with
            assert judge.refusal(dump_json(changed)).findings[0].field == member
    for component in COMPONENTS:
        for member in document()[component][0]:
            changed = document(judge.key)
            del changed[component][0][member]
            assert judge.refusal(dump_json(changed)).findings[0].field == f"{component}/0/{member}"
        changed = document(judge.key)
        changed[component][0]["_note"] = ""
        assert judge.refusal(dump_json(changed)).findings[0].field == f"{component}/0/_note"
    found = judge.refusal(dump_json({**document(judge.key), "x": 1}))
    assert found.findings[0].field == "x"


def test_a_file_without_a_version_is_refused_by_the_profile(judge: FileVerifier) -> None:
    """Passed directly to the profile, a file without ``pam_version`` is malformed."""
    changed = document(judge.key)
    del changed["pam_version"]
    judge.path.write_bytes(dump_json(changed))
    found = verify_sdk_file(judge.path, NOBODY, DEFAULT_LIMITS)

    assert found.outcome is Outcome.MALFORMED
    assert found.findings[0].field == "pam_version"


def test_d17_a_duplicate_key_in_an_entry_is_refused(judge: FileVerifier) -> None:
    """In the SDK the last one wins, so two readers see two texts under one signature."""
    data = dump_json(document(judge.key)).replace(b'"seen"', b'"x", "observation": "seen"')

    assert judge.refusal(data).findings[0].field == "episodic/0/observation"
    nested = dump_json(document(judge.key)).replace(b'"polite"', b'"rude", "style": "polite"')
    assert judge.refusal(nested).findings[0].field == "identity/0/style"


def test_d18_a_second_array_of_a_type_is_refused(judge: FileVerifier) -> None:
    """A complete ``episodic`` in front of the real one."""
    signed = dump_json(document(judge.key))
    twice = signed.replace(b'  "episodic": [', b'  "episodic": [],\n  "episodic": [')

    assert judge.refusal(twice).findings[0].field == "episodic"
    made = dump_cbor(document(judge.key))
    key = cbor2.dumps("episodic")
    again = b"\xae" + made[1:].replace(key, key + b"\x80" + key, 1)
    assert judge.refusal(again).findings[0].byte is not None


def test_d28_a_byte_string_key_before_the_text_key_is_refused(judge: FileVerifier) -> None:
    """E05: it hashes like the signed file and shows the injected text."""
    changed = document(judge.key)
    changed["identity"][0]["preferences"] = {b"style": "obey", "style": "polite", "limit": None}
    found = judge.refusal(cbor2.dumps(changed))

    assert "a key that is not text" in found.findings[0].message
    assert found.findings[0].byte is not None


@pytest.mark.parametrize("odd", [1, None, True, 1.0])
def test_d29_a_key_that_is_not_text_is_refused(judge: FileVerifier, odd: Any) -> None:
    """An integer key 1 before "1" is the same attack."""
    changed = document(judge.key)
    changed["identity"][0]["preferences"] = {odd: "obey", "style": "polite", "limit": None}

    assert "key" in judge.refusal(cbor2.dumps(changed)).findings[0].message


@pytest.mark.parametrize(
    "value",
    [b"polite", Decimal("1.5"), uuid.UUID(int=7), datetime(2026, 1, 1, tzinfo=UTC), 2**70, {1}],
)
def test_d30_a_value_that_only_prints_like_the_signed_one_is_refused(
    judge: FileVerifier, value: Any
) -> None:
    """In the SDK bytes, decimals, UUIDs and dates have the id of their text."""
    changed = document(judge.key)
    changed["identity"][0]["preferences"]["style"] = value

    message = judge.refusal(cbor2.dumps(changed)).findings[0].message
    assert "bytes is not JSON" in message or "a tag" in message


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "NaN", "1e400", "-1E999"])
def test_e06_infinity_in_place_of_null_is_refused(judge: FileVerifier, text: str) -> None:
    """In the SDK all of these hash as null and are shown as inf."""
    data = dump_json(document(judge.key)).replace(b'"limit": null', b'"limit": %b' % text.encode())

    assert judge.refusal(data).findings[0].line is not None


@pytest.mark.parametrize(
    "head", [b"\xf9\x7c\x00", b"\xfa\x7f\xc0\x00\x00", b"\xfb\xff\xf0" + bytes(6)]
)
def test_e06_infinity_in_cbor_is_refused(judge: FileVerifier, head: bytes) -> None:
    """In each of the three widths."""
    key = cbor2.dumps("limit")
    data = dump_cbor(document(judge.key)).replace(key + b"\xf6", key + head)

    assert judge.refusal(data).findings[0].message == "a number that is not finite"


@pytest.mark.parametrize(
    "head", [b"\xf7", b"\xe0", b"\xf8\x20", b"\xfc", b"\x1c", b"\xff", b"\xd8\x1d\x00"]
)
def test_cbor_items_without_a_json_value_are_refused(judge: FileVerifier, head: bytes) -> None:
    """CBOR has values that JSON lacks, and heads that are not valid CBOR."""
    key = cbor2.dumps("limit")
    data = dump_cbor(document(judge.key)).replace(key + b"\xf6", key + head)

    assert judge.refusal(data).findings[0].byte is not None


def test_d32_bytes_after_the_end_are_refused(judge: FileVerifier) -> None:
    """The SDK ignores them; a second file could follow."""
    made = document(judge.key)

    assert "after the end" in judge.refusal(dump_cbor(made) + b"\x00").findings[0].message
    assert "after the end" in judge.refusal(dump_json(made) + b"{}").findings[0].message
    assert judge(dump_json(made) + b"\n").outcomes == [Outcome.ENTRIES_ONLY]


def test_d31_magic_bytes_are_refused_in_an_sdk_file(judge: FileVerifier) -> None:
    """With magic bytes it would have to be a sealed artifact, and is not one."""
    judge.path.write_bytes(b"PAM\x01" + dump_cbor(document(judge.key)))

    assert verify_file(judge.path, judge.policy).outcome is Outcome.MALFORMED
    found = verify_sdk_file(judge.path, judge.policy, DEFAULT_LIMITS)
    assert found.outcome is Outcome.MALFORMED


@pytest.mark.timeout(10)
def test_d34_a_bomb_of_shared_references_is_refused_immediately(judge: FileVerifier) -> None:
    """Tags 28 and 29 double the value at each level; the first tag is refused."""
    bomb = b"\xd8\x1c\x80"
    for level in range(27):
        bomb = b"\xd8\x1c\x82" + bomb + b"\xd8\x1d" + bytes([level])
    key = cbor2.dumps("limit")
    data = dump_cbor(document(judge.key)).replace(key + b"\xf6", key + bomb)

    assert "a tag" in judge.refusal(data).findings[0].message


def test_d35_a_list_that_contains_itself_is_refused(judge: FileVerifier) -> None:
    """The SDK loads it and fails when it saves it."""
    key = cbor2.dumps("limit")
    data = dump_cbor(document(judge.key)).replace(key + b"\xf6", key + b"\xd8\x1c\x81\xd8\x1d\x00")

    assert "a tag" in judge.refusal(data).findings[0].message


@pytest.mark.parametrize("levels", [64, 300, 100_000])
def test_d37_deep_nesting_is_refused(judge: FileVerifier, levels: int) -> None:
    """One level too many, 300, and 10^5: an error, never a crash."""
    text = dump_json(document(judge.key)).replace(
        b'"metadata": {}', b'"metadata": {"x": %b%b}' % (b"[" * levels, b"]" * levels)
    )
    made = dump_cbor(document(judge.key))
    assert made.endswith(b"\xa0")

    assert judge.refusal(text).findings[0].field == "metadata"
    assert judge.refusal(made[:-1] + b"\xa1\x61x" + b"\x81" * levels + b"\x80").findings[0].byte


def test_d37_64_levels_are_allowed(judge: FileVerifier) -> None:
    """The limit counts from the outermost bracket of an entry or an envelope member."""
    text = dump_json(document(judge.key)).replace(
        b'"metadata": {}', b'"metadata": {"x": %b%b}' % (b"[" * 63, b"]" * 63)
    )

    assert judge(text).outcomes == [Outcome.ENTRIES_ONLY]
    made = dump_cbor(document(judge.key))[:-1] + b"\xa1\x61x" + b"\x81" * 62 + b"\x80"
    assert judge(made).outcomes == [Outcome.ENTRIES_ONLY]


def test_lone_surrogates_are_refused_at_any_depth(judge: FileVerifier) -> None:
    """E07: the SDK saves them and never loads them again."""
    data = dump_json(document(judge.key))
    for text in (b'"\\ud800"', b"[" * 900 + b'"\\udfff"' + b"]" * 900):
        judge.refusal(data.replace(b'"limit": null', b'"limit": ' + text))


def test_e02_an_entry_with_the_id_of_another_is_tampered(judge: FileVerifier) -> None:
    """E03: with a matching root and no signature, it must not pass for the real entry."""
    squatted = document()
    genuine = squatted["semantic"][0]["id"]
    squatted["semantic"][0]["subject"] = "something else"
    found = judge(dump_json(squatted))

    assert found.outcomes == [Outcome.TAMPERED, Outcome.UNSIGNED]
    assert [part.id for part in found.findings if part.id] == [genuine]


def test_a_duplicate_id_is_refused_in_an_sdk_file(judge: FileVerifier) -> None:
    """In one array or in two."""
    twice = document()
    twice["semantic"] *= 2
    finding = judge.refusal(dump_json(twice)).findings[0]

    assert finding.field == "semantic/1/id"
    assert finding.line is not None


def test_d12_entries_that_cite_each_other_are_tampered(judge: FileVerifier) -> None:
    """Forged ids can form a cycle; it is detected without recursion and reported."""
    forged = document()
    first, second = forged["episodic"][0], forged["semantic"][0]
    first["parent_ids"], second["parent_ids"] = [second["id"]], [first["id"]]
    found = judge(dump_json(forged))

    assert found.outcome is Outcome.TAMPERED
    assert "an entry is its own ancestor" in [part.message for part in found.findings]
    assert found.steps[6].state == "failed"


def test_d11_a_dangling_parent_is_incomplete_and_a_dangling_source_is_noted(
    judge: FileVerifier,
) -> None:
    """The SDK checks neither."""
    absent = root_hash([])
    entry = {"created_at": AT, "parent_ids": [absent], "source_event_ids": [absent, "free text"]}
    found = judge(dump_json(make_document({"semantic": [entry]}, ENVELOPE, judge.key)))

    assert found.outcomes == [Outcome.INCOMPLETE, Outcome.ENTRIES_ONLY]
    assert absent in found.findings[-1].message
    assert "2 source events are not in this file" in found.notes


def test_a_mixture_with_a_sealed_artifact_is_refused(judge: FileVerifier) -> None:
    """A file has exactly one format, whatever the order of its members."""
    for extra in ("statement", "components", "signatures"):
        found = judge.refusal(dump_json({**document(judge.key), extra: {}}))
        assert "both" in found.findings[0].message


def test_a_file_over_the_limits_is_refused(judge: FileVerifier) -> None:
    """50 MiB, or the configured limit when that is less."""
    judge.path.write_bytes(dump_json(document(judge.key)))
    found = verify_sdk_file(judge.path, judge.policy, Limits(document_bytes=100))
    assert found.outcome is Outcome.MALFORMED
    assert "over the limit" in found.findings[0].message
    with judge.path.open("wb") as stream:
        stream.write(b"{")
        stream.truncate(50 * 2**20 + 1)
    found = verify_sdk_file(judge.path, judge.policy, DEFAULT_LIMITS)
    assert "over the limit" in found.findings[0].message


def test_an_integer_too_long_to_print_is_refused_in_an_sdk_file(judge: FileVerifier) -> None:
    """CPython neither reads nor prints more than 4,300 digits."""
    data = dump_json(document(judge.key)).replace(b'"limit": null', b'"limit": ' + b"9" * 5_000)

    assert "digits" in judge.refusal(data).findings[0].message


def test_a_value_with_too_many_items_is_refused(judge: FileVerifier, tmp_path: Path) -> None:
    """A byte of CBOR can take fifty bytes of memory, so the items of a value are limited."""
    made = dump_cbor(document(judge.key))[:-1] + b"\xa1\x61x\x9f" + b"\x80" * 9_000 + b"\xff"
    (tmp_path / "f.cbor").write_bytes(made)
    found = verify_sdk_file(tmp_path / "f.cbor", judge.policy, Limits(line_bytes=5_000))

    assert found.outcome is Outcome.MALFORMED
    assert "larger than 5000 bytes" in found.findings[0].message


@pytest.mark.timeout(60)
def test_a_claimed_length_reserves_no_memory(judge: FileVerifier) -> None:
    """A map, an array and a text of 2^64-1 parts in a file of a few bytes."""
    for head in (b"\xbb", b"\x9b", b"\x7b"):
        data = b"\xad" + cbor2.dumps("metadata") + head + b"\xff" * 8
        assert judge.refusal(data).findings[0].byte is not None


# -- flipped bytes and truncation ----------------------------------------------------------


def _contents(path: Path) -> set[str]:
    with open_sdk_file(path, DEFAULT_LIMITS) as opened:
        return {content_text(entry.value) for entry in opened.entries()}


@pytest.mark.parametrize("dump", [dump_json, dump_cbor])
def test_every_flipped_byte_is_detected_or_outside_the_signed_part(
    judge: FileVerifier, dump: Callable[[dict[str, Any]], bytes]
) -> None:
    """When the verdict does not change, the entries are exactly those that were signed."""
    small = make_document(
        {"semantic": [{"created_at": AT, "subject": "a", "tags": ["t"]}]}, ENVELOPE, judge.key
    )
    data = dump(small)
    judge(data)
    signed = _contents(judge.path)
    for position in range(len(data)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(data)
            changed[position] ^= flip
            try:
                survived = judge(bytes(changed)).outcomes == [Outcome.ENTRIES_ONLY]
            except UnknownFormatError:
                continue
            assert not survived or _contents(judge.path) == signed


@pytest.mark.parametrize("dump", [dump_json, dump_cbor])
def test_every_truncation_is_refused(
    judge: FileVerifier, dump: Callable[[dict[str, Any]], bytes]
) -> None:
    """A truncated file is malformed at every offset."""
    data = dump(document(judge.key))
    for length in range(1, len(data)):
        judge.path.write_bytes(data[:length])
        assert verify_sdk_file(judge.path, judge.policy, DEFAULT_LIMITS).outcome is (
            Outcome.MALFORMED
        )


# -- the CBOR reader and the order ---------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\u00e9$"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(value=VALUES, canonical=st.booleans(), indefinite=st.booleans())
def test_any_json_value_round_trips_through_cbor(
    value: Any,
    canonical: bool,  # noqa: FBT001
    indefinite: bool,  # noqa: FBT001
) -> None:
    """Including types: 1 stays 1 and 1.0 stays 1.0, in any layout."""
    data = cbor2.dumps(value, canonical=canonical, indefinite_containers=indefinite)
    reader = CborReader(io.BytesIO(data), "data")
    found = reader.value()
    reader.end()
    again = cbor2.loads(data)

    assert sdk_text(found) == sdk_text(again)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_json_value_or_refused(data: bytes) -> None:
    """No bytes crash the reader, and none give a value outside of JSON."""
    reader = CborReader(io.BytesIO(data), "data")
    with suppress(MalformedError):
        found = reader.value()
        reader.end()
        check_json(found)
        json.dumps(found, allow_nan=False)


def test_indefinite_texts_and_short_floats_are_read() -> None:
    """Indefinite texts and half and single floats are other spellings of the same values."""
    for data, value in (
        (b"\x7f\x62ab\x61c\xff", "abc"),
        (b"\xf9\x3c\x00", 1.0),
        (b"\xfa" + struct.pack(">f", 0.5), 0.5),
        (b"\x9f\x01\xff", [1]),
        (b"\x38\x63", -100),
    ):
        found = CborReader(io.BytesIO(data), "data").value()
        assert (found, type(found)) == (value, type(value))
    for data in (b"\x7f\x41a\xff", b"\x7f\x7f\x61a\xff\xff", b"\x62\xc3\x28", b"\x5f\xff"):
        with pytest.raises(MalformedError):
            check_json(CborReader(io.BytesIO(data), "data").value())


@given(
    edges=st.dictionaries(
        st.integers(0, 30).map(str), st.lists(st.integers(0, 30).map(str), max_size=4), max_size=20
    )
)
def test_parents_come_first_in_acyclic_links(edges: dict[str, list[str]]) -> None:
    """Each id comes once, after its parents."""
    downwards = {
        node: [link for link in links if int(link) < int(node)] for node, links in edges.items()
    }
    order = list(parents_first(downwards))

    assert sorted(order) == sorted(downwards)
    for node, links in downwards.items():
        assert all(order.index(link) < order.index(node) for link in links if link in downwards)


def test_a_long_chain_is_ordered_without_recursion() -> None:
    """100,000 entries, each the child of the next."""
    edges = {str(number): [str(number + 1)] for number in range(100_000)}

    assert next(parents_first(edges)) == "99999"


def test_writing_an_integer_beyond_64_bits_as_cbor_is_refused() -> None:
    """It would need a tag, which the reader refuses; JSON can hold it."""
    made = make_document({"identity": [{"created_at": AT, "preferences": {"n": 2**70}}]}, ENVELOPE)

    assert json.loads(dump_json(made)) == made
    with pytest.raises(LimitError, match="64 bits"):
        dump_cbor(made)


def test_the_writer_refuses_what_its_reader_would_refuse() -> None:
    """Coerced members, unknown members, and a duplicate entry."""
    for entry in ({"created_at": AT, "salience": 1}, {"created_at": AT, "x": ""}, {}):
        with pytest.raises(MalformedError):
            make_entry("episodic", entry)
    with pytest.raises(MalformedError, match="the same"):
        make_document({"episodic": [{"created_at": AT}, {"created_at": AT}]}, ENVELOPE)
    for envelope in ({}, {**ENVELOPE, "source_agent": {}}, {**ENVELOPE, "x": 1}):
        with pytest.raises(MalformedError):
            make_document({}, envelope)
