"""What ``satchel recall`` does, without the framework that reads its options elsewhere."""

from dataclasses import dataclass, field

from satchel.actions import recalling as actions
from satchel.actions.filing.behind import is_behind
from satchel.actions.inferring.keeping_up import opened_to_ask
from satchel.actions.opened import OpenBank
from satchel.recall.query import COMPONENTS, Query
from satchel.surfaces.cli._console import count, line, message, print_json, state, wrapped

_SHOWN_DIGITS = len("blake3:") + 8
_SHOWN_TEXT = 2000


@dataclass(slots=True, kw_only=True)
class Asked:
    """The options of the command, as a person gives them."""

    text: str = ""
    bank: str | None = None
    limit: int | None = None
    budget: int | None = None
    component: list[str] = field(default_factory=list)
    tag: list[str] = field(default_factory=list)
    any_tag: list[str] = field(default_factory=list)
    since: str | None = None
    until: str | None = None
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    provider: str | None = None
    source: str | None = None
    trust: str | None = None
    as_of: str | None = None
    with_expired: bool = False
    no_code: bool = False
    no_files: bool = False
    any_time: bool = False
    rerank: bool | None = None
    explain: bool = False
    session: str | None = None
    json: bool = False

    def query(self) -> Query:
        """Return what is asked, as the action takes it.

        Raises:
            UsageError: Naming the option that cannot be meant.
        """
        return Query(
            text=self.text,
            limit=self.limit,
            budget=self.budget,
            components=frozenset(self.component) or COMPONENTS,
            tags=frozenset(self.tag),
            any_tags=frozenset(self.any_tag),
            since=actions.moment_from(self.since, "since"),
            until=actions.moment_from(self.until, "until"),
            user=self.user,
            agent=self.agent,
            run=self.run,
            app=self.app,
            provider=self.provider,
            source=self.source,
            trust=actions.trust_from(self.trust, "trust"),
            as_of=actions.as_of_from(self.as_of, "as_of"),
            with_expired=self.with_expired,
            files=not self.no_files,
            times=not self.any_time,
            rerank=self.rerank,
        )


def recall_and_show(asked: Asked) -> None:
    """Answer, and print the answer."""
    query = asked.query()
    with opened_to_ask(state.settings, asked.bank, asked.text, also=is_behind) as opened:
        answer = _answer(opened, asked, query)
    if asked.json:
        print_json(answer)
    else:
        _show(answer, explain=asked.explain)


def _answer(opened: OpenBank, asked: Asked, query: Query) -> actions.Answer:
    code, explain = not asked.no_code, asked.explain
    if asked.session is None:
        return actions.recall_memories(opened, query, code=code, explain=explain)
    from satchel.actions.sessions.remembering import recall_for

    return recall_for(opened, query, asked.session, code=code, explain=explain)


def _show(answer: actions.Answer, *, explain: bool) -> None:
    _tell_time(answer.plan)
    if explain:
        _tell_plan(answer.plan)
    for memory in answer.memories:
        day = (memory.moment or "")[:10]
        score = "" if memory.score is None else f"{memory.score:.2f}"
        other = "another time" if memory.other_time else ""
        about = [memory.type, day, memory.trust, memory.id[:_SHOWN_DIGITS], score, other]
        line("  ".join(part for part in about if part), style="dim")
        _show_text(memory.text)
        _tell_versions(memory)
        _tell_code(memory)
        if memory.why is not None:
            _tell_why(memory.why, memory.terms)
    for passage in answer.files:
        _show_passage(passage)
    for note in answer.notes:
        message(note)
    if answer.plan.reranker_note:
        message(answer.plan.reranker_note)
    if not (answer.memories or answer.files):
        message("nothing found")
    _tell_left_out(answer)


def _tell_left_out(answer: actions.Answer) -> None:
    if answer.over_budget:
        left_out = count(answer.over_budget, "memory").replace("memorys", "memories")
        message(f"{left_out} left out: over the budget")
    if answer.files_over_budget:
        message(f"{count(answer.files_over_budget, 'file')} left out: over the budget")
    if answer.code_over_budget:
        message(f"code left out: {answer.code_over_budget:,} over the budget")
    if not answer.complete:
        message("not everything was looked at; say more words, or a narrower filter")


def _show_text(text: str) -> None:
    for row in _cut(text).splitlines():
        wrapped("  ", row)


def _show_passage(passage: actions.FilePassage) -> None:
    lines = f"{passage.first_line}-{passage.last_line}"
    version = "" if passage.version is None else f"version {passage.version}"
    by = "" if passage.actor is None else f"by {passage.actor}"
    about = [f"file {passage.path}:{lines}", version, (passage.moment or "")[:10], by]
    wrapped("", "  ".join(part for part in about if part), style="dim")
    _show_text(passage.text)
    if passage.superseded:
        line("  changed since", style="yellow")


def _tell_time(plan: actions.SearchPlan) -> None:
    if plan.time and plan.time_dropped:
        message(f"nothing from {plan.time!r}: that was ignored")
    elif plan.time:
        since, until = (plan.since or "")[:10], (plan.until or "")[:10]
        span = f"{since or 'the beginning'} to {until or 'now'}"
        message(f"ranked higher: {span} ({plan.time!r}); to ignore the time: --any-time")


def _tell_plan(plan: actions.SearchPlan) -> None:
    message(f"searched for: {', '.join(plan.terms) or 'the newest'}")
    message(f"vectors: {plan.vectors or plan.note or 'none; satchel embed makes them'}")
    if plan.reranker is not None:
        message(f"reranked by: {plan.reranker}")
    message(
        f"nominated: {plan.by_words:,} by words, {plan.by_meaning:,} by meaning,"
        f" {plan.by_edges:,} by edges; looked at: {plan.looked_at:,}"
    )


def _tell_code(memory: actions.Memory) -> None:
    for context in memory.code:
        for row in context.lines():
            wrapped("    | ", row, style="dim")


def _tell_versions(memory: actions.Memory) -> None:
    if memory.superseded_by is not None:
        line(f"  superseded since by {memory.superseded_by[:_SHOWN_DIGITS]}", style="yellow")
    for other in memory.conflicts_with:
        line(f"  says otherwise: {other[:_SHOWN_DIGITS]}", style="yellow")
    for other in memory.replaces[-1:]:
        line(f"  took the place of {other[:_SHOWN_DIGITS]}", style="dim")


_PARTS = ("words", "meaning", "thread", "speaker", "dated", "time", "phrase", "reranked")


def _tell_why(why: actions.Why, terms: list[str]) -> None:
    parts = {name: getattr(why, name) for name in _PARTS}
    told = [f"{name} {part:.2f}" for name, part in parts.items() if part]
    if why.linked_to is not None:
        told.append(f"linked with {why.linked_to[:_SHOWN_DIGITS]} {why.linked:.2f}")
    words = f" ({', '.join(terms)})" if terms else ""
    wrapped("  ", f"why: {', '.join(told)}{words}", style="dim")


def _cut(text: str) -> str:
    """Return what of a text is shown to a person; all of it is in the JSON."""
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + " ..."
