"""Evaluation of recall, and of the text that a model gets.

Each conversation becomes a bank of its own, and every question is a query. For the text, each
question is the task of a rehydration; its budget covers the whole text, directive and frame
included, in the tokens of the named model. Evidence counts where its memory is in the text word for
word; shortened evidence is counted separately.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import log2
from pathlib import Path

import msgspec

from satchel.bank.connections import temporary_store
from satchel.bank.machine_keys import require_owner
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import InferenceError, MissingExtraError, UsageError
from satchel.evaluation.datasets import DatasetConversation, DatasetQuestion, DatasetTurn, read_set
from satchel.inference.static_table import StaticVocabulary
from satchel.ledger.ledger import Ledger
from satchel.ledger.view import View
from satchel.model.records import Episodic
from satchel.model.values import Scope, now
from satchel.ports.inference import Embedder, Reranker
from satchel.ports.store import Store
from satchel.recall.engine import recall
from satchel.recall.models import embedder_of, reranker_of
from satchel.recall.query import Query
from satchel.recall.vector_index import GenerationInfo, fill
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult

_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationBank:
    """A conversation stored in a bank."""

    view: View
    names: dict[str, str]
    """Names of its turns by IDs of their records."""

    moment: str
    """The time of the questions: that of its last turn."""

    embedder: Embedder | None

    def embedders(self, _made: GenerationInfo) -> Embedder | None:
        """Return the generation of the bank's vectors."""
        return self.embedder


@contextmanager
def conversation_bank(
    conversation: DatasetConversation, embedder: Embedder | None, existing: Store | None = None
) -> Iterator[ConversationBank]:
    """Store a conversation in a bank, with vectors if there is an embedder.

    Args:
        conversation: The conversation.
        embedder: Makes vectors.
        existing: The store of the bank; None for a temporary one.
    """
    key = SigningKey.generate()
    with temporary_store() if existing is None else nullcontext(existing) as store:
        ledger = Ledger.create(store, owner=key, writer=key)
        names = _remembered(ledger, conversation.turns)
        if embedder is not None:
            fill(store, ledger, embedder)
        moment = max((turn.at for turn in conversation.turns if turn.at), default=now())
        with ledger.reading() as view:
            yield ConversationBank(view=view, names=names, moment=moment, embedder=embedder)


def comparison_embedder(
    settings: Settings, model: str | None = None
) -> tuple[Embedder | None, list[str]]:
    """Return the embedder, and a note if there is none.

    Raises:
        MissingExtraError: If the named one is not installed.
    """
    try:
        return embedder_of(settings, model), []
    except MissingExtraError:
        if model is not None:
            raise
        return None, ["vectors were not compared: the embedder is not installed"]


def _remembered(ledger: Ledger, turns: tuple[DatasetTurn, ...]) -> dict[str, str]:
    """Store a conversation, and return the names of its turns by IDs of their records."""
    names = dict[str, str]()
    for start in range(0, len(turns), _TOGETHER):
        some = turns[start : start + _TOGETHER]
        records = [
            seal(
                Episodic(
                    text=turn.text,
                    actor=turn.speaker or None,
                    occurred_at=turn.at,
                    scope=Scope(run=turn.session) if turn.session else None,
                )
            )
            for turn in some
        ]
        ledger.append(records)
        names |= {record.id: turn.name for record, turn in zip(records, some, strict=True)}
    return names


AT = (5, 10, 20, 50)
"""Lengths of rankings."""

BUDGETS = (512, 1024, 2048, 4096)
"""Token budgets."""

_SESSIONS_AT = 5


class RecallScores(msgspec.Struct, frozen=True, kw_only=True):
    """Unweighted means over questions, 0 to 1."""

    questions: int
    recall: dict[str, float]
    """By length of the ranking."""

    hit: dict[str, float]
    ndcg: dict[str, float]
    budget: dict[str, float]
    """By token budget."""

    session_hit_1: float
    session_ndcg_5: float


