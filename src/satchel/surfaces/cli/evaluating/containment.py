"""``satchel evaluate containment``."""

from pathlib import Path
from typing import Annotated

from satchel.surfaces.cli._console import count, line, message, print_json, progress, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.surfaces.cli.evaluating._options import show


def add_to(group: Group) -> None:
    """Add the command of this module."""
    group.command("containment")(containment)


def containment(
    data: Annotated[
        Path, Argument(help="A corpus of JSON lines (text, label), or a folder of them.")
    ],
    mutated: Annotated[
        int,
        Option("--mutated", minimum=0, help="Texts of each that are disguised and halved too."),
    ] = 150,
    as_json: Json = False,
) -> None:
    """Judge what texts can do to the text that they stand in, and which of them are held back.

    Each is taken for a memory from outside. The judge is written apart from the encoder. Your banks
    are left alone.

    Example: `satchel evaluate containment corpora --mutated 20`
    """
    from satchel.actions.evaluating.containment.evaluating import evaluate_containment
    from satchel.actions.evaluating.tables import contained_rows

    with progress("judging", True, records=True) as tell:
        found = evaluate_containment(state.settings, data, mutated=mutated, progress=tell)
    if as_json:
        print_json(found)
        return
    show(contained_rows(found))
    for one in found.escapes:
        line(f"{one.kind}: ", one.line)
    message(f"{count(found.whole.escapes, 'escape')}")
