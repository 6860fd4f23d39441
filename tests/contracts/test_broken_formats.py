"""The conformance suite of formats fails for formats that break it."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from suite_kit import fails, shorten

from satchel.conformance import formats as suite
from satchel.conformance.formats import Subject
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats.mem0 import Mem0
from satchel.model.records import Entry, Model, Semantic
from satchel.model.values import Component, Origin
from satchel.ports.format import Location, ReadContext, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet

_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "mem0"
_Items = Iterator[Model | Sealed]


def _traits(**changes: Any) -> Any:
    return replace(Mem0.info, traits=replace(Mem0.info.traits, **changes))


class _Nameless(Mem0):
    """Has no title."""

    info = replace(Mem0.info, title="")


class _Undated(Mem0):
    """Has no date of its comparison with the product."""

    info = replace(Mem0.info, checked="recently")


class _WithoutLosses(Mem0):
    """Does not document its losses."""

    info = replace(Mem0.info, lost_on_writing="")


class _RecognizingNothing(Mem0):
    """Recognizes nothing."""

    def recognizes(self, place: Location) -> bool:
        return False


class _RecognizingEverything(Mem0):
    """Recognizes everything."""

    def recognizes(self, place: Location) -> bool:
        return True


class _SkippingRecords(Mem0):
    """Skips every second record."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        for index, item in enumerate(super().read(place, reading)):
            if index % 2:
                yield item


class _DroppingMembers(Mem0):
    """Drops members without a counterpart."""

    info = _traits(exact=False)

    def read(self, place: Location, reading: ReadContext) -> _Items:
        for item in super().read(place, reading):
            assert isinstance(item, Entry)
            yield msgspec.structs.replace(item, origin=Origin(provider="mem0"))


class _DroppingContainer(Mem0):
    """Drops the fields around the records."""

    info = _traits(exact=False)

    def read(self, place: Location, reading: ReadContext) -> _Items:
        yield from super().read(place, ReadContext(limits=reading.limits))


class _IgnoringErrors(Mem0):
    """Reads an invalid file as empty."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError:
            return


class _WithoutPosition(Mem0):
    """Raises errors without a position."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError as error:
            raise MalformedError(error.message) from None


class _Leaky(Mem0):
    """Raises the errors of the parser."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        json.loads(place.path.read_bytes())
        yield from super().read(place, reading)


class _CompletingFiles(Mem0):
    """Completes a truncated file."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError:
            yield Semantic(text="and so on")


class _TruncatingTexts(Mem0):
    """Truncates oversized values."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        whole = ReadContext(limits=DEFAULT_LIMITS, container=reading.container)
        try:
            for item in super().read(place, whole):
                assert isinstance(item, Entry)
                short = (item.text or "")[:100]
                yield msgspec.structs.replace(item, text=short, metadata={}, origin=None)
        except MalformedError:
            return


class _NumbersAsText(Mem0):
    """Writes integers as texts."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        target.path.write_text(target.path.read_text("utf-8").replace("1", '"1"'), "utf-8")


class _Adding(Mem0):
    """Writes an additional memory."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        text = target.path.read_text("utf-8").replace("[", '[{"memory": "buy now"}, ', 1)
        target.path.write_text(text, "utf-8")


class _NormalizingTexts(Mem0):
    """Trims and folds texts."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        document = json.loads(target.path.read_bytes())
        for row in document["results"] if isinstance(document, dict) else document:
            row["memory"] = " ".join(row["memory"].split()).casefold()
        target.path.write_text(json.dumps(document), "utf-8")


class _SingleOwner(Mem0):
    """Assigns every memory to one user, as seen in another product."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        document = json.loads(target.path.read_bytes())
        for row in document["results"]:
            row["user_id"] = "the first user"
        target.path.write_text(json.dumps(document), "utf-8")


class _HidingLosses(Mem0):
    """Drops members without a report."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, WriteContext(keys=writing.keys))


class _OverstatingTraits(_HidingLosses):
    """Claims to support every type."""

    info = _traits(components=frozenset(Component))


class _ReplacingIds(Mem0):
    """Claims to keep IDs, and replaces them."""

    info = _traits(keeps_ids=True)


class _NotDeterministic(Mem0):
    """Writes different bytes each time."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        with target.path.open("a") as stream:
            stream.write(" " * (1 + secrets.randbelow(2**20)))


class _NotStreaming(Mem0):
    """Reads everything before it yields a record."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        yield from list(super().read(place, reading))


class _ReadingClock(Mem0):
    """Depends on the clock."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        import time

        time.time()
        yield from super().read(place, reading)


class _AddingIds(Mem0):
    """Adds random IDs."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        for item in super().read(place, reading):
            assert isinstance(item, Entry)
            yield msgspec.structs.replace(item, kind=secrets.token_hex(4))


