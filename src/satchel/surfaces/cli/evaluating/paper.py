"""``satchel evaluate paper``."""

from typing import Annotated

from satchel.surfaces.cli._console import line, message, print_json, print_text, progress, state
from satchel.surfaces.cli._options import Force, Json
from satchel.surfaces.cli._tree import Group, Option
from satchel.surfaces.cli.evaluating._options import (
    Page,
    Probes,
    Source,
    Target,
    Timeout,
    agents,
    keep_page,
    sets,
    show,
)

Trials = Annotated[
    int | None,
    Option("--trials", minimum=1, help="Of each attack and change; the paper's numbers otherwise."),
]


def add_to(group: Group) -> None:
    """Add the command of this module."""
    group.command("paper")(paper)


def paper(
    probes: Probes = None,
    source: Source = "reader",
    target: Target = None,
    trials: Trials = None,
    timeout: Timeout = 120.0,
    page: Page = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure every table of the paper for this implementation; takes minutes.

    Features, TCS, RHF, injection, tampering, tokens, sizes, latencies, several sessions, and the
    example of the appendix. Your banks are left alone.

    Example: `satchel evaluate paper --page paper.html`
    """
    from satchel.actions.evaluating.pages.page import paper_page
    from satchel.actions.evaluating.paper.measuring import Scale, evaluate_paper

    scale = Scale(sets=sets(probes))
    if trials is not None:
        scale = Scale(
            sets=scale.sets, attempts=trials, fields=trials, parents=trials, tokens=trials, rounds=1
        )
    first, second = agents(source, target, timeout)
    with progress("measuring", True, records=True) as tell:
        found = evaluate_paper(state.settings, first, second, scale=scale, on_table=tell)
    keep_page(page, paper_page, found, force=force)
    if as_json:
        print_json(found)
        return
    for table in found.tables:
        show(table, titled=True)
    line("Example", style="bold")
    print_text(found.example)
    for note in found.notes:
        message("note: ", note)
