"""Connections that are open: those that nobody has answered for are bounded."""

from collections.abc import Callable
from typing import Any


class Connections:
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