class _ReadingEnvironment(Mem0):
    """Depends on the environment."""

    def read(self, place: Location, reading: ReadContext) -> _Items:
        import os

        reading.container["home"] = os.environ.get("HOME")
        yield from super().read(place, reading)


class _NotAtomic(Mem0):
    """Overwrites the old file during the write."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        target.path.write_bytes(b"[")
        super().write(records, target, writing)


class _IgnoringWriteErrors(Mem0):
    """Ignores a full disk."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        try:
            super().write(records, target, writing)
        except Exception:  # noqa: BLE001 - on purpose
            return


class _AddingMembers(Mem0):
    """Adds members on writing."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        text = target.path.read_text("utf-8").replace('"metadata": {', '"metadata": {"new": 1,')
        target.path.write_text(text, "utf-8")


_BROKEN: dict[str, Iterable[type[Mem0]]] = {
    "test_its_reference_is_complete": [_Nameless, _Undated, _WithoutLosses],
    "test_it_recognizes_its_own_samples": [_RecognizingNothing],
    "test_no_other_format_claims_its_samples": [
        Mem0
    ],  # the sample belongs to a format of another name
    "test_it_claims_no_junk": [_RecognizingEverything],
    "test_samples_read_as_expected": [_SkippingRecords, _DroppingMembers, _AddingIds],
    "test_nothing_in_a_sample_vanishes": [_DroppingMembers, _DroppingContainer],
    "test_bad_samples_are_refused": [_IgnoringErrors, _WithoutPosition, _Leaky],
    "test_junk_is_refused_not_crashed_on": [_Leaky],
    "test_a_cut_file_is_refused_not_crashed_on": [_Leaky, _CompletingFiles],
    "test_hostile_sizes_are_refused": [_TruncatingTexts, _IgnoringErrors],
    "test_reading_and_writing_again_changes_nothing": [_NumbersAsText, _Adding, _NormalizingTexts],
    "test_plain_text_survives": [_NormalizingTexts],
    "test_what_it_claims_to_hold_survives": [_SingleOwner, _Adding, _HidingLosses],
    "test_what_it_cannot_hold_is_reported": [_HidingLosses, _OverstatingTraits],
    "test_records_come_back_under_their_ids": [_ReplacingIds],
    "test_the_same_memory_gives_the_same_bytes": [_NotDeterministic],
    "test_it_streams_if_it_says_so": [_NotStreaming],
    "test_reading_depends_on_the_file_alone": [_ReadingClock, _AddingIds, _ReadingEnvironment],
    "test_a_failing_write_leaves_the_target_as_it_was": [_NotAtomic, _IgnoringWriteErrors],
    "test_it_comes_through_an_artifact_unchanged": [_AddingMembers, _Adding],
}


def _suite_tests() -> dict[str, Callable[..., None]]:
    return {name: found for name, found in vars(suite).items() if name.startswith("test_")}


def test_each_test_of_formats_has_a_broken_format() -> None:
    """So a new test needs one."""
    assert _suite_tests()
    assert set(_suite_tests()) == set(_BROKEN)
    assert set(suite.__all__) >= set(_BROKEN)


@pytest.mark.in_check(13)
@pytest.mark.parametrize(
    ("test_name", "broken"),
    [(name, one) for name, several in _BROKEN.items() for one in several],
)
def test_the_suite_detects_each_broken_format(
    test_name: str, broken: type[Mem0], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skip does not count as a failure.

    ``test_formats.py`` runs the same tests with the correct format.
    """
    check: Any = _suite_tests()[test_name]
    shorten(check, monkeypatch)
    assert fails(lambda: check(subject=Subject("broken", broken(), _SAMPLES)))


def test_tests_are_skipped_only_by_traits() -> None:
    """A format without traits skips the tests that need one, and no others."""

    class WithoutTraits(Mem0):
        info = replace(Mem0.info, traits=Traits(components=frozenset(), writes=False))

    skipped = set()
    for name, check in _suite_tests().items():
        with suppress(AssertionError):  # failures do not matter here
            try:
                check(subject=Subject("mem0", WithoutTraits(), _SAMPLES))
            except pytest.skip.Exception:
                skipped.add(name)

    assert skipped == {
        "test_reading_and_writing_again_changes_nothing",
        "test_plain_text_survives",
        "test_what_it_claims_to_hold_survives",
        "test_what_it_cannot_hold_is_reported",
        "test_records_come_back_under_their_ids",
        "test_the_same_memory_gives_the_same_bytes",
        "test_it_streams_if_it_says_so",
        "test_a_failing_write_leaves_the_target_as_it_was",
    }
