"""Requests: unknown and repeated members, invalid JSON, and bodies over the limits are refused."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from digest_kit import folder_state
from fastapi import FastAPI
from fastapi.testclient import TestClient
from http_kit import ELSEWHERE, ServedGateway, example_of, request_path, running_gateway
from hypothesis import HealthCheck, Phase, given, settings

from satchel.crypto.keys import SigningKey, public_key
from satchel.http.admission import Access, BodyKind, Route
from satchel.http.guard import ServerLimits

MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def _operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each route with an accepted request."""
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            said = example_of(operation)
            assert said is not None
            yield method.upper(), request_path(path, said.pop("path")), said


def test_attack_a_member_is_sent_twice(served: ServedGateway) -> None:
    """On every route, at any depth: parsers differ in which of them they use."""
    client, number = served.client(), 0
    for method, where, said in _operations(served.app):
        if not said.get("json"):
            continue
        number += 1
        plain = json.dumps(said.pop("json"))
        name = next(iter(json.loads(plain)))
        for twice in (
            f'{{"{name}": null, {plain[1:]}',
            f'{{"\\u{ord(name[0]):04x}{name[1:]}": null, {plain[1:]}',
            f'{{"zzz": [{{"a": {{"b": 1, "b": 2}}}}], {plain[1:]}',
        ):
            headers = {"Content-Type": "application/json"}
            answer = client.request(method, where, content=twice, headers=headers, **said)
            found = answer.json()
            assert (answer.status_code, found["code"]) == (400, "usage"), (method, where)
            assert "twice" in found["title"]
            assert found["field"] in (name, "b")
    assert number > 30


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "gzip, gzip", "GZIP"])
def test_attack_a_body_declares_a_compression(served: ServedGateway, encoding: str) -> None:
    """It is refused: nothing is decompressed, and nothing stored as it is."""
    client = served.client()
    said = {"Content-Type": "application/json", "Content-Encoding": encoding}
    banks = client.get("/v1/banks").json()
    answer = client.post("/v1/banks", content=b'{"name": "packed"}', headers=said)
    assert (answer.status_code, answer.json()["code"]) == (415, "encoding")
    assert client.get("/v1/banks").json() == banks
    said["Content-Encoding"] = "identity"
    assert client.post("/v1/banks", content=b'{"name": "plain"}', headers=said).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe{\x00}\x00",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b"[" * 100_000,
        b'{"a": %s}' % (b"9" * 9999),
    ],
)
def test_attack_a_body_is_not_plain_json(client: TestClient, body: bytes) -> None:
    """Another encoding, NaN, huge numbers, deep nesting."""
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/banks", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")


def test_attack_a_member_is_sent_twice_over_mcp(client: TestClient) -> None:
    """In the call, and in the arguments of a tool."""
    call = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %s}'
    for params in (
        '{"name": "list_banks", "name": "memory", "arguments": {}}',
        '{"name": "remember", "arguments": {"text": "a", "text": "b"}}',
    ):
        answer = client.post("/mcp", content=call % params, headers=MCP)
        assert answer.status_code == 400
        assert "twice" in answer.json()["title"]


@pytest.mark.parametrize("route", ["erase", "redact"])
@pytest.mark.parametrize("where", [{"user": []}, {"user": True}, {"": []}, {"user": [1]}])
def test_attack_a_condition_of_erase_has_another_type(
    client: TestClient, route: str, where: object
) -> None:
    """Neither an internal error nor an erasure without the condition."""
    bank = client.post("/v1/banks", json={"name": "erasures"}).json()["name"]
    answer = client.post(f"/v1/banks/{bank}/{route}", json={"where": where, "dry_run": True})

    assert answer.status_code in (400, 422)
    assert answer.json()["field"].startswith("where")


