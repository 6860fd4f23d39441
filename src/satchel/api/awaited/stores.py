"""The same calls for programs that await: each runs in a thread, and nothing else is different.

A call that is cancelled while it is awaited may have begun already; then it goes on to its end,
and what it writes is written. The ``CancelledError`` says so in a note. Look before doing it again,
or give a memory a ``key``, under which doing it twice is the same as once.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
)
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from satchel.api import bank as plain_bank
from satchel.api import satchel as plain_satchel
from satchel.api.awaited.parts import Code, Files, Owners, Quarantine, Sessions, Tokens
from satchel.api.away import ClosedOnExit, away
from satchel.api.lazy import lazy
from satchel.api.operations import Awaited, method

if TYPE_CHECKING:
    from satchel.actions.banks import BankLine
    from satchel.actions.configured.hooks import HookCounts
    from satchel.actions.upkeep import operations
else:
    operations = lazy("satchel.actions.upkeep.operations")

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Bank(Awaited, plain_bank.BankCalls):
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
        """The code that its memories speak of; see ``satchel.Bank.code``."""
        return Code(self._plain.code)

    @property
    def sessions(self) -> Sessions:
        """As ``satchel.Bank.sessions``."""
        return Sessions(self._plain.sessions)

    @property
    def files(self) -> Files:
        """As ``satchel.Bank.files``, opened by ``await bank.files.open()``."""
        return Files(self._plain)


def _created_bank(satchel: plain_satchel.Satchel, made: BankLine) -> Bank:
    return Bank(plain_satchel.created_bank(satchel, made))


def _opening(plain: Callable[_P, plain_satchel.Satchel]) -> Callable[_P, Opening]:
    """Return a function that opens a store when its result is awaited or entered."""

    def open_(*args: _P.args, **options: _P.kwargs) -> Opening:
        return Opening(partial(plain, *args, **options))

    update_wrapper(open_, plain)
    open_.__doc__ = f"To be awaited, or entered with ``async with``. {plain.__doc__}"
    return open_


class Satchel(ClosedOnExit, Awaited, plain_satchel.StoreCalls):
    """As ``satchel.Satchel``, awaited."""

    def __init__(self, plain: plain_satchel.Satchel) -> None:
        self._plain: plain_satchel.Satchel = plain

    open = staticmethod(_opening(plain_satchel.Satchel.open))

    async def bank(self, name: str | None = None, *, create: bool = False) -> Bank:
        """Open a bank; see ``satchel.Satchel.bank``."""
        return Bank(await away(partial(self._plain.bank, name, create=create)))

    create_bank = method(
        operations.create_bank, context=lambda self: self._writable(), into=_created_bank
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


class Opening(ClosedOnExit, Awaitable[Satchel]):
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
    """Close what was opened for somebody who did not wait for it."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
