"""Recall by several signals: words, meaning, neighboring turns, speaker, edges."""

import struct
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_kit import NOW, Remembering

from satchel.crypto.sealed_records import seal
from satchel.errors import InferenceError, VerificationError
from satchel.ledger import columns
from satchel.ledger.ledger import Ledger
from satchel.model.records import Edge, Entry, Episodic, Erasure, Semantic, Status
from satchel.model.values import Scope
from satchel.ports.inference import Embedder
from satchel.ports.vectors import SKETCHED_TOGETHER, SKETCHES, Generation, sketch_prefix
from satchel.recall import sketches
from satchel.recall.engine import recall
from satchel.recall.query import Query, RecallResult
from satchel.recall.sketches import MatrixSketches, PlainSketches, QuantizedQuery, VectorSketches
from satchel.recall.vector_index import GenerationInfo, current_generation, fill
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

TOPICS = ("food", "work", "music", "travel")


class Topics:
    """An embedder that knows which words belong to one topic."""

    model, revision = "topics", ""
    dimensions = len(TOPICS)
    words = dict.fromkeys(["sushi", "eats", "tea", "dinner"], "food") | dict.fromkeys(
        ["office", "desk", "report"], "work"
    )

    def embed(self, given: Sequence[str]) -> list[bytes]:
        """Return the count of each topic in a text."""
        found = []
        for text in given:
            topics = [self.words.get(word) for word in text.lower().split()]
            found.append(struct.pack("<4f", *(float(topics.count(name)) for name in TOPICS)))
        return found


def topics(_made: GenerationInfo) -> Embedder:
    """Return the model that made the vectors."""
    return Topics()


def ask(bank: Remembering, text: str, **members: Any) -> RecallResult:
    """Recall with vectors."""
    with bank.ledger.reading() as view:
        return recall(view, Query(text=text, **members), now=lambda: NOW, embedders=topics)


def texts(found: RecallResult) -> list[str | None]:
    """Return the texts of the result, in order."""
    return [hit.entry.text for hit in found.hits]


def embed(bank: Remembering) -> None:
    """Make the vectors of a bank."""
    fill(bank.store, bank.ledger, Topics())


def turn(speaker: str, text: str, run: str = "r1") -> Entry:
    """Return a turn of a conversation."""
    return Episodic(text=text, actor=speaker, scope=Scope(run=run))


def test_a_memory_with_the_same_meaning_is_found_without_a_common_word(bank: Remembering) -> None:
    """The plan says that it was found by meaning, and by which model."""
    bank.add(Semantic(text="Ada likes sushi"), Semantic(text="the desk is grey"))
    assert bank.texts("dinner") == []
    embed(bank)
    found = ask(bank, "dinner")
    assert texts(found) == ["Ada likes sushi"]
    assert (found.plan.by_words, found.plan.by_meaning, found.plan.vectors) == (0, 1, "topics")
    signals = found.hits[0].signals
    assert signals is not None
    assert signals.cosine == 1.0


def test_words_and_meaning_are_combined_in_the_ranking(bank: Remembering) -> None:
    """Of two with the word, the one that also has the meaning ranks first."""
    bank.add(Semantic(text="tea towels for the desk office report"))
    bank.add(Semantic(text="tea and sushi for the grey old green cup"))
    embed(bank)
    assert texts(ask(bank, "tea")) == [
        "tea and sushi for the grey old green cup",
        "tea towels for the desk office report",
    ]


def test_a_bank_without_vectors_answers_by_words(bank: Remembering) -> None:
    """In the order of the store's own scores, and the plan names no model."""
    bank.add(*(Semantic(text="tea " + "and more " * number) for number in range(5)))
    found = ask(bank, "tea")
    assert found.plan.vectors is None
    with bank.ledger.reading() as view:
        own = list(view.nominees("tea", limit=10))
    assert [hit.logged.seq for hit in found.hits] == own


def test_recall_falls_back_to_words_when_the_model_fails(bank: Remembering) -> None:
    """A server that is down fails no query; the plan reports it."""
    bank.add(Semantic(text="Ada likes tea"))
    embed(bank)

    def down(_made: GenerationInfo) -> Embedder:
        raise InferenceError("the server gave status 503")

    with bank.ledger.reading() as view:
        found = recall(view, Query(text="tea"), embedders=down)
        refused = recall(view, Query(text="tea"), embedders=lambda _made: None)
    assert texts(found) == texts(refused) == ["Ada likes tea"]
    assert "503" in found.plan.note
    assert "not sent" in refused.plan.note