class Means:
    """Accumulates measures of questions."""

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
            ranked: Names of the recalled turns, best first.
            evidence: Names of the turns with the answer.
            tokens: Tokens of each turn.
            sessions: The conversation of each turn.
        """
        self._count += 1
        for name, value in question_scores(ranked, evidence, tokens, sessions).items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def means(self) -> RecallScores:
        """Return the means."""
        return RecallScores(
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


def question_scores(
    ranked: Sequence[str],
    evidence: frozenset[str],
    tokens: Mapping[str, int],
    sessions: Mapping[str, str],
) -> dict[str, float]:
    """Return all measures of one question by name; see ``Means.add``."""
    values = dict[str, float]()
    for k in AT:
        hits = evidence.intersection(ranked[:k])
        values[f"recall {k}"] = len(hits) / len(evidence)
        values[f"hit {k}"] = float(bool(hits))
        values[f"ndcg {k}"] = ndcg(ranked, evidence, k)
    for budget in BUDGETS:
        values[f"budget {budget}"] = within(ranked, evidence, tokens, budget)
    whole = list(dict.fromkeys(sessions[name] for name in ranked))
    evidence_sessions = frozenset(sessions[name] for name in evidence)
    values["session hit"] = float(bool(evidence_sessions.intersection(whole[:1])))
    values["session ndcg"] = ndcg(whole, evidence_sessions, _SESSIONS_AT)
    return values


def ndcg(ranked: Sequence[str], relevant: frozenset[str], k: int) -> float:
    """Return the normalized discounted gain of a ranking; each turn counts once."""
    gain = sum(1 / log2(at + 2) for at, name in enumerate(ranked[:k]) if name in relevant)
    best = sum(1 / log2(at + 2) for at in range(min(k, len(relevant))))
    return gain / best


def within(
    ranked: Sequence[str], evidence: frozenset[str], tokens: Mapping[str, int], budget: int
) -> float:
    """Return the share of evidence among the turns within the budget."""
    left, included = budget, 0
    for name in ranked:
        if tokens[name] <= left:
            left -= tokens[name]
            included += name in evidence
    return included / len(evidence)


MOST = 300
"""Memories recalled for each question."""

_MOST_TOKENS = 1 << 20

Progress = Callable[[int, int], None]
"""Called with the number of questions done, and the total."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The results for a set of questions."""

    data: str
    format: str
    conversations: int
    turns: int
    left_out: int
    """Questions that could not be judged: without evidence in the conversation."""

    vectors: str | None
    """The model of the vectors; None if only words counted."""

    reranker: str | None = None
    """The reranker of the first thirty; None for none."""

    main: RecallScores
    """Means over all questions of the set that have an answer."""

    all: RecallScores
    kinds: dict[str, RecallScores]
    notes: list[str]


