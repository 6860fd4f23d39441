"""amplihack's hierarchical JSON: cases outside of the shared suite."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.strategies import records as any_records
from satchel.conformance.strategies import structs
from satchel.conformance.subject import Subject, record_set, sealed
from satchel.crypto.sealed_records import seal
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.model.records import Edge, Episodic, Model, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats

if TYPE_CHECKING:
    from satchel.crypto.sealed_records import Sealed
    from satchel.ports.record_set import Report

AMPLIHACK = formats["amplihack"]
SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "amplihack"
SUBJECT = Subject("amplihack", AMPLIHACK, SAMPLES)
KINDS = ("similar_to", "derives_from", "supersedes", "transitioned_to")
ARRAYS = ("semantic_nodes", "episodic_nodes", *(f"{kind}_edges" for kind in KINDS))
HEAD = ("agent_name", "exported_at", "format_version")


class Fact(msgspec.Struct):
    """A semantic node of amplihack-rs: every member is required, and none is null."""

    memory_id: str
    concept: str
    content: str
    confidence: float
    source_id: str
    tags: list[str]
    metadata: Any
    created_at: str
    entity_name: str


class Episode(msgspec.Struct):
    """An episodic node."""

    memory_id: str
    content: str
    source_label: str
    tags: list[str]
    metadata: Any
    created_at: str


class SimilarTo(msgspec.Struct):
    """An edge."""

    source_id: str
    target_id: str
    weight: float
    metadata: Any


class DerivesFrom(msgspec.Struct):
    """An edge."""

    source_id: str
    target_id: str
    extraction_method: str
    confidence: float


class Supersedes(msgspec.Struct):
    """An edge."""

    source_id: str
    target_id: str
    reason: str
    temporal_delta: str


class TransitionedTo(msgspec.Struct):
    """An edge; the turn is a signed integer of 64 bits."""

    source_id: str
    target_id: str
    from_value: str
    to_value: str
    turn: int
    transition_type: str


class RustReader(msgspec.Struct):
    """A file as the strict Rust reader accepts it."""

    agent_name: str
    exported_at: str
    format_version: str
    semantic_nodes: list[Fact]
    episodic_nodes: list[Episode]
    similar_to_edges: list[SimilarTo]
    derives_from_edges: list[DerivesFrom]
    supersedes_edges: list[Supersedes]
    transitioned_to_edges: list[TransitionedTo]
    statistics: dict[str, int]


def read_as_rust(data: bytes) -> RustReader:
    """Read a file as strictly as amplihack-rs does."""
    found = msgspec.json.decode(data, type=RustReader)
    assert list(json.loads(data))[:10] == [*HEAD, *ARRAYS, "statistics"]
    assert all(-(2**63) <= edge.turn < 2**63 for edge in found.transitioned_to_edges)
    for nodes in (found.semantic_nodes, found.episodic_nodes):
        ids = [node.memory_id for node in nodes]
        assert len(set(ids)) == len(ids), "its reader keeps one of two, and counts both"
    return found


def read(path: Path, document: object = None, **how: Any) -> tuple[list[Sealed], ReadContext]:
    """Read a file; write the document to it first when one is given."""
    if document is not None:
        path.write_text(json.dumps(document), "utf-8")
    reading = ReadContext(**how)
    return list(read_records(AMPLIHACK, Location(path), reading)), reading


def write(path: Path, items: list[Model | Sealed]) -> tuple[bytes, Report]:
    """Write records, and return the file and the report."""
    writing = WriteContext(bank="agent")
    with sealed(items) as records:
        AMPLIHACK.write(records, Target(path, overwrite=True), writing)
    return path.read_bytes(), writing.report


def sample_document() -> dict[str, Any]:
    """Return the sample document."""
    found: dict[str, Any] = json.loads((SAMPLES / "good-rust.json").read_bytes())
    return deepcopy(found)


def rewritten(source: Path, path: Path) -> tuple[bytes, Report]:
    """Read a file and write it again."""
    with record_set(SUBJECT, source) as records:
        writing = WriteContext()
        AMPLIHACK.write(records, Target(path), writing)
    return path.read_bytes(), writing.report


# -- writing -------------------------------------------------------------------------------


@given(data=st.data())
def test_the_strict_rust_reader_accepts_every_written_file(data: st.DataObject) -> None:
    """For all memories and edges: ten keys in order, no null, each member of its type."""
    nodes: list[Sealed] = [
        seal(one) for one in data.draw(st.lists(structs(Semantic) | structs(Episodic), max_size=4))
    ]
    ends = st.sampled_from([one.id for one in nodes] or ["nobody"])
    edges = data.draw(
        st.lists(
            st.builds(_edge_between, structs(Edge), st.sampled_from(KINDS), ends, ends), max_size=4
        )
    )
    others = data.draw(st.lists(any_records(), max_size=2))
    with SUBJECT.folder() as folder:
        written, _ = write(folder / "x.json", [*nodes, *edges, *others])
        found = read_as_rust(written)

        assert found.statistics == {
            f"{name.removesuffix('s')}_count": len(getattr(found, name)) for name in ARRAYS
        }


def _edge_between(edge: Edge, kind: str, source: str, target: str) -> Edge:
    origin = None if edge.origin is None else msgspec.structs.replace(edge.origin, id=None)
    return msgspec.structs.replace(edge, kind=kind, source=source, target=target, origin=origin)


def test_amplihack_files_round_trip_byte_for_byte(tmp_path: Path) -> None:
    """A well-formed file of version 1.1 is written back unchanged."""
    source = SAMPLES / "good-rust.json"
    written, report = rewritten(source, tmp_path / "again.json")

    assert written == source.read_bytes()
    assert report.total == 0


@pytest.mark.parametrize("name", ["other-1.0.json", "other-agent-core.json", "good-odd.json"])
def test_the_strict_rust_reader_accepts_converted_files_of_other_versions(
    name: str, tmp_path: Path
) -> None:
    """Amplihack's own reader refuses every file of version 1.0, for a missing array."""
    found = read_as_rust(rewritten(SAMPLES / name, tmp_path / "again.json")[0])

    assert found.format_version == "1.1"
    assert found.semantic_nodes
    assert found.episodic_nodes


