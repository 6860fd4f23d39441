"""An agent host as ``satchel connect`` configures it: server and hooks use one memory."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

DECISION = "We decided to keep CSV as the only format of the prices."


def satchel(*words: str) -> str:
    """Run a command, and return its output."""
    command = [sys.executable, "-m", "satchel", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_hook(settings: Path, event: str, said: dict[str, str]) -> Any:
    """Run a hook as the host does, by a shell, and return its answer."""
    (group,) = json.loads(settings.read_bytes())["hooks"][event]
    command = ["sh", "-c", group["hooks"][0]["command"]]
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, input=json.dumps(said)
    )
    return json.loads(ran.stdout)


def call_tool(servers: Path, name: str, arguments: dict[str, Any]) -> str:
    """Return the text result of a tool of the server that a host has configured."""
    entry = json.loads(servers.read_bytes())["mcpServers"]["satchel"]
    parameters = StdioServerParameters(**entry, env=dict(os.environ))

    async def ask() -> str:
        async with Client(stdio_client(parameters)) as client:
            found = await client.call_tool(name, arguments)
            assert not found.is_error, found.content
            return str(found.content)

    return asyncio.run(ask())


@pytest.mark.in_check(1)
@pytest.mark.parametrize("chooses", [True, False], ids=["chosen bank", "no banks yet"])
def test_server_and_hooks_of_a_host_share_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, chooses: bool
) -> None:
    """In the default bank of the time of ``connect``, in both directions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    if chooses:
        satchel("bank", "create", "work")
        satchel("bank", "create", "home")
        satchel("bank", "use", "work")
    satchel("connect", "claude-code", "--hooks")
    if chooses:
        satchel("bank", "use", "home")
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text(json.dumps({"role": "user", "content": DECISION}) + "\n")
    servers, settings = tmp_path / ".claude.json", tmp_path / ".claude" / "settings.json"
    said = {"session_id": "s1", "transcript_path": str(transcript), "cwd": str(tmp_path)}
    run_hook(settings, "Stop", {**said, "hook_event_name": "Stop"})
    assert DECISION in call_tool(servers, "recall", {"query": "format of the prices"})
    call_tool(servers, "remember", {"text": "The release is on Fridays"})
    start = run_hook(settings, "SessionStart", {"session_id": "s2", "cwd": str(tmp_path)})
    given = start["hookSpecificOutput"]["additionalContext"]
    assert DECISION in given
    assert "The release is on Fridays" in given
    if chooses:
        assert "CSV" not in satchel("recall", "format of the prices")
