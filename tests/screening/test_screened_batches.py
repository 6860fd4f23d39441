"""Records looked at together: no secret is missed that looking at each by itself would find."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secrets_kit import Maker, card

from satchel.conformance.strategies import records
from satchel.model.records import Blob, Model, Semantic
from satchel.model.values import Origin
from satchel.screening.records import screened, suspects
from satchel.screening.secrets import KINDS

_ORDINARY = Semantic(
    text="The monkey broke the keyboard at 12:30; see https://example.org/a-b",
    created_at="2026-03-01T09:30:00.414003Z",
    metadata={"score": 0.87345234151234567, "hash": "3035d17a833df6962a1e1cbcf3eec26a"},
    origin=Origin(provider="mem0", id="892f902b-d23f-4824-928b-2f330c5c7fd0"),
)


def _around(draft: Model) -> list[Model]:
    return [_ORDINARY, draft, _ORDINARY]


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_found_among_ordinary_records(kind: str) -> None:
    """Wherever it stands: in the text, as a value, as a key."""
    text, secret = Maker(4).make(kind)
    for draft in (
        Semantic(text=text),
        Semantic(metadata={"note": {"deep": [text]}}),
        Semantic(metadata={text: True}),
        Semantic(text=f'said "{text}"\n\\ {text}'),
        Semantic(text="".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)),
        Semantic(text=text.upper()),
    ):
        if screened(draft):
            assert suspects(_around(draft)) == [1], (kind, draft)
    assert screened(Semantic(text=text)), secret


@pytest.mark.parametrize(
    "text",
    [
        "ПАРОЛЬ: Sommer-2031!kx",
        "contraseña: Sommer-2031!kx",
        "パスワード\uff1aSommer-2031!kx",
        "pass\u200bword: Sommer-2031!kx",
        "PASSWORD: Sommer-2031!kx",
        "api \u212aey = Sommer2031kxyzLm48",
        "\u017fecret token = Sommer2031kxyzLm48",
        f"4{card()[1:]}",
    ],
)
def test_attack_the_name_of_a_secret_in_another_spelling(text: str) -> None:
    """Capitals beyond ASCII, letters of full width, and letters that show nothing."""
    draft = Semantic(text=text)
    assert bool(suspects(_around(draft))) >= bool(screened(draft))


def test_ordinary_records_are_not_screened_again() -> None:
    """Ids, digests, fractions and words such as monkey are no signs; this is where time goes."""
    assert suspects([_ORDINARY] * 300) == []


def test_attack_text_that_cannot_be_encoded_is_screened_by_itself() -> None:
    """A lone surrogate hides no secret in the records beside it."""
    hidden = Semantic(text=Maker(1).make("github-token")[0])
    assert suspects([Semantic(text="\ud800"), hidden, Blob(digest="blake3:0", data="x")]) == [0, 1]


@given(st.lists(records(), max_size=6), st.integers(0, 2**32), st.data())
def test_batches_find_what_single_scans_find(
    drafts: list[Model], seed: int, data: st.DataObject
) -> None:
    """With a secret of any kind planted in any of them."""
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret
    text, _ = Maker(seed).make(drawn.choice(list(KINDS)))
    place = data.draw(st.integers(0, len(drafts)))
    drafts.insert(place, Semantic(text=text, tags=(data.draw(st.text(max_size=5)),)))

    found = suspects(drafts)
    assert found == sorted(set(found))
    assert {number for number, draft in enumerate(drafts) if screened(draft)} <= set(found)
