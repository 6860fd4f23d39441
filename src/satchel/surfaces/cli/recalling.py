"""``satchel recall``."""

from typing import Annotated

import typer

from satchel.surfaces.cli._options import InBank, Json
from satchel.surfaces.cli._recall import Asked, recall_and_show


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
    no_code: Annotated[
        bool, typer.Option("--no-code", help="Without the code that memories speak of.")
    ] = False,
    no_files: Annotated[
        bool, typer.Option("--no-files", help="Without passages of memory files.")
    ] = False,
    any_time: Annotated[
        bool, typer.Option("--any-time", help="Ignore a time named in the words.")
    ] = False,
    rerank: Annotated[
        bool | None,
        typer.Option(
            "--rerank/--no-rerank", help="With or without the reranker that is configured."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say how it was searched, and what scores are made of."),
    ] = False,
    session: Annotated[
        str | None,
        typer.Option(help="As this session sees it: a fork may not have later memories."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Search memories. Results are ranked, best first, and each is verified.

    Words find, and meaning where the bank has vectors. Memories of a time that the words name
    ("last May") rank higher. A memory that does not fit the budget is skipped whole. Where the
    bank knows code, the symbols and files that a memory names are shown with it, as they are now.
    Passages of the bank's memory files that have the words follow, with path, version and lines.

    Example: `satchel recall "what does Ada eat" --tag diet --budget 500`
    """
    recall_and_show(
        Asked(
            text=text,
            bank=bank,
            limit=limit,
            budget=budget,
            component=component or [],
            tag=tag or [],
            any_tag=any_tag or [],
            since=since,
            until=until,
            user=user,
            agent=agent,
            run=run,
            app=app,
            provider=provider,
            source=source,
            trust=trust,
            as_of=as_of,
            with_expired=with_expired,
            no_code=no_code,
            no_files=no_files,
            any_time=any_time,
            rerank=rerank,
            explain=explain,
            session=session,
            json=as_json,
        )
    )
