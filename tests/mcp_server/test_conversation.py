"""A model that gets only the text of tools finds, updates and forgets the right memories."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from http_kit import HERE, running_gateway
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from satchel.api.store import Satchel
from satchel.mcp.server import server
from satchel.rehydrate.frames import tokenizer_of

FACTS = (
    "Ada moved to Lisbon in May 2026",
    "Ada's favourite tea is Darjeeling",
    "Ada likes tea after dinner",
    "Bob keeps the passport in the red drawer",
    "The deployment key rotates every Friday",
    "Ada is allergic to hazelnuts",
    "The staging server is called heron",
    "Bob prefers short answers",
)
ROW = re.compile(r"^\d{3}[|~]([0-9a-f]{8,}) ?([^|]*)\|(.*)$", re.MULTILINE)


@asynccontextmanager
async def connected_client(transport: str) -> AsyncIterator[Client]:
    """Yield an official client: of a process over its streams, or of the gateway."""
    if transport == "stdio":
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "satchel", "mcp"], env=dict(os.environ)
        )
        async with Client(stdio_client(command)) as client:
            yield client
        return
    with running_gateway() as served:
        transport_to_app = httpx.ASGITransport(served.app, client=(HERE, 50_000))
        async with httpx.AsyncClient(transport=transport_to_app) as http_client:
            streams = streamable_http_client("http://localhost/mcp", http_client=http_client)
            async with Client(streams) as client:
                yield client


async def call_for_text(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool; return its text only, which is what a model reads."""
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return "\n".join(each.text for each in answer.content if isinstance(each, TextContent))


def rows(text: str) -> dict[str, str]:
    """Return the memories of a text by their short IDs, in its order."""
    return {found[1]: found[3] for found in ROW.finditer(text)}


def id_of(text: str, words: str) -> str:
    """Return the ID of the one memory of a text that contains these words."""
    (identity,) = [short for short, said in rows(text).items() if words in said]
    return identity


@pytest.mark.in_check(1)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_conversation_of_30_turns_changes_the_right_memories(
    own_home: Path, transport: str
) -> None:
    """Each update and forget uses an ID, or words, of a text that a tool returned."""
    del own_home

    async def converse() -> None:
        turns = 0
        async with connected_client(transport) as client:
            for fact in FACTS:
                assert (await call_for_text(client, "remember", text=fact)).startswith("Stored as ")
                turns += 1
            for query, words, better in (
                ("where does Ada live?", "Lisbon", "Ada moved to Porto in June 2026"),
                ("what is Ada's favourite tea?", "Darjeeling", "Ada's favourite tea is Assam"),
                ("where is the passport?", "red drawer", "Bob keeps the passport in the safe"),
                ("name of the staging server", "heron", "The staging server is called egret"),
            ):
                found = await call_for_text(client, "recall", query=query)
                assert words in next(iter(rows(found).values())), found
                told = await call_for_text(client, "update", id=id_of(found, words), text=better)
                assert told.startswith("Updated: ")
                again = await call_for_text(client, "recall", query=query)
                assert better in again.replace("\\.", ":")
                assert words not in again
                turns += 3
            found = await call_for_text(client, "recall", query="hazelnuts")
            assert "Forgot" in await call_for_text(
                client, "forget", ids=[id_of(found, "hazelnuts")]
            )
            assert "hazelnuts" not in await call_for_text(
                client, "recall", query="allergic to hazelnuts"
            )
            assert "Forgot" in await call_for_text(
                client, "forget", ids=["Bob prefers short answers"]
            )
            assert "Forgot" in await call_for_text(client, "forget", ids=["key rotates every"])
            listed = await call_for_text(client, "list", limit=20)
            turns += 6
            assert sorted(rows(listed).values()) == sorted(
                [
                    "Ada moved to Porto in June 2026",
                    "Ada's favourite tea is Assam",
                    "Ada likes tea after dinner",
                    "Bob keeps the passport in the safe",
                    "The staging server is called egret",
                ]
            )
            shown = await call_for_text(client, "show", id=id_of(listed, "egret"))
            assert list(rows(shown).values()) == [
                "The staging server is called egret",
                "The staging server is called heron",
            ]
            assert "current" in shown
            assert rows(
                await call_for_text(client, "show", id="The staging server is called egret")
            )
            several = await client.call_tool("forget", {"ids": ["ada's favourite"]})
            assert not several.is_error
            assert (await client.call_tool("forget", {"ids": ["ada likes nothing"]})).is_error
            turns += 4
            assert turns == 30

    asyncio.run(converse())
    with Satchel.open() as store:
        assert len(store.bank().list()) == 4


