"""How long a connection may take: to say what it wants, and to take what it asked for.

A connection that says nothing, or its headers letter by letter, costs whoever opens it nothing, and
the server a file; one that takes an answer drop by drop keeps a place that others wait for. So
there is an end to both. Bodies have a bound of their own (``satchel.surfaces.http.guard``).
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from satchel.surfaces.http.guard import Bounds


def impatient(bounds: Bounds) -> type[asyncio.Protocol]:
    """Return what speaks HTTP with one client, as uvicorn makes it for each connection."""

    class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # one of two, as installed
        """Lets go of a client that takes too long."""

        _head: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Begin to wait for a request."""
            super().connection_made(transport)
            self._head = self.loop.call_later(bounds.head_seconds, transport.abort)

        def data_received(self, data: bytes) -> None:
            """Take what the client says; letter by letter is not sooner."""
            super().data_received(data)
            cycle = self.cycle
            if cycle is not None and not cycle.response_complete:
                self._head = _off(self._head)
            elif self._head is None:
                self._head = self.loop.call_later(bounds.head_seconds, self.transport.abort)

        def pause_writing(self) -> None:
            """Begin to wait for the client to take what was sent."""
            super().pause_writing()
            self._taking = self.loop.call_later(bounds.take_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            """Go on: it took enough of it."""
            super().resume_writing()
            self._taking = _off(self._taking)

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait for nothing any more."""
            self._head, self._taking = _off(self._head), _off(self._taking)
            super().connection_lost(exc)

    return Impatient


def _off(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer, and return what there is of it then: nothing."""
    if timer is not None:
        timer.cancel()
    return None
