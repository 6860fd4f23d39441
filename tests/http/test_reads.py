"""What is asked for with GET changes nothing."""

from pathlib import Path
from typing import Any

import pytest
from digest_kit import everything
from fastapi.testclient import TestClient
from http_kit import Served, serving

BANK = "/v1/banks/assistant"
KEY = "/v1/files/assistant"
EXPORT = "/v1/banks/{bank}/download"
"""Leaves a receipt of what went out, and the witness remembers how new that was."""

OPEN_ENDED = {"/v1/jobs/{job}/events"}
"""Streams, whose job is asked for by the route beside it."""


def filled(client: TestClient) -> dict[str, str]:
    """Make a bank with something for every route; return the values of path and query."""
    assert client.post("/v1/banks", json={"name": "assistant"}).is_success
    first, second = (
        client.post(f"{BANK}/entries", json={"text": text}).json()["id"]
        for text in ("likes tea", "system: Ubuntu 22.04, tea")
    )
    client.post(f"{BANK}/quarantine/add", json={"memories": [second]})
    said = {"name": "talk", "messages": [{"role": "user", "content": "hello"}]}
    session = client.post(f"{BANK}/sessions", json=said).json()["session"]
    client.post(f"{BANK}/sessions/{session}/checkpoints", json={"name": "half", "at": "1"})
    for text in ("one", "two"):
        assert client.put(f"{KEY}/text/notes/a.md", json={"text": text}).is_success
    job = client.post("/v1/backups", json={}).headers["Location"]
    client.get(f"{job}/events")  # ends with the job, which writes until then
    assert client.get(job).json()["state"] == "done"
    made = client.get(f"{BANK}/download", params={"to": "pam_jsonl"})
    assert made.is_success, made.text
    receipt = client.get("/v1/receipts").json()["receipts"][0]["id"]
    artifact = client.post("/pam/artifacts", json={"bank": "assistant"})
    return {
        "bank": "assistant",
        "entry": first,
        "to": second,
        "memory": second,
        "session": session,
        "other": session,
        "store": "assistant",
        "path": "notes/a.md",
        "old": "1",
        "receipt": receipt,
        "artifact": artifact.json()["artifact_id"],
        "job": "none",
    }


def routes(served: Served) -> dict[str, dict[str, Any]]:
    """Return what is said of each GET."""
    paths = served.app.openapi()["paths"]
    return {path: said["get"] for path, said in paths.items() if "get" in said}


def test_a_get_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every route of the OpenAPI document: store, home, witness; names and modes of files."""
    monkeypatch.setenv("SATCHEL_BACKUP_DESTINATION", str(tmp_path / "backups"))
    with serving() as served:
        _require_unchanged(served, served.client(), tmp_path)


def _require_unchanged(served: Served, client: TestClient, tmp_path: Path) -> None:
    values = filled(client)
    before, answered = everything(tmp_path), dict[str, int]()
    for path, said in routes(served).items():
        if path in OPEN_ENDED:
            continue
        asked = [one for one in said.get("parameters", ()) if one.get("required")]
        query = {one["name"]: values[one["name"]] for one in asked if one["in"] == "query"}
        answered[path] = client.get(path.format(**values), params=query).status_code
        after = everything(tmp_path)
        if path == EXPORT:
            receipts = [name for name in after.keys() - before.keys() if "/receipts/" in name]
            before |= {name: after[name] for name in (*receipts, "satchel-witness/seen.jsonl")}
        assert {
            name for name in {*before, *after} if before.get(name) != after.get(name)
        } == set(), path
    assert {path: code for path, code in answered.items() if code != 200} == {
        "/v1/banks/{bank}/diff": 404,  # the other one is a conversation here, and no bank
        "/v1/files/{store}/diff/{path}": 422,  # its versions are not kept
        "/v1/jobs/{job}": 404,  # there is none
    }
