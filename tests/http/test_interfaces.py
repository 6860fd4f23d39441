"""The command line, Python, HTTP and MCP return the same results for the same operations."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi.testclient import TestClient
from http_kit import ServedGateway
from mcp import Client

from satchel.api.store import Satchel
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.mcp.principal import ToolCaller
from satchel.mcp.server import server

SUGAR, MILK, FERRY = "Ada takes tea without sugar", "Ada takes tea with milk", "the ferry leaves"


class Interface(Protocol):
    """The operations that every interface offers."""

    def remember(self, bank: str, text: str, key: str | None = None) -> str: ...
    def recall(self, bank: str, text: str) -> list[str]: ...
    def forget(self, bank: str, memory: str) -> None: ...
    def export(self, bank: str) -> tuple[bytes, int, str]: ...
    def import_(self, bank: str, data: bytes) -> tuple[int, str]: ...
    def verify(self, data: bytes) -> str: ...
    def banks(self) -> dict[str, int]: ...


class Commands:
    """The command line with ``--json``."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._folder = folder

    def remember(self, bank: str, text: str, key: str | None = None) -> str:
        named = ["--key", key] if key else []
        return str(self._run("remember", text, *named, "--tag", "t", "--bank", bank)["id"])

    def recall(self, bank: str, text: str) -> list[str]:
        return [one["id"] for one in self._run("recall", text, "--bank", bank)["memories"]]

    def forget(self, bank: str, memory: str) -> None:
        self._run("forget", memory, "--bank", bank)

    def export(self, bank: str) -> tuple[bytes, int, str]:
        path = self._folder / "cli.pam.jsonl"
        done = self._run("export", "--bank", bank, "--output", path)
        return path.read_bytes(), done["entries"], done["receipt"]

    def import_(self, bank: str, data: bytes) -> tuple[int, str]:
        path = self._folder / "in.pam.jsonl"
        path.write_bytes(data)
        done = self._run("import", path, "--bank", bank)
        return done["banks"][0]["done"].get("added", 0), done["receipts"][0]

    def verify(self, data: bytes) -> str:
        path = self._folder / "v.pam.jsonl"
        path.write_bytes(data)
        return str(self._run("verify", path, "--deep")["outcome"])

    def banks(self) -> dict[str, int]:
        return {one["name"]: one["records"] for one in self._run("bank", "list")["banks"]}

    def _run(self, *words: str | Path) -> Any:
        self._capsys.readouterr()
        assert run([*map(str, words), "--json"]) == 0, self._capsys.readouterr().err
        return json.loads(self._capsys.readouterr().out)


class Python:
    """``satchel.Satchel``."""

    def __init__(self, satchel: Satchel, folder: Path) -> None:
        self._satchel = satchel
        self._folder = folder

    def remember(self, bank: str, text: str, key: str | None = None) -> str:
        return self._satchel.bank(bank).remember(text, key=key, tags=["t"]).id

    def recall(self, bank: str, text: str) -> list[str]:
        return [one.id for one in self._satchel.bank(bank).recall(text).memories]

    def forget(self, bank: str, memory: str) -> None:
        self._satchel.bank(bank).forget(memory)

    def export(self, bank: str) -> tuple[bytes, int, str]:
        path = self._folder / "py.pam.jsonl"
        done = self._satchel.bank(bank).export(path)
        return path.read_bytes(), done.entries, done.receipt or ""

    def import_(self, bank: str, data: bytes) -> tuple[int, str]:
        path = self._folder / "in.pam.jsonl"
        path.write_bytes(data)
        done = self._satchel.bank(bank).import_(path)
        return done.banks[0].done.added, done.receipts[0]

    def verify(self, data: bytes) -> str:
        import satchel

        path = self._folder / "v.pam.jsonl"
        path.write_bytes(data)
        return satchel.verify(path, deep=True).outcome.value

    def banks(self) -> dict[str, int]:
        return {one.name or "": one.records or 0 for one in self._satchel.list_banks()}


class Http:
    """The gateway."""

    def __init__(self, client: TestClient) -> None:
        self._client = client

    def remember(self, bank: str, text: str, key: str | None = None) -> str:
        said = {"text": text, "tags": ["t"]} | ({"key": key} if key else {})
        return str(self._ask("POST", f"/v1/banks/{bank}/entries", json=said).json()["id"])

    def recall(self, bank: str, text: str) -> list[str]:
        found = self._ask("POST", f"/v1/banks/{bank}/recall", json={"text": text}).json()
        return [one["id"] for one in found["memories"]]

    def forget(self, bank: str, memory: str) -> None:
        self._ask("DELETE", f"/v1/banks/{bank}/entries/{memory}")

    def export(self, bank: str) -> tuple[bytes, int, str]:
        said = {"bank": bank, "to": "pam_jsonl"}
        made = self._ask("POST", "/pam/artifacts", json=said)
        count = made.json()["entry_count"]
        went = self._ask("GET", f"/v1/banks/{bank}/download", params={"to": "pam_jsonl"})
        return went.content, count, went.headers["X-Satchel-Receipt"]

    def import_(self, bank: str, data: bytes) -> tuple[int, str]:
        name = {"name": "in.pam.jsonl"}
        done = self._ask("POST", f"/v1/banks/{bank}/upload", params=name, content=data).json()
        return done["banks"][0]["done"].get("added", 0), done["receipts"][0]

    def verify(self, data: bytes) -> str:
        said = {"deep": "true", "name": "v.pam.jsonl"}
        found = self._ask("POST", "/v1/verify/upload", params=said, content=data)
        return str(found.json()["outcome"])

    def banks(self) -> dict[str, int]:
        found = self._ask("GET", "/v1/banks").json()["banks"]
        return {one["name"]: one["records"] for one in found}

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        found = self._client.request(method, path, **more)
        assert found.is_success, found.text
        return found


