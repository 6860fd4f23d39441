"""Recall: what a bank remembers that goes with some words."""

from dataclasses import replace
from typing import Any

import msgspec

from satchel.actions.configured.sections import BankSettings
from satchel.actions.opened import OpenBank
from satchel.code_graph.spoken import HEADS, Along, CodeContext
from satchel.errors import UsageError
from satchel.ledger.view import View
from satchel.memory.parts import TrustClass
from satchel.memory.times import read_time
from satchel.recall.query import Hit, Query, Recalled
from satchel.recall.recalling import recall
from satchel.recall.showing import text_of


class ProvedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The signed head that an answer was proved by."""

    bank: str
    size: int
    """Records in the log."""

    root: str
    epoch: int


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory that was found."""

    id: str
    type: str
    text: str
    """In words, whatever its component."""

    trust: str
    """How far it is trusted, all told."""

    tokens: int
    """About how many it takes; an overestimate."""

    moment: str | None = None
    """When it happened, else when it was made."""

    score: float | None = None
    terms: list[str] = []
    """Which of the words it has, folded as they are searched."""

    seq: int
    """Its place in the log."""

    record: dict[str, Any]
    """The whole record, as it was sealed."""

    code: list[CodeContext] = []
    """The code that it speaks of, as the bank knows it now; nothing proves that."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, best first."""

    memories: list[Memory]
    proved_by: ProvedBy
    size: int
    """Records of the log that count: all, or those of the moment that was asked for."""

    at: str
    """The moment at which memories had to be valid."""

    tokens: int
    """About how many the memories and their code take together; an overestimate."""

    over_budget: int
    """Memories that would have been given, had they fitted the budget."""

    code_over_budget: int = 0
    """Symbols and files that would have been shown, had they fitted what memories left of it."""

    complete: bool
    """Whether everything nominated was looked at, until there was enough."""

    notes: list[str]
    """What this machine saw of the bank and was given up."""


def recall_memories(bank: OpenBank, query: Query, *, code: bool = True) -> Answer:
    """Return what a bank remembers; see ``satchel.recall.recalling.recall``.

    What the query leaves open is as the bank's settings say.

    Args:
        bank: The bank.
        query: What is asked.
        code: Whether the code that a memory speaks of is given along, where the bank knows any.
    """
    with bank.ledger.reading() as view:
        query = _settled(query, bank.settled(view))
        found = recall(view, query)
        notes = list(view.notes)
        along = _along(view, found, query.budget, notes) if code else Along()
    head = found.head
    bank.tell(
        "on_recall",
        [hit.logged.record.id for hit in found.hits],
        {"memories": len(found.hits)},
        lambda: [hit.logged.record.value for hit in found.hits],
    )
    return Answer(
        memories=[_memory(hit, along.code.get(hit.logged.record.id, [])) for hit in found.hits],
        proved_by=ProvedBy(bank=head.bank, size=head.size, root=head.root, epoch=head.epoch),
        size=found.size,
        at=found.at,
        tokens=sum(hit.tokens for hit in found.hits) + along.tokens,
        over_budget=found.over_budget,
        code_over_budget=along.over_budget,
        complete=found.complete,
        notes=notes,
    )


def _along(view: View, found: Recalled, budget: int | None, notes: list[str]) -> Along:
    """Return the code that memories speak of; what that takes is loaded where there is any."""
    if not found.hits or not view.side(HEADS):
        return Along()
    from satchel.actions.coding.along import code_along

    return code_along(view, found, budget, notes)


def _settled(query: Query, settings: BankSettings) -> Query:
    limit, budget = query.limit, query.budget
    if limit is None and budget is None:
        limit, budget = settings.recall_limit, settings.recall_budget
    trust = query.trust or trust_from(settings.recall_trust, "recall_trust")
    if (limit, budget, trust) == (query.limit, query.budget, query.trust):
        return query
    return replace(query, limit=limit, budget=budget, trust=trust)


def _memory(hit: Hit, code: list[CodeContext]) -> Memory:
    record, row = hit.logged.record, hit.logged.row
    return Memory(
        id=record.id,
        type=record.type,
        text=text_of(hit.entry),
        trust=hit.trust.value,
        tokens=hit.tokens,
        moment=row.moment,
        score=None if hit.score is None else round(hit.score, 6),
        terms=list(hit.terms),
        seq=row.seq,
        record=msgspec.json.decode(record.body),
        code=code,
    )


def moment_from(text: str | None, option: str) -> str | None:
    """Return what a person gave as a date or time, as canonical text.

    Raises:
        UsageError: If it names no moment.
    """
    found = None if text is None else read_time(text)
    if text is not None and found is None:
        raise UsageError(
            f"not a date or time: {text!r}",
            field=option,
            hint="Write 2026-03-01, or 2026-03-01T09:30:00+01:00; without a zone it is UTC.",
        )
    return found


def as_of_from(text: str | None, option: str) -> int | str | None:
    """Return what a person gave as a moment of a bank: a number of records, or a time.

    Raises:
        UsageError: If it is neither.
    """
    if text is not None and text.isascii() and text.isdigit() and len(text) < len("20260301"):
        return int(text)
    return moment_from(text, option)


def trust_from(text: str | None, option: str) -> TrustClass | None:
    """Return what a person gave as a trust class.

    Raises:
        UsageError: If it is none.
    """
    if text is None or text in set(TrustClass):
        return None if text is None else TrustClass(text)
    hint = f"There are, from high to low: {', '.join(TrustClass)}."
    raise UsageError(f"there is no trust class {text!r}", field=option, hint=hint)
