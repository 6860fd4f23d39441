"""Each promise fails for a format that breaks it; a promise that cannot fail proves nothing."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings

from satchel.conformance import formats as promises
from satchel.conformance.formats import Subject
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats.mem0 import Mem0
from satchel.model.records import Entry, Model, Semantic
from satchel.model.values import Component, Origin
from satchel.ports.format import Place, ReadContext, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet

_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "mem0"
_Items = Iterator[Model | Sealed]


def _traits(**changes: Any) -> Any:
    return replace(Mem0.info, traits=replace(Mem0.info.traits, **changes))


class _Nameless(Mem0):
    """Has no title."""

    info = replace(Mem0.info, title="")


class _Undated(Mem0):
    """Was compared with the real product some day."""

    info = replace(Mem0.info, checked="recently")


class _Secretive(Mem0):
    """Does not say what it cannot hold."""

    info = replace(Mem0.info, lost_on_writing="")


class _Blind(Mem0):
    """Recognizes nothing."""

    def recognizes(self, place: Place) -> bool:
        return False


class _Vain(Mem0):
    """Recognizes everything as its own."""

    def recognizes(self, place: Place) -> bool:
        return True


class _Forgetful(Mem0):
    """Leaves out every second record."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        for index, item in enumerate(super().read(place, reading)):
            if index % 2:
                yield item


class _Vague(Mem0):
    """Leaves out what it has no place for, without a word."""

    info = _traits(exact=False)

    def read(self, place: Place, reading: ReadContext) -> _Items:
        for item in super().read(place, reading):
            assert isinstance(item, Entry)
            yield msgspec.structs.replace(item, origin=Origin(provider="mem0"))


class _Careless(Mem0):
    """Leaves out the fields around the records."""

    info = _traits(exact=False)

    def read(self, place: Place, reading: ReadContext) -> _Items:
        yield from super().read(place, ReadContext(limits=reading.limits))


class _Lenient(Mem0):
    """Reads what it does not understand as nothing."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError:
            return


class _Placeless(Mem0):
    """Refuses without saying where."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError as error:
            raise MalformedError(error.message) from None


class _Leaky(Mem0):
    """Lets the parser's own errors out."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        json.loads(place.path.read_bytes())
        yield from super().read(place, reading)


class _Inventive(Mem0):
    """Makes up the end of a cut file."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        try:
            yield from super().read(place, reading)
        except MalformedError:
            yield Semantic(text="and so on")


class _Boundless(Mem0):
    """Cuts what is too large down to what fits."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        whole = ReadContext(limits=DEFAULT_LIMITS, container=reading.container)
        try:
            for item in super().read(place, whole):
                assert isinstance(item, Entry)
                short = (item.text or "")[:100]
                yield msgspec.structs.replace(item, text=short, metadata={}, origin=None)
        except MalformedError:
            return


class _Rounding(Mem0):
    """Writes whole numbers back as texts."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        target.path.write_text(target.path.read_text("utf-8").replace("1", '"1"'), "utf-8")


class _Adding(Mem0):
    """Writes one memory more than there is."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        text = target.path.read_text("utf-8").replace("[", '[{"memory": "buy now"}, ', 1)
        target.path.write_text(text, "utf-8")


class _Tidy(Mem0):
    """Trims and folds texts on writing."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        document = json.loads(target.path.read_bytes())
        for row in document["results"] if isinstance(document, dict) else document:
            row["memory"] = " ".join(row["memory"].split()).casefold()
        target.path.write_text(json.dumps(document), "utf-8")


class _Scopeless(Mem0):
    """Gives every memory to the first user, as a peer was seen to do."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        document = json.loads(target.path.read_bytes())
        for row in document["results"]:
            row["user_id"] = "the first user"
        target.path.write_text(json.dumps(document), "utf-8")


class _Silent(Mem0):
    """Drops what it cannot hold without a word."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, WriteContext(keys=writing.keys))


class _Boastful(_Silent):
    """Claims to hold everything."""

    info = _traits(components=frozenset(Component))


class _Renaming(Mem0):
    """Says that ids come back, and gives new ones."""

    info = _traits(keeps_ids=True)


class _Fickle(Mem0):
    """Writes something new each time."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        with target.path.open("a") as stream:
            stream.write(" " * (1 + secrets.randbelow(2**20)))


class _Greedy(Mem0):
    """Reads everything before it yields anything."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        yield from list(super().read(place, reading))


