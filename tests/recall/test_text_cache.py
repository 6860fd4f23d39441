"""The text cache: texts are analyzed once per process, and answers do not depend on it."""

import random
import sys
from threading import Thread
from typing import Any

import pytest
from recall_kit import Remembering

from satchel.crypto.sealed_records import seal
from satchel.model.records import Episodic, Erasure, Semantic, Status
from satchel.model.values import Scope
from satchel.ports.rows import Row
from satchel.recall import texts
from satchel.stores.sqlite import SqliteStore
from satchel.stores.text_search import terms_of, tokens_of

WORDS = (
    *("tea", "harbour", "rain", "window", "seat", "flight", "report", "table", "Accra", "piano"),
    *("garden", "running", "runs", "yesterday", "Friday", "budget", "red", "東京オフィス", "会議"),
    *("user@example.com", "v2.1.0", "don't"),
)
NAMES = ("Ada", "Bela", "Chidi", "Dina")


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """Clear the cache."""
    texts.texts.clear()


@pytest.fixture
def bank(tmp_path: Any) -> Remembering:
    """A bank with short and long turns of conversations, and other memories."""
    made, chance = Remembering(SqliteStore(tmp_path / "a.db")), random.Random(3)  # noqa: S311 - the same bank in every run
    drafts = list[Any]()
    for number in range(160):
        said = " ".join(chance.choices(WORDS, k=chance.choice((3, 9, 9, 30, 200))))
        said += "?" * (number % 7 == 0)
        if number % 5 == 4:
            drafts.append(Semantic(text=said))
        else:
            run = Scope(run=f"run-{number // 20}")
            drafts.append(Episodic(text=said, actor=chance.choice(NAMES), scope=run))
    made.add(*drafts)
    return made


def _questions() -> list[str]:
    chance = random.Random(5)  # noqa: S311 - likewise
    asked = [" ".join(chance.choices((*WORDS, *NAMES), k=chance.randint(1, 8))) for _ in range(12)]
    return [*asked, "when did Ada run", '"window seat" on a flight', "会議", "what does Dina say?"]


def _answers(bank: Remembering) -> list[Any]:
    found = list[Any]()
    for text in _questions():
        every: tuple[dict[str, Any], ...] = ({"limit": 10}, {"budget": 500})
        for how in every:
            hits = bank.ask(text, **how).hits
            found.append([(hit.logged.seq, hit.score, hit.signals, hit.terms) for hit in hits])
    return found


def test_answers_are_the_same_with_a_cold_warm_or_disabled_cache(
    bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit of each score, with the same reasons."""
    cold = _answers(bank)
    assert _answers(bank) == cold
    assert texts.texts.size > 0
    monkeypatch.setattr(texts, "MOST_BYTES", 0)
    texts.texts.clear()
    assert _answers(bank) == cold
    assert texts.texts.size == 0
    monkeypatch.setattr(texts, "MOST_BYTES", 1 << 16)  # a part of it only
    assert _answers(bank) == cold
    assert 0 < texts.texts.size <= 1 << 16


def test_answers_are_the_same_with_and_without_numpy(
    bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit of each score: numpy is used if it is loaded, and never loaded for it."""
    np = pytest.importorskip("numpy")
    assert sys.modules["numpy"] is np
    found = _answers(bank)
    monkeypatch.setitem(sys.modules, "numpy", None)
    for one, other in zip(_answers(bank), found, strict=True):
        assert one == other
    assert all(type(score) is float for answer in found for _, score, _, _ in answer)


@pytest.mark.parametrize("length", [1, 12, 49, 51, 400])
def test_cached_words_are_counted_like_a_list_of_words(length: int) -> None:
    """In short texts, which are cached as a string, and in long ones: words, phrases, prefixes."""
    chance = random.Random(length)  # noqa: S311 - the same text in every run
    said = [
        "tea",
        "teas",
        "steam",
        "to be",
        "be",
        "ab",
        "a",
        "東京オフィス",
        "茶",
        "Ümläut",
        "user@example.com",
    ]
    text = " ".join(chance.choices(said, k=length))
    body = seal(Semantic(text=text)).body
    asked = terms_of('tea "be to" "a a" 茶 東京 ab umlaut user@example.com steam nothing')
    row = Row(seq=0, id="", type="semantic", at="", body=body)
    tokens = tokens_of(text)
    expected = {at: term.times(tokens) for at, term in enumerate(asked) if term.times(tokens)}
    found = texts.SearchText(row).times(texts.SearchTerms(asked))
    assert list(found.items()) == sorted(expected.items())
    assert texts.SearchText(row).tokens == tokens
    assert texts.SearchText(row).length == len(tokens)


def test_concurrent_threads_get_the_same_answers(bank: Remembering) -> None:
    """While halves of the cache are exchanged."""
    expected, found = _answers(bank), list[Any]()
    texts.texts.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "MOST_BYTES", 1 << 15)
        threads = [Thread(target=lambda: found.append(_answers(bank))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 2


def test_erased_texts_leave_the_cache(bank: Remembering) -> None:
    """A running process forgets them with its next query."""
    (record,) = bank.add(Episodic(text="the code is marzipan", scope=Scope(run="run-1")))
    bank.ask("marzipan code")
    assert _cached("marzipan")
    bank.add(Status(target=record.id, state="deleted"))
    bank.add(Erasure(entry=record.id))
    bank.ask("tea")
    assert not _cached("marzipan")


def _cached(token: str) -> bool:
    halves = (texts.texts._newer, texts.texts._older)
    return any(token in text.tokens for half in halves for text in half.values())
