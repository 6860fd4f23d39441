"""The vectors of a bank: generations, computing one, and comparing a query with it.

A generation is all vectors of one model. Its description is stored beside the log. A new generation
is filled in steps, each durable, and replaces the one in use when it is complete; an interrupted
one is resumed. So vectors of two generations are never compared.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from math import hypot
from operator import mul
from struct import unpack

import msgspec
from msgspec import structs

from satchel.crypto.log import Head
from satchel.errors import SatchelError, StoreError
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import CLOSED, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Erasure, Receipt, Status
from satchel.model.values import Component, resolved
from satchel.ports.inference import Embedder, SlowEmbedder, TrainableEmbedder
from satchel.ports.rows import Filter, Row, entry_texts
from satchel.ports.store import Reader, Store, Writer
from satchel.ports.vectors import SKETCHED_TOGETHER, Generation
from satchel.recall import sketches
from satchel.recall.order import SignalWeights, round_score, weights_of
from satchel.recall.sketches import QuantizedQuery, VectorSketches

CURRENT = Filter(types=frozenset(map(str, Component)))
"""The memories that have vectors."""

_USED, _MAKING, _SEEN = "vectors/used", "vectors/making", "vectors/seen/"
_TOGETHER = 512
_STRETCHES = 16

Progress = Callable[[int, int], None]
"""Called with the number of log positions read, and the number of all."""


class GenerationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a generation."""

    model: str
    dimensions: int
    number: int
    revision: str = ""
    """Revision of the model."""

    learned: bytes | None = msgspec.field(default=None, name="learnt")
    """What the model learned from the bank at the start, if it learns."""

    memories: int = 0
    """Number of memories it learned from."""

    entries: int = 0
    """Number of memories in the log at its start, including those that were not current."""

    asked: bool = True
    """Whether it was requested; else it was started automatically."""

    @property
    def generation(self) -> Generation:
        """Its key in the store."""
        return Generation(self.model, self.dimensions, self.number)

    def is_of(self, embedder: Embedder) -> bool:
        """Return whether an embedder computes the same vectors."""
        own = (self.model, self.dimensions, self.revision)
        return own == (embedder.model, embedder.dimensions, embedder.revision)

    def embedder(self, embedder: Embedder) -> Embedder:
        """Return an embedder of its model, with what it learned at the start.

        Raises:
            StoreError: If that is damaged.
        """
        if self.learned is None or not isinstance(embedder, TrainableEmbedder):
            return embedder
        try:
            return embedder.knowing(self.learned)
        except ValueError as error:
            hint = "Compute the vectors again: satchel embed --rebuild"
            raise StoreError(str(error), hint=hint) from error


class VectorProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the log for which a generation has vectors."""

    place: int
    """All memories before this log position have vectors."""

    top: int
    """End of the log when that position was first reached."""


class FillResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of computing a bank's vectors."""

    info: GenerationInfo
    new: int
    """Vectors that were computed."""

    kept: int
    """Memories that had a vector of this generation already."""

    dropped: int
    """Vectors of the previous generation, which were removed."""


def current_generation(view: View) -> GenerationInfo | None:
    """Return the generation that a bank uses; None if it has no complete one."""
    return _stored(view.side(_USED), _USED)


def pending_generation(view: View) -> GenerationInfo | None:
    """Return the incomplete generation of a bank, if there is one."""
    return _stored(view.side(_MAKING), _MAKING)


def progress_of(view: View, info: GenerationInfo) -> VectorProgress:
    """Return the progress of a generation; the start of the log if none is stored."""
    name = _SEEN + sketches.key_of(info.generation)
    try:
        return msgspec.json.decode(view.side(name).get(name, b""), type=resolved(VectorProgress))
    except msgspec.DecodeError:
        return VectorProgress(place=0, top=view.head.size)


def entries_of(head: Head) -> int:
    """Return the number of memories in a log, including those that are not current."""
    return sum(head.counts.get(component, 0) for component in Component)


def without_vectors(
    view: View, generation: Generation, memories: list[VerifiedRecord]
) -> list[VerifiedRecord]:
    """Return the memories that have no vector in a generation."""
    vectors = view.vectors(generation, [each.record.id for each in memories])
    return [each for each in memories if each.record.id not in vectors]


