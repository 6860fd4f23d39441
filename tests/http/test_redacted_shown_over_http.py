"""Over HTTP, as the page shows it, a redacted memory says by whom it is and when."""

import time
from typing import Any

import pytest
from fastapi.testclient import TestClient


@pytest.fixture
def redacted(client: TestClient) -> tuple[str, str]:
    """A bank, and a memory of it that is redacted."""
    bank = client.post("/v1/banks", json={"name": "one"}).json()["id"]
    entries = f"/v1/banks/{bank}/entries"
    name = client.post(entries, json={"text": "write to ada@example.com"}).json()["id"]
    answer = client.post(f"/v1/banks/{bank}/redact", json={"ids": [name]})
    assert answer.status_code == 202, answer.text
    job = f"/v1/jobs/{answer.json()['id']}"
    while client.get(job).json()["state"] == "running":
        time.sleep(0.01)
    return bank, name


def _is_told(found: Any) -> None:
    assert found["fields"] == ["/text"]
    assert found["by"].startswith("did:key:")
    assert found["at"].endswith("Z")


def test_over_http_a_redacted_memory_names_who_redacted_it_and_when(
    client: TestClient, redacted: tuple[str, str]
) -> None:
    """The page shows what these three answer."""
    bank, name = redacted
    entries = f"/v1/banks/{bank}/entries"
    shown = client.get(f"{entries}/{name}").json()
    _is_told(shown["redacted"])
    (listed,) = client.get(entries).json()["memories"]
    _is_told(listed["redacted"])
    (version,) = client.get(f"{entries}/{name}/history").json()["versions"]
    _is_told(version["redacted"])
