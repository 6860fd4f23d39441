"""Operations on the configuration that a bank carries."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from satchel.admin import settings as bank_settings
from satchel.admin.settings import BankConfigReport
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.options import (
    NOT_FOR_MODELS,
    RESPONSE,
    BankName,
    Overwrite,
    PathOptions,
    PathPermission,
    file_to_read,
    file_to_write,
)
from satchel.config.settings import Settings
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
def show_config(bank: OpenBank, _: BankConfigOptions) -> BankConfigReport:
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
def set_config(bank: OpenBank, options: BankConfigSetOptions) -> BankConfigReport:
    """Change settings that a bank carries in its log, also into copies of it.

    Args:
        bank: The bank, open for writing.
        options: The values by name; null removes one.

    Raises:
        UsageError: If there is no such setting, or it cannot have the value.
    """
    return bank_settings.set_config(bank, options.values)


@dataclass(frozen=True, slots=True)
class BankConfigExportOptions(PathOptions):
    """Which bank's configuration to write, and where to."""

    bank: BankName
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
def export_config(
    settings: Settings,
    options: BankConfigExportOptions,
    *,
    permission: PathPermission | None = None,
) -> BankConfigReport:
    """Write the effective configuration of a bank to a JSON file, with its profile.

    Args:
        settings: Where the bank is.
        options: Which bank, and where to.
        permission: Where the path may lead; as the options say by default.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        TargetError: If it cannot be written.
    """
    allowed = permission or options.permission
    with (
        file_to_write(settings, options.output, allowed) as outlet,
        open_bank(settings, options.bank) as bank,
    ):
        done = bank_settings.export_config(bank, outlet, overwrite=options.overwrite)
    return replace(done, output=str(options.output), path=None)


@dataclass(frozen=True, slots=True)
class BankConfigImportOptions(PathOptions):
    """Which bank to configure, and by which file."""

    bank: BankName
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
def import_config(
    settings: Settings,
    options: BankConfigImportOptions,
    *,
    permission: PathPermission | None = None,
) -> BankConfigReport:
    """Apply an exported configuration to a bank. Members that are unknown here are kept.

    Args:
        settings: Where the bank is.
        options: Which bank, and which file.
        permission: Where the path may lead; as the options say by default.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        UnreadableError: If it cannot be read.
        MalformedError: If it is no such file, or a member has the wrong shape.
    """
    with (
        file_to_read(settings, options.file, permission or options.permission) as source,
        open_bank(settings, options.bank, writes=True) as bank,
    ):
        done = bank_settings.import_config(bank, source)
    return replace(done, path=str(options.file))