def fill(
    store: Store,
    ledger: Ledger,
    embedder: Embedder,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> FillResult:
    """Compute the vectors that a bank's current memories lack.

    Args:
        store: The store.
        ledger: The bank.
        embedder: The model. One that differs from the generation in use starts a new generation.
        rebuild: Start a new generation in any case; an incomplete one is resumed.
        progress: Called as the log is read.

    Raises:
        InferenceError: If the model does not answer. Finished vectors are stored, and the next run
            continues.
        StoreError: If the store cannot be written; likewise.
    """
    info = structs.replace(begin_generation(store, ledger, embedder, rebuild=rebuild), asked=True)
    with ledger.reading() as view:
        seen = VectorProgress(place=view.head.size, top=view.head.size)
    generation, own = info.generation, info.embedder(embedder)
    new, existing, position = 0, 0, -1
    while True:
        with ledger.reading() as view:
            batch = list(islice(view.scan(CURRENT, after=position, complete=False), _TOGETHER))
            lacking, size = without_vectors(view, generation, batch), view.head.size
        if not batch:
            break
        position, existing = batch[-1].seq, existing + len(batch) - len(lacking)
        new += _embed(store, ledger.bank, info, own, lacking)
        ids = {each.record.id for each in lacking}
        others = [each for each in batch if each.record.id not in ids]
        redraw_sketches(store, ledger.bank, generation, others)
        if progress is not None:
            progress(position + 1, size)
    dropped = activate_generation(store, ledger.bank, info, seen)
    return FillResult(info=info, new=new, kept=existing, dropped=dropped)


def texts(view: View, most: int | None = None) -> Iterator[str]:
    """Yield the texts of current memories; of about ``most``, sampled from all of the log."""
    size = view.head.size
    if most is None or size <= most:
        yield from map(text_of, view.scan(CURRENT, complete=False))
        return
    for number in range(_STRETCHES):
        first, end = (size * at // _STRETCHES for at in (number, number + 1))
        sample = islice(
            view.scan(CURRENT, after=first - 1, complete=False), max(1, most // _STRETCHES)
        )
        yield from map(text_of, takewhile(lambda each: each.seq < end, sample))  # noqa: B023 - consumed in this pass


def begin_generation(
    store: Store,
    ledger: Ledger,
    embedder: Embedder,
    *,
    rebuild: bool = False,
    most: int | None = None,
) -> GenerationInfo:
    """Return the generation to fill; start one if there is none of the embedder.

    Args:
        store: The store.
        ledger: The bank.
        embedder: The model.
        rebuild: As for ``fill``.
        most: Approximate number of memories it learns from; None for all, on request.
    """
    with ledger.reading() as view:
        used, making = current_generation(view), pending_generation(view)
        if making is not None and making.is_of(embedder):
            return making
        if used is not None and used.is_of(embedder) and not rebuild:
            return used
        own = (embedder.model, embedder.dimensions)
        stored = view.generations()
        numbers = [each.number for each in stored if (each.model, each.dimensions) == own]
        if used is not None and (used.model, used.dimensions) == own:
            numbers.append(used.number)
        learned, memories, entries = None, 0, entries_of(view.head)
        if isinstance(embedder, TrainableEmbedder):
            counted = _Counted(texts(view, most))
            learned = embedder.learn(counted)
            memories = counted.number
    info = GenerationInfo(
        model=embedder.model,
        dimensions=embedder.dimensions,
        number=max(numbers, default=-1) + 1,
        revision=embedder.revision,
        learned=learned,
        memories=memories,
        entries=entries,
        asked=most is None or (used is not None and used.asked),
    )
    with store.writing() as writing:
        if making is not None:
            _drop(writing, ledger.bank, making.generation)
        writing.put_side(ledger.bank, {_MAKING: msgspec.json.encode(info)})
    return info


def store_vectors(
    store: Store,
    bank: str,
    info: GenerationInfo,
    vectors: Mapping[str, bytes],
    seen: VectorProgress | None = None,
) -> int | None:
    """Store vectors of memories by ID, and return how many. They are durable when it returns.

    Args:
        store: The store.
        bank: ID of the bank.
        info: Their generation.
        vectors: The vectors.
        seen: The progress of the generation with these vectors. With it, nothing is stored and None
            is returned if the generation is no longer known.
    """
    generation = info.generation
    with store.writing() as writing:
        if seen is not None and not _is_known(writing, bank, generation):
            return None
        # Memories that were erased since get no vector.
        rows = [row for row in writing.get(bank, list(vectors)) if row.body is not None]
        existing = {row.id: vectors[row.id] for row in rows}
        writing.vectors.put(bank, generation, existing)
        sketches.store_sketches(
            writing, bank, generation, {row.seq: vectors[row.id] for row in rows}
        )
        if seen is not None:
            writing.put_side(bank, _progress(generation, seen))
    return len(existing)


def activate_generation(
    store: Store, bank: str, info: GenerationInfo, seen: VectorProgress | None = None
) -> int:
    """Use a complete generation instead of the current one.

    Args:
        store: The store.
        bank: ID of the bank.
        info: The generation.
        seen: Its progress, if known.

    Returns:
        Number of vectors of the previous generation that were removed.
    """
    with store.writing() as writing:
        used = _stored(writing.side(bank, _USED), _USED)
        dropped = 0
        if used is not None and used.generation != info.generation:
            dropped = writing.vectors.generations(bank).get(used.generation, 0)
            _drop(writing, bank, used.generation)
        _set_used(writing, bank, info)
        if seen is not None:
            writing.put_side(bank, _progress(info.generation, seen))
    return dropped


def _embed(
    store: Store,
    bank: str,
    info: GenerationInfo,
    embedder: Embedder,
    memories: list[VerifiedRecord],
) -> int:
    """Compute the vectors of memories, and store them."""
    if not memories:
        return 0
    return store_vectors(store, bank, info, _vectors_of(embedder, memories)) or 0


def _vectors_of(embedder: Embedder, memories: list[VerifiedRecord]) -> dict[str, bytes]:
    """Return the vectors of memories by ID."""
    vectors = embedder.embed([text_of(each) for each in memories])
    return {each.record.id: vector for each, vector in zip(memories, vectors, strict=True)}


def _drop(writing: Writer, bank: str, generation: Generation) -> None:
    writing.vectors.drop(bank, generation)
    sketches.drop_sketches(writing, bank, generation)
    writing.put_side(bank, {_SEEN + sketches.key_of(generation): None})


def _progress(generation: Generation, seen: VectorProgress) -> dict[str, bytes | None]:
    return {_SEEN + sketches.key_of(generation): msgspec.json.encode(seen)}


def _is_known(reader: Reader, bank: str, generation: Generation) -> bool:
    known = (_stored(reader.side(bank, name), name) for name in (_USED, _MAKING))
    return any(info is not None and info.generation == generation for info in known)


def redraw_sketches(
    store: Store, bank: str, generation: Generation, memories: list[VerifiedRecord]
) -> None:
    """Draw the sketches of memories that have a vector but lost the sketch in an erasure."""
    ids = {each.seq: each.record.id for each in memories}
    with store.reading() as reader:
        lacking = sketches.without_sketches(reader, bank, generation, list(ids))
        names = [ids[position] for position in sorted(lacking)]
        vectors = reader.vectors.get(bank, generation, names) if names else {}
    if vectors:
        with store.writing() as writing:
            rows = [row for row in writing.get(bank, list(vectors)) if row.body is not None]
            packed = {row.seq: _packed(vectors[row.id]) for row in rows}
            sketches.store_sketches(writing, bank, generation, packed)


def _packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}d", *vector)


def _set_used(writing: Writer, bank: str, info: GenerationInfo) -> None:
    making = _stored(writing.side(bank, _MAKING), _MAKING)
    side: dict[str, bytes | None] = {_USED: msgspec.json.encode(info)}
    if making is not None and making.generation == info.generation:
        side[_MAKING] = None
    writing.put_side(bank, side)


def _stored(side: dict[str, bytes], name: str) -> GenerationInfo | None:
    """Return a stored description; None if there is none, or it cannot be read."""
    return _decode_info(side[name]) if name in side else None


@lru_cache(8)  # every query needs it, and what a model learned is long
def _decode_info(data: bytes) -> GenerationInfo | None:
    try:
        return msgspec.json.decode(data, type=resolved(GenerationInfo))
    except msgspec.DecodeError:
        return None


def text_of(logged: VerifiedRecord) -> str:
    """Return the text of a memory that its vector is computed from."""
    return entry_texts(logged.model) if isinstance(logged.model, Entry) else ""


class _Counted:
    """Texts, counted as they are read."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.number += 1
            yield text


OUTGROWN = 4

_RELEVANT = Filter(types=frozenset({*Component, "erasure", "receipt", "status"}))
"""Records that are memories, or change which memories need vectors."""

_CURRENT = Filter()
_STEP_SIZE = 256
_LONG = 1 << 10
"""Bytes that cost as much as a short record."""

EmbedderChoice = Callable[[GenerationInfo | None], Embedder | None]
"""Returns the embedder for a generation, or for a bank's first; None to compute none.

If the embedder has another revision than the generation, a new generation replaces it.
"""


class StepBudget:
    """The remaining budget of a step.

    Args:
        most: Records to read; long ones count for more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._spent = 0
        self.computed = 0
        """Vectors that were computed."""

    def __bool__(self) -> bool:
        """Return whether any budget is left."""
        return self._spent < self.most

    def spend(self, records: list[VerifiedRecord]) -> None:
        """Subtract the cost of records."""
        self._spent += max(1, sum(1 + len(each.record.body) // _LONG for each in records))


def is_behind(view: View, choose: EmbedderChoice) -> bool:
    """Return whether a bank needs a step of ``keep_up``."""
    used, entries = current_generation(view), entries_of(view.head)
    if used is None:
        return bool(entries) and choose(pending_generation(view)) is not None
    embedder = choose(used)
    return embedder is not None and (
        progress_of(view, used).place < view.head.size
        or not used.is_of(embedder)
        or _is_outgrown(used, entries)
    )


def keep_up(store: Store, ledger: Ledger, choose: EmbedderChoice, most: int) -> int:
    """Do one step, and return how many vectors were computed.

    Args:
        store: The store, open for writing.
        ledger: The bank.
        choose: Returns the embedder.
        most: Budget of the step; see ``StepBudget``.

    Raises:
        SatchelError: If the bank, the store or the model fails. Finished vectors are stored.
    """
    with ledger.reading() as view:
        if not is_behind(view, choose):
            return 0
        used, making, entries = (
            current_generation(view),
            pending_generation(view),
            entries_of(view.head),
        )
    embedder = choose(used or making)
    if embedder is None:
        return 0
    left = StepBudget(max(1, most // embedder.cost) if isinstance(embedder, SlowEmbedder) else most)
    if used is not None and used.is_of(embedder):
        _step(store, ledger, used, embedder, left)
        if making is not None:
            making = making if making.is_of(embedder) else None
        elif left and _is_outgrown(used, entries):
            making = begin_generation(store, ledger, embedder, rebuild=True, most=most)
    else:
        making = begin_generation(store, ledger, embedder, most=most)
    if making is not None and left and _step(store, ledger, making, embedder, left):
        activate_generation(store, ledger.bank, making)
    return left.computed


def _is_outgrown(info: GenerationInfo, entries: int) -> bool:
    return info.learned is not None and entries >= OUTGROWN * max(info.entries, info.memories, 1)


def _step(
    store: Store, ledger: Ledger, info: GenerationInfo, embedder: Embedder, left: StepBudget
) -> bool:
    """Fill a generation while budget is left; return whether it is complete."""
    own, together = info.embedder(embedder), min(_STEP_SIZE, left.most)
    while True:
        with ledger.reading() as view:
            seen, size = progress_of(view, info), view.head.size
            if seen.place >= size:
                return True
            if not left:
                return False
            rows = view.scan(_RELEVANT, after=seen.place - 1, complete=False)
            batch = list(islice(rows, together))
            lacking = without_vectors(view, info.generation, list(_memories(view, batch)))
            end = batch[-1].seq + 1 if len(batch) == together else size
            near_erased = list(_near_erased(view, batch))
            first = min(_completed_imports(view, batch, seen.top), default=end)
        vectors = _vectors_of(own, lacking)
        seen = VectorProgress(place=min(first, end), top=max(seen.top, end))
        stored = store_vectors(store, ledger.bank, info, vectors, seen)
        if stored is None:
            return False  # another process has replaced the generation
        left.computed += stored
        left.spend(batch)
        for part in near_erased:
            redraw_sketches(store, ledger.bank, info.generation, part)


def _memories(view: View, records: list[VerifiedRecord]) -> Iterator[VerifiedRecord]:
    """Yield the memories among records, and the current ones that their statuses name."""
    yield from (each for each in records if isinstance(each.model, Entry))
    ids = {each.record.id for each in records}
    targets = [each.model.target for each in records if isinstance(each.model, Status)]
    for logged in view.get([name for name in dict.fromkeys(targets) if name not in ids]).values():
        if isinstance(logged.model, Entry) and _CURRENT.matches(logged.row):
            yield logged


def _completed_imports(view: View, records: list[VerifiedRecord], top: int) -> Iterator[int]:
    """Yield the positions of imports completed since; their memories were not visible before."""
    sources = {
        each.model.result.get("source")
        for each in records
        if each.seq >= top and isinstance(each.model, Receipt) and each.model.action == CLOSED
    }
    if sources:
        yield from (each.place for each in view.imports() if each.source in sources)


def _near_erased(view: View, records: list[VerifiedRecord]) -> Iterator[list[VerifiedRecord]]:
    """Yield the memories whose sketches were removed together with those of erased ones."""
    erased = [each.model.entry for each in records if isinstance(each.model, Erasure)]
    parts = (
        {position // SKETCHED_TOGETHER for position in view.places(erased).values()}
        if erased
        else ()
    )
    for number in sorted(parts):
        positions = range(number * SKETCHED_TOGETHER, (number + 1) * SKETCHED_TOGETHER)
        part = view.at(positions)
        yield [
            each for each in part if isinstance(each.model, Entry) and _CURRENT.matches(each.row)
        ]


LEAST_COSINE = 0.25
"""Lowest cosine for which meaning alone nominates a memory.

Of a hundred random turns of conversations, three are this near a query.
"""

Embedders = Callable[[GenerationInfo], Embedder | None]
"""Returns the embedder of a generation, if queries may be sent to it."""


class SemanticQuery:
    """The vector of a query, compared with those of a bank.

    Args:
        view: A view of the bank.
        text: The query.
        embedders: Returns the embedder of the query.
    """

    def __init__(self, view: View, text: str, embedders: Embedders | None) -> None:
        self._view = view
        self.info = current_generation(view) if embedders is not None and text.strip() else None
        self.note = ""
        """Why there is no vector, if the bank has some."""

        self._vector: tuple[float, ...] | None = None
        self._quantized: QuantizedQuery | None = None
        self._sketches: VectorSketches | None = None
        if self.info is not None and embedders is not None:
            self._embed(self.info, text, embedders)

    def __bool__(self) -> bool:
        """Return whether the query has a vector."""
        return self._vector is not None

    @property
    def weights(self) -> SignalWeights:
        """The weights of the signals for its model."""
        return weights_of(self.info.model if self and self.info is not None else None)

    def nearest(self, limit: int) -> list[int]:
        """Return the log positions of the records nearest in meaning, best first."""
        if self._vector is None or self.info is None:
            return []
        if self._sketches is not None and self._quantized is not None:
            cosines = self._sketches.nearest(self._quantized, limit)
            return [position for position, cosine in cosines.items() if cosine >= LEAST_COSINE]
        near = self._view.near(self.info.generation, self._vector, limit=limit)
        positions = self._view.places([name for name, cosine in near if cosine >= LEAST_COSINE])
        return list(positions.values())

    def cosines(self, rows: Sequence[Row]) -> dict[int, float]:
        """Return the cosines of records by log position; those without a vector are omitted.

        Negative cosines count as 0.
        """
        if self._vector is None or self.info is None:
            return {}
        if self._sketches is not None and self._quantized is not None:
            cosines = self._sketches.cosines(self._quantized, [row.seq for row in rows])
        else:
            cosines = self._compare(self.info, self._vector, rows)
        return {position: max(0.0, cosine) for position, cosine in cosines.items()}

    def _embed(self, info: GenerationInfo, text: str, embedders: Embedders) -> None:
        try:
            embedder = embedders(info)
            if embedder is None:
                self.note = f"queries are not sent to {info.model}; searched by words only"
                return
            (raw,) = info.embedder(embedder).embed([text])
        except SatchelError as error:
            self.note = f"{info.model} did not respond; searched by words only: {error.message}"
            return
        numbers = unpack(f"<{info.dimensions}f", raw)
        if not any(numbers):
            self.note = f"{info.model} knows none of the words; searched by words only"
        else:
            self._vector = numbers
            self._quantized = QuantizedQuery(numbers, sketches.size_of(info.generation))
            self._sketches = sketches.sketches(self._view, info.generation)

    def _compare(
        self, info: GenerationInfo, vector: Sequence[float], rows: Sequence[Row]
    ) -> dict[int, float]:
        vectors = self._view.vectors(info.generation, [row.id for row in rows])
        return {
            row.seq: round_score(_cosine(vector, vectors[row.id]))
            for row in rows
            if row.id in vectors
        }


def _cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    lengths = hypot(*vector) * hypot(*other)
    return sum(map(mul, vector, other)) / lengths if lengths else 0.0
