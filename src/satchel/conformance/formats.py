"""What every format promises, one test function a promise.

Use it on your own format: import everything from here in a test module of yours and define a
session-scoped fixture ``subject`` that returns a ``Subject``. A promise that a declared trait
switches off is skipped for that reason only; there is no other way to skip one.
"""

import errno
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, cast
from unittest.mock import patch

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.artifact.encodings import Encoding, Header, write_artifact
from satchel.conformance.strategies import memories, simplest
from satchel.conformance.subject import ReadResult, Subject, plain_bytes, record_set, sealed
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits, decode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, TargetError, UnknownFormatError
from satchel.model.records import RECORD_CLASSES
from satchel.model.values import Component, read_time
from satchel.ports.format import Location, ReadContext, Target, formats
from satchel.ports.record_set import Report, open_record_set

SMALL = Limits(line_bytes=2**16, entry_bytes=2**16, document_bytes=2**20)
_HUGE = 3 * 2**20
_DEEP = 200_000


def leaves(value: object) -> Counter[Any]:
    """Return the texts and numbers in a JSON value, with their counts."""
    match value:
        case bool() | None:
            return Counter()
        case int() | float():
            return Counter([_number(value)])
        case dict():
            return sum(map(leaves, value.values()), Counter())
        case list():
            return sum(map(leaves, value), Counter())
        case _:
            return Counter([value])


def hostile_versions(subject: Subject, sample: Path) -> Iterator[bytes]:
    """Yield the sample with its longest text replaced by a huge one, and by a deep nest."""
    data = plain_bytes(sample)
    texts = [leaf for value in subject.parse(data) for leaf in leaves(value)]
    longest = max((leaf for leaf in texts if isinstance(leaf, str)), key=len)
    huge, nest = "x" * _HUGE, b"[" * _DEEP + b"]" * _DEEP
    swaps = [(json.dumps(longest).encode(), json.dumps(huge).encode(), nest)]
    swaps += [(json.dumps(longest, ensure_ascii=False).encode(), *swaps[0][1:])]
    swaps += [(cbor2.dumps(longest), cbor2.dumps(huge), b"\x81" * _DEEP + b"\x00")]
    swaps += [(longest.encode(), huge.encode(), nest)]  # in a database, unchanged
    found, *replacements = next(swap for swap in swaps if swap[0] in data)
    for replacement in replacements:
        yield data.replace(found, replacement, 1)


def comparable(value: Any) -> Any:
    """Return a value that compares as the JSON: ``true`` is not 1, NaN equals itself."""
    match value:
        case dict():
            return {key: comparable(part) for key, part in value.items()}
        case list():
            return [comparable(part) for part in value]
        case bool() | None | str() | bytes():
            return value
        case _:
            return _number(value)


def _number(value: float) -> tuple[str, int]:
    """Return a value that is equal for 1 and 1.0, for two NaNs, not for neighbors beyond 2^53."""
    whole = float(value).is_integer()
    return ("", int(value)) if whole else (repr(value), 0)


@dataclass(frozen=True)
class TricklingLocation(Location):
    """A file that returns a few bytes at a time."""

    @property
    def given(self) -> list[int]:
        """Number of bytes that were read, as the only item of a list."""
        return cast("list[int]", self.__dict__.setdefault("_given", [0]))

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file."""
        with super().open() as stream:
            read = stream.read

            def slowly(size: int = -1) -> bytes:
                data = read(16 if size < 0 else min(size, 16))
                self.given[0] += len(data)
                return data

            yield cast("BinaryIO", type("Slow", (), {"read": staticmethod(slowly)})())


@dataclass(frozen=True)
class FullDisk(Target):
    """A target on a full disk."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield a file that fails at the first byte written."""
        with super().open() as stream:
            yield cast("BinaryIO", _Full(stream))


class _Full:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.writelines = self.write

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_FIRST_YEAR = 2024
_OF_THE_TRANSFER = frozenset({"source", "receipt"})
_JUNK = (
    b"",
    b"\xef\xbb\xbf",
    b"{}",
    b"[]",
    b"null\n",
    b'"memory"',
    b'{"name":"left-pad","version":"1.3.0","scripts":{"test":"true"}}',
    b'{"note":"about \\"memory\\": \\"x\\" and {\\"statement\\":"}',
    b"id,text\n1,hello\n",
    b"<!doctype html><title>memory</title>",
    b"\x89PNG\r\n\x1a\n",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"\xa1",
    b"PAM",
)


