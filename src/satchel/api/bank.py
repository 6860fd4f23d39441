"""One bank, open: the verbs on its memories. What they need is imported when they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from satchel.api.code import Code
from satchel.api.files import Filing
from satchel.api.lazy import lazy
from satchel.api.operations import method
from satchel.api.sessions import Conversing
from satchel.api.sharing.disclosing import Disclosing
from satchel.api.sharing.owning import Owners as OwnersOfBank
from satchel.api.sharing.removing import Removing
from satchel.api.sharing.tokens import Tokens
from satchel.api.waking import Quarantine, Waking
from satchel.errors import SatchelError, UsageError
from satchel.memory.parts import Component

if TYPE_CHECKING:
    from satchel.actions import log as logs
    from satchel.actions import recall as recalls
    from satchel.actions.agents import undo as undoing
    from satchel.actions.importing.imported import Imported, Owners
    from satchel.actions.inferring import embedding
    from satchel.actions.memories import counting as statistics
    from satchel.actions.memories import duplicates as twins
    from satchel.actions.memories import operations
    from satchel.actions.moving.exported import Export
    from satchel.actions.opened import OpenBank
    from satchel.actions.operating import exports, imports, transfers
    from satchel.actions.operating.providing import LiveBank
    from satchel.actions.upkeep import config_operations
    from satchel.api.lifetime import Lifetime
    from satchel.disk.outlet import Outlet
    from satchel.disk.reading import OpenFile
    from satchel.ports.operations import Operation
    from satchel.seal.signing.key import SigningKey
else:
    logs = lazy("satchel.actions.log")
    recalls = lazy("satchel.actions.recall")
    undoing = lazy("satchel.actions.agents.undo")
    twins = lazy("satchel.actions.memories.duplicates")
    embedding = lazy("satchel.actions.inferring.embedding")
    operations = lazy("satchel.actions.memories.operations")
    statistics = lazy("satchel.actions.memories.counting")
    exports = lazy("satchel.actions.operating.exports")
    imports = lazy("satchel.actions.operating.imports")
    transfers = lazy("satchel.actions.operating.transfers")
    config_operations = lazy("satchel.actions.upkeep.config_operations")

_SHOWN_DIGITS = len("blake3:") + 8

_O = TypeVar("_O")


def import_from(bank: Bank, source: OpenFile, options: imports.ImportRequest) -> Imported:
    """Import a file that is open already, whatever path the options name."""
    from satchel.actions.operating.imports import import_
    from satchel.actions.paths.permission import Permission

    with bank._imported() as target:  # noqa: SLF001 - of this module
        return import_.run(replace(target, source=source, permission=Permission()), options)


def _nobody(_: str | None) -> SigningKey:
    """Create no bank: the one that is meant was there a moment ago."""
    raise UsageError("the bank is missing from the store")


def export_to(
    bank: Bank,
    output: Outlet,
    operation: Operation[exports.ExportSource, _O, ..., Export],
    options: _O,
) -> Export:
    """Export a bank to a file that is open already, whatever path the options name."""
    from satchel.actions.paths.permission import Permission

    with bank._exported() as source:  # noqa: SLF001 - of this module
        return operation.run(replace(source, output=output, permission=Permission()), options)


class BankCalls(Removing, Waking, Disclosing):
    """The calls of a bank; ``satchel.Bank`` has them, and ``satchel.aio.Bank``."""

    _opened: OpenBank
    _lifetime: Lifetime
    _owner: Owners
    _read_only: bool

    @contextmanager
    def _context(self) -> Iterator[OpenBank]:
        with self._lifetime.use():
            yield self._opened

    remember = method(operations.remember)
    list = method(operations.list_memories)
    show = method(operations.show)
    history = method(operations.history)
    update = method(operations.update)
    correct = method(operations.correct)
    forget = method(operations.forget)
    restore = method(operations.restore)
    links = method(operations.links)
    graph = method(operations.graph)
    log = method(logs.log)
    path = method(operations.path)
    stats = method(statistics.show_stats)
    config = method(config_operations.show_config)
    set_config = method(config_operations.set_config)
    recall = method(recalls.recall_in)

    @contextmanager
    def _exported(self) -> Iterator[exports.ExportSource]:
        with self._lifetime.use():
            yield exports.ExportSource(bank=self._where_it_is())

    export = method(exports.export, context=_exported)

    @contextmanager
    def _imported(self) -> Iterator[imports.ImportTarget]:
        with self._lifetime.use():
            settings = self._opened.settings
            if settings.provider is not None:
                name = self._opened.name or self._opened.id
                yield imports.ImportTarget(
                    settings=settings,
                    bank=name,
                    owner=lambda _: self._owner(),
                    read_only=self._read_only,
                )
            else:
                yield imports.ImportTarget(
                    settings=settings,
                    bank=self._opened.id,
                    owner=_nobody,
                    read_only=self._read_only,
                )

    import_ = method(imports.import_, context=_imported)

    def _where_it_is(self) -> OpenBank | LiveBank:
        """Return the bank, or what the configured provider has of it."""
        settings = self._opened.settings
        if settings.provider is None:
            return self._opened
        from satchel.actions.operating.providing import LiveBank

        return LiveBank(settings, self._opened.name or self._opened.id, self._owner)

    undo = method(undoing.undo)
    imports = method(transfers.list_imports)

    raw = method(operations.raw)
    embed = method(embedding.embed_bank)
    duplicates = method(twins.duplicates)


class Bank(BankCalls, Conversing, Filing):
    """The memory of one agent; ``Satchel.bank`` gives it.

    May be used from any thread, and after a fork. When a call returns, what it did is durable.
    Memories are named by ID, by a prefix of it, or by their text.
    """

    def __init__(
        self, opened: OpenBank, lifetime: Lifetime, owner: Owners, *, read_only: bool = False
    ) -> None:
        self._opened = opened
        self._read_only = read_only
        self._lifetime = lifetime
        self._owner = owner

    @property
    def id(self) -> str:
        """Its id."""
        return self._opened.id

    @property
    def name(self) -> str | None:
        """Its name."""
        return self._opened.name

    @property
    def code(self) -> Code:
        """The code that its memories speak of: reading source trees, and asking about them."""
        return Code(self._opened, self._lifetime)

    def __repr__(self) -> str:
        """Name it, and count the memories of its log by its newest head; nothing is verified."""
        name, opened = repr(self.name or self.id[:_SHOWN_DIGITS]), self._opened
        if opened.bearer is not None:  # a holder is not told how many there are
            return f"<Bank {name}>"
        try:
            with self._lifetime.use(), opened.store.reading() as reader:
                head = reader.head(self.id)
                counts = json.loads(head.signed)["signed"]["counts"] if head is not None else {}
        except (SatchelError, ValueError, LookupError):
            return f"<Bank {name}>"
        logged = sum(counts.get(type_, 0) for type_ in Component)
        return f"<Bank {name} {logged:,} {'memory' if logged == 1 else 'memories'}>"

    @property
    def tokens(self) -> Tokens:
        """Its capability tokens: what others may do with which part of it."""
        return Tokens(self._opened, self._lifetime, self._owner)

    @property
    def owners(self) -> OwnersOfBank:
        """Who owns it, and how many of them have to sign a decision about it."""
        return OwnersOfBank(self._opened, self._lifetime)

    @property
    def quarantine(self) -> Quarantine:
        """What it withholds until it is reviewed."""
        return Quarantine(self._opened, self._lifetime)
