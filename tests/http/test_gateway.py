"""Banks, memories, recall, files, tokens and limits over HTTP."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from http_kit import ELSEWHERE, ServedGateway, TokenAuth, running_gateway
from s3_kit import s3_server

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.errors import UsageError
from satchel.files import MemoryStore
from satchel.http.answers import problem_of
from satchel.http.guard import ServerLimits
from satchel.http.rate_limits import OPERATOR, Principal, RequestSlots

OPERATOR_TOKEN = "the token of the operator"  # noqa: S105 - a test value
TEA = {"text": "Ada drinks tea, no milk", "user": "ada", "tags": ["drinks"]}


@pytest.fixture
def bank(client: TestClient) -> str:
    """The path of a bank with one memory."""
    assert client.post("/v1/banks", json={"name": "assistant"}).status_code == 201
    assert client.post("/v1/banks/assistant/entries", json=TEA).status_code == 201
    return "/v1/banks/assistant"


def issue_token(client: TestClient, bank: str, **said: object) -> str:
    """Issue a token, and return its text."""
    return canonical(client.post(f"{bank}/tokens", json=said).json()["token"]).decode()


def test_a_memory_is_stored_recalled_updated_and_forgotten(client: TestClient, bank: str) -> None:
    """Each answer is the result of the Python API."""
    (found,) = client.post(f"{bank}/recall", json={"text": "what does Ada drink?"}).json()[
        "memories"
    ]
    assert found["text"] == TEA["text"]
    entry = f"{bank}/entries/{found['id']}"
    shown = client.get(entry)
    assert shown.headers["ETag"] == f'"{found["id"]}"'
    changed = client.patch(
        entry, json={"text": "green tea"}, headers={"If-Match": shown.headers["ETag"]}
    ).json()
    assert changed["replaces"] == found["id"]
    stale = client.patch(entry, json={"text": "cocoa"})
    assert (stale.status_code, stale.json()["code"]) == (409, "memory.retired")
    now = f"{bank}/entries/{changed['id']}"
    assert [one["id"] for one in client.get(f"{now}/history").json()["versions"]] == [
        found["id"],
        changed["id"],
    ]
    assert client.delete(now).status_code == 200
    assert client.get(f"{bank}/entries").json()["memories"] == []
    assert client.post(f"{now}/restore", json={}).status_code == 200
    assert client.get(bank).json()["memories"] == 1


def test_actors_of_memories_and_messages_are_stored(client: TestClient, bank: str) -> None:
    """By ``actor`` with a run, and by the names in messages."""
    made = client.post(f"{bank}/entries", json={"text": "tea", "actor": "Ada", "run": "r1"}).json()
    messages = [{"role": "user", "name": "Bela", "content": "coffee"}]
    turns = client.post(f"{bank}/entries", json={"messages": messages, "run": "r1"}).json()["turns"]
    said = [client.get(f"{bank}/entries/{each}").json()["record"] for each in (made["id"], *turns)]
    assert [(each["type"], each["actor"]) for each in said] == [
        ("episodic", "Ada"),
        ("episodic", "Bela"),
    ]


def test_a_bank_is_downloaded_and_uploaded(client: TestClient, bank: str) -> None:
    """With a receipt; the upload is verified, and known the second time."""
    went = client.get(f"{bank}/download")
    assert went.headers["X-Satchel-Lost"] == "0"
    assert client.get(f"/v1/receipts/{went.headers['X-Satchel-Receipt']}").status_code == 200
    checked = client.post("/v1/verify/upload", params={"name": "a.pam"}, content=went.content)
    assert checked.json()["outcome"] == "good", checked.text
    came = client.post("/v1/banks/copy/upload", params={"name": "a.pam"}, content=went.content)
    assert came.json()["banks"][0]["done"]["added"] == 1
    receipt = client.get(f"/v1/receipts/{came.json()['receipts'][0]}").json()
    assert receipt["account"]["input"]["name"] == "a.pam"
    again = client.post("/v1/banks/copy/upload", params={"name": "a.pam"}, content=went.content)
    assert again.json()["banks"][0]["done"]["known"] == 1


def test_an_upload_job_streams_its_events(client: TestClient, bank: str) -> None:
    """Server-sent events: steps, and one end with the result."""
    data = client.get(f"{bank}/download").content
    begun = client.post(
        "/v1/banks/copy/upload", params={"name": "a.pam", "wait": "false"}, content=data
    )
    assert begun.status_code == 202
    events = client.get(begun.headers["Location"] + "/events").text
    last = events.strip().split("\n\n")[-1]
    assert last.startswith("event: end\n")
    said = json.loads(last.partition("data: ")[2])
    assert (said["state"], said["result"]["banks"][0]["done"]["added"]) == ("done", 1)


def test_files_on_the_server_require_roots(
    client: TestClient, bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 422 with a hint; inside the roots they are accepted, outside never."""
    del bank
    body = {"bank_id": "assistant", "path": str(tmp_path / "a.ama.jsonl")}
    refused = client.post("/v1/export", json=body)
    assert refused.status_code == 422
    assert "SATCHEL_PORTABILITY_ROOTS" in refused.json()["hint"]
    assert not (tmp_path / "a.ama.jsonl").exists()
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("SATCHEL_PORTABILITY_ROOTS", str(tmp_path / "root"))
    with running_gateway() as other:
        inside = {"bank_id": "assistant", "path": str(tmp_path / "root" / "a.ama.jsonl")}
        assert other.client().post("/v1/export", json=inside).json()["exported_count"] == 1
        assert other.client().post("/v1/export", json=body).status_code == 422
        done = other.client().post("/v1/import", json={**inside, "bank_id": "copy"}).json()
        assert (done["imported"], done["skipped"], done["errors"]) == (1, 0, [])


