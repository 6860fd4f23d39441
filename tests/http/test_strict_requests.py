"""A request says each thing once, nothing that is not known, and no more than its route takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from http_kit import ELSEWHERE, Served, example_of, serving, where_of

from satchel.crypto.keys import SigningKey, public_key
from satchel.http.admission import Access, BodyKind, Route
from satchel.http.guard import ServerLimits

MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def _operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each route with a request that it understands."""
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            said = example_of(operation)
            assert said is not None
            yield method.upper(), where_of(path, said.pop("path")), said


def test_attack_a_duplicate_member_is_refused_by_every_route(served: Served) -> None:
    """On top, and nested: what one reader takes for the last, another takes for the first."""
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
def test_attack_a_body_that_says_it_is_packed_is_not_taken_as_it_is(
    served: Served, encoding: str
) -> None:
    """Nothing is unpacked, so there is no bomb; and nothing is stored that was meant otherwise."""
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
def test_attack_what_is_no_plain_json_is_refused(client: TestClient, body: bytes) -> None:
    """Another encoding, no numbers, numbers without end, depth without end."""
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/banks", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")


def test_attack_a_duplicate_member_is_refused_over_mcp(client: TestClient) -> None:
    """In the call, and in a tool's arguments."""
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
def test_attack_a_condition_of_another_shape_is_a_problem_document(
    client: TestClient, route: str, where: object
) -> None:
    """Neither an internal error nor an erasure without the condition."""
    bank = client.post("/v1/banks", json={"name": "erasures"}).json()["name"]
    answer = client.post(f"/v1/banks/{bank}/{route}", json={"where": where, "dry_run": True})

    assert answer.status_code in (400, 422)
    assert answer.json()["field"].startswith("where")


def test_an_unknown_query_parameter_is_refused_by_every_route(served: Served) -> None:
    """A misspelled filter lets everything through; the answer names the nearest that there is."""
    client, number = served.client(), 0
    for method, where, said in _operations(served.app):
        if where.startswith(("/healthz", "/readyz", "/v1/formats", "/v1/about")):
            continue  # anybody's, without parameters
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


def test_every_route_declares_its_permission_and_its_body(served: Served) -> None:
    """What anybody may ask for is little, and takes nothing."""
    found = list(_routes(served.app))
    anybody = {route.path for route in found if route.access is Access.ANYBODY}
    assert anybody == {
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


def test_a_body_is_bounded_by_its_route_and_not_by_what_the_path_ends_in(own_home: object) -> None:
    """Also of the operator, and with methods that have none."""
    del own_home
    bounds = ServerLimits(small_bytes=1000, body_bytes=3000, upload_bytes=9000, holder_bytes=2000)
    with serving(bounds=bounds) as served:
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


def test_what_is_in_memory_of_all_bodies_is_bounded(own_home: object) -> None:
    """Too much is told to come again, and what was taken in is given back."""
    del own_home
    with serving(bounds=ServerLimits(buffered_bytes=2000)) as served:
        client = served.client()
        for _ in range(3):
            answer = client.post("/v1/banks", json={"name": "x" * 3000})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert client.post("/v1/banks", json={"name": "b" * 200}).status_code < 500


def test_attack_a_name_over_http_names_no_file_of_the_servers(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audience of a token, a token to be revoked: no file is ever looked at."""
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
    served: Served, name: str, kind: str
) -> None:
    """Made and downloaded, by the owner and by a holder; the OpenAPI document says so."""
    client, key = served.client(), SigningKey.generate()
    client.post("/v1/banks", json={"name": "b"})
    memory = client.post("/v1/banks/b/entries", json={"text": "tea"}).json()["id"]
    rights = ["read", "export"]
    asked = {"audience": key.did, "everything": True, "permissions": rights}
    made = client.post("/v1/banks/b/tokens", json=asked).json()
    holder = served.holder(json.dumps(made["token"], separators=(",", ":")), key, ELSEWHERE)
    kept = client.post("/pam/artifacts", json={"bank": "b", "to": name})
    where = kept.headers["Location"]
    for who in (client, holder):
        assert who.get(where).headers["Content-Type"] == kind
        download = who.get("/v1/banks/b/download", params={"to": name})
        assert download.headers["Content-Type"] == kind
    disclosed = client.post(f"{where}/disclose", json={"entry_ids": [memory]})
    assert disclosed.headers["Content-Type"] == "application/pam+json"
    other = client.get("/v1/banks/b/download", params={"to": "mem0"})
    assert other.headers["Content-Type"] == "application/octet-stream"
    paths = served.app.openapi()["paths"]
    for path in ("/pam/artifacts/{artifact}", "/v1/banks/{bank}/download"):
        assert kind in paths[path]["get"]["responses"]["200"]["content"]
