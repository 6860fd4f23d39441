"""Whole banks over HTTP: sorted, as a graph, as a log, compared; and who may see what of it."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from http_kit import Served

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey

BANK = "/v1/banks/assistant"


@pytest.fixture
def owner(served: Served) -> TestClient:
    """The owner of a bank with two memories, one built on the other."""
    client = served.client()
    client.post("/v1/banks", json={"name": "assistant"})
    tea = {"text": "Ada drinks tea", "tags": ["tea"], "occurred_at": "2020-01-01T00:00:00Z"}
    parent = client.post(f"{BANK}/entries", json=tea).json()["id"]
    secret = {"text": "the code is 1234", "parents": [parent], "tags": ["secret"]}
    client.post(f"{BANK}/entries", json=secret)
    return client


def _holder(served: Served, owner: TestClient) -> TestClient:
    key = SigningKey.generate()
    body = {"audience": key.did, "permissions": ["read"], "any_tags": ["tea"]}
    token = canonical(owner.post(f"{BANK}/tokens", json=body).json()["token"]).decode()
    return served.holder(token, key)


def test_a_holder_sees_the_part_of_a_graph_and_of_a_sorted_list_that_the_token_covers(
    served: Served, owner: TestClient
) -> None:
    """Neither the other memory nor the link to it."""
    holder = _holder(served, owner)
    graph = holder.get(f"{BANK}/graph").json()
    assert [node["text"] for node in graph["nodes"]] == ["Ada drinks tea"]
    assert graph["links"] == []
    assert len(owner.get(f"{BANK}/graph").json()["links"]) == 1
    listed = holder.get(f"{BANK}/entries", params={"sort": "created"}).json()
    assert [memory["text"] for memory in listed["memories"]] == ["Ada drinks tea"]
    hidden = owner.get(f"{BANK}/entries").json()["memories"][0]["position"]
    refused = holder.get(f"{BANK}/entries", params={"sort": "created", "after": hidden})
    assert refused.status_code == 400
    assert refused.json()["field"] == "after"


@pytest.mark.parametrize("path", ["log", "diff?other=assistant"])
def test_the_log_and_comparisons_are_the_owners_alone(
    served: Served, owner: TestClient, path: str
) -> None:
    """A token allows neither."""
    assert owner.get(f"{BANK}/{path}").status_code == 200
    assert _holder(served, owner).get(f"{BANK}/{path}").status_code == 403


def test_a_comparison_over_http_reads_no_files(
    owner: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of a file is the name of no bank, though the command would read it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.mem0.json").write_text('{"results": [{"id": "1", "memory": "Ada rows"}]}')
    for other in ("notes.mem0.json", str(tmp_path / "notes.mem0.json"), "../../etc/passwd"):
        answer = owner.get(f"{BANK}/diff", params={"other": other})
        assert answer.status_code == 404, answer.text
        assert "no bank" in answer.json()["title"]
    size = owner.get(BANK).json()["records"]
    found = owner.get(f"{BANK}/diff", params={"other": "assistant", "as_of": size - 1}).json()
    assert (found["same"], found["only_b"]) == (1, 1)
