"""Operations on the configuration that a bank carries."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.actions.opened import OpenBank
from satchel.actions.options import NOT_FOR_MODELS, RESPONSE, Overwrite
from satchel.actions.upkeep import bank_settings
from satchel.actions.upkeep.bank_settings import BankConfigured
from satchel.ports.operations import Option, Options, PathText, operation

_FILES = {**NOT_FOR_MODELS, "http": "GET and PATCH of the configuration have its values."}


@dataclass(frozen=True, slots=True, kw_only=True)
class BankConfigOptions(Options):
    """No options."""


@operation(
    BankConfigOptions,
    name="bank config show",
    example="satchel bank config show assistant",
    absent=NOT_FOR_MODELS,
)
def show_config(bank: OpenBank, _: BankConfigOptions) -> BankConfigured:
    """Show the effective configuration of a bank, and where each value comes from."""
    return bank_settings.show_config(bank)


@dataclass(frozen=True, slots=True)
class BankConfigSetOptions(Options):
    """Which values to change."""

    values: Annotated[
        Mapping[str, Any],
        Option(
            "NAME=VALUE; without a value the setting is removed. Repeatable.",
            argument=True,
            metavar="NAME=VALUE",
            examples=[{"recall_limit": 5}],
        ),
    ]


@operation(
    BankConfigSetOptions,
    name="bank config set",
    example="satchel bank config set assistant scrub_secrets=true recall_limit=20",
    absent=NOT_FOR_MODELS,
)
def set_config(bank: OpenBank, options: BankConfigSetOptions) -> BankConfigured:
    """Change settings that a bank carries in its log, also into copies of it.

    Args:
        bank: The bank, open for writing.
        options: The values by name; null removes one.

    Raises:
        UsageError: If there is no such setting, or it cannot have the value.
    """
    return bank_settings.set_config(bank, options.values)


@dataclass(frozen=True, slots=True)
class BankConfigExportOptions(Options):
    """Where to write the configuration."""

    output: Annotated[
        PathText,
        Option(
            "File to write; - for standard output.",
            argument=True,
            metavar="FILE",
            values="file",
            http=RESPONSE,
        ),
    ]
    _: KW_ONLY
    overwrite: Overwrite = False


@operation(
    BankConfigExportOptions,
    name="bank config export",
    example="satchel bank config export assistant assistant.config.json",
    absent=_FILES,
)
def export_config(bank: OpenBank, options: BankConfigExportOptions) -> BankConfigured:
    """Write the effective configuration of a bank to a JSON file, with its profile.

    Args:
        bank: The bank.
        options: Where to.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        TargetError: If it cannot be written.
    """
    path = Path(options.output)
    return bank_settings.export_config(bank, path, overwrite=options.overwrite)


@dataclass(frozen=True, slots=True)
class BankConfigImportOptions(Options):
    """Which file to read."""

    file: Annotated[
        PathText,
        Option(
            "File that `bank config export` wrote.", argument=True, metavar="FILE", values="file"
        ),
    ]


@operation(
    BankConfigImportOptions,
    name="bank config import",
    example="satchel bank config import assistant assistant.config.json",
    absent=_FILES,
)
def import_config(bank: OpenBank, options: BankConfigImportOptions) -> BankConfigured:
    """Apply an exported configuration to a bank. Members that are unknown here are kept.

    Args:
        bank: The bank, open for writing.
        options: Which file.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        UnreadableError: If it cannot be read.
        MalformedError: If it is no such file, or a member has the wrong shape.
    """
    return bank_settings.import_config(bank, Path(options.file))
