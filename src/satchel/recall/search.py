"""Recall in an open bank: defaults from its settings, the answer, code, and sessions."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, overload

import msgspec
from msgspec import structs

from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import Memory, ScoreParts, memory_of
from satchel.bank.open_bank import OpenBank
from satchel.config.options import FEW_FOR_MODELS, ScopeOptions, Time
from satchel.config.tables import BankSettings
from satchel.errors import StoreError, UsageError
from satchel.files.catch_up import must_log_changes
from satchel.ledger.view import View
from satchel.model.text import estimated_tokens, memory_text
from satchel.model.values import TrustClass, parse_moment, read_time
from satchel.ports.code_context import HEADS, CodeAttachment, CodeContext
from satchel.ports.operations import Option, operation, texts
from satchel.recall.engine import recall
from satchel.recall.models import query_embedders, reranker_of
from satchel.recall.query import (
    COMPONENTS,
    MOST,
    FileHit,
    Query,
    RecallResult,
    SearchHit,
    SearchPlan,
)
from satchel.recall.vector_updates import keep_up

if TYPE_CHECKING:
    from satchel.code_graph.queries import CodeGraph


class AnswerProof(msgspec.Struct, frozen=True, kw_only=True):
    """The signed head against which an answer was verified."""

    bank: str
    size: int
    """Records in the log."""

    root: str
    epoch: int


class FilePassage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The passage of a memory file with most of the query's words."""

    path: str
    """Path of the file among the bank's memory files."""

    text: str
    first_line: int
    """Line at which the passage begins, from 1."""

    last_line: int
    version: int | None = None
    """Version number of the file; none if the record has none."""

    actor: str | None = None
    """Its author, as the author claims."""

    moment: str | None = None
    """When it was written."""

    trust: str
    tokens: int
    score: float | None = None
    """How well the file matches the query; the best has 1."""

    terms: list[str] = []
    """The terms of the query that the passage contains."""

    id: str
    """ID of the record of this version, which has the whole text: ``satchel show``."""

    seq: int
    """Its log position."""

    superseded: bool = False
    """Whether the file has a newer version, if an earlier state of the bank was searched."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that match a query, best first."""

    memories: list[Memory]
    proved_by: AnswerProof
    size: int
    """Log records that were searched: all, or those up to the moment in the query."""

    at: str
    """The moment at which memories had to be valid."""

    tokens: int
    """Estimated tokens of the memories and their code; an overestimate."""

    over_budget: int
    """Matching memories that did not fit the budget."""

    files: list[FilePassage] = []
    """Passages of the bank's memory files, best first, if requested."""

    files_over_budget: int = 0
    """Matching passages that did not fit the budget."""

    code_over_budget: int = 0
    """Symbols and files that did not fit what the memories left of the budget."""

    complete: bool
    """Whether every nominated memory was considered, until there were enough."""

    notes: list[str]
    """Losses of the bank that were accepted, and other notes."""

    plan: SearchPlan

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    @overload
    def __getitem__(self, index: int) -> Memory: ...

    @overload
    def __getitem__(self, index: slice) -> list[Memory]: ...

    def __getitem__(self, index: int | slice) -> Memory | list[Memory]:
        return self.memories[index]

    def __repr__(self) -> str:
        files = f", files={len(self.files)}" if self.files else ""
        return f"Answer(memories={self.memories!r}{files})"


