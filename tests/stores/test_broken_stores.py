"""The contract suite itself: every check fails for a broken store, and runs for every store."""

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import broken_stores as broken
import pytest
from broken_stores import Broken, View
from hypothesis import HealthCheck, Phase, settings

from satchel.conformance import stores as promises
from satchel.conformance.stores import StoreSubject, side_data
from satchel.conformance.stores.oracle import bench
from satchel.conformance.stores.traits import needs
from satchel.ports.store import StoreTraits
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

_Make = Callable[[Path], StoreSubject]


def _memory(saboteur: type[View] | type[Broken] | type[InMemoryStore]) -> _Make:
    """Return a factory of a store in memory that is broken in one way."""

    def make(_: Path) -> StoreSubject:
        if issubclass(saboteur, InMemoryStore):
            return StoreSubject("memory", saboteur)
        if issubclass(saboteur, View):
            return StoreSubject("memory", lambda: Broken(InMemoryStore(), saboteur))
        return StoreSubject("memory", lambda: saboteur(InMemoryStore()))

    return make


def _sqlite(view: type[View]) -> _Make:
    """Return a factory of a store on disk that is broken in one way."""

    def make(folder: Path) -> StoreSubject:
        names = itertools.count()
        return StoreSubject(
            "sqlite",
            lambda: broken.on_disk(view, folder / f"{next(names)}.db"),
            lambda store: partial(broken.on_disk, view, Path(store.name)),
            SqliteStore,
        )

    return make


def _file(saboteur: type[broken.WholeFile]) -> _Make:
    """Return a factory of a store that is one pickled file."""

    def make(folder: Path) -> StoreSubject:
        names = itertools.count()
        return StoreSubject(
            "file",
            lambda: saboteur(folder / str(next(names))),
            lambda store: partial(saboteur, Path(store.name)),
        )

    return make


def _copying(saboteur: type[Broken]) -> _Make:
    """Return a factory of a store on disk whose copies are broken."""

    def make(folder: Path) -> StoreSubject:
        names = itertools.count()
        return StoreSubject(
            "sqlite",
            lambda: saboteur(SqliteStore(folder / f"{next(names)}.db")),
            open_copy=SqliteStore,
        )

    return make


def _forgetful(_: Path) -> StoreSubject:
    return StoreSubject("forgetful", broken.Forgetful, lambda _: broken.Forgetful)


def _unopened(_: Path) -> StoreSubject:
    return StoreSubject("unopened", broken.Forgetful)


_FILTERS = (
    *("types", "kinds", "user", "agent", "run", "app", "session", "slot"),
    *("since", "until", "as_of"),
)
_TEXTS = ("slot", "kind", "user", "agent", "run", "app", "body")
_STATES = {"batch": 0, "retired": None, "hold": False}

