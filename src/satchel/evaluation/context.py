"""Evidence in the final text: how much of what answers a question a model is really shown.

Each question is the task of a rehydration; its budget is of the whole text, directive and frame
included, in the tokens of the model that is named. Evidence counts where its memory stands in the
text word for word; what was shortened counts apart.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.errors import UsageError
from satchel.evaluation.datasets import DatasetConversation, DatasetQuestion, read_set
from satchel.evaluation.recall import (
    BUDGETS,
    ConversationBank,
    Progress,
    comparison_embedder,
    conversation_bank,
    ndcg,
)
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult

MODEL = "gpt-4o"
"""For which the text is framed, and in whose tokens it is counted, unless one is named."""

_SESSIONS = 5


class FramedBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Means over questions at one budget; each question counts the same."""

    budget: int
    evidence: float
    """The share of the evidence that stands in the text word for word."""

    shortened: float
    """The share that stands there as a summary."""

    session_hit_1: float
    """Whether the most relevant memory in the text is of a session with evidence."""

    session_ndcg_5: float
    tokens: float
    entries: float
    over: int
    """Texts that took more than their budget; there must be none."""

    unframed: int
    """Questions whose budget did not even hold the frame."""


class FramedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on a set of questions."""

    data: str
    format: str
    conversations: int
    questions: int
    """Those that count; of kinds that are set aside none does."""

    left_out: int
    model: str
    tokenizer: str
    exact: bool
    """Whether the tokens are those of the model, or an overestimate."""

    vectors: str | None
    budgets: list[FramedBudget]
    notes: list[str]


class _Sums:
    """Adds up what one budget gave."""

    def __init__(self, budget: int) -> None:
        self.budget, self.count, self.over, self.unframed = budget, 0, 0, 0
        self._sums = dict[str, float]()

    def add(self, **values: float) -> None:
        self.count += 1
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def means(self) -> FramedBudget:
        def mean(name: str) -> float:
            return round(self._sums.get(name, 0.0) / max(self.count, 1), 4)

        return FramedBudget(
            budget=self.budget,
            evidence=mean("evidence"),
            shortened=mean("shortened"),
            session_hit_1=mean("hit"),
            session_ndcg_5=mean("ndcg"),
            tokens=mean("tokens"),
            entries=mean("entries"),
            over=self.over,
            unframed=self.unframed,
        )


def evaluate_framed(
    settings: Settings,
    path: Path,
    *,
    model: str = MODEL,
    budgets: Sequence[int] = BUDGETS,
    vectors: bool = True,
    progress: Progress | None = None,
) -> FramedResult:
    """Measure how much evidence stands in the text that a model is given.

    Nothing of it touches the banks that are there.

    Args:
        settings: Say which model makes vectors.
        path: A file or folder, as ``evaluate_recall`` takes it.
        model: The model that the text is for.
        budgets: Tokens of the whole text.
        vectors: Whether vectors are made and compared.
        progress: Told how far it is.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is no set of questions.
        UsageError: If a budget is none.
    """
    require_owner(settings, "evaluate")
    if not budgets or min(budgets) < 1:
        raise UsageError("the budget must be at least 1 token", field="budgets")
    found = read_set(path)
    embedder, notes = comparison_embedder(settings) if vectors else (None, [])
    wanted = [(one, _counting(one, found.aside)) for one in found.conversations]
    total, asked, last = sum(len(some) for _, some in wanted), 0, ("", False)
    sums = [_Sums(budget) for budget in sorted(set(budgets))]
    for conversation, questions in wanted:
        sessions = {turn.name: turn.session for turn in conversation.turns}
        with conversation_bank(conversation, embedder) as bank:
            for question in questions:
                for one in sums:
                    last = _add(one, bank, question, sessions, model) or last
                asked += 1
                if progress is not None:
                    progress(asked, total)
    return FramedResult(
        data=path.name,
        format=found.format,
        conversations=len(found.conversations),
        questions=total,
        left_out=sum(one.left_out for one in found.conversations),
        model=model,
        tokenizer=last[0],
        exact=last[1],
        vectors=None if embedder is None else embedder.model,
        budgets=[one.means() for one in sums],
        notes=notes,
    )


def _counting(conversation: DatasetConversation, aside: frozenset[str]) -> list[DatasetQuestion]:
    return [question for question in conversation.questions if question.kind not in aside]


def _add(
    sums: _Sums,
    bank: ConversationBank,
    question: DatasetQuestion,
    sessions: dict[str, str],
    model: str,
) -> tuple[str, bool] | None:
    """Frame the memory for a question and add what it is; return what counted its tokens."""
    framed = _framed(bank, question.text, model, sums.budget)
    if framed is None:
        sums.unframed += 1
        sums.add()
        return None
    forms = {bank.names[one.id]: one.form for one in framed.entries}
    best = sorted(framed.entries, key=lambda one: -one.score)
    order = list(dict.fromkeys(sessions[bank.names[one.id]] for one in best))
    wanted = frozenset(sessions[name] for name in question.evidence)
    size = len(question.evidence)
    sums.over += framed.tokens > sums.budget
    sums.add(
        evidence=sum(forms.get(name) == "verbatim" for name in question.evidence) / size,
        shortened=sum(forms.get(name) == "summary" for name in question.evidence) / size,
        hit=float(bool(wanted.intersection(order[:1]))),
        ndcg=ndcg(order, wanted, _SESSIONS),
        tokens=framed.tokens,
        entries=len(framed.entries),
    )
    return framed.tokenizer, framed.exact


def _framed(bank: ConversationBank, task: str, model: str, budget: int) -> RehydrateResult | None:
    given = None if bank.embedder is None else bank.embedders
    around = RehydrateContext(embedders=given, now=lambda: bank.moment)
    try:
        return rehydrate(bank.view, RehydrateRequest(task=task, model=model, budget=budget), around)
    except UsageError:
        return None
