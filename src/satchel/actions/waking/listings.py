"""Memories listed for a model: what was searched for, the newest, or one with its versions."""

from collections.abc import Iterable
from dataclasses import replace

from satchel.actions.inferring.models import asking, reranker_of
from satchel.actions.memories.listing import Wanted as Listed
from satchel.actions.memories.listing import choose_memories
from satchel.actions.memories.naming import find_memory, versions_of
from satchel.actions.opened import OpenBank
from satchel.actions.recall import RecallOptions, query_of
from satchel.actions.waking.options import RehydrateOptions
from satchel.actions.waking.wanted import asked_of
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.recall.recalling import recall
from satchel.recall.trust import effective_trust
from satchel.rehydrate.asked import Around
from satchel.rehydrate.framing.frames import EncodedFrame
from satchel.rehydrate.listing import Item, Listing, listing
from satchel.rehydrate.models import profile_of, tokenizer_of

BUDGET = 2048
"""Tokens of a text where nobody says how many."""

_LIMIT = 10


def recalled_listing(bank: OpenBank, options: RecallOptions) -> Listing:
    """Return the memories that a search finds, best first. Nothing is written.

    Raises:
        UsageError: If an option cannot be meant.
        VerificationError: If the bank is not what was signed.
    """
    asked = bank.asked("recall")
    query = replace(query_of(options), limit=options.limit or _LIMIT, budget=None)
    with asked.ledger.reading() as view:
        found = recall(
            view,
            query,
            embedders=asking(bank.settings),
            reranker=reranker_of(bank.settings, wanted=query.rerank),
        )
        items = [Item(hit.logged, hit.entry, hit.trust) for hit in found.hits]
        empty = "No memory matches." if options.text.strip() else "There are no memories."
        result = _listing(bank, view, items, options.budget, empty)
    ids = [item.logged.record.id for item in items]
    bank.tell("on_recall", ids, {"memories": len(ids)})
    return result


def newest_listing(bank: OpenBank, wanted: Listed) -> Listing:
    """Return a page of memories, newest first."""
    asked = bank.asked("list")
    with asked.ledger.reading() as view:
        items = list(_items(view, choose_memories(view, wanted)[: wanted.limit]))
        return _listing(bank, view, items, 4 * BUDGET, "There are no such memories.")


def shown_listing(bank: OpenBank, memory: str) -> Listing:
    """Return one memory, whole, and its other versions after it."""
    asked = bank.asked("show")
    with asked.ledger.reading() as view:
        logged = find_memory(view, memory)
        others = [each for each in versions_of(view, logged) if each.seq != logged.seq]
        items = list(_items(view, [logged, *reversed(others)], states=True))
        return _listing(bank, view, items, 4 * BUDGET, "There is no such memory.")


def _items(view: View, found: Iterable[Logged], *, states: bool = False) -> Iterable[Item]:
    for logged in found:
        if isinstance(logged.model, Entry):
            note = ""
            if states:
                note = "current" if logged.row.retired is None else "not current"
            yield Item(logged, logged.model, effective_trust(view, logged), note)


def _listing(
    bank: OpenBank, view: View, items: list[Item], budget: int | None, empty: str
) -> Listing:
    asked = asked_of(RehydrateOptions(), bank.settings.options.rehydrate)
    return listing(
        view,
        items,
        frame=EncodedFrame(profile_of(asked.model), Around().nonce()),
        tokenizer=tokenizer_of(asked.model),
        budget=budget or BUDGET,
        enforce=asked.enforce,
        empty=empty,
    )
