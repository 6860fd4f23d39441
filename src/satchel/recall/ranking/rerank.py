"""The best memories, put in order again by a reranker."""

from collections.abc import Sequence
from math import isfinite

from satchel.errors import InferenceError
from satchel.memory.entries import Entry, Episodic
from satchel.memory.showing import text_of
from satchel.ports.inference.reranker import Reranker

FIRST = 30
"""How many of the best are put in order again."""

_LONGEST = 1 << 13
"""Characters of a memory that are read, from its start."""


def reranked(reranker: Reranker, question: str, entries: Sequence[Entry]) -> list[float]:
    """Return what each memory is scored at, from 0 for the worst to 1 for the best.

    A turn of a conversation is read with the name of its speaker before it.

    Raises:
        InferenceError: If the reranker fails, or gives what are no scores.
    """
    texts = [_spoken(entry)[:_LONGEST] for entry in entries]
    scores = reranker.scores(question, texts)
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        raise InferenceError(
            f"{reranker.model} did not return a number for each of {len(texts)} texts"
        )
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    if not least < most or not isfinite(most - least):
        return [0.0] * len(scores)
    return [(score - least) / (most - least) for score in scores]


def _spoken(entry: Entry) -> str:
    text = text_of(entry)
    if isinstance(entry, Episodic) and entry.actor:
        return f"{entry.actor.rpartition(':')[2]}: {text}"
    return text