def test_filters_apply_to_nearest_memories(bank: Remembering) -> None:
    """Deleted, held, expired and others' memories are not found by meaning either."""
    kept, deleted, _, _ = bank.add(
        Semantic(text="Ada likes sushi", scope=Scope(user="ada")),
        Semantic(text="sushi, deleted"),
        Semantic(text="sushi, over", expires_at="2026-01-01T00:00:00.000000Z"),
        Semantic(text="sushi of another", scope=Scope(user="bela")),
    )
    embed(bank)
    bank.add(Status(target=deleted.id, state="deleted"))
    found = ask(bank, "dinner", user="ada")
    assert [hit.logged.record.id for hit in found.hits] == [kept.id]
    assert "sushi, deleted" not in texts(ask(bank, "dinner"))
    assert "sushi, over" not in texts(ask(bank, "dinner"))


def test_an_as_of_query_ranks_later_retired_memories_by_meaning(bank: Remembering) -> None:
    """As of an earlier moment, memories deleted later rank as before."""
    (old,) = bank.add(Semantic(text="tea and sushi of the first day"))
    bank.add(Semantic(text="tea towels for the desk office report"))
    embed(bank)
    size = bank.size()
    bank.add(Status(target=old.id, state="deleted"))
    then = texts(ask(bank, "tea", as_of=size))
    assert then == ["tea and sushi of the first day", "tea towels for the desk office report"]
    assert texts(ask(bank, "tea")) == ["tea towels for the desk office report"]


def test_a_turn_shares_its_score_with_its_neighbors(bank: Remembering) -> None:
    """The answer to a question, and its context, rank with the turn that has its words."""
    bank.add(
        turn("Ada", "the weather is fine"),
        turn("Bela", "where did you eat the noodles?"),
        turn("Ada", "at the harbour"),
        turn("Bela", "nice"),
        turn("Bela", "nice", run="r2"),
    )
    found = ask(bank, "noodles")
    assert set(texts(found)[:2]) == {"where did you eat the noodles?", "at the harbour"}
    assert len(found.hits) == 4
    assert all(hit.entry.scope == Scope(run="r1") for hit in found.hits)


def test_a_long_turn_shares_little_of_its_score(bank: Remembering) -> None:
    """A long answer has many words of its own; its neighbors get less of its score."""
    bank.add(turn("Ada", "thank you", "r1"), turn("Bela", "noodles", "r1"))
    bank.add(turn("Ada", "thanks", "r2"), turn("Bela", "noodles " + "and so on " * 500, "r2"))
    scores = {hit.entry.text: hit.score for hit in ask(bank, "noodles").hits}
    assert scores["thank you"] is not None
    assert scores["thanks"] is not None
    assert scores["thank you"] > scores["thanks"]


def test_turns_of_other_conversations_share_no_score(bank: Remembering) -> None:
    """Facts that are adjacent in the log by chance do not affect each other."""
    bank.add(Semantic(text="noodles"), Semantic(text="trains"), turn("Ada", "planes"))
    assert texts(ask(bank, "noodles")) == ["noodles"]


def test_the_person_named_in_the_question_ranks_first(bank: Remembering) -> None:
    """Of two with the same text; the first name is enough."""
    bank.add(turn("Ada Berg", "I like tea", "r1"), turn("user:Bela", "I like tea", "r2"))
    for name, first in (("Ada", "Ada Berg"), ("Bela", "user:Bela")):
        hit = ask(bank, f"what tea does {name} like").hits[0]
        assert isinstance(hit.entry, Episodic)
        assert hit.entry.actor == first
        assert hit.signals is not None
        assert hit.signals.speaker == 1


def test_a_conversation_about_all_words_of_the_question_ranks_first(bank: Remembering) -> None:
    """Of two turns with the same word, the one whose conversation has the other words."""
    bank.add(*(turn("Ada", text, "r1") for text in ("we bought a boat", "a", "b", "c", "d")))
    bank.add(*(turn("Ada", text, "r2") for text in ("we bought a boat", "e", "f", "g", "storm")))
    hits = ask(bank, "boat storm").hits
    boats = [hit for hit in hits if hit.entry.text == "we bought a boat"]
    assert [hit.entry.scope for hit in boats] == [Scope(run="r2"), Scope(run="r1")]


