"""The lexical reranker: what each part adds to a score."""

import pytest

from satchel.recall.rerankers import LexicalReranker

FILLER = "and then it was so late that nobody knew where to go"


def scores(question: str, *texts: str) -> list[float]:
    """Score texts for a question."""
    return LexicalReranker().scores(question, texts)


def test_a_text_with_all_of_the_words_scores_above_one_with_some() -> None:
    """A text with none of them scores zero."""
    every, some, none = scores(
        "Which ferry goes to the harbour?",
        "The ferry goes to the harbour.",
        "The ferry was late again.",
        "It rained all day.",
    )

    assert 1 >= every > some > none == 0


@pytest.mark.parametrize(("rare", "usual"), [("harbour", "people"), ("Melanie", "time")])
def test_a_rare_word_counts_more_than_a_common_one(rare: str, usual: str) -> None:
    """The rarity of a word does not depend on the other texts."""
    with_rare, with_usual = scores(f"{usual} {rare}", f"a {rare} here", f"a {usual} here")

    assert with_rare > with_usual


def test_adjacent_words_of_the_question_count_more_when_adjacent() -> None:
    """Both texts have the same words within one passage."""
    close, apart = scores("harbour ferry", f"harbour ferry {FILLER}", f"harbour {FILLER} ferry")

    assert close > apart


def test_words_in_one_passage_count_more_than_words_far_apart() -> None:
    """Both texts have the same words, none adjacent, and the same length."""
    passage, far = scores(
        "harbour ferry",
        f"harbour {FILLER} ferry {FILLER} {FILLER} {FILLER}",
        f"harbour {FILLER} {FILLER} {FILLER} {FILLER} ferry",
    )

    assert passage > far


def test_the_shorter_of_two_texts_with_the_same_words_scores_higher() -> None:
    """A long text has some of any question's words."""
    brief, long = scores("harbour ferry", "harbour ferry", f"harbour ferry {FILLER * 20}")

    assert brief > long


def test_words_of_scripts_without_spaces_are_found() -> None:
    """They are compared as pairs of characters, as in the index."""
    found, other = scores("金曜日の会議", "次の金曜日に会議があります", "雨が降っています")

    assert found > other


def test_a_question_without_words_scores_zero() -> None:
    """Punctuation alone ranks nothing."""
    assert scores("?!", "harbour", "") == [0.0, 0.0]


def test_a_bounded_length_of_each_text_is_read() -> None:
    """At most 8,192 characters are read, and at most 64 terms are searched."""
    text = "harbour ferry " * 600
    question = " ".join(f"word{number}" for number in range(63)) + " harbour ferry"

    assert scores(question, text) == scores(question, text + "ferry " * 100_000)
