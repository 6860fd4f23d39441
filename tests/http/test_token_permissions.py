"""Routes and tools with a token that does not allow them reveal and change nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary_kit import OTHER, OWN, Canaries, create_canaries
from fastapi.testclient import TestClient
from http_kit import ServedGateway, example_of, request_path, running_gateway

from satchel.config.settings import load_settings
from satchel.http.guard import ServerLimits

UNRESTRICTED = ("/healthz", "/readyz", "/v1/about", "/v1/formats", "/v1/openapi.json")
MCP = {"Accept": "application/json, text/event-stream"}
REFUSED = (401, 403, 404)


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    """Two banks, and tokens for one."""
    return create_canaries(tmp_path)


@pytest.fixture
def gateway(canaries: Canaries) -> Iterator[ServedGateway]:
    """A gateway over both banks."""
    del canaries
    with running_gateway(bounds=ServerLimits(per_second=0)) as found:
        yield found


def holder(gateway: ServedGateway, canaries: Canaries, token: str) -> TestClient:
    """Return a client of a token holder, which signs each request."""
    key = load_settings().keyring.load("holder")
    return gateway.holder(canaries.tokens[token].read_text(), key)


def requests(
    gateway: ServedGateway, canaries: Canaries, bank: str
) -> Iterator[tuple[str, str, Any]]:
    """Yield a request that would succeed for the owner, for each route of the document."""
    names = {
        "bank": bank,
        "entry": canaries.memory,
        "memory": canaries.memory,
        "session": canaries.session,
        "receipt": canaries.receipt,
        "path": "canary.md",
        "store": bank,
    }
    for path, operations in gateway.app.openapi()["paths"].items():
        for method, operation in operations.items():
            said = example_of(operation)
            assert said is not None
            steps = said.pop("path")
            here = {name: names.get(name, value) for name, value in steps.items()}
            if path.startswith(UNRESTRICTED):
                continue
            for member in ("bank", "other", "source", "into"):
                for part in (said["params"], said.get("json")):
                    if isinstance(part, dict) and member in part:
                        part[member] = bank
            if path.endswith("/entries") and "json" in said:
                said["json"] = {"text": "a wren"}
            yield method.upper(), request_path(path, here), said


def tools(client: TestClient) -> list[dict[str, Any]]:
    """Return the tools that a client gets."""
    return list(_mcp_result(client, "tools/list", {})["tools"])


def _mcp_result(client: TestClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = client.post("/mcp", json=body, headers=MCP)
    assert answer.status_code == 200, answer.text
    text = answer.text
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        text = next(one[6:] for one in text.splitlines() if one.startswith("data: "))
    result: dict[str, Any] = json.loads(text)["result"]
    return result


def calls(canaries: Canaries) -> dict[str, dict[str, Any]]:
    """Return the arguments for each tool; a new tool fails until it is listed."""
    return {
        "remember": {"text": "x"},
        "recall": {"query": "canary"},
        "list": {},
        "show": {"id": canaries.memory},
        "update": {"id": canaries.memory, "text": "y"},
        "forget": {"ids": [canaries.memory]},
        "rehydrate": {"task": "canary"},
        "list_banks": {},
        "verify_memory": {},
        "pam_export_memory": {},
        "pam_import_memory": {"artifact": "eHg="},
        "memory": {"command": "view", "path": "/memories"},
        "session_fork": {"session": canaries.session},
    }


def record_counts(gateway: ServedGateway) -> tuple[int, ...]:
    """Return the number of records of both banks."""
    client = gateway.client()
    found = client.get("/v1/banks").json()["banks"]
    return tuple(sorted(each["records"] for each in found))


def test_a_token_to_redact_is_refused_by_every_other_route(
    gateway: ServedGateway, canaries: Canaries
) -> None:
    """Each route of the document, with a request that would succeed for the owner."""
    before, wrong, number = record_counts(gateway), list[str](), 0
    client = holder(gateway, canaries, "redacts")
    for method, where, said in requests(gateway, canaries, OWN):
        if where.endswith("/redact") or where == "/mcp":
            continue
        number += 1
        answer = client.request(method, where, **said)
        if answer.status_code not in REFUSED:
            wrong.append(f"{method} {where}: {answer.status_code} {answer.text[:200]}")
    assert wrong == []
    assert number > 70
    assert record_counts(gateway) == before


@pytest.mark.parametrize("bank", [OWN, OTHER])
def test_a_token_for_other_memories_reveals_nothing_on_any_route(
    gateway: ServedGateway, canaries: Canaries, bank: str
) -> None:
    """It has all permissions, but for tags that no memory has; also with another bank named."""
    before, wrong = record_counts(gateway), list[str]()
    client = holder(gateway, canaries, "elsewhere")
    for method, where, said in requests(gateway, canaries, bank):
        answer = client.request(method, where, **said)
        asked = f"{where} {json.dumps(said.get('json'))} {said['params']}"
        answered = f"{answer.headers} {answer.text}"
        wrong += [
            f"{method} {where}: {each} in {answered[:300]}"
            for each in canaries.secrets
            if each in answered and each not in asked
        ]
        if answer.status_code >= 500 and answer.status_code != 503:
            wrong.append(f"{method} {where}: {answer.status_code}")
    assert wrong == []
    assert record_counts(gateway) == before


@pytest.mark.in_check(2)
@pytest.mark.parametrize(
    ("kind", "bank"), [("redacts", OWN), ("elsewhere", OWN), ("elsewhere", OTHER)]
)
def test_a_narrow_token_reveals_nothing_in_any_tool(
    gateway: ServedGateway, canaries: Canaries, kind: str, bank: str
) -> None:
    """Tools, resources and prompts; for its own bank and another one."""
    before, wrong, client = record_counts(gateway), list[str](), holder(gateway, canaries, kind)
    offered, usual = tools(client), calls(canaries)
    assert {each["name"] for each in offered} == usual.keys()
    for tool in offered:
        said = dict(usual[tool["name"]])
        if "bank" in tool["inputSchema"]["properties"]:
            said["bank"] = bank
        found = _mcp_result(client, "tools/call", {"name": tool["name"], "arguments": said})
        answered = json.dumps(found)
        wrong += [
            f"{tool['name']}: {answered[:300]}"
            for each in canaries.secrets
            if each in answered and each not in json.dumps(said)
        ]
        if kind == "redacts" and not found.get("isError"):
            wrong.append(f"{tool['name']}: not refused: {answered[:300]}")
    assert wrong == []
    for resource in ("satchel://banks", f"satchel://banks/{bank}/memory"):
        body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": resource}}
        answer = client.post("/mcp", json=body, headers=MCP)
        assert not [each for each in canaries.secrets if each in answer.text.replace(bank, "")]
    assert record_counts(gateway) == before