def recall_memories(
    bank: OpenBank, query: Query, *, code: bool = True, explain: bool = False
) -> Answer:
    """Search the memories of a bank; see ``satchel.recall.engine.recall``.

    The bank's settings supply the limit, the budget and the trust that the query does not set.

    Args:
        bank: The bank.
        query: The query.
        code: Include the code that memories mention, if the bank has a code graph.
        explain: Include the parts of each score.
    """
    permitted = bank.asked("recall")
    if query.text.strip():
        keep_up(bank)
        if query.files and must_log_changes(bank):
            from satchel.files.bank_files import log_pending_changes  # most banks have no files

            log_pending_changes(bank)
    with permitted.ledger.reading() as view:
        query = _with_defaults(query, bank.settled(view))
        result = recall(
            view,
            query,
            embedders=query_embedders(bank.settings),
            reranker=reranker_of(bank.settings, rerank=query.rerank),
        )
        notes, is_whole = list(view.notes), view.is_whole
        attached = _attached_code(view, result, query.budget, notes) if code else CodeAttachment()
        as_of = result.size if result.size < result.head.size else None
        memories = [
            structs.replace(
                memory_of(view, hit.logged, moment=result.at, as_of=as_of),
                code=attached.code.get(hit.logged.record.id, []),
                **_hit_fields(hit, explain=explain and is_whole, scored=is_whole),
            )
            for hit in result.hits
        ]
    head = result.head
    bank.tell(
        "on_recall",
        [hit.logged.record.id for hit in result.hits],
        {"memories": len(result.hits)},
        lambda: [hit.logged.record.value for hit in result.hits],
    )
    return Answer(
        memories=memories,
        proved_by=AnswerProof(bank=head.bank, size=head.size, root=head.root, epoch=head.epoch),
        size=result.size,
        at=result.at,
        files=[_passage(hit, scored=is_whole) for hit in result.files],
        files_over_budget=result.files_over_budget,
        tokens=result.tokens + attached.tokens,
        over_budget=result.over_budget,
        code_over_budget=attached.over_budget,
        complete=result.complete,
        notes=notes,
        plan=result.plan,
    )


def recall_for_session(
    bank: OpenBank, query: Query, session: str, *, code: bool = True, explain: bool = False
) -> Answer:
    """Search a bank as a session sees it.

    For a fork that hides later memories (``--memories as-of``), and for its forks, the bank is
    searched as of the fork's point; memories derived from the fork itself since then are included.

    Args:
        bank: The bank.
        query: The query.
        session: ID, ID prefix or name of the session.
        code: As for ``recall_memories``.
        explain: As for ``recall_memories``.

    Raises:
        UnknownSessionError: If there is no such session.
        UsageError: If the query names another moment.
    """
    # Imported only where a session is named.
    from satchel.sessions.elements import key_of, members
    from satchel.sessions.lookup import find, lineage, log_size_at

    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        ancestry = lineage(view, find(view, session))
        hiding = [fork for fork, _ in ancestry if members(fork.model).get("memories") == "as-of"]
        size = min((log_size_at(fork) for fork in hiding), default=None)
        own = [key_of(fork) for fork, _ in ancestry[: len(ancestry) - 1]] if hiding else []
    if size is None:
        return recall_memories(bank, query, code=code, explain=explain)
    if query.as_of is not None:
        raise UsageError("the conversation already has this point", field="as_of")
    answer = recall_memories(bank, replace(query, as_of=size), code=code, explain=explain)
    if query.run is not None:
        return answer
    memories = list(answer.memories)
    ids = {memory.id for memory in memories}
    for name in own:
        later = recall_memories(bank, replace(query, run=name), code=code, explain=explain)
        memories += [memory for memory in later.memories if memory.id not in ids]
        ids.update(memory.id for memory in later.memories)
    return _best_fitting(answer, memories, query)


def _best_fitting(answer: Answer, memories: list[Memory], query: Query) -> Answer:
    """Return an answer with the best of other memories, within the limit and the budget."""
    best = sorted(memories, key=lambda memory: -(memory.score or 0))
    fitting, tokens = list[Memory](), 0
    for memory in best[: query.most]:
        if query.budget is None or tokens + memory.tokens <= query.budget:
            fitting.append(memory)
            tokens += memory.tokens
    left = len(best[: query.most]) - len(fitting)
    code = answer.tokens - sum(memory.tokens for memory in answer.memories)
    return structs.replace(
        answer, memories=fitting, tokens=tokens + code, over_budget=answer.over_budget + left
    )


def _attached_code(
    view: View, result: RecallResult, budget: int | None, notes: list[str]
) -> CodeAttachment:
    """Return the code that memories mention, each symbol once, with the best memory.

    Args:
        view: The bank.
        result: What recall returned.
        budget: Maximum tokens of memories and code together; None for no limit.
        notes: A damaged code graph is noted here: it can be rebuilt, so recall does not fail.
    """
    if not result.hits or not view.side(HEADS):
        return CodeAttachment()
    # Imported only where a bank has code.
    from satchel.code_graph.queries import CodeGraph

    left = None if budget is None else budget - result.tokens
    try:
        return _fitting_code(CodeGraph(view.side), result, left)
    except StoreError as error:
        notes.append(f"{error.message}. {error.hint}")
        return CodeAttachment()


