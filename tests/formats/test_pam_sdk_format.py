"""Files of the published SDK as a format: reading, writing and reported losses."""

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.artifact.encodings import ArtifactBuilder
from satchel.artifact.pam_sdk.layout import COMPONENTS, EVENT_TYPES, LANGUAGES, root_hash
from satchel.artifact.pam_sdk.writer import dump_json, make_document, make_entry
from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import verify_file
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import LimitError, MalformedError, ValueRefusedError
from satchel.formats.pam_sdk import FORMAT
from satchel.model.records import (
    Edge,
    Entry,
    Episodic,
    Identity,
    Model,
    Procedural,
    Semantic,
    Source,
    Status,
    Working,
)
from satchel.model.values import Entity, Origin, Scope, TrustClass
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import RecordSet, Report

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "pam_sdk"
AT = "2026-01-02T03:04:05+00:00"
OUR_TIME = "2026-01-02T03:04:05.000000Z"
ENVELOPE: dict[str, Any] = {
    "created_at": AT,
    "source_agent": {"name": "n", "model_family": "m", "runtime": "r", "version": ""},
}


@contextmanager
def record_set(records: Sequence[Sealed]) -> Iterator[RecordSet]:
    """Return the records as a writer receives them."""
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        yield RecordSet(*builder.finish(DEFAULT_LIMITS))


def read(path: Path, reading: ReadContext | None = None) -> list[Sealed]:
    """Read a file; the format always gives sealed records."""
    found = list(FORMAT.read(Location(path), reading or ReadContext()))
    assert all(isinstance(record, Sealed) for record in found)
    return [record for record in found if isinstance(record, Sealed)]


def imported(path: Path) -> list[Sealed]:
    """Read a file like a conversion: with a source record that has the header."""
    reading = ReadContext()
    records = read(path, reading)
    source = Source(provider="pam_sdk", format="pam_sdk", container=reading.container)
    return [*records, seal(source)]


def write(
    records: Sequence[Sealed], path: Path, *keys: SigningKey, report: Report | None = None
) -> bytes:
    """Write records and return the bytes of the file."""
    writing = WriteContext(report=report or Report(), keys=keys, compress=path.name.endswith(".gz"))
    with record_set(records) as held:
        FORMAT.write(held, Target(path, overwrite=True), writing)
    return path.read_bytes()


def written(drafts: Sequence[Model], path: Path) -> tuple[dict[str, Any], Report]:
    """Seal drafts, write them, and return the file and the report."""
    report = Report()
    data = write([seal(draft) for draft in drafts], path, report=report)
    return json.loads(data), report


