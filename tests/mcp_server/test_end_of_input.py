"""A host that closes standard input right after its requests gets every answer."""

import json
import os
import subprocess
import sys
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from satchel.mcp.server import IncomingStream, OutgoingStream, PendingRequests

CALLS = 8


def written(messages: list[dict[str, Any]]) -> bytes:
    """Return messages as a host writes them."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)


def conversation() -> list[dict[str, Any]]:
    """Return a start, a list of tools, and calls that store and search."""
    client = {"name": "test", "version": "1"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    calls = [
        {"name": "remember", "arguments": {"text": f"Ada has {number} cups"}}
        for number in range(CALLS)
    ]
    return [
        {"id": "start", "method": "initialize", "params": start},
        {"method": "notifications/initialized"},
        {"id": "list", "method": "tools/list"},
        *({"id": at, "method": "tools/call", "params": each} for at, each in enumerate(calls)),
        {"id": "no", "method": "tools/call", "params": {"name": "nothing", "arguments": {}}},
        {"id": "odd", "method": "nothing/of/the/kind"},
    ]


def test_all_requests_are_answered_when_the_input_ends_early() -> None:
    """Results and errors alike; what was acknowledged is stored."""
    command = [sys.executable, "-m", "satchel"]
    messages = conversation()
    ran = subprocess.run(
        [*command, "mcp"], input=written(messages), capture_output=True, check=True
    )
    answers = {each["id"]: each for each in map(json.loads, ran.stdout.splitlines())}
    assert set(answers) == {each["id"] for each in messages if "id" in each}
    for number in range(CALLS):
        result = answers[number]["result"]
        assert not result.get("isError"), result
        assert result["content"][0]["text"].startswith("Stored as")
    assert len(answers["list"]["result"]["tools"]) == 6
    assert answers["no"]["result"]["isError"]
    assert "error" in answers["odd"]
    listed = subprocess.run(
        [*command, "list", "--json"], capture_output=True, check=True, env=dict(os.environ)
    )
    assert len(json.loads(listed.stdout)["memories"]) == CALLS


def test_a_host_that_sends_nothing_ends_the_server() -> None:
    """Nothing is pending, so nothing is waited for."""
    command = [sys.executable, "-m", "satchel", "mcp"]
    ran = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert ran.stdout == b""


def requested(identity: int, method: str = "tools/call") -> SessionMessage:
    """Return a request."""
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=identity, method=method))


CANCELLED = SessionMessage(
    JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
)
ANSWER = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))


async def _end(received: list[Any], sent: list[Any], *, patience: float) -> bool:
    """Return whether the end of the input is passed on after this, when nothing else happens."""
    pending, ended = PendingRequests(patience), list[bool]()
    to_server, from_host = anyio.create_memory_object_stream[Any](10)
    to_host, from_server = anyio.create_memory_object_stream[Any](10)

    async def read(incoming: IncomingStream) -> None:
        async for _ in incoming:
            pass
        ended.append(True)

    async with (
        from_server,
        IncomingStream(from_host, pending) as incoming,
        OutgoingStream(to_host, pending) as outgoing,
        anyio.create_task_group() as group,
    ):
        async with to_server:
            for each in received:
                await to_server.send(each)
                await incoming.receive()
        group.start_soon(read, incoming)
        await anyio.wait_all_tasks_blocked()
        for each in sent:
            await outgoing.send(each)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return bool(ended)


@pytest.mark.parametrize(
    ("received", "sent"),
    [
        ([], []),
        ([requested(1)], [ANSWER]),
        ([requested(1), CANCELLED], []),
        ([requested(1, "subscriptions/listen")], []),
        ([ValueError("no message")], []),
    ],
    ids=["nothing", "answered", "cancelled", "a subscription", "not a message"],
)
def test_the_end_is_not_withheld_for_what_nobody_will_answer(
    received: list[Any], sent: list[Any]
) -> None:
    """A subscription is answered when the connection ends; a cancelled request never is."""
    assert anyio.run(lambda: _end(received, sent, patience=float("inf")))


def test_the_end_is_withheld_from_a_running_request_for_a_bounded_time() -> None:
    """A tool that never ends does not keep the server for ever."""
    asked = [requested(1), requested(2)]
    assert not anyio.run(lambda: _end(asked, [ANSWER], patience=float("inf")))
    assert anyio.run(lambda: _end(asked, [ANSWER], patience=0))
