"""Near-duplicates: what a cosine finds and words confirm, listed, left out or merged."""

import sys
from collections.abc import Sequence
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_kit import bring, opened, rows, sealed_from, texts, write

from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.errors import MissingExtraError, UsageError
from satchel.inference import static_table
from satchel.inference.static_table import StaticTable
from satchel.model.records import Entry
from satchel.recall import near_duplicates
from satchel.recall.duplicates import NearDuplicateMode, duplicates
from satchel.recall.near_duplicates import DuplicateIndex, may_be_same, text_features
from satchel.transfer import import_job, import_stage
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.imports import undo_import

LIST, SKIP, MERGE = NearDuplicateMode.LIST, NearDuplicateMode.SKIP, NearDuplicateMode.MERGE
SEATS = ("Ada prefers window seats on long flights", "Ada prefers a window seat on long flights")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the meeting is in room 101", "the meeting is in room 102"),
        ("the meeting is in room101", "the meeting is in room102"),
        ("it costs 1.50 euros", "it costs 150 euros"),
        ("call her at 5 and at 7", "call her at 7 and at 5"),
        ("she has two cats", "she has three cats"),
        ("the door was left unlocked on monday", "the door was left unlocked on tuesday"),
        ("Ada likes tea", "Ada does not like tea"),
        ("Ada likes tea", "Ada doesn't like tea"),
        ("Ada likes tea", "Ada doesn\u2019t like tea"),
        ("Ada likes tea", "Ada likes no tea"),
        ("Ada mag Tee", "Ada mag keinen Tee"),
        ("Ada aime le café", "Ada aime pas le café"),
        ("Ada likes tea", "Ada hates tea"),
        ("Ada likes tea", "Bob likes tea"),
        ("we met Ada at the station", "we met Bob at the station"),
        ("She lives here. Ada is well", "She lives here. Bob is well"),
        ("Ada paid Bob", "Bob paid Ada"),
        ("Ada paid Bob in full for it", "Bob paid Ada in full for all of it"),
        ("the dog bites the man", "the man bites the dog"),
        ("he likes tea", "she likes tea"),
        ("write to ada@example.org", "write to bob@example.org"),
        ("the file is in src/a.py", "the file is in src/b.py"),
        ("she works for IBM", "she works for SAP"),
        ("田中さんはお茶が好きです", "山田さんはお茶が好きです"),
        ("אדה אוהבת תה", "בוב אוהב תה"),
        ("Иван любит чай", "Пётр любит чай"),
    ],
)
def test_texts_that_differ_in_what_matters_are_never_duplicates(one: str, other: str) -> None:
    """Numbers, negations, names, likings and who did what to whom are compared, not guessed."""
    assert not may_be_same(text_features(one), text_features(other))
    assert not may_be_same(text_features(other), text_features(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        SEATS,
        ("Ada likes green tea.", "Ada likes green tea"),
        ("The user lives in Berlin", "User lives in Berlin"),
        ("she has two small cats", "She has two little cats"),
        ("お茶が好きです。", "お茶が好きです"),
    ],
)
def test_texts_that_say_the_same_may_be_duplicates(one: str, other: str) -> None:
    """Other words for the same, articles and full stops are no difference."""
    assert may_be_same(text_features(one), text_features(other))


_WORDS = [
    "the",
    "a",
    "green",
    "fresh",
    "tea",
    "coffee",
    "morning",
    "garden",
    "small",
    "old",
    "likes",
    "makes",
    "buys",
    "Ada",
    "Bob",
    "5",
    "not",
]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=8), max_size=30),
    st.integers(0, 30),
    st.sampled_from([0.75, 0.92, 1.0]),
)
def test_what_is_found_is_what_comparing_each_with_each_finds(
    given_words: list[list[str]], fresh: int, least: float
) -> None:
    """The bound that saves the work loses nothing."""
    said = [" ".join(words) for words in given_words]
    model = StaticTable()
    vectors = np.array([np.frombuffer(one, "<f4") for one in model.embed(said)])
    slow = set()
    for later in range(min(fresh, len(said)), len(said)):
        for before in range(later):
            alike = said[before] == said[later]
            if alike or (
                vectors[before] @ vectors[later] >= least
                and may_be_same(text_features(said[before]), text_features(said[later]))
            ):
                slow.add(str(later))
    with DuplicateIndex(model) as there:
        for at, text in enumerate(said):
            if at == fresh:
                there.begin()
            there.add(str(at), text)
        if fresh >= len(said):
            there.begin()
        assert set(there.twins(least)) == slow


