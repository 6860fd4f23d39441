"""Looking after banks over HTTP: what an owner does with commands, and what a holder may not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from http_kit import Served, serving

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey

BANK = "/v1/banks/assistant"


@pytest.fixture
def bank(client: TestClient) -> str:
    """The path of a bank with two memories."""
    client.post("/v1/banks", json={"name": "assistant"})
    client.post(f"{BANK}/entries", json={"text": "Ada drinks tea", "user": "ada"})
    client.post(f"{BANK}/entries", json={"text": "write to bob@example.com", "user": "bob"})
    return BANK


def done(client: TestClient, begun: Any) -> Any:
    """Return the result of a job."""
    assert begun.status_code == 202, begun.text
    where = begun.headers["Location"]
    client.get(f"{where}/events")  # lasts until it has ended
    job = client.get(where).json()
    assert job["state"] == "done", job
    return job["result"]


def test_a_session_is_renamed_put_away_taken_out_and_distilled(
    client: TestClient, bank: str
) -> None:
    """Nothing of it is lost."""
    where = f"{bank}/sessions"
    said = [{"role": "user", "content": "I decided to use PostgreSQL for the new project"}]
    made = client.post(where, json={"name": "talk", "messages": said}).json()["session"]
    assert client.patch(f"{where}/{made}", json={"name": "planning"}).json()["name"] == "planning"
    assert client.post(f"{where}/{made}/archive", json={}).json()["archived"]
    assert client.get(where).json()["sessions"] == []
    assert client.post(f"{where}/{made}/archive", json={"restore": True}).is_success
    assert [one["name"] for one in client.get(where).json()["sessions"]] == ["planning"]
    assert client.patch(f"{where}/{made}", json={}).status_code == 400
    assert client.patch(f"{where}/{made}/state", json={"note": "ask Ada"}).is_success
    assert client.post(f"{where}/{made}/distill", json={"dry_run": True}).is_success


def test_a_bank_is_renamed_copied_merged_and_removed(client: TestClient, bank: str) -> None:
    """Each answer is that of the command."""
    assert client.patch(bank, json={"name": "first"}).json()["name"] == "first"
    assert client.get(bank).status_code == 404
    copied = done(client, client.post("/v1/banks/first/copy", json={"name": "second"}))
    assert copied["name"] == "second"
    client.post("/v1/banks/second/entries", json={"text": "only here"})
    done(client, client.post("/v1/banks/second/merge", json={"into": "first"}))
    assert client.get("/v1/banks/first").json()["memories"] == 3
    would = client.delete("/v1/banks/second", params={"dry_run": "true"}).json()
    assert would["dry_run"]
    assert client.get("/v1/banks/second").is_success
    assert client.delete("/v1/banks/second").is_success
    assert client.get("/v1/banks/second").status_code == 404
    changed = client.patch("/v1/banks/first/config", json={"values": {"recall_limit": 1}})
    assert changed.json()["settings"]["recall_limit"] == 1
    assert client.get("/v1/banks/first/config").json()["origins"]["recall_limit"] == "bank"
    found = client.post("/v1/banks/first/recall", json={"text": "Ada bob tea"}).json()
    assert len(found["memories"]) == 1


def test_what_has_to_go_goes(client: TestClient, bank: str) -> None:
    """Redacted, erased, pruned; an import is taken back."""
    data = client.get(f"{bank}/download").content
    (mail,) = client.get(f"{bank}/entries", params={"user": "bob"}).json()["memories"]
    redacted = done(client, client.post(f"{bank}/redact", json={"ids": [mail["id"]]}))
    assert redacted["redacted"] == 1
    assert "bob@example.com" not in client.get(f"{bank}/entries").text
    erased = done(client, client.post(f"{bank}/erase", json={"where": {"user": "ada"}}))
    assert erased["erased"] >= 1
    assert client.get(f"{bank}/entries", params={"user": "ada"}).json()["memories"] == []
    pruned = client.post(f"{bank}/prune", json={"superseded_before": "1d", "dry_run": True})
    assert done(client, pruned)["dry_run"]
    assert client.post(f"{bank}/prune", json={"superseded_before": "soon"}).status_code == 400
    came = client.post("/v1/banks/copy/upload", params={"name": "a.pam"}, content=data)
    assert came.is_success, came.text
    (line,) = client.get("/v1/banks/copy/imports").json()["imports"]
    undone = client.post("/v1/banks/copy/undo", json={"source": line["source"]})
    assert undone.json()["source"] == line["source"]
    assert client.get("/v1/banks/copy/entries").json()["memories"] == []
    assert client.get(f"{bank}/duplicates").is_success


@pytest.fixture
def backed_up(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """The owner of a store with one backup, of a bank with one memory."""
    del own_home
    config = tmp_path / "satchel.toml"
    config.write_text(f'[backup]\nenabled = true\ndestination = "{tmp_path / "shelf"}"\n')
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    with serving() as served:
        client = served.client()
        client.post("/v1/banks", json={"name": "assistant"})
        client.post(f"{BANK}/entries", json={"text": "Ada drinks tea"})
        done(client, client.post("/v1/backups", json={}))
        yield client


def test_a_backup_is_drilled_and_restored_into_the_served_store(
    backed_up: TestClient,
) -> None:
    """Over what is there only when that is said; the server goes on with what was restored."""
    client = backed_up
    assert done(client, client.post("/v1/backups/drill", json={}))["is_good"]
    client.post(f"{BANK}/entries", json={"text": "said since"})
    begun = client.post("/v1/backups/restore", json={"overwrite": True, "dry_run": True})
    assert done(client, begun)["dry_run"]
    assert client.get(BANK).json()["memories"] == 2
    refused = client.post("/v1/backups/restore", json={})
    client.get(refused.headers["Location"] + "/events")
    assert client.get(refused.headers["Location"]).json()["state"] == "failed"
    restored = done(
        client, client.post("/v1/backups/restore", json={"overwrite": True, "accept_loss": True})
    )
    assert restored["banks"][0]["safety"]
    assert client.get(BANK).json()["memories"] == 1
    assert client.post(f"{BANK}/entries", json={"text": "gone on"}).status_code == 201
    assert client.post("/v1/backups/prune", json={"dry_run": True}).json()["dropped"]


def test_a_receipt_of_a_download_names_no_path_of_this_machine(
    client: TestClient, bank: str
) -> None:
    """The folder that it was written in is gone as soon as it was fetched."""
    went = client.get(f"{bank}/download")
    receipt = client.get(f"/v1/receipts/{went.headers['X-Satchel-Receipt']}").json()
    assert receipt["account"]["output"]["name"] == "download of memory.pam"


def test_a_holder_looks_after_nothing(served: Served, client: TestClient, bank: str) -> None:
    """Whatever the token opens: these are the owner's."""
    key = SigningKey.generate()
    asked = {"audience": key.did, "everything": True, "permissions": ["read", "write"]}
    token = canonical(client.post(f"{bank}/tokens", json=asked).json()["token"]).decode()
    holder = served.holder(token, key)
    session = client.post(f"{bank}/sessions", json={"name": "talk"}).json()["session"]
    for method, path, body in (
        ("PATCH", bank, {"name": "mine"}),
        ("DELETE", bank, None),
        ("POST", f"{bank}/copy", {"name": "mine"}),
        ("POST", f"{bank}/merge", {"into": "mine"}),
        ("GET", f"{bank}/config", None),
        ("PATCH", f"{bank}/config", {"values": {}}),
        ("POST", f"{bank}/embed", {}),
        ("POST", f"{bank}/erase", {"where": {"user": "ada"}}),
        ("POST", f"{bank}/redact", {"where": {"user": "ada"}}),
        ("POST", f"{bank}/prune", {"superseded_before": "1d"}),
        ("GET", f"{bank}/imports", None),
        ("POST", f"{bank}/undo", {}),
        ("PATCH", f"{bank}/sessions/{session}", {"name": "other"}),
        ("POST", f"{bank}/sessions/{session}/archive", {}),
        ("PATCH", f"{bank}/sessions/{session}/state", {"note": "x"}),
        ("POST", f"{bank}/sessions/{session}/distill", {}),
        ("POST", "/v1/backups/drill", {}),
        ("POST", "/v1/backups/restore", {}),
        ("POST", "/v1/backups/prune", {}),
    ):
        refused = holder.request(method, path, json=body)
        assert refused.status_code == 403, (method, path, refused.text)
    assert client.get(bank).json()["memories"] == 2


