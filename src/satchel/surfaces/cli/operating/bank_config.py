"""``satchel bank config``: what holds for a bank."""

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec

from satchel.actions.opened import opened_bank
from satchel.actions.upkeep.bank_settings import (
    BankConfigured,
    export_config,
    import_config,
    set_config,
    show_config,
)
from satchel.errors import UsageError
from satchel.surfaces.cli._console import facts, message, print_json, state
from satchel.surfaces.cli._options import Force, Json
from satchel.surfaces.cli._stdout import output_file
from satchel.surfaces.cli._tree import Argument, Group

Bank = Annotated[str, Argument(help="Bank name, ID or unique ID prefix.", values="bank")]
File = Annotated[Path, Argument(help="The document.")]
Output = Annotated[Path, Argument(help="The document to write; - for standard output.")]

bank_config = Group(help="What holds for one bank.")


@bank_config.command("show")
def show_command(bank: Bank, as_json: Json = False) -> None:
    """Show what holds for a bank, and where each of it comes from.

    Example: `satchel bank config show assistant`
    """
    with opened_bank(state.settings, bank) as opened:
        found = show_config(opened)
    _print(found, as_json=as_json)


@bank_config.command("set")
def set_command(
    bank: Bank,
    values: Annotated[list[str], Argument(help="NAME=VALUE; without a value it is taken away.")],
    as_json: Json = False,
) -> None:
    """Change what a bank carries of its own: its log has it, so it goes along with copies.

    Example: `satchel bank config set assistant scrub_secrets=true recall_limit=20`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        found = set_config(opened, dict(map(_pair, values)))
    _print(found, as_json=as_json)


@bank_config.command("export")
def export_command(bank: Bank, file: Output, force: Force = False, as_json: Json = False) -> None:
    """Write what holds for a bank to a small JSON document, its profile included.

    Example: `satchel bank config export assistant assistant.config.json`
    """
    with opened_bank(state.settings, bank) as opened, output_file(file) as path:
        found = export_config(opened, path, overwrite=force)
    _done(msgspec.structs.replace(found, path=str(file)), f"written to {file}", as_json=as_json)


@bank_config.command("import")
def import_command(bank: Bank, file: File, as_json: Json = False) -> None:
    """Give a bank what holds in such a document; what is not known here is kept.

    Example: `satchel bank config import assistant assistant.config.json`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        found = import_config(opened, file)
    _done(found, "imported" if found.is_changed else "the same as before", as_json=as_json)


def _pair(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given or not name:
        raise UsageError(f"this is no NAME=VALUE: {text!r}", field="values")
    if not value:
        return name, None
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _done(found: BankConfigured, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        message(what)


def _print(found: BankConfigured, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found.settings:
        message("nothing but the defaults; see: satchel bank config set")
        return
    facts(
        (name, f"{json.dumps(value, ensure_ascii=False)}  ({found.origins.get(name, 'file')})")
        for name, value in sorted(found.settings.items())
    )
