"""A conversation is ranked alike on every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from recall_kit import Remembering

from satchel.model.records import Episodic
from satchel.model.values import Scope
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

QUESTIONS = ("noodles in Bergen", "when did Ada sail", "what does Bela cook", "the boat last year")


@pytest.fixture
def stores(tmp_path: Path, postgres: str) -> Iterator[dict[str, Store]]:
    """Return an empty store of each kind."""
    made = PostgresStore(postgres)
    yield {
        "memory": InMemoryStore(),
        "sqlite": SqliteStore(tmp_path / "a.db"),
        "ladybug": LadybugStore(tmp_path / "a.lbdb"),
        "postgres": made,
    }
    made.close()


def turns() -> Iterator[Episodic]:
    """Yield short and long turns of three conversations."""
    about = ("noodles", "a boat", "Bergen", "trains", "the weather", "sailing", "cooking")
    for number in range(90):
        first, second = about[number % 7], about[number * 3 % 5]
        long = " and more of it" * (60 if number % 4 == 3 else 0)
        yield Episodic(
            text=f"{first} with {second}{long}{'?' if number % 5 == 0 else ''}",
            actor="Ada" if number % 2 else "Bela",
            occurred_at=f"202{number % 4}-05-1{number % 10}T00:00:00.000000Z",
            scope=Scope(run=f"r{number // 30}"),
        )


def test_a_conversation_is_ranked_alike_on_every_store(stores: dict[str, Store]) -> None:
    """The same memories in the same order, with the same scores."""
    answers = {}
    for name, store in stores.items():
        bank = Remembering(store)
        bank.add(*turns())
        answers[name] = [
            [(hit.logged.seq, hit.score) for hit in bank.ask(question).hits]
            for question in QUESTIONS
        ]
    for name in stores:
        assert answers[name] == answers["memory"], name
