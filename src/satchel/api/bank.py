"""``satchel.Bank``: an open bank. The modules of its methods are imported on first use."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from satchel.api.operations import call, lazy, method
from satchel.errors import SatchelError, UsageError
from satchel.model.values import Component

if TYPE_CHECKING:
    from satchel.bank.lifetime import Lifetime
    from satchel.bank.open_bank import OpenBank
    from satchel.config.settings import Settings
    from satchel.files import MemoryStore


class BankPartCalls:
    """A part of an open bank, such as its quarantine; its methods are operations on the bank."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    @contextmanager
    def _context(self) -> Iterator[OpenBank]:
        with self._lifetime.use():
            yield self._opened


if TYPE_CHECKING:
    from satchel.code_graph import operations as code_graph_operations
else:
    code_graph_operations = lazy("satchel.code_graph.operations")
    code_graph_operations = lazy("satchel.code_graph.operations")


class Code(BankPartCalls):
    """The code graph of one bank."""

    index = method(code_graph_operations.index_code)
    query = method(code_graph_operations.query_code)
    show = method(code_graph_operations.show_code)
    trees = method(code_graph_operations.code_trees)
    drop = method(code_graph_operations.drop_code)


_opening = Lock()


class FileCalls:
    """The part of ``Bank`` with its memory files."""

    _opened: OpenBank
    _lifetime: Lifetime
    _memory_files: Any = None

    @property
    def files(self) -> MemoryStore:
        """Its memory files: texts at paths, with versions and an audit trail.

        They are open as long as the bank, and created if there are none, unless the bank is
        read-only. Changes are recorded in the bank's log when it is next recalled, exported or
        closed; of files that are saved elsewhere, saved changes are. For the holder of a token,
        each call verifies the permission.

        Raises:
            MemoryStoreError: If the bank has no name, or one that no folder can have; or there are
                no files, and the bank is read-only.
            PermissionRefusedError: If the token does not allow it.
        """
        with self._lifetime.use(), _opening:
            if self._memory_files is None:
                self._memory_files = self._files_opened()
            found: MemoryStore = self._memory_files
            return found

    def _files_opened(self) -> MemoryStore:
        from satchel.files.bank_files import files_of_bank, log_open_changes

        bank = self._opened
        store = files_of_bank(bank)

        def end() -> None:
            log_open_changes(bank, store)
            store.close()

        self._lifetime.on_close(end)
        return store


class _Settled(Protocol):
    """An open store, of which only the settings are needed."""

    _settings: Settings


@contextmanager
def files_of(satchel: _Settled, key: str, *, create: bool = False) -> Iterator[MemoryStore]:
    """Open the memory files of a name with the permissions of an open store."""
    from satchel.files.bank_files import opened_files

    with opened_files(satchel._settings, key, create=create) as store:  # noqa: SLF001 - its own
        yield store


if TYPE_CHECKING:
    from satchel.bank.lifetime import Lifetime
    from satchel.bank.open_bank import OpenBank
    from satchel.sessions import branches, distillation
    from satchel.sessions import queries as sessions_queries
    from satchel.sessions import record as session_operations
    from satchel.sessions.views import MessageInfo
else:
    branches = lazy("satchel.sessions.branches")
    distillation = lazy("satchel.sessions.distillation")
    sessions_queries = lazy("satchel.sessions.queries")
    session_operations = lazy("satchel.sessions.record")


class SessionCalls(BankPartCalls):
    """The calls of ``Sessions``, awaited or not."""

    record = method(session_operations.record_session)
    set = method(session_operations.set_state)
    show = method(sessions_queries.show_session)
    diff = method(sessions_queries.diff_sessions)
    rename = method(branches.rename_session)
    archive = method(branches.archive_session)
    checkpoint = method(branches.create_checkpoint)
    checkpoints = method(sessions_queries.list_checkpoints)
    fork = method(branches.fork)
    distill = method(distillation.distill)

    list = method(sessions_queries.list_sessions)


class Sessions(SessionCalls):
    """The conversations of one bank. Only its owner may use it.

    A conversation is named by its name, its ID or a prefix of that. A point of one is a message
    (its number or ID), a checkpoint (its name or ID), or a distillation (``distillation:2``, or the
    ID of its receipt).
    """

    def messages(self, session: str, *, at: str | None = None) -> Generator[MessageInfo]:
        """Yield all messages of a conversation in order, in constant memory.

        Args and Raises: as ``show``.
        """
        from satchel.sessions.queries import messages_of

        with self._lifetime.use():
            yield from messages_of(self._opened, session, at=at)


class ConversationCalls:
    """A bank as it stores conversations."""

    _opened: OpenBank
    _lifetime: Lifetime

    @property
    def sessions(self) -> Sessions:
        """Its conversations, which can be recorded, shown, forked and distilled."""
        return Sessions(self._opened, self._lifetime)


if TYPE_CHECKING:
    from satchel.bank.lifetime import Lifetime
    from satchel.bank.open_bank import OpenBank
    from satchel.rehydrate import operations as rehydrate_operations
    from satchel.rehydrate import quarantine