def test_what_an_export_would_lose_is_known_before_it_is_made(client: TestClient) -> None:
    """Nothing is written, no receipt is left, and no path of the server is told."""
    client.post("/v1/banks", json={"name": "assistant"})
    client.post("/v1/banks/assistant/entries", json={"text": "Ada drinks tea"})
    client.post(
        "/v1/banks/assistant/sessions",
        json={"name": "tea", "messages": [{"role": "user", "content": "hello"}]},
    )
    where = "/v1/banks/assistant/download"
    found = client.get(where, params={"to": "ama", "dry_run": True}).json()
    assert [one["name"] for one in found["losses"]] == ["session_event"]
    assert (found["output"], found["dry_run"]) == ("memory.ama.jsonl", True)
    assert client.get("/v1/receipts").json()["receipts"] == []
    made = client.get(where, params={"to": "mem0"})
    assert 'filename="memory.mem0.json"' in made.headers["Content-Disposition"]


def test_former_versions_of_a_file_are_read_and_compared(client: TestClient) -> None:
    """Once the store was told to keep them; a former one has no tag to hold a write to."""
    where = "/v1/files/assistant"
    for text in ("tea\n", "mate\n"):
        written = client.put(f"{where}/text/notes.md", json={"text": text, "keep_versions": True})
        assert written.is_success, written.text
    versions = client.get(f"{where}/history/notes.md").json()["versions"]
    assert [(one["version"], one["op"]) for one in versions] == [(1, "create"), (2, "update")]
    former = client.get(f"{where}/text/notes.md", params={"version": 1})
    assert (former.text, former.headers.get("ETag")) == ("tea\n", None)
    assert client.get(f"{where}/text/notes.md").headers["ETag"]
    diff = client.get(f"{where}/diff/notes.md", params={"old": 1, "new": 2}).json()["diff"]
    assert "-tea\n+mate\n" in diff
    assert client.get(f"{where}/diff/notes.md", params={"old": 9}).status_code == 422


