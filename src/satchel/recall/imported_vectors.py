"""Using vectors that came with memories from elsewhere, where they are what would be made here.

They go into the generation that the bank uses, or begin one where it has none: of the very model,
length and make. A model that weighs words by the memories of its bank gives other vectors in each
bank, so those are never taken over.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import msgspec

from satchel.errors import SatchelError
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import VerifiedRecord
from satchel.model.records import Entry
from satchel.ports.inference import Embedder, TrainableEmbedder
from satchel.ports.rows import entry_texts
from satchel.ports.store import Store
from satchel.ports.vectors import Maker, text_mark
from satchel.recall.vector_index import (
    CURRENT,
    GenerationInfo,
    activate_generation,
    begin_generation,
    current_generation,
    keep,
    pending_generation,
    without_vectors,
)

_TOGETHER = 256

Find = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Gives the vectors that came, by the marks of their texts."""


class VectorReuse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of vectors that came with memories."""

    model: str
    dimensions: int
    reused: int = 0
    """How many are in use now."""

    reason: str = ""
    """Why none is."""


def reuse(
    store: Store,
    ledger: Ledger,
    source: str,
    maker: Maker,
    find: Find,
    configured: Callable[[], Embedder],
) -> VectorReuse:
    """Give the memories of an import the vectors that came with them.

    Args:
        store: Where the bank is.
        ledger: The bank.
        source: Id of the import's source record. Other memories get none of them.
        maker: What made the vectors.
        find: Gives them.
        configured: Gives what makes vectors where the bank has none.

    Raises:
        StoreError: If the store cannot be written.
    """
    told = VectorReuse(model=maker.model, dimensions=maker.dimensions)
    made = _fitting(store, ledger, maker, configured)
    if isinstance(made, str):
        return msgspec.structs.replace(told, reason=made)
    reused, place = 0, _begins(ledger, source)
    batch = place
    while True:
        with ledger.reading() as view:
            some = list(islice(view.scan(CURRENT, after=place, complete=False), _TOGETHER))
            came = [one for one in some if one.row.batch == batch]
            wanted = without_vectors(view, made.generation, came)
        if not some:
            break
        place = some[-1].seq
        reused += _give(store, ledger.bank, made, wanted, find)
    activate_generation(store, ledger.bank, made)
    return msgspec.structs.replace(told, reused=reused)


def _begins(ledger: Ledger, source: str) -> int:
    """Return the place of an import in the log: it is behind that, whatever else is."""
    with ledger.reading() as view:
        return next(one.place for one in view.imports() if one.source == source)


def _fitting(
    store: Store, ledger: Ledger, maker: Maker, configured: Callable[[], Embedder]
) -> GenerationInfo | str:
    """Return the generation that vectors may go into, or why there is none."""
    if maker.learnt:
        return "its word weights come from the memories of another bank"
    with ledger.reading() as view:
        used, making = current_generation(view), pending_generation(view)
    if used is not None:
        if used.learnt is not None:
            return f"the bank uses {used.model}, which weighs words by its own memories"
        there = Maker(model=used.model, dimensions=used.dimensions, revision=used.revision)
        return used if there == maker else _other("the bank uses", there, maker)
    try:
        embedder = configured()
    except SatchelError as error:
        return f"the configured model cannot be used: {error.message}"
    if making is not None and not making.is_of(embedder):
        return f"vectors of {making.model} are being computed"
    return _unlike(embedder, maker) or begin_generation(store, ledger, embedder)


def _unlike(embedder: Embedder, maker: Maker) -> str:
    """Return why a bank's first vectors cannot be those of a file; empty where they can."""
    if isinstance(embedder, TrainableEmbedder):
        return f"{embedder.model} is configured, which weighs words by the memories of a bank"
    there = Maker(model=embedder.model, dimensions=embedder.dimensions, revision=embedder.revision)
    return "" if there == maker else _other("the configured model is", there, maker)


def _other(what: str, there: Maker, maker: Maker) -> str:
    if there.model == maker.model and there.dimensions == maker.dimensions:
        return f"{what} another build of it"
    return f"{what} {there.model}, of {there.dimensions:,} numbers"


def _give(
    store: Store, bank: str, made: GenerationInfo, some: list[VerifiedRecord], find: Find
) -> int:
    marks = {
        one.record.id: text_mark(entry_texts(one.model))
        for one in some
        if isinstance(one.model, Entry)
    }
    found = find(list(set(marks.values())))
    wanted = {name: found[mark] for name, mark in marks.items() if mark in found}
    return keep(store, bank, made, wanted) or 0 if wanted else 0
