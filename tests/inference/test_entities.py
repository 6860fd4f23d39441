"""Entities by rules: precision, recall and running time."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.inference.entities import MODEL, RuleExtractor

_DATA = Path(__file__).parent.parent / "data" / "inference"


def measure(name: str) -> dict[str, tuple[float, float]]:
    """Return precision and recall, by type and for all; name and type have to match."""
    right, found, wanted = Counter[str](), Counter[str](), Counter[str]()
    samples: list[dict[str, Any]] = json.loads((_DATA / name).read_text("utf-8"))
    mentions = RuleExtractor().extract([sample["text"] for sample in samples])
    for sample, some in zip(samples, mentions, strict=True):
        there = {(one.name, one.type) for one in some}
        own = {(one["name"], one["type"]) for one in sample["entities"]}
        for counter, pairs in ((right, there & own), (found, there), (wanted, own)):
            counter.update(kind for _, kind in pairs)
            counter["all"] += len(pairs)
    return {kind: (right[kind] / found[kind], right[kind] / wanted[kind]) for kind in wanted}


def test_most_entities_of_ordinary_sentences_are_found() -> None:
    """75 sentences of ten domains, used to develop the rules."""
    found = measure("entities.json")

    assert set(found) == {"person", "organisation", "place", "date", "product", "all"}
    assert min(precision for precision, _ in found.values()) > 0.9
    assert min(recall for _, recall in found.values()) > 0.85


def test_most_entities_of_unseen_sentences_are_found() -> None:
    """25 sentences that were written afterwards, without a change of the rules."""
    precision, recall = measure("entities-unseen.json")["all"]

    assert precision > 0.9
    assert recall > 0.8


def test_the_extractor_names_its_model() -> None:
    """So that results of other versions can be distinguished."""
    assert RuleExtractor().model == MODEL == "satchel-rules/1"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "Ada",
                "Lovelace",
                "the",
                "of",
                "in",
                "at",
                "University",
                "Berlin",
                "Dr.",
                "Mr.",
                "St.",
                "iPhone",
                "15",
                "Pro",
                "Samsung",
                "said",
                "2024-05-01",
                "May",
                "8,",
                "2023",
                "last",
                "week",
                "'s",
                ".",
                ",",
                "\n",
                "-",
                "&",
                "Lake",
                "Inc",
                "GmbH",
                "ε",
                "日本",
                "İ",
                "ß",
            ]
        ),
        max_size=20,
    )
)
@example(words=["Dr.", "2024-05-01", "Ada"])
def test_mentions_are_ordered_spans_of_the_text_without_overlap(words: list[str]) -> None:
    """For any words, each mention is the text of its span."""
    text = " ".join(words)
    [found] = RuleExtractor().extract([text])

    assert all(text[one.start : one.end] == one.name and one.name for one in found)
    ends = [(one.start, one.end) for one in found]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))


@pytest.mark.in_check(4)
@pytest.mark.parametrize(
    "text",
    [
        "A" * 300_000,
        "Aa " * 100_000,
        "A. " * 100_000,
        "Dr. " * 100_000,
        "of " * 100_000,
        "1 " * 100_000,
        "last " * 100_000,
        "May 1 " * 60_000,
        "University of " * 30_000,
        "-" * 300_000,
        "a.b" * 100_000,
        "\u0130\u0307" * 50_000,
    ],
    ids=lambda text: text[:14],
)
@pytest.mark.timeout(30)
def test_attack_a_text_slows_down_the_rules(text: str) -> None:
    """Long runs of what the rules match; the time is linear in the length."""
    RuleExtractor().extract([text])