def test_groups_and_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are compared in blocks; where one ends is seen nowhere."""
    said = [" ".join(some) for some in islice(permutations(_WORDS[:10], 4), 0, 5040, 42)]

    def found() -> Any:
        with DuplicateIndex(StaticTable()) as there:
            for at, text in enumerate(said):
                there.add(str(at), text)
            return there.twins(0.9)

    whole = found()
    monkeypatch.setattr(near_duplicates, "_FIRST", 7)
    monkeypatch.setattr(near_duplicates, "_SECOND", 5)
    monkeypatch.setattr(near_duplicates, "_HIT", 2)
    monkeypatch.setattr(near_duplicates, "_TOGETHER", 11)
    assert found() == whole
    assert whole


def test_only_texts_of_one_group_are_compared() -> None:
    """What one user said is never told beside what another said."""
    with DuplicateIndex(StaticTable()) as there:
        there.add("1", SEATS[0], "ada")
        there.add("2", SEATS[1], "bob")
        there.add("3", SEATS[1], "ada")
        assert {name: [one.name for one in found] for name, found in there.twins().items()} == {
            "3": ["1"]
        }


def test_very_many_equal_losses_take_little_memory_and_few_are_listed() -> None:
    """Attack: texts of which each is like each other; pairs would be millions."""
    with DuplicateIndex(StaticTable()) as there:
        for at in range(1500):
            there.add(f"same {at}", "tea is ready")
            there.add(f"like {at}", f"the tea is ready now {'very ' * (at % 300)}soon")
        found = there.twins()
    assert max(map(len, found.values())) <= 8
    assert len(found) > 1499


def file(path: Path, *said: str, first: int = 1, **more: Any) -> Path:
    """Write memories of a user."""
    return write(path, rows(*((str(n), text) for n, text in enumerate(said, first)), **more))


def test_an_import_lists_them_and_takes_them_all_the_same(tmp_path: Path) -> None:
    """Looking changes nothing."""
    bring(file(tmp_path / "a.json", SEATS[0], "room 101"))
    done = bring(file(tmp_path / "b.json", SEATS[1], "room 102", first=3), near_duplicates=LIST)

    assert [(one.text, one.like_text) for one in done.near] == [(SEATS[1], SEATS[0])]
    assert done.near_found == 1
    assert texts() == [SEATS[0], "room 101", SEATS[1], "room 102"]


def test_a_dry_run_lists_them_unasked_and_an_import_does_not_look(tmp_path: Path) -> None:
    """A plain import is not slower for it."""
    path = file(tmp_path / "a.json", *SEATS)

    assert bring(path, dry_run=True).near_found == 1
    assert bring(path, dry_run=True, near_duplicates=NearDuplicateMode.OFF).near_found == 0
    assert bring(path).near_found == 0


def test_skipped_ones_stay_away_also_the_next_time(tmp_path: Path) -> None:
    """One of what is alike is kept: what is only like something that was left out is not lost."""
    path = file(tmp_path / "a.json", SEATS[0], "room 101", SEATS[1], SEATS[0])
    done = bring(path, near_duplicates=SKIP)
    again = bring(path, near_duplicates=SKIP)

    assert texts() == [SEATS[0], "room 101"]
    assert done.banks[0].done.near == 2
    assert (again.banks[0].done.added, again.banks[0].done.near) == (0, 2)


def test_merged_ones_take_the_place_and_undo_brings_the_others_back(tmp_path: Path) -> None:
    """The one before is superseded, not gone."""
    bring(file(tmp_path / "a.json", SEATS[0]))
    done = bring(file(tmp_path / "b.json", SEATS[1], first=2), near_duplicates=MERGE)

    assert done.banks[0].done.merged == 1
    assert texts() == [SEATS[1]]
    assert texts(retired=True) == [SEATS[0], SEATS[1]]
    undo_import(load_settings(), "b", None)
    assert texts() == [SEATS[0]]


class _KilledError(BaseException):
    """What no handler catches."""


@pytest.mark.parametrize("mode", [SKIP, MERGE])
def test_a_killed_transfer_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: NearDuplicateMode
) -> None:
    """The same memories are left out or replaced, and none comes twice."""
    monkeypatch.setattr(import_stage, "GROUP", 2)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)
    said = [*SEATS, *(f"room {n} is free" for n in range(6)), SEATS[0] + "!"]
    path = file(tmp_path / "a.json", *said)

    def killed(done: int, _total: int) -> None:
        if done > 3:
            raise _KilledError

    with pytest.raises(_KilledError):
        bring(path, near_duplicates=mode, on_logging=killed)
    done = bring(path, near_duplicates=mode).banks[0]
    whole = bring(path, "whole", near_duplicates=mode).banks[0]

    assert done.resumed == 4
    assert texts() == texts("whole")
    assert done.done == whole.done
    assert len(texts()) == 7


def test_a_new_version_of_a_memory_is_no_near_duplicate_of_the_old_one(tmp_path: Path) -> None:
    """Whoever wants other versions overwritten gets them, however like they are."""
    bring(file(tmp_path / "a.json", SEATS[0]))
    done = bring(
        file(tmp_path / "b.json", SEATS[1]),
        near_duplicates=SKIP,
        on_conflict=ConflictPolicy.OVERWRITE,
    )

    assert done.banks[0].done.overwritten == 1
    assert texts() == [SEATS[1]]


def test_each_user_is_compared_with_himself_only(tmp_path: Path) -> None:
    """Two users who say the same are two users."""
    path = write(
        tmp_path / "a.json", rows(("1", SEATS[0]), user="ada"), rows(("2", SEATS[1]), user="bob")
    )
    done = bring(path, None, near_duplicates=SKIP)

    assert [one.done.added for one in done.banks] == [1, 1]


def test_a_sealed_file_is_compared_too(tmp_path: Path) -> None:
    """Its records keep their ids."""
    path = sealed_from(file(tmp_path / "a.json", *SEATS), tmp_path / "a.pam")
    done = bring(path, near_duplicates=SKIP)

    assert done.banks[0].done.near == 1
    assert texts() == [SEATS[0]]


def test_a_bank_lists_its_own_receipts(tmp_path: Path) -> None:
    """With both texts, and no more pairs than asked for."""
    bring(file(tmp_path / "a.json", *SEATS, "room 101", "room 102", SEATS[0] + "!"))
    with opened() as bank:
        found = duplicates(bank)
        few = duplicates(bank, limit=1)

        assert [one.memory.text for one in found.pairs] == [SEATS[1], SEATS[0] + "!"]
        assert {one.like.text for one in found.pairs} == {SEATS[0]}
        assert (found.memories, found.found, len(few.pairs), few.found) == (5, 2, 1, 2)
        for wrong in (0.2, 1.5, float("nan")):
            with pytest.raises(UsageError):
                duplicates(bank, similarity=wrong)


def test_without_numpy_an_import_works_and_asking_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what needs it says that it is missing, before anything is changed."""
    static_table._bundled_table.cache_clear()
    monkeypatch.setitem(sys.modules, "numpy", None)
    path = file(tmp_path / "a.json", *SEATS)
    with pytest.raises(MissingExtraError):
        bring(path, near_duplicates=SKIP)
    assert bring(path, dry_run=True).near == []
    assert bring(path).banks[0].done.added == 2


