"""Keeping the vectors of a bank up with its log, a bounded step at a time, without being asked.

A note beside the log says up to which place a generation was seen to. What is behind it gets its
vectors in the next step: new memories, those that a status brings back, those of an import that
is complete now; and an erasure's neighbours get the sketches back that went with it. Note and
vectors are one commit, so whoever is killed goes on where they were.

A bank's first generation is used when it is complete, like any other. One of a model that weighs
words by the bank is made anew, beside the one in use, when the bank has grown ``OUTGROWN`` times
since it learnt: while that is small it costs nothing, and all of it together costs a third more.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from satchel.ledger.folding import CLOSED
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.memory.records import Erasure, Receipt, Status
from satchel.ports.inference.embedder import Embedder, Slow
from satchel.ports.rows import Filter
from satchel.ports.store import Store
from satchel.ports.vectors import SKETCHED_TOGETHER
from satchel.recall.generations import (
    Made,
    Seen,
    begun,
    entries_of,
    in_use,
    keep,
    lacking,
    put_in_use,
    redraw,
    seen_by,
    text_of,
    under_way,
)

OUTGROWN = 4

_TELLING = Filter(types=frozenset({*Component, "erasure", "receipt", "status"}))
"""What may be a memory without a vector, or speak of one."""

_CURRENT = Filter()
_TOGETHER = 256
_LONG = 1 << 10
"""Bytes of a record that cost as much as a record."""

Keeper = Callable[[Made | None], Embedder | None]
"""Gives what makes the vectors of a generation, or a bank's first; None where nothing may.

Where it is another make of the model by now, a new generation takes the place of the old one.
"""


class Left:
    """What a step may still cost.

    Args:
        most: Records that are looked at, long ones counting for more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._spent = 0
        self.made = 0
        """Vectors that were made."""

    def __bool__(self) -> bool:
        """Tell whether anything is left."""
        return self._spent < self.most

    def spend(self, some: list[Logged]) -> None:
        """Count some records."""
        self._spent += max(1, sum(1 + len(one.record.body) // _LONG for one in some))


def is_behind(view: View, keeper: Keeper) -> bool:
    """Tell whether there is something to do for a bank."""
    used, entries = in_use(view), entries_of(view.head)
    if used is None:
        return bool(entries) and keeper(under_way(view)) is not None
    embedder = keeper(used)
    return embedder is not None and (
        seen_by(view, used).place < view.head.size
        or not used.is_of(embedder)
        or _is_outgrown(used, entries)
    )


def keep_up(store: Store, ledger: Ledger, keeper: Keeper, most: int) -> int:
    """Do one step, and return how many vectors were made.

    Args:
        store: Where the bank is, open for writing.
        ledger: The bank.
        keeper: Gives what makes them.
        most: What the step may cost; see ``Left``.

    Raises:
        SatchelError: If something is wrong with the bank, the store or the model. What was made
            is kept.
    """
    with ledger.reading() as view:
        if not is_behind(view, keeper):
            return 0
        used, making, entries = in_use(view), under_way(view), entries_of(view.head)
    embedder = keeper(used or making)
    if embedder is None:
        return 0
    left = Left(max(1, most // embedder.cost) if isinstance(embedder, Slow) else most)
    if used is not None and used.is_of(embedder):
        _step(store, ledger, used, embedder, left)
        if making is not None:
            making = making if making.is_of(embedder) else None
        elif left and _is_outgrown(used, entries):
            making = begun(store, ledger, embedder, rebuild=True, most=most)
    else:
        making = begun(store, ledger, embedder, most=most)
    if making is not None and left and _step(store, ledger, making, embedder, left):
        put_in_use(store, ledger.bank, making)
    return left.made


def _is_outgrown(made: Made, entries: int) -> bool:
    return made.learnt is not None and entries >= OUTGROWN * max(made.entries, made.memories, 1)


def _step(store: Store, ledger: Ledger, made: Made, embedder: Embedder, left: Left) -> bool:
    """Go on with a generation while something is left; tell whether it is complete."""
    own, together = made.embedder(embedder), min(_TOGETHER, left.most)
    while True:
        with ledger.reading() as view:
            seen, size = seen_by(view, made), view.head.size
            if seen.place >= size:
                return True
            if not left:
                return False
            some = list(islice(view.scan(_TELLING, after=seen.place - 1, complete=False), together))
            wanted = lacking(view, made.generation, list(_memories(view, some)))
            end = some[-1].seq + 1 if len(some) == together else size
            beside = list(_beside(view, some))
            first = min(_closed(view, some, seen.top), default=end)
        vectors = own.embed([text_of(one) for one in wanted])
        given = {one.record.id: vector for one, vector in zip(wanted, vectors, strict=True)}
        seen = Seen(place=min(first, end), top=max(seen.top, end))
        kept = keep(store, ledger.bank, made, given, seen)
        if kept is None:
            return False  # somebody else has put another one in its place
        left.made += kept
        left.spend(some)
        for part in beside:
            redraw(store, ledger.bank, made.generation, part)


def _memories(view: View, some: list[Logged]) -> Iterator[Logged]:
    """Yield the current memories among some records, and those that statuses of them name."""
    yield from (one for one in some if isinstance(one.model, Entry))
    there = {one.record.id for one in some}
    named = [one.model.target for one in some if isinstance(one.model, Status)]
    for one in view.get([each for each in dict.fromkeys(named) if each not in there]).values():
        if isinstance(one.model, Entry) and _CURRENT.matches(one.row):
            yield one


def _closed(view: View, some: list[Logged], top: int) -> Iterator[int]:
    """Yield where the imports began that are complete since; what they brought was not visible."""
    sources = {
        one.model.result.get("source")
        for one in some
        if one.seq >= top and isinstance(one.model, Receipt) and one.model.action == CLOSED
    }
    if sources:
        yield from (one.place for one in view.imports() if one.source in sources)


def _beside(view: View, some: list[Logged]) -> Iterator[list[Logged]]:
    """Yield the memories around each one that was erased, whose sketches went with its own."""
    erased = [one.model.entry for one in some if isinstance(one.model, Erasure)]
    parts = {place // SKETCHED_TOGETHER for place in view.places(erased).values()} if erased else ()
    for number in sorted(parts):
        places = range(number * SKETCHED_TOGETHER, (number + 1) * SKETCHED_TOGETHER)
        there = view.at(places)
        yield [one for one in there if isinstance(one.model, Entry) and _CURRENT.matches(one.row)]
