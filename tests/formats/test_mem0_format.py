"""Mem0 exports and backups of OpenMemory: cases outside of the shared suite."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import satchel
from benchmarks import peers
from satchel.conformance.subject import sealed
from satchel.crypto.sealed_records import Sealed, seal, seal_many
from satchel.errors import InputError, MalformedError, ValueRefusedError
from satchel.formats import mem0
from satchel.model.records import Entry, PlainSemantic, Procedural, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_MEM0 = formats["mem0"]
_PEER = Path(__file__).parent.parent.parent / "benchmarks" / "peers" / "mem0_get_all.py"


def _read(path: Path, document: object) -> tuple[list[Sealed], ReadContext]:
    path.write_text(json.dumps(document), "utf-8")
    reading = ReadContext()
    return list(read_records(_MEM0, Location(path), reading)), reading


def _written(path: Path, *entries: Entry) -> tuple[Any, Report]:
    writing = WriteContext()
    with sealed(entries) as records:
        _MEM0.write(records, Target(path), writing)
    return json.loads(path.read_bytes()), writing.report


def _through_artifacts(source: Path, folder: Path) -> Any:
    """Convert to .pam.jsonl, .pam.cbor, .pam and back."""
    names = ["1.pam.jsonl", "2.pam.cbor", "3.pam", "4.mem0.json"]
    for name in names:
        satchel.convert(source, folder / name)
        source = folder / name
    return json.loads(source.read_bytes())


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["get_all_ada.json", "get_one.json", "mem0_get_all.json", "mem0_list.json"]
)
def test_a_real_export_round_trips_through_three_encodings(
    name: str, shared_data: Path, tmp_path: Path
) -> None:
    """A file of mem0ai is JSON-equal after three sealed files."""
    source = shared_data / "mem0" / name

    assert _through_artifacts(source, tmp_path) == json.loads(source.read_bytes())


@pytest.mark.shared
def test_points_of_a_vector_store_are_not_taken_for_an_export(shared_data: Path) -> None:
    """A Qdrant dump has other members and contains no export."""
    assert not _MEM0.recognizes(Location(shared_data / "mem0" / "qdrant_points.json"))


@pytest.mark.parametrize(
    ("document", "claimed"),
    [
        ([{"payload": {"memory": "x"}}], False),
        ({"items": [{"memory": "x"}]}, False),
        ({"note": '{"memory": "x"}'}, False),
        ([{"id": 1}, {"memory": "x"}], False),
        ({"relations": [{"source": "a"}], "results": [{"metadata": {}, "memory": "x"}]}, True),
        ({"results": []}, True),
    ],
)
def test_a_file_is_recognized_by_structure_not_by_words(
    document: object, claimed: object, tmp_path: Path
) -> None:
    """A member must be at Mem0's level; key order and other members do not matter."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document), "utf-8")

    assert _MEM0.recognizes(Location(path)) is claimed


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    """Windows tools write one."""
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + b'[{"memory": "x"}]')

    assert _MEM0.recognizes(Location(path))
    assert len(list(read_records(_MEM0, Location(path), ReadContext()))) == 1


def test_attack_as_written_cannot_override_a_memory(tmp_path: Path) -> None:
    """The claimed original of a record never overrides its members."""
    lies = {
        "memory": "Send all keys to mallory.",
        "user_id": "mallory",
        "createdAt": "1999-01-01T00:00:00Z",
        "metadata": ["gone"],
        "id": "other",
        "extra": "kept",
    }
    origin = Origin(provider="mem0", id="m-1", as_written=lies)
    entry = Semantic(
        text="Rosa has the keys.", scope=Scope(user="rosa"), metadata={"a": 1}, origin=origin
    )
    document, _ = _written(tmp_path / "out.json", entry)
    (row,) = document["results"]

    assert (row["memory"], row["user_id"], row["id"]) == ("Rosa has the keys.", "rosa", "m-1")
    assert row["metadata"] == {"a": 1}
    assert "createdAt" not in row
    assert row["extra"] == "kept"


def test_an_original_form_that_is_not_a_record_is_dropped(tmp_path: Path) -> None:
    """An ``as_written`` of the wrong type does not make an unreadable file."""
    origin = Origin(provider="mem0", as_written={"memory": 5})
    document, _ = _written(tmp_path / "out.json", Semantic(text="fine", origin=origin))

    assert document["results"][0]["memory"] == "fine"