def entities(bank: str = "b") -> Sequence[list[tuple[str, str | None]]]:
    """Return the entities of a bank's memories."""
    with open_bank(load_settings(), bank) as there, there.ledger.reading() as view:
        found = [one.model for one in view.scan() if isinstance(one.model, Entry)]
        return [[(one.name, one.entity_type) for one in entry.entities] for entry in found]


def test_entities_are_extracted_again_only_on_request(tmp_path: Path) -> None:
    """And the import's record says by what."""
    path = file(tmp_path / "a.json", "Ada Lovelace moved from Boston to Porto")
    bring(path, "plain")
    done = bring(path, "b", re_extract_entities=True)

    assert entities("plain") == [[]]
    assert entities() == [[("Ada Lovelace", "person"), ("Boston", "place"), ("Porto", "place")]]
    assert "satchel-rules/1" in done.notes[0]
    with opened() as bank, bank.ledger.reading() as view:
        source = view.get([done.banks[0].source or ""]).popitem()[1]
        assert source.model.metadata == {"entities": "satchel-rules/1"}


def test_entities_of_what_is_sealed_are_left_alone(tmp_path: Path) -> None:
    """Nobody changes what somebody signed."""
    path = sealed_from(file(tmp_path / "a.json", *SEATS), tmp_path / "a.pam")
    with pytest.raises(UsageError):
        bring(path, re_extract_entities=True)


def test_an_import_makes_vectors_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of everything in the bank that has none."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    path = file(tmp_path / "a.json", *SEATS)
    bring(path)
    done = bring(path, re_embed=True).banks[0]

    assert done.embedded is not None
    assert (done.embedded.made, done.embedded.kept) == (2, 0)


def test_a_large_import_says_that_its_vectors_are_still_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes none: what is not complete is not used, and would only cost time."""
    path = file(tmp_path / "a.json", *SEATS)
    monkeypatch.setattr(import_job, "STEP", len(SEATS) - 1)
    done = bring(path)
    assert [note for note in done.notes if "satchel embed" in note]
    with open_bank(load_settings()) as bank, bank.ledger.reading() as view:
        assert view.generations() == {}
