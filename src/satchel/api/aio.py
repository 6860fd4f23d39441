"""The same calls for programs that await: each runs in a thread, and nothing else is different.

A call that is cancelled while it is awaited may have begun already; then it goes on to its end,
and what it writes is written. The ``CancelledError`` says so in a note. Look before doing it again,
or give a memory a ``key``, under which doing it twice is the same as once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from functools import partial, update_wrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from satchel.actions.configured.hooks import HookCounts, Listener
from satchel.actions.operating.copying_stores import StoreCopy
from satchel.actions.operating.migrated import Migrated
from satchel.api import bank as plain_bank
from satchel.api import code as plain_code
from satchel.api import operating
from satchel.api import satchel as plain_satchel
from satchel.api.amplihack import memory as plain_amplihack
from satchel.api.amplihack import transfer as plain_transfer
from satchel.api.sharing import tokens as plain_tokens
from satchel.api.telling import AWAITING

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Plain = TypeVar("_Plain")

_UNSURE = "The call may have begun, and goes on then: what it writes is written."


async def _away(call: Callable[[], _R]) -> _R:
    """Run a call in a thread; what it tells on the way is told in this loop."""
    loop = asyncio.get_running_loop()

    def there() -> _R:
        AWAITING.set(loop)  # in the thread's own context
        return call()

    try:
        return await asyncio.to_thread(there)
    except asyncio.CancelledError as error:
        error.add_note(_UNSURE)
        raise


def _awaited(
    method: Callable[Concatenate[_Plain, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method that awaits one of the same arguments."""

    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await _away(partial(method, self._plain, *args, **kwargs))

    update_wrapper(call, method)
    return call


async def migrate(**said: Unpack[operating.MigrateArguments]) -> Migrated:
    """Bring all banks of one store to another; see ``satchel.migrate``.

    ``told`` is called in the threads that the work is done in.
    """
    return await _away(partial(operating.migrate, **said))


async def copy_store(
    source: str | Path, target: str | Path, **said: Unpack[operating.CopyArguments]
) -> StoreCopy:
    """Copy a whole store to another one; see ``satchel.copy_store``.

    ``progress`` is called in the thread that the work is done in.
    """
    return await _away(partial(operating.copy_store, source, target, **said))


class Tokens:
    """As ``satchel.Bank.tokens``, awaited."""

    def __init__(self, plain: plain_tokens.Tokens) -> None:
        self._plain = plain

    issue = _awaited(plain_tokens.Tokens.issue)
    list = _awaited(plain_tokens.Tokens.list)
    revoke = _awaited(plain_tokens.Tokens.revoke)
    verify = _awaited(plain_tokens.Tokens.verify)
    write_revocations = _awaited(plain_tokens.Tokens.write_revocations)


class Bank:
    """As ``satchel.Bank``, awaited."""

    def __init__(self, plain: plain_bank.Bank) -> None:
        self._plain = plain

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
    def code(self) -> "Code":
        """The code that its memories speak of; see ``satchel.Bank.code``."""
        return Code(self._plain.code)

    remember = _awaited(plain_bank.Bank.remember)
    recall = _awaited(plain_bank.Bank.recall)
    disclose = _awaited(plain_bank.Bank.disclose)
    export = _awaited(plain_bank.Bank.export)
    import_ = _awaited(plain_bank.Bank.import_)
    undo = _awaited(plain_bank.Bank.undo)
    update = _awaited(plain_bank.Bank.update)
    correct = _awaited(plain_bank.Bank.correct)
    forget = _awaited(plain_bank.Bank.forget)
    restore = _awaited(plain_bank.Bank.restore)
    show = _awaited(plain_bank.Bank.show)
    raw = _awaited(plain_bank.Bank.raw)
    history = _awaited(plain_bank.Bank.history)
    stats = _awaited(plain_bank.Bank.stats)
    embed = _awaited(plain_bank.Bank.embed)
    duplicates = _awaited(plain_bank.Bank.duplicates)
    links = _awaited(plain_bank.Bank.links)
    path = _awaited(plain_bank.Bank.path)
    list = _awaited(plain_bank.Bank.list)