def test_its_reference_is_complete(subject: Subject) -> None:
    """Title, specification, a real check date, and what it cannot hold are declared."""
    info = subject.adapter.info

    assert info.title
    assert info.spec
    assert date.fromisoformat(info.checked).year >= _FIRST_YEAR
    assert all("." in suffix for suffix in info.suffixes)
    if info.traits.writes and info.traits.components < frozenset(Component):
        assert info.lost_on_writing


def test_it_recognizes_its_own_samples(subject: Subject) -> None:
    """Each good sample is recognized by its first bytes, and shows a sign, if any are declared."""
    signs = subject.adapter.info.signs
    for sample in subject.good():
        assert subject.adapter.recognizes(Location(sample)), sample.name
        assert signs is None or signs.fit(Location(sample)), sample.name


def test_no_other_format_claims_its_samples(subject: Subject) -> None:
    """A user never has to choose between two formats of a good sample."""
    for sample in subject.good():
        others = [
            name
            for name, other in formats.items()
            if name != subject.name and other.recognizes(Location(sample))
        ]

        assert others == [], sample.name


# No text and no product's magic bytes start with NUL; anything else may be recognized.
@given(junk=st.one_of(st.sampled_from(_JUNK), st.binary(max_size=200).map(b"\0".__add__)))
def test_it_claims_no_junk(subject: Subject, junk: bytes) -> None:
    """Junk is not recognized."""
    with subject.folder() as folder:
        path = folder / "junk"
        path.write_bytes(junk)

        with suppress(InputError):  # what it reports as damaged it does not recognize
            assert not subject.adapter.recognizes(Location(path))


def test_samples_read_as_expected(subject: Subject) -> None:
    """Each good sample gives exactly the records in the JSON file beside it."""
    for sample in subject.good():
        expected = json.loads(subject.expectation(sample).read_bytes())

        assert subject.take(sample).contents == expected, sample.name


def test_nothing_in_a_sample_vanishes(subject: Subject) -> None:
    """Each text and number in a good sample is stored, or counted as lost or ignored."""
    for sample in subject.good():
        result = subject.take(sample)
        stored = leaves(_stored_values(subject, sample, result))
        missing = [
            leaf
            for value in subject.parse(sample.read_bytes())
            for leaf in leaves(value)
            if leaf not in stored and _as_time(leaf) not in stored
        ]

        counted = result.report.total + result.report.ignored.total()
        assert len(missing) <= counted, f"{sample.name}: {missing}"


def _stored_values(subject: Subject, sample: Path, result: ReadResult) -> list[Any]:
    """Return where a value of the sample may be: records, container, seal, output."""
    stored: list[Any] = [decode_foreign([record.value for record in result.records])]
    stored.append(decode_foreign(result.container))
    traits = subject.adapter.info.traits
    with record_set(subject, sample) as records:
        if records.sealed is not None:
            stored.append([records.sealed.statement])
            stored.append([[mark.key, mark.sig] for mark in records.sealed.signatures])
            stored.extend(json.loads(line.data) for line in records.body.lines())
        if traits.exact and traits.writes:
            with subject.written(records, sample.name) as (path, _):
                stored.extend(subject.parse(path.read_bytes()))
    return stored


def _as_time(leaf: Any) -> str | None:
    return read_time(leaf) if isinstance(leaf, str) else None


def test_bad_samples_are_refused(subject: Subject) -> None:
    """Each bad sample raises an InputError with the file, and the line, byte or field."""
    for sample in subject.bad():
        with pytest.raises(InputError) as refusal:
            subject.take(sample)

        error = refusal.value
        assert error.file == str(sample), sample.name
        if not isinstance(error, EmptyInputError):
            assert (error.line, error.byte, error.field) != (None, None, None), sample.name


@given(junk=st.one_of(st.sampled_from(_JUNK), st.binary(max_size=200)))
def test_junk_is_refused_not_crashed_on(subject: Subject, junk: bytes) -> None:
    """Any bytes are either read or refused with a typed error."""
    with _refusing():
        subject.take_bytes(junk, like=subject.good()[0])