def test_recall_follows_links_for_one_hop(bank: Remembering) -> None:
    """Memories linked with the best results rank after them, marked; nothing further."""
    first, second, third = bank.add(
        Semantic(text="the boat is called Petrel"),
        Semantic(text="it was built in Bergen"),
        Semantic(text="Bergen has much rain"),
    )
    bank.add(
        Edge(source=first.id, target=second.id, kind="about"),
        Edge(source=third.id, target=second.id, kind="about"),
    )
    found = ask(bank, "Petrel")
    assert texts(found) == ["the boat is called Petrel", "it was built in Bergen"]
    assert found.plan.by_edges == 1
    signals = found.hits[1].signals
    assert signals is not None
    assert (signals.linked_to, signals.words) == (first.id, 0)


@pytest.mark.parametrize(
    "edge",
    [
        {"kind": "supersedes"},
        {"kind": "about", "valid_until": "2026-01-01T00:00:00.000000Z"},
        {"kind": "about", "valid_from": "2027-01-01T00:00:00.000000Z"},
    ],
)
def test_invalid_edges_are_not_followed(bank: Remembering, edge: dict[str, Any]) -> None:
    """Neither an expired or future edge, nor one to a replaced memory."""
    first, second = bank.add(Semantic(text="Petrel"), Semantic(text="Bergen"))
    bank.add(Edge(source=first.id, target=second.id, **edge))
    assert texts(ask(bank, "Petrel")) == ["Petrel"]


def test_a_hub_with_very_many_links_is_not_traversed(bank: Remembering) -> None:
    """Attack: a memory that everything is linked with; forty edges are read."""
    (hub,) = bank.add(Semantic(text="Petrel"))
    others = bank.add(*(Semantic(text=f"other {number}") for number in range(60)))
    bank.add(*(Edge(source=hub.id, target=other.id, kind="about") for other in others))
    assert ask(bank, "Petrel", limit=1000).plan.by_edges == 40


def test_memories_of_a_time_in_the_question_rank_first_and_the_others_are_marked(
    bank: Remembering,
) -> None:
    """No memory is dropped for its time; it can be disabled, and options take precedence."""
    bank.add(
        Episodic(text="tea in May", occurred_at="2026-05-10T00:00:00.000000Z"),
        Episodic(text="tea in March", occurred_at="2026-03-10T00:00:00.000000Z"),
    )
    found = ask(bank, "tea last May")
    assert texts(found) == ["tea in May", "tea in March"]
    assert [hit.other_time for hit in found.hits] == [False, True]
    assert (found.plan.time, found.plan.time_dropped) == ("last May", False)
    assert found.plan.time_beyond == 1
    assert ask(bank, "tea last May", times=False).plan.time == ""
    whole = ask(bank, "tea last May", since="2026-01-01T00:00:00.000000Z")
    assert (len(whole.hits), whole.plan.time) == (2, "")


def test_within_a_budget_memories_of_the_named_time_come_first(bank: Remembering) -> None:
    """As many as requested, within the token budget."""
    bank.add(
        Episodic(text="tea in March", occurred_at="2026-03-10T00:00:00.000000Z"),
        Episodic(text="tea in May", occurred_at="2026-05-10T00:00:00.000000Z"),
        Episodic(text="tea in June", occurred_at="2026-06-10T00:00:00.000000Z"),
        Episodic(text="tea " * 400, occurred_at="2026-06-11T00:00:00.000000Z"),
    )
    found = ask(bank, "tea last May", budget=200)
    assert texts(found)[0] == "tea in May"
    assert set(texts(found)[1:]) == {"tea in June", "tea in March"}
    assert [hit.other_time for hit in found.hits] == [False, True, True]
    assert (found.plan.time_beyond, found.over_budget) == (2, 1)
    assert found.tokens <= 200
    one = found.hits[0].tokens
    assert texts(ask(bank, "tea last May", budget=one)) == ["tea in May"]
    assert len(ask(bank, "tea last May", budget=200, limit=1).hits) == 1
    assert not any(hit.other_time for hit in ask(bank, "tea", budget=200).hits)


