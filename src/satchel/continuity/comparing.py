"""Where two conversations part, and what each has from there on."""

from collections.abc import Iterator
from itertools import islice

from satchel.continuity.chains import back
from satchel.continuity.elements import FOREIGN, count_in
from satchel.ledger.logged import Logged
from satchel.ledger.view import View


class Parting:
    """Two conversations, walked back side by side until they are one.

    What both have is not looked at: only its newest element is.

    Args:
        view: The bank.
        one: The last element of the first conversation, or its fork's record.
        other: That of the other.
    """

    def __init__(self, view: View, one: Logged, other: Logged) -> None:
        self.own: tuple[list[int], list[int]] = ([], [])
        """Places of the elements that only one of them has, the newest first."""

        self.common: Logged | None = None
        """The newest element of both; None where they have none in common."""

        self._walks = (_Walk(back(view, one)), _Walk(back(view, other)))
        self._part()

    def _part(self) -> None:
        first, second = self._walks
        while first.at is not None or second.at is not None:
            if first.at is not None and first.identity == second.identity:
                self.common = first.at
                return
            ahead = int(first.step < second.step)
            walk = self._walks[ahead]
            assert walk.at is not None  # noqa: S101 - it is the one that is further
            self.own[ahead].append(walk.at.seq)
            walk.go_back()

    def newest(self, view: View, which: int, limit: int) -> list[Logged]:
        """Return the first elements that only one of them has, in their order."""
        own = self.own[which]
        wanted = list(islice(reversed(own), limit))
        there = {logged.seq: logged for logged in view.at(wanted)}
        return [there[seq] for seq in wanted if seq in there]


class _Walk:
    def __init__(self, elements: Iterator[Logged]) -> None:
        self._elements = elements
        self._passed = 0
        self.go_back()

    def go_back(self) -> None:
        self.at = next(self._elements, None)
        self._passed += 1
        if self.at is None:
            self.step = FOREIGN - self._passed
        else:
            counted = count_in(self.at.model, "step")
            # What nobody counted is older than all that was.
            self.step = counted if counted != FOREIGN else 0

    @property
    def identity(self) -> str | None:
        return None if self.at is None else self.at.record.id