def test_an_unknown_query_parameter_is_refused_by_every_route(served: ServedGateway) -> None:
    """A misspelled filter would match everything; the error suggests a name."""
    client, number = served.client(), 0
    for method, where, said in _operations(served.app):
        if where.startswith(("/healthz", "/readyz", "/v1/formats", "/v1/about")):
            continue  # public, without parameters
        number += 1
        said["params"] = {**said["params"], "no_such_filter": "1"}
        answer = client.request(method, where, **said)
        assert (answer.status_code, answer.json()["code"]) == (400, "usage"), (method, where)
        assert answer.json()["field"] == "no_such_filter"
    assert number > 70
    client.post("/v1/banks", json={"name": "b"})
    wrong = client.get("/v1/banks/b/download", params={"tag": "tea"}).json()
    assert "did you mean 'tags'" in wrong["title"]
    twice = client.get("/v1/banks/b/entries?limit=1&limit=1000")
    assert (twice.status_code, twice.json()["field"]) == (400, "limit")
    assert client.get("/v1/banks/b/entries?tags=a&tags=b").is_success


def test_every_route_declares_its_permission_and_its_body(served: ServedGateway) -> None:
    """Public routes are few, and accept no body."""
    found = list(_routes(served.app))
    public = {route.path for route in found if route.access is Access.ANYBODY}
    assert public == {
        *("/", "/page/{name}", "/healthz", "/readyz"),
        *("/v1/about", "/v1/formats", "/v1/openapi.json"),
    }
    for route in found:
        takes_nothing = route.methods is not None and not route.methods & {"POST", "PUT", "PATCH"}
        assert (route.takes is BodyKind.NOTHING) == takes_nothing, route.path
    files = {route.path for route in found if route.takes is BodyKind.FILE}
    assert files == {"/v1/banks/{bank}/upload", "/v1/upload", "/v1/verify/upload"}


def _routes(app: FastAPI) -> Iterator[Route]:
    for one in app.routes:
        for route in getattr(getattr(one, "original_router", one), "routes", [one]):
            assert isinstance(route, Route)
            yield route


def test_the_limit_of_a_body_depends_on_its_route(own_home: object) -> None:
    """Not on the end of its path; also for the operator, and for methods without a body."""
    del own_home
    bounds = ServerLimits(small_bytes=1000, body_bytes=3000, upload_bytes=9000, holder_bytes=2000)
    with running_gateway(bounds=bounds) as served:
        client = served.client()
        assert client.post("/v1/banks", json={"name": "b"}).is_success
        where = "/v1/files/b/text/x/upload"
        assert client.put(where, json={"text": "x" * 2500}).is_success
        assert client.put(where, json={"text": "x" * 3500}).status_code == 413
        assert client.post("/v1/banks", json={"name": "x" * 1500}).status_code == 413
        assert client.post("/v1/banks/b/recall", content=iter([b" "] * 2000)).status_code == 413
        for method in ("GET", "DELETE"):
            answer = client.request(method, where, content=b"x")
            assert (answer.status_code, answer.json()["code"]) == (413, "limit")
        assert client.get(where).status_code == 200
        key = SigningKey.generate()
        said = {"audience": key.did, "everything": True, "permissions": ["read", "write"]}
        made = client.post("/v1/banks/b/tokens", json=said).json()
        holder = served.holder(json.dumps(made["token"], separators=(",", ":")), key, ELSEWHERE)
        assert holder.put(where, json={"text": "x" * 1500}).is_success
        assert holder.put(where, json={"text": "x" * 2500}).status_code == 413


def test_buffered_bodies_are_bounded_in_total(own_home: object) -> None:
    """Over the limit is 503 with Retry-After; the buffers are released."""
    del own_home
    with running_gateway(bounds=ServerLimits(buffered_bytes=2000)) as served:
        client = served.client()
        for _ in range(3):
            answer = client.post("/v1/banks", json={"name": "x" * 3000})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert client.post("/v1/banks", json={"name": "b" * 200}).status_code < 500