def document_of(component: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an unsigned file of one entry."""
    return make_document({component: [entry]}, ENVELOPE)


def origin(record: Sealed) -> Origin:
    """Return the origin of an entry."""
    model = record.model
    assert isinstance(model, Entry)
    assert model.origin is not None
    return model.origin


# -- reading -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("good-*")), ids=lambda path: path.name)
def test_a_valid_sample_is_recognized_and_read(path: Path) -> None:
    """By this format alone; every entry is sealed with its original id in its origin."""
    assert formats.recognize(Location(path)) == "pam_sdk"
    records = read(path)

    assert records
    assert all(origin(record).provider == "pam_sdk" for record in records)
    assert len({origin(record).id for record in records}) == len(records)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("bad-*")), ids=lambda path: path.name)
def test_an_invalid_sample_is_refused_with_its_position(path: Path) -> None:
    """The error names the file, the line or byte, and mostly the member."""
    with pytest.raises(MalformedError) as caught:
        read(path)

    assert caught.value.file == str(path)
    assert caught.value.line is not None or caught.value.byte is not None


def test_parents_come_first_and_links_are_record_ids() -> None:
    """In the sample a child precedes its parent."""
    records = read(SAMPLES / "good-signed.pam")
    ours = {origin(record).id: record.id for record in records}
    file = json.loads((SAMPLES / "good-signed.pam").read_bytes())
    seen: set[str] = set()
    for record in records:
        model = record.model
        assert isinstance(model, Entry)
        assert set(model.parent_ids) <= seen
        seen.add(record.id)
        there = next(
            entry
            for component in COMPONENTS
            for entry in file[component]
            if entry["id"] == origin(record).id
        )
        assert list(model.parent_ids) == [ours[parent] for parent in there["parent_ids"]]
        if isinstance(model, Semantic):
            assert list(model.source_event_ids) == [ours[e] for e in there["source_event_ids"]]


def test_known_members_are_mapped() -> None:
    """Times become canonical; a member that can be reproduced exactly is not stored twice."""
    entry = next(record for record in read(SAMPLES / "good-signed.pam")).model

    assert isinstance(entry, Episodic)
    assert entry.created_at == "2026-04-01T09:30:00.000000Z"
    assert entry.occurred_at == "2026-04-01T09:00:00.000000Z"
    assert (entry.actor, entry.event_type, entry.salience) == ("user", "interaction", 1.0)
    assert entry.tags == ("garden", "water")
    assert entry.origin is not None
    assert entry.origin.as_written == {}
    assert entry.origin.trust is TrustClass.IMPORTED


def test_other_members_are_stored_as_written() -> None:
    """Use counts, odd times, integral floats, integers beyond 2^53."""
    kept = {record.type: origin(record).as_written for record in read(SAMPLES / "good-signed.pam")}

    assert kept["procedural"] == {
        "parameters": [
            {
                "name": "litres",
                "default": {"$float": "2.0"},
                "max": {"$int": str(2**70)},
                "tiny": 1e-07,
            }
        ],
        "usage_count": 12,
        "last_used": "2026-03-31T20:00:00Z",
    }
    assert kept["working"]["created_at"] == "the day after"
    assert kept["identity"] == {"language": ""}


def test_the_header_is_stored_in_the_container() -> None:
    """Unchanged, with root and signature."""
    reading = ReadContext()
    read(SAMPLES / "good-signed.pam", reading)
    file = json.loads((SAMPLES / "good-signed.pam").read_bytes())

    assert reading.container == {
        name: value for name, value in file.items() if name not in COMPONENTS
    }


def test_d11_parents_that_are_not_in_the_file_are_counted_and_kept_as_text() -> None:
    """They are not record ids, so they cannot be parents."""
    reading = ReadContext()
    (record,) = read(SAMPLES / "good-dangling-parent.pam", reading)

    assert "parent_ids" not in record.value
    assert origin(record).as_written["parent_ids"] == [root_hash(())] * 2
    loss = reading.report.losses["parent_ids", "not in the file"]
    assert (loss.count, loss.examples[0]) == (2, origin(record).id)


def test_e02_an_entry_with_the_id_of_another_is_not_imported(tmp_path: Path) -> None:
    """E03: it would exclude the genuine entry as a duplicate."""
    path = tmp_path / "squatted.pam"
    squatted = document_of("semantic", {"created_at": AT, "subject": "x"})
    squatted["semantic"][0]["subject"] = "y"
    path.write_bytes(dump_json(squatted))

    with pytest.raises(MalformedError, match="does not match the content") as caught:
        read(path)
    assert caught.value.field == "semantic/0/id"


def test_d12_forged_cycles_are_refused(tmp_path: Path) -> None:
    """They cannot be sealed in any order."""
    path = tmp_path / "circle.pam"
    forged = document_of("semantic", {"created_at": AT, "subject": "x"})
    forged["semantic"][0]["parent_ids"] = [forged["semantic"][0]["id"]]
    path.write_bytes(dump_json(forged))

    with pytest.raises(MalformedError):
        read(path)


def test_an_entry_over_the_limits_is_reported(tmp_path: Path) -> None:
    """The SDK has no such limits; the error names the entry."""
    path = tmp_path / "large.pam"
    entry = {"created_at": AT, "tags": [str(number) for number in range(300)]}
    path.write_bytes(dump_json(document_of("identity", entry)))

    with pytest.raises(LimitError) as caught:
        read(path)
    assert caught.value.field == "identity/0/tags"
    assert caught.value.file == str(path)
    with pytest.raises(LimitError):
        read(path, ReadContext(limits=Limits(document_bytes=10)))


def test_nesting_that_exceeds_the_limit_when_encoded_is_a_typed_error(tmp_path: Path) -> None:
    """An encoded number is one level deeper than the number."""
    deep: Any = 2**70
    for _ in range(62):
        deep = [deep]
    path = tmp_path / "deep.pam"
    path.write_bytes(
        dump_json(document_of("identity", {"created_at": AT, "preferences": {"x": deep}}))
    )

    with pytest.raises(ValueRefusedError) as caught:
        read(path)
    assert caught.value.file == str(path)


def test_compressed_files_are_recognized_and_read(tmp_path: Path) -> None:
    """Gzip changes nothing."""
    path = tmp_path / "file.pam.gz"
    path.write_bytes(gzip.compress((SAMPLES / "good-signed.pam").read_bytes()))

    assert FORMAT.recognizes(Location(path))
    assert len(read(path)) == len(read(SAMPLES / "good-signed.pam"))


@pytest.mark.parametrize(
    "head",
    [b"", b"{}", b"[]", b'{"statement": {"pam_version": 1}}', b"\x1f\x8b", b"\xa0", b"PAM\x01"],
)
def test_other_files_are_not_recognized_as_sdk_files(tmp_path: Path, head: bytes) -> None:
    """A word inside another file is not enough."""
    path = tmp_path / "file"
    path.write_bytes(head)

    assert not FORMAT.recognizes(Location(path))


# -- round trips ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["good-signed.pam", "good-compact.pam", "good-signed.pam.cbor"])
def test_a_file_round_trips_with_the_same_ids(tmp_path: Path, key: SigningKey, name: str) -> None:
    """Entries, root, header and, with the same key, the signature."""
    report = Report()
    data = write(imported(SAMPLES / name), tmp_path / "back.pam", key, report=report)
    original = (SAMPLES / name).read_bytes()
    before = cbor2.loads(original) if name.endswith("cbor") else json.loads(original)
    after = json.loads(data)

    assert report.losses == {}
    for component in COMPONENTS:
        assert {entry["id"]: entry for entry in after[component]} == {
            entry["id"]: entry for entry in before[component]
        }
    for member in before.keys() - set(COMPONENTS):
        assert after[member] == before[member], member


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "01_signed.pam",
        "01_signed.pam.cbor",
        "02_disclosed_sdk_descendants.pam",
        "03_disclosed_spec_ancestors.pam",
        "09_dangling_parent.pam",
    ],
)
def test_a_published_sample_round_trips_with_the_same_ids(
    shared_data: Path, tmp_path: Path, key: SigningKey, name: str
) -> None:
    """The signature of the real SDK is valid after a round trip."""
    path = shared_data / "pam-sdk" / name
    records = imported(path)
    data = write(records, tmp_path / "back.pam", key)
    original = path.read_bytes()
    before = cbor2.loads(original) if name.endswith("cbor") else json.loads(original)
    after = json.loads(data)

    assert (after["root_hash"], after["signature"]) == (before["root_hash"], before["signature"])
    if name.startswith("01"):
        # Equal except for the order of members inside data, which canonical bytes do not preserve.
        assert after == before
        assert cbor2.loads(write(records, tmp_path / "back.pam.cbor", key)) == before


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("a$\u00e9"), inner, max_size=3)
    ),
    max_leaves=8,
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TIMES = st.sampled_from(
    [
        AT,
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.123456+00:00",
        "2026-01-02T03:04:05.1234567+00:00",
        "2026-01-02T05:04:05+02:00",
        "2026-01-02",
        "yesterday",
        "unknown",
        " ",
    ]
)
OBJECTS = st.lists(st.dictionaries(WORDS, DATA, max_size=3), max_size=3)
UNITS = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1.0])
LINKS = st.lists(WORDS, max_size=3)
COMMON = {
    "created_at": TIMES,
    "tags": st.lists(WORDS, max_size=3),
    "parent_ids": LINKS,
    "schema_version": WORDS | st.just("1.0"),
}
ENTRIES = {
    "episodic": {
        "timestamp": TIMES | st.just(""),
        "actor": WORDS,
        "observation": WORDS,
        "salience": UNITS,
        "event_type": st.sampled_from(sorted(EVENT_TYPES)),
    },
    "semantic": {
        "subject": WORDS,
        "predicate": WORDS,
        "object": WORDS,
        "confidence": UNITS,
        "source_event_ids": LINKS,
    },
    "procedural": {
        "name": WORDS,
        "description": WORDS,
        "parameters": OBJECTS,
        "body": WORDS,
        "language": st.sampled_from(sorted(LANGUAGES)),
        "preconditions": st.lists(WORDS, max_size=3),
        "usage_count": st.integers(),
        "last_used": st.none() | TIMES,
    },
    "working": {
        "goals": st.lists(WORDS, max_size=3),
        "subgoals": OBJECTS,
        "scratch": WORDS,
        "pending_actions": OBJECTS,
    },
    "identity": {
        "preferences": st.dictionaries(WORDS, DATA, max_size=3),
        "persona": WORDS,
        "language": WORDS,
        "policies": st.lists(WORDS, max_size=3),
        "custom_instructions": WORDS,
    },
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("pam_sdk")


@given(
    entry=st.sampled_from(COMPONENTS).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.fixed_dictionaries(COMMON | ENTRIES[name]),  # type: ignore[operator]
        )
    )
)
def test_any_entry_of_the_sdk_round_trips_with_its_id(
    folder: Path, entry: tuple[str, dict[str, Any]]
) -> None:
    """For all entries that the SDK can write, odd spellings included."""
    component, members = entry
    before = document_of(component, members)
    path = folder / "in.pam"
    path.write_bytes(dump_json(before))
    after = json.loads(write(read(path), folder / "out.pam"))

    assert after[component] == before[component]
    assert after["root_hash"] == before["root_hash"]


def test_a_changed_entry_is_not_written_as_before(tmp_path: Path) -> None:
    """The current members override the original ones."""
    path = tmp_path / "in.pam"
    members = {
        "created_at": "yesterday",
        "preferences": {"volume": 1.0, "color": "red"},
        "parent_ids": [root_hash(())],
    }
    path.write_bytes(dump_json(document_of("identity", members)))
    model = read(path)[0].model
    changed = msgspec.structs.replace(
        model, id=None, nonce=None, created_at=OUR_TIME, preferences={"volume": 2}
    )
    file, _ = written([changed], tmp_path / "out.pam")

    assert file["identity"][0]["preferences"] == {"volume": 2}
    assert file["identity"][0]["created_at"] == AT
    assert file["identity"][0]["parent_ids"] == [root_hash(())]


@pytest.mark.parametrize(
    "as_written",
    [
        {"usage_count": "5"},
        {"language": "bash"},
        {"id": root_hash(())},
        {"no_member": 1},
        {"parameters": {"$float": "NaN"}},
        {"last_used": {"$bytes": "eA=="}},
    ],
)
def test_attack_a_forged_as_written_never_makes_a_malformed_file(
    tmp_path: Path, as_written: dict[str, Any]
) -> None:
    """Only values that the SDK would write are used."""
    draft = Procedural(
        name="n",
        created_at=OUR_TIME,
        origin=Origin(provider="pam_sdk", id="x", as_written=as_written),
    )
    file, _ = written([draft], tmp_path / "out.pam")
    plain = make_entry("procedural", {"created_at": AT, "name": "n"})

    assert file["procedural"] == [plain]
    assert verify_file(tmp_path / "out.pam", TrustPolicy()).outcomes == [Outcome.UNSIGNED]


# -- writing -------------------------------------------------------------------------------


def test_written_files_verify_under_the_profile(tmp_path: Path, key: SigningKey) -> None:
    """Signed: entries-only with a trusted key. Otherwise unsigned. JSON, CBOR and gzip."""
    records = read(SAMPLES / "good-signed.pam.cbor")
    for name in ("a.pam", "a.pam.cbor", "a.pam.gz", "a.cbor.gz"):
        path = tmp_path / name
        write(records, path, key)
        trusting = TrustPolicy(keys=frozenset([key.did]))
        assert verify_file(path, trusting).outcomes == [Outcome.ENTRIES_ONLY]
        write(records, path)
        assert verify_file(path, trusting).outcomes == [Outcome.UNSIGNED]
    assert (tmp_path / "a.pam.cbor").read_bytes()[:1] == b"\xad"
    assert (tmp_path / "a.cbor.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_only_the_first_of_two_keys_signs(tmp_path: Path, key: SigningKey) -> None:
    """The format has one signature; a note names the omitted key."""
    report = Report()
    other = SigningKey.from_seed(bytes(32))
    write(read(SAMPLES / "good-signed.pam"), tmp_path / "o.pam", key, other, report=report)

    assert any("first key" in note for note in report.notes)


def test_entries_of_another_source_are_mapped_to_sdk_members(tmp_path: Path) -> None:
    """Plain text is stored in the text member of its type, and read back as text."""
    file, report = written(
        [
            Episodic(text="it rained", created_at=OUR_TIME),
            Semantic(text="tea is hot", created_at=OUR_TIME),
            Procedural(text="1. boil", created_at=OUR_TIME),
            Working(text="note", created_at=OUR_TIME, subgoals=("a",), pending_actions=("b",)),
            Identity(text="likes tea", created_at=OUR_TIME),
        ],
        tmp_path / "out.pam",
    )

    assert report.losses == {}
    assert file["episodic"][0]["observation"] == "it rained"
    assert file["semantic"][0]["object"] == "tea is hot"
    assert file["procedural"][0]["body"] == "1. boil"
    assert file["working"][0]["scratch"] == "note"
    assert file["working"][0]["subgoals"] == [{"goal": "a"}]
    assert file["working"][0]["pending_actions"] == [{"action": "b"}]
    # Not custom_instructions: a memory must not become an instruction.
    assert file["identity"][0]["persona"] == "likes tea"
    assert file["identity"][0]["custom_instructions"] == ""
    fact = next(r.model for r in read(tmp_path / "out.pam") if r.type == "semantic")
    assert isinstance(fact, Semantic)
    assert fact.text == "tea is hot"


def test_an_unknown_time_is_not_invented(tmp_path: Path) -> None:
    """The SDK would replace an empty time with the current one, and the id would not match."""
    file, report = written([Semantic(text="a")], tmp_path / "out.pam")

    assert file["semantic"][0]["created_at"] == "unknown"
    assert [loss.name for loss in report.losses.values()] == ["created_at"]
    again = read(tmp_path / "out.pam")[0].model
    assert isinstance(again, Entry)
    assert again.created_at is None


def test_members_that_the_sdk_lacks_are_counted_and_reported(tmp_path: Path) -> None:
    """One line per member, with a record as an example; tags are preserved."""
    draft = Episodic(
        observation="seen",
        text="something else",
        created_at=OUR_TIME,
        tags=("kept",),
        updated_at=OUR_TIME,
        valid_until=OUR_TIME,
        expires_at=OUR_TIME,
        kind="event",
        data={"a": 1},
        metadata={"a": 1},
        context={"a": 1},
        entities=(Entity(name="e"),),
        scope=Scope(user="u"),
        origin=Origin(provider="mem0", id="m"),
    )
    unknown = seal(draft, unknown={"future": 1})
    report = Report()
    file = json.loads(write([unknown], tmp_path / "out.pam", report=report))

    assert file["episodic"][0]["tags"] == ["kept"]
    assert {loss.name for loss in report.losses.values()} == {
        "text", "updated_at", "valid_until", "expires_at", "kind", "data", "metadata", "context",
        "entities", "scope", "origin", "future",
    }  # fmt: skip
    assert all(loss.examples == [unknown.id] for loss in report.losses.values())


def test_values_that_the_sdk_refuses_are_counted(tmp_path: Path) -> None:
    """Objects where it takes only text, unknown languages, numbers outside JSON."""
    _, report = written(
        [
            Procedural(created_at=OUR_TIME, language="cobol", preconditions=({"a": 1}, "b")),
            Working(created_at=OUR_TIME, scratch={"a": 1}, goals=({"a": 1},)),
            Identity(
                created_at=OUR_TIME,
                persona={"name": "x"},
                communication_style="terse",
                preferences={"n": {"$float": "NaN"}},
            ),
            Semantic(created_at=OUR_TIME, subject="a", predicate="b", text="c"),
        ],
        tmp_path / "out.pam",
    )

    assert {loss.name: loss.count for loss in report.losses.values()} == {
        "language": 1, "preconditions": 1, "scratch": 1, "goals": 1, "persona": 1,
        "communication_style": 1, "preferences": 1, "text": 1,
    }  # fmt: skip
    assert verify_file(tmp_path / "out.pam", TrustPolicy()).outcomes == [Outcome.UNSIGNED]


def test_records_that_are_not_entries_are_reported_by_type(tmp_path: Path) -> None:
    """Edges and states are lost; the source record of the import is not a loss."""
    entry = seal(Semantic(text="a", created_at=OUR_TIME))
    records = [
        entry,
        seal(Edge(source=entry.id, target=entry.id, kind="similar_to")),
        seal(Status(target=entry.id, state="superseded")),
        seal(Source(provider="mem0", format="mem0")),
    ]
    report = Report()
    write(records, tmp_path / "out.pam", report=report)

    assert {loss.name: loss.count for loss in report.losses.values()} == {"edge": 1, "status": 1}


def test_lists_end_at_the_length_limit_of_the_sdk(tmp_path: Path) -> None:
    """With 1,001 working entries the SDK could not load the file."""
    drafts = [Working(scratch=str(number), created_at=OUR_TIME) for number in range(1_002)]
    file, report = written(drafts, tmp_path / "out.pam")

    assert len(file["working"]) == 1_000
    assert {(loss.name, loss.count) for loss in report.losses.values()} == {("working", 2)}


def test_links_to_dropped_entries_are_counted(tmp_path: Path) -> None:
    """A parent that is not written has no id in the file."""
    absent = seal(Semantic(text="not written", created_at=OUR_TIME))
    child = Semantic(
        text="child",
        created_at=OUR_TIME,
        parent_ids=(absent.id,),
        source_event_ids=(absent.id,),
    )
    file, report = written([child], tmp_path / "out.pam")

    assert file["semantic"][0]["parent_ids"] == []
    assert {loss.name for loss in report.losses.values()} == {"parent_ids", "source_event_ids"}


def test_two_records_with_one_content_become_one_entry(tmp_path: Path) -> None:
    """The SDK has no nonces, so equal content has one id, which may occur once."""
    twins = [seal(Semantic(text="same", created_at=OUR_TIME)) for _ in range(2)]
    child = seal(
        Semantic(text="child", created_at=OUR_TIME, parent_ids=tuple(twin.id for twin in twins))
    )
    report = Report()
    file = json.loads(write([*twins, child], tmp_path / "out.pam", report=report))
    twin = next(entry for entry in file["semantic"] if entry["object"] == "same")

    assert len(file["semantic"]) == 2
    assert [entry["parent_ids"] for entry in file["semantic"] if entry != twin] == [[twin["id"]]]
    assert [loss.count for loss in report.losses.values()] == [1]


def test_headers_of_two_files_are_not_mixed(tmp_path: Path) -> None:
    """The header of a single source is written back; with two sources there is none."""
    first = imported(SAMPLES / "good-signed.pam")
    second = imported(SAMPLES / "good-dangling-parent.pam")
    report = Report()
    both = json.loads(write([*first, *second], tmp_path / "out.pam", report=report))

    assert both["source_agent"]["name"] == "satchel"
    assert any("several SDK files" in note for note in report.notes)


def test_attack_a_forged_header_is_dropped(tmp_path: Path) -> None:
    """Only values that the SDK would write are written."""
    source = Source(
        provider="pam_sdk",
        format="pam_sdk",
        container={"metadata": [], "source_agent": {"name": 1}, "created_at": AT},
    )
    records = [seal(Semantic(text="a", created_at=OUR_TIME)), seal(source)]
    file = json.loads(write(records, tmp_path / "out.pam"))

    assert file["metadata"] == {}
    assert file["source_agent"]["name"] == "satchel"
    assert file["created_at"] == AT


def test_no_records_make_an_empty_sdk_file(tmp_path: Path) -> None:
    """Its root is the hash of an empty list."""
    file = json.loads(write([], tmp_path / "out.pam"))

    assert file["root_hash"] == root_hash(())
    assert verify_file(tmp_path / "out.pam", TrustPolicy()).outcomes == [Outcome.UNSIGNED]