def test_artifacts_are_stored_by_digest(client: TestClient, bank: str) -> None:
    """Created, fetched with an ETag, disclosed in part."""
    made = client.post("/pam/artifacts", json={"bank": "assistant"})
    assert made.status_code == 201
    where = made.headers["Location"]
    got = client.get(where)
    assert got.status_code == 200
    assert len(got.content) == made.json()["size_bytes"]
    assert made.json()["entry_count"] == 1
    tag = got.headers["ETag"]
    assert client.get(where, headers={"If-None-Match": tag}).status_code == 304
    (entry,) = client.get(f"{bank}/entries").json()["memories"]
    part = client.post(f"{where}/disclose", json={"entry_ids": [entry["id"]]})
    checked = client.post("/v1/verify/upload", params={"deep": "true"}, content=part.content)
    assert checked.json()["outcome"] == "good", checked.text
    assert client.get("/pam/artifacts/" + "0" * 64).status_code == 404
    assert client.get("/pam/artifacts/..%2f..%2fkeys").status_code == 404


def test_writes_of_memory_files_are_conditional(client: TestClient) -> None:
    """ETag, If-Match and If-None-Match."""
    path = "/v1/files/notes/text/plans/today.md"
    new = client.put(path, json={"text": "one\r\n"}, headers={"If-None-Match": "*"})
    assert new.status_code == 200
    assert client.put(path, json={"text": "x"}, headers={"If-None-Match": "*"}).status_code == 409
    read = client.get(path)
    assert (read.content, read.headers["ETag"]) == (b"one\r\n", new.headers["ETag"])
    other = client.put(path, json={"text": "two"}, headers={"If-Match": read.headers["ETag"]})
    assert other.status_code == 200
    stale = client.put(path, json={"text": "x"}, headers={"If-Match": read.headers["ETag"]})
    assert stale.status_code == 409
    assert client.get("/v1/files/notes").json()["files"][0]["path"] == "plans/today.md"
    assert client.delete(path).status_code == 204


def test_a_bank_without_memory_files_has_an_empty_list(client: TestClient, bank: str) -> None:
    """An unknown bank is 404, and so is a missing file."""
    del bank
    assert client.get("/v1/files/assistant").json() == {"files": []}
    nobody = client.get("/v1/files/nobody")
    assert (nobody.status_code, nobody.json()["code"]) == (404, "bank.unknown")
    nothing = client.get("/v1/files/assistant/audit")
    assert (nothing.status_code, nothing.json()["code"]) == (404, "files.none")


