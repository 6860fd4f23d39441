"""The vectors of a bank: which generation is in use, which is being made, and making one.

What is known of either stands beside the log. One that is being made is filled in parts, each
durable by itself, and takes the place of the one in use when nothing is missing in it. So whoever
is killed goes on where they were, and nobody ever compares vectors of two generations.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile

import msgspec
from msgspec import structs

from satchel.errors import StoreError
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.ports.inference.embedder import Embedder, Learning
from satchel.ports.rows import Filter, texts_of
from satchel.ports.store import Reader, Store, Writer
from satchel.ports.vectors import Generation
from satchel.recall.sketches import drawing as sketches
from satchel.seal.log import Head
from satchel.type_info import resolved

CURRENT = Filter(types=frozenset(map(str, Component)))
"""The memories that have vectors."""

_USED, _MAKING, _SEEN = "vectors/used", "vectors/making", "vectors/seen/"
_TOGETHER = 512
_STRETCHES = 16

Progress = Callable[[int, int], None]
"""Is told how many places of the log were looked at, and of how many."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a generation."""

    model: str
    dimensions: int
    number: int
    revision: str = ""
    """Which make of the model."""

    learnt: bytes | None = None
    """What the model learnt of the bank before it began."""

    memories: int = 0
    """How many memories it learnt from."""

    entries: int = 0
    """How many memories the log had when it was begun, with those that were in the past."""

    asked: bool = True
    """Whether somebody asked for it; else it was made to keep up, and can be made anywhere."""

    @property
    def generation(self) -> Generation:
        """The generation itself."""
        return Generation(self.model, self.dimensions, self.number)

    def is_of(self, embedder: Embedder) -> bool:
        """Tell whether an embedder's vectors belong to it."""
        own = (self.model, self.dimensions, self.revision)
        return own == (embedder.model, embedder.dimensions, embedder.revision)

    def embedder(self, embedder: Embedder) -> Embedder:
        """Return an embedder of its model as it was when it was begun.

        Raises:
            StoreError: If what it learnt is damaged.
        """
        if self.learnt is None or not isinstance(embedder, Learning):
            return embedder
        try:
            return embedder.knowing(self.learnt)
        except ValueError as error:
            hint = "Compute the vectors again: satchel embed --rebuild"
            raise StoreError(str(error), hint=hint) from error


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How far a generation has kept up with the log."""

    place: int
    """What is before this place of the log was seen to."""

    top: int
    """Where the log ended when it was first looked at so far."""


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a bank's vectors."""

    made: Made
    new: int
    """Vectors that were made."""

    kept: int
    """Memories that had one of this generation already."""

    dropped: int
    """Vectors of the generation that was in use before, which are gone."""


def in_use(view: View) -> Made | None:
    """Return the generation that a bank uses; None while it has none that is complete."""
    return _kept(view.side(_USED), _USED)


def under_way(view: View) -> Made | None:
    """Return the generation that is being made, or was when somebody was killed."""
    return _kept(view.side(_MAKING), _MAKING)


def seen_by(view: View, made: Made) -> Seen:
    """Return how far a generation has kept up; the beginning where nothing says so."""
    name = _SEEN + sketches.key_of(made.generation)
    try:
        return msgspec.json.decode(view.side(name).get(name, b""), type=resolved(Seen))
    except msgspec.DecodeError:
        return Seen(place=0, top=view.head.size)


def entries_of(head: Head) -> int:
    """Return how many memories a log has, with those that are in the past."""
    return sum(head.counts.get(component, 0) for component in Component)


def lacking(view: View, generation: Generation, some: list[Logged]) -> list[Logged]:
    """Return those of some memories that have no vector in a generation."""
    there = view.vectors(generation, [one.record.id for one in some])
    return [one for one in some if one.record.id not in there]