def test_members_of_agent_core_only_are_counted_as_lost(tmp_path: Path) -> None:
    """An episode's confidence, and an edge of a kind that version 1.1 lacks."""
    written, report = rewritten(SAMPLES / "other-agent-core.json", tmp_path / "again.json")

    assert {name for name, _ in report.losses} == {"confidence", "edge"}
    found = read_as_rust(written)
    assert [node.metadata["category"] for node in found.semantic_nodes] == [
        "semantic",
        "procedural",
    ]
    assert found.episodic_nodes[0].source_label == "session:2026-05-04"
    assert found.episodic_nodes[0].created_at == "2026-05-04T03:02:01.123456789+00:00"


def test_a_parent_without_an_edge_is_written_as_an_edge(tmp_path: Path) -> None:
    """A parent that has an edge is written once."""
    seen = seal(Episodic(text="seen"))
    told = seal(Semantic(text="told", parent_ids=(seen.id,)))
    also = seal(Semantic(text="also", parent_ids=(seen.id,)))
    said = {"extraction_method": "by hand", "confidence": 0.5}
    edge = Edge(source=also.id, target=seen.id, kind="derives_from", properties=said)
    written, report = write(tmp_path / "x.json", [seen, told, also, edge])

    found = read_as_rust(written)
    assert [(one.source_id, one.extraction_method) for one in found.derives_from_edges] == [
        (also.id, "by hand"),
        (told.id, ""),
    ]
    assert {node.source_id for node in found.semantic_nodes} == {seen.id}
    assert report.total == 0


def test_two_nodes_with_one_id_are_written_with_distinct_ids(tmp_path: Path) -> None:
    """Amplihack's reader would store one of them, and count both (defect 3)."""
    twice = [
        Semantic(text=text, origin=Origin(provider="amplihack", id="one")) for text in ("a", "b")
    ]
    written, report = write(tmp_path / "x.json", [*twice])

    assert len(read_as_rust(written).semantic_nodes) == 2
    assert report.losses["id", "two nodes have it"].count == 1


