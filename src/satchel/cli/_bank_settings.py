"""``satchel bank config``: the configuration of a bank."""

import json
from contextlib import AbstractContextManager
from typing import Any

from satchel.admin import settings_operations as operations
from satchel.admin.settings import BankConfigured
from satchel.bank.open_bank import OpenBank, opened_bank
from satchel.cli._bank_owners import OfBank
from satchel.cli._console import facts, message, state
from satchel.cli._operations import command
from satchel.cli._streams import NAME
from satchel.cli._tree import Group

bank_config = Group(help="Manage the configuration of one bank.")


def _to_read(_: Any, of: OfBank) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, of.bank)


def _to_write(_: Any, of: OfBank) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, of.bank, writes=True)


def _read_values(given: dict[str, Any], _: OfBank) -> None:
    """Read values as JSON where they are; an empty one removes the setting."""
    given["values"] = {name: _value(text) for name, text in given["values"].items()}


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _show(found: BankConfigured, _: OfBank) -> None:
    if not found.settings:
        message("Only defaults. To change one: satchel bank config set")
        return
    facts(
        (name, f"{json.dumps(value, ensure_ascii=False)}  ({found.origins.get(name, 'file')})")
        for name, value in sorted(found.settings.items())
    )


def _show_exported(found: BankConfigured) -> None:
    if found.output != NAME:
        message(f"written to {found.output}")


def _show_imported(found: BankConfigured) -> None:
    message("imported" if found.is_changed else "unchanged")


command(bank_config, operations.show_config, _show, context=_to_read, extra=OfBank)
command(
    bank_config,
    operations.set_config,
    _show,
    context=_to_write,
    extra=OfBank,
    prepare=_read_values,
)
command(bank_config, operations.export_config, _show_exported)
command(bank_config, operations.import_config, _show_imported)