@given(data=st.data())
def test_a_cut_file_is_refused_not_crashed_on(subject: Subject, data: st.DataObject) -> None:
    """A good sample cut anywhere is refused, or read up to the cut.

    A cut in plain text cannot be detected, so the only promise is that nothing crashes.
    """
    sample = data.draw(st.sampled_from(subject.good()))
    whole = sample.read_bytes()
    length = data.draw(st.integers(0, len(whole) - 1))
    with _refusing():
        found = subject.take_bytes(whole[:length], like=sample).contents

        if not subject.adapter.info.traits.plain:
            assert found == subject.take(sample).contents[: len(found)]


def test_hostile_sizes_are_refused(subject: Subject) -> None:
    """A text of megabytes and a nesting of 200,000 levels raise an error, without a crash."""
    for sample in subject.good():
        for hostile in hostile_versions(subject, sample):
            with pytest.raises(InputError):
                subject.take_bytes(
                    hostile, like=Path(sample.name.removesuffix(".gz")), limits=SMALL
                )


def test_reading_and_writing_again_changes_nothing(subject: Subject) -> None:
    """An exact format reproduces every good sample: an equal value; a sealed one, every byte."""
    subject.need("writes")
    subject.need("exact")
    for sample in subject.good():
        with (
            record_set(subject, sample) as records,
            subject.written(records, sample.name) as (path, report),
        ):
            assert report.total == 0, sample.name
            if subject.adapter.info.traits.sealed:
                assert plain_bytes(path) == plain_bytes(sample), sample.name
            else:
                before, after = (subject.parse(file.read_bytes()) for file in (sample, path))
                assert comparable(after) == comparable(before), sample.name


@given(data=st.data())
def test_plain_text_survives(subject: Subject, data: st.DataObject) -> None:
    """A plain text entry of each type that the format claims preserves its text."""
    subject.need("writes")
    memory = data.draw(memories(subject.adapter.info.traits))
    plain = [type(entry)(text=entry.text) for entry in memory]
    with sealed(plain) as records, subject.written(records) as (path, report):
        again = [leaves(content) for content in subject.take(path).contents]

        assert not {"text", *subject.adapter.info.traits.components} & _lost(report)
        assert len(again) == len(plain)
        for entry in plain:
            assert entry.text == "" or any(entry.text in content for content in again)


@given(data=st.data())
def test_what_it_claims_to_hold_survives(subject: Subject, data: st.DataObject) -> None:
    """Every member of every entry written is read back, or reported as lost."""
    subject.need("writes")
    memory = data.draw(memories(subject.adapter.info.traits))
    with sealed(memory) as records, subject.written(records) as (path, report):
        again, lost = subject.take(path).contents, _lost(report)
        for kind in sorted(subject.adapter.info.traits.components - lost):
            before = [record.value for record in records.of(kind)]
            after = [content for content in again if content["type"] == kind]
            if not subject.adapter.info.traits.ordered:
                before, after = (sorted(found, key=_by_text) for found in (before, after))

            assert len(after) == len(before)
            for one, other in zip(before, after, strict=True):
                gone = [
                    name for name in one if name not in _NOT_ITS_OWN and not _in(one, name, other)
                ]
                assert {*gone} <= lost


def _by_text(content: dict[str, Any]) -> str:
    return str(content.get("text", ""))


_NOT_ITS_OWN = frozenset({"id", "nonce", "origin"})
"""Members that a reader fills in."""


def _in(entry: dict[str, Any], name: str, back: dict[str, Any]) -> bool:
    """Return whether a member was read back; its text may be in another member."""
    part = entry[name]
    if back.get(name) == part or part == "":
        return True
    words = leaves(part)
    return bool(words) and words.keys() <= leaves(back).keys()


def _lost(report: Report) -> set[str]:
    return {loss.name.partition("/")[0] for loss in report.losses.values()}


def test_what_it_cannot_hold_is_reported(subject: Subject) -> None:
    """Every record that is missing when read back was counted as lost."""
    subject.need("writes")
    kinds = [name for name in RECORD_CLASSES if name not in _OF_THE_TRANSFER]
    with (
        sealed(simplest(kind) for kind in kinds) as records,
        subject.written(records) as (path, report),
    ):
        back = Counter(record.type for record in subject.take(path).records)

    assert {*subject.adapter.info.traits.components} <= {*back}
    assert report.total >= len(kinds) - sum(min(1, back[kind]) for kind in kinds)


