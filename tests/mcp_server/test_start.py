"""Modules that ``satchel mcp`` imports until it lists its tools."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from satchel.mcp.sdk import TESTED

OPTIONAL = frozenset(
    {
        "satchel.admin.bank_health",
        "satchel.transfer.imports",
        "satchel.transfer.exports",
        "satchel.transfer.verification",
        "satchel.transfer.export_operations",
        "satchel.transfer.import_operations",
        "satchel.sessions.branches",
        "satchel.rehydrate.operations",
        "satchel.files.memory_tool",
        "satchel.mcp.toolsets",
        "satchel.admin.bank_copy",
    }
)
"""Modules of toolsets only."""

CALLS = frozenset(
    {
        "satchel.bank.checks",
        "satchel.rehydrate.memory_lines",
        "satchel.rehydrate",
        "satchel.http.app",
        "fastapi",
        "multiprocessing.queues",
        "numpy",
    }
)
"""Modules of tool calls, or of the gateway."""

HTTP = frozenset({"httpx2", "mcp.client", "rich.console", "sse_starlette", "starlette", "uvicorn"})
"""Modules that the SDK needs for HTTP, and to color its log."""

CORE = ["remember", "recall", "list", "show", "update", "forget"]
"""The tools without a toolset."""

MAIN = """
import atexit, sys
from satchel.mcp import sdk
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = ["satchel", *sys.argv[1:]]
from satchel.cli.main import main
main()
"""

HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]
FULL_IMPORTS = {
    "an untested SDK": "sdk.TESTED = frozenset()",
    "a stub that the SDK needs": "sdk._HTTP_ONLY += ('mcp.server.mcpserver.tools',)",
    "a failing import": "sdk._HTTP_ONLY += ('mcp.server.lowlevel.server',)",
}


def start_server(*arguments: str, main: str = MAIN) -> tuple[list[str], set[str]]:
    """Return the tools that a server lists, and the modules that it has imported."""
    with subprocess.Popen(
        [sys.executable, "-c", main, "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(each) + "\n" for each in HELLO))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        _, modules = process.communicate()
    assert process.returncode == 0
    (listed,) = (each["result"]["tools"] for each in answers if each["id"] == 2)
    return [tool["name"] for tool in listed], set(modules.split())


@pytest.mark.usefixtures("own_home")
def test_a_server_with_core_tools_imports_no_toolset() -> None:
    """A host starts it for every session, usually with the core tools only."""
    tools, modules = start_server()
    assert tools == CORE
    assert "satchel.mcp.tools" in modules
    assert sorted((OPTIONAL | CALLS | HTTP) & modules) == []


@pytest.mark.in_check(1)
@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("change", FULL_IMPORTS.values(), ids=FULL_IMPORTS)
def test_the_sdk_is_imported_completely_if_necessary(change: str) -> None:
    """The answers are the same."""
    tools, modules = start_server(main=MAIN.replace("sys.argv =", f"{change}; sys.argv ="))
    assert tools == CORE
    assert sorted(HTTP - modules - {"rich.console"}) == []


@pytest.mark.usefixtures("own_home")
def test_http_modules_can_be_imported_after_the_start() -> None:
    """For a tool that calls a service, or a client of the SDK."""
    after = (
        "atexit.register(lambda: print(mcp.Client.__module__, starlette.applications.__file__));"
        "atexit.register(lambda: exec('import mcp, httpx2, starlette.applications', globals()));"
    )
    done = subprocess.run(
        [sys.executable, "-c", MAIN.replace("sys.argv =", f"{after} sys.argv ="), "mcp"],
        input="".join(json.dumps(each) + "\n" for each in HELLO),
        capture_output=True,
        text=True,
        check=True,
    )
    client, path = done.stdout.splitlines()[-1].split(" ", 1)
    assert client == "mcp.client.client"
    assert path.endswith("applications.py")


def test_the_installed_sdk_is_a_tested_one() -> None:
    """Another one is imported completely, until it is tested and added."""
    assert ".".join(version("mcp").split(".")[:2]) in TESTED


@pytest.mark.usefixtures("own_home")
def test_a_server_with_all_toolsets_imports_their_modules() -> None:
    """So the list above names existing modules."""
    tools, modules = start_server("--toolset", "all")
    assert len(tools) > 6
    assert sorted(OPTIONAL - modules) == []


TOOLSETS = {
    "context": {"rehydrate", "list_banks"},
    "files": {"memory"},
    "artifacts": {"verify_memory", "pam_export_memory", "pam_import_memory"},
    "sessions": {"session_fork"},
}


@pytest.mark.in_check(1)
@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("name", TOOLSETS)
def test_each_toolset_adds_its_own_tools(name: str) -> None:
    """And no others."""
    assert set(start_server("--toolset", name)[0]) - set(CORE) == TOOLSETS[name]
