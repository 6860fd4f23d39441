"""Every store returns the same memories, in the same order, with the same scores."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_kit import OWNER, WRITER
from postgres_kit import in_schema
from recall_kit import NOW, Remembering

from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.ledger.ledger import Ledger
from satchel.model.records import Edge, Entry, Episodic, Procedural, Semantic, Status
from satchel.model.values import Scope
from satchel.ports.store import Store
from satchel.recall.engine import recall
from satchel.recall.models import automatic_embedders, query_embedders
from satchel.recall.query import Query
from satchel.recall.vector_index import keep_up
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

STORES = ("memory", "sqlite", "ladybug", "postgresql")


def _turn(number: int, who: str, text: str) -> Entry:
    scope = Scope(run=f"r{number // 4}")
    day = f"2026-05-{number % 28 + 1:02d}T09:00:00.000000Z"
    return Episodic(text=text, actor=who, scope=scope, occurred_at=day, created_at=NOW)


def _records() -> list[list[Sealed]]:
    """Return what is appended, in parts: conversations, facts, edges and a deletion."""
    said = (
        ("Ada", "I bought a sailing boat last week, she is called Petrel"),
        ("Bela", "What does a boat like that cost?"),
        ("Ada", "More than my car, but she is lovely"),
        ("Bela", "You must show me the harbour"),
        ("Chiara", "Der Zug nach München fährt um neun ab"),
        ("Deniz", "Wir treffen uns am Bahnhof vor dem großen Café"),
        ("Emi", "次の金曜日に会議があります"),
        ("Emi", "寿司が一番好きです"),
        ("Li", "我喜欢喝咖啡和茶"),
        ("Li", "妈妈的生日是六月"),
        ("Nok", "ผมชอบกาแฟร้อน"),
        ("Nok", "วันเกิดของแม่คือเดือนมิถุนายน"),
        ("Ada", "The physician told me to eat less salt"),
        ("Bela", "Doctors always say that"),
        ("Ada", "So no more noodles for me"),
        ("Bela", "What a pity"),
    )
    turns = [seal(_turn(number, *one)) for number, one in enumerate(said)]
    facts = [
        seal(Semantic(text=f"{thing} number {number} is kept in the {place}", created_at=NOW))
        for number, (thing, place) in enumerate(
            (thing, place)
            for thing in ("spare key", "sail", "invoice", "passport", "winter coat")
            for place in ("cellar", "harbour office", "blue drawer", "attic", "boat")
        )
    ]
    steps = seal(Procedural(text="to reef the sail, ease the sheet", created_at=NOW))
    edges = [
        seal(Edge(source=turns[0].id, target=facts[6].id, kind="about")),
        seal(Edge(source=steps.id, target=facts[9].id, kind="about")),
    ]
    gone = [seal(Status(target=facts[3].id, state="deleted", at=NOW))]
    return [turns, facts, [steps], edges, gone]


_RECORDS = _records()
QUESTIONS: dict[str, dict[str, Any]] = {
    "hybrid": {"text": "which sailing boat did Ada buy"},
    "meaning only": {"text": "medical advice"},
    "an edge": {"text": "Petrel"},
    "a filter": {"text": "sail harbour", "components": frozenset({"semantic"})},
    "a time": {"text": "what did Ada say in May 2026 about noodles"},
    "as of": {"text": "invoice key harbour", "as_of": 44},
    "a budget": {"text": "boat harbour sail coat", "budget": 60},
    "many": {"text": "boat harbour key invoice number", "limit": 100},
}
LANGUAGES = {
    "会議はいつですか": "次の金曜日に会議があります",
    "好きな寿司": "寿司が一番好きです",
    "她喜欢喝茶吗": "我喜欢喝咖啡和茶",
    "妈妈的生日是什么时候": "妈妈的生日是六月",
    "กาแฟร้อนไหม": "ผมชอบกาแฟร้อน",
    "แม่เกิดวันไหน วันเกิด": "วันเกิดของแม่คือเดือนมิถุนายน",
    "Wann fährt der Zug nach Munchen?": "Der Zug nach München fährt um neun ab",
    "Wo treffen wir uns, am Cafe?": "Wir treffen uns am Bahnhof vor dem großen Café",
}


def _filled(store: Store) -> Ledger:
    ledger = Ledger.create(store, owner=OWNER, writer=WRITER, clock=lambda: NOW)
    for part in _RECORDS:
        ledger.append(part)
    while keep_up(store, ledger, automatic_embedders(load_settings()), most=20):
        pass
    return ledger


def _answers(ledger: Ledger) -> dict[str, Any]:
    """Return everything that each query returns, except what depends on the bank's keys."""
    found = dict[str, Any]()
    embedders = query_embedders(load_settings())
    wanted = QUESTIONS | {text: {"text": text} for text in LANGUAGES}
    for name, members in wanted.items():
        with ledger.reading() as view:
            answer = recall(view, Query(**members), now=lambda: NOW, embedders=embedders)
        hits = [(hit.entry.text, hit.score, hit.signals, hit.terms) for hit in answer.hits]
        found[name] = hits, answer.plan, answer.over_budget, answer.complete
    return found


