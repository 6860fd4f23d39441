"""``satchel evaluate framed``."""

from pathlib import Path
from typing import Annotated

from satchel.surfaces.cli._console import count, message, print_json, progress, state
from satchel.surfaces.cli._options import Force, Json
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.evaluating._options import FramedFor, NoVectors, Page, keep_page, show


def add_to(group: Group) -> None:
    """Add the command of this module."""
    group.command("framed")(framed)


def framed(
    data: Annotated[Path, Argument(help="A set of questions: a file, or a folder.")],
    model: FramedFor = "gpt-4o",
    budgets: Annotated[
        list[int] | None,
        Option(
            "--budget",
            minimum=1,
            help="Tokens of the whole text; 512, 1,024, 2,048 and 4,096. Repeatable.",
        ),
    ] = None,
    no_vectors: NoVectors = False,
    page: Page = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure how much of what answers questions stands in the final text that a model is given.

    Reads what `satchel evaluate recall` reads. Your banks are left alone.

    Example: `satchel evaluate framed locomo10.json --budget 1024`
    """
    from satchel.actions.evaluating.framed import evaluate_framed
    from satchel.actions.evaluating.measures import BUDGETS
    from satchel.actions.evaluating.pages.page import framed_page
    from satchel.actions.evaluating.tables import framed_rows

    with progress("framing", True, records=True) as tell:
        found = evaluate_framed(
            state.settings,
            data,
            model=model,
            budgets=budgets or BUDGETS,
            vectors=not no_vectors,
            progress=tell,
        )
    keep_page(page, framed_page, found, force=force)
    if as_json:
        print_json(found)
        return
    show(framed_rows(found))
    message(f"{count(found.questions, 'question')}; tokens by {found.tokenizer or model}")
    for note in found.notes:
        message("note: ", note)
