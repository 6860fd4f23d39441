"""Evaluation of recall: the readers of data sets, the measures and the results."""

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_turns_kit import write_long_turns

from satchel.config.settings import load_settings
from satchel.errors import (
    EmptyInputError,
    MalformedError,
    SatchelError,
    UnknownFormatError,
    UnreadableError,
)
from satchel.evaluation.datasets import read_set
from satchel.evaluation.recall import Means, evaluate_recall, ndcg, within

LOCOMO = [
    {
        "sample_id": "conv-1",
        "qa": [
            {"question": "When did Ada sail?", "evidence": ["D1:02; D2:1"], "category": 2},
            {"question": "What does Bela cook?", "evidence": ["D:2:2"], "category": 4},
            {"question": "What is the boat of Bela?", "evidence": ["D1:2"], "category": 5},
            {"question": "Never said", "evidence": ["D9:9"], "category": 1},
            {"question": "No evidence", "evidence": [], "category": 3},
        ],
        "conversation": {
            "speaker_a": "Ada",
            "session_2_date_time": "9:30 am on 3 June, 2023",
            "session_10": [],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Bela", "dia_id": "D1:1", "text": "How are you?"},
                {
                    "speaker": "Ada",
                    "dia_id": "D1:2",
                    "text": "I sailed to Bergen.",
                    "blip_caption": "a red boat",
                },
            ],
            "session_2": [
                {"speaker": "Ada", "dia_id": "D2:1", "text": "We sailed again"},
                {"speaker": "Bela", "dia_id": "D2:2", "text": "I cook noodles"},
            ],
        },
    }
]
PLAIN = {
    "conversations": [
        {
            "turns": [
                {"id": 1, "session": "a", "speaker": "Ada", "text": "tea", "at": "2026-03-01"},
                {"id": 2, "text": "coffee"},
            ],
            "questions": [{"question": "tea", "evidence": [1]}],
        }
    ]
}


