"""What the file of an import spoke of, kept on disk where it is much."""

from collections.abc import Sequence

from satchel.disk.databases.keyed import PLAN_TIMES, Keyed

_NOTHING = b""


class Slots:
    """By slot: where what it speaks of may be replaced, the last record that did so."""

    def __init__(self) -> None:
        self._held = Keyed(times=PLAN_TIMES)

    def add(self, slot: bytes, last: str | None) -> bool:
        """Remember that a slot was spoken of, and tell whether that is the first time."""
        return self._held.add(slot, _packed(last))

    def add_new(self, slots: Sequence[bytes]) -> bool:
        """Remember many slots, where none was spoken of before; tell whether it did."""
        return self._held.add_new(slots)

    def put(self, slot: bytes, last: str | None) -> None:
        """Remember the last record of a slot, in the place of any before it."""
        self._held.put(slot, _packed(last))

    def last(self, slot: bytes) -> str | None:
        """Return the last record of a slot; None where none may be replaced."""
        found = self._held.get(slot)
        return found.decode() if found else None

    def __contains__(self, slot: object) -> bool:
        return slot in self._held

    def close(self) -> None:
        """Give the space back."""
        self._held.close()


def _packed(last: str | None) -> bytes:
    return _NOTHING if last is None else last.encode()
