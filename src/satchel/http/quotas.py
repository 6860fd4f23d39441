"""What a server has of something, shared out among those who ask: the operator may have all of it.

Holders of capability tokens have a part of it together, and each of them a smaller one. Who has not
said who they are has none.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

_TOGETHER, _EACH = 3 / 4, 1 / 8


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose account a request is."""

    token: str | None = None
    """The owner's token that the presented one was made from; None for the operator.

    What its holder hands on is on the same account: else each could make any number of them.
    """

    @property
    def is_operator(self) -> bool:
        """Whether the store is theirs."""
        return self.token is None


OPERATOR = Principal()


class Quota:
    """So much of something, and who has how much of it.

    Args:
        total: How much there is.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._together = max(1, int(total * _TOGETHER))
        self._each = max(1, int(total * _EACH))
        self._taken = Counter[Principal]()
        self._all = 0

    def fits(self, who: Principal, amount: int = 1) -> bool:
        """Tell whether somebody may have so much more."""
        if self._all + amount > self._total:
            return False
        if who.is_operator:
            return True
        together = self._all - self._taken[OPERATOR]
        return together + amount <= self._together and self._taken[who] + amount <= self._each

    def take(self, who: Principal, amount: int = 1) -> bool:
        """Take so much, if it may be had, and tell whether it could."""
        if not self.fits(who, amount):
            return False
        self._taken[who] += amount
        self._all += amount
        return True

    def release(self, who: Principal, amount: int = 1) -> None:
        """Give so much back."""
        self._taken[who] -= amount
        self._all -= amount
        if not self._taken[who]:
            del self._taken[who]


class RequestSlots:
    """Places for requests that are worked on together; whoever came first has one first.

    Else those that were just answered would take every place, and who was told to come again might
    come for ever.

    Args:
        count: How many.
        waiting: How many may wait for one.
        patience: For how many seconds.
    """

    def __init__(self, count: int, waiting: int, patience: float) -> None:
        self._places = Quota(count)
        self._waiting = Quota(waiting)
        self._patience = patience
        self._line = deque[tuple[Principal, asyncio.Future[None]]]()

    async def take(self, who: Principal) -> bool:
        """Wait for a place, and tell whether there was one in time."""
        if self._places.take(who):  # whoever waits could not have it
            return True
        if not self._waiting.take(who):
            return False
        place = asyncio.get_running_loop().create_future()
        self._line.append((who, place))
        try:
            async with asyncio.timeout(self._patience):
                await place
        except BaseException as error:
            has_one = place.done() and not place.cancelled()
            if isinstance(error, TimeoutError) and has_one:
                return True
            if has_one:
                self.release(who)
            else:
                self._line.remove((who, place))
            if isinstance(error, TimeoutError):
                return False
            raise
        finally:
            self._waiting.release(who)
        return True

    def release(self, who: Principal) -> None:
        """Give a place back, to whoever has waited longest of those who may have it."""
        self._places.release(who)
        for one in list(self._line):
            principal, place = one
            if not place.done() and self._places.take(principal):
                self._line.remove(one)
                place.set_result(None)
                return
