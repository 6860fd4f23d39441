"""Token counts, and profiles of models by name."""

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
def test_an_openai_model_is_counted_with_its_own_vocabulary(
    model: str, vocabulary: str | None
) -> None:
    """An unknown OpenAI model counts as new; other models are estimated and marked so."""
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
    """An unknown one gets the plain profile."""
    assert profile_of(model).name == family


def test_the_estimate_is_not_below_the_exact_count() -> None:
    """It is rather too high than too low."""
    assert Estimate().count(TEXT) >= GptTokens(O200K).count(TEXT) > 10


def test_a_lone_surrogate_is_counted() -> None:
    """It has no UTF-8 bytes."""
    assert GptTokens(O200K).count("a\ud800b") > 0


def test_without_the_package_tokens_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requesting the vocabulary itself fails with the install command."""
    monkeypatch.setitem(sys.modules, "bpe_openai._bindings", None)
    assert tokenizer_of("gpt-4o").name == "estimate"
    with pytest.raises(MissingExtraError) as raised:
        GptTokens(O200K)
    assert "satchel[models]" in str(raised.value.hint)
