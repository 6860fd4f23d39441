"""A host that closes standard input after its requests gets all answers."""

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


def encoded_messages(messages: list[dict[str, Any]]) -> bytes:
    """Return messages as lines of JSON."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)


def conversation() -> list[dict[str, Any]]:
    """Return a handshake, a list of tools, and calls that store and search."""
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
    """Results and errors; acknowledged memories are stored."""
    command = [sys.executable, "-m", "satchel"]
    messages = conversation()
    ran = subprocess.run(
        [*command, "mcp"], input=encoded_messages(messages), capture_output=True, check=True
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


def test_the_server_exits_on_empty_input() -> None:
    """No request is pending."""
    command = [sys.executable, "-m", "satchel", "mcp"]
    ran = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert ran.stdout == b""


def request(identity: int, method: str = "tools/call") -> SessionMessage:
    """Return a request message."""
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=identity, method=method))


CANCELED = SessionMessage(
    JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
)
ANSWER = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))


async def _ends(received: list[Any], sent: list[Any], *, patience: float) -> bool:
    """Return whether the end of the input is passed on after these messages."""
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
        ([request(1)], [ANSWER]),
        ([request(1), CANCELED], []),
        ([request(1, "subscriptions/listen")], []),
        ([ValueError("no message")], []),
    ],
    ids=["nothing", "answered", "cancelled", "a subscription", "not a message"],
)
def test_the_end_does_not_wait_for_subscriptions_and_canceled_requests(
    received: list[Any], sent: list[Any]
) -> None:
    """A subscription ends with the connection; a canceled request is never answered."""
    assert anyio.run(lambda: _ends(received, sent, patience=float("inf")))


def test_the_end_waits_for_a_running_request_up_to_a_timeout() -> None:
    """A tool that never returns does not keep the server running."""
    asked = [request(1), request(2)]
    assert not anyio.run(lambda: _ends(asked, [ANSWER], patience=float("inf")))
    assert anyio.run(lambda: _ends(asked, [ANSWER], patience=0))
