"""``satchel code``."""

from contextlib import AbstractContextManager
from typing import Any

from satchel.actions.coding import asking, indexing
from satchel.actions.opened import OpenBank, opened_bank
from satchel.surfaces.cli._console import state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.code import _showing as views

code = Group(help="Manage the code that memories mention.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(code, name="code")


def _to_read(bank: str | None, _: object) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank)


def _to_write(bank: str | None, options: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank, writes=not getattr(options, "dry_run", False))


command(
    code,
    indexing.index_code,
    views.show_index,
    bank=_to_write,
    label="reading code",
)
command(code, asking.query_code, views.show_answer, bank=_to_read)
command(code, asking.show_code, views.show_symbols, bank=_to_read)
command(code, indexing.code_trees, views.show_trees, bank=_to_read)
command(code, indexing.drop_code, views.show_dropped, bank=_to_write)