def test_a_time_without_memories_is_ignored_and_reported(bank: Remembering) -> None:
    """A question about a time without memories is still answered."""
    bank.add(Episodic(text="tea", occurred_at="2026-03-10T00:00:00.000000Z"))
    found = ask(bank, "tea yesterday")
    assert texts(found) == ["tea"]
    assert found.plan.time_dropped


def test_a_relative_time_counts_from_the_newest_memory(bank: Remembering) -> None:
    """In a conversation of 2023, "two years ago" is 2021, whatever the year is now."""
    bank.add(
        Episodic(text="the race in Oslo", occurred_at="2021-04-10T00:00:00.000000Z"),
        Episodic(text="the race in Bergen", occurred_at="2022-04-10T00:00:00.000000Z"),
        Episodic(text="a walk", occurred_at="2023-05-10T00:00:00.000000Z"),
    )
    found = ask(bank, "which race was two years ago")
    assert texts(found)[:2] == ["the race in Oslo", "the race in Bergen"]
    assert found.plan.since == "2021-01-01T00:00:00.000000Z"


def test_a_relative_time_counts_from_now_if_the_newest_memory_gives_no_result(
    bank: Remembering,
) -> None:
    """In a bank that ends in May, "last month" is May for a query in June."""
    bank.add(Episodic(text="tea", occurred_at="2026-05-10T00:00:00.000000Z"))
    found = ask(bank, "tea last month")
    assert found.plan.since == "2026-05-01T00:00:00.000000Z"
    assert not found.plan.time_dropped


def test_relative_times_of_an_as_of_query_count_from_its_moment(bank: Remembering) -> None:
    """A query as of a moment gives it."""
    bank.add(Episodic(text="tea", occurred_at="2023-05-10T00:00:00.000000Z"))
    found = ask(bank, "tea last year", as_of="2030-01-01T00:00:00.000000Z")
    assert found.plan.since == "2029-01-01T00:00:00.000000Z"


def test_attack_better_matches_of_other_times_do_not_hide_the_named_time(bank: Remembering) -> None:
    """Attack on the candidates: hundreds of better memories of other times."""
    bank.add(
        Episodic(text="a cup of tea among other things", occurred_at="2026-03-10T00:00:00.000000Z"),
        *(
            Episodic(text=f"tea {number}", occurred_at="2026-05-10T00:00:00.000000Z")
            for number in range(400)
        ),
    )
    first = ask(bank, "tea in March").hits[0]
    assert first.entry.text == "a cup of tea among other things"
    assert not first.other_time


def test_a_short_turn_does_not_rank_with_the_long_turn_before_it(bank: Remembering) -> None:
    """The words of a long answer are its own: the thanks after it rank lower."""
    answer = "noodles " * 3 + "and so on and on " * 100
    bank.add(turn("assistant", answer, "r1"), turn("Ada", "thank you", "r1"))
    bank.add(turn("Ada", "I like noodles", "r2"), turn("Ada", "trains", "r2"))
    bank.add(*(turn("Ada", f"planes {number}", "r3") for number in range(9)))
    words = {hit.entry.text: hit.signals.words for hit in ask(bank, "noodles").hits if hit.signals}
    assert words["thank you"] < 0.75 * words[answer]
    assert words["trains"] > words["I like noodles"] / 2


def test_a_question_for_a_time_prefers_turns_with_a_date(bank: Remembering) -> None:
    """Of two with the same text, the one with a date answers "when"."""
    bank.add(
        turn("Ada", "we sailed to Bergen", "r1"), turn("Ada", "we sailed to Bergen yesterday", "r2")
    )
    assert texts(ask(bank, "when did Ada sail to Bergen"))[0] == "we sailed to Bergen yesterday"


def test_contradicting_facts_are_marked(bank: Remembering) -> None:
    """The same subject and predicate with another object."""
    oslo, bergen, works = bank.add(
        Semantic(subject="Ada", predicate="lives_in", object="Oslo"),
        Semantic(subject="Ada", predicate="lives_in", object="Bergen"),
        Semantic(subject="Ada", predicate="works_in", object="Oslo"),
    )
    clashes = {hit.logged.record.id: hit.conflicts_with for hit in ask(bank, "Ada").hits}
    assert clashes == {oslo.id: (bergen.id,), bergen.id: (oslo.id,), works.id: ()}


