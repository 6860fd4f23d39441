"""The operation ``recall``, and its options."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, cast

from satchel.bank.memory_input import parse_moment
from satchel.bank.open_bank import OpenBank
from satchel.config.options import FEW_FOR_MODELS, ScopeOptions, Time
from satchel.ports.operations import Option, operation, texts
from satchel.recall.query import COMPONENTS, MOST, Query
from satchel.recall.search import (
    Answer,
    as_of_from,
    recall_for_session,
    recall_memories,
    trust_from,
)

Trust = Literal["user", "agent", "tool", "external", "imported"]


def _moment(value: Any) -> str:
    return parse_moment(value, "since")


def _until(value: Any) -> str:
    return parse_moment(value, "until")


def _as_of(value: Any) -> int | str | None:
    if isinstance(value, int):
        return value
    return as_of_from(value, "as_of") if isinstance(value, str) else parse_moment(value, "as_of")


@dataclass(frozen=True, slots=True)
class RecallOptions(ScopeOptions):
    """The query, and the memories to search."""

    text: Annotated[
        str,
        Option(
            "Words to search for. Default: the newest memories.",
            argument=True,
            max_length=100_000,
            mcp="query",
            examples=["what does Ada drink?"],
        ),
    ] = ""
    _: KW_ONLY
    limit: Annotated[
        int | None,
        Option(
            "Maximum number of memories. Default: 10, or 100 with a budget.",
            minimum=1,
            maximum=MOST,
            mcp=True,
        ),
    ] = None
    budget: Annotated[
        int | None,
        Option("Maximum number of tokens, estimated generously.", minimum=1, mcp="token_budget"),
    ] = None
    tags: Annotated[
        str | Sequence[str] | None,
        Option("Only with this tag; repeated: with all of them.", flag="--tag"),
    ] = ()
    any_tags: Annotated[
        str | Sequence[str] | None,
        Option("Only with this tag; repeated: with one of them.", flag="--any-tag"),
    ] = ()
    since: Annotated[
        Time | None, Option("From this date or time: 2026-03-01.", metavar="TIME", parse=_moment)
    ] = None
    until: Annotated[
        Time | None, Option("Before this date or time.", metavar="TIME", parse=_until)
    ] = None
    provider: Annotated[str | None, Option("Only from this product, such as mem0.")] = None
    source: Annotated[str | None, Option("Only from this account or container of the product.")] = (
        None
    )
    trust: Annotated[Trust | None, Option("Only memories with at least this trust class.")] = None
    as_of: Annotated[
        int | Time | None,
        Option(
            "Search the bank as of this date or time, or this many log records.",
            metavar="TIME|N",
            parse=_as_of,
        ),
    ] = None
    include_expired: Annotated[
        bool, Option("Include memories that have expired or are not valid now.")
    ] = False
    code: Annotated[
        bool, Option("Include the code that memories mention.", flag="--code/--no-code")
    ] = True
    files: Annotated[
        bool, Option("Include passages of memory files.", flag="--files/--no-files")
    ] = True
    any_time: Annotated[bool, Option("Ignore a time named in the query.")] = False
    rerank: Annotated[
        bool | None,
        Option("Use the configured reranker. Default: as configured.", flag="--rerank/--no-rerank"),
    ] = None
    explain: Annotated[
        bool, Option("Report how the search was done, and how scores are computed.")
    ] = False
    session: Annotated[
        str | None,
        Option("Search as this conversation: a fork may not see later memories."),
    ] = None


@operation(
    RecallOptions,
    name="recall",
    example='satchel recall "what does Ada eat" --tag diet --budget 500',
    for_models=FEW_FOR_MODELS,
)
def recall_in(bank: OpenBank, options: RecallOptions) -> Answer:
    """Search memories. Results are ranked, best first, and each is verified.

    Recall compares words and, if the bank has vectors, meaning. Memories from a time that the
    query names ("last May") rank higher. A memory that does not fit the budget is skipped. If
    source code is indexed, the symbols and files that a memory mentions are shown with it.
    Matching passages of memory files follow, with path, version and lines.

    Raises:
        UsageError: If a time is not valid, or a number is out of range.
        UnknownSessionError: If there is no such session.
        VerificationError: If the bank does not verify.
    """
    query, code, explain = query_of(options), options.code, options.explain
    if options.session is None:
        return recall_memories(bank, query, code=code, explain=explain)
    return recall_for_session(bank, query, options.session, code=code, explain=explain)


def query_of(options: RecallOptions) -> Query:
    """Return the query of options."""
    return Query(
        text=options.text,
        limit=options.limit,
        budget=options.budget,
        components=frozenset(texts(options.type)) or COMPONENTS,
        tags=frozenset(texts(options.tags)),
        any_tags=frozenset(texts(options.any_tags)),
        since=cast("str | None", options.since),
        until=cast("str | None", options.until),
        user=options.user,
        agent=options.agent,
        run=options.run,
        app=options.app,
        provider=options.provider,
        source=options.source,
        trust=trust_from(options.trust, "trust"),
        as_of=cast("int | str | None", options.as_of),
        with_expired=options.include_expired,
        files=options.files,
        times=not options.any_time,
        rerank=options.rerank,
    )
