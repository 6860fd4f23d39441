"""Servers on several machines that share a store on PostgreSQL know of each other."""

import uuid
from pathlib import Path

import pytest
from http_kit import ELSEWHERE, TokenAuth, running_gateway
from postgres_kit import in_schema

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.errors import TokenError
from satchel.http.gateway import Gateway

BANK = "/v1/banks/assistant"


def test_machines_behind_one_address_accept_a_request_once_and_share_jobs(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: what was overheard on the way to one machine is sent to the other one."""
    monkeypatch.setenv("SATCHEL_STORE", in_schema(postgres, f"board_{uuid.uuid4().hex[:8]}"))
    with running_gateway() as one:
        one.client().post("/v1/banks", json={"name": "assistant"})
        one.client().post(f"{BANK}/entries", json={"text": "Ada drinks tea"})
        key = SigningKey.generate()
        asked = {"audience": key.did, "everything": True}
        issued = one.client().post(f"{BANK}/tokens", json=asked).json()["token"]
        token = canonical(issued).decode()
        monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "another machine"))
        with running_gateway() as other:
            _as_one(one.gateway, other.gateway)
            client = one.client(ELSEWHERE)
            request = client.build_request("GET", f"{BANK}/entries")
            headers = dict(TokenAuth(token, key, one.gateway.verifier)(request).headers)
            assert client.get(f"{BANK}/entries", headers=headers).status_code == 200
            again = other.client(ELSEWHERE).get(f"{BANK}/entries", headers=headers)
            assert (again.status_code, again.json()["code"]) == (
                TokenError.http_status,
                TokenError.code,
            )
            job = one.gateway.jobs.begin("test", lambda _: {"answer": 42})
            assert "event: end" in other.client().get(f"/v1/jobs/{job.id}/events").text
            assert other.client().get(f"/v1/jobs/{job.id}").json()["result"] == {"answer": 42}
            banks = [one["name"] for one in other.client().get("/v1/banks").json()["banks"]]
            assert banks == ["assistant"]


def _as_one(one: Gateway, other: Gateway) -> None:
    """Have both go by one verifier, as ``--verifier`` does."""
    assert not one.is_alone
    assert not other.is_alone
    other.verifier = one.verifier
