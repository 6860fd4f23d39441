"""Near-duplicates: found by cosine and confirmed by words, then listed, skipped or merged."""

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
def test_texts_with_relevant_differences_are_never_duplicates(one: str, other: str) -> None:
    """Numbers, negations, names, preferences and roles are compared, not guessed."""
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
def test_texts_with_the_same_meaning_can_be_duplicates(one: str, other: str) -> None:
    """Synonyms, articles and full stops are not differences."""
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
def test_the_search_finds_the_same_pairs_as_comparing_all_pairs(
    given_words: list[list[str]], fresh: int, least: float
) -> None:
    """The bound that saves work loses nothing."""
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
    """Texts are compared in blocks; a block boundary does not affect the result."""
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
    """One user's memory is never listed next to another's."""
    with DuplicateIndex(StaticTable()) as there:
        there.add("1", SEATS[0], "ada")
        there.add("2", SEATS[1], "bob")
        there.add("3", SEATS[1], "ada")
        assert {name: [one.name for one in found] for name, found in there.twins().items()} == {
            "3": ["1"]
        }


def test_attack_very_many_similar_texts_take_little_memory() -> None:
    """Attack: all texts are similar to each other; there would be millions of pairs."""
    with DuplicateIndex(StaticTable()) as there:
        for at in range(1500):
            there.add(f"same {at}", "tea is ready")
            there.add(f"like {at}", f"the tea is ready now {'very ' * (at % 300)}soon")
        found = there.twins()
    assert max(map(len, found.values())) <= 8
    assert len(found) > 1499


def write_memories(path: Path, *said: str, first: int = 1, **more: Any) -> Path:
    """Write memories of a user."""
    return write(path, rows(*((str(n), text) for n, text in enumerate(said, first)), **more))


def test_an_import_lists_near_duplicates_and_imports_them(tmp_path: Path) -> None:
    """Listing changes nothing."""
    bring(write_memories(tmp_path / "a.json", SEATS[0], "room 101"))
    done = bring(
        write_memories(tmp_path / "b.json", SEATS[1], "room 102", first=3), near_duplicates=LIST
    )

    assert [(one.text, one.like_text) for one in done.near] == [(SEATS[1], SEATS[0])]
    assert done.near_found == 1
    assert texts() == [SEATS[0], "room 101", SEATS[1], "room 102"]


def test_a_dry_run_lists_near_duplicates_and_a_plain_import_does_not_search_them(
    tmp_path: Path,
) -> None:
    """A plain import is not slower for it."""
    path = write_memories(tmp_path / "a.json", *SEATS)

    assert bring(path, dry_run=True).near_found == 1
    assert bring(path, dry_run=True, near_duplicates=NearDuplicateMode.OFF).near_found == 0
    assert bring(path).near_found == 0


def test_skipped_near_duplicates_are_skipped_again(tmp_path: Path) -> None:
    """One of each group stays: a text that is only similar to a skipped one is not lost."""
    path = write_memories(tmp_path / "a.json", SEATS[0], "room 101", SEATS[1], SEATS[0])
    done = bring(path, near_duplicates=SKIP)
    again = bring(path, near_duplicates=SKIP)

    assert texts() == [SEATS[0], "room 101"]
    assert done.banks[0].done.near == 2
    assert (again.banks[0].done.added, again.banks[0].done.near) == (0, 2)


def test_merged_near_duplicates_replace_the_old_ones_until_undone(tmp_path: Path) -> None:
    """The older one is superseded, not removed."""
    bring(write_memories(tmp_path / "a.json", SEATS[0]))
    done = bring(write_memories(tmp_path / "b.json", SEATS[1], first=2), near_duplicates=MERGE)

    assert done.banks[0].done.merged == 1
    assert texts() == [SEATS[1]]
    assert texts(retired=True) == [SEATS[0], SEATS[1]]
    undo_import(load_settings(), "b", None)
    assert texts() == [SEATS[0]]


class _KilledError(BaseException):
    """Not caught by any handler."""


@pytest.mark.parametrize("mode", [SKIP, MERGE])
def test_a_killed_import_resumes_its_near_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: NearDuplicateMode
) -> None:
    """The same memories are skipped or replaced, and none is imported twice."""
    monkeypatch.setattr(import_stage, "GROUP", 2)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)
    said = [*SEATS, *(f"room {n} is free" for n in range(6)), SEATS[0] + "!"]
    path = write_memories(tmp_path / "a.json", *said)

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


