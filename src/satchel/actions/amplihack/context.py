"""What an agent is given at the start of a session: its memories of all sessions, best first.

Words of the query count most, then how important a memory is, then how new. A memory that does not
fit what is left of the budget is passed over, and the next one tried.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from satchel.actions.amplihack.learning import is_same
from satchel.actions.amplihack.sessions import MOST_IMPORTANT, MemoryRecord, record_of
from satchel.actions.opened import OpenBank
from satchel.actions.waking.options import RehydrateOptions
from satchel.actions.waking.wanted import asked_of
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.labels import said_by_entry
from satchel.memory.times import now
from satchel.recall.query import Hit, Query
from satchel.recall.recalling import recall
from satchel.recall.tokens import PER_MEMORY, estimated_tokens
from satchel.rehydrate.enforcing.judging import judged

BUDGET = 2000
"""Tokens that memories may take when nothing is said."""

_LOOKED_AT = 60
_LONGEST_QUERY = 2000
_WORDS, _IMPORTANCE, _NEWNESS = 3.0, 1.0, 1.0
_HALF_LIFE_DAYS = 30.0
_USUAL = 5


class PromptContext(msgspec.Struct, frozen=True, kw_only=True):
    """Memories for the start of a session."""

    memories: list[MemoryRecord]
    """Best first."""

    tokens: int
    """About how many they take together; an overestimate."""

    over_budget: int
    """Memories that were passed over because they did not fit."""


def prompt_context(
    bank: OpenBank, *, query: str = "", budget: int = BUDGET, withholds: bool = False
) -> PromptContext:
    """Return the memories of an agent for a prompt, ranked over all of its sessions.

    Args:
        bank: The agent's.
        query: What the session is about; without it, importance and age decide.
        budget: How many tokens they may take together.
        withholds: Whether what reads like a prompt is withheld, as when it is recalled by a model.

    Raises:
        UsageError: If the budget is none.
    """
    wanted = asked_of(RehydrateOptions(), bank.settings.options.rehydrate)
    taken, left, over = list[MemoryRecord](), budget, 0
    with bank.ledger.reading() as view:
        for hit in _ranked(view, query[:_LONGEST_QUERY], budget):
            said = said_by_entry(hit.entry)
            if withholds and judged(view, hit.logged, said, hit.trust, wanted.enforce):
                continue
            record = record_of(hit.logged, bank.name or "")
            tokens = estimated_tokens(record.content) + PER_MEMORY
            if tokens > left:
                over += 1
                continue
            left -= tokens
            taken.append(record)
    return PromptContext(memories=taken, tokens=budget - left, over_budget=over)


def _ranked(view: View, query: str, budget: int) -> Iterator[Hit]:
    """Yield the memories that may be worth telling, best first, none twice in other words."""
    newest = recall(view, Query(limit=_LOOKED_AT)).hits
    by_words = recall(view, Query(text=query, limit=_LOOKED_AT)).hits if query.strip() else ()
    Query(budget=budget)  # refuses a budget that is none
    best = max((hit.score or 0.0 for hit in by_words), default=0.0) or 1.0
    scores = {hit.logged.record.id: (hit.score or 0.0) / best for hit in by_words}
    every = {hit.logged.record.id: hit for hit in (*by_words, *newest)}
    moment, told = now(), list[Entry]()

    def worth(hit: Hit) -> tuple[float, int]:
        salience = hit.entry.salience
        important = _USUAL / MOST_IMPORTANT if salience is None else salience
        words = scores.get(hit.logged.record.id, 0.0)
        newness = 0.5 ** (_days(hit.logged.row.moment, moment) / _HALF_LIFE_DAYS)
        total = _WORDS * words + _IMPORTANCE * important + _NEWNESS * newness
        return total, hit.logged.seq

    for hit in sorted(every.values(), key=worth, reverse=True):
        if not any(is_same(hit.entry, other) for other in told):
            told.append(hit.entry)
            yield hit


def _days(moment: str | None, present: str) -> float:
    if moment is None:
        return _HALF_LIFE_DAYS
    passed = datetime.fromisoformat(present) - datetime.fromisoformat(moment)
    return max(passed.total_seconds(), 0.0) / 86_400
