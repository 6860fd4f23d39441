"""Counting tokens, and models by their names."""

import sys

import pytest

from satchel.errors import MissingExtraError
from satchel.inference.tokenizers import CL100K, O200K, Estimate, GptTokens, vocabulary_of
from satchel.rehydrate.frames import profile_of, tokenizer_of

TEXT = "The user prefers tea, 10:30 on Mondays; 茶 🎂 naïve\n123|[memory 123456789]"


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        ("gpt-4o-mini", O200K),
        ("openai/gpt-4.1", O200K),
        ("o3", O200K),
        ("gpt-5", O200K),
        ("gpt-4", CL100K),
        ("gpt-4-turbo", CL100K),
        ("gpt-3.5-turbo", CL100K),
        ("claude-3-5-sonnet", None),
        ("", None),
    ],
)
def test_a_model_of_openai_is_counted_in_its_own_vocabulary(
    model: str, vocabulary: str | None
) -> None:
    """What is not known yet is taken for new; others are estimated, and it says so."""
    assert vocabulary_of(model) == vocabulary
    found = tokenizer_of(model)
    assert (found.name, found.exact) == (vocabulary or "estimate", vocabulary is not None)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o", "gpt"),
        ("anthropic/claude-3", "claude"),
        ("gemini-1.5-pro", "gemini"),
        ("meta-llama/Llama-3-8b", "llama"),
        ("mistral-large", "llama"),
        ("nobodys-model", "plain"),
    ],
)
def test_a_model_has_the_profile_of_its_family(model: str, family: str) -> None:
    """An unknown one is set plainly."""
    assert profile_of(model).name == family


def test_the_estimate_is_no_less_than_what_a_vocabulary_takes() -> None:
    """Rather too many than too few."""
    assert Estimate().count(TEXT) >= GptTokens(O200K).count(TEXT) > 10


def test_half_a_character_is_counted_not_crashed_on() -> None:
    """A lone surrogate has no bytes."""
    assert GptTokens(O200K).count("a\ud800b") > 0


def test_without_the_package_tokens_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """And asking for the vocabulary itself says how to install it."""
    monkeypatch.setitem(sys.modules, "bpe_openai._bindings", None)
    assert tokenizer_of("gpt-4o").name == "estimate"
    with pytest.raises(MissingExtraError) as raised:
        GptTokens(O200K)
    assert "satchel[models]" in str(raised.value.hint)
