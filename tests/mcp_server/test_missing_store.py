"""An MCP server whose store was deleted refuses calls, and creates no empty store."""

import asyncio
from typing import Any

import pytest
from mcp import Client
from missing_store_kit import delete_store, store_exists

from satchel.api.store import Satchel, open_store
from satchel.config.settings import load_settings
from satchel.errors import RolledBackError
from satchel.mcp.principal import ToolCaller
from satchel.mcp.server import server

CALLS: dict[str, dict[str, Any]] = {
    "recall": {"query": "tea"},
    "rehydrate": {"task": "tea"},
    "remember": {"text": "likes milk"},
}


def test_a_running_mcp_server_refuses_calls_after_the_loss_of_its_store(
    any_store: str,
) -> None:
    """Every call is an error, and nothing is acknowledged."""

    async def run() -> None:
        settings = load_settings()
        with open_store(Satchel, settings) as satchel:
            async with Client(server(ToolCaller(satchel=satchel, settings=settings))) as client:
                kept = await client.call_tool("remember", {"text": "likes tea"})
                assert not kept.is_error, kept.content
                tools = {tool.name for tool in (await client.list_tools()).tools}
                assert tools >= CALLS.keys(), tools
                delete_store(any_store)
                for name, arguments in CALLS.items():
                    found = await client.call_tool(name, arguments)
                    assert found.is_error, (name, found.structured_content)
                    said = str(found.content)
                    assert "verify.rolled_back" in said or "store.failed" in said, (name, said)

    asyncio.run(run())
    assert not store_exists(any_store)


def test_an_mcp_server_does_not_start_without_its_store(any_store: str) -> None:
    """And no store is created."""
    with open_store(Satchel, load_settings()) as satchel:
        satchel.create_bank("assistant").remember("likes tea")
    delete_store(any_store)
    with pytest.raises(RolledBackError, match="assistant"), open_store(Satchel, load_settings()):
        pass
    assert not store_exists(any_store)
