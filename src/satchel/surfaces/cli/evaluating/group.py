"""The group ``satchel evaluate``."""

from typing import Annotated

import typer

from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli.evaluating import containment, continuity, framed, paper, recall
from satchel.surfaces.cli.evaluating._options import Probes

evaluate = typer.Typer(
    no_args_is_help=True,
    invoke_without_command=True,
    help="Measure how well memory is found, carried over, and kept where it is put.",
)


@evaluate.callback()
def whole(
    context: typer.Context,
    papers: Annotated[
        bool, typer.Option("--paper", help="Every table of the paper, as `evaluate paper`.")
    ] = False,
    probes: Probes = None,
    trials: paper.Trials = None,
    as_json: Json = False,
) -> None:
    """Measure how well memory is found, carried over, and kept where it is put."""
    if context.invoked_subcommand is None:
        if not papers:
            raise typer.BadParameter("what to measure was not said")
        paper.paper(probes=probes, trials=trials, as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for module in (recall, framed, containment, continuity, paper):
        module.add_to(evaluate)
    app.add_typer(evaluate, name="evaluate")
