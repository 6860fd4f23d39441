"""``satchel recall``."""

from typing import Annotated

import typer

from satchel.actions import recalling as actions
from satchel.actions.opened import opened_bank
from satchel.recall.query import COMPONENTS, Query
from satchel.surfaces.cli._console import count, line, message, print_json, state
from satchel.surfaces.cli._options import InBank, Json

_SHOWN_DIGITS = len("blake3:") + 8
_SHOWN_TEXT = 2000


def add_to(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("recall")(recall_command)


def recall_command(
    text: Annotated[str, typer.Argument(help="Words; without any, the newest memories.")] = "",
    bank: InBank = None,
    limit: Annotated[
        int | None, typer.Option(help="Memories at most; 10, or 100 with a budget.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Tokens that they may take together, estimated generously.")
    ] = None,
    component: Annotated[
        list[str] | None, typer.Option(help="Only of this component; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only with this tag; repeated: with all of them.")
    ] = None,
    any_tag: Annotated[
        list[str] | None, typer.Option(help="Only with this tag; repeated: with one of them.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="From this date or time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this date or time.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose memory it is.")] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent's.")] = None,
    run: Annotated[str | None, typer.Option(help="Of which run.")] = None,
    app: Annotated[str | None, typer.Option(help="Of which application.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="Which product it comes from, such as mem0.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Which account or container inside the product.")
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(help="Trusted at least as: user, agent, tool, external, imported."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(help="How the bank was: at a date or time, or with so many records."),
    ] = None,
    with_expired: Annotated[
        bool, typer.Option("--with-expired", help="Also what is not valid now.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give back the memories that go with some words, best first, each of them proved.

    Rare words find, common ones only help to rank. A memory that does not fit the budget is left
    out whole.

    Example: `satchel recall "what does Ada eat" --tag diet --budget 500`
    """
    query = Query(
        text=text,
        limit=limit,
        budget=budget,
        components=frozenset(component) if component else COMPONENTS,
        tags=frozenset(tag or ()),
        any_tags=frozenset(any_tag or ()),
        since=actions.moment_from(since, "--since"),
        until=actions.moment_from(until, "--until"),
        user=user,
        agent=agent,
        run=run,
        app=app,
        provider=provider,
        source=source,
        trust=actions.trust_from(trust, "--trust"),
        as_of=actions.as_of_from(as_of, "--as-of"),
        with_expired=with_expired,
    )
    with opened_bank(state.settings, bank) as opened:
        answer = actions.recall_memories(opened, query)
    if as_json:
        print_json(answer)
    else:
        _show(answer)


def _show(answer: actions.Answer) -> None:
    for memory in answer.memories:
        day = (memory.moment or "")[:10]
        score = "" if memory.score is None else f"{memory.score:.2f}"
        about = [memory.type, day, memory.trust, memory.id[:_SHOWN_DIGITS], score]
        line("  ".join(part for part in about if part), style="dim")
        for row in _cut(memory.text).splitlines():
            line("  ", row)
    for note in answer.notes:
        message(note)
    if not answer.memories:
        message("nothing found")
    if answer.over_budget:
        left_out = count(answer.over_budget, "memory").replace("memorys", "memories")
        message(f"{left_out} left out: over the budget")
    if not answer.complete:
        message("not everything was looked at; say more words, or a narrower filter")


def _cut(text: str) -> str:
    """Return what of a text is shown to a person; all of it is in the JSON."""
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + " ..."
