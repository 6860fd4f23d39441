"""Counting tokens: exactly for GPT models, else by an estimate that is rather too high.

The estimate (``model.text``) needs no vocabulary.
"""

import warnings
from typing import Any

from satchel.errors import MissingExtraError
from satchel.model.text import estimated_tokens


class Estimate:
    """An estimate for any model; see ``estimated_tokens``."""

    name = "estimate"
    exact = False

    def count(self, text: str) -> int:
        """Return the estimated number of tokens of a text."""
        return estimated_tokens(text)


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
"""Vocabularies by the prefix of a model's name; the first that matches. Unknown ones are new."""


def vocabulary_of(model: str) -> str | None:
    """Return the vocabulary of a model by its name; None if it is not a GPT model."""
    name = model.strip().lower().rpartition("/")[2]
    if name in ("gpt-4", O200K, CL100K):
        return CL100K if name != O200K else O200K
    return next(
        (vocabulary for prefix, vocabulary in _VOCABULARIES.items() if name.startswith(prefix)),
        None,
    )


class GptTokens:
    """Counts tokens with a GPT vocabulary.

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
                hint="pip install 'satchel[models]'; without it they are estimated.",
            ) from error
        self.name = vocabulary
        self._pieces: Any = tokenizer_for_encoding(vocabulary)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return int(self._pieces.count(text.encode("utf-8", "replace").decode()))
