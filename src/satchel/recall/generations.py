"""The vectors of a bank: which generation is in use, which is being made, and making one.

What is known of either stands beside the log. One that is being made is filled in parts, each
durable by itself, and takes the place of the one in use when nothing is missing in it. So whoever
is killed goes on where they were, and nobody ever compares vectors of two generations.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from satchel.errors import StoreError
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component
from satchel.ports.inference.embedder import Embedder, Learning
from satchel.ports.rows import Filter, texts_of
from satchel.ports.store import Store, Writer
from satchel.ports.vectors import Generation
from satchel.recall.sketches import drawing as sketches

CURRENT = Filter(types=frozenset(map(str, Component)))
"""The memories that have vectors."""

_USED, _MAKING = "vectors/used", "vectors/making"
_TOGETHER = 512

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
            hint = "Make the vectors again: satchel embed --rebuild"
            raise StoreError(str(error), hint=hint) from error


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
    made = begun(store, ledger, embedder, rebuild=rebuild)
    generation, own = made.generation, made.embedder(embedder)
    new, kept, place = 0, 0, -1
    while True:
        with ledger.reading() as view:
            some = list(islice(view.scan(CURRENT, after=place), _TOGETHER))
            wanted, size = lacking(view, generation, some), view.head.size
        if not some:
            break
        place, kept = some[-1].seq, kept + len(some) - len(wanted)
        new += _put(store, ledger.bank, generation, own, wanted)
        _draw(store, ledger.bank, generation, some, wanted)
        if told is not None:
            told(place + 1, size)
    return Filled(made=made, new=new, kept=kept, dropped=put_in_use(store, ledger.bank, made))


def texts(view: View) -> Iterator[str]:
    """Yield what each current memory of a bank says."""
    for logged in view.scan(CURRENT):
        yield _text(logged)


def begun(store: Store, ledger: Ledger, embedder: Embedder, *, rebuild: bool = False) -> Made:
    """Return the generation to go on with, begun if there is none."""
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
        learnt, memories = None, 0
        if isinstance(embedder, Learning):
            counted = _Counted(texts(view))
            learnt = embedder.learn(counted)
            memories = counted.number
    made = Made(
        model=embedder.model,
        dimensions=embedder.dimensions,
        number=max(taken, default=-1) + 1,
        revision=embedder.revision,
        learnt=learnt,
        memories=memories,
    )
    with store.writing() as writing:
        if making is not None:
            _drop(writing, ledger.bank, making.generation)
        writing.put_side(ledger.bank, {_MAKING: msgspec.json.encode(made)})
    return made


def keep(store: Store, bank: str, generation: Generation, made: Mapping[str, bytes]) -> int:
    """Keep vectors of memories, by id, and return how many; durable when it returns."""
    with store.writing() as writing:
        # What was erased since it was read leaves no vector behind.
        rows = [row for row in writing.get(bank, list(made)) if row.body is not None]
        there = {row.id: made[row.id] for row in rows}
        writing.vectors.put(bank, generation, there)
        sketches.draw(writing, bank, generation, {row.seq: made[row.id] for row in rows})
    return len(there)


def put_in_use(store: Store, bank: str, made: Made) -> int:
    """Put a generation that is complete in the place of the one in use."""
    with store.writing() as writing:
        used = _kept(writing.side(bank, _USED), _USED)
        dropped = 0
        if used is not None and used.generation != made.generation:
            dropped = writing.vectors.generations(bank).get(used.generation, 0)
            _drop(writing, bank, used.generation)
        _say(writing, bank, made)
    return dropped


def _put(
    store: Store, bank: str, generation: Generation, embedder: Embedder, wanted: list[Logged]
) -> int:
    """Make the vectors of some memories, and keep them."""
    if not wanted:
        return 0
    vectors = embedder.embed([_text(one) for one in wanted])
    made = {one.record.id: vector for one, vector in zip(wanted, vectors, strict=True)}
    return keep(store, bank, generation, made)


def _drop(writing: Writer, bank: str, generation: Generation) -> None:
    writing.vectors.drop(bank, generation)
    sketches.drop(writing, bank, generation)


def _draw(
    store: Store, bank: str, generation: Generation, some: list[Logged], wanted: list[Logged]
) -> None:
    """Draw what of some memories has a vector and no sketch: an erasure beside it took that."""
    new = {one.record.id for one in wanted}
    there = {one.seq: one.record.id for one in some if one.record.id not in new}
    with store.reading() as reader:
        lacking = sketches.undrawn(reader, bank, generation, list(there))
        names = [there[place] for place in sorted(lacking)]
        found = reader.vectors.get(bank, generation, names) if names else {}
    if found:
        keep(store, bank, generation, {name: _packed(given) for name, given in found.items()})


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
    try:
        return msgspec.json.decode(side[name], type=Made) if name in side else None
    except msgspec.DecodeError:
        return None


def _text(logged: Logged) -> str:
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