@pytest.mark.parametrize("backend", ["memory", pytest.param("s3", marks=pytest.mark.prove)])
def test_a_memory_file_is_in_object_storage_when_its_write_is_answered(
    monkeypatch: pytest.MonkeyPatch, own_home: Path, backend: str
) -> None:
    """Another machine can read it at once, and no longer after its deletion."""
    with s3_server() if backend == "s3" else nullcontext() as remote:
        root = f"memory://{own_home}" if remote is None else f"{remote.bucket()}/agents"
        monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", root)
        with running_gateway() as served:
            here = served.client()
            assert here.put("/v1/files/notes/text/a.md", json={"text": "tea"}).is_success
            with MemoryStore.get_or_create(key="notes", storage_root=root) as elsewhere:
                assert elsewhere.read_text("a.md") == "tea"
            assert here.delete("/v1/files/notes/text/a.md").status_code == 204
            with MemoryStore.get_or_create(key="notes", storage_root=root) as elsewhere:
                assert elsewhere.list_paths() == []


def test_a_token_is_verified_as_json_or_text(client: TestClient, bank: str) -> None:
    """In any order of members; an altered one is refused."""
    asked = {"bearer": True, "any_tags": ["tea", "\u00e9\u20ac"], "expires": "1h"}
    token = client.post(f"{bank}/tokens", json=asked).json()["token"]
    text = json.dumps(token, ensure_ascii=False, separators=(",", ":"))
    assert text.encode() == canonical(token)
    for said in (token, text, dict(reversed(token.items()))):
        assert client.post(f"{bank}/tokens/verify", json={"token": said}).json()["valid"] is True
    for wrong in ({**token, "more": 1}, {"format": 1.5}, {}):
        refused = client.post(f"{bank}/tokens/verify", json={"token": wrong})
        assert refused.status_code == 422, refused.text


def test_a_token_holder_reads_only_the_scope_of_its_token(
    served: ServedGateway, client: TestClient, bank: str
) -> None:
    """From elsewhere, each request signed; the owner's routes are refused."""
    client.post(f"{bank}/entries", json={"text": "the safe is behind the stove"})
    key = SigningKey.generate()
    token = issue_token(client, bank, audience=key.did, any_tags=["drinks"], expires="1h")
    holder = served.holder(token, key)
    seen = holder.get(f"{bank}/entries").json()["memories"]
    assert [one["text"] for one in seen] == [TEA["text"]]
    assert holder.post(f"{bank}/recall", json={"text": "safe stove"}).json()["memories"] == []
    for method, path in (
        ("GET", "/v1/banks"),
        ("GET", "/v1/jobs"),
        ("GET", "/metrics"),
        ("POST", "/pam/artifacts"),
        ("GET", f"{bank}/download"),
        ("POST", f"{bank}/entries"),
    ):
        body = {"bank": "assistant"} if path == "/pam/artifacts" else {"text": "x"}
        answer = holder.request(method, path, json=body if method == "POST" else None)
        assert answer.status_code == 403, path
        assert "stove" not in answer.text


@pytest.mark.parametrize("wrong", ["none", "key", "replayed", "target", "body", "server", "old"])
def test_a_token_with_a_missing_or_wrong_proof_is_refused(
    served: ServedGateway, client: TestClient, bank: str, wrong: str
) -> None:
    """Another key's, a replayed one, one for another request or another server."""
    key = SigningKey.generate()
    token = issue_token(
        client, bank, audience=key.did, everything=True, permissions=["read", "write"]
    )
    elsewhere = served.client(ELSEWHERE)
    request = elsewhere.build_request("POST", f"{bank}/entries", json={"text": "coffee"})
    headers = dict(TokenAuth(token, key, served.gateway.verifier)(request).headers)
    path, body = f"{bank}/entries", request.content
    if wrong == "none":
        headers.pop("x-satchel-proof")
    elif wrong == "key":
        other = TokenAuth(token, SigningKey.generate(), served.gateway.verifier)
        headers = dict(other(request).headers)
    elif wrong == "replayed":
        assert elsewhere.post(path, content=body, headers=headers).status_code == 201
    elif wrong == "target":
        path += "?x=1"
    elif wrong == "body":
        body = body.replace(b"coffee", b"poison")
    elif wrong == "server":
        served.gateway.verifier = SigningKey.generate().did
    elif wrong == "old":
        headers["x-satchel-proof"] = headers["x-satchel-proof"][:-8] + "AAAAAAA="
    before = client.get(bank).json()["memories"]
    refused = elsewhere.post(path, content=body, headers=headers)
    assert refused.status_code in (403, 422), refused.text
    assert client.get(bank).json()["memories"] == before


