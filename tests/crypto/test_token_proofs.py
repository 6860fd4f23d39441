"""Proof of possession, and revocation lists for verifiers without the bank's log."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from nacl.signing import SigningKey as Ed25519
from possession_kit import PAYLOAD_TYPE, did_of, http_arguments, jcs, proof_of
from token_kit import (
    BANK,
    HOLDER,
    NOW,
    OTHER_BANK,
    OUTSIDER,
    OWNER,
    SECOND,
    chain_of,
    child_of,
    key_of,
    later,
)

from satchel.crypto.canonical import canonical, decode_canonical
from satchel.crypto.json_reader import plain_value
from satchel.crypto.token_chain import (
    http_proof_request,
    open_revocation_list,
    prove,
    require_possession,
    signed_list,
)
from satchel.errors import MalformedError, TokenError, TokenTimeError, UsageError

VERIFIER, OTHER_VERIFIER = key_of(30).did, key_of(31).did
CHAIN = chain_of()
ASKED = ("recall", {"text": "tea", "limit": 3})


def test_a_proof_of_possession_is_accepted_by_its_verifier() -> None:
    """For this verifier and this request, within a minute."""
    proof = prove(CHAIN, HOLDER, VERIFIER, NOW, ASKED)
    found = require_possession(CHAIN, proof, VERIFIER, later(seconds=60), ASKED)
    assert (found.action, found.token) == ("recall", CHAIN.leaf.id)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": OUTSIDER}, TokenError),
        ({"key": OWNER}, TokenError),
        ({"verifier": OTHER_VERIFIER}, TokenError),
        ({"asked": ("export", ASKED[1])}, TokenError),
        ({"asked": ("recall", {"text": "tea", "limit": 300})}, TokenError),
        ({"chain": chain_of()}, TokenError),
        ({"chain": chain_of(bank=OTHER_BANK)}, TokenError),
        ({"at": later(seconds=-61)}, TokenTimeError),
        ({"at": later(seconds=61)}, TokenTimeError),
    ],
    ids=[
        *("an outsider's", "the owner's", "another verifier", "another action", "other arguments"),
        *("another token", "another bank's", "too early", "too late"),
    ],
)
def test_attack_a_proof_for_another_verifier_request_or_time_is_refused(
    change: dict[str, Any], error: type[Exception]
) -> None:
    """A proof is used for another verifier, request or time, or is signed with another key."""
    given: dict[str, Any] = {
        "chain": CHAIN,
        "key": HOLDER,
        "verifier": VERIFIER,
        "at": NOW,
        "asked": ASKED,
    } | change
    proof = prove(given["chain"], given["key"], given["verifier"], given["at"], given["asked"])
    with pytest.raises(error):
        require_possession(CHAIN, proof, VERIFIER, NOW, ASKED)


def test_attack_an_earlier_holder_cannot_present_a_child_token() -> None:
    """The parent's holder signs in the name of the child's holder."""
    child = child_of(CHAIN)
    with pytest.raises(TokenError):
        require_possession(child, prove(child, HOLDER, VERIFIER, NOW), VERIFIER, NOW)
    require_possession(child, prove(child, SECOND, VERIFIER, NOW), VERIFIER, NOW)


@pytest.mark.parametrize("member", ["at", "nonce", "args", "action", "bank", "token", "audience"])
def test_attack_an_edited_proof_is_refused(member: str) -> None:
    """One member of a proof is replaced by that of another proof."""
    proof = prove(CHAIN, HOLDER, VERIFIER, NOW)
    other = prove(chain_of(bank=OTHER_BANK), HOLDER, OTHER_VERIFIER, later(seconds=1), ("other", 1))
    proof["payload"][member] = other["payload"][member]
    with pytest.raises(TokenError):
        require_possession(CHAIN, proof, VERIFIER, NOW)


@pytest.mark.parametrize("proof", [None, {}, [], {"payload": {}, "signatures": []}], ids=str)
def test_a_missing_proof_is_refused(proof: Any) -> None:
    """D41: omitting the token was enough to be shown everything."""
    with pytest.raises(MalformedError):
        require_possession(CHAIN, proof, VERIFIER, NOW)


def revocation_list(**members: Any) -> bytes:
    """Return a signed list with one revoked token."""
    given: dict[str, Any] = {
        "bank": BANK,
        "owner": OWNER,
        "number": 7,
        "tokens": [CHAIN.leaf.id],
    } | members
    times = given.pop("times", (NOW, later(24)))
    return signed_list(times=times, **given)


def test_a_revocation_list_names_the_revoked_tokens() -> None:
    """For a verifier that has no copy of the bank's log."""
    found = open_revocation_list(revocation_list(), BANK, {OWNER.did}, moment=NOW, least=7)
    assert found.tokens == (CHAIN.leaf.id,)
    assert found.number == 7


