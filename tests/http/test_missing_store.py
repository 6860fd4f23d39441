"""A server whose store was deleted refuses requests, and creates no empty store."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from http_kit import running_gateway
from missing_store_kit import delete_store, store_exists

from satchel.errors import RolledBackError

BANK = "/v1/banks/assistant"
REFUSALS = {"verify.rolled_back": 403, "store.failed": 503}


def _requests(client: TestClient) -> Iterator[tuple[str, Any]]:
    for path in ("/v1/banks", BANK, f"{BANK}/entries"):
        yield path, client.get(path)
    yield "recall", client.post(f"{BANK}/recall", json={"text": "tea"})
    yield "remember", client.post(f"{BANK}/entries", json={"text": "likes milk"})
    for name in ("assistant", "another"):
        yield f"create {name}", client.post("/v1/banks", json={"name": name})


def _remember(client: TestClient) -> None:
    assert client.post("/v1/banks", json={"name": "assistant"}).is_success
    assert client.post(f"{BANK}/entries", json={"text": "likes tea"}).is_success


def test_a_running_server_refuses_requests_after_the_loss_of_its_store(
    any_store: str,
) -> None:
    """Nothing is read or acknowledged, and the server is not ready."""
    with running_gateway() as served:
        client = served.client()
        _remember(client)
        delete_store(any_store)
        for what, answer in _requests(client):
            code = answer.json()["code"]
            assert REFUSALS.get(code) == answer.status_code, (what, answer.text)
            assert answer.json().get("hint"), (what, answer.text)
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
    assert not store_exists(any_store)


def test_a_server_does_not_start_without_its_store(any_store: str) -> None:
    """The error names ``accept-gone``, and no store is created."""
    with running_gateway() as served:
        _remember(served.client())
    delete_store(any_store)
    with pytest.raises(RolledBackError, match="assistant") as refused, running_gateway():
        pass
    assert "accept-gone" in (refused.value.hint or "")
    assert not store_exists(any_store)