def evaluate_recall(  # noqa: PLR0913 - the options of one command
    settings: Settings,
    path: Path,
    *,
    model: str | None = None,
    vectors: bool = True,
    any_time: bool = False,
    reranker: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure how well recall finds the turns that answer questions.

    Existing banks are not changed: each conversation is stored in a temporary store.

    Args:
        settings: Configuration, with the model of vectors.
        path: A file or folder; see ``datasets``.
        model: As for ``embedder_of``.
        vectors: Whether to make and compare vectors.
        any_time: Whether to ignore times in questions.
        reranker: As for ``reranker_of``; none by default.
        progress: Called with the progress.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is not a set of questions.
        InferenceError: If the model does not respond.
    """
    require_owner(settings, "evaluate")
    question_set = read_set(path)
    embedder, notes = comparison_embedder(settings, model) if vectors else (None, [])
    reranking = None if reranker is None else reranker_of(settings, reranker)
    total = sum(len(each.questions) for each in question_set.conversations)
    main, whole, kinds, answered = Means(), Means(), dict[str, Means](), 0
    for conversation in question_set.conversations:
        tokens = token_counts(conversation.turns)
        sessions = {turn.name: turn.session for turn in conversation.turns}
        with conversation_bank(conversation, embedder) as bank:
            turns = ranked_turns(
                bank, conversation.questions, any_time=any_time, reranker=reranking
            )
            for question, ranked in turns:
                those = [whole, kinds.setdefault(question.kind, Means())]
                for means in those if question.kind in question_set.aside else [main, *those]:
                    means.add(ranked, question.evidence, tokens, sessions)
                answered += 1
                if progress is not None:
                    progress(answered, total)
    return Evaluation(
        data=path.name,
        format=question_set.format,
        conversations=len(question_set.conversations),
        turns=sum(len(each.turns) for each in question_set.conversations),
        left_out=sum(each.left_out for each in question_set.conversations),
        vectors=None if embedder is None else embedder.model,
        reranker=None if reranking is None else reranking.model,
        main=main.means(),
        all=whole.means(),
        kinds={kind: kinds[kind].means() for kind in sorted(kinds)},
        notes=notes,
    )


def ranked_turns(
    bank: ConversationBank,
    questions: Sequence[DatasetQuestion],
    *,
    any_time: bool = False,
    reranker: Reranker | None = None,
) -> Iterator[tuple[DatasetQuestion, list[str]]]:
    """Yield each question with the recalled turns, best first.

    Raises:
        InferenceError: If a reranker fails, which would change the measurement.
    """
    for question in questions:
        query = Query(text=question.text, limit=MOST, times=not any_time)
        result = recall(
            bank.view,
            query,
            now=lambda: bank.moment,
            embedders=bank.embedders,
            reranker=reranker,
        )
        if result.plan.reranker_note:
            raise InferenceError(result.plan.reranker_note)
        yield question, [bank.names[hit.logged.record.id] for hit in result.hits]


def token_counts(turns: tuple[DatasetTurn, ...]) -> dict[str, int]:
    """Return the tokens of each turn as a line, in the built-in vocabulary."""
    pieces = StaticVocabulary()
    return {
        turn.name: len(
            pieces(f"[{(turn.at or '')[:10]}] {turn.speaker}: {turn.text}", _MOST_TOKENS)
        )
        for turn in turns
    }


MODEL = "gpt-4o"
"""The default model that the text is framed for, and whose tokens are counted."""

_SESSIONS = 5


class FramedBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Unweighted means over questions at one budget."""

    budget: int
    evidence: float
    """The share of the evidence in the text word for word."""

    shortened: float
    """The share of the evidence in the text as a summary."""

    session_hit_1: float
    """Whether the most relevant memory in the text is of a session with evidence."""

    session_ndcg_5: float
    tokens: float
    entries: float
    over: int
    """Texts over their budget; must be 0."""

    unframed: int
    """Questions whose budget was too small for the frame."""


class FramedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results for a set of questions."""

    data: str
    format: str
    conversations: int
    questions: int
    """Questions that count, without those of excluded kinds."""

    left_out: int
    model: str
    tokenizer: str
    exact: bool
    """Whether the tokens are those of the model, or an overestimate."""

    vectors: str | None
    budgets: list[FramedBudget]
    notes: list[str]


class _Sums:
    """Accumulates the results at one budget."""

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
    """Measure how much evidence is in the text that a model gets.

    Existing banks are not changed.

    Args:
        settings: Configuration, with the model of vectors.
        path: A file or folder, as for ``evaluate_recall``.
        model: The model of the text.
        budgets: Token budgets of the whole text.
        vectors: Whether to make and compare vectors.
        progress: Called with the progress.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is not a set of questions.
        UsageError: If a budget is invalid.
    """
    require_owner(settings, "evaluate")
    if not budgets or min(budgets) < 1:
        raise UsageError("the budget must be at least 1 token", field="budgets")
    question_set = read_set(path)
    embedder, notes = comparison_embedder(settings) if vectors else (None, [])
    conversations = [
        (each, _counting(each, question_set.aside)) for each in question_set.conversations
    ]
    total, answered, last = sum(len(some) for _, some in conversations), 0, ("", False)
    sums = [_Sums(budget) for budget in sorted(set(budgets))]
    for conversation, questions in conversations:
        sessions = {turn.name: turn.session for turn in conversation.turns}
        with conversation_bank(conversation, embedder) as bank:
            for question in questions:
                for budget_sums in sums:
                    last = _add(budget_sums, bank, question, sessions, model) or last
                answered += 1
                if progress is not None:
                    progress(answered, total)
    return FramedResult(
        data=path.name,
        format=question_set.format,
        conversations=len(question_set.conversations),
        questions=total,
        left_out=sum(each.left_out for each in question_set.conversations),
        model=model,
        tokenizer=last[0],
        exact=last[1],
        vectors=None if embedder is None else embedder.model,
        budgets=[each.means() for each in sums],
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
    """Frame the memory for a question and add its result.

    Returns the name of the tokenizer, and whether it is exact; None without a frame.
    """
    framed = _framed(bank, question.text, model, sums.budget)
    if framed is None:
        sums.unframed += 1
        sums.add()
        return None
    forms = {bank.names[entry.id]: entry.form for entry in framed.entries}
    best = sorted(framed.entries, key=lambda entry: -entry.score)
    order = list(dict.fromkeys(sessions[bank.names[entry.id]] for entry in best))
    evidence_sessions = frozenset(sessions[name] for name in question.evidence)
    size = len(question.evidence)
    sums.over += framed.tokens > sums.budget
    sums.add(
        evidence=sum(forms.get(name) == "verbatim" for name in question.evidence) / size,
        shortened=sum(forms.get(name) == "summary" for name in question.evidence) / size,
        hit=float(bool(evidence_sessions.intersection(order[:1]))),
        ndcg=ndcg(order, evidence_sessions, _SESSIONS),
        tokens=framed.tokens,
        entries=len(framed.entries),
    )
    return framed.tokenizer, framed.exact


def _framed(bank: ConversationBank, task: str, model: str, budget: int) -> RehydrateResult | None:
    embedders = None if bank.embedder is None else bank.embedders
    context = RehydrateContext(embedders=embedders, now=lambda: bank.moment)
    try:
        return rehydrate(
            bank.view, RehydrateRequest(task=task, model=model, budget=budget), context
        )
    except UsageError:
        return None
