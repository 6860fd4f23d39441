"""Proof of possession, and lists of revoked tokens for verifiers elsewhere."""

from typing import Any

import pytest
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
from satchel.crypto.token_chain import open_revocation_list, prove, require_possession, signed_list
from satchel.errors import MalformedError, TokenError, TokenTimeError, UsageError

VERIFIER, OTHER_VERIFIER = key_of(30).did, key_of(31).did
CHAIN = chain_of()
ASKED = ("recall", {"text": "tea", "limit": 3})


def test_a_holder_signs_a_proof_of_possession() -> None:
    """What was signed for this verifier, this request and this minute counts."""
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
def test_a_proof_made_for_something_else_does_not_count(
    change: dict[str, Any], error: type[Exception]
) -> None:
    """Attack: a proof is taken to another place, time or request; or another key makes it."""
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


def test_the_holder_of_an_earlier_token_cannot_present_the_last_one() -> None:
    """Attack: who handed a part on signs in the name of who has it now."""
    child = child_of(CHAIN)
    with pytest.raises(TokenError):
        require_possession(child, prove(child, HOLDER, VERIFIER, NOW), VERIFIER, NOW)
    require_possession(child, prove(child, SECOND, VERIFIER, NOW), VERIFIER, NOW)


@pytest.mark.parametrize("member", ["at", "nonce", "args", "action", "bank", "token", "audience"])
def test_a_proof_that_was_edited_does_not_count(member: str) -> None:
    """Attack: one member of a proof is replaced by that of another proof."""
    proof = prove(CHAIN, HOLDER, VERIFIER, NOW)
    other = prove(chain_of(bank=OTHER_BANK), HOLDER, OTHER_VERIFIER, later(seconds=1), ("other", 1))
    proof["payload"][member] = other["payload"][member]
    with pytest.raises(TokenError):
        require_possession(CHAIN, proof, VERIFIER, NOW)


@pytest.mark.parametrize("proof", [None, {}, [], {"payload": {}, "signatures": []}], ids=str)
def test_no_proof_at_all_does_not_count(proof: Any) -> None:
    """D41: leaving the token out was enough to be shown everything."""
    with pytest.raises(MalformedError):
        require_possession(CHAIN, proof, VERIFIER, NOW)


def revoked(**members: Any) -> bytes:
    """Return a signed list of one revoked token."""
    given: dict[str, Any] = {
        "bank": BANK,
        "owner": OWNER,
        "number": 7,
        "tokens": [CHAIN.leaf.id],
    } | members
    times = given.pop("times", (NOW, later(24)))
    return signed_list(times=times, **given)


def test_a_list_of_revocations_names_the_tokens() -> None:
    """For a verifier that has no copy of the bank's log."""
    found = open_revocation_list(revoked(), BANK, {OWNER.did}, moment=NOW, least=7)
    assert found.tokens == (CHAIN.leaf.id,)
    assert found.number == 7


@pytest.mark.parametrize(
    ("data", "moment", "least", "error"),
    [
        (revoked(owner=OUTSIDER), NOW, 0, TokenError),
        (revoked(bank=OTHER_BANK), NOW, 0, TokenError),
        (revoked(), NOW, 8, TokenError),
        (revoked(), later(25), 0, TokenTimeError),
        (revoked(), later(-1), 0, TokenTimeError),
        (revoked().replace(b'"number":7', b'"number":9'), NOW, 8, TokenError),
        (b"{}", NOW, 0, MalformedError),
        (b"\xff", NOW, 0, MalformedError),
    ],
    ids=[
        "an outsider's",
        "another bank's",
        "older",
        "ended",
        "not begun",
        "renumbered",
        "{}",
        "ff",
    ],
)
def test_a_revocation_list_that_does_not_verify_is_refused(
    data: bytes, moment: str, least: int, error: type[Exception]
) -> None:
    """Attack: an old list, or another's, is shown to hide that a token was revoked."""
    with pytest.raises(error):
        open_revocation_list(data, BANK, {OWNER.did}, moment=moment, least=least)


def test_a_token_cannot_be_taken_off_a_list() -> None:
    """Attack: the list is shown without the id that matters."""
    value = decode_canonical(revoked().rstrip())
    value["payload"]["tokens"] = []
    with pytest.raises(TokenError, match="signature"):
        open_revocation_list(canonical(value), BANK, {OWNER.did}, moment=NOW)


def test_a_list_of_revocations_has_an_end() -> None:
    """One that counted for ever would hide every later one."""
    with pytest.raises(UsageError, match="90 days"):
        revoked(times=(NOW, later(24 * 91)))