@pytest.mark.parametrize(
    ("name", "value"), [("confidence", {"$float": "NaN"}), ("confidence", {"$float": "1e999"})]
)
def test_a_number_outside_json_is_counted_and_not_written(
    tmp_path: Path, name: str, value: object
) -> None:
    """One NaN makes the whole file unreadable to amplihack."""
    origin = Origin(provider="amplihack", id="one", as_written={name: value})
    written, report = write(
        tmp_path / "x.json", [Semantic(text="a", origin=origin, metadata={"n": {"$float": "NaN"}})]
    )

    assert read_as_rust(written).semantic_nodes[0].metadata == {"n": None}
    assert {lost for lost, _ in report.losses} == {"metadata"} | {name}


# -- reading -------------------------------------------------------------------------------


def test_episodes_become_parents_and_edges_connect_records(tmp_path: Path) -> None:
    """With record ids, in any order of the arrays."""
    document = sample_document()
    for order in (list(document), sorted(document), sorted(document, reverse=True)):
        path = tmp_path / "x.json"
        found, _ = read(path, {name: document[name] for name in order})
        names = {one.model.origin.id: one for one in found}  # type: ignore[union-attr]
        fact, seen = names["sem-1"], names["epi-1"]
        assert fact.value["parent_ids"] == [seen.id]
        edges = [one.model for one in found if isinstance(one.model, Edge)]
        derived = next(one for one in edges if one.kind == "derives_from")
        assert (derived.source, derived.target) == (fact.id, seen.id)
        assert derived.properties == {"extraction_method": "llm_extraction", "confidence": 1}
        assert all(one.scope == Scope(agent="harbour-agent") for one in edges)


def test_a_malformed_tag_is_reported_and_its_node_can_be_skipped() -> None:
    """Amplihack refuses the whole file without naming the tag (defect 5)."""
    path = SAMPLES / "bad-tag-number.json"
    with pytest.raises(MalformedError) as refusal:
        read(path)
    assert refusal.value.field == "semantic_nodes/1/tags/1"
    assert refusal.value.line is not None

    found, reading = read(path, skip_bad=True)
    assert Counter(one.type for one in found) == {"semantic": 2, "episodic": 2, "edge": 2}
    fields = [one.field for one in reading.report.refused]
    assert fields[0] == "semantic_nodes/1/tags/1"
    assert len(fields) == 5, "the four edges of that fact lead nowhere then"


def test_null_is_read_as_absent_and_never_written(tmp_path: Path) -> None:
    """Amplihack refuses a file with a null (defect 5)."""
    document = sample_document()
    document["semantic_nodes"][0] |= {"entity_name": None, "source_id": None, "confidence": None}
    document["similar_to_edges"][0]["weight"] = None
    path = tmp_path / "x.json"
    read(path, document)

    found = read_as_rust(rewritten(path, tmp_path / "y.json")[0])
    assert found.semantic_nodes[0].entity_name == ""


def test_an_unknown_version_is_refused_without_any_version() -> None:
    """Amplihack does not check the version (defect 4)."""
    path = SAMPLES / "bad-version-unknown.json"
    with pytest.raises(MalformedError) as refusal:
        read(path)
    assert refusal.value.field == "format_version"
    assert len(read(path, any_version=True)[0]) == 11
    assert len(read(SAMPLES / "bad-version-missing.json", any_version=True)[0]) == 11


def test_unknown_members_and_large_numbers_round_trip_in_their_positions(tmp_path: Path) -> None:
    """Amplihack drops unknown members, and writes 12345678901234567890123 as 1.2e22 (defect 4)."""
    document = sample_document()
    document["semantic_nodes"][0]["embedding"] = [1, 2.5]
    document["semantic_nodes"][0]["metadata"]["big"] = 12345678901234567890123
    document["supersedes_edges"][0]["by"] = {"who": None}
    document["extra"] = {"x": 2**70}
    path = tmp_path / "x.json"
    found, _ = read(path, document)

    assert any(one.value["metadata"].get("big") for one in found if one.type == "semantic")
    assert json.loads(rewritten(path, tmp_path / "y.json")[0]) == document


