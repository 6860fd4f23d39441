"""Vectors that were made in this process, by the digest of their text: each is made once."""

from collections import OrderedDict
from collections.abc import Sequence

from blake3 import blake3

from satchel.errors import InferenceError
from satchel.ports.inference import Embedder, SlowEmbedder

MOST_BYTES = 8 << 20
"""Of vectors that are kept; the ones that were used longest ago go first."""


class CachedEmbedder:
    """An embedder that is asked once for each text.

    Texts themselves are not kept, and nothing of it outlives the process.

    Args:
        embedder: What makes the vectors; of no kind that learns of a bank.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._assumed = 0
        self._kept = OrderedDict[bytes, bytes]()
        self._bytes = 0

    @property
    def model(self) -> str:
        """As the embedder's."""
        return self._embedder.model

    @property
    def dimensions(self) -> int:
        """As the embedder's, or as it was assumed."""
        return self._assumed or self._embedder.dimensions

    def assume(self, dimensions: int) -> None:
        """Take it for known how many numbers a vector has; vectors of others are refused."""
        self._assumed = self._assumed or dimensions

    @property
    def revision(self) -> str:
        """As the embedder's."""
        return self._embedder.revision

    @property
    def cost(self) -> int:
        """As the embedder's; 1 where it has none."""
        return self._embedder.cost if isinstance(self._embedder, SlowEmbedder) else 1

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``."""
        names = [blake3(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        found = {name: self._kept[name] for name in names if name in self._kept}
        wanted = {name: text for name, text in zip(names, texts, strict=True) if name not in found}
        made = self._embedder.embed(list(wanted.values())) if wanted else []
        for vector in made:
            if len(vector) != 4 * self.dimensions:
                raise InferenceError(
                    f"{self.model} returned {len(vector) // 4} numbers, not {self.dimensions}",
                    hint="Compute the vectors again: satchel embed --rebuild",
                )
        found |= zip(wanted, made, strict=True)
        for name in dict.fromkeys(names):
            self._keep(name, found[name])
        return [found[name] for name in names]

    def _keep(self, name: bytes, vector: bytes) -> None:
        if name in self._kept:
            self._kept.move_to_end(name)
            return
        self._kept[name] = vector
        self._bytes += len(vector)
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1])
