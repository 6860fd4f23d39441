"""What every request goes through first: where it comes from, how large it is, how many there are.

A page in a browser must not reach a server on this machine: its host name may lead here (DNS
rebinding), and a form may be sent here without asking. So the host that is asked for has to be one
of ours, and what a browser says of where a request comes from has to be the same.
"""

import asyncio
import ipaddress
import time
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from satchel.surfaces.http.answers import problem
from satchel.surfaces.http.counting import Counting
from satchel.surfaces.http.rates import Rates

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_UNCOUNTED = frozenset({"/healthz", "/readyz", "/metrics"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a server puts up with."""

    body_bytes: int = 16 << 20
    """Of a request; an upload of memory has a bound of its own."""

    upload_bytes: int = 4 << 30
    at_once: int = 64
    """Requests that are worked on together; more wait, in the order in which they came."""

    waiting: int = 1024
    """Requests that wait; more are told to come again at once."""

    patience: float = 5.0
    """Seconds that one waits until it is told to come again."""

    per_second: float = 200.0
    """Requests of one address, on the average of ten seconds; 0 for any number."""

    body_seconds: float = 30.0
    """How long a client may take for the next part of a body."""

    head_seconds: float = 20.0
    """How long a client may take from one answer to all headers of its next request."""

    take_seconds: float = 30.0
    """How long a client may take for the next part of an answer."""

    hosts: frozenset[str] = field(default_factory=frozenset)
    """Names that this server is asked for by, besides those of this machine's own loopback."""


class TooLargeError(Exception):
    """A body has more bytes than it may."""


class TooSlowError(Exception):
    """A client sends nothing."""


def is_loopback(address: str | None) -> bool:
    """Tell whether an address is this machine's own."""
    try:
        return ipaddress.ip_address((address or "").removeprefix("::ffff:")).is_loopback
    except ValueError:
        return False


class Guard:
    """Refuses what no route has to see. ASGI middleware.

    Args:
        app: What is behind it.
        bounds: What it puts up with.
        counting: Is told of each request.
        rates: Counts the requests of each address; those of other workers, too.
    """

    def __init__(self, app: ASGIApp, bounds: Bounds, counting: Counting, rates: Rates) -> None:
        self._app = app
        self._bounds = bounds
        self._counting = counting
        self._hosts = _LOOPBACK_NAMES | bounds.hosts
        self._rates = rates
        self._places = asyncio.Semaphore(bounds.at_once)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_SAFE]
            await send(message)

        try:
            await self._through(scope, receive, noted)
        finally:
            self._counting.request(scope, status, time.perf_counter() - began)

    async def _through(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        if scope["path"] in _UNCOUNTED:
            await self._bounded(scope, receive, send)
        elif await self._has_a_place():
            try:
                await self._bounded(scope, receive, send)
            finally:
                self._places.release()
        else:
            busy = problem(503, "busy", "too many requests at once", {"Retry-After": "1"})
            await busy(scope, receive, send)

    async def _has_a_place(self) -> bool:
        """Wait for a place among those that are worked on, and tell whether there was one in time.

        Whoever came first has it first: else those that were just answered would take every place,
        and who was told to come again might come for ever.
        """
        if self._waiting >= self._bounds.waiting:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._bounds.patience):
                await self._places.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and keep an eye on its body."""
        most, size, answered = self._most(scope), 0, False

        async def counted() -> Message:
            nonlocal size
            try:
                message = await asyncio.wait_for(receive(), self._bounds.body_seconds)
            except TimeoutError:
                raise TooSlowError from None
            size += len(message.get("body", b""))
            if size > most:
                raise TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        # Once the body is in, whoever waits for a disconnect may wait for ever.
        waits = receive if _has_no_body(scope) else counted
        try:
            await self._app(scope, waits, noted)
        except (TooLargeError, TooSlowError) as error:
            if answered:
                raise
            late = isinstance(error, TooSlowError)
            status, code = (408, "request.slow") if late else (413, "limit")
            said = "the body did not arrive in time" if late else f"at most {most:,} bytes"
            await problem(status, code, said, {"Connection": "close"})(scope, receive, send)

    def _most(self, scope: Scope) -> int:
        bounds = self._bounds
        return bounds.upload_bytes if scope["path"].endswith("/upload") else bounds.body_bytes

    def _refused(self, scope: Scope) -> Any:
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        host = headers.get("host", b"").decode("latin-1").lower()
        if _name(host) not in self._hosts:
            return problem(421, "host.unknown", "this server is not known by that name")
        if not _is_same_origin(scope["scheme"], host, headers):
            return problem(403, "origin.refused", "this came from another site's page")
        length = headers.get("content-length", b"0")
        if length.isdigit() and int(length) > self._most(scope):
            return problem(413, "limit", f"at most {self._most(scope):,} bytes")
        client = scope.get("client")
        counted = scope["path"] not in _UNCOUNTED
        if counted and not self._rates.takes(client[0] if client else ""):
            return problem(429, "rate", "too many requests", {"Retry-After": "1"})
        return None


_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def _has_no_body(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS")


def _name(host: str) -> str:
    """Return a host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _is_same_origin(scheme: str, host: str, headers: dict[str, bytes]) -> bool:
    """Tell whether no browser says that a request comes from a page of elsewhere."""
    if headers.get("sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    said = origin.decode("latin-1").lower()
    port = _DEFAULT_PORTS.get(scheme, "")
    return said in {f"{scheme}://{host}", f"{scheme}://{host.removesuffix(port)}"}