def fill(
    store: Store,
    ledger: Ledger,
    embedder: Embedder,
    *,
    rebuild: bool = False,
    told: Progress | None = None,
) -> Filled:
    """Make the vectors that a bank's current memories lack.

    Args:
        store: Where the bank is.
        ledger: The bank.
        embedder: What makes them. Of another model, or another make of it, than the generation in
            use, it begins a new one.
        rebuild: Begin a new generation in any case; one that was being made is gone on with.
        told: Told how far it is.

    Raises:
        InferenceError: If the model does not answer. What was made is kept, and gone on with.
        StoreError: If the store cannot be written; likewise.
    """
    made = structs.replace(begun(store, ledger, embedder, rebuild=rebuild), asked=True)
    with ledger.reading() as view:
        seen = Seen(place=view.head.size, top=view.head.size)
    generation, own = made.generation, made.embedder(embedder)
    new, kept, place = 0, 0, -1
    while True:
        with ledger.reading() as view:
            some = list(islice(view.scan(CURRENT, after=place, complete=False), _TOGETHER))
            wanted, size = lacking(view, generation, some), view.head.size
        if not some:
            break
        place, kept = some[-1].seq, kept + len(some) - len(wanted)
        new += _put(store, ledger.bank, made, own, wanted)
        there = {one.record.id for one in wanted}
        redraw(store, ledger.bank, generation, [one for one in some if one.record.id not in there])
        if told is not None:
            told(place + 1, size)
    dropped = put_in_use(store, ledger.bank, made, seen)
    return Filled(made=made, new=new, kept=kept, dropped=dropped)