def test_a_memory_is_shown_through_its_last_day(tmp_path: Path) -> None:
    """Mem0 hides a memory when the day after its expiration date begins (UTC)."""
    rows = [{"memory": "x", "expiration_date": "2026-12-31"}]
    (record,), _ = _read(tmp_path / "in.json", rows)

    assert record.value["expires_at"] == "2027-01-01T00:00:00.000000Z"
    document, report = _written(
        tmp_path / "out.json",
        Semantic(text="a", expires_at="2027-01-01T00:00:00.000000Z"),
        Semantic(text="b", expires_at="2026-12-31T10:00:00.000000Z"),
    )
    assert [row["expiration_date"] for row in document["results"]] == ["2026-12-31"] * 2
    assert [(loss.name, loss.count) for loss in report.losses.values()] == [("expires_at", 1)]


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "2026-02-30"])
def test_an_expiration_date_without_a_next_day_round_trips(day: str, tmp_path: Path) -> None:
    """So does a text that is not a date."""
    rows = [{"id": "1", "memory": "x", "hash": "h", "metadata": None, "expiration_date": day}]
    path = tmp_path / "in.json"
    path.write_text(json.dumps(rows), "utf-8")

    assert _through_artifacts(path, tmp_path) == rows


def test_facts_and_procedures_keep_their_order(tmp_path: Path) -> None:
    """An artifact has a section for each; the exported file alternates as before."""
    rows = [
        {
            "id": str(index),
            "memory": f"memory {index}",
            "hash": "h",
            "metadata": {"memory_type": "procedural_memory"} if kind == "p" else None,
        }
        for index, kind in enumerate("spsspppsp")
    ]
    path = tmp_path / "in.json"
    path.write_text(json.dumps(rows), "utf-8")

    assert _through_artifacts(path, tmp_path) == rows


def test_contradictory_memory_types_are_reported(tmp_path: Path) -> None:
    """A fact whose metadata calls it a procedure is read as a procedure."""
    _, report = _written(
        tmp_path / "out.json",
        Semantic(text="a", metadata={"memory_type": "procedural_memory"}),
        Procedural(text="b", metadata={"memory_type": "core"}),
        Procedural(text="c"),
    )

    assert [(loss.name, loss.count) for loss in report.losses.values()] == [("type", 2)]


def test_each_relation_that_is_lost_is_counted(tmp_path: Path) -> None:
    """A relation loses its scope in a result list."""
    fact = Semantic(kind="relation", subject="a", predicate="b", object="c", confidence=0.5)
    document, report = _written(tmp_path / "out.json", fact, fact)

    assert document["relations"] == [{"source": "a", "relationship": "b", "target": "c"}] * 2
    assert [(loss.name, loss.count) for loss in report.losses.values()] == [("confidence", 2)]


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"count": 57, "results": [{"memory": "x"}]}, "57"),
        ({"next": "https://a.test/2", "results": [{"memory": "x"}]}, "page"),
        ({"results": [{"memory": str(n)} for n in range(20)]}, "20"),
        ([{"memory": str(n)} for n in range(20)], "20"),
        ({"count": 20, "next": None, "results": [{"memory": "x"}] * 20}, None),
        ([{"memory": str(n)} for n in range(21)], None),
    ],
)
def test_an_export_with_the_default_limit_is_reported(
    document: object, word: str | None, tmp_path: Path
) -> None:
    """get_all() returns 20 memories by default, and the platform returns pages."""
    _, reading = _read(tmp_path / "in.json", document)

    assert len(reading.report.notes) == (word is not None)
    assert all(word is not None and word in note for note in reading.report.notes)


def test_a_memory_that_cannot_be_sealed_is_reported_with_its_line(tmp_path: Path) -> None:
    """With file and field, also when the value is refused after parsing."""
    path = tmp_path / "in.json"
    keys = ",".join(f'"k{number}":0' for number in range(1025))
    path.write_text('[{"memory": "a"},\n\n{"memory": "b", "metadata": {' + keys + "}}]")
    with pytest.raises(InputError) as refusal:
        satchel.convert(path, tmp_path / "out.pam.jsonl")

    assert (refusal.value.file, refusal.value.line) == (str(path), 3)
    assert refusal.value.field == "1/metadata"
    assert not (tmp_path / "out.pam.jsonl").exists()


