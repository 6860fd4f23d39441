"""Options that several of these commands share, and how their tables are printed."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

from satchel.actions.evaluating.agents.agent import Agent
from satchel.actions.evaluating.agents.naming import agent_called
from satchel.actions.evaluating.paper.table import Table, cell_text
from satchel.actions.evaluating.probes.sets import ProbeSet, probe_set
from satchel.surfaces.cli._console import line, message, state, table
from satchel.surfaces.cli._tree import Option

Found = TypeVar("Found")

Probes = Annotated[
    list[Path] | None,
    Option("--probes", help="A set of probes; those that come along otherwise. Repeatable."),
]
Source = Annotated[
    str,
    Option(
        "--source", help="Agent with its whole memory: reader, command:PROGRAM or endpoint:MODEL."
    ),
]
Target = Annotated[
    str | None,
    Option("--target", help="Agent with what was carried over; the source otherwise."),
]
FramedFor = Annotated[
    str, Option("--model", help="Model that memory is framed for, and counted in.")
]
Seed = Annotated[int, Option("--seed", help="Of intervals and tests that draw.")]
NoVectors = Annotated[bool, Option("--no-vectors", help="By words alone.")]
Page = Annotated[
    Path | None,
    Option("--page", help="Write a page with plots here: one HTML file, nothing loaded."),
]
Timeout = Annotated[
    float, Option("--timeout", minimum=0.1, help="Seconds that an answer of a program may take.")
]


def agents(source: str, target: str | None, timeout: float) -> tuple[Agent, Agent]:
    """Return the agents that are meant."""
    first = agent_called(state.settings, source, timeout=timeout)
    return first, agent_called(state.settings, target, timeout=timeout) if target else first


def sets(probes: list[Path] | None) -> tuple[ProbeSet, ...]:
    """Return the sets of some files."""
    return tuple(map(probe_set, probes or ()))


def keep_page(
    output: Path | None, page: Callable[[Found], str], found: Found, *, force: bool
) -> None:
    """Write the page of a report, if one is wanted."""
    if output is not None:
        from satchel.actions.evaluating.pages.page import write_page

        write_page(state.settings, output, page(found), overwrite=force)
        message(f"page: {output}")


def show(found: Table, *, titled: bool = False) -> None:
    """Print a table, with its note."""
    if titled:
        line(found.title, style="bold")
    table(found.columns, [[cell_text(cell) for cell in row] for row in found.rows])
    if found.note:
        message(found.note)
    if titled:
        line()