else:
    quarantine = lazy("satchel.rehydrate.quarantine")
    quarantine = lazy("satchel.rehydrate.quarantine")
    rehydrate_operations = lazy("satchel.rehydrate.operations")


class Quarantine(BankPartCalls):
    """Memories of one bank that are neither recalled nor provided until they are reviewed."""

    show = method(quarantine.show_held)
    scan = method(quarantine.screen_bank)
    add = method(quarantine.quarantine)
    release = method(quarantine.release)
    reject = method(quarantine.reject)
    list = method(quarantine.list_quarantine)


class RehydrateCalls:
    """Rehydration of a bank's memory."""

    _opened: OpenBank
    _lifetime: Lifetime

    rehydrate = method(rehydrate_operations.rehydrate_memories)
    promote = method(quarantine.promote)


if TYPE_CHECKING:
    from satchel.transfer import disclosure
else:
    disclosure = lazy("satchel.transfer.disclosure")


class DisclosureCalls:
    """Disclosure of single memories, with proofs."""

    disclose = method(disclosure.disclose_memories)


if TYPE_CHECKING:
    from satchel.bank import key_operations, keys
    from satchel.bank.key_operations import OwnedBank
    from satchel.errors import ThresholdError
    from satchel.ports.operations import PathText
else:
    key_operations = lazy("satchel.bank.key_operations")
    keys = lazy("satchel.bank.keys")


class BankOwners(BankPartCalls):
    """The owners of one bank. Only they may use it.

    If more owners must sign, whose keys are elsewhere, a call ends in a ``ThresholdError``.
    ``propose`` writes what they have to sign to a file, each of them signs it with ``sign``, and
    ``enact`` records it in the log.
    """

    @contextmanager
    def _owned(self) -> Iterator[OwnedBank]:
        with self._context() as bank:
            yield key_operations.OwnedBank(bank.settings, bank.store, bank.id)

    list = method(key_operations.list_owners, context=_owned)
    add = method(key_operations.add_owner, context=_owned)
    set_threshold = method(key_operations.set_threshold, context=_owned)
    sign = method(key_operations.sign_proposal, context=_owned)
    enact = method(key_operations.enact_proposal, context=_owned)

    @call
    def propose(self, refused: ThresholdError, path: PathText) -> None:
        """Write a proposal, which more owners must sign, to a new file.

        Args:
            refused: The error of the call.
            path: The file.

        Raises:
            TargetExistsError: If the file exists.
        """
        keys.write_proposal(self._opened.settings, Path(path), refused.drawn)


if TYPE_CHECKING:
    from satchel.erasure import erase as erasing
    from satchel.erasure import prune as pruning
    from satchel.erasure import redaction, report
else:
    report = lazy("satchel.erasure.report")
    erasing = lazy("satchel.erasure.erase")
    redaction = lazy("satchel.erasure.redaction")
    redaction = lazy("satchel.erasure.redaction")
    pruning = lazy("satchel.erasure.prune")


class RemovalCalls:
    """Erasure and redaction of a bank's memories."""

    erase = method(erasing.erase)
    redact = method(redaction.redact)
    recover = method(redaction.recover)
    prune = method(pruning.prune_memories)
    everything = method(report.report_everything)


if TYPE_CHECKING:
    from satchel.bank import token_operations, tokens
    from satchel.bank.lifetime import Lifetime
    from satchel.bank.open_bank import OpenBank
    from satchel.transfer.import_results import Owners
else:
    token_operations = lazy("satchel.bank.token_operations")
    tokens = lazy("satchel.bank.tokens")
    token_operations = lazy("satchel.bank.token_operations")


class Tokens:
    """The capability tokens of one bank. Only its owner may use it."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime, owner: Owners) -> None:
        self._opened = opened
        self._lifetime = lifetime
        self._owner = owner

    @contextmanager
    def _context(self) -> Iterator[OpenBank]:
        with self._lifetime.use():
            yield self._opened

    def _internal(self, options: Any) -> Mapping[str, Any]:
        return owner_unless_named(self._owner, options)

    issue = method(token_operations.issue_token)
    inspect = method(tokens.inspect_token)
    verify = method(tokens.verify_token)
    revoke = method(token_operations.revoke_token)
    list = method(token_operations.list_tokens)
    write_revocations = method(token_operations.write_revocations)


def owner_unless_named(owner: Owners, options: Any) -> Mapping[str, Any]:
    """Supply the owner's key of the open store, unless a call names another one."""
    named = options.signing_key is not None or options.passphrase is not None
    return {} if named else {"owner": owner}