@given(data=st.data())
def test_records_come_back_under_their_ids(subject: Subject, data: st.DataObject) -> None:
    """A format that preserves IDs returns every entry as the same record, with its links."""
    subject.need("keeps_ids")
    memory = data.draw(memories(subject.adapter.info.traits))
    with sealed(memory) as records, subject.written(records) as (path, _):
        before = Counter(record.id for record in records)

        assert Counter(record.id for record in subject.take(path).records) == before


@given(data=st.data())
def test_the_same_memory_gives_the_same_bytes(subject: Subject, data: st.DataObject) -> None:
    """Writing twice produces identical bytes, also with other names and folders."""
    subject.need("writes")
    with sealed(data.draw(memories(subject.adapter.info.traits))) as records:
        with subject.written(records) as (path, _):
            once = path.read_bytes()
        with subject.written(records) as (path, _):
            assert path.read_bytes() == once


def test_it_streams_if_it_says_so(subject: Subject) -> None:
    """The first record is available before the last byte was read, even from a slow source."""
    subject.need("streams")
    several = [path for path in subject.good() if len(subject.take(path).records) > 1]
    assert several
    for sample in several:
        location = TricklingLocation(sample)
        first = next(iter(subject.adapter.read(location, ReadContext())))

        assert first is not None
        assert location.given[0] < sample.stat().st_size, sample.name


def test_reading_depends_on_the_file_alone(subject: Subject) -> None:
    """No clock, randomness, network or environment: reading twice returns the same."""
    for sample in subject.good():
        before = _read_plain(subject, sample)
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, {"HOME": "/nowhere", "TZ": "X"}, clear=True))
            for name in _WORLD if not subject.adapter.info.traits.sealed else _WORLD[:2]:
                refusal = AssertionError(f"a reader called {name}")
                stack.enter_context(patch(name, side_effect=refusal))
            after = _read_plain(subject, sample)

        assert after == before, sample.name


_WORLD = (
    "socket.socket",
    "socket.create_connection",
    "time.time",
    "random.random",
    "os.urandom",
    "secrets.token_bytes",
    "secrets.token_hex",
    "uuid.uuid4",
)


def _read_plain(subject: Subject, sample: Path) -> list[Any]:
    reading = ReadContext()
    found = list(subject.adapter.read(Location(sample), reading))
    if any(isinstance(item, Sealed) for item in found):
        return [subject.take(sample).contents, reading.container]
    return [*found, reading.container]


def test_a_failing_write_leaves_the_target_as_it_was(subject: Subject) -> None:
    """A full disk is a TargetError; the old file is intact, and no other file remains."""
    subject.need("writes")
    with record_set(subject, subject.good()[0]) as records, subject.folder() as folder:
        path = folder / f"out{subject.suffix}"
        path.write_bytes(b"the old file")
        with pytest.raises(TargetError):
            subject.write(records, FullDisk(path, overwrite=True))

        assert path.read_bytes() == b"the old file"
        assert list(folder.iterdir()) == [path]


def test_it_comes_through_an_artifact_unchanged(subject: Subject) -> None:
    """Read, sealed in an artifact, opened, written and read again: the same content."""
    for sample in subject.good():
        with record_set(subject, sample) as records, subject.folder() as folder:
            before = subject.take(sample).contents
            path = folder / "between.pam.jsonl"
            statement = Header().statement(records.totals)
            with path.open("wb") as sink:
                write_artifact(sink, Encoding.JSONL, records.body, statement, [])
            with open_record_set(path, DEFAULT_LIMITS) as opened:
                assert [*opened] == [*records], sample.name
                if subject.adapter.info.traits.writes:
                    with subject.written(opened, sample.name) as (again, report):
                        after = subject.take(again).contents
                        assert report.total or _sorted(after) == _sorted(before), sample.name


def _sorted(contents: list[dict[str, Any]]) -> list[str]:
    shown = (comparable(decode_foreign(content)) for content in contents)
    return sorted(json.dumps(one, sort_keys=True, default=repr) for one in shown)


@contextmanager
def _refusing() -> Iterator[None]:
    with suppress(InputError, UnknownFormatError):
        yield


__all__ = ["Subject"]
__all__ += [name for name in globals() if name.startswith("test_")]