def test_formats_owners_and_months_are_listed(client: TestClient) -> None:
    """What an interface needs to offer exports, to show who decides, and to draw a timeline."""
    formats = {one["name"]: one for one in client.get("/v1/formats").json()["formats"]}
    assert formats["pam"]["writes"]
    assert not formats["chatgpt"]["writes"]
    client.post("/v1/banks", json={"name": "assistant"})
    moment = "2026-03-05T12:00:00Z"
    client.post("/v1/banks/assistant/entries", json={"text": "a swallow", "occurred_at": moment})
    owners = client.get("/v1/banks/assistant/owners").json()
    assert (owners["threshold"], [one["signs"] for one in owners["owners"]]) == (1, [True])
    assert client.get("/v1/banks/assistant").json()["months"] == {"2026-03": 1}


def test_a_file_is_appended_to_listed_and_erased(client: TestClient, bank: str) -> None:
    """As by the command: the text is added at the end, the listing says who wrote it."""
    del bank
    where = "/v1/files/assistant"
    for text in ("tea\n", "mate\n"):
        body = {"text": text, "append": True, "reason": "she said so", "keep_versions": True}
        written = client.put(f"{where}/text/notes.md", json=body, headers={"X-Actor": "ada"})
        assert written.is_success, written.text
    assert client.get(f"{where}/text/notes.md").text == "tea\nmate\n"
    (line,) = client.get(where).json()["files"]
    assert (line["path"], line["updated_by"], line["version"]) == ("notes.md", "ada", 2)
    assert client.get(f"{where}/audit", params={"verify": True}).json()["verified"] >= 2
    erased = client.delete(f"{where}/text/notes.md", params={"erase": True})
    assert erased.status_code == 204
    gone = client.get(f"{where}/text/notes.md", params={"version": 1})
    assert gone.status_code >= 400
    assert client.get(where).json() == {"files": []}


def test_a_release_may_be_tried_first(client: TestClient, bank: str) -> None:
    """``dry_run`` changes nothing, and ``own`` needs no memory to be named."""
    (first, _) = [each["id"] for each in client.get(f"{bank}/entries").json()["memories"]]
    client.post(f"{bank}/quarantine/add", json={"memories": [first]})
    body = {"memories": [first], "dry_run": True}
    (tried,) = client.post(f"{bank}/quarantine/release", json=body).json()["memories"]
    assert tried["dry_run"]
    assert len(client.get(f"{bank}/quarantine").json()["held"]) == 1
    assert client.post(f"{bank}/quarantine/release", json={"own": True}).json() == {"memories": []}
    nothing = client.post(f"{bank}/quarantine/release", json={})
    assert nothing.status_code == 400


def test_a_list_of_conversations_says_that_there_are_more(client: TestClient, bank: str) -> None:
    """The newest, as many as asked for."""
    for name in ("one", "two", "three"):
        client.post(f"{bank}/sessions", json={"name": name})
    found = client.get(f"{bank}/sessions", params={"limit": 2}).json()
    assert ([one["name"] for one in found["sessions"]], found["more"]) == (["two", "three"], True)
    assert "more" not in client.get(f"{bank}/sessions").json()
    refused = client.post(f"{bank}/sessions/one/messages", json={"messages": [], "name": "other"})
    assert (refused.status_code, refused.json()["field"]) == (400, "name")


def test_vectors_are_computed_by_models_of_the_server_only(client: TestClient, bank: str) -> None:
    """A model elsewhere costs the operator money."""
    refused = client.post(f"{bank}/embed", json={"model": "openai"})
    assert (refused.status_code, refused.json()["field"]) == (400, "model")
    made = done(client, client.post(f"{bank}/embed", json={"model": "static"}))
    assert made["made"] == 2
