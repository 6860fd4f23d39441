"""What a memory was built on and no longer stands: parents that were corrected or deleted."""

from collections.abc import Sequence

import msgspec

from satchel.actions.memories.changing import CORRECTION
from satchel.actions.memories.values import Memory
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.records import Status

_MOST = 2000
"""Ancestors that are read for one answer."""

_DEEPEST = 20


def with_retracted(view: View, memories: Sequence[Memory]) -> list[Memory]:
    """Return memories with the IDs of their ancestors that were corrected or deleted.

    A memory that was only updated was right in its time: what derives from it is not marked.

    Args:
        view: The bank.
        memories: As they are shown.
    """
    parents = {memory.id: list(memory.parents) for memory in memories}
    retracted = _among(view, parents)
    if not retracted:
        return list(memories)
    return [
        msgspec.structs.replace(
            memory, retracted=[each for each in _ancestors(memory.id, parents) if each in retracted]
        )
        for memory in memories
    ]


def _among(view: View, parents: dict[str, list[str]]) -> set[str]:
    """Read ancestors, level by level, into ``parents``; return those that were retracted."""
    retracted, known, level = set[str](), set[str](), list(parents)
    for _ in range(_DEEPEST):
        ends = dict.fromkeys(end for name in level for end in parents.get(name, ()))
        level = [end for end in ends if end not in known][: _MOST - len(known)]
        if not level:
            break
        known.update(level)
        for name, logged in view.get(level).items():
            if isinstance(logged.model, Entry):
                parents.setdefault(name, list(logged.model.parent_ids))
                if _is_retracted(view, logged):
                    retracted.add(name)
    return retracted


def _ancestors(name: str, parents: dict[str, list[str]]) -> list[str]:
    seen, waiting = {name: None}, list(parents[name])
    while waiting:
        each = waiting.pop(0)
        if each not in seen:
            seen[each] = None
            waiting += parents.get(each, ())
    return list(seen)[1:]


def _is_retracted(view: View, logged: Logged) -> bool:
    if logged.row.retired is None:
        return False
    ended = [said for said in view.said(logged) if said.place == logged.row.retired]
    if any(said.state in ("deleted", "rejected") for said in ended):
        return True
    return any(
        isinstance(status.model, Status)
        and (status.model.reason or "").partition(":")[0] == CORRECTION
        for status in view.at([said.seq for said in ended if said.state == "superseded"])
    )
