"""The built-in models: texts per second, near-duplicates per pair, correct entities."""

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data
from benchmarks.measure import Table, report
from satchel.inference.entities import RuleExtractor
from satchel.inference.onnx import minilm
from satchel.inference.static_table import StaticTable, WeightedTable
from satchel.ports.inference import Embedder
from satchel.ports.rows import entry_texts
from satchel.recall.near_duplicates import DuplicateIndex

FEW, SOME, MANY = 200, 1_000, 20_000
ROUNDS = 3
MOST_MS = 1.0
MOST_MINILM_MS = 25.0
MOST_NANOSECONDS = 60.0
LEAST_PRECISION, LEAST_RECALL = 0.9, 0.8

_TOGETHER = 512
_DIGITS = re.compile(r"\d+")
_SAMPLES = Path(__file__).parent.parent / "tests" / "data" / "inference"
_SENTENCES = {"seen": "entities.json", "unseen": "entities-unseen.json"}


def _texts(count: int) -> list[str]:
    """Return what so many memories say."""
    return [entry_texts(entry) for entry in data.entries(count)]


def _texts_without_digits(count: int) -> list[str]:
    """Return texts without digits, so that none is skipped because its numbers differ."""
    return [_DIGITS.sub("", text) for text in _texts(count)]


def _embedding(embedder: Embedder, texts: list[str]) -> float:
    """Make the vectors of texts, and return the seconds of processor time that took."""
    start = time.process_time()
    for first in range(0, len(texts), _TOGETHER):
        embedder.embed(texts[first : first + _TOGETHER])
    return time.process_time() - start


def _comparing(texts: list[str]) -> tuple[float, int, int]:
    """Find near-duplicates; return seconds of processor time, pairs, and how many were found."""
    with DuplicateIndex(StaticTable()) as index:
        for number, text in enumerate(texts):
            index.add(str(number), text)
        start = time.process_time()
        pairs = index.twins()
        return time.process_time() - start, index.pairs, len(pairs)


def _score_entities(name: str) -> dict[str, tuple[float, float, int]]:
    """Return precision, recall and number of entities by type; name and type must be right."""
    samples: list[dict[str, Any]] = json.loads((_SAMPLES / name).read_text("utf-8"))
    right, extracted, expected = Counter[str](), Counter[str](), Counter[str]()
    mentions = RuleExtractor().extract([sample["text"] for sample in samples])
    for sample, entities in zip(samples, mentions, strict=True):
        names = {(entity.name, entity.type) for entity in entities}
        labels = {(entity["name"], entity["type"]) for entity in sample["entities"]}
        for counter, pairs in ((right, names & labels), (extracted, names), (expected, labels)):
            counter.update(kind for _, kind in pairs)
            counter["all"] += len(pairs)
    return {
        kind: (right[kind] / max(1, extracted[kind]), right[kind] / expected[kind], expected[kind])
        for kind in expected
    }


def test_texts_are_embedded_and_compared_and_entities_extracted() -> None:
    """The work of the measurements below, once, on a small input."""
    texts = _texts(FEW)
    weighted = WeightedTable()
    knowing = weighted.knowing(weighted.learn(texts))
    for embedder in (StaticTable(), knowing):
        assert _embedding(embedder, texts) >= 0
        assert {len(one) for one in embedder.embed(texts)} == {4 * embedder.dimensions}
    plain = _texts_without_digits(FEW)
    _, pairs, found = _comparing([*plain, plain[0]])
    assert pairs > 0
    assert found >= 1
    assert _score_entities(_SENTENCES["unseen"])["all"][1] >= LEAST_RECALL


@pytest.mark.prove
def test_a_short_text_is_embedded_in_a_millisecond() -> None:
    """On one core, without a network."""
    texts = _texts(MANY)
    size = sum(map(len, texts)) / len(texts)
    weighted = WeightedTable()
    learning = time.process_time()
    learned = weighted.learn(texts)
    learning = time.process_time() - learning
    rows = list[tuple[str, float, int]]()
    for name, embedder in (("static", StaticTable()), ("static-idf", weighted.knowing(learned))):
        spent = min(_embedding(embedder, texts) for _ in range(ROUNDS)) / MANY * 1000
        rows.append((name, spent, round(1000 / spent)))
    report(
        "embed",
        Table(
            f"Vectors of {MANY:,} memories of {size:.0f} characters",
            ["model", "ms each", "a second"],
            rows,
            f"Bound: {MOST_MS} ms. Processor time. Counting words for static-idf takes"
            f" {learning / MANY * 1000:.2f} ms a memory more, once.",
        ),
    )
    assert all(row[1] <= MOST_MS for row in rows)


@pytest.mark.prove
def test_minilm_embeds_a_short_text_in_milliseconds() -> None:
    """Of the extra ``embed-minilm``; each text is run alone."""
    found, texts = minilm(), _texts(SOME)
    size = sum(map(len, texts)) / len(texts)
    found.embed(texts[:20])
    spent = min(_embedding(found, texts) for _ in range(ROUNDS)) / SOME * 1000
    report(
        "embed-minilm",
        Table(
            f"Vectors by MiniLM of {SOME:,} memories of {size:.0f} characters",
            ["ms each", "a second"],
            [(spent, round(1000 / spent))],
            f"Bound: {MOST_MINILM_MS:.0f} ms. Processor time.",
        ),
    )
    assert spent <= MOST_MINILM_MS


@pytest.mark.prove
def test_near_duplicates_cost_nanoseconds_a_pair() -> None:
    """The number of pairs is quadratic, so each pair must be cheap."""
    each, rows = 0.0, list[tuple[object, ...]]()
    for count in (MANY // 4, MANY // 2, MANY):
        spent, pairs, found = _comparing(_texts_without_digits(count))
        all_pairs = count * (count - 1) // 2
        each = spent / all_pairs * 1e9
        rows.append((f"{count:,}", all_pairs, pairs, found, spent, each))
    report(
        "near",
        Table(
            "Near-duplicates among memories",
            ["memories", "pairs", "compared", "found", "seconds", "ns a pair"],
            rows,
            f"Bound: {MOST_NANOSECONDS:.0f} ns a pair at {MANY:,}. Processor time.",
        ),
    )
    assert each <= MOST_NANOSECONDS


@pytest.mark.prove
def test_most_entities_are_correct() -> None:
    """In the sentences that the rules were written for, and in unseen ones."""
    judged = {name: _score_entities(file) for name, file in _SENTENCES.items()}
    rows = [
        [name, kind, number, 100 * precision, 100 * recall]
        for name, kinds in judged.items()
        for kind, (precision, recall, number) in sorted(kinds.items())
    ]
    report(
        "entities",
        Table(
            "Entities in sentences, by rules",
            ["sentences", "type", "there", "precision %", "recall %"],
            rows,
            f"Bound, of all in unseen ones: {100 * LEAST_PRECISION:.0f} % and"
            f" {100 * LEAST_RECALL:.0f} %.",
        ),
    )
    precision, recall, _ = judged["unseen"]["all"]
    assert precision >= LEAST_PRECISION
    assert recall >= LEAST_RECALL
