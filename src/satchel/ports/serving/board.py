"""What the processes that serve one store tell each other, besides what is in its banks."""

from typing import Protocol


class Board(Protocol):
    """A board of small notes. For any thread, and for any number of processes.

    Nothing on it is memory: requests that were made, work that is under way.
    """

    shared: bool
    """Whether other machines on the same store read it, too; else those of this machine do."""

    def claim(self, word: str, seconds: float) -> bool:
        """Claim a word, and tell whether nobody had; it is durable when this returns.

        Args:
            word: What can be claimed once, such as the nonce of a request.
            seconds: How long it is remembered at least.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def put(self, name: str, note: bytes | None) -> None:
        """Put a note up in the place of any other of its name, or take it down.

        Raises:
            StoreError: If it cannot be written.
        """
        ...

    def notes(self, prefix: str) -> dict[str, bytes]:
        """Return the notes whose names begin with something, by name.

        Raises:
            StoreError: If they cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back what it holds; notes stay."""
        ...
