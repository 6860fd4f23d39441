"""A client of capability tokens, written from docs/spec alone: it uses nothing of the package.

What it makes is what the product takes; and the worked example of the spec is what it makes.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from nacl.signing import SigningKey as Ed25519
from possession_kit import PAYLOAD_TYPE, did_of, http_arguments, jcs, proof_of
from token_kit import BANK, HOLDER, NOW, chain_of, key_of, later

from satchel.crypto.json_reader import plain_value
from satchel.crypto.token_chain import http_proof_request, require_possession
from satchel.errors import MalformedError, TokenError, TokenTimeError

_SPEC = Path(__file__).parent.parent.parent / "docs" / "spec" / "6-keys-and-tokens.md"
VERIFIER, CHAIN = key_of(30).did, chain_of()


def _holder() -> Ed25519:
    return Ed25519(bytes([2]) * 32)


def _proof(**change: Any) -> dict[str, Any]:
    said = {
        "action": "http POST",
        "args": http_arguments("/v1/recall?k=3", b'{"text":"tea"}'),
        "audience": VERIFIER,
        "bank": BANK,
        "token": CHAIN.leaf.id,
        "at": NOW,
    }
    return proof_of(_holder(), "00" * 16, **said | change)


def _take(proof: Any, moment: str = NOW) -> None:
    asked = http_proof_request("POST", "/v1/recall?k=3", blake3(b'{"text":"tea"}').hexdigest())
    require_possession(CHAIN, proof, VERIFIER, moment, asked)


def test_what_a_client_makes_by_the_spec_is_taken() -> None:
    """For the very request, within the minute."""
    assert did_of(_holder()) == HOLDER.did
    _take(_proof())
    _take(_proof(), later(seconds=60))


@pytest.mark.parametrize(
    "change",
    [
        {"action": "http GET"},
        {"args": http_arguments("/v1/recall?k=4", b'{"text":"tea"}')},
        {"args": http_arguments("/v1/recall?k=3", b"")},
        {"audience": HOLDER.did},
        {"bank": "blake3:" + "33" * 32},
        {"token": "blake3:" + "33" * 32},
    ],
    ids=str,
)
def test_a_proof_of_anything_else_is_refused(change: dict[str, Any]) -> None:
    """Each member of SEAL-6.53."""
    with pytest.raises(TokenError):
        _take(_proof(**change))


def test_a_proof_of_another_minute_or_key_is_refused() -> None:
    """SEAL-6.53."""
    with pytest.raises(TokenTimeError):
        _take(_proof(), later(seconds=61))
    with pytest.raises(TokenError):
        _take({**_proof(), "signatures": proof_of(Ed25519(b"x" * 32), "00" * 16)["signatures"]})


def test_the_worked_example_of_the_spec_is_exact() -> None:
    """Its bytes are made again from its words."""
    text = _SPEC.read_text("utf-8")
    part = text[text.index("## 6.9 Example") :]
    payload, proof = (json.loads(line) for line in re.findall(r"^(\{.*\})$", part, re.MULTILINE))
    key = Ed25519(bytes(range(32)))
    made = proof_of(key, payload.pop("nonce"), **{k: v for k, v in payload.items() if k != "v"})
    assert made == proof
    assert payload["args"] == http_arguments("/v1/recall?k=3", b'{"text":"tea"}')
    length = len(jcs(proof["payload"]))
    assert f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE.decode()} {length} " in part


def test_the_json_of_a_proof_need_not_be_canonical() -> None:
    """SEAL-6.27: spaces and order are free, since the signature covers JCS(payload)."""
    proof = _proof()
    odd = {name: dict(reversed(part.items())) if name == "payload" else part
           for name, part in reversed(proof.items())}  # fmt: skip
    _take(plain_value(json.dumps(odd, indent=2).encode()))
    twice = json.dumps(proof).replace('"v": 1', '"v": 1, "v": 1')
    with pytest.raises(MalformedError):
        plain_value(twice.encode())