_SABOTEURS: dict[str, list[_Make]] = {
    "test_it_reports_its_traits": [_memory(broken.Nameless)],
    "test_a_new_store_is_empty": [
        _memory(broken.Furnished),
        _memory(broken.HeadOfNothing),
    ],
    "test_appended_records_are_read_back_byte_for_byte": [
        *(_memory(broken.forgets(name, value)) for name, value in _STATES.items()),
        _memory(broken.LosesTheLast),
        _memory(broken.Unordered),
        _memory(broken.SwapsBodies),
        _memory(broken.CountsOnce),
        _memory(broken.NodesOffByOne),
        _memory(broken.NodesLost),
        _sqlite(broken.LosesTheLast),
    ],
    "test_hostile_texts_are_returned_unchanged": [
        *(_memory(broken.forgets(name)) for name in _TEXTS),
        _memory(broken.CutsAtNul),
        _memory(broken.Composes),
        _memory(broken.Trims),
    ],
    "test_texts_that_only_look_alike_are_different": [
        _memory(broken.CutsAtNul),
        _memory(broken.Composes),
        _memory(broken.IgnoresCase),
        _memory(broken.Trims),
    ],
    "test_the_largest_record_is_stored_completely": [_memory(broken.CutsLong)],
    "test_an_erased_record_keeps_its_log_position": [_memory(broken.EmptyForErased)],
    "test_side_values_are_set_and_removed_with_the_rows": [
        _memory(broken.AnyPrefix),
        _memory(broken.KeepsSide),
    ],
    "test_a_bank_without_a_head_is_not_listed": [
        _memory(broken.ListsTheBegun),
        _sqlite(broken.ForgetsTheBegun),
    ],
    "test_banks_are_listed_by_id_prefix_up_to_a_limit": [
        _memory(broken.AnyStart),
        _memory(broken.BanksWithoutEnd),
        _memory(broken.ListsTheBegun),
    ],
    "test_banks_are_found_by_name": [
        _memory(broken.MissesRenamed),
        _memory(broken.MissesFounded),
        _memory(broken.StartsOfNames),
        _memory(broken.StaleNames),
    ],
    "test_a_bank_is_found_by_any_of_its_names": [
        _memory(broken.FirstNameOnly),
        _memory(broken.MissesRenamed),
    ],
    "test_texts_of_memories_name_no_bank": [
        _memory(broken.NamedByMemories),
        _memory(broken.NamesTheBegun),
        _memory(broken.StaleNames),
    ],
    "test_a_renamed_bank_is_found_by_its_new_name": [_memory(broken.StaleNames)],
    "test_banks_are_isolated": [
        _memory(broken.OneListing),
        _memory(broken.OneSide),
        _memory(broken.FindsEverywhere),
    ],
    "test_an_absent_bank_is_empty": [
        _memory(broken.HeadOfNothing),
        _memory(broken.OneListing),
        _memory(broken.OneSide),
        _memory(broken.FindsEverywhere),
    ],
    "test_log_positions_and_ids_are_found_in_any_order": [
        _memory(broken.IgnoresAfter),
        _memory(broken.FindsTwice),
        _memory(broken.CountsFromTheEnd),
        _memory(broken.MissesIds),
    ],
    "test_blocks_contain_the_rows_of_their_positions_and_name_marked_ones": [
        _memory(broken.ForgetsMarks),
        _memory(broken.StartsAtTheFirstBlock),
        _memory(broken.GoesOnToTheLastBlock),
        _memory(broken.BlocksOfOneSize),
    ],
    "test_values_are_the_same_with_and_without_marks": [_memory(broken.OtherValuesWithoutMarks)],
    "test_different_values_of_a_column_are_different_bytes": [
        _memory(broken.JoinsValues),
        _memory(broken.SameForAllColumns),
    ],
    "test_every_column_can_be_read": [_memory(broken.SameForAllColumns)],
    "test_all_links_of_a_bank_are_listed": [
        _memory(broken.LinksOfAll),
        _memory(broken.LinksOnce),
    ],
    "test_rows_that_differ_from_the_word_index_are_reported": [_memory(broken.NeverMisindexed)],
    "test_the_log_positions_found_by_words_are_reported": [_memory(broken.WordsOfAllRows)],
    "test_all_data_belongs_to_a_bank": [_memory(broken.Orphaning)],
    "test_ids_are_found_by_prefix": [
        _memory(broken.AnyDigits),
        _memory(broken.DigitsOfPairs),
        _memory(broken.IdsOfAll),
        _memory(broken.IdsWithoutEnd),
        _memory(broken.CapitalDigits),
    ],
    "test_each_member_of_a_filter_is_applied": [
        *(_memory(broken.ignores(name)) for name in (*_FILTERS, "retired", "held")),
        _memory(broken.UntilIncluded),
        _memory(broken.Unordered),
        _memory(broken.IgnoresAfter),
        _memory(broken.IgnoresChanges),
    ],
    "test_filters_find_what_the_oracle_finds": [
        *(_memory(broken.ignores(name)) for name in ("kinds", "session", "since", "as_of")),
        _memory(broken.IgnoresAfter),
        _memory(broken.IgnoresChanges),
    ],
    "test_a_listing_streams": [_sqlite(broken.Greedy)],
    "test_traversals_reach_what_the_oracle_reaches": [_memory(broken.AnyKind)],
    "test_a_traversal_visits_each_node_once_at_its_shortest_distance": [_memory(broken.OneWayWalk)],
    "test_a_traversal_stops_at_its_budget_and_reports_it": [_memory(broken.Tireless)],
    "test_links_of_retired_or_quarantined_rows_are_not_followed": [_memory(broken.WalksAll)],
    "test_all_shortest_paths_between_two_nodes_are_found": [_memory(broken.OneEach)],
    "test_links_are_followed_both_ways": [
        _memory(broken.OneWay),
        _memory(broken.NoParents),
        _memory(broken.Unsorted),
    ],
    "test_words_find_current_rows_only": [
        _sqlite(broken.Mute),
        _sqlite(broken.LatinOnly),
        _sqlite(broken.RemembersWords),
    ],
    "test_words_find_rows_of_one_bank_only": [_sqlite(broken.WordsOfAll)],
    "test_the_best_matches_come_first_up_to_the_limit": [
        _sqlite(broken.WorstFirst),
        _sqlite(broken.Boundless),
    ],
    "test_common_words_find_nothing_if_others_are_rarer": [
        _sqlite(broken.CommonToo),
        _memory(broken.CommonToo),
    ],
    "test_common_words_alone_still_find_rows": [
        _sqlite(broken.Mute),
        _sqlite(broken.KeepsStopWords),
    ],
    "test_a_filter_excludes_rows_found_by_words": [
        _sqlite(broken.WantsAll),
        _memory(broken.WantsAll),
    ],
    "test_words_find_what_the_oracle_finds": [_sqlite(broken.CommonToo)],
    "test_a_listing_is_newest_first_on_request": [_memory(broken.OldestFirst)],
    "test_a_turn_is_found_by_the_words_of_the_previous_turn": [_sqlite(broken.Turnless)],
    "test_a_slot_has_one_current_row": [
        _memory(broken.TakesSlotTwice),
        _memory(broken.IgnoresChanges),
    ],
    "test_a_record_is_logged_once": [_memory(broken.LogsTwice)],
    "test_a_refused_append_leaves_nothing_if_its_transaction_continues": [
        _memory(broken.KeepsPart)
    ],
    "test_a_failed_transaction_leaves_nothing": [
        _memory(broken.EagerSide),
        _memory(broken.Eager),
    ],
    "test_uncommitted_rows_are_not_visible": [
        _memory(broken.EagerSide),
        _memory(broken.Eager),
    ],
    "test_a_view_does_not_see_later_commits": [_memory(broken.Moving)],
    "test_a_new_view_sees_all_committed_rows": [_memory(broken.Stale)],
    "test_writers_in_many_threads_are_serialized": [_memory(broken.Unlocked)],
    "test_it_can_be_closed_twice": [_memory(broken.FailsClosing)],
    "test_committed_rows_are_durable_after_reopening": [_forgetful, _unopened],
    "test_committed_rows_are_durable_after_the_process_is_killed": [
        _forgetful,
        _unopened,
        _file(broken.SavesLast),
    ],
    "test_writers_in_several_processes_are_serialized": [
        _forgetful,
        _unopened,
        _file(broken.WholeFile),
    ],
    "test_a_raw_copy_is_a_consistent_snapshot": [
        _copying(broken.CopiesTheNewest),
        _copying(broken.CopiesOver),
    ],
    "test_a_replaced_row_is_found_by_its_new_content": [
        _memory(broken.ReplacesNothing),
        _sqlite(broken.ReplacesNothing),
        _memory(broken.ReplacesBytesOnly),
        _sqlite(broken.ReplacesBytesOnly),
    ],
    "test_an_erased_row_keeps_only_its_leaf_and_its_state": [
        _memory(broken.ErasesNothing),
        _memory(broken.ErasesBytesOnly),
        _sqlite(broken.ErasesBytesOnly),
    ],
    "test_an_erased_row_is_not_found_by_links_words_or_vectors": [
        _memory(broken.ErasesNothing),
        _memory(broken.KeepsVectorsOfErased),
        _sqlite(broken.KeepsVectorsOfErased),
        _sqlite(broken.ErasesBytesOnly),
    ],
    "test_a_turn_is_not_found_by_the_words_of_an_erased_previous_turn": [
        _sqlite(broken.ErasesNothing),
        _sqlite(broken.RemembersTurns),
    ],
    "test_an_erasure_is_committed_with_its_rows_or_not_at_all": [_memory(broken.ErasesAtOnce)],
    "test_a_row_rewritten_without_a_body_keeps_nothing_else": [_memory(broken.RewritesFullOnly)],
    "test_a_removed_bank_leaves_nothing": [
        _memory(broken.RemovesNothing),
        _memory(broken.RemovesAll),
        _memory(broken.KeepsSideOfRemoved),
    ],
    "test_a_removal_is_rolled_back_with_its_transaction": [_memory(broken.RemovesAtOnce)],
    "test_scrubbing_changes_no_result": [
        _memory(broken.ScrubsTooMuch),
        _memory(broken.ScrubsRetired),
    ],
    "test_the_stamp_changes_when_another_process_writes": [
        _unopened,
        _sqlite(broken.SameStamp),
        _sqlite(broken.RestlessStamp),
    ],
}


