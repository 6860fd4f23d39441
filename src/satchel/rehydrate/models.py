"""Models: how memory is set for each family, how large a budget is by default, what counts it."""

from dataclasses import dataclass

from satchel.errors import MissingExtraError
from satchel.inference.tokenizers import Estimate, GptTokens, vocabulary_of
from satchel.ports.inference import Tokenizer

DEFAULT_BUDGET = 4096
"""Tokens, for a model of which nothing else is known. Source: the published SDK's MCP tool."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """How memory is set for a family of models."""

    name: str
    opening: str
    """Pattern of a boundary's mark; ``{}`` is the block and the nonce."""

    closing: str
    budget: int = DEFAULT_BUDGET

    def opened(self, block: str, nonce: str) -> str:
        """Return the mark that a block begins with."""
        return self.opening.format(f"{block} {nonce}")

    def closed(self, block: str, nonce: str) -> str:
        """Return the mark that a block ends with."""
        return self.closing.format(f"{block} {nonce}")


PROFILES = {
    "claude": ModelProfile("claude", "<{}>", "</{}>", budget=8192),
    "gpt": ModelProfile("gpt", "[{}]", "[/{}]", budget=8192),
    "gemini": ModelProfile("gemini", "[{}]", "[/{}]", budget=8192),
    "llama": ModelProfile("llama", "[{}]", "[/{}]", budget=4096),
    "plain": ModelProfile("plain", "[{}]", "[/{}]"),
}
"""The families."""

_FAMILIES = {
    "claude": "claude",
    "anthropic": "claude",
    "gemini": "gemini",
    "gemma": "gemini",
    "google": "gemini",
    "llama": "llama",
    "meta-llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen": "llama",
    "deepseek": "llama",
}


def profile_of(model: str) -> ModelProfile:
    """Return how memory is set for a model; plainly for one that is not known."""
    name = model.strip().lower()
    if vocabulary_of(name) is not None or name.startswith("openai"):
        return PROFILES["gpt"]
    for part in (name, name.rpartition("/")[2]):
        for start, family in _FAMILIES.items():
            if part.startswith(start):
                return PROFILES[family]
    return PROFILES["plain"]


def tokenizer_of(model: str) -> Tokenizer:
    """Return what counts the tokens of a model: its own vocabulary if it is here."""
    vocabulary = vocabulary_of(model)
    if vocabulary is not None:
        try:
            return GptTokens(vocabulary)
        except MissingExtraError:
            return Estimate()
    return Estimate()
