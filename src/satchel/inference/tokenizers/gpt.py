"""The vocabularies of GPT, which the package ``bpe-openai`` carries along; nothing is fetched."""

import warnings
from typing import Any

from satchel.errors import MissingExtraError

O200K, CL100K = "o200k_base", "cl100k_base"

_VOCABULARIES = {
    "gpt-3.5": CL100K,
    "gpt-35": CL100K,
    "gpt-4o": O200K,
    "gpt-4.": O200K,
    "gpt-4-": CL100K,
    "gpt-": O200K,
    "chatgpt": O200K,
    "o1": O200K,
    "o3": O200K,
    "o4": O200K,
    "gpt": O200K,
}
"""By how a model's name begins; the first that fits. What is not known yet is taken for new."""


def vocabulary_of(model: str) -> str | None:
    """Return the vocabulary of a model by its name; None if it is not one of GPT's."""
    name = model.strip().lower().rpartition("/")[2]
    if name in ("gpt-4", O200K, CL100K):
        return CL100K if name != O200K else O200K
    return next((found for start, found in _VOCABULARIES.items() if name.startswith(start)), None)


class GptTokens:
    """Counts in one of the vocabularies.

    Args:
        vocabulary: ``o200k_base`` or ``cl100k_base``.

    Raises:
        MissingExtraError: If the package is not installed.
    """

    exact = True

    def __init__(self, vocabulary: str = O200K) -> None:
        try:
            with warnings.catch_warnings():
                # It reads its data in a way that Python is going to give up.
                warnings.simplefilter("ignore", DeprecationWarning)
                from bpe_openai._bindings import tokenizer_for_encoding
        except ImportError as error:
            raise MissingExtraError(
                "counting GPT tokens needs its vocabulary",
                hint="pip install 'satchel[tokens]'; without it they are estimated.",
            ) from error
        self.name = vocabulary
        self._pieces: Any = tokenizer_for_encoding(vocabulary)

    def count(self, text: str) -> int:
        """Return how many tokens a text takes."""
        return int(self._pieces.count(text.encode("utf-8", "replace").decode()))