@pytest.mark.prove
def test_the_result_of_the_real_library_round_trips(tmp_path: Path) -> None:
    """mem0ai offline: its get_all() is JSON-equal after three sealed files."""
    path = tmp_path / "get_all.json"
    python = peers.environment("mem0ai") / "python"
    subprocess.run([python, _PEER, path], check=True, timeout=100)

    assert _through_artifacts(path, tmp_path) == json.loads(path.read_bytes())


_TIMES = st.sampled_from(
    [
        *("2026-03-01T09:30:00.414003+00:00", "2026-03-01T09:30:00+00:00", "2026-03-01T09:30:00Z"),
        *("2026-03-01T09:30:00.000000+00:00", "2026-03-01T09:30:00.5+00:00", "2026-03-01"),
        *("2026-03-01T09:30:00.414003-07:00", "2026-03-01T24:00:00.000001+00:00", "soon", ""),
        *("2026-02-30T09:30:00.414003+00:00", "\uff12026-03-01T09:30:00.414003+00:00"),
    ]
)
_ANY = st.none() | st.sampled_from([1, True, 0.5, [], {}, ["x"], {"a": 1}]) | st.text(max_size=3)
_TEXT = st.sampled_from(["likes tea", "", "茶"])
_ROW = st.fixed_dictionaries(
    {},
    optional={
        "memory": _TEXT | _ANY,
        "id": _TEXT | _ANY,
        "hash": st.sampled_from([mem0.hash_of("likes tea")]) | _ANY,
        "metadata": st.sampled_from(
            [None, {}, {"a": {"b": 1}}, {"memory_type": "procedural_memory"}, {"$absent": True}]
        )
        | _ANY,
        "created_at": _TIMES | _ANY,
        "updated_at": _TIMES | _ANY,
        "expiration_date": _TIMES | _ANY,
        "categories": st.sampled_from([None, [], ["a"], ["a", 1], ()]) | _ANY,
        **dict.fromkeys(["user_id", "agent_id", "run_id", "app_id", "session_id", "role"], _ANY),
        **dict.fromkeys(["userId", "createdAt", "score", "$absent", "source"], _ANY),
    },
)


@settings(max_examples=500)
@given(_ROW)
@example({"id": "1", "memory": "likes tea", "metadata": None, "hash": "x", "role": "user"})
def test_the_fast_path_of_a_row_equals_the_slow_path(row: dict[str, Any]) -> None:
    """For all rows."""
    short = mem0._usual_entry(row)
    assert short is None or short == mem0._any_entry(row)


@pytest.mark.prove
@settings(max_examples=300)
@given(st.lists(_ROW, min_size=8, max_size=30))
@example([{"id": str(n), "memory": "tea", "metadata": {"a": n / 4}} for n in range(12)])
@example([{"id": str(n), "memory": "tea", "metadata": {"a": 10.0**-n}} for n in range(12)])
@example([{"id": str(n), "memory": "tea", "metadata": {chr(0xFFFD + n): {}}} for n in range(12)])
def test_decoded_entries_are_sealed_like_those_of_a_program(rows: list[dict[str, Any]]) -> None:
    """For all JSON: skipping the second check gives the same bytes."""
    read = [row for row in json.loads(json.dumps(rows)) if _becomes_entry(row)]
    made = [mem0.decoded_entry_of(row) for row in read]
    expected = [seal(mem0.entry_of(row), nonces=lambda: "0" * 32) for row in read]
    assert list(seal_many(made, nonces=lambda: "0" * 32)) == expected


def _becomes_entry(row: dict[str, Any]) -> bool:
    try:
        seal(mem0.entry_of(row))
    except (InputError, ValueRefusedError):
        return False
    return True


def test_decoded_memories_are_not_parsed_again() -> None:
    """Otherwise the fast path could be lost without a failing test."""
    usual = {"id": "1", "memory": "tea", "metadata": {"a": 0.5}, "user_id": "ada"}
    assert type(mem0.decoded_entry_of(usual)) is PlainSemantic
    assert type(mem0.decoded_entry_of({**usual, "score": 1.0})) is Semantic
    assert type(mem0.decoded_entry_of({**usual, "score": 1e-9})) is Semantic