def test_versions_of_a_memory_are_marked(bank: Remembering) -> None:
    """The new one names what it replaced; as of then, the old one names its replacement."""
    (old,) = bank.add(Semantic(text="Ada drinks tea"))
    size = bank.size()
    new = seal(Semantic(text="Ada drinks coffee"))
    bank.ledger.append([new, seal(Status(target=old.id, state="superseded", by=new.id))])
    (now,) = ask(bank, "Ada").hits
    (then,) = ask(bank, "Ada", as_of=size).hits
    assert (now.replaces, now.superseded_by) == ((old.id,), None)
    assert (then.superseded_by, then.entry.text) == (new.id, "Ada drinks tea")


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("会議はいつですか", "次の金曜日に会議があります"),
        ("她喜欢喝茶吗", "我喜欢喝咖啡和茶"),
        ("กาแฟ", "ผมชอบกาแฟร้อน"),
        ("Wohin fuhren wir mit dem Zug nach München?", "Der Zug nach München fährt um neun"),
    ],
)
def test_questions_in_other_languages_find_their_entries(
    bank: Remembering, question: str, wanted: str
) -> None:
    """Japanese, Chinese, Thai and German in one bank."""
    bank.add(
        Semantic(text="次の金曜日に会議があります"),
        Semantic(text="我喜欢喝咖啡和茶"),
        Semantic(text="ผมชอบกาแฟร้อน"),
        Semantic(text="Der Zug nach München fährt um neun"),
    )
    assert texts(ask(bank, question))[0] == wanted


def test_erasure_removes_the_sketch_of_a_vector(bank: Remembering) -> None:
    """A sketch reveals nearly as much as its vector; the other sketches are made again."""
    gone, _ = bank.add(Semantic(text="Ada eats sushi"), Semantic(text="Bela eats tea"))
    embed(bank)
    bank.add(Status(target=gone.id, state="deleted"))
    bank.ledger.append([seal(Erasure(entry=gone.id))])
    with bank.ledger.reading() as view:
        assert view.side(SKETCHES) == {}
    assert texts(ask(bank, "dinner")) == []
    embed(bank)
    assert texts(ask(bank, "dinner")) == ["Bela eats tea"]


def test_rebuilding_vectors_removes_the_old_sketches(bank: Remembering) -> None:
    """The new ones find the same memories."""
    bank.add(*(Semantic(text="Ada eats sushi") for _ in range(3)))
    embed(bank)
    with bank.ledger.reading() as view:
        before = view.side(SKETCHES)
    fill(bank.store, bank.ledger, Topics(), rebuild=True)
    with bank.ledger.reading() as view:
        after, made = view.side(SKETCHES), current_generation(view)
    assert made is not None
    assert made.generation.number == 1
    assert len(before) == len(after) == 1
    assert before.keys() != after.keys()
    assert len(texts(ask(bank, "dinner"))) == 3


def test_new_memories_are_found_by_meaning_in_a_running_process(bank: Remembering) -> None:
    """Cached sketches are dropped when vectors are added."""
    bank.add(Semantic(text="Ada eats sushi"))
    embed(bank)
    assert len(ask(bank, "dinner").hits) == 1
    bank.add(Semantic(text="Bela eats tea"))
    embed(bank)
    assert len(ask(bank, "dinner").hits) == 2


