"""Recall for a session: what its bank knew at its point, for one that hides later memories."""

from dataclasses import replace

import msgspec

from satchel.bank.memory import Memory
from satchel.bank.open_bank import OpenBank
from satchel.bank.owner_rights import require_owner
from satchel.errors import UsageError
from satchel.recall.query import Query
from satchel.recall.search import Answer, recall_memories
from satchel.sessions.elements import key_of, members
from satchel.sessions.lookup import find, lineage, size_there


def recall_for(
    bank: OpenBank, query: Query, session: str, *, code: bool = True, explain: bool = False
) -> Answer:
    """Return what a bank remembers, as a session is to see it.

    Of a fork whose later memories are hidden (``--memories as-of``), and of forks of that, the bank
    is asked as it was at the point; what was drawn from the fork itself since then comes along.

    Args:
        bank: The bank.
        query: What is asked.
        session: The session: its id, the start of that, or its name.
        code: As ``recall_memories`` takes it; so is the other.
        explain: Whether each memory says what its score is made of.

    Raises:
        UnknownSessionError: If there is no such session.
        UsageError: If the query asks for another moment.
    """
    require_owner(bank.settings, "sessions")
    with bank.ledger.reading() as view:
        whole = lineage(view, find(view, session))
        hiding = [one for one, _ in whole if members(one.model).get("memories") == "as-of"]
        size = min((size_there(one) for one in hiding), default=None)
        own = [key_of(one) for one, _ in whole[: len(whole) - 1]] if hiding else []
    if size is None:
        return recall_memories(bank, query, code=code, explain=explain)
    if query.as_of is not None:
        raise UsageError("the conversation already has this point", field="as_of")
    then = recall_memories(bank, replace(query, as_of=size), code=code, explain=explain)
    if query.run is not None:
        return then
    found = list(then.memories)
    there = {memory.id for memory in found}
    for name in own:
        since = recall_memories(bank, replace(query, run=name), code=code, explain=explain)
        found += [memory for memory in since.memories if memory.id not in there]
        there.update(memory.id for memory in since.memories)
    return _fitted(then, found, query)


def _fitted(answer: Answer, found: list[Memory], query: Query) -> Answer:
    """Return an answer with other memories, the best of them, as many as were asked for."""
    best = sorted(found, key=lambda memory: -(memory.score or 0))
    kept, tokens = list[Memory](), 0
    for memory in best[: query.most]:
        if query.budget is None or tokens + memory.tokens <= query.budget:
            kept.append(memory)
            tokens += memory.tokens
    left = len(best[: query.most]) - len(kept)
    code = answer.tokens - sum(memory.tokens for memory in answer.memories)
    return msgspec.structs.replace(
        answer, memories=kept, tokens=tokens + code, over_budget=answer.over_budget + left
    )
