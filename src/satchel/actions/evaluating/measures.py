"""Measures of a ranking against what should be in it, and their means.

- recall@k: the share of the evidence that is among the first k.
- hit@k: whether any of it is.
- ndcg@k: the same with what comes earlier counting for more, against the best order.
- budget@B: the share of the evidence that is there when, from the first on, every turn is taken
  that still fits in B tokens.
- session: the same of whole conversations, each at the place of its first turn.
"""

from collections.abc import Mapping, Sequence
from math import log2

import msgspec

AT = (5, 10, 20, 50)
"""Lengths of a ranking."""

BUDGETS = (512, 1024, 2048, 4096)
"""Tokens."""

_SESSIONS_AT = 5


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Means over questions, each of which counts the same; 0 to 1."""

    questions: int
    recall: dict[str, float]
    """By k."""

    hit: dict[str, float]
    ndcg: dict[str, float]
    budget: dict[str, float]
    """By tokens."""

    session_hit_1: float
    session_ndcg_5: float


class Means:
    """Adds up what was measured."""

    def __init__(self) -> None:
        self._count = 0
        self._sums = dict[str, float]()

    def add(
        self,
        ranked: Sequence[str],
        evidence: frozenset[str],
        tokens: Mapping[str, int],
        sessions: Mapping[str, str],
    ) -> None:
        """Add a question.

        Args:
            ranked: Names of the turns that were found, best first.
            evidence: Names of those that answer it.
            tokens: How many each turn takes.
            sessions: The conversation of each turn.
        """
        self._count += 1
        for name, value in measured(ranked, evidence, tokens, sessions).items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def means(self) -> Measured:
        """Return the means."""
        return Measured(
            questions=self._count,
            recall={str(k): self._mean(f"recall {k}") for k in AT},
            hit={str(k): self._mean(f"hit {k}") for k in AT},
            ndcg={str(k): self._mean(f"ndcg {k}") for k in AT},
            budget={str(budget): self._mean(f"budget {budget}") for budget in BUDGETS},
            session_hit_1=self._mean("session hit"),
            session_ndcg_5=self._mean("session ndcg"),
        )

    def _mean(self, name: str) -> float:
        return round(self._sums.get(name, 0.0) / max(self._count, 1), 4)


def measured(
    ranked: Sequence[str],
    evidence: frozenset[str],
    tokens: Mapping[str, int],
    sessions: Mapping[str, str],
) -> dict[str, float]:
    """Return all measures of one question by name; see ``Means.add``."""
    values = dict[str, float]()
    for k in AT:
        found = evidence.intersection(ranked[:k])
        values[f"recall {k}"] = len(found) / len(evidence)
        values[f"hit {k}"] = float(bool(found))
        values[f"ndcg {k}"] = ndcg(ranked, evidence, k)
    for budget in BUDGETS:
        values[f"budget {budget}"] = within(ranked, evidence, tokens, budget)
    whole = list(dict.fromkeys(sessions[name] for name in ranked))
    wanted = frozenset(sessions[name] for name in evidence)
    values["session hit"] = float(bool(wanted.intersection(whole[:1])))
    values["session ndcg"] = ndcg(whole, wanted, _SESSIONS_AT)
    return values


def ndcg(ranked: Sequence[str], wanted: frozenset[str], k: int) -> float:
    """Return the discounted gain of a ranking against that of the best; each counts once."""
    gain = sum(1 / log2(at + 2) for at, name in enumerate(ranked[:k]) if name in wanted)
    best = sum(1 / log2(at + 2) for at in range(min(k, len(wanted))))
    return gain / best


def within(
    ranked: Sequence[str], evidence: frozenset[str], tokens: Mapping[str, int], budget: int
) -> float:
    """Return the share of evidence among the turns that are taken until the budget is used up."""
    left, found = budget, 0
    for name in ranked:
        if tokens[name] <= left:
            left -= tokens[name]
            found += name in evidence
    return found / len(evidence)
