"""``satchel links`` and ``path``."""

from typing import Annotated

import typer

from satchel.actions.memories import walking as actions
from satchel.actions.memories.values import CURRENT
from satchel.actions.memories.walking import (
    BUDGET,
    PATH_HOPS,
    PATHS,
    Connections,
    Neighbourhood,
    Step,
    Thing,
)
from satchel.actions.opened import opened_bank
from satchel.surfaces.cli._console import (
    count,
    dim,
    gist,
    line,
    message,
    print_json,
    safe,
    short,
    state,
    table,
)
from satchel.surfaces.cli._options import InBank, Json

Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only links of this type, such as derives_from. Repeatable."),
]
Way = Annotated[
    actions.Way, typer.Option("--direction", help="Along the links, against them, or both.")
]
Budget = Annotated[int, typer.Option("--budget", help="How many links are looked at, at most.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("links")(links_command)
    app.command("path")(path_command)


def links_command(
    memory: Annotated[
        str, typer.Argument(help="Its id, six of its first digits or more, or a placeholder.")
    ],
    types: Types = None,
    direction: Way = "both",
    hops: Annotated[int, typer.Option("--hops", help="How many steps, at most.")] = 1,
    budget: Budget = BUDGET,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show what a memory is linked with, the nearest first; each once, however links go round.

    What a link leads to and the bank does not have is a placeholder. What is not current any more,
    or is held back, is named without its words.

    Example: `satchel links 0f3c12 --type similar_to --hops 2`
    """
    with opened_bank(state.settings, bank) as there:
        found = actions.links(
            there, memory, types=types or (), direction=direction, hops=hops, budget=budget
        )
    if as_json:
        print_json(found)
    else:
        _show_near(found)
    _note(found, f"looked at {count(budget, 'link')}")


def path_command(
    start: Annotated[str, typer.Argument(metavar="FROM", help="As for satchel links.")],
    end: Annotated[str, typer.Argument(metavar="TO", help="As for satchel links.")],
    types: Types = None,
    direction: Way = "both",
    hops: Annotated[int, typer.Option("--hops", help="How many steps, at most.")] = PATH_HOPS,
    budget: Budget = BUDGET,
    limit: Annotated[int, typer.Option("--limit", help="How many ways, at most.")] = PATHS,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show how two memories are connected: the shortest ways from one to the other.

    Example: `satchel path 0f3c12 9b04ad`
    """
    with opened_bank(state.settings, bank) as there:
        found = actions.path(
            *(there, start, end),
            types=types or (),
            direction=direction,
            hops=hops,
            budget=budget,
            limit=limit,
        )
    if as_json:
        print_json(found)
    else:
        _show_ways(found, next(iter(found.things)), hops)
    _note(found, f"looked at {count(budget, 'link')}, showed {count(limit, 'way')} at most")


def _show_near(found: Neighbourhood) -> None:
    if not found.things:
        message("nothing is linked with it in that way")
        return
    table(
        [],
        [[each.hops, _name(each), _how(each.by, each.id), _said(each)] for each in found.things],
    )


def _show_ways(found: Connections, start: str, hops: int) -> None:
    if not found.ways:
        message(f"nothing connects them within {count(hops, 'step')}")
    for number, way in enumerate(found.ways):
        if number:
            line("")
        at = start
        line(_name(found.things[at]), "  ", _said(found.things[at]))
        for step in way:
            at = step.target if step.source == at else step.source
            line("  ", _how(step, at))
            line(_name(found.things[at]), "  ", _said(found.things[at]))


def _how(step: Step, end: str) -> str:
    """Return the type of a link, and the way that it leads to one of its ends."""
    if step.target == end:
        return f"{short(step.source)} {gist(step.type)} ->"
    return f"{short(step.target)} <- {gist(step.type)}"


def _name(thing: Thing) -> str:
    return gist(short(thing.id) if thing.state != actions.PLACEHOLDER else thing.id)


def _said(thing: Thing) -> object:
    if thing.state != CURRENT:
        return dim(f"({thing.state})")
    return safe(gist(thing.text)) if thing.text is not None else dim(thing.type or "")


def _note(found: Neighbourhood | Connections, bounds: str) -> None:
    if not found.complete:
        message(f"There may be more: {bounds}.", style="yellow")
    for note in found.notes:
        message(note)