def test_remote_clients_need_the_operators_token(
    own_home: Path,
) -> None:
    """If one is configured, local clients need it, too."""
    del own_home
    with running_gateway() as found:
        assert found.client(ELSEWHERE).get("/v1/banks").status_code == 403
        assert found.client().get("/v1/banks").status_code == 200
    with running_gateway(admin=OPERATOR_TOKEN) as found:
        for address in (ELSEWHERE, "127.0.0.1"):
            client = found.client(address)
            assert client.get("/v1/banks").status_code == 403
            for headers in (
                {"Authorization": f"Bearer {OPERATOR_TOKEN}"},
                {"X-Admin-Token": OPERATOR_TOKEN},
            ):
                assert client.get("/v1/banks", headers=headers).status_code == 200
            wrong = {"Authorization": f"Bearer {OPERATOR_TOKEN[:-1]}"}
            assert client.get("/v1/banks", headers=wrong).status_code == 403
        assert found.client(ELSEWHERE).get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ],
    ids=["rebinding", "origin", "fetch", "null"],
)
def test_requests_of_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    """DNS rebinding, forms and scripts."""
    assert client.get("/v1/banks", headers=headers).status_code in (403, 421)


def test_an_oversize_body_is_refused(own_home: Path) -> None:
    """Whether its size is announced or not; nothing is stored."""
    del own_home
    with running_gateway(bounds=ServerLimits(body_bytes=1000, upload_bytes=5000)) as found:
        client = found.client()
        client.post("/v1/banks", json={"name": "b"})
        said = client.post("/v1/banks/b/entries", json={"text": "x" * 2000})
        assert (said.status_code, said.json()["code"]) == (413, "limit")

        def parts() -> object:
            yield from (b"x" * 1000 for _ in range(10))

        found_out = client.post("/v1/banks/b/upload", content=parts())  # type: ignore[arg-type]
        assert found_out.status_code == 413
        assert client.get("/v1/banks/b").json()["memories"] == 0


