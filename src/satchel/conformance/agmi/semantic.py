"""Memory as an agent writes and reads it, for the semantic family of ``agmi``.

A memory is stored with the trust of its channel, if a signature attests that; unsigned, it is
``external``, whatever its label says. Reads return what the pipeline would provide as context;
imperatives are withheld from every source, including the user, whose trust is at least the agent's.
"""

from typing import Any

from agmi.adapters.semantic_base import MemoryItem, Retrieved, SemanticMemoryAdapter
from agmi.signing import KEYRING

from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.ledger.ledger import Ledger
from satchel.model.records import Semantic
from satchel.model.values import Origin, Scope, TrustClass
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest
from satchel.stores.memory import InMemoryStore

_BUDGET = 8192


class SatchelSemantic(SemanticMemoryAdapter):  # type: ignore[misc]  # agmi has no types
    """A bank in memory, read through the pipeline."""

    name = "satchel-rehydrate"

    def __init__(self) -> None:
        self._key = SigningKey.generate()
        self.reset()

    def reset(self) -> None:
        """Start with an empty bank."""
        self._ledger = Ledger.create(InMemoryStore(), owner=self._key, writer=self._key)

    def add_memory(self, item: MemoryItem) -> None:
        """Store a memory with the trust that its signature attests."""
        proved = KEYRING.verify(item.user_id, item.source, item.text, item.signature)
        entry = Semantic(
            text=item.text,
            scope=Scope(user=item.user_id),
            tags=tuple(sorted(f"{name}={value}" for name, value in item.metadata.items())),
            origin=Origin(trust=None if proved else TrustClass.EXTERNAL),
        )
        self._ledger.append([seal(entry)])

    def retrieve(self, query: str, user_id: str, k: int = 5) -> list[Retrieved]:
        """Return the first memories that the pipeline provides for a question."""
        return self._retrieve(query, user_id, {})[:k]

    def retrieve_where(
        self, query: str, user_id: str, where: dict[str, Any], k: int = 5
    ) -> list[Retrieved]:
        """Return those with some metadata; a label that a memory gives itself earns no trust."""
        return self._retrieve(query, user_id, where)[:k]

    def measured_on(self) -> str:
        """Return a description of the measured system."""
        return "words alone, no vectors; signatures prove the channel; imperatives held back"

    def _retrieve(self, query: str, user_id: str, where: dict[str, Any]) -> list[Retrieved]:
        request = RehydrateRequest(
            task=query, budget=_BUDGET, user=user_id, trust=TrustClass.AGENT, enforce="all"
        )
        with self._ledger.reading() as view:
            context = rehydrate(view, request, RehydrateContext())
            entries = view.get([entry.id for entry in context.entries])
        required = {f"{name}={value}" for name, value in where.items()}
        return [
            Retrieved(text=str(memory.text), user_id=user_id, score=entry.score)
            for entry in context.entries
            if isinstance(memory := entries[entry.id].model, Semantic)
            and required <= {*memory.tags}
        ]