class _Dating(Mem0):
    """Fills in times that are missing."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        import time

        time.time()
        yield from super().read(place, reading)


class _Numbering(Mem0):
    """Gives a new id to what has none."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        for item in super().read(place, reading):
            assert isinstance(item, Entry)
            yield msgspec.structs.replace(item, kind=secrets.token_hex(4))


class _Local(Mem0):
    """Reads differently on another machine."""

    def read(self, place: Place, reading: ReadContext) -> _Items:
        import os

        reading.container["home"] = os.environ.get("HOME")
        yield from super().read(place, reading)


class _Direct(Mem0):
    """Writes over the old file as it goes."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        target.path.write_bytes(b"[")
        super().write(records, target, writing)


class _Deaf(Mem0):
    """Takes a full disk for success."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        try:
            super().write(records, target, writing)
        except Exception:  # noqa: BLE001 - what it is here to do
            return


class _Unwritable(Mem0):
    """Reads more than can be written again."""

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        super().write(records, target, writing)
        text = target.path.read_text("utf-8").replace('"metadata": {', '"metadata": {"new": 1,')
        target.path.write_text(text, "utf-8")


_SABOTEURS: dict[str, Iterable[type[Mem0]]] = {
    "test_its_reference_is_complete": [_Nameless, _Undated, _Secretive],
    "test_it_recognizes_its_own_samples": [_Blind],
    "test_no_other_format_claims_its_samples": [Mem0],  # under another name it is another's sample
    "test_it_claims_no_junk": [_Vain],
    "test_samples_read_as_expected": [_Forgetful, _Vague, _Numbering],
    "test_nothing_in_a_sample_vanishes": [_Vague, _Careless],
    "test_bad_samples_are_refused": [_Lenient, _Placeless, _Leaky],
    "test_junk_is_refused_not_crashed_on": [_Leaky],
    "test_a_cut_file_is_refused_not_crashed_on": [_Leaky, _Inventive],
    "test_hostile_sizes_are_refused": [_Boundless, _Lenient],
    "test_reading_and_writing_again_changes_nothing": [_Rounding, _Adding, _Tidy],
    "test_plain_text_survives": [_Tidy],
    "test_what_it_claims_to_hold_survives": [_Scopeless, _Adding, _Silent],
    "test_what_it_cannot_hold_is_reported": [_Silent, _Boastful],
    "test_records_come_back_under_their_ids": [_Renaming],
    "test_the_same_memory_gives_the_same_bytes": [_Fickle],
    "test_it_streams_if_it_says_so": [_Greedy],
    "test_reading_depends_on_the_file_alone": [_Dating, _Numbering, _Local],
    "test_a_failing_write_leaves_the_target_as_it_was": [_Direct, _Deaf],
    "test_it_comes_through_an_artifact_unchanged": [_Unwritable, _Adding],
}


_QUICKLY = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=200,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _promises() -> dict[str, Callable[..., None]]:
    return {name: found for name, found in vars(promises).items() if name.startswith("test_")}


def test_there_are_promises_and_each_has_a_saboteur() -> None:
    """A new promise comes with a format that breaks it; a suite without promises is a mistake."""
    assert _promises()
    assert set(_promises()) == set(_SABOTEURS)
    assert set(promises.__all__) >= set(_SABOTEURS)


@pytest.mark.parametrize(
    ("promise", "saboteur"),
    [(name, one) for name, several in _SABOTEURS.items() for one in several],
)
def test_a_broken_promise_is_noticed(
    promise: str, saboteur: type[Mem0], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise fails for its saboteur; skipping it would hide the break.

    That it holds for the honest format, ``test_formats.py`` shows on the same samples.
    """
    check: Any = _promises()[promise]
    # Not through the decorator, which would change the promise for the other modules too.
    monkeypatch.setattr(check, "_hypothesis_internal_use_settings", _QUICKLY, raising=False)
    noticed = False
    try:
        check(subject=Subject("saboteur", saboteur(), _SAMPLES))
    except Exception:  # noqa: BLE001 - a crash of the saboteur counts as noticed
        noticed = True
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        noticed = isinstance(outcome, pytest.fail.Exception)

    assert noticed


def test_a_trait_that_is_off_is_the_only_way_to_skip() -> None:
    """A format that claims nothing skips what needs a trait, and nothing else."""

    class Modest(Mem0):
        info = replace(Mem0.info, traits=Traits(components=frozenset(), writes=False))

    skipped = set()
    for name, check in _promises().items():
        with suppress(AssertionError):  # what it claims is not the matter here
            try:
                check(subject=Subject("mem0", Modest(), _SAMPLES))
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