def write(path: Path, value: Any) -> Path:
    """Write JSON, and return its path."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_locomo_is_read_with_captions_times_and_malformed_evidence(tmp_path: Path) -> None:
    """Sessions in order; questions with unknown evidence are counted."""
    found = read_set(write(tmp_path / "a.json", LOCOMO))
    (one,) = found.conversations
    assert [turn.name for turn in one.turns] == ["D1:1", "D1:2", "D2:1", "D2:2"]
    assert one.turns[1].text == "I sailed to Bergen. [shared a red boat]"
    assert one.turns[1].at == "2023-05-08T13:56:00.000000Z"
    assert [(each.kind, set(each.evidence)) for each in one.questions] == [
        ("temporal", {"D1:2", "D2:1"}),
        ("single-hop", {"D2:2"}),
        ("adversarial", {"D1:2"}),
    ]
    assert (one.left_out, set(found.aside)) == (2, {"adversarial"})


def test_beam_conversations_are_read_from_their_folders(tmp_path: Path) -> None:
    """One or many; roles are speakers, batches are sessions, markers are removed."""
    folder = write_long_turns(tmp_path)
    found = read_set(folder)
    assert (found.format, len(found.conversations)) == ("beam", 2)
    first = found.conversations[0]
    assert read_set(folder / "1").conversations == (first,)
    assert (len(first.turns), len(first.questions), first.left_out) == (64, 16, 1)
    assert {turn.speaker for turn in first.turns} == {"user", "assistant"}
    assert {turn.session for turn in first.turns} == {"1", "2", "3", "4"}
    assert first.turns[0].text.endswith("Can you help?")
    assert first.turns[-1].at == "2024-03-04T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", MalformedError),
        ("[1, 2]", UnknownFormatError),
        ('{"a": 1}', UnknownFormatError),
        ('{"conversations": []}', EmptyInputError),
        ('{"conversations": [{"turns": [], "questions": []}]}', EmptyInputError),
        ('{"conversations": [{"turns": 5}]}', MalformedError),
        ('{"conversations": [7]}', MalformedError),
        ('[{"conversation": {}, "qa": [{"question": "a"}]}]', MalformedError),
        ('[{"conversation": {"session_1": [{}]}, "qa": []}]', MalformedError),
        ("[" * 100_000, MalformedError),
    ],
)
def test_an_invalid_data_set_is_refused(
    tmp_path: Path, text: str, error: type[SatchelError]
) -> None:
    """The error names the file."""
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error) as found:
        read_set(path)
    assert str(path) in str(found.value.file)


def test_two_turns_with_the_same_id_are_refused(tmp_path: Path) -> None:
    """Evidence would be ambiguous."""
    value = json.loads(json.dumps(PLAIN))
    value["conversations"][0]["turns"][1]["id"] = 1
    with pytest.raises(MalformedError):
        read_set(write(tmp_path / "a.json", value))


def test_a_missing_file_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    """An unreadable file, and an empty data set."""
    with pytest.raises(UnreadableError):
        read_set(tmp_path / "none.json")
    with pytest.raises(EmptyInputError):
        read_set(tmp_path)


def test_measures_match_their_definitions() -> None:
    """Computed by hand."""
    ranked, wanted = ["a", "b", "c", "d"], frozenset({"b", "d", "x"})
    best = 1 + 1 / log2(3) + 1 / log2(4)
    assert ndcg(ranked, wanted, 4) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)
    assert ndcg(ranked, frozenset({"a"}), 1) == 1
    tokens = {"a": 5, "b": 9, "c": 3, "d": 2}
    assert within(ranked, wanted, tokens, 10) == pytest.approx(1 / 3)  # a, c, d
    assert within(ranked, wanted, tokens, 4) == 0
    means = Means()
    means.add(ranked, wanted, tokens, dict.fromkeys("abcd", "s") | {"x": "t"})
    found = means.means()
    assert (found.questions, found.recall["5"], found.hit["5"]) == (1, 0.6667, 1.0)
    assert found.session_hit_1 == 1


@given(st.lists(st.integers(0, 30), unique=True), st.sets(st.integers(0, 30), min_size=1))
def test_measures_are_from_0_to_1(ranked: list[int], wanted: set[int]) -> None:
    """For any ranking; a larger budget never finds less."""
    names, evidence = [*map(str, ranked)], frozenset(map(str, wanted))
    tokens = {name: 1 + int(name) for name in names}
    shares = [within(names, evidence, tokens, budget) for budget in (0, 500)]
    assert 0 == shares[0] <= shares[1] <= 1
    assert all(0 <= ndcg(names, evidence, k) <= 1 + 1e-9 for k in (1, 5, 50))


def test_evidence_in_long_turns_is_found_with_and_without_vectors(tmp_path: Path) -> None:
    """Among long answers with the same words."""
    folder = write_long_turns(tmp_path, 1)
    for vectors in (True, False):
        found = evaluate_recall(load_settings(), folder, vectors=vectors)
        assert (found.main.questions, found.left_out, found.conversations) == (16, 1, 1)
        assert (found.vectors is not None) == vectors
        assert found.main.recall["5"] >= 0.75
        assert found.main.recall["20"] >= found.main.recall["5"]


def test_an_evaluation_uses_a_temporary_store(tmp_path: Path, own_home: Path) -> None:
    """It is deleted afterwards."""
    told = list[tuple[int, int]]()
    path = write(tmp_path / "a.json", PLAIN)
    found = evaluate_recall(load_settings(), path, progress=lambda *now: told.append(now))
    assert (found.main.recall["5"], told) == (1.0, [(1, 1)])
    assert not list(own_home.rglob("*.db"))


@pytest.mark.shared
@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_recall_on_locomo_reaches_the_documented_quality(shared_data: Path) -> None:
    """Six conversations with the default options."""
    found = evaluate_recall(load_settings(), shared_data / "locomo" / "locomo-first6.json")
    assert found.main.questions == 883
    assert found.main.recall["5"] >= 0.63
    assert found.main.recall["10"] >= 0.73
    assert found.main.recall["20"] >= 0.79
    assert found.main.budget["4096"] >= 0.90
    assert found.main.session_hit_1 >= 0.73
    assert found.all.session_hit_1 >= 0.76


MEETING = {
    "topic_list": [],
    "general_query_list": [{"query": "Summarise it", "answer": "tea"}],
    "specific_query_list": [
        {"query": "What was said of tea?", "answer": "x", "relevant_text_span": [["1", "2"]]}
    ],
    "meeting_transcripts": [
        {"speaker": "Ada", "content": "welcome"},
        {"speaker": "Bela", "content": "the tea is cold"},
        {"speaker": "Ada", "content": "so it is"},
    ],
}


def test_qmsum_meetings_are_sessions_of_one_bank(tmp_path: Path) -> None:
    """Spans include both ends; a file and a folder give the same result."""
    file = tmp_path / "Product.jsonl"
    file.write_text(json.dumps(MEETING) + "\n\n" + json.dumps(MEETING) + "\n")
    for path in (file, tmp_path):
        found = read_set(path)
        (conversation,) = found.conversations
        assert (found.format, conversation.name) == ("qmsum", "Product")
        assert [turn.session for turn in conversation.turns] == ["1", "1", "1", "3", "3", "3"]
        assert [sorted(one.evidence) for one in conversation.questions] == [
            ["1:1", "1:2"],
            ["3:1", "3:2"],
        ]


@pytest.mark.parametrize(
    "change",
    [
        {"meeting_transcripts": [{"content": "no speaker"}]},
        {"specific_query_list": [{"query": "x"}]},
        {"specific_query_list": [{"query": "x", "relevant_text_span": [["2", "1"]]}]},
        {"specific_query_list": [{"query": "x", "relevant_text_span": [["0", "9999999999"]]}]},
    ],
)
def test_attack_an_invalid_meeting_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Spans of billions of turns, missing members."""
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps(MEETING) + "\n" + json.dumps(MEETING | change))
    with pytest.raises(MalformedError) as caught:
        read_set(file)
    assert caught.value.line == 2