def test_dangling_edges_are_dropped_and_reported(tmp_path: Path) -> None:
    """Amplihack counts them as imported (defect 3)."""
    document = sample_document()
    document["similar_to_edges"].append({"source_id": "sem-1", "target_id": "nada", "weight": 1})
    found, reading = read(tmp_path / "x.json", document)

    assert len(found) == 11
    assert [(one.field, one.message) for one in reading.report.refused] == [
        ("similar_to_edges/2/target_id", "its target is not in the file: 'nada'")
    ]
    assert reading.report.notes == ["statistics/similar_to_edge_count says 2, and there are 3"]


def test_duplicate_node_ids_are_reported(tmp_path: Path) -> None:
    """Amplihack stores one and counts both (defect 3)."""
    document = sample_document()
    document["semantic_nodes"].append({**document["semantic_nodes"][0], "content": "other"})
    _, reading = read(tmp_path / "x.json", document)

    assert "nodes with the ID of another node: 1, the first of them is semantic_nodes/3" in (
        reading.report.notes
    )


def test_a_record_that_is_too_large_is_reported_with_its_line(tmp_path: Path) -> None:
    """Also a fact, which is sealed after the file was read."""
    document = sample_document()
    document["semantic_nodes"][1]["content"] = "x" * 2**20
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(InputError) as refusal:
        read(path)
    lines = path.read_text().splitlines()
    assert refusal.value.line is not None
    assert lines[refusal.value.line - 1].strip() == "{"
    assert '"sem-2"' in lines[refusal.value.line]


def test_a_file_without_memories_is_an_error(tmp_path: Path) -> None:
    """In amplihack a mistyped agent name makes an empty backup."""
    document: dict[str, Any] = {**sample_document(), **{name: [] for name in ARRAYS}}
    with pytest.raises(EmptyInputError):
        read(tmp_path / "x.json", document)


def test_a_fact_with_5000_edges_to_one_episode_has_one_parent(tmp_path: Path) -> None:
    """The edges themselves are records of their own."""
    document = sample_document()
    edge = document["derives_from_edges"][0]
    document["derives_from_edges"] = [edge] * 5000
    found, _ = read(tmp_path / "x.json", document)
    assert [len(one.value.get("parent_ids", ())) for one in found if one.type == "semantic"] == [
        1,
        0,
        0,
    ]


# -- real files ----------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", ["amplihack-rs-sqlite-v1.1.json", "amplihack-python-v1.1.json"])
def test_a_real_export_round_trips(name: str, shared_data: Path, tmp_path: Path) -> None:
    """Rust's files byte for byte, Python's except for the order of metadata."""
    source = shared_data / "amplihack" / name
    written, report = rewritten(source, tmp_path / "again.json")

    assert json.loads(written) == json.loads(source.read_bytes())
    assert report.total == 0
    read_as_rust(written)
    if "rs" in name:
        assert written == source.read_bytes()


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "facts", "episodes", "edges"),
    [
        ("memory-lib-python-v1.0.json", 7, 3, 11),
        ("amplihack-rs-agent-core.json", 3, 1, 1),
        ("edge_cases/dangling.json", 7, 3, 14),
        ("edge_cases/dupid.json", 8, 3, 14),
        ("edge_cases/null.json", 7, 3, 14),
        ("edge_cases/unknown.json", 7, 3, 14),
    ],
)
def test_real_files_of_every_shape_are_read(
    shared_data: Path, tmp_path: Path, name: str, facts: int, episodes: int, edges: int
) -> None:
    """The counts are those of all readable records, which can be written for Rust."""
    source = shared_data / "amplihack" / name
    found, reading = read(source)

    count = Counter(one.type for one in found)
    assert (count["semantic"], count["episodic"], count["edge"]) == (facts, episodes, edges)
    assert len(reading.report.refused) == (2 if "dangling" in name else 0)
    read_as_rust(rewritten(source, tmp_path / "again.json")[0])


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "field"),
    [("inttag.json", "semantic_nodes/0/tags/1"), ("ver.json", "format_version")],
)
def test_malformed_real_files_are_refused_with_the_field(
    shared_data: Path, name: str, field: str
) -> None:
    """The error names the field."""
    with pytest.raises(MalformedError) as refusal:
        read(shared_data / "amplihack" / "edge_cases" / name)
    assert refusal.value.field == field
