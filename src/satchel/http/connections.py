"""How long a connection may take, and how much it may say before it is known whose it is.

A connection that says nothing, or its headers letter by letter, costs whoever opens it nothing, and
the server a file; one that takes an answer drop by drop keeps a place that others wait for. So
there is an end to both. Of a body no more is taken off the network than what came with the headers,
until somebody asks for it (``satchel.http.admission``).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from satchel.http.guard import ServerLimits


class ClientConnections:
    """Connections by the address at their other end, those of nobody apart.

    Of more than are allowed, the one of nobody that has been open longest is hung up on: whoever
    comes next always gets in, and says who they are with what they say first.

    Args:
        most: How many may be open of those that have not shown who they are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._unknown = dict[Any, Callable[[], None]]()

    def opened(self, client: Any, hang_up: Callable[[], None]) -> None:
        """Take note of a connection that was opened."""
        self._unknown[client] = hang_up
        if len(self._unknown) > self._most:
            oldest = next(iter(self._unknown))
            self._unknown.pop(oldest)()

    def known(self, client: Any) -> None:
        """Take note that somebody showed who they are."""
        self._unknown.pop(client, None)

    def closed(self, client: Any) -> None:
        """Forget a connection."""
        self._unknown.pop(client, None)

    def __len__(self) -> int:
        return len(self._unknown)


_READ_BYTES = 32 << 10
"""What is taken off a connection at a time."""

_BUFFER = memoryview(bytearray(_READ_BYTES))
"""Of all connections: what is in it is taken out at once."""

_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Impatient(AutoHTTPProtocol, asyncio.BufferedProtocol):  # type: ignore[misc, valid-type]  # one of two, as installed
    """Lets go of a client that takes too long, or says too much."""

    bounds: ServerLimits
    peers: ClientConnections
    _head: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _peer: Any = None
    _said = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._peer = self.client
        self._head = self.loop.call_later(self.bounds.head_seconds, transport.abort)
        self.peers.opened(self._peer, transport.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: a transport's own buffer is much larger."""
        del sizehint
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Take what is in the buffer."""
        self.data_received(bytes(_BUFFER[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what the client says; letter by letter is not sooner."""
        before = self.cycle
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._head, self._said = _off(self._head), 0
            if cycle.body and cycle.more_body:  # more when it is asked for
                self.flow.pause_reading()
            return
        self._said = self._said + len(data) if cycle is before else 0
        if self._said > self.bounds.head_bytes and not self.transport.is_closing():
            self.transport.write(_REFUSED)
            self.transport.close()
        elif self._head is None:
            self._head = self.loop.call_later(self.bounds.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """Begin to wait for the client to take what was sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(self.bounds.take_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it took enough of it."""
        super().resume_writing()
        self._taking = _off(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._head, self._taking = _off(self._head), _off(self._taking)
        self.peers.closed(self._peer)
        super().connection_lost(exc)


def impatient(
    bounds: ServerLimits, connections: ClientConnections | None = None
) -> type[asyncio.Protocol]:
    """Return what speaks HTTP with one client, as uvicorn makes it for each connection."""
    if connections is None:
        connections = ClientConnections(bounds.unknown)
    return type("Impatient", (_Impatient,), {"bounds": bounds, "peers": connections})


def _off(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer, and return what there is of it then: nothing."""
    if timer is not None:
        timer.cancel()
    return None
