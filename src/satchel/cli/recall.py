"""``satchel recall``."""

from contextlib import AbstractContextManager

from satchel.bank.memory import Memory, ScoreParts
from satchel.bank.open_bank import OpenBank
from satchel.cli._console import count, line, message, state, wrapped
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.files.catch_up import is_behind
from satchel.model.values import ID_PREFIX
from satchel.recall import search as actions
from satchel.recall.query import SearchPlan
from satchel.recall.search import RecallOptions, recall_in
from satchel.recall.vector_updates import open_bank_for_query

_SHOWN_DIGITS = len(ID_PREFIX) + 8
_SHOWN_TEXT = 2000


def add_to(group: Group) -> None:
    """Add the command of this module."""
    command(group, recall_in, show_answer, bank=_opened)


def _opened(bank: str | None, options: RecallOptions) -> AbstractContextManager[OpenBank]:
    """Open the bank that is searched."""
    return open_bank_for_query(state.settings, bank, options.text, also=is_behind)


def show_answer(answer: actions.Answer) -> None:
    """Print the results, best first."""
    _show_time(answer.plan)
    if any(memory.why is not None for memory in answer.memories):
        _show_search_plan(answer.plan)
    for memory in answer.memories:
        day = memory.text_of_date[:10]
        score = "" if memory.score is None else f"{memory.score:.2f}"
        other = "another time" if memory.other_time else ""
        about = [memory.type, day, memory.trust, memory.id[:_SHOWN_DIGITS], score, other]
        line("  ".join(part for part in about if part), style="dim")
        _show_text(memory.text)
        _show_versions(memory)
        _show_code(memory)
        if memory.why is not None:
            _show_why(memory.why, memory.terms)
    for passage in answer.files:
        _show_passage(passage)
    for note in answer.notes:
        message(note)
    if answer.plan.reranker_note:
        message(answer.plan.reranker_note)
    if not (answer.memories or answer.files):
        message("nothing found")
        _show_search_plan(answer.plan)
    _show_omitted(answer)


def _show_omitted(answer: actions.Answer) -> None:
    if answer.over_budget:
        left_out = count(answer.over_budget, "memory").replace("memorys", "memories")
        message(f"{left_out} omitted: over the token budget")
    if answer.files_over_budget:
        message(f"{count(answer.files_over_budget, 'file')} omitted: over the token budget")
    if answer.code_over_budget:
        message(f"code omitted: {answer.code_over_budget:,} over the token budget")
    if not answer.complete:
        message("not every memory was searched; use more words or a narrower filter")


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


def _show_time(plan: SearchPlan) -> None:
    if plan.time and plan.time_dropped:
        message(f"no memories from {plan.time!r}: the time was ignored")
    elif plan.time:
        since, until = (plan.since or "")[:10], (plan.until or "")[:10]
        span = f"{since or 'the beginning'} to {until or 'now'}"
        message(f"ranked higher: {span} ({plan.time!r}); to ignore the time: --any-time")


def _show_search_plan(plan: SearchPlan) -> None:
    message(f"searched for: {', '.join(plan.terms) or 'the newest'}")
    if plan.reranker is not None:
        message(f"reranked by: {plan.reranker}")
    if plan.terms:
        message(f"vectors: {plan.vectors or plan.note or 'none; to compute them: satchel embed'}")
        message(
            f"candidates: {plan.by_words:,} by words, {plan.by_meaning:,} by meaning,"
            f" {plan.by_edges:,} by links; read: {plan.looked_at:,}"
        )
    else:
        message(f"read: {plan.looked_at:,}")
    if plan.excluded:
        message(f"excluded: {plan.text_of_excluded}")


def _show_code(memory: Memory) -> None:
    for context in memory.code:
        for row in context.lines():
            wrapped("    | ", row, style="dim")


def _show_versions(memory: Memory) -> None:
    if memory.superseded_by is not None:
        line(f"  superseded since by {memory.superseded_by[:_SHOWN_DIGITS]}", style="yellow")
    for other in memory.conflicts_with:
        line(f"  contradicted by {other[:_SHOWN_DIGITS]}", style="yellow")
    for other in memory.earlier[-1:]:
        line(f"  replaces {other[:_SHOWN_DIGITS]}", style="dim")


_PARTS = ("words", "meaning", "thread", "speaker", "dated", "time", "phrase", "reranked")


def _show_why(why: ScoreParts, terms: list[str]) -> None:
    parts = {name: getattr(why, name) for name in _PARTS}
    shares = [f"{name} {part:.2f}" for name, part in parts.items() if part]
    if why.linked_to is not None:
        shares.append(f"linked with {why.linked_to[:_SHOWN_DIGITS]} {why.linked:.2f}")
    words = f" ({', '.join(terms)})" if terms else ""
    wrapped("  ", f"why: {', '.join(shares)}{words}", style="dim")


def _cut(text: str) -> str:
    """Return a text, truncated; the JSON has all of it."""
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + " ..."
