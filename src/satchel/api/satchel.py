"""The store with its banks, open."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from satchel.actions import banks
from satchel.actions.banks import BankLine
from satchel.actions.config import Settings, load_settings
from satchel.actions.configured.hooks import HookCounts, Listener
from satchel.actions.opened import open_bank_in
from satchel.actions.operating.following import (
    Followed,
    FollowOptions,
    follow_once,
    open_sink,
)
from satchel.actions.signing import signing_key
from satchel.actions.starting import bank_to_fill
from satchel.actions.upkeep import bank_settings
from satchel.actions.upkeep.bank_settings import BankConfigured
from satchel.actions.wiring import has_store, opened_store
from satchel.api.asked import own_path
from satchel.api.bank import Bank
from satchel.api.lifetime import Lifetime
from satchel.errors import ReadOnlyStoreError, UnknownBankError
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey


class Satchel:
    """An open store; ``Satchel.open`` gives it, and it is closed at the end of its ``with`` block.

    May be used from any thread, and after a fork, where it opens itself again.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        lifetime: Lifetime,
        *,
        bank: str | None,
        passphrase: str | None,
        read_only: bool,
    ) -> None:
        self._settings = settings
        self._store = store
        self._lifetime = lifetime
        self._wanted = bank
        self._passphrase = passphrase
        self._read_only = read_only

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
        hooks: Mapping[str, Listener | Iterable[Listener]] | None = None,
    ) -> Self:
        """Open a store; it is made when it is not there.

        Args:
            store: A file, or an address such as ``sqlite:///path.db``; the configured one when
                None.
            home: Where keys and trust are; ``SATCHEL_HOME`` or the platform's folder when None.
            config: The configuration file; the usual one when None.
            bank: Which bank ``bank()`` means; the configured one, or the only one, when None.
            passphrase: Of the owner's key, which new banks need, where it has one.
            read_only: Whether nothing is going to be written; then nothing is made, either.
            hooks: Functions that are told what happens, by the name of the event, such as
                ``{"on_remember": print}``; besides those of the configuration. They are called in
                a thread of their own, and what they raise stops nothing: see ``hook_counts``.

        Raises:
            ConfigError: If the configuration is wrong.
            UsageError: If there is no event of a name.
            UnknownBankError: If nothing is to be written, and there is no store.
            StoreError: If it cannot be opened.
        """
        settings = load_settings(
            home=Path(home) if home is not None else None,
            config=Path(config) if config is not None else None,
            store=str(store) if store is not None else None,
        )
        if hooks:
            settings = structs.replace(settings, hooks=settings.hooks.and_(hooks))
        if read_only and not has_store(settings):
            raise UnknownBankError("there is no store yet", file=settings.store)
        stack = ExitStack()
        stack.callback(settings.hooks.finish)
        opened = stack.enter_context(opened_store(settings, read_only=read_only))
        return cls(
            settings,
            opened,
            Lifetime(stack.close),
            bank=bank,
            passphrase=passphrase,
            read_only=read_only,
        )

    def bank(self, name: str | None = None) -> Bank:
        """Open a bank; the first of a store that has none is made.

        Args:
            name: Its name, its id, or the first six digits or more of that; the one that is meant
                when None.

        Raises:
            UnknownBankError: If there are others, but not this one.
            UsageError: If there are several, and none is named.
            VerificationError: If it is not what this machine saw of it.
        """
        wanted = name or self._wanted
        with self._lifetime.use():
            if self._read_only:
                opened = open_bank_in(self._settings, self._store, wanted)
            else:
                opened = bank_to_fill(self._settings, self._store, wanted, self._owner)
            return Bank(opened, self._lifetime)

    def create_bank(self, name: str) -> Bank:
        """Start a bank that the owner's key speaks for, which is made on first use.

        Raises:
            UsageError: If the name is empty, or a bank has it already.
            ReadOnlyStoreError: If nothing is to be written.
        """
        with self._lifetime.use():
            if self._read_only:
                raise ReadOnlyStoreError("opened for reading", file=self._settings.store)
            made = banks.create_bank(self._settings, name, self._owner())
            opened = open_bank_in(self._settings, self._store, made.id, writes=True)
            return Bank(opened, self._lifetime)

    def banks(self) -> list[BankLine]:
        """Return the banks of the store, each opened and proved."""
        with self._lifetime.use():
            return banks.list_banks(self._settings)

    def export_bank_config(
        self,
        bank: str | None,
        path: str | Path,
        *,
        overwrite: bool = False,
        allow_uncontained: bool = False,
    ) -> BankConfigured:
        """Write what holds for a bank to a small JSON document, beside an archive of its memory.

        Args:
            bank: Which, as ``bank()`` takes it.
            path: The file.
            overwrite: Whether a file that is there is replaced.
            allow_uncontained: As for ``Bank.export``.

        Raises:
            PathRefusedError: Without ``allow_uncontained``.
            UnknownBankError: If there is no such bank.
            TargetError: If it cannot be written.
        """
        output = own_path(path, allowed=allow_uncontained)
        with self._lifetime.use():
            opened = open_bank_in(self._settings, self._store, bank or self._wanted)
            return bank_settings.export_config(opened, output, overwrite=overwrite)

    def import_bank_config(
        self, bank: str | None, path: str | Path, *, allow_uncontained: bool = False
    ) -> BankConfigured:
        """Give a bank what such a document says; members that are not known here are kept.

        Args and Raises: as ``export_bank_config``; ``MalformedError`` if it is no such document.
        """
        source = own_path(path, allowed=allow_uncontained)
        with self._lifetime.use():
            wanted = bank or self._wanted
            opened = open_bank_in(self._settings, self._store, wanted, writes=not self._read_only)
            return bank_settings.import_config(opened, source)

    def sink(self, target: str, *, bank: str | None = None) -> list[Followed]:
        """Write what a sink lacks of the log of banks, in its order; see ``satchel sink run``.

        Args:
            target: Such as ``sqlite:///FILE``, ``parquet:///FOLDER`` or ``s3://BUCKET/PREFIX``.
            bank: Which; all when None.

        Raises:
            UsageError: If the target cannot be meant, or needs an extra.
            VerificationError: If the sink followed another history.
            TargetError: If it cannot be written; what it has stays.
        """
        with self._lifetime.use(), closing(open_sink(target)) as opened:
            return follow_once(self._settings, opened, FollowOptions(bank=bank))

    @property
    def hook_counts(self) -> HookCounts:
        """How often hooks were told, failed, and could not be told."""
        return self._settings.hooks.counts

    def close(self) -> None:
        """Close it, when the calls under way have ended; it may be closed twice."""
        self._lifetime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _owner(self) -> SigningKey:
        return signing_key(self._settings, passphrase=self._passphrase)[0]