class Code:
    """As ``satchel.Bank.code``, awaited."""

    def __init__(self, plain: plain_code.Code) -> None:
        self._plain = plain

    index = _awaited(plain_code.Code.index)
    query = _awaited(plain_code.Code.query)
    show = _awaited(plain_code.Code.show)
    trees = _awaited(plain_code.Code.trees)
    drop = _awaited(plain_code.Code.drop)


class Satchel:
    """As ``satchel.Satchel``, awaited."""

    def __init__(self, plain: plain_satchel.Satchel) -> None:
        self._plain = plain

    @classmethod
    def open(  # noqa: PLR0913 - each is asked for on its own
        cls,
        store: str | Path | None = None,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        bank: str | None = None,
        passphrase: str | None = None,
        read_only: bool = False,
        token: str | Path | None = None,
        hooks: Mapping[str, Listener | Iterable[Listener]] | None = None,
    ) -> "Opening":
        """Open a store: ``async with Satchel.open() as satchel``, or ``await Satchel.open()``.

        Args and Raises: as ``satchel.Satchel.open``.
        """
        return Opening(
            partial(
                plain_satchel.Satchel.open,
                store,
                home=home,
                config=config,
                bank=bank,
                passphrase=passphrase,
                read_only=read_only,
                token=token,
                hooks=hooks,
            )
        )

    async def bank(self, name: str | None = None) -> Bank:
        """Open a bank; see ``satchel.Satchel.bank``."""
        return Bank(await _away(partial(self._plain.bank, name)))

    async def create_bank(self, name: str) -> Bank:
        """Start a bank; see ``satchel.Satchel.create_bank``."""
        return Bank(await _away(partial(self._plain.create_bank, name)))

    banks = _awaited(plain_satchel.Satchel.banks)
    list_banks = _awaited(plain_satchel.Satchel.list_banks)
    export_bank = _awaited(plain_satchel.Satchel.export_bank)
    import_bank = _awaited(plain_satchel.Satchel.import_bank)
    export_bank_config = _awaited(plain_satchel.Satchel.export_bank_config)
    import_bank_config = _awaited(plain_satchel.Satchel.import_bank_config)
    sink = _awaited(plain_satchel.Satchel.sink)
    receipts = _awaited(plain_satchel.Satchel.receipts)
    receipt = _awaited(plain_satchel.Satchel.receipt)
    jobs = _awaited(plain_satchel.Satchel.jobs)
    resume_job = _awaited(plain_satchel.Satchel.resume_job)
    cancel_job = _awaited(plain_satchel.Satchel.cancel_job)

    @property
    def hook_counts(self) -> HookCounts:
        """As ``satchel.Satchel.hook_counts``."""
        return self._plain.hook_counts

    close = _awaited(plain_satchel.Satchel.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _opened(
    method: Callable[Concatenate[Satchel, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method that opens the store first, where nothing has done so."""

    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await method(await self, *args, **kwargs)

    update_wrapper(call, method)
    return call


class Opening(Awaitable[Satchel]):
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

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
    """Close what was opened for somebody who did not wait for it."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class HierarchicalMemory:
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
            await _away(
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    close = _awaited(plain_amplihack.HierarchicalMemory.close)
    store_episode = _awaited(plain_amplihack.HierarchicalMemory.store_episode)
    store_knowledge = _awaited(plain_amplihack.HierarchicalMemory.store_knowledge)
    store_many = _awaited(plain_amplihack.HierarchicalMemory.store_many)
    links = _awaited(plain_amplihack.HierarchicalMemory.links)


class HierarchicalTransfer:
    """As ``satchel.amplihack.HierarchicalTransfer``, awaited; made in the same way."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._plain = plain_transfer.HierarchicalTransfer(*args, **more)

    export_hierarchical_json = _awaited(
        plain_transfer.HierarchicalTransfer.export_hierarchical_json
    )
    import_hierarchical_json = _awaited(
        plain_transfer.HierarchicalTransfer.import_hierarchical_json
    )
    export_hierarchical_raw_db = _awaited(
        plain_transfer.HierarchicalTransfer.export_hierarchical_raw_db
    )
    import_hierarchical_raw_db = _awaited(
        plain_transfer.HierarchicalTransfer.import_hierarchical_raw_db
    )
