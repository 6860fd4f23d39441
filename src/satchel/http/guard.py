"""Checks of every request and connection: host and origin, size, rate, timeouts.

A page in a browser must not reach a server on this machine: its host name may resolve to it (DNS
rebinding), and it may submit a form to it. So the requested host must be one of ours, and the
origin that the browser sends must be the same.

A connection has timeouts for its headers and for reading the response, and a limit of bytes before
its client is identified. The rest of a body is read from the network only after a route requests it
(``satchel.http.admission``).
"""

import asyncio
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from satchel.http.answers import problem
from satchel.http.metrics import RequestMetrics
from satchel.http.rate_limits import RateLimiter

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_UNCOUNTED = frozenset({"/healthz", "/readyz", "/metrics"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of a server."""

    small_bytes: int = 2 << 20
    """Bytes of a body, unless its route declares otherwise; see ``satchel.http.admission``."""

    body_bytes: int = 16 << 20
    """Bytes of a body with the text of memories, files or conversations."""

    upload_bytes: int = 4 << 30
    """Bytes of an uploaded file."""

    holder_bytes: int = 4 << 20
    """Bytes of a body of the holder of a token, whatever the route."""

    buffered_bytes: int = 256 << 20
    """Bytes of all bodies in memory."""

    at_once: int = 64
    """Concurrent requests; more wait, first come, first served. Holders of tokens may use a part of
    them; unidentified callers none."""

    judged: int = 32
    """Presented tokens that wait for verification."""

    unknown: int = 2048
    """Connections of unidentified clients."""

    head_bytes: int = 64 << 10
    """Bytes of all headers of a request."""

    headers: int = 100
    """Headers of a request."""

    waiting: int = 1024
    """Waiting requests; more are refused immediately, to be retried."""

    patience: float = 5.0
    """Seconds that a request waits before it is refused, to be retried."""

    per_second: float = 200.0
    """Requests a second of one address, averaged over ten seconds; 0 for no limit."""

    body_seconds: float = 30.0
    """Seconds between two parts of a body."""

    body_rate: int = 16 << 10
    """Least average bytes a second of a body, after that time."""

    head_seconds: float = 20.0
    """Seconds from a response to the complete headers of the next request."""

    take_seconds: float = 30.0
    """Seconds for which a client may not read a response."""

    hosts: frozenset[str] = field(default_factory=frozenset)
    """Accepted host names, besides those of the loopback addresses."""


def is_loopback(address: str | None) -> bool:
    """Return whether an address is a loopback address."""
    try:
        return ipaddress.ip_address((address or "").removeprefix("::ffff:")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that refuses requests before they reach a route.

    It reads no bodies: the caller is identified first, for each route
    (``satchel.http.admission``). A small unread rest of a body is dropped; a connection with more
    of it is closed.

    Args:
        app: The application.
        bounds: The limits.
        counting: Counts each request.
        rates: Limits the requests of each address, across all workers.
        is_operator: Returns whether the caller is the operator, whose requests are counted apart,
            so that other callers at the same address cannot use them up.
    """

    def __init__(
        self,
        app: ASGIApp,
        bounds: ServerLimits,
        counting: RequestMetrics,
        rates: RateLimiter,
        is_operator: Callable[[Scope], bool],
    ) -> None:
        self._app = app
        self._bounds = bounds
        self._counting = counting
        self._hosts = _LOOPBACK_NAMES | bounds.hosts
        self._rates = rates
        self._is_operator = is_operator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, unread = time.perf_counter(), 500, announces_body(scope)

        async def counted() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                closing = [(b"connection", b"close")] if unread else []
                if closing:
                    await _read_rest(scope, receive)
                message["headers"] = [*message["headers"], *_SAFE, *closing]
            await send(message)

        try:
            await (self._refused(scope) or self._app)(scope, counted, noted)
        finally:
            self._counting.request(scope, status, time.perf_counter() - began)

    def _refused(self, scope: Scope) -> Any:
        if len(scope["headers"]) > self._bounds.headers:
            return problem(431, "limit", f"at most {self._bounds.headers} headers are allowed")
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        host = headers.get("host", b"").decode("latin-1").lower()
        if _name(host) not in self._hosts:
            return problem(421, "host.unknown", "unknown host name")
        if not _is_same_origin(scope["scheme"], host, headers):
            return problem(403, "origin.refused", "cross-site requests are not allowed")
        if headers.get("content-encoding", b"identity").strip().lower() not in (b"identity", b""):
            return problem(415, "encoding", "a body must not have a Content-Encoding")
        if scope["path"] in _UNCOUNTED:
            return None
        client = scope.get("client")
        address = client[0] if client else ""
        if not self._rates.allows(f"operator {address}" if self._is_operator(scope) else address):
            return problem(429, "rate", "too many requests", {"Retry-After": "1"})
        return None


_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


_REST_BYTES = 16 << 10
_REST_SECONDS = 0.5


async def _read_rest(scope: Scope, receive: Receive) -> None:
    """Read the unread rest of a small body.

    A connection that is closed while parts of the body still arrive is reset, and the client
    may lose the response that states why it was refused.
    """
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"").decode("latin-1")
    if b"expect" in headers or not length.isdigit() or int(length) > _REST_BYTES:
        return
    with anyio.move_on_after(_REST_SECONDS):
        while (await receive()).get("more_body", False):
            pass


def announces_body(scope: Scope) -> bool:
    """Return whether the headers of a request announce a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ") != b"")
        for name, value in scope["headers"]
    )


def _name(host: str) -> str:
    """Return a host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _is_same_origin(scheme: str, host: str, headers: dict[str, bytes]) -> bool:
    """Return whether a request does not come from a page of another origin."""
    if headers.get("sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    said = origin.decode("latin-1").lower()
    port = _DEFAULT_PORTS.get(scheme, "")
    return said in {f"{scheme}://{host}", f"{scheme}://{host.removesuffix(port)}"}


class ClientConnections:
    """Open connections of unidentified clients, by their address.

    If there are too many, the oldest one is closed, so that a new client is always accepted and
    can identify itself with its first request.

    Args:
        most: Most open connections of unidentified clients.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._unknown = dict[Any, Callable[[], None]]()

    def opened(self, client: Any, hang_up: Callable[[], None]) -> None:
        """Record an opened connection."""
        self._unknown[client] = hang_up
        if len(self._unknown) > self._most:
            oldest = next(iter(self._unknown))
            self._unknown.pop(oldest)()

    def mark_identified(self, client: Any) -> None:
        """Record that a client identified itself."""
        self._unknown.pop(client, None)

    def closed(self, client: Any) -> None:
        """Remove a closed connection."""
        self._unknown.pop(client, None)

    def __len__(self) -> int:
        return len(self._unknown)


_READ_BYTES = 32 << 10
"""Most bytes that are read from a connection at a time."""

_BUFFER = memoryview(bytearray(_READ_BYTES))
"""Shared by all connections: it is emptied after each read."""

_REFUSED = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Impatient(AutoHTTPProtocol, asyncio.BufferedProtocol):  # type: ignore[misc, valid-type]  # one of two, as installed
    """Closes a connection that is too slow, or sends too many headers."""

    bounds: ServerLimits
    peers: ClientConnections
    _head: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _peer: Any = None
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Start the timeout of a request."""
        super().connection_made(transport)
        self._peer = self.client
        self._head = self.loop.call_later(self.bounds.head_seconds, transport.abort)
        self.peers.opened(self._peer, transport.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes; a transport's own is much larger."""
        del sizehint
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Process the buffer."""
        self.data_received(bytes(_BUFFER[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process data of the client; a slow request does not extend its timeout."""
        before = self.cycle
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._head, self._head_bytes = _off(self._head), 0
            if cycle.body and cycle.more_body:  # more when it is asked for
                self.flow.pause_reading()
            return
        self._head_bytes = self._head_bytes + len(data) if cycle is before else 0
        if self._head_bytes > self.bounds.head_bytes and not self.transport.is_closing():
            self.transport.write(_REFUSED)
            self.transport.close()
        elif self._head is None:
            self._head = self.loop.call_later(self.bounds.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read the response."""
        super().pause_writing()
        self._taking = self.loop.call_later(self.bounds.take_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue to write: the client has read enough."""
        super().resume_writing()
        self._taking = _off(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
        self._head, self._taking = _off(self._head), _off(self._taking)
        self.peers.closed(self._peer)
        super().connection_lost(exc)


def impatient(
    bounds: ServerLimits, connections: ClientConnections | None = None
) -> type[asyncio.Protocol]:
    """Return the class of the HTTP protocol, of which uvicorn makes an instance per connection."""
    if connections is None:
        connections = ClientConnections(bounds.unknown)
    return type("Impatient", (_Impatient,), {"bounds": bounds, "peers": connections})


def _off(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, and return None for its variable."""
    if timer is not None:
        timer.cancel()
    return None
