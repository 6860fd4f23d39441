"""``satchel bank config``: the configuration of a bank."""

import json
from contextlib import AbstractContextManager
from typing import Any

from satchel.admin import settings_operations as operations
from satchel.admin.settings import BankConfigReport
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._bank_owners import OwnedBankOptions
from satchel.cli._console import message, print_facts, state
from satchel.cli._operations import command
from satchel.cli._streams import NAME
from satchel.cli._tree import Group

bank_config = Group(help="Manage the configuration of one bank.")


def _to_read(_: Any, of: OwnedBankOptions) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, of.bank)


def _to_write(_: Any, of: OwnedBankOptions) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, of.bank, writes=True)


def _read_values(given: dict[str, Any], _: OwnedBankOptions) -> None:
    """Read values as JSON where they are; an empty one removes the setting."""
    given["values"] = {name: _value(text) for name, text in given["values"].items()}


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _show(found: BankConfigReport, _: OwnedBankOptions) -> None:
    if not found.settings:
        message("Only defaults. To change one: satchel bank config set")
        return
    print_facts(
        (name, f"{json.dumps(value, ensure_ascii=False)}  ({found.origins.get(name, 'file')})")
        for name, value in sorted(found.settings.items())
    )


def _show_exported(found: BankConfigReport) -> None:
    if found.output != NAME:
        message(f"written to {found.output}")


def _show_imported(found: BankConfigReport) -> None:
    message("imported" if found.is_changed else "unchanged")


command(bank_config, operations.show_config, _show, context=_to_read, extra=OwnedBankOptions)
command(
    bank_config,
    operations.set_config,
    _show,
    context=_to_write,
    extra=OwnedBankOptions,
    prepare=_read_values,
)
command(bank_config, operations.export_config, _show_exported)
command(bank_config, operations.import_config, _show_imported)
