"""What a statement may not say (SEAL-3.15)."""

from pathlib import Path
from typing import Any

import pytest
from artifact_kit import entry, sealed_file, sections

from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import verify_artifact
from satchel.crypto.keys import SigningKey


@pytest.mark.parametrize(
    ("claims", "outcome"),
    [
        ({"source_agent": {"name": None}}, Outcome.MALFORMED),
        ({"source_agent": {"name": "helper"}}, Outcome.GOOD),
        ({"scope": {"kind": "increment"}}, Outcome.MALFORMED),
        ({"scope": {"kind": "increment", "since_size": -1}}, Outcome.MALFORMED),
        ({"scope": {"kind": "increment", "since_size": 3}}, Outcome.GOOD),
    ],
    ids=str,
)
def test_a_null_name_and_an_increment_of_nothing_are_malformed(
    claims: dict[str, Any], outcome: Outcome, key: SigningKey, tmp_path: Path
) -> None:
    """An unknown name is absent; an increment says since when."""
    path = tmp_path / "f.pam.jsonl"
    path.write_bytes(sealed_file(sections(entry("tea")), key, claims=claims))
    assert verify_artifact(path, TrustPolicy(keys=frozenset([key.did]))).outcome is outcome