@pytest.fixture(scope="module")
def memory_answers() -> dict[str, Any]:
    """The answers of the store in memory, which has no index."""
    return _answers(_filled(InMemoryStore()))


def test_the_memory_store_answers_by_words_meaning_and_edges(
    memory_answers: dict[str, Any],
) -> None:
    """The baseline that the other stores are compared with is not empty."""
    hits, plan, *_ = memory_answers["hybrid"]
    assert hits[0][0] == "I bought a sailing boat last week, she is called Petrel"
    assert (plan.vectors, plan.note) == ("wordllama-l2-256-int8-idf", "")
    assert plan.by_words
    assert memory_answers["an edge"][1].by_edges
    hits, plan, *_ = memory_answers["meaning only"]
    assert (hits[0][0], plan.by_words) == ("Doctors always say that", 0)
    assert all(told[0] for told in memory_answers.values())


@pytest.mark.in_check(2)
@pytest.mark.parametrize("kind", STORES[1:])
def test_every_store_returns_the_same_answers(
    kind: str, memory_answers: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Memories, order, scores, reasons and plan, for each kind of query."""
    made: dict[str, Callable[[], Store]] = {
        "sqlite": lambda: SqliteStore(tmp_path / "a.db"),
        "ladybug": lambda: LadybugStore(tmp_path / "a.graph"),
        "postgresql": lambda: PostgresStore(
            in_schema(request.getfixturevalue("postgres"), "recalled")
        ),
    }
    store = made[kind]()
    try:
        found = _answers(_filled(store))
    finally:
        store.close()
    for name, told in memory_answers.items():
        assert found[name] == told, name


@pytest.mark.parametrize(("question", "wanted"), LANGUAGES.items(), ids=range(len(LANGUAGES)))
def test_questions_in_other_languages_rank_their_entries_first(
    question: str, wanted: str, memory_answers: dict[str, Any]
) -> None:
    """Japanese, Chinese, Thai and German; the test above extends it to every store."""
    assert memory_answers[question][0][0][0] == wanted


CONVERSATION_QUESTIONS = (
    "noodles in Bergen",
    "when did Ada sail",
    "what does Bela cook",
    "the boat last year",
)


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


def test_a_conversation_is_ranked_the_same_on_every_store(stores: dict[str, Store]) -> None:
    """The same memories in the same order, with the same scores."""
    answers = {}
    for name, store in stores.items():
        bank = Remembering(store)
        bank.add(*turns())
        answers[name] = [
            [(hit.logged.seq, hit.score) for hit in bank.ask(question).hits]
            for question in CONVERSATION_QUESTIONS
        ]
    for name in stores:
        assert answers[name] == answers["memory"], name