def _fitting_code(graph: "CodeGraph", result: RecallResult, left: int | None) -> CodeAttachment:
    from satchel.code_graph.mentions import contexts

    attached, seen, total, over = dict[str, list[CodeContext]](), set[str](), 0, 0
    for hit in result.hits:
        for context in contexts(graph, memory_text(hit.entry)):
            if context.id in seen:
                continue
            tokens = estimated_tokens("\n".join(context.lines()))
            if left is not None and tokens > left - total:
                over += 1
                continue
            seen.add(context.id)
            total += tokens
            attached.setdefault(hit.logged.record.id, []).append(context)
    return CodeAttachment(attached, total, over)


def _with_defaults(query: Query, settings: BankSettings) -> Query:
    """Return a query with the bank's limit, budget and trust where it has none."""
    limit, budget = query.limit, query.budget
    if limit is None and budget is None:
        limit, budget = settings.recall_limit, settings.recall_budget
    trust = query.trust or trust_from(settings.recall_trust, "recall_trust")
    if (limit, budget, trust) == (query.limit, query.budget, query.trust):
        return query
    return replace(query, limit=limit, budget=budget, trust=trust)


def _hit_fields(hit: SearchHit, *, explain: bool, scored: bool) -> dict[str, Any]:
    # Scores depend on all memories of a bank, so the holder of a token for a part gets none.
    return {
        "trust": hit.trust.value,
        "tokens": hit.tokens,
        "score": None if hit.score is None or not scored else round(hit.score, 6),
        "terms": list(hit.terms),
        "other_time": hit.other_time,
        "superseded_by": hit.superseded_by,
        "earlier": list(hit.replaces),
        "conflicts_with": list(hit.conflicts_with),
        "why": _score_parts(hit) if explain else None,
    }


def _passage(hit: FileHit, *, scored: bool) -> FilePassage:
    file, row = hit.file, hit.logged.row
    version = file.metadata.get("version")
    return FilePassage(
        path=file.path,
        text=hit.passage.text,
        first_line=hit.passage.first,
        last_line=hit.passage.last,
        version=version if isinstance(version, int) else None,
        actor=file.actor,
        moment=row.moment,
        trust=hit.trust.value,
        tokens=hit.tokens,
        score=round(hit.score, 6) if scored else None,
        terms=list(hit.terms),
        id=hit.logged.record.id,
        seq=row.seq,
        superseded=hit.superseded,
    )


def _score_parts(hit: SearchHit) -> ScoreParts | None:
    """Return the signals of a score without their weights, as JSON has them."""
    if hit.signals is None:
        return None
    return ScoreParts(**{name: getattr(hit.signals, name) for name in ScoreParts.__struct_fields__})


def moment_from(text: str | None, option: str) -> str | None:
    """Return a date or time that a person wrote, in canonical form.

    Raises:
        UsageError: If it is not a valid time.
    """
    time = None if text is None else read_time(text)
    if text is not None and time is None:
        raise UsageError(
            f"not a date or time: {text!r}",
            field=option,
            hint="Write 2026-03-01, or 2026-03-01T09:30:00+01:00; without a zone it is UTC.",
        )
    return time


def as_of_from(text: str | None, option: str) -> int | str | None:
    """Return a state of a bank that a person wrote: a number of records, or a time.

    Raises:
        UsageError: If it is neither.
    """
    if text is not None and text.isascii() and text.isdigit() and len(text) < len("20260301"):
        return int(text)
    return moment_from(text, option)


def trust_from(text: str | None, option: str) -> TrustClass | None:
    """Return a trust class by name.

    Raises:
        UsageError: If there is no such class.
    """
    if text is None or text in set(TrustClass):
        return None if text is None else TrustClass(text)
    hint = f"Choose from, high to low: {', '.join(TrustClass)}."
    raise UsageError(f"unknown trust class {text!r}", field=option, hint=hint)


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
        Option(
            "Maximum number of tokens. The estimate errs on the high side.",
            minimum=1,
            mcp="token_budget",
        ),
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
