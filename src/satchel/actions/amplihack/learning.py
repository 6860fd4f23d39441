"""What a session taught an agent: stored once, and recognised when it is learned again."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from satchel.actions.amplihack.sessions import MEMORY_TYPES, MOST_IMPORTANT
from satchel.actions.memories.remembering import MOST_TRIES, contents
from satchel.actions.memories.values import PROVIDER
from satchel.actions.opened import OpenBank
from satchel.errors import SlotTakenError, UsageError
from satchel.ledger.view import View
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, Scope, TrustClass
from satchel.memory.times import now
from satchel.ports.rows import Filter, slot_of
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.tiers.contradicting import jaccard
from satchel.tiers.facts import fact_of
from satchel.transfer.near.believing import may_be_same, telling
from satchel.transfer.screening import Screening

LEAST_BYTES = 10
"""A learning that is shorter says nothing worth keeping."""

ALIKE = 0.9
"""Share of words in common from which on two learnings say the same."""

_COMPARED = 16
_TITLE = 50
_LENGTHS = (100, 200)
"""Characters from which on a learning counts 6, and 7, of 10 when nobody says how much."""


class SessionLearning(msgspec.Struct, frozen=True, kw_only=True):
    """Something learned in a session, to be stored."""

    session_id: str
    agent_id: str
    """Whose it is; empty for a bank's own."""

    content: str
    memory_type: str = "learning"
    """One of ``sessions.MEMORY_TYPES``."""

    title: str | None = None
    importance: int | None = None
    """From 0 to 10; by its length when None."""

    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}


class Learned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of learnings."""

    stored: list[str] = []
    """Ids of those that are new."""

    known: int = 0
    """How many the agent knew already, from whatever session."""

    short: int = 0
    """How many were too short to say anything."""

    secrets: dict[str, int] = {}
    """What was replaced in them, by kind."""


def store_learnings(bank: OpenBank, learnings: Sequence[SessionLearning]) -> Learned:
    """Keep what is new of learnings, in one commit; secrets in them are replaced.

    Raises:
        UsageError: If a type is none, an importance is out of range, or there is no session.
    """
    for one in learnings:
        _require(one)
    for turn in range(MOST_TRIES):
        try:
            return _store(bank, learnings)
        except SlotTakenError:  # somebody stores the same at this moment
            if turn == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _store(bank: OpenBank, learnings: Sequence[SessionLearning]) -> Learned:
    screening, short, known = Screening(scrub=True), 0, 0
    new, made = list[Entry](), list[Sealed]()
    with bank.ledger.reading() as view:
        for one in learnings:
            if len(one.content.strip().encode(errors="replace")) < LEAST_BYTES:
                short += 1
                continue
            entry = _entry(one, screening)
            if any(is_same(entry, each) for each in new) or _is_known(view, entry):
                known += 1
            else:
                new.append(entry)
                made.append(seal(entry, limits=bank.settings.options.limits))
    if made:
        bank.ledger.append(made)
        ids = [each.id for each in made]
        bank.tell("on_remember", ids, {"memories": len(ids)}, lambda: contents(bank, ids))
    return Learned(
        stored=[each.id for each in made], known=known, short=short, secrets=screening.found
    )


def is_same(one: Entry, other: Entry) -> bool:
    """Tell whether two learnings say the same, in nearly the same words.

    The same numbers, names, denials and opposites, that is; see ``transfer.near.believing``.
    """
    mine, theirs = (" ".join((each.text or "").split()) for each in (one, other))
    if mine.casefold().rstrip(".!") == theirs.casefold().rstrip(".!"):
        return True
    facts = [fact_of("", Semantic(text=text), place) for place, text in enumerate((mine, theirs))]
    if jaccard(facts[0].words, facts[1].words) < ALIKE:
        return False
    return may_be_same(telling(mine), telling(theirs))


def _is_known(view: View, entry: Entry) -> bool:
    slot = slot_of(entry)
    if slot is not None and view.current(slot) is not None:
        return True
    agent = entry.scope.agent if entry.scope is not None else None
    wanted = Filter(agent=agent, kinds=frozenset({entry.kind or ""}))
    found = view.candidates(entry.text or "", limit=_COMPARED, wanted=wanted)
    return any(isinstance(one.model, Entry) and is_same(entry, one.model) for one, _ in found)


def _entry(learning: SessionLearning, screening: Screening) -> Entry:
    content = learning.content.strip()
    importance = learning.importance
    if importance is None:
        importance = 5 + sum(len(content) >= length for length in _LENGTHS)
    title = learning.title or " ".join(content.split())[:_TITLE]
    entry: Any = screening(
        Semantic(
            kind=learning.memory_type,
            text=content,
            tags=tuple(dict.fromkeys(learning.tags)),
            metadata={**learning.metadata, "title": title},
            salience=importance / MOST_IMPORTANT,
            scope=Scope(agent=learning.agent_id or None, run=learning.session_id),
            created_at=now(),
        )
    )
    words = " ".join((entry.text or "").casefold().split())
    key = f"{learning.memory_type}:{blake3(words.encode()).hexdigest(length=16)}"
    origin = Origin(provider=PROVIDER, id=key, trust=TrustClass.AGENT)
    found: Entry = msgspec.structs.replace(entry, origin=origin)
    return found


def _require(learning: SessionLearning) -> None:
    if learning.memory_type not in MEMORY_TYPES:
        hint = f"Choose from: {', '.join(MEMORY_TYPES)}."
        raise UsageError(f"unknown type {learning.memory_type!r}", field="type", hint=hint)
    if not learning.session_id.strip():
        raise UsageError("a learning must name its session", field="session_id")
    if learning.importance is not None and not 0 <= learning.importance <= MOST_IMPORTANT:
        raise UsageError(f"importance must be between 0 and {MOST_IMPORTANT}", field="importance")
