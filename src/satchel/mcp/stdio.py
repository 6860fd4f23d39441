"""Standard input of the server, read strictly before the SDK reads it.

The SDK takes the last of two members of one name in silence, so that what a host showed its user
could be another call than the one that is made. A call that is refused here keeps its id, so that
its caller is answered.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Any, BinaryIO, Self

import anyio
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from satchel.crypto.json_reader import plain_value
from satchel.errors import MalformedError

REFUSED = "\x00refused"
"""The one argument of a call that is refused: what is wrong with it."""


class StrictLines:
    """Lines of a stream, each a JSON document, or what stands for one that is refused.

    Args:
        stream: Where they come from.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> str:
        """Return the next line; empty at the end."""
        line = self._stream.readline()
        try:
            if line.strip():
                plain_value(line)
        except MalformedError as error:
            return _refused(line, error) or line.decode(errors="replace")
        return line.decode()


def _refused(line: bytes, error: MalformedError) -> str | None:
    """Return a request of the same id that is answered with an error; None where it has no id."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None  # the SDK says what is wrong with what is no JSON at all
    if not isinstance(found, dict) or not isinstance(found.get("id"), str | int):
        return None
    params = found.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    if found.get("method") != "tools/call" or not isinstance(name, str):
        return json.dumps({"jsonrpc": "2.0", "id": found["id"], "method": "refused"}) + "\n"
    field = f" ({error.field})" if error.field else ""
    arguments = {REFUSED: f"{error.message}{field}"}
    request = {"name": name, "arguments": arguments}
    said = {"jsonrpc": "2.0", "id": found["id"], "method": "tools/call", "params": request}
    return json.dumps(said) + "\n"


@contextmanager
def standard_lines() -> Iterator[StrictLines]:
    """Give the lines of standard input; what the server starts meanwhile finds it empty."""
    private = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, sys.stdin.fileno())
        # A thread may still wait for a line when the server has ended: the descriptor stays open.
        yield StrictLines(os.fdopen(private, "rb", closefd=False))
    finally:
        os.close(nothing)
        os.dup2(private, sys.stdin.fileno())


PATIENCE = 60.0
"""Seconds for which running requests go on after the end of the input."""

_CANCELLED = "notifications/cancelled"
_ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that are answered when the connection ends."""


class PendingRequests:
    """The requests of a connection that are not answered yet.

    Args:
        patience: Seconds to wait for them at the end.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._ids = Counter[str]()
        self._changed = anyio.Event()

    def accept(self, item: Any) -> None:
        """Note what was received: a request, or that one is cancelled, which is not answered."""
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCRequest) and message.method not in _ENDLESS:
            self._ids[str(message.id)] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"), inf)

    def sent(self, item: Any) -> None:
        """Note what was sent: perhaps an answer."""
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._settle(message.id, 1)

    async def settled(self) -> None:
        """Wait until every request is answered, or for as long as the patience lasts."""
        with anyio.move_on_after(self._patience):
            while self._ids:
                self._changed = anyio.Event()
                await self._changed.wait()

    def _settle(self, identity: object, times: float) -> None:
        key = str(identity)
        if key in self._ids:
            self._ids[key] -= int(min(times, self._ids[key]))
            if not self._ids[key]:
                del self._ids[key]
        self._changed.set()


class _Stream:
    """A stream of the SDK's, in front of which something is noted."""

    def __init__(self, stream: Any, pending: PendingRequests) -> None:
        self._stream = stream
        self._pending = pending

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class IncomingStream(_Stream):
    """What a host sends; it ends when every request is answered."""

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last message, which the SDK asks for."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        try:
            item = await self._stream.receive()
        except anyio.EndOfStream:
            await self._pending.settled()
            raise
        self._pending.accept(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class OutgoingStream(_Stream):
    """What is sent to a host."""

    async def send(self, item: Any) -> None:
        """Send a message."""
        await self._stream.send(item)
        self._pending.sent(item)