class Mcp:
    """The MCP server, called with the official client."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def remember(self, bank: str, text: str, key: str | None = None) -> str:
        return str(self._call("remember", text=text, tags=["t"], key=key, bank=bank)["id"])

    def recall(self, bank: str, text: str) -> list[str]:
        return list(self._call("recall", query=text, bank=bank)["entries"])

    def forget(self, bank: str, memory: str) -> None:
        self._call("forget", ids=[memory], bank=bank)

    def export(self, bank: str) -> tuple[bytes, int, str]:
        done = self._call("pam_export_memory", format="json", bank=bank)
        return base64.b64decode(done["artifact"]), done["entry_count"], done["receipt"]

    def import_(self, bank: str, data: bytes) -> tuple[int, str]:
        artifact = base64.b64encode(data).decode()
        done = self._call("pam_import_memory", artifact=artifact, bank=bank)
        return done["entries_imported"], done["receipts"][0]

    def verify(self, data: bytes) -> str:
        artifact = base64.b64encode(data).decode()
        return str(self._call("verify_memory", artifact=artifact)["outcome"])

    def banks(self) -> dict[str, int]:
        return {one["name"]: one["records"] for one in self._call("list_banks")["banks"]}

    def _call(self, name: str, **said: Any) -> Any:
        found = self._portal.call(self._client.call_tool, name, said)
        assert not found.is_error, found.content
        return found.structured_content


@pytest.fixture
def interfaces(
    served: ServedGateway, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[dict[str, Interface]]:
    """All interfaces of one store."""
    made = Client(server(ToolCaller(satchel=served.satchel, settings=load_settings())))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(made) as client:
        yield {
            "cli": Commands(capsys, tmp_path),
            "python": Python(served.satchel, tmp_path),
            "http": Http(served.client()),
            "mcp": Mcp(portal, client),
        }


def short(ids: Iterable[str]) -> list[str]:
    """Return IDs as a model gets them."""
    return [each.removeprefix("blake3:")[:8] for each in ids]


def _results(interface: Interface, bank: str, counts: Callable[[str], Any]) -> Iterator[Any]:
    """Call the operations, and yield the result of each in a comparable form."""
    sugar = interface.remember(bank, SUGAR, key="tea")
    ferry = interface.remember(bank, FERRY)
    yield short(interface.recall(bank, "ferry"))[:1] == short([ferry])
    milk = interface.remember(bank, MILK, key="tea")
    yield milk != sugar
    yield short(interface.recall(bank, "tea"))[:1] == short([milk])
    interface.forget(bank, ferry)
    yield short([ferry])[0] in short(interface.recall(bank, "ferry leaves"))
    data, entries, receipt = interface.export(bank)
    yield entries, counts(receipt)
    yield interface.verify(data)
    added, receipt = interface.import_(f"{bank}-copy", data)
    yield added, counts(receipt)
    yield short(interface.recall(f"{bank}-copy", "tea")) == short([milk])
    yield interface.import_(f"{bank}-copy", data)[0]


def test_all_interfaces_return_the_same_results(
    interfaces: dict[str, Interface], served: ServedGateway
) -> None:
    """Step by step; then each reads the others' banks: IDs, contents, counts of receipts."""

    def counts(receipt: str) -> Any:
        found = msgspec.to_builtins(served.satchel.receipt(receipt))
        account = found["account"]
        ends = {end: account[end].get("records") for end in ("input", "output")}
        return {"kind": account["kind"], "lost": account.get("lost"), **ends}

    for name in interfaces:
        served.satchel.create_bank(name)
        served.satchel.create_bank(f"{name}-copy")
    done = {name: list(_results(interface, name, counts)) for name, interface in interfaces.items()}
    assert done["cli"][:4] == [True, True, True, False]
    for steps in done.values():
        assert steps == done["cli"]
    contents = set[tuple[str, ...]]()
    for name in interfaces:
        bank = served.satchel.bank(name)
        seen = {
            other: interface.recall(name, "tea ferry") for other, interface in interfaces.items()
        }
        listed = tuple(short(one.id for one in bank.list()))
        assert {tuple(short(ids)) for ids in seen.values()} == {listed}
        contents.add(tuple(str(one.text) for one in bank.list()))
    assert contents == {(MILK,)}
    told = [interface.banks() for interface in interfaces.values()]
    assert all(one == told[0] for one in told)
    assert set(told[0]) >= set(interfaces)
