"""Requests that were accepted are answered, also when the host has closed standard input.

A host may write its requests, close its end, and read the answers. The SDK cancels what is running
at the end of its input; so the end is withheld from it until all is answered, for a bounded time.
"""

from collections import Counter
from math import inf
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

PATIENCE = 60.0
"""Seconds for which running requests go on after the end of the input."""

_CANCELLED = "notifications/cancelled"
_ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that are answered when the connection ends."""


class Pending:
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

    def __init__(self, stream: Any, pending: Pending) -> None:
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


class Incoming(_Stream):
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


class Outgoing(_Stream):
    """What is sent to a host."""

    async def send(self, item: Any) -> None:
        """Send a message."""
        await self._stream.send(item)
        self._pending.sent(item)