if TYPE_CHECKING:
    from satchel.admin import settings as settings_operations
    from satchel.admin import statistics
    from satchel.agents import imports as undoing
    from satchel.bank import listings as logs
    from satchel.bank import operations
    from satchel.bank.lifetime import Lifetime
    from satchel.bank.open_bank import OpenBank
    from satchel.crypto.keys import SigningKey
    from satchel.ports.operations import Operation
    from satchel.recall import duplicates as twins
    from satchel.recall import search as recalls
    from satchel.recall import vector_updates as embedding
    from satchel.runtime.files import OpenFile
    from satchel.runtime.output import Outlet
    from satchel.transfer import export_operations, import_operations
    from satchel.transfer.export_records import Export
    from satchel.transfer.import_results import ImportSummary, Owners
    from satchel.transfer.providers import LiveBank
else:
    logs = lazy("satchel.bank.listings")
    recalls = lazy("satchel.recall.search")
    undoing = lazy("satchel.agents.imports")
    twins = lazy("satchel.recall.duplicates")
    embedding = lazy("satchel.recall.vector_updates")
    operations = lazy("satchel.bank.operations")
    statistics = lazy("satchel.admin.statistics")
    export_operations = lazy("satchel.transfer.export_operations")
    import_operations = lazy("satchel.transfer.import_operations")
    import_operations = lazy("satchel.transfer.import_operations")
    settings_operations = lazy("satchel.admin.settings")

_SHOWN_DIGITS = len("blake3:") + 8

_O = TypeVar("_O")


def import_from(
    bank: Bank, source: OpenFile, options: import_operations.ImportRequest
) -> ImportSummary:
    """Import an open file, whatever path the options name."""
    from satchel.config.options import PathPermission
    from satchel.transfer.import_operations import import_

    with bank._imported() as target:  # noqa: SLF001 - of this module
        return import_.run(replace(target, source=source, permission=PathPermission()), options)


def _nobody(_: str | None) -> SigningKey:
    """Create no bank: the open one is used."""
    raise UsageError("the bank is missing from the store")


def export_to(
    bank: Bank,
    output: Outlet,
    operation: Operation[export_operations.ExportSource, _O, ..., Export],
    options: _O,
) -> Export:
    """Export a bank to an open file, whatever path the options name."""
    from satchel.config.options import PathPermission

    with bank._exported() as source:  # noqa: SLF001 - of this module
        return operation.run(replace(source, output=output, permission=PathPermission()), options)


class BankCalls(RemovalCalls, RehydrateCalls, DisclosureCalls):
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
    config = method(settings_operations.show_config)
    set_config = method(settings_operations.set_config)
    recall = method(recalls.recall_in)

    @contextmanager
    def _exported(self) -> Iterator[export_operations.ExportSource]:
        with self._lifetime.use():
            yield export_operations.ExportSource(bank=self._opened_or_live())

    export = method(export_operations.export, context=_exported)

    @contextmanager
    def _imported(self) -> Iterator[import_operations.ImportTarget]:
        with self._lifetime.use():
            settings = self._opened.settings
            if settings.provider is not None:
                name = self._opened.name or self._opened.id
                yield import_operations.ImportTarget(
                    settings=settings,
                    bank=name,
                    owner=lambda _: self._owner(),
                    read_only=self._read_only,
                )
            else:
                yield import_operations.ImportTarget(
                    settings=settings,
                    bank=self._opened.id,
                    owner=_nobody,
                    read_only=self._read_only,
                )

    import_ = method(import_operations.import_, context=_imported)

    def _opened_or_live(self) -> OpenBank | LiveBank:
        """Return the bank, or its copy at the configured provider."""
        settings = self._opened.settings
        if settings.provider is None:
            return self._opened
        from satchel.transfer.providers import LiveBank

        return LiveBank(settings, self._opened.name or self._opened.id, self._owner)

    undo = method(undoing.undo)
    imports = method(import_operations.list_imports)

    raw = method(operations.raw)
    embed = method(embedding.embed_bank)
    duplicates = method(twins.duplicates)


class Bank(BankCalls, ConversationCalls, FileCalls):
    """The memory of one agent, as ``Satchel.bank`` returns it.

    It may be used from any thread, and after a fork. When a call returns, its changes are durable.
    A memory is named by its ID, an ID prefix, or its text.
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
        """ID of the bank."""
        return self._opened.id

    @property
    def name(self) -> str | None:
        """Name of the bank."""
        return self._opened.name

    @property
    def code(self) -> Code:
        """The code graph: source trees that its memories refer to."""
        return Code(self._opened, self._lifetime)

    def __repr__(self) -> str:
        """Show its name and the number of memories in its newest head, unverified."""
        name, opened = repr(self.name or self.id[:_SHOWN_DIGITS]), self._opened
        if opened.bearer is not None:  # a token's holder may not see the number
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
        """Its capability tokens, which allow others to use a part of it."""
        return Tokens(self._opened, self._lifetime, self._owner)

    @property
    def owners(self) -> BankOwners:
        """Its owners, and how many of them must sign a decision about it."""
        return BankOwners(self._opened, self._lifetime)

    @property
    def quarantine(self) -> Quarantine:
        """Memories that are withheld until they are reviewed."""
        return Quarantine(self._opened, self._lifetime)
