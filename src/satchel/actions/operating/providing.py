"""With a provider set, export and import work with the product itself, where it lives.

Whatever is taken out of a product, or brought into it, goes through a store of the moment: so all
formats can be written from it and read into it, and its users are banks like any other.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from satchel.actions.config import Settings, StoreSettings
from satchel.actions.configured.provider import STORES, Provider
from satchel.actions.importing.imported import Imported, ImportOptions
from satchel.actions.importing.importing import import_file
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.moving.exporting import export
from satchel.actions.opened import open_bank_in, opened_bank
from satchel.actions.wiring import opened_store
from satchel.errors import ConfigError
from satchel.ports.registry import installed_connectors
from satchel.seal.signing.key import SigningKey

Owners = Callable[[], SigningKey]
"""Gives the key that owns banks that are made."""


def place_of(provider: Provider) -> Path:
    """Return what import and export take a product by.

    Raises:
        ConfigError: If nothing that is installed can talk to it.
    """
    names = installed_connectors()
    known = provider.name.replace("-", "_")
    if not any(name == known or name.startswith(f"{known}_") for name in names):
        products = sorted({name.partition("_")[0] for name in names})
        raise ConfigError(
            f"the provider {provider.name!r} is not installed here",
            field="provider",
            hint=f"There are: {', '.join([*STORES, *products])}.",
        )
    return Path(provider.address)


@contextmanager
def staged(settings: Settings) -> Iterator[Settings]:
    """Give surroundings with an empty store of the moment, private and soon gone; the same keys."""
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        store = StoreSettings(address=str(Path(folder) / "staged.db"))
        options = structs.replace(settings.options, store=store, provider="", provider_config={})
        yield structs.replace(settings, options=options, state=Path(folder) / "state")


@contextmanager
def drawn(settings: Settings, provider: Provider, owner: Owners) -> Iterator[Settings]:
    """Give surroundings with all memory of a product, a bank for each of its users.

    Raises:
        ConfigError: If nothing that is installed can talk to it.
        InputError: If it cannot be read, is empty, or a memory's owner is not known.
    """
    place = place_of(provider)
    with staged(settings) as stage:
        quiet = structs.replace(stage, hooks=type(stage.hooks)({}))
        import_file(quiet, place, None, owner, ImportOptions())
        yield stage


def export_live(
    settings: Settings,
    provider: Provider,
    wanted: str | None,
    owner: Owners,
    asked: tuple[Path, ExportOptions],
) -> Export:
    """Write the memory of one of a product's users to a file; see ``export``.

    Args:
        settings: The surroundings.
        provider: The product.
        wanted: The user; None for the only one.
        owner: Gives the key that owns banks of the moment.
        asked: The file, and how it is to be written.

    Raises:
        UnknownBankError: If there is no such user.
        SatchelError: As ``drawn`` and ``export``.
    """
    with drawn(settings, provider, owner) as stage, opened_bank(stage, wanted) as bank:
        return export(bank, *asked)


def import_live(
    settings: Settings,
    provider: Provider,
    source: Path | str | None,
    owner: Owners,
    asked: tuple[str | None, ImportOptions],
) -> Imported:
    """Bring a file's memory into a product; what that has no place for is among the losses.

    Args:
        settings: The surroundings.
        provider: The product.
        source: The file; None for the standard input.
        owner: Gives the key that owns banks of the moment.
        asked: The bank that everything is of, if there is one, and how it is to be read.

    Raises:
        SatchelError: As ``import_file``; and as ``export`` does to the product.
    """
    place = place_of(provider)
    bank, options = asked
    with staged(settings) as stage:
        # What would be written can be told only of what was read.
        read = import_file(stage, source, bank, owner, replace(options, dry_run=False))
        written = put(stage, place, dry_run=options.dry_run)
    losses = [*read.losses, *(loss for one in written for loss in one.losses)]
    notes = [*read.notes, *(note for one in written for note in one.notes)]
    return structs.replace(read, losses=losses, notes=notes, dry_run=options.dry_run)


def put(stage: Settings, place: Path, *, dry_run: bool) -> list[Export]:
    """Write all banks of a store to a product."""
    with opened_store(stage, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        options = ExportOptions(dry_run=dry_run, overwrite=True)
        return [export(open_bank_in(stage, store, bank), place, options) for bank in banks]
