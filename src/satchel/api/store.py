"""``satchel.Satchel``: an open store with its banks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from satchel.api.operations import call, lazy, method
from satchel.bank.lifetime import Lifetime
from satchel.errors import BankExistsError, ReadOnlyStoreError, UnknownBankError

if TYPE_CHECKING:
    from satchel.admin import bank_operations
    from satchel.admin import settings as settings_operations
    from satchel.api.bank import Bank
    from satchel.bank import banks
    from satchel.bank.banks import BankLine
    from satchel.bank.job_registry import JobRegistry
    from satchel.bank.open_bank import OpenBank
    from satchel.config.hooks import HookCounts, Listener
    from satchel.config.settings import Settings
    from satchel.crypto.keys import SigningKey
    from satchel.ports.store import Store
    from satchel.receipts import archive
    from satchel.replication import store_operations
    from satchel.setup import watch as watching
    from satchel.transfer import comparison, export_operations, import_operations
    from satchel.transfer.providers import LiveBank
else:
    archive = lazy("satchel.receipts.archive")
    banks = lazy("satchel.bank.banks")
    comparison = lazy("satchel.transfer.comparison")
    settings_operations = lazy("satchel.admin.settings")
    export_operations = lazy("satchel.transfer.export_operations")
    import_operations = lazy("satchel.transfer.import_operations")
    watching = lazy("satchel.setup.watch")
    store_operations = lazy("satchel.replication.store_operations")
    bank_operations = lazy("satchel.admin.bank_operations")


class TransferCalls:
    """Imports, receipts, jobs and capture of an open store."""

    _settings: Settings
    _lifetime: Lifetime
    _passphrase: str | None
    _read_only: bool
    _wanted: str | None

    def _owner(self, name: str | None = None) -> SigningKey:
        from satchel.bank.machine_keys import signing_key

        return signing_key(self._settings, name, passphrase=self._passphrase)[0]

    @contextmanager
    def _imported(self) -> Iterator[import_operations.ImportTarget]:
        from satchel.transfer.import_operations import ImportTarget

        with self._lifetime.use():
            yield ImportTarget(
                settings=self._settings,
                bank=self._wanted,
                owner=self._owner,
                read_only=self._read_only,
            )

    import_ = method(import_operations.import_, context=_imported)
    receipts = method(archive.list_receipts)
    receipt = method(archive.show_receipt)
    jobs = method(import_operations.list_jobs)
    resume_job = method(import_operations.resume_job, context=_imported)
    cancel_job = method(import_operations.cancel_job)
    watch = method(watching.watch)


class StoreCalls(TransferCalls):
    """The calls of an open store; ``satchel.Satchel`` has them, and ``satchel.aio.Satchel``."""

    _store: Store
    _wanted: str | None

    @contextmanager
    def _context(self) -> Iterator[Settings]:
        with self._lifetime.use():
            yield self._settings

    use_bank = method(banks.use_bank)

    diff = method(comparison.diff)

    @contextmanager
    def _writable(self) -> Iterator[Settings]:
        with self._context() as settings:
            self._require_writable({})
            yield settings

    def _internal(self, options: Any) -> Mapping[str, Any]:
        """Supply the owner's key of the open store, unless a call names another one."""
        names = ("signing_key", "passphrase", "co_signers")
        supplied: dict[str, Any] = {"require_writable": partial(self._require_writable, {})}
        if not any(getattr(options, name, None) for name in names):
            supplied |= {"owner": self._owner, "owners": lambda: (self._owner(),)}
        return supplied

    list_banks = method(bank_operations.list_banks)
    rename_bank = method(bank_operations.rename_bank, context=_writable)
    copy_bank = method(bank_operations.copy_bank, context=_writable)
    merge_banks = method(bank_operations.merge_banks, context=_writable)
    delete_bank = method(bank_operations.delete_bank, context=_writable)
    export_bank_config = method(settings_operations.export_config)
    import_bank_config = method(settings_operations.import_config, context=_writable)

    @contextmanager
    def _banks(self) -> Iterator[export_operations.StoreBanks]:
        from satchel.transfer.export_operations import StoreBanks

        with self._lifetime.use():
            yield StoreBanks(
                settings=self._settings,
                open=self._opened_or_live,
                owner=self._owner,
                read_only=self._read_only,
            )

    export_bank = method(export_operations.export_bank, context=_banks)

    import_bank = method(import_operations.import_bank, context=_banks)

    sink = method(store_operations.run_sink)
    pull = method(store_operations.pull)
    push = method(store_operations.push)

    @call
    def close(self) -> None:
        """Close the store after the calls under way have ended. May be called more than once."""
        self._lifetime.close()

    def _opened_or_live(self, bank_id: str) -> OpenBank | LiveBank:
        from satchel.bank.open_bank import open_bank_in
        from satchel.transfer.providers import LiveBank

        if self._settings.provider is not None:
            return LiveBank(self._settings, bank_id, self._owner)
        return open_bank_in(self._settings, self._store, bank_id)

    def _require_writable(self, options: Mapping[str, Any]) -> None:
        if self._read_only and not options.get("dry_run"):
            from satchel.bank.connections import shown_address

            raise ReadOnlyStoreError("opened read-only", file=shown_address(self._settings.store))