@pytest.mark.parametrize(
    ("data", "moment", "least", "error"),
    [
        (revocation_list(owner=OUTSIDER), NOW, 0, TokenError),
        (revocation_list(bank=OTHER_BANK), NOW, 0, TokenError),
        (revocation_list(), NOW, 8, TokenError),
        (revocation_list(), later(25), 0, TokenTimeError),
        (revocation_list(), later(-1), 0, TokenTimeError),
        (revocation_list().replace(b'"number":7', b'"number":9'), NOW, 8, TokenError),
        (b"{}", NOW, 0, MalformedError),
        (b"\xff", NOW, 0, MalformedError),
    ],
    ids=[
        "an outsider's",
        "another bank's",
        "older",
        "expired",
        "not yet valid",
        "renumbered",
        "{}",
        "ff",
    ],
)
def test_attack_a_revocation_list_that_does_not_verify_is_refused(
    data: bytes, moment: str, least: int, error: type[Exception]
) -> None:
    """An old list, or another signer's, is shown to hide a revocation."""
    with pytest.raises(error):
        open_revocation_list(data, BANK, {OWNER.did}, moment=moment, least=least)


def test_attack_a_token_cannot_be_removed_from_a_revocation_list() -> None:
    """The list is shown without the id that matters."""
    value = decode_canonical(revocation_list().rstrip())
    value["payload"]["tokens"] = []
    with pytest.raises(TokenError, match="signature"):
        open_revocation_list(canonical(value), BANK, {OWNER.did}, moment=NOW)


def test_a_revocation_list_expires_within_90_days() -> None:
    """A list without expiry would hide every later one."""
    with pytest.raises(UsageError, match="90 days"):
        revocation_list(times=(NOW, later(24 * 91)))


_SPEC = Path(__file__).parent.parent.parent / "docs" / "spec" / "6-keys-and-tokens.md"
_SPEC_VERIFIER, _SPEC_CHAIN = key_of(30).did, chain_of()


def _spec_holder() -> Ed25519:
    return Ed25519(bytes([2]) * 32)


def _spec_proof(**change: Any) -> dict[str, Any]:
    said = {
        "action": "http POST",
        "args": http_arguments("/v1/recall?k=3", b'{"text":"tea"}'),
        "audience": _SPEC_VERIFIER,
        "bank": BANK,
        "token": _SPEC_CHAIN.leaf.id,
        "at": NOW,
    }
    return proof_of(_spec_holder(), "00" * 16, **said | change)


def _require(proof: Any, moment: str = NOW) -> None:
    asked = http_proof_request("POST", "/v1/recall?k=3", blake3(b'{"text":"tea"}').hexdigest())
    require_possession(_SPEC_CHAIN, proof, _SPEC_VERIFIER, moment, asked)


def test_a_proof_made_from_the_specification_is_accepted() -> None:
    """For exactly this request, within a minute."""
    assert did_of(_spec_holder()) == HOLDER.did
    _require(_spec_proof())
    _require(_spec_proof(), later(seconds=60))


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
def test_a_proof_with_another_member_is_refused(change: dict[str, Any]) -> None:
    """Each member of SEAL-6.53."""
    with pytest.raises(TokenError):
        _require(_spec_proof(**change))


def test_a_proof_of_another_time_or_key_is_refused() -> None:
    """SEAL-6.53."""
    with pytest.raises(TokenTimeError):
        _require(_spec_proof(), later(seconds=61))
    with pytest.raises(TokenError):
        _require(
            {**_spec_proof(), "signatures": proof_of(Ed25519(b"x" * 32), "00" * 16)["signatures"]}
        )


def test_the_worked_example_of_the_specification_is_reproduced() -> None:
    """The client makes the same bytes from its values."""
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
    proof = _spec_proof()
    odd = {name: dict(reversed(part.items())) if name == "payload" else part
           for name, part in reversed(proof.items())}  # fmt: skip
    _require(plain_value(json.dumps(odd, indent=2).encode()))
    twice = json.dumps(proof).replace('"v": 1', '"v": 1, "v": 1')
    with pytest.raises(MalformedError):
        plain_value(twice.encode())