def _settings(examples: int) -> settings:
    return settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


_THOROUGH, _BRIEF = _settings(500), _settings(10)


def _checks() -> dict[str, Callable[..., None]]:
    """Return all checks except those of vectors and blobs, which tests/contracts breaks."""
    return {
        name: found
        for name, found in vars(promises).items()
        if name.startswith("test_") and not hasattr(side_data, name)
    }


def _outcome(
    promise: str, subject: StoreSubject, patch: pytest.MonkeyPatch, how: settings = _BRIEF
) -> str:
    """Return whether a check passed, failed or was skipped; a crash is none of these."""
    check: Any = _checks()[promise]
    # Not through the decorator, which would change the promise for the other modules too.
    patch.setattr(check, "_hypothesis_internal_use_settings", how, raising=False)
    try:
        with TemporaryDirectory() as folder:
            more = {"tmp_path": Path(folder)} if "tmp_path" in signature(check).parameters else {}
            check(store=subject, **more)
    except AssertionError:
        return "broken"
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        return "broken" if isinstance(outcome, pytest.fail.Exception) else "skipped"
    return "kept"


def test_every_check_has_a_store_that_breaks_it() -> None:
    """A new check comes with such a store; a suite without checks is a mistake."""
    assert _checks()
    assert set(_checks()) == set(_SABOTEURS)
    assert set(promises.__all__) >= set(_SABOTEURS)
    assert all(_SABOTEURS.values())


