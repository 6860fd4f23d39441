"""``evaluate framed``: evidence in the final text."""

from pathlib import Path

import pytest
from evaluation_kit import write
from long_turns_kit import write_long_turns

from satchel.config.settings import load_settings
from satchel.errors import UsageError
from satchel.evaluation.containment_judge import read_back
from satchel.evaluation.datasets import read_set
from satchel.evaluation.recall import comparison_embedder, conversation_bank, evaluate_framed
from satchel.recall.models import embedder_of
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest

PLAIN = {
    "conversations": [
        {
            "turns": [
                {"id": 1, "session": "a", "speaker": "Ada", "text": "I drink oolong tea"},
                {"id": 2, "session": "b", "speaker": "Bela", "text": "my van is green"},
            ],
            "questions": [
                {"question": "Which tea?", "evidence": [1]},
                {"question": "Which van?", "evidence": [2]},
            ],
        }
    ]
}
BOUNDS = {512: 0.60, 1024: 0.70, 2048: 0.79, 4096: 0.88}
"""Of six conversations of LoCoMo, by tokens of the whole text."""


def test_evidence_counts_if_it_is_in_the_text(tmp_path: Path) -> None:
    """None if the frame does not fit, all if everything does."""
    path = write(tmp_path / "a.json", PLAIN)
    told = list[tuple[int, int]]()
    found = evaluate_framed(
        load_settings(), path, budgets=(5, 500), progress=lambda *now: told.append(now)
    )
    tight, roomy = found.budgets
    assert (tight.evidence, tight.unframed, roomy.evidence, roomy.unframed) == (0, 2, 1, 0)
    assert (roomy.session_hit_1, roomy.session_ndcg_5) == (1, 1)
    assert (found.questions, told[-1]) == (2, (2, 2))


def test_long_turns_are_found_in_the_final_text(tmp_path: Path) -> None:
    """2,048 tokens of a conversation with long answers; no text is over the budget."""
    (found,) = evaluate_framed(
        load_settings(), write_long_turns(tmp_path, 1), budgets=(2048,)
    ).budgets
    assert found.evidence >= 0.88
    assert found.session_hit_1 >= 0.88
    assert (found.over, found.unframed) == (0, 0)
    assert found.tokens <= 2048


def test_verbatim_entries_are_decodable_from_the_text(tmp_path: Path) -> None:
    """By code that is independent of the encoder."""
    (conversation,) = read_set(write_long_turns(tmp_path, 1) / "1").conversations
    turns = {turn.name: turn.text for turn in conversation.turns}
    with conversation_bank(conversation, embedder_of(load_settings())) as bank:
        asked = RehydrateRequest(task=conversation.questions[0].text, budget=1500)
        framed = rehydrate(bank.view, asked, RehydrateContext(embedders=bank.embedders))
    lines = [read_back(line) for line in framed.text.split("\n")]
    shown = [bank.names[one.id] for one in framed.entries if one.form == "verbatim"]
    assert len(shown) >= 3
    assert all(any(turns[name] in line for line in lines) for name in shown)


@pytest.mark.parametrize("budgets", [(), (0,)], ids=str)
def test_an_invalid_budget_is_refused(tmp_path: Path, budgets: tuple[int, ...]) -> None:
    """Before any file is read."""
    with pytest.raises(UsageError):
        evaluate_framed(load_settings(), tmp_path / "none.json", budgets=budgets)


@pytest.mark.shared
@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_locomo_evidence_reaches_the_documented_bounds(shared_data: Path) -> None:
    """Six conversations, directive and frame included, in tokens of the model."""
    assert comparison_embedder(load_settings())[1] == []
    found = evaluate_framed(load_settings(), shared_data / "locomo" / "locomo-first6.json")
    assert (found.questions, found.tokenizer, found.exact) == (883, "o200k_base", True)
    assert {one.budget: one.over for one in found.budgets} == dict.fromkeys(BOUNDS, 0)
    reached = {one.budget: one.evidence for one in found.budgets}
    assert {budget for budget, least in BOUNDS.items() if reached[budget] < least} == set()
