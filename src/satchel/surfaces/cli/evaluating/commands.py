"""``satchel evaluate``."""

from dataclasses import dataclass
from typing import Annotated, Any

from satchel.actions.evaluating import operations
from satchel.ports.operations import Option, Options, PathText
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.evaluating import _showing as views

evaluate = Group("Measure recall, continuity and containment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions(Options):
    """Where a page with plots is written."""

    page: Annotated[
        PathText | None,
        Option("Write a page with plots to this file: HTML that loads nothing.", values="file"),
    ] = None
    overwrite: Annotated[bool, Option("Replace the file if it exists.")] = False


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    root.add(evaluate, name="evaluate")


def _name_page(values: dict[str, Any], page: PageOptions) -> None:
    values.update(page=page.page, overwrite=page.overwrite)


def _add_paged(operation: Any, show: Any, label: str) -> None:
    command(evaluate, operation, show, label=label, extra=PageOptions, prepare=_name_page)


command(evaluate, operations.measure_recall, views.show_recall, label="asking")
_add_paged(operations.measure_framed, views.show_framed, "framing")
command(evaluate, operations.measure_containment, views.show_containment, label="judging")
_add_paged(operations.measure_transfer, views.show_transfer, "asking")
_add_paged(operations.measure_fidelity, views.show_fidelity, "asking")
_add_paged(operations.measure_paper, views.show_paper, "measuring")