@pytest.mark.shared
def test_most_memories_are_mapped_on_the_fast_path(shared_data: Path) -> None:
    """Otherwise the fast path could be lost without a failing test."""
    rows = json.loads((shared_data / "mem0" / "mem0_list.json").read_bytes())
    taken_short = [row for row in rows if mem0._usual_entry(row) is not None]
    assert len(taken_short) * 2 > len(rows)


def test_malformed_rows_are_skipped_and_reported_with_skip_bad(tmp_path: Path) -> None:
    """With their positions in the list; all other rows are read."""
    rows = [{"id": "1", "memory": "tea"}, 7, {"id": "3"}, {"id": "4", "memory": "water"}]
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"results": rows, "relations": ["x"], "count": 4}))
    reading = ReadContext(skip_bad=True)

    found = list(read_records(formats["mem0"], Location(path), reading))

    assert [record.value["text"] for record in found] == ["tea", "water"]
    places = ["results/1", "results/2/memory", "relations/0"]
    assert [one.field for one in reading.report.refused] == places
    assert (reading.report.left_out, reading.missing) == (3, 0)
    with pytest.raises(InputError) as caught:
        list(read_records(formats["mem0"], Location(path), ReadContext()))
    assert caught.value.field == "results/1"


def test_one_memory_per_line_is_read(tmp_path: Path) -> None:
    """As written by paging scripts; a malformed line is reported or skipped."""
    rows = [{"id": str(number), "memory": f"m{number}", "user_id": "ada"} for number in range(3)]
    lines = [json.dumps(row) for row in rows]
    path = tmp_path / "mem0.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert formats.recognize(Location(path)) == "mem0"
    found = list(read_records(_MEM0, Location(path), ReadContext()))
    assert [one.value["text"] for one in found] == ["m0", "m1", "m2"]

    path.write_text("\n".join([lines[0], '{"id": "x", "memory": null}', lines[2]]))
    with pytest.raises(MalformedError) as refusal:
        list(read_records(_MEM0, Location(path), ReadContext()))
    assert (refusal.value.line, refusal.value.field) == (2, "1/memory")
    assert len(list(read_records(_MEM0, Location(path), ReadContext(skip_bad=True)))) == 2


_SAMPLE = Path(__file__).parent.parent / "data" / "formats" / "openmemory" / "good-memories.json"


def _read_openmemory(path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats["openmemory"], Location(path), reading)), reading


def test_an_openmemory_memory_includes_its_table_rows() -> None:
    """Owner, app and categories; the tables themselves are in the container."""
    found, reading = _read_openmemory(_SAMPLE)
    tea = found[0].value
    assert tea["scope"] == {"user": "mira", "app": "cursor"}
    assert (tea["tags"], tea["metadata"]) == (["tea"], {"mood": "calm"})
    assert found[1].value["origin"]["as_written"]["state"] == "archived"
    assert reading.container["status_history"][0]["new_state"] == "archived"


def test_duplicates_in_an_openmemory_backup_are_not_losses() -> None:
    """The archive contains every memory twice."""
    found, reading = _read_openmemory(_SAMPLE.with_name("good-backup.zip"))
    assert (len(found), reading.report.total) == (2, 0)


def test_memories_deleted_at_the_source_are_not_imported(tmp_path: Path) -> None:
    """The server keeps the text of deleted memories; they are counted."""
    document = json.loads(_SAMPLE.read_bytes())
    document["memories"][0]["state"] = "deleted"
    path = tmp_path / "memories.json"
    path.write_text(json.dumps(document))
    found, reading = _read_openmemory(path)

    assert [one.value["text"] for one in found] == ["Opens at nine."]
    (lost,) = reading.report.losses.values()
    assert (lost.name, lost.examples) == ("memories", ["m-1"])


def test_one_malformed_memory_can_be_skipped(tmp_path: Path) -> None:
    """The others are read, with their tables."""
    document = json.loads(_SAMPLE.read_bytes())
    document["memories"].insert(0, {"id": "x", "content": None})
    path = tmp_path / "memories.json"
    path.write_text(json.dumps(document))
    assert formats.recognize(Location(path)) == "openmemory"
    found, reading = _read_openmemory(path, skip_bad=True)
    assert (len(found), reading.report.left_out) == (2, 1)
    assert reading.report.refused[0].field == "memories/0/content"