def test_attack_a_name_over_http_is_read_as_a_file(
    served: ServedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audience of a token, and a token to revoke, are never read as paths."""
    client, key = served.client(), SigningKey.generate()
    client.post("/v1/banks", json={"name": "b"})
    (tmp_path / "key").write_text(key.did)
    (tmp_path / "abcdef").write_text("{}")
    monkeypatch.chdir(tmp_path)
    said = set[str]()
    for audience in ("key", str(tmp_path / "key"), str(tmp_path), "nothing", "/dev/zero", "", "."):
        asked = {"audience": audience, "everything": True}
        answer = client.post("/v1/banks/b/tokens", json=asked)
        assert answer.status_code == 422
        said.add(answer.text)
    assert len(said) == 1
    for audience in (key.did, public_key(key.did).hex()):
        asked = {"audience": audience, "everything": True}
        made = client.post("/v1/banks/b/tokens", json=asked)
        assert made.json()["audience"] == key.did
    for token in ("abcdef", "key", "blake3:key"):
        answer = client.post(f"/v1/banks/b/tokens/{token}/revoke", json={})
        assert answer.status_code == 400, answer.text
        assert "no token of this bank" in answer.json()["title"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("pam", "application/pam+json"), ("pam_cbor", "application/pam+cbor")],
)
def test_artifacts_have_the_media_types_of_the_specification(
    served: ServedGateway, name: str, kind: str
) -> None:
    """Created and downloaded, by owner and token holder; the OpenAPI document has them."""
    client, key = served.client(), SigningKey.generate()
    client.post("/v1/banks", json={"name": "b"})
    memory = client.post("/v1/banks/b/entries", json={"text": "tea"}).json()["id"]
    rights = ["read", "export"]
    asked = {"audience": key.did, "everything": True, "permissions": rights}
    made = client.post("/v1/banks/b/tokens", json=asked).json()
    holder = served.holder(json.dumps(made["token"], separators=(",", ":")), key, ELSEWHERE)
    kept = client.post("/pam/artifacts", json={"bank": "b", "to": name})
    where = kept.headers["Location"]
    for caller in (client, holder):
        assert caller.get(where).headers["Content-Type"] == kind
        download = caller.get("/v1/banks/b/download", params={"to": name})
        assert download.headers["Content-Type"] == kind
    disclosed = client.post(f"{where}/disclose", json={"entry_ids": [memory]})
    assert disclosed.headers["Content-Type"] == "application/pam+json"
    other = client.get("/v1/banks/b/download", params={"to": "mem0"})
    assert other.headers["Content-Type"] == "application/octet-stream"
    paths = served.app.openapi()["paths"]
    for path in ("/pam/artifacts/{artifact}", "/v1/banks/{bank}/download"):
        assert kind in paths[path]["get"]["responses"]["200"]["content"]


def _send_generated(examples: int, *, some: int | None = None) -> int:
    """Send generated requests to all or some operations; return how many there are."""
    import schemathesis  # takes a second

    with running_gateway(bounds=ServerLimits(per_second=0)) as served:
        schema = schemathesis.openapi.from_dict(served.app.openapi())
        client = served.client()
        number = 0
        operations = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
        chosen = operations if some is None else random.sample(operations, some)
        for operation in chosen:
            number += 1

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def ask(case: Any) -> None:
                said = case.as_transport_kwargs(base_url="http://localhost")
                said.pop("cookies", None)
                if isinstance(said.get("data"), bytes):
                    said["content"] = said.pop("data")
                answer = client.request(**said)
                assert answer.status_code < 500 or answer.status_code == 503, answer.text
                assert answer.status_code not in (403, 421)

            ask()
    return number


def test_the_example_of_every_request_is_accepted(own_home: Path) -> None:
    """Each is sent as it is in the document; none is refused as invalid."""
    del own_home
    number, lacking = 0, []
    with running_gateway(bounds=ServerLimits(per_second=0)) as served:
        client = served.client()
        document = client.get("/v1/openapi.json").json()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                number += 1
                said = example_of(operation)
                if said is None:
                    lacking.append((method, path))
                    continue
                where = request_path(path, said.pop("path"))
                answer = client.request(method, where, **said)
                assert answer.status_code < 500, (method, path, answer.text)
                problem = answer.headers.get("Content-Type") == "application/problem+json"
                assert not problem or "errors" not in answer.json(), (method, path, answer.text)
    assert lacking == []
    assert number >= 80


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "\0",
    "../../etc/passwd",
    "é" * 300,
    "9999-99-99",
    [],
    [None],
    {},
    {"": {"a": [[[[]]]]}},
]


def test_attack_a_member_of_a_request_has_another_type(own_home: Path) -> None:
    """Members of each body and parameters of each route, one at a time."""
    del own_home
    with running_gateway(bounds=ServerLimits(per_second=0)) as served:
        client = served.client()
        client.post("/v1/banks", json={"name": "assistant"})
        for path, operations in served.app.openapi()["paths"].items():
            for method, operation in operations.items():
                altered = list(_altered_requests(path, operation))
                for where, asked in random.sample(altered, min(len(altered), 4)):
                    answer = client.request(method, where, **asked)
                    assert answer.status_code < 500, (method, where, asked, answer.text)


def _altered_requests(path: str, operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests that differ from the example in one value."""
    said = example_of(operation)
    assert said is not None
    steps = said.pop("path")
    names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    usual = request_path(path, steps)
    for value in HOSTILE:
        for name in steps:
            yield request_path(path, steps | {name: str(value) or " "}), said
        for name in names:
            yield usual, said | {"params": said["params"] | {name: str(value)}}
        for name in said.get("json", {}):
            yield usual, said | {"json": said["json"] | {name: value}}


def test_generated_requests_cause_no_server_error(own_home: Path) -> None:
    """For some routes, others in each run."""
    del own_home
    assert _send_generated(2, some=6) == 6


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_generated_requests_for_every_route_cause_no_server_error(own_home: Path) -> None:
    """Forty for each operation."""
    del own_home
    assert _send_generated(40) >= 80


BANK = "/v1/banks/assistant"
KEY = "/v1/files/assistant"
EXPORT = "/v1/banks/{bank}/download"
"""Writes a receipt of the export, and the witness records it."""

OPEN_ENDED = {"/v1/jobs/{job}/events"}
"""Streams; the job itself is read by another route."""


def create_records(client: TestClient) -> dict[str, str]:
    """Create a bank with records for every route; return the values of path and query."""
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


def routes(served: ServedGateway) -> dict[str, dict[str, Any]]:
    """Return the description of each GET route."""
    paths = served.app.openapi()["paths"]
    return {path: said["get"] for path, said in paths.items() if "get" in said}


def test_a_get_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every route of the OpenAPI document: store, home, witness; names and modes of files."""
    monkeypatch.setenv("SATCHEL_BACKUP_DESTINATION", str(tmp_path / "backups"))
    with running_gateway() as served:
        _assert_unchanged(served, served.client(), tmp_path)


def _assert_unchanged(served: ServedGateway, client: TestClient, tmp_path: Path) -> None:
    values = create_records(client)
    before, answered = folder_state(tmp_path), dict[str, int]()
    for path, said in routes(served).items():
        if path in OPEN_ENDED:
            continue
        asked = [one for one in said.get("parameters", ()) if one.get("required")]
        query = {one["name"]: values[one["name"]] for one in asked if one["in"] == "query"}
        answered[path] = client.get(path.format(**values), params=query).status_code
        after = folder_state(tmp_path)
        if path == EXPORT:
            receipts = [name for name in after.keys() - before.keys() if "/receipts/" in name]
            before |= {name: after[name] for name in (*receipts, "satchel-witness/seen.jsonl")}
        assert {
            name for name in {*before, *after} if before.get(name) != after.get(name)
        } == set(), path
    assert {path: code for path, code in answered.items() if code != 200} == {
        "/v1/banks/{bank}/diff": 404,  # the other one is a session, not a bank
        "/v1/files/{store}/diff/{path}": 422,  # versions are disabled
        "/v1/jobs/{job}": 404,  # no such job
    }