def _pairs() -> Iterator[Any]:
    for promise, saboteurs in _SABOTEURS.items():
        for number, make in enumerate(saboteurs):
            yield pytest.param(promise, make, id=f"{promise}-{number}")


@pytest.mark.in_check(56)
@pytest.mark.parametrize(("promise", "make"), [*_pairs()])
def test_every_check_fails_for_a_store_that_breaks_it(
    promise: str, make: _Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an assertion; a skip or a crash shows nothing."""
    assert _outcome(promise, make(tmp_path), monkeypatch, _THOROUGH) == "broken"


@pytest.mark.in_check(22)
@pytest.mark.parametrize("promise", sorted(_SABOTEURS))
def test_every_check_passes_for_a_correct_store_behind_the_same_wrapper(
    promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failures above therefore come from the defect, not from the wrapper."""
    assert _outcome(promise, _sqlite(View)(tmp_path), monkeypatch) == "kept"


def test_a_check_is_skipped_only_for_a_trait_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store without traits skips only the checks that need one."""

    class Modest(InMemoryStore):
        traits = StoreTraits(durable=False)

    subject = StoreSubject("modest", Modest)
    outcomes = {name: _outcome(name, subject, monkeypatch) for name in _checks()}
    skipped = {name for name, outcome in outcomes.items() if outcome == "skipped"}

    assert set(outcomes.values()) == {"kept", "skipped"}
    assert skipped == {
        "test_rows_that_differ_from_the_word_index_are_reported",
        "test_the_log_positions_found_by_words_are_reported",
        "test_words_find_current_rows_only",
        "test_words_find_rows_of_one_bank_only",
        "test_the_best_matches_come_first_up_to_the_limit",
        "test_common_words_find_nothing_if_others_are_rarer",
        "test_common_words_alone_still_find_rows",
        "test_a_filter_excludes_rows_found_by_words",
        "test_words_find_what_the_oracle_finds",
        "test_a_turn_is_found_by_the_words_of_the_previous_turn",
        "test_a_turn_is_not_found_by_the_words_of_an_erased_previous_turn",
        "test_committed_rows_are_durable_after_reopening",
        "test_committed_rows_are_durable_after_the_process_is_killed",
        "test_writers_in_several_processes_are_serialized",
        "test_traversals_reach_what_the_oracle_reaches",
        "test_a_traversal_visits_each_node_once_at_its_shortest_distance",
        "test_a_traversal_stops_at_its_budget_and_reports_it",
        "test_links_of_retired_or_quarantined_rows_are_not_followed",
        "test_all_shortest_paths_between_two_nodes_are_found",
        "test_a_raw_copy_is_a_consistent_snapshot",
        "test_the_stamp_changes_when_another_process_writes",
    }


ROOT = Path(__file__).parent.parent.parent
STORES = {"ladybug", "memory", "postgresql", "sqlite"}


def test_the_contract_has_the_same_number_of_tests_for_every_store() -> None:
    """Otherwise a store could miss a check unnoticed."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "tests/stores/test_store_contract.py"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    found = Counter(re.findall(r"^\S+::test_\w+\[(\w+)[\]-]", done.stdout, re.MULTILINE))
    assert found.keys() == STORES
    assert len(set(found.values())) == 1
    assert min(found.values()) >= len(needs())


def test_every_check_declares_the_traits_that_it_needs() -> None:
    """The table in the docs is generated from it."""
    asked = needs()
    assert asked.keys() == {name for name in vars(promises) if name.startswith("test_")}
    traits = {field.name for field in fields(StoreTraits)}
    assert frozenset.union(*asked.values()) == traits
    assert not any(len(wanted) > 1 for wanted in asked.values())


def test_a_missing_trait_is_the_only_way_to_skip_a_check() -> None:
    """The skip names the trait that the store does not claim."""
    folder = Path(promises.__file__).parent
    skips = [
        path.name
        for path in folder.glob("*.py")
        if re.search(r"\b(?:pytest|mark)\.(?:skip|xfail)", path.read_text())
    ]
    assert skips == ["oracle.py"]

    class Modest(InMemoryStore):
        traits = StoreTraits(durable=False)

    with bench(StoreSubject("modest", Modest)) as both:
        for field in fields(StoreTraits):
            with pytest.raises(pytest.skip.Exception, match=f"does not claim `{field.name}`"):
                both.need(field.name)
    with bench(StoreSubject("memory", InMemoryStore)) as both:
        both.need("full_text")
