"""Evaluating recall: each conversation becomes a bank of its own, which is asked every question."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.evaluating.conversing import Conversed, comparing, conversed
from satchel.actions.evaluating.measures import Means, Measured
from satchel.actions.evaluating.reading import read_set
from satchel.actions.evaluating.sets import Question, Turn
from satchel.actions.inferring.models import reranker_of
from satchel.actions.permitted.owning import require_owner
from satchel.errors import InferenceError
from satchel.inference.static_table.pieces import Pieces
from satchel.ports.inference.reranker import Reranker
from satchel.recall.query import Query
from satchel.recall.recalling import recall

MOST = 300
"""Memories that each question is answered with."""

_MOST_TOKENS = 1 << 20

Progress = Callable[[int, int], None]
"""Is told how many questions were asked, and of how many."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on a set of questions."""

    data: str
    format: str
    conversations: int
    turns: int
    left_out: int
    """Questions that could not be judged: they name no turn that is there."""

    vectors: str | None
    """The model whose vectors were compared; None where words alone counted."""

    reranker: str | None = None
    """What put the first thirty in order again; None where nothing did."""

    main: Measured
    """All questions that the set means to be answered."""

    all: Measured
    kinds: dict[str, Measured]
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

    Nothing of it touches the banks that are there: each conversation is remembered in a store of
    its own, which is removed again.

    Args:
        settings: Say which model makes vectors.
        path: A file or folder; see ``reading``.
        model: As ``embedder_of`` takes it.
        vectors: Whether vectors are made and compared.
        any_time: Whether a time that a question names is ignored.
        reranker: As ``reranker_of`` takes it; none, unless it is named here.
        progress: Told how far it is.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is no set of questions.
        InferenceError: If the model does not answer.
    """
    require_owner(settings, "evaluate")
    found = read_set(path)
    embedder, notes = comparing(settings, model) if vectors else (None, [])
    reranking = None if reranker is None else reranker_of(settings, reranker)
    total = sum(len(one.questions) for one in found.conversations)
    main, whole, kinds, asked = Means(), Means(), dict[str, Means](), 0
    for conversation in found.conversations:
        tokens = token_counts(conversation.turns)
        sessions = {turn.name: turn.session for turn in conversation.turns}
        with conversed(conversation, embedder) as bank:
            turns = ranked_turns(
                bank, conversation.questions, any_time=any_time, reranker=reranking
            )
            for question, ranked in turns:
                those = [whole, kinds.setdefault(question.kind, Means())]
                for means in those if question.kind in found.aside else [main, *those]:
                    means.add(ranked, question.evidence, tokens, sessions)
                asked += 1
                if progress is not None:
                    progress(asked, total)
    return Evaluation(
        data=path.name,
        format=found.format,
        conversations=len(found.conversations),
        turns=sum(len(one.turns) for one in found.conversations),
        left_out=sum(one.left_out for one in found.conversations),
        vectors=None if embedder is None else embedder.model,
        reranker=None if reranking is None else reranking.model,
        main=main.means(),
        all=whole.means(),
        kinds={kind: kinds[kind].means() for kind in sorted(kinds)},
        notes=notes,
    )


def ranked_turns(
    bank: Conversed,
    questions: Sequence[Question],
    *,
    any_time: bool = False,
    reranker: Reranker | None = None,
) -> Iterator[tuple[Question, list[str]]]:
    """Yield each question with the turns that recall gives, best first.

    Raises:
        InferenceError: If a reranker fails: without it something else would be measured.
    """
    for question in questions:
        wanted = Query(text=question.text, limit=MOST, times=not any_time)
        found = recall(
            bank.view,
            wanted,
            now=lambda: bank.moment,
            embedders=bank.embedders,
            reranker=reranker,
        )
        if found.plan.reranker_note:
            raise InferenceError(found.plan.reranker_note)
        yield question, [bank.names[hit.logged.record.id] for hit in found.hits]


def token_counts(turns: tuple[Turn, ...]) -> dict[str, int]:
    """Return how many tokens each turn takes as a line, in the vocabulary that comes along."""
    pieces = Pieces()
    return {
        turn.name: len(
            pieces(f"[{(turn.at or '')[:10]}] {turn.speaker}: {turn.text}", _MOST_TOKENS)
        )
        for turn in turns
    }
