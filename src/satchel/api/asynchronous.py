"""The Python API for asyncio: each call runs in a thread, and is otherwise the same.

A call that is cancelled while it is awaited may have started already. It then runs to its end, and
its writes are stored; a note of the ``CancelledError`` states this. Check before you call it again,
or give a memory a ``key``, with which the call is idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
)
from functools import partial, update_wrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from satchel.amplihack import hierarchy as plain_amplihack
from satchel.amplihack import transfer_backend as plain_transfer
from satchel.api import bank as plain_bank
from satchel.api import functions
from satchel.api import machine as plain
from satchel.api import pipeline as plain_pipeline
from satchel.api import store as plain_satchel
from satchel.api.bank import FileCalls, RehydrateCalls
from satchel.api.operations import AsyncCalls, lazy, method
from satchel.bank.threads import AsyncClosable, awaited, in_a_thread, run_in_thread
from satchel.ports.operations import PathText
from satchel.rehydrate.request import RehydrateResult

if TYPE_CHECKING:
    from satchel.admin import bank_operations
    from satchel.bank.banks import BankLine
    from satchel.config.hooks import HookCounts
    from satchel.files import MemoryStore
    from satchel.sessions.views import MessageInfo
else:
    bank_operations = lazy("satchel.admin.bank_operations")

_TOGETHER = 256

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Tokens(AsyncCalls, plain_bank.Tokens):
    """As ``satchel.Bank.tokens``, awaited."""


class Owners(AsyncCalls, plain_bank.BankOwners):
    """As ``satchel.Bank.owners``, awaited."""


class Quarantine(AsyncCalls, plain_bank.Quarantine):
    """As ``satchel.Bank.quarantine``, awaited."""


class Code(AsyncCalls, plain_bank.Code):
    """As ``satchel.Bank.code``, awaited."""


class Files:
    """What opens ``satchel.Bank.files``."""

    def __init__(self, bank: FileCalls) -> None:
        self._bank = bank

    async def open(self) -> MemoryStore:
        """Return the memory files of the bank; ``await files.read_text.aio(...)`` and so on."""
        return await run_in_thread(lambda: self._bank.files)


class Sessions(AsyncCalls, plain_bank.SessionCalls):
    """As ``satchel.Bank.sessions``, awaited."""

    async def messages(self, session: str, *, at: str | None = None) -> AsyncIterator[MessageInfo]:
        """As ``satchel.Bank.sessions.messages``: some at a time, each time in a thread."""
        messages = self._plain.messages(session, at=at)
        try:
            while some := await run_in_thread(lambda: tuple(islice(messages, _TOGETHER))):
                for message in some:
                    yield message
        finally:
            messages.close()


class Bank(AsyncCalls, plain_bank.BankCalls):
    """As ``satchel.Bank``, awaited."""

    def __init__(self, plain: plain_bank.Bank) -> None:
        self._plain: plain_bank.Bank = plain

    @property
    def id(self) -> str:
        """Its id."""
        return self._plain.id

    @property
    def name(self) -> str | None:
        """Its name."""
        return self._plain.name

    @property
    def tokens(self) -> Tokens:
        """As ``satchel.Bank.tokens``."""
        return Tokens(self._plain.tokens)

    @property
    def owners(self) -> Owners:
        """As ``satchel.Bank.owners``."""
        return Owners(self._plain.owners)

    @property
    def quarantine(self) -> Quarantine:
        """As ``satchel.Bank.quarantine``."""
        return Quarantine(self._plain.quarantine)

    @property
    def code(self) -> Code:
        """The code that its memories refer to; see ``satchel.Bank.code``."""
        return Code(self._plain.code)

    @property
    def sessions(self) -> Sessions:
        """As ``satchel.Bank.sessions``."""
        return Sessions(self._plain.sessions)

    @property
    def files(self) -> Files:
        """As ``satchel.Bank.files``, opened by ``await bank.files.open()``."""
        return Files(self._plain)


def _created_bank(satchel: plain_satchel.Satchel, line: BankLine) -> Bank:
    return Bank(plain_satchel.created_bank(satchel, line))


def _opening(plain: Callable[_P, plain_satchel.Satchel]) -> Callable[_P, StoreOpener]:
    """Return a function that opens a store when its result is awaited or entered."""

    def open_(*args: _P.args, **options: _P.kwargs) -> StoreOpener:
        return StoreOpener(partial(plain, *args, **options))

    update_wrapper(open_, plain)
    open_.__doc__ = f"To be awaited, or entered with ``async with``. {plain.__doc__}"
    return open_


class Satchel(AsyncClosable, AsyncCalls, plain_satchel.StoreCalls):
    """As ``satchel.Satchel``, awaited."""

    def __init__(self, plain: plain_satchel.Satchel) -> None:
        self._plain: plain_satchel.Satchel = plain

    open = staticmethod(_opening(plain_satchel.Satchel.open))

    async def bank(self, name: str | None = None, *, create: bool = False) -> Bank:
        """Open a bank; see ``satchel.Satchel.bank``."""
        return Bank(await run_in_thread(partial(self._plain.bank, name, create=create)))

    create_bank = method(
        bank_operations.create_bank, context=lambda self: self._writable(), into=_created_bank
    )

    @property
    def hook_counts(self) -> HookCounts:
        """As ``satchel.Satchel.hook_counts``."""
        return self._plain.hook_counts

    async def __aenter__(self) -> Self:
        return self


def _opened(
    method: Callable[Concatenate[Satchel, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method that opens the store first, where nothing has done so."""

    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await method(await self, *args, **kwargs)

    update_wrapper(call, method)
    return call


