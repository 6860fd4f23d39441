"""Computing the vectors of a bank, on request and as memories are added or imported."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from threading import Lock
from typing import Annotated

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.options import OnProgress
from satchel.config.settings import Settings
from satchel.errors import SatchelError
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.ports.inference import Embedder, TrainableEmbedder
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import entry_texts
from satchel.ports.store import Store
from satchel.ports.vectors import Maker, text_mark
from satchel.recall import vector_index
from satchel.recall.models import automatic_embedders, embedder_of
from satchel.recall.vector_index import (
    CURRENT,
    GenerationInfo,
    activate_generation,
    begin_generation,
    current_generation,
    fill,
    pending_generation,
    store_vectors,
    without_vectors,
)

_OUTGROWN = 2
_TOGETHER = 256


class EmbedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of computing a bank's vectors."""

    bank: str
    name: str | None
    model: str
    dimensions: int
    generation: int
    made: int
    """Vectors that were computed."""

    kept: int
    """Memories that had a vector already."""

    dropped: int
    """Vectors of the previous generation that were removed."""

    notes: list[str] = []


class VectorStats(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors that a bank uses."""

    model: str
    dimensions: int
    generation: int
    count: int
    """Vectors, including those of memories that are not current."""

    missing: int
    """Current memories without a vector."""


@dataclass(frozen=True, slots=True)
class EmbedOptions(Options):
    """How to compute vectors."""

    model: Annotated[
        str | None,
        Option(
            "Model: static-idf, static, minilm, onnx or openai. Default: inference.embedder of the"
            " settings.",
            max_length=200,
        ),
    ] = None
    _: KW_ONLY
    rebuild: Annotated[bool, Option("Compute all vectors again, then drop the old ones.")] = False
    progress: OnProgress = None


@operation(
    EmbedOptions,
    name="embed",
    example="satchel embed --bank assistant",
    absent={"mcp": "`remember` computes the vector of a memory."},
)
def embed_bank(bank: OpenBank, options: EmbedOptions) -> EmbedResult:
    """Compute the vectors that memories lack: numbers for what a memory means.

    The built-in models need no network. An interrupted run is resumed by the next one.

    Raises:
        UsageError: If there is no such model.
        MissingExtraError: If the model needs an extra that is not installed.
        InferenceError: If the model does not answer; finished vectors are kept.
    """
    require_owner(bank.settings, "embed")
    embedder = embedder_of(bank.settings, options.model)
    result = fill(
        bank.store, bank.ledger, embedder, rebuild=options.rebuild, progress=options.progress
    )
    info, memories, notes = result.info, result.new + result.kept, list[str]()
    if info.learned is not None and memories > _OUTGROWN * max(info.entries, info.memories, 1):
        counted = info.entries or info.memories
        notes.append(
            f"word weights come from {counted:,} memories, and the bank now has {memories:,}; to "
            "update them: satchel embed --rebuild"
        )
    return EmbedResult(
        bank=bank.id,
        name=bank.name,
        model=info.model,
        dimensions=info.dimensions,
        generation=info.number,
        made=result.new,
        kept=result.kept,
        dropped=result.dropped,
        notes=notes,
    )


class VectorCounter:
    """Counts the memories without a vector, in batches.

    Args:
        view: A view of the bank.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._info = current_generation(view)
        self._missing = 0
        self._ids: list[str] = []

    def take(self, identity: str) -> None:
        """Add a current memory."""
        if self._info is not None:
            self._ids.append(identity)
            if len(self._ids) == _TOGETHER:
                self._count()

    @property
    def stats(self) -> VectorStats | None:
        """The counts; None for a bank without vectors."""
        if self._info is None:
            return None
        self._count()
        info = self._info
        return VectorStats(
            model=info.model,
            dimensions=info.dimensions,
            generation=info.number,
            count=self._view.generations().get(info.generation, 0),
            missing=self._missing,
        )

    def _count(self) -> None:
        if self._info is not None:
            vectors = self._view.vectors(self._info.generation, self._ids)
            self._missing += len(self._ids) - len(vectors)
        self._ids.clear()


STEP = 512
"""Budget of a step: short memories that are read, about a tenth of a millisecond each."""

_running = set[tuple[int, int, str]]()
_changing = Lock()


def keep_up(bank: OpenBank, most: int = STEP) -> int:
    """Compute some of the vectors that a bank lacks, and return how many.

    Nothing is done for the holder of a token, in a bank that is open for reading, if the settings
    disable it, or while another thread does it for the same bank. Errors are ignored.
    """
    if bank.bearer is not None or not bank.ledger.writes:
        return 0
    with suppress(SatchelError), _exclusive(bank) as is_alone:
        if is_alone:
            return vector_index.keep_up(
                bank.store, bank.ledger, automatic_embedders(bank.settings), most
            )
    return 0


@contextmanager
def _exclusive(bank: OpenBank) -> Iterator[bool]:
    """Yield whether no other thread of this process computes vectors of the bank; exclude them."""
    name = os.getpid(), id(bank.store), bank.id
    with _changing:
        is_alone = name not in _running
        _running.add(name)
    try:
        yield is_alone
    finally:
        if is_alone:
            with _changing:
                _running.discard(name)


@contextmanager
def open_bank_for_query(
    settings: Settings,
    bank: str | None,
    text: str,
    *,
    also: Callable[[OpenBank], bool] = lambda _: False,
) -> Iterator[OpenBank]:
    """Open a bank for a query: for reading, unless something must be written first.

    Args:
        settings: Settings with the store.
        bank: The bank, as for ``open_bank``.
        text: The query; if it has words, missing vectors are computed first.
        also: Returns whether anything else must be written first.

    Raises:
        SatchelError: As for ``open_bank``.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_bank(settings, bank))
        if not (text.strip() and (_is_behind(opened) or also(opened))):
            yield opened
            return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(open_bank(settings, bank, writes=True))
        except SatchelError:  # a bank that cannot be written may be readable
            opened = stack.enter_context(open_bank(settings, bank))
        yield opened


def _is_behind(bank: OpenBank) -> bool:
    if bank.bearer is not None:
        return False
    with suppress(SatchelError), bank.ledger.reading() as view:
        return vector_index.is_behind(view, automatic_embedders(bank.settings))
    return False


_GROUP = 256

Find = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Returns imported vectors, by the marks of their texts."""


class VectorReuse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of imported vectors."""

    model: str
    dimensions: int
    reused: int = 0
    """Number of vectors that are used."""

    reason: str = ""
    """Why none is used."""


def reuse_vectors(
    store: Store,
    ledger: Ledger,
    source: str,
    maker: Maker,
    find: Find,
    configured: Callable[[], Embedder],
) -> VectorReuse:
    """Use the vectors that were imported with memories, if the bank would compute the same.

    They are added to the generation that the bank uses, or start its first one: model, dimensions
    and revision must be equal. Vectors of a model that weighs words by the memories of a bank
    differ in each bank, so they are never used.

    Args:
        store: The store.
        ledger: The bank.
        source: ID of the import's source record; only its memories get vectors.
        maker: The model that computed the vectors.
        find: Returns the imported vectors.
        configured: Returns the configured embedder, for a bank without vectors.

    Raises:
        StoreError: If the store cannot be written.
    """
    result = VectorReuse(model=maker.model, dimensions=maker.dimensions)
    info = _target_generation(store, ledger, maker, configured)
    if isinstance(info, str):
        return msgspec.structs.replace(result, reason=info)
    reused, position = 0, _import_position(ledger, source)
    batch = position
    while True:
        with ledger.reading() as view:
            group = list(islice(view.scan(CURRENT, after=position, complete=False), _GROUP))
            imported = [each for each in group if each.row.batch == batch]
            lacking = without_vectors(view, info.generation, imported)
        if not group:
            break
        position = group[-1].seq
        reused += _store_imported(store, ledger.bank, info, lacking, find)
    activate_generation(store, ledger.bank, info)
    return msgspec.structs.replace(result, reused=reused)


def _import_position(ledger: Ledger, source: str) -> int:
    """Return the log position of an import's source record; its memories follow it."""
    with ledger.reading() as view:
        return next(each.place for each in view.imports() if each.source == source)


def _target_generation(
    store: Store, ledger: Ledger, maker: Maker, configured: Callable[[], Embedder]
) -> GenerationInfo | str:
    """Return the generation that may take the vectors, or the reason why none may."""
    if maker.learned:
        return "its word weights come from the memories of another bank"
    with ledger.reading() as view:
        used, making = current_generation(view), pending_generation(view)
    if used is not None:
        if used.learned is not None:
            return f"the bank uses {used.model}, which weighs words by its own memories"
        own = Maker(model=used.model, dimensions=used.dimensions, revision=used.revision)
        return used if own == maker else _difference("the bank uses", own, maker)
    try:
        embedder = configured()
    except SatchelError as error:
        return f"the configured model cannot be used: {error.message}"
    if making is not None and not making.is_of(embedder):
        return f"vectors of {making.model} are being computed"
    return _first_mismatch(embedder, maker) or begin_generation(store, ledger, embedder)


def _first_mismatch(embedder: Embedder, maker: Maker) -> str:
    """Return why a bank's first vectors cannot be imported ones; empty if they can."""
    if isinstance(embedder, TrainableEmbedder):
        return f"{embedder.model} is configured, which weighs words by the memories of a bank"
    own = Maker(model=embedder.model, dimensions=embedder.dimensions, revision=embedder.revision)
    return "" if own == maker else _difference("the configured model is", own, maker)


def _difference(subject: str, own: Maker, maker: Maker) -> str:
    if own.model == maker.model and own.dimensions == maker.dimensions:
        return f"{subject} another build of it"
    return f"{subject} {own.model}, of {own.dimensions:,} numbers"


def _store_imported(
    store: Store, bank: str, info: GenerationInfo, lacking: list[VerifiedRecord], find: Find
) -> int:
    marks = {
        each.record.id: text_mark(entry_texts(each.model))
        for each in lacking
        if isinstance(each.model, Entry)
    }
    imported = find(list(set(marks.values())))
    vectors = {name: imported[mark] for name, mark in marks.items() if mark in imported}
    return store_vectors(store, bank, info, vectors) or 0 if vectors else 0