def test_without_sketches_all_vectors_are_compared(
    bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without numpy, and in an older bank without sketches: the same order."""
    bank.add(*(Semantic(text=f"{word} {'desk ' * count}") for word, count in _MIXED))
    embed(bank)
    whole = texts(ask(bank, "dinner"))
    monkeypatch.setattr("satchel.recall.sketches.sketches", lambda *_: None)
    assert texts(ask(bank, "dinner")) == whole
    assert len(whole) > 2


_MIXED = [("sushi", 0), ("tea", 1), ("dinner", 2), ("eats", 3), ("report", 4)]


@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6), min_size=1, max_size=30),
    st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6),
)
def test_the_cosine_of_a_sketch_is_close_to_that_of_its_vector(
    vectors: list[list[float]], asked: list[float]
) -> None:
    """For all vectors: the same position, and a cosine within about a hundredth."""
    generation, side = _sketched(vectors)
    found = _filled(generation, side).cosines(QuantizedQuery(asked, 6), range(len(vectors)))
    assert len(found) == len(vectors)
    for place, cosine in found.items():
        lengths = np.linalg.norm(vectors[place]) * np.linalg.norm(asked)
        if lengths > 1e-3:
            assert abs(cosine - np.dot(vectors[place], asked) / lengths) < 0.02


def _filled(generation: Generation, side: Mapping[str, bytes]) -> MatrixSketches:
    drawn = MatrixSketches(np, generation, 1)
    drawn.put(side)
    return drawn


def _sketched(vectors: list[list[float]]) -> tuple[Generation, dict[str, bytes]]:
    """Return the sketches of vectors as they are stored."""
    generation, bank = Generation("any", len(vectors[0])), Remembering(InMemoryStore())
    made = {place: struct.pack(f"<{len(one)}f", *one) for place, one in enumerate(vectors)}
    with bank.store.writing() as writing:
        sketches.store_sketches(writing, bank.ledger.bank, generation, made)
        return generation, dict(writing.side(bank.ledger.bank, SKETCHES))


@given(st.integers(0, 2**32 - 1), st.integers(1, 3000), st.sampled_from([3, 64, 100]))
@settings(max_examples=15, deadline=None)
def test_sketches_compare_equally_with_and_without_numpy(seed: int, count: int, size: int) -> None:
    """For all vectors: the same positions, order and cosines, to the digit."""
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(count, size)).round(int(chance.integers(0, 3))).tolist()
    asked = QuantizedQuery(chance.normal(size=size).tolist(), size)
    ways: list[VectorSketches] = []
    for by_hand in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if by_hand:
                patch.delitem(sys.modules, "numpy")
            generation, side = _sketched(vectors)
        if by_hand:
            ways.append(PlainSketches(generation, side))
        else:
            ways.append(_filled(generation, side))
    one, other = ([*way.nearest(asked, 100).items()] for way in ways)
    assert one == other
    places = [*range(0, count, 7), count, count + 10_000]
    assert ways[0].cosines(asked, places) == ways[1].cosines(asked, places)


@given(st.integers(1, 5000), st.integers(0, 2**20))
def test_each_part_of_the_sketches_is_read_once(parts: int, number: int) -> None:
    """They are read 16 at a time, by the prefix of their names."""
    name = sketch_prefix(number * SKETCHED_TOGETHER) + "key"

    found = [prefix for prefix in sketches._prefixes(parts) if name.startswith(prefix)]

    assert len(found) == 1 if number < parts else len(found) <= 1


def test_cached_sketches_are_extended_with_new_ones(
    bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bank with alternating writes and queries is not loaded again each time."""
    loads = list[int]()

    class Counted(MatrixSketches):
        def __init__(self, *given: Any) -> None:
            loads.append(1)
            super().__init__(*given)

    monkeypatch.setattr(sketches, "MatrixSketches", Counted)
    for number in range(600):
        bank.add(Semantic(text="sushi " * (number % 3 + 1) + "desk " * (number % 5)))
        if number % 100 == 0:
            embed(bank)
            ask(bank, "dinner")
    embed(bank)
    found = [*texts(ask(bank, "dinner", limit=700))]
    assert loads == [1]
    monkeypatch.setattr(sketches, "_known", OrderedDict())
    assert [*texts(ask(bank, "dinner", limit=700))] == found
    assert loads == [1, 1]


def test_damaged_sketches_are_ignored(bank: Remembering) -> None:
    """Attack: side values of other lengths; nothing fails, and words still match."""
    bank.add(Semantic(text="Ada eats sushi"))
    embed(bank)
    with bank.ledger.reading() as view:
        names = list(view.side(SKETCHES))
    with bank.store.writing() as writing:
        writing.put_side(bank.ledger.bank, dict.fromkeys(names, b"short"))
    assert texts(ask(bank, "dinner")) == []
    assert texts(ask(bank, "sushi")) == ["Ada eats sushi"]


def test_a_late_report_is_ranked_by_the_time_of_its_event(bank: Remembering) -> None:
    """``two months ago`` counts from when it was said; a mention at that time ranks below."""
    for run, day, text in (
        ("r1", "2026-05-20", "we spoke of climbing on a mountain at school"),
        ("r2", "2026-07-10", "we went climbing on a mountain two months ago"),
        ("r3", "2026-07-11", "we went climbing on a mountain two days ago"),
    ):
        moment = f"{day}T10:00:00.000000Z"
        bank.add(Episodic(text=text, actor="Ada", occurred_at=moment, scope=Scope(run=run)))

    found = bank.ask(
        "On which mountain was the climbing in May 2026?", moment="2026-08-01T00:00:00.000000Z"
    )

    first, second, third = found.hits
    assert "two months ago" in str(first.entry.text)
    assert "school" in str(second.entry.text)
    assert [hit.other_time for hit in (first, second, third)] == [False, False, True]
    assert first.signals is not None
    assert (first.signals.time, first.signals.dated) == (1.0, 1.0)


def long_turn(*words: str) -> Entry:
    """Return a turn of 200 words, with some words 50 words from one another."""
    return turn(
        "Ada", " ".join(f"{word} {'and so on ' * 16}" for word in (*words, *"abcd"[len(words) :]))
    )


def test_adjacent_words_rank_higher_in_long_texts(bank: Remembering) -> None:
    """Of two long turns with the same words, the one with adjacent words ranks first."""
    bank.add(long_turn("tomato", "soup", "recipe"), long_turn("tomato soup recipe"))

    first, second = bank.ask("tomato soup recipe").hits

    assert first.signals is not None
    assert second.signals is not None
    assert str(first.entry.text).startswith("tomato soup")
    assert (first.signals.phrase, second.signals.phrase) == (1.0, 0.0)
    assert 0.5 < first.signals.weights.phrase < 1.0


def test_word_positions_do_not_matter_in_short_texts(bank: Remembering) -> None:
    """Phrases are not searched there."""
    bank.add(turn("Ada", "tomato in the garden, a recipe for soup"), turn("Ada", "tomato soup"))

    found = bank.ask("tomato soup").hits

    assert [hit.signals.phrase for hit in found if hit.signals] == [0.0, 0.0]


EDITS = {
    "retired": "UPDATE record SET retired = 5 WHERE id = ?1",
    "held": "UPDATE record SET hold = 1 WHERE id = ?1",
    "type": "UPDATE record SET type = CASE type WHEN 'edge' THEN 'semantic' ELSE 'edge' END"
    " WHERE id = ?1 OR type = 'edge'",
}


@pytest.mark.parametrize("large", [0, 1 << 20])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_column_does_not_hide_a_nearest_memory(
    tmp_path: Path, edit: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large bank, whose rows are verified as they are read, and in a small one."""
    monkeypatch.setattr(columns, "_LARGE", large)
    path = tmp_path / "a.db"
    bank = Remembering(SqliteStore(path))
    wanted, desk, _ = bank.add(
        Semantic(text="Ada likes sushi"),
        Semantic(text="the desk is grey"),
        Semantic(text="a report"),
    )
    bank.add(Edge(source=desk.id, target="grey", kind="is"))
    fill(bank.store, bank.ledger, Topics())

    def found() -> list[str | None]:
        ledger = Ledger(SqliteStore(path), bank.ledger.bank)
        with ledger.reading() as view:
            asked = recall(view, Query(text="dinner"), now=lambda: NOW, embedders=topics)
        return [hit.entry.text for hit in asked.hits]

    assert found() == ["Ada likes sushi"]
    connection = apsw.Connection(str(path))
    connection.execute(EDITS[edit], (bytes.fromhex(wanted.id.removeprefix("blake3:")),))
    assert connection.total_changes() > 0
    connection.close()
    with pytest.raises(VerificationError):
        found()


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_retired_memories_are_omitted_from_nearest_results(
    tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log retired them, so nothing is refused."""
    monkeypatch.setattr(columns, "_LARGE", large)
    bank = Remembering(SqliteStore(tmp_path / "a.db"))
    gone, kept = bank.add(Semantic(text="Ada likes sushi"), Semantic(text="Bela likes tea"))
    fill(bank.store, bank.ledger, Topics())
    bank.add(Status(target=gone.id, state="deleted"))
    with bank.ledger.reading() as view:
        asked = recall(view, Query(text="dinner"), now=lambda: NOW, embedders=topics)
    assert [hit.logged.record.id for hit in asked.hits] == [kept.id]