class StoreOpener(AsyncClosable, Awaitable[Satchel]):
    """A store that is going to be open: to be awaited, or entered with ``async with``.

    Whole banks can be moved without either: what is called first opens it. It is opened once.
    """

    def __init__(self, opening: Callable[[], plain_satchel.Satchel]) -> None:
        self._opening = opening
        self._opened: Satchel | None = None
        self._one = asyncio.Lock()

    list_banks = _opened(Satchel.list_banks)
    export_bank = _opened(Satchel.export_bank)
    import_bank = _opened(Satchel.import_bank)

    async def close(self) -> None:
        """Close it, if it was opened; a second time does nothing."""
        async with self._one:
            if self._opened is not None:
                await self._opened.close()

    def __await__(self) -> Generator[Any, None, Satchel]:
        return self._once().__await__()

    async def __aenter__(self) -> Satchel:
        return await self._once()

    async def _once(self) -> Satchel:
        async with self._one:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> Satchel:
        opening = asyncio.ensure_future(asyncio.to_thread(self._opening))
        try:
            return Satchel(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_again)
            raise


def _close_again(opening: asyncio.Future[plain_satchel.Satchel]) -> None:
    """Close a resource whose caller was cancelled before it was open."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class Agents(plain.Agents, AsyncCalls):
    """As ``satchel.Agents``, awaited."""


class HierarchicalMemory(AsyncClosable):
    """As ``satchel.amplihack.HierarchicalMemory``, awaited: ``await HierarchicalMemory.open()``."""

    def __init__(self, plain: plain_amplihack.HierarchicalMemory) -> None:
        self._plain = plain

    @classmethod
    async def open(
        cls,
        agent: str,
        *,
        storage_path: str | Path | None = None,
        backend: str | None = None,
        home: str | Path | None = None,
        passphrase: str | None = None,
    ) -> Self:
        """Open the hierarchical memory of an agent.

        Args and Raises: as ``satchel.amplihack.HierarchicalMemory``.
        """
        return cls(
            await run_in_thread(
                partial(
                    plain_amplihack.HierarchicalMemory,
                    agent,
                    storage_path=storage_path,
                    backend=backend,
                    home=home,
                    passphrase=passphrase,
                )
            )
        )

    async def __aenter__(self) -> Self:
        return self

    close = awaited(plain_amplihack.HierarchicalMemory.close)
    store_episode = awaited(plain_amplihack.HierarchicalMemory.store_episode)
    store_knowledge = awaited(plain_amplihack.HierarchicalMemory.store_knowledge)
    store_many = awaited(plain_amplihack.HierarchicalMemory.store_many)
    links = awaited(plain_amplihack.HierarchicalMemory.links)


class HierarchicalTransfer:
    """As ``satchel.amplihack.HierarchicalTransfer``, awaited; made in the same way."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._plain = plain_transfer.HierarchicalTransfer(*args, **more)

    export_hierarchical_json = awaited(plain_transfer.HierarchicalTransfer.export_hierarchical_json)
    import_hierarchical_json = awaited(plain_transfer.HierarchicalTransfer.import_hierarchical_json)
    export_hierarchical_raw_db = awaited(
        plain_transfer.HierarchicalTransfer.export_hierarchical_raw_db
    )
    import_hierarchical_raw_db = awaited(
        plain_transfer.HierarchicalTransfer.import_hierarchical_raw_db
    )


class Backups(plain.Backups, AsyncCalls):
    """As ``satchel.Backups``, awaited."""


class Keys(plain.Keys, AsyncCalls):
    """As ``satchel.Keys``, awaited."""


def _of_sources(
    call: Callable[Concatenate[RehydrateCalls | PathText, _P], RehydrateResult],
) -> Callable[Concatenate[Bank | PathText, _P], Coroutine[Any, Any, RehydrateResult]]:
    async def pipeline(
        source: Bank | PathText, /, *args: _P.args, **kwargs: _P.kwargs
    ) -> RehydrateResult:
        plain = source._plain if isinstance(source, Bank) else source  # noqa: SLF001 - its own mirror
        return await run_in_thread(partial(call, plain, *args, **kwargs))

    update_wrapper(pipeline, call)
    return pipeline


pipeline = _of_sources(plain_pipeline.pipeline)


convert = in_a_thread(functions.convert)
inspect = in_a_thread(functions.inspect)
verify = in_a_thread(functions.verify)
list_formats = in_a_thread(functions.list_formats)
migrate = in_a_thread(functions.migrate)
copy_store = in_a_thread(functions.copy_store)
encrypt_store = in_a_thread(functions.encrypt_store)
decrypt_store = in_a_thread(functions.decrypt_store)