def created_bank(satchel: Satchel, line: BankLine) -> Bank:
    """Open a bank that was just created."""
    from satchel.api.bank import Bank
    from satchel.bank.open_bank import open_bank_in

    with satchel._lifetime.use():
        opened = open_bank_in(satchel._settings, satchel._store, line.id, writes=True)
        return Bank(opened, satchel._lifetime, satchel._owner, read_only=satchel._read_only)


class Satchel(StoreCalls):
    """An open store, as ``Satchel.open`` returns it. Closed at the end of its ``with`` block.

    It may be used from any thread, and after a fork, where it opens its connection again.
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
        token: str | Path | None = None,
        identities: Sequence[str | Path] = (),
        file_passphrase: str | None = None,
        hooks: Mapping[str, Listener | Iterable[Listener]] | None = None,
        roots: str | Path | Sequence[str | Path] | None = None,
    ) -> Self:
        """Open a store. If there is none at the address, it is created.

        Args:
            store: A file, or an address such as ``sqlite:///path.db``. Default: as configured.
            home: Folder of keys and trust. Default: ``SATCHEL_HOME``, or the platform's folder.
            config: Configuration file. Default: the usual one.
            bank: Bank that ``bank()`` opens. Default: as configured, or the default bank.
            passphrase: Passphrase of the owner's key, which new banks need, if it has one.
            read_only: Open for reading only; then nothing is created, either.
            token: Capability token to present: its file, or its JSON. Every call is made as its
                holder, whose key must be here, and on the bank that the token is for.
            identities: Files with identities that open the key of an encrypted store, in addition
                to those of this machine.
            file_passphrase: Passphrase of an encrypted store, or of one of the identities.
            hooks: Functions to call after an operation, by the name of its event, such as
                ``{"on_remember": print}``, in addition to those of the configuration. They run in
                a thread of their own, and their exceptions stop nothing: see ``hook_counts``.
            roots: Folders that every file of an import or export must be in, within those that
                the operator allows. Default: anywhere. For programs whose paths come from a
                request, a model or a file.

        Raises:
            ConfigError: If the configuration is not valid.
            UsageError: If there is no event with the name of a hook.
            UnknownBankError: If it is to be opened read-only, and there is no store.
            EncryptionError: If it is encrypted, and no identity or passphrase here opens it.
            StoreError: If it cannot be opened.
        """
        from msgspec import structs

        from satchel.config.settings import load_settings

        settings = load_settings(
            home=Path(home) if home is not None else None,
            config=Path(config) if config is not None else None,
            store=str(store) if store is not None else None,
            token=str(token) if token is not None else None,
        )
        more = settings.unlocking.with_sources(identities, file_passphrase)
        settings = structs.replace(settings, unlocking=more)
        if roots is not None:
            folders = (roots,) if isinstance(roots, str | Path) else tuple(roots)
            settings = structs.replace(settings, roots=folders)
        if hooks:
            settings = structs.replace(settings, hooks=settings.hooks.with_listeners(hooks))
        return open_store(cls, settings, bank=bank, passphrase=passphrase, read_only=read_only)

    def bank(self, name: str | None = None, *, create: bool = False) -> Bank:
        """Open a bank. The first bank of an empty store is created.

        Args:
            name: Bank name, ID or unique ID prefix. Default: the default bank (``use_bank``).
            create: Create the bank if none has this name.

        Raises:
            UnknownBankError: If there is no such bank.
            UsageError: If there are several, and none is the default.
            VerificationError: If it was rolled back, or is not what was signed.
        """
        reference = name or self._wanted
        try:
            return self._opened(reference)
        except UnknownBankError:
            if not create or reference is None:
                raise
            with suppress(BankExistsError):  # a concurrent call created it
                return self.create_bank(reference)
            return self._opened(reference)

    def _opened(self, reference: str | None) -> Bank:
        from satchel.api.bank import Bank
        from satchel.bank.open_bank import open_bank_in
        from satchel.setup.init import open_or_create_bank

        with self._lifetime.use():
            if self._read_only:
                opened = open_bank_in(self._settings, self._store, reference)
            else:
                opened = open_or_create_bank(self._settings, self._store, reference, self._owner)
            return Bank(opened, self._lifetime, self._owner, read_only=self._read_only)

    create_bank = method(
        bank_operations.create_bank, context=lambda self: self._writable(), into=created_bank
    )

    @property
    def hook_counts(self) -> HookCounts:
        """How many hooks were called, failed, and could not be called."""
        return self._settings.hooks.counts

    def __repr__(self) -> str:
        from satchel.bank.connections import shown_address

        return f"<Satchel {shown_address(self._settings.store)!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_Kind = TypeVar("_Kind", bound=Satchel)


def open_store(
    kind: type[_Kind],
    settings: Settings,
    *,
    bank: str | None = None,
    passphrase: str | None = None,
    read_only: bool = False,
) -> _Kind:
    """Open the store of given settings; otherwise as ``Satchel.open``."""
    from satchel.bank.connections import configured_store, has_store, shown_address

    if read_only and not has_store(settings):
        raise UnknownBankError("there is no store yet", file=shown_address(settings.store))
    stack = ExitStack()
    stack.callback(settings.hooks.finish)
    opened = stack.enter_context(configured_store(settings, read_only=read_only, for_holder=True))
    return kind(
        settings,
        opened,
        Lifetime(stack.close),
        bank=bank,
        passphrase=passphrase,
        read_only=read_only,
    )


def existing_bank(satchel: Satchel, name: str) -> Bank:
    """Open an existing bank.

    Args:
        satchel: The store.
        name: As ``Satchel.bank`` takes it.

    Raises:
        UnknownBankError: If there is no such bank.
        TokenError: If the token is for another bank.
    """
    from satchel.api.bank import Bank
    from satchel.bank.open_bank import open_bank_in
    from satchel.transfer.export_operations import require_bank_name

    with satchel._lifetime.use():
        writes = not satchel._read_only
        opened = open_bank_in(
            satchel._settings, satchel._store, require_bank_name(name), writes=writes
        )
        return Bank(opened, satchel._lifetime, satchel._owner, read_only=satchel._read_only)


def require_token(bank: Bank) -> None:
    """Require that the token that a bank was opened with is valid now, whatever it permits.

    Raises:
        TokenError: If it was not issued by an owner, was revoked, or is no longer valid.
    """
    bearer = bank._opened.bearer
    if bearer is not None:
        bearer.require_valid(bank._opened.ledger)


def is_still(bank: Bank, name: str) -> bool:
    """Return whether ``existing_bank`` would still return this bank for the same name."""
    from satchel.bank.open_bank import still_matches

    with bank._lifetime.use():
        return still_matches(bank._opened, name)


def require_readable(satchel: Satchel) -> None:
    """Require that the store can be read.

    Raises:
        StoreError: If it cannot.
    """
    with satchel._lifetime.use(), satchel._store.reading() as reader:
        reader.banks()


def board_of(satchel: Satchel) -> JobRegistry:
    """Return the registry that the servers of a store share.

    Raises:
        StoreError: If it cannot be opened.
    """
    from satchel.bank import job_registry

    with satchel._lifetime.use():
        return job_registry.open_job_registry(satchel._settings, satchel._store)


def held(satchel: Satchel, settings: Settings) -> Satchel:
    """Return the same open store with the permissions of a token's holder.

    It is open as long as the other.

    Args:
        satchel: The store.
        settings: The settings, with the token.
    """
    return Satchel(
        settings,
        satchel._store,
        satchel._lifetime,
        bank=None,
        passphrase=None,
        read_only=satchel._read_only,
    )
