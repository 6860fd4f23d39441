"""Facts beside each other: what took the place of what, and what says otherwise."""

from collections.abc import Sequence
from dataclasses import replace

from satchel.ledger.view import View
from satchel.memory.entries import Semantic
from satchel.recall.query import Hit

_MOST = 20
"""Earlier versions that are named of one memory."""


def compared(view: View, hits: Sequence[Hit], *, past: bool) -> tuple[Hit, ...]:
    """Return memories with what they replace, what replaced them, and what they conflict with.

    Two facts conflict where both are given, and say something else of one subject and predicate.

    Args:
        view: The bank.
        hits: What was found.
        past: Whether the bank was asked as it was, so that there may be something newer.
    """
    clashes = _clashes(hits)
    return tuple(
        replace(
            hit,
            superseded_by=_newer(view, hit) if past else None,
            replaces=_older(view, hit),
            conflicts_with=clashes.get(number, ()),
        )
        for number, hit in enumerate(hits)
    )


def _newer(view: View, hit: Hit) -> str | None:
    row = view.nominal([hit.logged.seq]).get(hit.logged.seq)
    said = None if row is None else view.retirement(row)
    return None if said is None else said.by


def _older(view: View, hit: Hit) -> tuple[str, ...]:
    """Return the ids of the versions before a memory, in the order of the log."""
    name = hit.logged.record.id
    others = view.versions(name) - {name}
    places = view.places(sorted(others)) if others else {}
    before = sorted((place, other) for other, place in places.items() if place < hit.logged.seq)
    return tuple(other for _, other in before[-_MOST:])


def _clashes(hits: Sequence[Hit]) -> dict[int, tuple[str, ...]]:
    said = dict[tuple[str, str], dict[int, str]]()
    for number, hit in enumerate(hits):
        fact = hit.entry
        if isinstance(fact, Semantic) and fact.subject and fact.predicate and fact.object:
            key = (fact.subject.casefold(), fact.predicate.casefold())
            said.setdefault(key, {})[number] = fact.object.casefold()
    return {
        number: tuple(
            hits[other].logged.record.id for other, theirs in facts.items() if theirs != own
        )
        for facts in said.values()
        for number, own in facts.items()
    }
