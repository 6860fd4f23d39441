"""A client of capability tokens, written from docs/spec alone, calls a real gateway over HTTP.

Proofs, IDs and headers are made by ``possession_kit``, which imports nothing of the package.
"""

import base64
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2 as httpx
import pytest
from http_kit import ServedGateway
from nacl.signing import SigningKey as Ed25519
from possession_kit import did_of, hash_text, http_arguments, jcs, proof_of
from web_kit import web_server

_ADMIN = "the-operators-own-token-of-32-characters"
_BODY = b'{"text":"coffee"}'
_HOLDER = Ed25519(bytes(range(32)))


@pytest.fixture
def clients(own_home: object) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """An anonymous client, and the operator's, of a gateway on a socket."""
    del own_home
    with web_server(_ADMIN) as (address, served):
        assert isinstance(served, ServedGateway)
        operator = {"Authorization": f"Bearer {_ADMIN}"}
        with (
            httpx.Client(base_url=address, headers=operator) as client,
            httpx.Client(base_url=address) as anonymous,
        ):
            yield anonymous, client


def _at(seconds: int = 0) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _in_base64(value: Any) -> str:
    return base64.b64encode(jcs(value)).decode()


class _Client:
    """The holder of a token to read and write a bank."""

    def __init__(self, anonymous: httpx.Client, operator: httpx.Client) -> None:
        self.bank = operator.post("/v1/banks", json={"name": "one"}).json()["id"]
        self.target = f"/v1/banks/{self.bank}/entries"
        asked = {"audience": did_of(_HOLDER), "everything": True, "permissions": ["read", "write"]}
        self.file = operator.post(f"/v1/banks/{self.bank}/tokens", json=asked).json()["token"]
        self.http = anonymous
        self.verifier = self.http.get("/v1/about").json()["verifier"]

    def headers(self, key: Ed25519 = _HOLDER, **change: Any) -> dict[str, str]:
        payload = self.file["tokens"][-1]["payload"]
        said = {
            "action": "http POST",
            "args": http_arguments(self.target, _BODY),
            "audience": self.verifier,
            "bank": payload["bank"],
            "token": hash_text(jcs(payload)),
            "at": _at(),
        }
        return {
            "Content-Type": "application/json",
            "X-PAM-Capability-Token": _in_base64(self.file),
            "X-Satchel-Proof": _in_base64(proof_of(key, os.urandom(16).hex(), **said | change)),
        }

    def write(self, headers: dict[str, str]) -> httpx.Response:
        return self.http.post(self.target, content=_BODY, headers=headers)


def test_a_client_by_the_spec_writes_over_a_socket(
    clients: tuple[httpx.Client, httpx.Client],
) -> None:
    """One request for each proof (SEAL-6.53)."""
    client = _Client(*clients)
    headers = client.headers()
    answer = client.write(headers)
    assert answer.status_code == 201, answer.text
    assert client.write(headers).status_code in (403, 422)
    assert client.write(client.headers()).status_code == 201
    assert clients[1].get(f"/v1/banks/{client.bank}").json()["memories"] == 2


@pytest.mark.in_check(3)
@pytest.mark.parametrize(
    "change",
    [
        {"action": "http PUT"},
        {"args": hash_text(b"{}")},
        {"audience": did_of(_HOLDER)},
        {"bank": hash_text(b"")},
        {"token": hash_text(b"")},
        {"at": _at(-300)},
        {"v": 2},
        {"more": "x"},
        {"key": Ed25519(b"x" * 32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_proof_with_any_changed_member_is_refused(
    change: dict[str, Any], clients: tuple[httpx.Client, httpx.Client]
) -> None:
    """Each member of SEAL-6.27; nothing is written."""
    client = _Client(*clients)
    refused = client.write(client.headers(**change))
    assert refused.status_code in (403, 422), refused.text
    assert clients[1].get(f"/v1/banks/{client.bank}").json()["memories"] == 0
