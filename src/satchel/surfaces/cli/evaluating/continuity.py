"""``satchel evaluate tcs`` and ``rhf``."""

from typing import Annotated

from satchel.surfaces.cli._console import message, print_json, progress, state
from satchel.surfaces.cli._options import Force, Json
from satchel.surfaces.cli._tree import Group, Option
from satchel.surfaces.cli.evaluating._options import (
    FramedFor,
    NoVectors,
    Page,
    Probes,
    Seed,
    Source,
    Target,
    Timeout,
    agents,
    keep_page,
    sets,
    show,
)

_SEED, _BUDGET = 20260701, 2048


def add_to(group: Group) -> None:
    """Add the commands of this module."""
    group.command("tcs")(tcs)
    group.command("rhf")(rhf)


def tcs(
    probes: Probes = None,
    source: Source = "reader",
    target: Target = None,
    model: FramedFor = "gpt-4o",
    budget: Annotated[
        int, Option("--budget", minimum=1, help="Tokens that a target is given.")
    ] = _BUDGET,
    seed: Seed = _SEED,
    no_vectors: NoVectors = False,
    timeout: Timeout = 120.0,
    page: Page = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure transfer continuity: the target's successes with carried memory, by the source's.

    Memory is remembered, exported, signed, imported elsewhere and framed for each question. The
    reader is an agent without a model; others are named. Your banks are left alone.

    Example: `satchel evaluate tcs --source reader --target "command:python agent.py" --page t.html`
    """
    from satchel.actions.evaluating.continuity.evaluating import evaluate_transfer, trial
    from satchel.actions.evaluating.pages.page import transfer_page
    from satchel.actions.evaluating.tables import transfer_rows

    first, second = agents(source, target, timeout)
    asked = trial(
        first,
        second,
        sets=sets(probes),
        model=model,
        budget=budget,
        seed=seed,
        vectors=not no_vectors,
    )
    with progress("asking", True, records=True) as tell:
        found = evaluate_transfer(state.settings, asked, tell)
    keep_page(page, transfer_page, found, force=force)
    if as_json:
        print_json(found)
        return
    show(transfer_rows(found))
    message(f"{found.source} to {found.target}; {found.budget:,} tokens by {found.tokenizer}")
    for note in found.notes:
        message("note: ", note)


def rhf(
    probes: Probes = None,
    source: Source = "reader",
    target: Target = None,
    model: FramedFor = "gpt-4o",
    levels: Annotated[
        list[int] | None,
        Option(
            "--level",
            minimum=1,
            maximum=100,
            help="Percent of the tokens that all of the memory takes; 25, 50, 75 and 100."
            " Repeatable.",
        ),
    ] = None,
    seed: Seed = _SEED,
    no_vectors: NoVectors = False,
    timeout: Timeout = 120.0,
    page: Page = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure re-hydration fidelity: how alike the answers of target and source are, by budget.

    Example: `satchel evaluate rhf --level 25 --level 100 --page fidelity.html`
    """
    from satchel.actions.evaluating.continuity.evaluating import LEVELS, evaluate_fidelity, trial
    from satchel.actions.evaluating.pages.page import fidelity_page
    from satchel.actions.evaluating.tables import fidelity_rows

    first, second = agents(source, target, timeout)
    asked = trial(
        first,
        second,
        sets=sets(probes),
        model=model,
        levels=levels or LEVELS,
        seed=seed,
        vectors=not no_vectors,
    )
    with progress("asking", True, records=True) as tell:
        found = evaluate_fidelity(state.settings, asked, tell)
    keep_page(page, fidelity_page, found, force=force)
    if as_json:
        print_json(found)
        return
    show(fidelity_rows(found))
    message(f"all of the memory takes {found.full:,} tokens by {found.tokenizer}")
    message(f"answers are compared by {found.embedder}")
    if found.left_out:
        message(f"{found.left_out} left out: the source does not answer them")
    for note in found.notes:
        message("note: ", note)
