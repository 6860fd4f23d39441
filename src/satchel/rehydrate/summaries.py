"""Shortening memories without a model: the sentences that have most to do with the task."""
# ruff: noqa: RUF001 - sentences end otherwise in Chinese

import re
from collections import Counter
from collections.abc import Sequence

from satchel.stores.matching import terms_of, tokens_of

_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?。！？]+[\"')\]]*|\n|$)\s*")
_LONGEST = 1 << 16
"""Characters that are looked at, from the start."""

_MOST_SENTENCES = 400
_FIRST = 0.5
"""What standing first counts for, against having a word of the task."""

_CUT = " …"


class Extractive:
    """Chooses sentences; what it gives stands in the text word for word."""

    model = "sentences of the text"

    def summarise(self, texts: Sequence[str], task: str, words: int) -> list[str]:
        """Return of each text the sentences that fit, in their order; see ``Summariser``."""
        terms = terms_of(task)
        return [self._of(text, [term.tokens for term in terms], words) for text in texts]

    def _of(self, text: str, terms: list[tuple[str, ...]], words: int) -> str:
        sentences = _SENTENCE.findall(text[:_LONGEST])[:_MOST_SENTENCES]
        if len(sentences) <= 1 or len(text.split(None, words + 1)) <= words:
            return _cut(text, words)
        tokens = [tokens_of(one) for one in sentences]
        rarity = Counter(token for some in tokens for token in set(some))
        wanted = {token for term in terms for token in term}
        scores = {
            at: sum(1 / rarity[token] + 1 for token in set(some) if token in wanted)
            + _FIRST / (1 + at)
            for at, some in enumerate(tokens)
        }
        left, chosen = words, set[int]()
        for at in sorted(scores, key=lambda one: (-scores[one], one)):
            length = len(sentences[at].split())
            if length <= left:
                chosen.add(at)
                left -= length
        if not chosen:
            best = max(scores, key=lambda one: (scores[one], -one))
            return _cut(sentences[best], words)
        kept = "".join(
            sentences[at]
            if at + 1 in chosen or at == max(chosen)
            else sentences[at].rstrip() + _CUT + " "
            for at in sorted(chosen)
        )
        return kept.strip()[: 2 * words * _CHARACTERS]


def _cut(text: str, words: int) -> str:
    """Return the first words of a text; of writing without spaces, as many characters."""
    found = text[:_LONGEST].split(None, words)
    if len(found) <= words and len(text) <= _LONGEST:
        return text if len(text) <= words * _CHARACTERS else text[: words * _CHARACTERS] + _CUT
    return " ".join(found[:words])[: words * _CHARACTERS] + _CUT


_CHARACTERS = 12
"""Characters that a word may have at most, on average."""