def test_too_many_requests_get_429_with_a_delay(own_home: Path) -> None:
    """By address, with Retry-After; health checks are exempt."""
    del own_home
    with running_gateway(bounds=ServerLimits(per_second=0.3)) as found:
        client = found.client()
        statuses = [client.get("/v1/about").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert client.get("/v1/about").headers["Retry-After"] == "1"
        assert client.get("/healthz").status_code == 200


def test_errors_are_problem_documents(client: TestClient, bank: str) -> None:
    """RFC 9457 with Satchel's codes."""
    for answer, status, code in (
        (client.get(f"{bank}/entries/abcdef123456"), 404, "memory.unknown"),
        (client.get("/v1/banks/nothing"), 404, "bank.unknown"),
        (client.post(f"{bank}/entries", json={"txt": "x"}), 400, "usage"),
        (client.post(f"{bank}/entries", content=b"{"), 400, "usage"),
        (client.get("/nothing"), 404, "http.404"),
        (client.put("/healthz"), 405, "http.405"),
    ):
        assert answer.headers["Content-Type"] == "application/problem+json"
        said = answer.json()
        assert (answer.status_code, said["status"], said["code"]) == (status, status, code)
        assert said["type"] == f"urn:satchel:problem:{code}"
        assert said["title"]


def test_metrics_count_requests_by_route(client: TestClient, bank: str) -> None:
    """Names of banks are not in the metrics."""
    page = client.get("/metrics").text
    assert 'route="/v1/banks/{bank}/entries",status="201"} 1' in page
    assert "assistant" not in page
    assert bank not in page


def test_queued_requests_are_served_in_order() -> None:
    """Attack: a few clients that ask repeatedly do not starve the others."""
    order = list[int]()

    async def crowd(places: RequestSlots, number: int) -> list[bool]:
        async def ask(one: int) -> bool:
            if not await places.take(OPERATOR):
                return False
            order.append(one)
            await asyncio.sleep(0)
            places.release(OPERATOR)
            return True

        return list(await asyncio.gather(*(ask(one) for one in range(number))))

    assert all(asyncio.run(crowd(RequestSlots(2, 50, 60), 50)))
    assert order == [*range(50)]
    few = asyncio.run(crowd(RequestSlots(1, 3, 60), 10))
    assert few.count(False) == 10 - 4
    late = asyncio.run(crowd(RequestSlots(1, 50, 0.0), 10))
    assert late.count(True) >= 1
    assert late.count(False) >= 1


def test_token_holders_cannot_take_all_request_slots() -> None:
    """Together three quarters of the slots, an eighth each."""
    greedy, other = Principal("one"), Principal("other")

    async def crowd() -> None:
        places = RequestSlots(16, 64, 0.01)
        assert [await places.take(greedy) for _ in range(5)] == [True, True, False, False, False]
        assert await places.take(other)
        many = [await places.take(Principal(str(number))) for number in range(20)]
        assert many.count(True) == 12 - 3
        assert [await places.take(OPERATOR) for _ in range(5)] == [True] * 4 + [False]
        waits = asyncio.create_task(places.take(OPERATOR))
        await asyncio.sleep(0)
        places.release(greedy)
        assert await waits

    asyncio.run(crowd())


def test_file_errors_are_returned_over_http(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid folder is not a full disk; hints name neither options nor settings."""
    del own_home
    monkeypatch.setenv("SATCHEL_PORTABILITY_ROOTS", str(tmp_path))
    with running_gateway() as found:
        client = found.client()
        client.post("/v1/banks", json={"name": "b"})
        client.post("/v1/banks/b/entries", json={"text": "tea"})

        def export(path: Path) -> Any:
            return client.post("/v1/export", json={"bank_id": "b", "path": str(path)})

        (tmp_path / "file").write_text("x")
        impossible = export(tmp_path / "file" / "x.pam")
        assert (impossible.status_code, impossible.json()["code"]) == (422, "path.refused")
        outside = export(Path("/etc/x.pam"))
        assert outside.status_code == 422
        assert "SATCHEL_PORTABILITY_ROOTS" not in outside.json()["hint"]
        assert "Use a path in the folders that the operator allows." in outside.json()["hint"]


def test_a_missing_memory_file_is_404(client: TestClient, bank: str) -> None:
    """Never written, or deleted; an empty file exists."""
    del bank
    where = "/v1/files/assistant/text/notes/a.md"
    assert client.put(where, json={"text": ""}).is_success
    there = client.get(where)
    assert (there.status_code, there.text) == (200, "")
    assert client.delete(where).status_code == 204
    for gone in (where, "/v1/files/assistant/text/nothing.md"):
        answer = client.get(gone)
        assert (answer.status_code, answer.json()["code"]) == (404, "files.none")


@pytest.mark.parametrize("hint", ["Say --bank NAME.", "Do this. Or use -y to go on.", "Use --yes."])
def test_a_hint_over_http_names_no_command_line_option(hint: str) -> None:
    """HTTP clients have none."""
    said = problem_of(UsageError("wrong", hint=hint), trusted=True)
    assert b" -" not in bytes(said.body)
    assert b'"hint":"Do this."' in bytes(said.body) or b"hint" not in bytes(said.body)


def test_an_upload_maps_owners_to_banks(client: TestClient) -> None:
    """``maps`` may be repeated; without a bank in the path, each user gets one."""
    rows = [{"memory": "likes tea", "user_id": "ada"}, {"memory": "likes jam", "user_id": "bob"}]
    maps = ["user:ada=bank-ada", "user:bob=bank-bob"]
    done = client.post("/v1/upload", params={"maps": maps, "from": "mem0"}, json=rows).json()
    assert sorted(one["name"] for one in done["banks"]) == ["bank-ada", "bank-bob"]
    found = client.post("/v1/banks/bank-bob/recall", json={"text": "jam"}).json()
    assert [one["text"] for one in found["memories"]] == ["likes jam"]
    refused = client.post("/v1/upload", params={"maps": "user:eve=x"}, json=rows)
    assert (refused.status_code, refused.json()["field"]) == (400, "map")
    again = client.post("/v1/upload", json=rows).json()
    assert sorted(one["name"] for one in again["banks"]) == ["ada", "bob"]