def test_a_new_version_is_not_a_near_duplicate_of_the_old_one(tmp_path: Path) -> None:
    """With overwrite it is imported, however similar they are."""
    bring(write_memories(tmp_path / "a.json", SEATS[0]))
    done = bring(
        write_memories(tmp_path / "b.json", SEATS[1]),
        near_duplicates=SKIP,
        on_conflict=ConflictPolicy.OVERWRITE,
    )

    assert done.banks[0].done.overwritten == 1
    assert texts() == [SEATS[1]]


def test_memories_of_different_users_are_not_compared(tmp_path: Path) -> None:
    """Two users with the same text are two users."""
    path = write(
        tmp_path / "a.json", rows(("1", SEATS[0]), user="ada"), rows(("2", SEATS[1]), user="bob")
    )
    done = bring(path, None, near_duplicates=SKIP)

    assert [one.done.added for one in done.banks] == [1, 1]


def test_near_duplicates_of_a_sealed_file_are_found(tmp_path: Path) -> None:
    """Its records keep their IDs."""
    path = sealed_from(write_memories(tmp_path / "a.json", *SEATS), tmp_path / "a.pam")
    done = bring(path, near_duplicates=SKIP)

    assert done.banks[0].done.near == 1
    assert texts() == [SEATS[0]]


def test_a_bank_lists_its_own_near_duplicates(tmp_path: Path) -> None:
    """With both texts, and no more pairs than requested."""
    bring(write_memories(tmp_path / "a.json", *SEATS, "room 101", "room 102", SEATS[0] + "!"))
    with opened() as bank:
        found = duplicates(bank)
        few = duplicates(bank, limit=1)

        assert [one.memory.text for one in found.pairs] == [SEATS[1], SEATS[0] + "!"]
        assert {one.like.text for one in found.pairs} == {SEATS[0]}
        assert (found.memories, found.found, len(few.pairs), few.found) == (5, 2, 1, 2)
        for wrong in (0.2, 1.5, float("nan")):
            with pytest.raises(UsageError):
                duplicates(bank, similarity=wrong)


def test_without_numpy_only_the_near_duplicate_search_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported before anything is changed."""
    static_table._bundled_table.cache_clear()
    monkeypatch.setitem(sys.modules, "numpy", None)
    path = write_memories(tmp_path / "a.json", *SEATS)
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
    """The import's record names the extractor."""
    path = write_memories(tmp_path / "a.json", "Ada Lovelace moved from Boston to Porto")
    bring(path, "plain")
    done = bring(path, "b", re_extract_entities=True)

    assert entities("plain") == [[]]
    assert entities() == [[("Ada Lovelace", "person"), ("Boston", "place"), ("Porto", "place")]]
    assert "satchel-rules/1" in done.notes[0]
    with opened() as bank, bank.ledger.reading() as view:
        source = view.get([done.banks[0].source or ""]).popitem()[1]
        assert source.model.metadata == {"entities": "satchel-rules/1"}


def test_entities_of_sealed_records_are_not_changed(tmp_path: Path) -> None:
    """They are covered by the signature."""
    path = sealed_from(write_memories(tmp_path / "a.json", *SEATS), tmp_path / "a.pam")
    with pytest.raises(UsageError):
        bring(path, re_extract_entities=True)


def test_an_import_makes_vectors_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every memory of the bank without one."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    path = write_memories(tmp_path / "a.json", *SEATS)
    bring(path)
    done = bring(path, re_embed=True).banks[0]

    assert done.embedded is not None
    assert (done.embedded.made, done.embedded.kept) == (2, 0)


def test_a_large_import_reports_that_its_vectors_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes none: an incomplete generation is not used, and would only cost time."""
    path = write_memories(tmp_path / "a.json", *SEATS)
    monkeypatch.setattr(import_job, "STEP", len(SEATS) - 1)
    done = bring(path)
    assert [note for note in done.notes if "satchel embed" in note]
    with open_bank(load_settings()) as bank, bank.ledger.reading() as view:
        assert view.generations() == {}