def texts(view: View, most: int | None = None) -> Iterator[str]:
    """Yield what each current memory of a bank says; of about so many, from all over the log."""
    size = view.head.size
    if most is None or size <= most:
        yield from map(text_of, view.scan(CURRENT, complete=False))
        return
    for number in range(_STRETCHES):
        first, end = (size * at // _STRETCHES for at in (number, number + 1))
        some = islice(
            view.scan(CURRENT, after=first - 1, complete=False), max(1, most // _STRETCHES)
        )
        yield from (text_of(one) for one in takewhile(lambda one: one.seq < end, some))  # noqa: B023 - used at once


def begun(
    store: Store,
    ledger: Ledger,
    embedder: Embedder,
    *,
    rebuild: bool = False,
    most: int | None = None,
) -> Made:
    """Return the generation to go on with, begun if there is none.

    Args:
        store: Where the bank is.
        ledger: The bank.
        embedder: What makes it.
        rebuild: As ``fill`` takes it.
        most: About how many memories it learns from; None for all, and where somebody asks for it.
    """
    with ledger.reading() as view:
        used, making, there = in_use(view), under_way(view), view.generations()
        if making is not None and making.is_of(embedder):
            return making
        if used is not None and used.is_of(embedder) and not rebuild:
            return used
        own = (embedder.model, embedder.dimensions)
        taken = [one.number for one in there if (one.model, one.dimensions) == own]
        if used is not None and (used.model, used.dimensions) == own:
            taken.append(used.number)
        learnt, memories, entries = None, 0, entries_of(view.head)
        if isinstance(embedder, Learning):
            counted = _Counted(texts(view, most))
            learnt = embedder.learn(counted)
            memories = counted.number
    made = Made(
        model=embedder.model,
        dimensions=embedder.dimensions,
        number=max(taken, default=-1) + 1,
        revision=embedder.revision,
        learnt=learnt,
        memories=memories,
        entries=entries,
        asked=most is None or (used is not None and used.asked),
    )
    with store.writing() as writing:
        if making is not None:
            _drop(writing, ledger.bank, making.generation)
        writing.put_side(ledger.bank, {_MAKING: msgspec.json.encode(made)})
    return made


def keep(
    store: Store,
    bank: str,
    made: Made,
    vectors: Mapping[str, bytes],
    seen: Seen | None = None,
) -> int | None:
    """Keep vectors of memories, by id, and return how many; durable when it returns.

    Args:
        store: Where the bank is.
        bank: Its id.
        made: Their generation.
        vectors: What was made.
        seen: How far the generation keeps up with them. Nothing is kept then, and nothing
            returned, where it is neither in use nor being made any more.
    """
    generation = made.generation
    with store.writing() as writing:
        if seen is not None and not _is_known(writing, bank, generation):
            return None
        # What was erased since it was read leaves no vector behind.
        rows = [row for row in writing.get(bank, list(vectors)) if row.body is not None]
        there = {row.id: vectors[row.id] for row in rows}
        writing.vectors.put(bank, generation, there)
        sketches.draw(writing, bank, generation, {row.seq: vectors[row.id] for row in rows})
        if seen is not None:
            writing.put_side(bank, _noted(generation, seen))
    return len(there)


def put_in_use(store: Store, bank: str, made: Made, seen: Seen | None = None) -> int:
    """Put a generation that is complete in the place of the one in use.

    Args:
        store: Where the bank is.
        bank: Its id.
        made: The generation.
        seen: How far it has kept up, where that is known now.

    Returns:
        How many vectors of the other one were dropped.
    """
    with store.writing() as writing:
        used = _kept(writing.side(bank, _USED), _USED)
        dropped = 0
        if used is not None and used.generation != made.generation:
            dropped = writing.vectors.generations(bank).get(used.generation, 0)
            _drop(writing, bank, used.generation)
        _say(writing, bank, made)
        if seen is not None:
            writing.put_side(bank, _noted(made.generation, seen))
    return dropped


def _put(store: Store, bank: str, made: Made, embedder: Embedder, wanted: list[Logged]) -> int:
    """Make the vectors of some memories, and keep them."""
    if not wanted:
        return 0
    vectors = embedder.embed([text_of(one) for one in wanted])
    given = {one.record.id: vector for one, vector in zip(wanted, vectors, strict=True)}
    return keep(store, bank, made, given) or 0


def _drop(writing: Writer, bank: str, generation: Generation) -> None:
    writing.vectors.drop(bank, generation)
    sketches.drop(writing, bank, generation)
    writing.put_side(bank, {_SEEN + sketches.key_of(generation): None})


def _noted(generation: Generation, seen: Seen) -> dict[str, bytes | None]:
    return {_SEEN + sketches.key_of(generation): msgspec.json.encode(seen)}


def _is_known(reader: Reader, bank: str, generation: Generation) -> bool:
    known = (_kept(reader.side(bank, name), name) for name in (_USED, _MAKING))
    return any(one is not None and one.generation == generation for one in known)


def redraw(store: Store, bank: str, generation: Generation, some: list[Logged]) -> None:
    """Draw what of some memories has a vector and no sketch: an erasure beside it took that."""
    there = {one.seq: one.record.id for one in some}
    with store.reading() as reader:
        lacking = sketches.undrawn(reader, bank, generation, list(there))
        names = [there[place] for place in sorted(lacking)]
        found = reader.vectors.get(bank, generation, names) if names else {}
    if found:
        with store.writing() as writing:
            rows = [row for row in writing.get(bank, list(found)) if row.body is not None]
            drawn = {row.seq: _packed(found[row.id]) for row in rows}
            sketches.draw(writing, bank, generation, drawn)


def _packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}d", *vector)


def _say(writing: Writer, bank: str, made: Made) -> None:
    making = _kept(writing.side(bank, _MAKING), _MAKING)
    side: dict[str, bytes | None] = {_USED: msgspec.json.encode(made)}
    if making is not None and making.generation == made.generation:
        side[_MAKING] = None
    writing.put_side(bank, side)


def _kept(side: dict[str, bytes], name: str) -> Made | None:
    """Return what stands beside the log; what cannot be read is made again."""
    return _made_of(side[name]) if name in side else None


@lru_cache(8)  # what a model learnt is long, and every question needs it
def _made_of(kept: bytes) -> Made | None:
    try:
        return msgspec.json.decode(kept, type=resolved(Made))
    except msgspec.DecodeError:
        return None


def text_of(logged: Logged) -> str:
    """Return what a memory says, as vectors are made of it."""
    return texts_of(logged.model) if isinstance(logged.model, Entry) else ""


class _Counted:
    """Texts, counted as they go by."""

    def __init__(self, given: Iterator[str]) -> None:
        self._given = given
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._given:
            self.number += 1
            yield text
