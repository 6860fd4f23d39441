"""A conversation that is measured, as a bank of its own, which is removed again."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from satchel.actions.config import Settings
from satchel.actions.evaluating.sets import Conversation, Turn
from satchel.actions.inferring.models import embedder_of
from satchel.actions.wiring import store_of_the_moment
from satchel.errors import MissingExtraError
from satchel.ledger.ledger import Ledger
from satchel.ledger.view import View
from satchel.memory.entries import Episodic
from satchel.memory.parts import Scope
from satchel.memory.times import now
from satchel.ports.inference.embedder import Embedder
from satchel.ports.store import Store
from satchel.recall.generations import Made, fill
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey

_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversed:
    """A conversation that is remembered."""

    view: View
    names: dict[str, str]
    """The names of its turns by the ids of their records."""

    moment: str
    """When it is asked: at its last turn."""

    embedder: Embedder | None

    def embedders(self, _made: Made) -> Embedder | None:
        """Return what made the vectors of the bank."""
        return self.embedder


@contextmanager
def conversed(
    conversation: Conversation, embedder: Embedder | None, given: Store | None = None
) -> Iterator[Conversed]:
    """Give a conversation as a bank; with vectors if there is what makes them.

    Args:
        conversation: What was said.
        embedder: Makes vectors.
        given: Where the bank is made; None for a store that is removed afterwards.
    """
    key = SigningKey.generate()
    with store_of_the_moment() if given is None else nullcontext(given) as store:
        ledger = Ledger.create(store, owner=key, writer=key)
        names = _remembered(ledger, conversation.turns)
        if embedder is not None:
            fill(store, ledger, embedder)
        moment = max((turn.at for turn in conversation.turns if turn.at), default=now())
        with ledger.reading() as view:
            yield Conversed(view=view, names=names, moment=moment, embedder=embedder)


def comparing(settings: Settings, model: str | None = None) -> tuple[Embedder | None, list[str]]:
    """Return what makes vectors, and what is to be said where there is nothing.

    Raises:
        MissingExtraError: If one is named that is not installed.
    """
    try:
        return embedder_of(settings, model), []
    except MissingExtraError:
        if model is not None:
            raise
        return None, ["vectors were not compared: the extra [recall] is not installed"]


def _remembered(ledger: Ledger, turns: tuple[Turn, ...]) -> dict[str, str]:
    """Remember a conversation, and return the names of its turns by the ids of their records."""
    names = dict[str, str]()
    for start in range(0, len(turns), _TOGETHER):
        some = turns[start : start + _TOGETHER]
        records = [
            seal(
                Episodic(
                    text=turn.text,
                    actor=turn.speaker or None,
                    occurred_at=turn.at,
                    scope=Scope(run=turn.session) if turn.session else None,
                )
            )
            for turn in some
        ]
        ledger.append(records)
        names |= {record.id: turn.name for record, turn in zip(records, some, strict=True)}
    return names