def test_the_text_of_recall_stays_within_its_budget(own_home: Path) -> None:
    """The reported tokens are those of the text; a memory over the budget is shortened."""
    del own_home

    async def work() -> None:
        async with connected_client("stdio") as client:
            for number in range(40):
                await call_for_text(
                    client, "remember", text=f"passport note {number}: {'word ' * 30}"
                )
            await call_for_text(client, "remember", text="harbour " * 3000)
            answer = await client.call_tool("recall", {"query": "passport", "token_budget": 400})
            (text,) = [each.text for each in answer.content if isinstance(each, TextContent)]
            values = answer.structured_content or {}
            assert list(rows(text)) == values["entries"]
            assert values["tokens"] <= 400
            assert values["tokens"] >= len(text.split())
            assert values["over_budget"] > 0
            assert "skipped: over the budget" in text
            long = await call_for_text(client, "recall", query="harbour", token_budget=300)
            assert len(rows(long)) == 1
            assert long.count("harbour") > 20
            refused = await client.call_tool("recall", {"query": "x", "token_budget": 0})
            assert refused.is_error
            assert "pydantic" not in str(refused.content)
            assert "token_budget" in str(refused.content)

    asyncio.run(work())


def test_forget_with_ambiguous_words_returns_the_matching_ids(own_home: Path) -> None:
    """Nothing is forgotten by a guess."""
    del own_home
    with Satchel.open() as store:
        bank = store.bank()
        for text in ("Ada likes green tea", "Ada likes black tea"):
            bank.remember(text)

        async def work() -> None:
            async with connected_client("stdio") as client:
                refused = await client.call_tool("forget", {"ids": ["Ada likes"]})
                assert refused.is_error
                assert "2 current memories contain" in str(refused.content)
                assert len(rows(await call_for_text(client, "list"))) == 2
                await call_for_text(client, "forget", ids=['"ada  LIKES green tea"'])
                assert list(rows(await call_for_text(client, "list")).values()) == [
                    "Ada likes black tea"
                ]

        asyncio.run(work())


def test_the_core_tools_take_at_most_1_200_tokens() -> None:
    """Names, descriptions and schemas, in o200k tokens; every parameter is described."""
    tools = asyncio.run(server(None, ()).list_tools())
    assert [tool.name for tool in tools] == [
        *("remember", "recall", "list", "show", "update", "forget"),
    ]
    described = [
        json.dumps(
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema},
            separators=(",", ":"),
        )
        for tool in tools
    ]
    assert sum(map(tokenizer_of("gpt-4o").count, described)) <= 1200
    for tool in asyncio.run(server(None).list_tools()):
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), (tool.name, name)


@pytest.mark.usefixtures("own_home")
def test_the_tools_of_all_toolsets_are_listed() -> None:
    """Without a server."""
    command = [sys.executable, "-m", "satchel", "mcp", "--tools", "--json", "--toolset", "all"]
    done = subprocess.run(command, check=True, capture_output=True)
    names = [tool["name"] for tool in json.loads(done.stdout)["tools"]]
    assert names[:6] == ["remember", "recall", "list", "show", "update", "forget"]
    assert {*names[6:]} == {
        *("verify_memory", "pam_export_memory", "pam_import_memory", "session_fork", "memory"),
        *("rehydrate", "list_banks"),
    }
