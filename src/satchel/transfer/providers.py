"""Export and import with a provider: a live product in place of the store.

Records pass through a temporary store, so that all formats can be used, and the product's users are
banks like any other. The receipt names the product and the file, not the temporary store.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from satchel.bank.connections import configured_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, open_bank, open_bank_in
from satchel.config.files import STORES, Provider
from satchel.config.settings import Settings, StoreSettings
from satchel.errors import ConfigError, UsageError
from satchel.ports.format import installed_connectors
from satchel.receipts.receipt import TransferEnd, receipt_text
from satchel.receipts.steps import join_receipt_bodies, joined_plan, save_receipt
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import ConflictPolicy, ImportOptions, ImportSummary, Owners
from satchel.transfer.imports import import_file


def provider_path(provider: Provider) -> Path:
    """Return the address of a product, as import and export take it.

    Raises:
        ConfigError: If no connector for it is installed.
    """
    names = installed_connectors()
    known = provider.name.replace("-", "_")
    if not any(name == known or name.startswith(f"{known}_") for name in names):
        products = sorted({name.partition("_")[0] for name in names})
        raise ConfigError(
            f"the provider {provider.name!r} is not installed here",
            field="provider",
            hint=f"Choose from: {', '.join([*STORES, *products])}.",
        )
    return Path(provider.address)


@dataclass(frozen=True, slots=True)
class ProviderMemory:
    """All memory of a product, in a temporary store."""

    stage: Settings
    """Settings with that store."""

    imported: ImportSummary
    """Result of reading the product."""

    def end(self, name: str | None = None) -> TransferEnd:
        """Return the product, or one of its users, as the input of a transfer."""
        account = self.imported.accounts[0]
        if name is None:
            return account.input
        input_ = f"{account.input.name} of {name}"
        return structs.replace(account.input, name=receipt_text(input_), records=None)


@contextmanager
def temporary_store(settings: Settings) -> Iterator[Settings]:
    """Provide settings with an empty, private, temporary store and the same keys."""
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        store = StoreSettings(address=str(Path(folder) / "staged.db"))
        options = structs.replace(settings.options, store=store, provider="", provider_config={})
        yield structs.replace(settings, options=options, state=Path(folder) / "state")


@contextmanager
def read_provider(
    settings: Settings, provider: Provider, owner: Owners, accept_loss: tuple[str, ...] = ()
) -> Iterator[ProviderMemory]:
    """Read all memory of a product into a temporary store, a bank for each of its users.

    Raises:
        ConfigError: If no connector for it is installed.
        InputError: If it cannot be read, is empty, or the owner of a memory is unknown.
    """
    address = provider_path(provider)
    with temporary_store(settings) as stage:
        quiet = structs.replace(stage, hooks=type(stage.hooks)({}))
        options = ImportOptions(accept_loss=accept_loss, keeps_receipt=False)
        yield ProviderMemory(stage, import_file(quiet, address, None, owner, options))


def export_live(
    settings: Settings,
    user: str | None,
    owner: Owners,
    request: tuple[Path | Outlet, ExportOptions],
) -> Export:
    """Write the memory of one user of a product to a file; see ``export``.

    Args:
        settings: Settings with the product.
        user: The user; None for the only one.
        owner: Returns the key that owns temporary banks.
        request: The output and the options.

    Raises:
        UnknownBankError: If there is no such user.
        SatchelError: As ``read_provider`` and ``export``.
    """
    require_owner(settings, "provider")
    output, options = request
    provider = _provider(settings)
    with (
        read_provider(settings, provider, owner, options.accept_loss) as memory,
        open_bank(memory.stage, user) as bank,
    ):
        result = export(bank, output, replace(options, keeps_receipt=False))
        end, imported = memory.end(bank.name), memory.imported
    result = structs.replace(
        result,
        losses=[*imported.losses, *result.losses],
        notes=[*imported.notes, *result.notes],
        unaccepted=imported.unaccepted + result.unaccepted,
    )
    if result.plan is not None:
        return structs.replace(result, plan=structs.replace(result.plan, input=end))
    if result.account is None:
        return result
    read = structs.replace(imported.accounts[0], counts={})
    account = join_receipt_bodies("export", (end, result.account.output), [read], [result.account])
    account = structs.replace(
        account,
        counts=result.account.counts,
        secrets=result.account.secrets,
        secrets_kept=result.account.secrets_kept,
    )
    receipt, problems = save_receipt(settings, account, key=options.key, copy=options.receipt)
    problem = problems[0] if problems else None
    return structs.replace(result, receipt=receipt, receipt_problem=problem, account=account)


def import_live(
    settings: Settings,
    source: Path | OpenFile | str | None,
    owner: Owners,
    request: tuple[str | None, ImportOptions],
) -> ImportSummary:
    """Import a file into a product; what the product cannot hold is among the losses.

    Args:
        settings: Settings with the product.
        source: The file; None for standard input.
        owner: Returns the key that owns temporary banks.
        request: The bank for everything, if any, and the options.

    Raises:
        UsageError: If the conflict policy is one that products do not support.
        SatchelError: As ``import_file`` and ``export``.
    """
    require_owner(settings, "provider")
    address = provider_path(_provider(settings))
    bank, options = request
    if options.mirror or options.on_conflict in (ConflictPolicy.RENAME, ConflictPolicy.ERROR):
        raise UsageError(
            "a live product supports only skipping or overwriting other versions",
            field="mirror" if options.mirror else "on_conflict",
            hint="Use --on-conflict skip or overwrite.",
        )
    with temporary_store(settings) as stage:
        # A dry run must read the file, too, to know what would be written.
        step = replace(options, dry_run=False, keeps_receipt=False)
        read = import_file(stage, source, bank, owner, step)
        how = ExportOptions(
            dry_run=options.dry_run,
            overwrite=options.on_conflict is ConflictPolicy.OVERWRITE,
            accept_loss=options.accept_loss,
            embeddings=options.embeddings,
            keeps_receipt=False,
        )
        exports = write_banks(stage, address, how)
    summary = structs.replace(
        read,
        losses=[*read.losses, *(loss for written in exports for loss in written.losses)],
        notes=[*read.notes, *(note for written in exports for note in written.notes)],
        unaccepted=read.unaccepted + sum(written.unaccepted for written in exports),
        dry_run=options.dry_run,
        accounts=[],
    )
    ends = (
        read.accounts[0].input,
        TransferEnd(name=receipt_text(str(address)), format=exports[0].format),
    )
    plans = [written.plan for written in exports if written.plan is not None]
    if plans:
        return structs.replace(summary, plan=joined_plan(ends, read.accounts[0], plans))
    accounts = [written.account for written in exports if written.account is not None]
    account = join_receipt_bodies("import", ends, read.accounts, accounts)
    output = structs.replace(account.output, records=account.total.read_back)
    total = sum(written.written or 0 for written in exports)
    account = structs.replace(
        account,
        output=output,
        done={"written": total, "known": sum(written.known or 0 for written in exports)},
        unchanged=total == 0 and account.unaccepted == 0,
    )
    receipt, notes = save_receipt(settings, account, copy=options.receipt)
    return structs.replace(
        summary,
        accounts=[account],
        receipts=[receipt] if receipt else [],
        notes=[*summary.notes, *notes],
    )


@dataclass(frozen=True, slots=True)
class LiveBank:
    """The memory of one user of the configured product."""

    settings: Settings
    name: str | None
    """The user; None for the only one."""

    owner: Owners
    """Returns the key that owns temporary banks."""


def export_from(bank: OpenBank | LiveBank, output: Path | Outlet, options: ExportOptions) -> Export:
    """Export an open bank, or the memory of one user of a product."""
    if isinstance(bank, LiveBank):
        return export_live(bank.settings, bank.name, bank.owner, (output, options))
    return export(bank, output, options)


def import_into(
    settings: Settings,
    source: Path | OpenFile | str | None,
    bank: str | None,
    owner: Owners,
    options: ImportOptions,
) -> ImportSummary:
    """Import into the store, or into the configured provider."""
    if settings.provider is None:
        return import_file(settings, source, bank, owner, options)
    return import_live(settings, source, owner, (bank, options))


def _provider(settings: Settings) -> Provider:
    if settings.provider is None:
        raise UsageError("no provider given", field="provider")
    return settings.provider


def write_banks(stage: Settings, address: Path, options: ExportOptions) -> list[Export]:
    """Write all banks of a store to a product."""
    with configured_store(stage, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        return [export(open_bank_in(stage, store, bank), address, options) for bank in banks]
