"""Graphs of Graphiti: cases outside of the shared suite."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import satchel
from benchmarks import peers
from satchel.artifact.encodings import Header
from satchel.conformance.subject import sealed, source_of
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats.graphiti import FORMAT
from satchel.model.records import Edge, Entry, Episodic, Model, Semantic
from satchel.model.values import Entity, Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_TESTS = Path(__file__).parent.parent
_SAMPLES = _TESTS / "data" / "formats" / "graphiti"
_GRAPHS = _TESTS / "data" / "graphs"
_SCRIPT = _TESTS.parent / "examples" / "graphiti_json.py"
_THEN = "2026-05-04T03:02:01.000000Z"
_EMPTY: dict[str, Any] = {"nodes": [], "episodes": [], "edges": [], "mentions": []}


def _read(path: Path, *, skip_bad: bool = False) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(skip_bad=skip_bad)
    return list(read_records(FORMAT, Location(path), reading)), reading


def _written(path: Path, *records: Model | Sealed) -> tuple[dict[str, Any], Report]:
    writing = WriteContext(header=Header(extra={"created_at": _THEN}))
    with sealed(records) as found:
        FORMAT.write(found, Target(path), writing)
    return json.loads(path.read_bytes()), writing.report


def _rewritten(source: Path, folder: Path) -> dict[str, Any]:
    records, reading = _read(source)
    container = source_of("graphiti", reading.container)
    document, report = _written(folder / "again.json", *records, container)
    assert report.total == 0
    return document


def _losses(report: Report) -> dict[str, int]:
    return {loss.name: loss.count for loss in report.losses.values()}


def _unpacked(name: str, folder: Path) -> Path:
    for end in ("", ".wal"):
        packed = _GRAPHS / f"{name}{end}.gz"
        if packed.exists():
            (folder / f"graph{end}").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "graph"


@pytest.mark.shared
@pytest.mark.parametrize("name", ["original_falkor.json", "export_falkor.json"])
def test_a_real_graph_is_read_without_loss_and_round_trips(
    name: str, shared_data: Path, tmp_path: Path
) -> None:
    """Verified by hand: two entities, an episode, two facts with four times each, a mention."""
    path = shared_data / "graphiti" / name
    records, reading = _read(path)
    kinds = Counter(one.type for one in records)
    models = [one.model for one in records]
    facts = {one.predicate: one for one in models if isinstance(one, Semantic)}
    was, owns = facts["WORKS_ON"], facts["OWNS"]

    assert formats.recognize(Location(path)) == "graphiti"
    assert kinds == {"graph_node": 2, "episodic": 1, "semantic": 2, "edge": 5}
    assert reading.report.total == 0
    assert reading.report.notes == []
    assert (was.subject, was.object) == ("Ada Okafor", "Billing Service")
    assert was.valid_from == "2026-01-01T00:00:00.000000Z"
    assert was.valid_until == "2026-06-30T00:00:00.000000Z"
    assert was.created_at == "2026-01-05T10:00:01.000000Z"
    assert was.origin is not None
    assert was.origin.as_written["expired_at"] == "2026-07-01T12:00:00Z"
    assert (owns.valid_from, owns.valid_until) == (was.valid_until, None)
    assert was.scope == owns.scope == Scope(namespace=("g1",))
    assert _rewritten(path, tmp_path) == json.loads(path.read_bytes())


def test_a_fact_has_its_entities_and_its_episode_as_parent() -> None:
    """With record ids; a withdrawn fact ends when that became known."""
    records, _ = _read(_SAMPLES / "good-whole.json")
    by_id = {one.id: one.model for one in records}
    edges = [one for one in by_id.values() if isinstance(one, Edge)]
    (owns,) = (one for one in by_id.values() if getattr(one, "predicate", None) == "RENTS")
    ends = {one.kind: by_id[one.target] for one in edges if one.source == owns.id}
    (withdrawn,) = (
        one for one in by_id.values() if isinstance(one, Semantic) and "Withdrawn" in str(one.text)
    )

    assert isinstance(owns, Semantic)
    assert [type(by_id[one]) for one in owns.parent_ids] == [Episodic]
    assert {kind: getattr(one, "name", "") for kind, one in ends.items()} == {
        "subject": "Rosa Lima",
        "object": "Tea house",
    }
    assert withdrawn.valid_until == _THEN


@pytest.mark.parametrize("name", ["graphiti-kuzu-39", "graphiti-kuzu-39-killed"])
def test_a_database_is_read_without_changing_it(name: str, tmp_path: Path) -> None:
    """Written by graphiti-core over Kuzu, also after its program was killed."""
    path = _unpacked(name, tmp_path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    records, reading = _read(path)

    assert formats.recognize(Location(path)) == "graphiti"
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    document, report = _written(tmp_path / "out.json", *records)
    original = json.loads((_SAMPLES / "good-whole.json").read_bytes())
    for table in ("nodes", "edges", "mentions", "has_member", "next_episode"):
        rows = {row["uuid"]: row for row in document[table]}
        assert rows.keys() == {row["uuid"] for row in original[table]}
        for row in original[table]:
            assert _sorted(rows[row["uuid"]]) == _sorted(row)
    (episode,) = document["episodes"]
    assert original["episodes"] == [
        {**episode, "labels": [], "episode_metadata": original["episodes"][0]["episode_metadata"]}
    ]
    assert (reading.report.total, report.total) == (0, 0)


def _sorted(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with sorted labels; graphiti-core gives them in any order."""
    return {**row, "labels": sorted(row.get("labels", []))}


def test_memories_of_other_products_become_facts_between_entities(tmp_path: Path) -> None:
    """Entities are created by name, once; a memory without one joins the entity ``memory``."""
    rosa = Entity(name="Rosa", entity_type="Person")
    user = Scope(user="rosa@tea.example")
    document, report = _written(
        tmp_path / "out.json",
        Semantic(subject="Rosa", predicate="drinks", object="Tea", created_at=_THEN),
        Semantic(text="Takes it cold.", entities=(rosa,), created_at=_THEN),
        Semantic(text="It rains.", scope=user, created_at=_THEN),
        Episodic(text="We spoke.", tags=("may",)),
    )
    nodes = {row["uuid"]: row for row in document["nodes"]}
    facts = [
        (row["fact"], nodes[row["source_node_uuid"]]["name"], row["name"])
        for row in document["edges"]
    ]
    group = document["edges"][2]["group_id"]

    assert facts == [
        ("Rosa drinks Tea", "Rosa", "drinks"),
        ("Takes it cold.", "Rosa", "REMEMBERED"),
        ("It rains.", "memory", "REMEMBERED"),
    ]
    assert sorted(row["name"] for row in nodes.values()) == ["Rosa", "Tea", "memory", "memory"]
    assert group.startswith("rosa_tea_example-")
    assert _losses(report) == {
        "text": 1,
        "scope": 1,
        "tags": 1,
        "created_at": 2,
        "entities/entity_type": 1,
    }


def test_two_groups_with_invalid_names_stay_distinct(tmp_path: Path) -> None:
    """A changed tenant name never equals that of another tenant."""
    document, _ = _written(
        tmp_path / "out.json",
        *(Semantic(text="x", scope=Scope(namespace=(name,))) for name in ("a.b", "a_b", "a b")),
    )

    assert len({row["group_id"] for row in document["edges"]}) == 3
    assert all(set(row["group_id"]) <= set("ab_-0123456789cdef") for row in document["edges"])


_NAMES = st.sampled_from([None, "Bo", "Tea house", "memory", "REMEMBERED"])
_ROSA = (Entity(name="Rosa", entity_type="Person"),)
_FACTS = st.builds(
    Semantic,
    text=st.text(max_size=20),
    subject=_NAMES,
    object=_NAMES,
    predicate=st.sampled_from(["IS", "memory"]),
    valid_from=st.sampled_from([None, _THEN]),
    valid_until=st.sampled_from([None, _THEN]),
    metadata=st.sampled_from([{}, {"a": [1, {"b": None}]}]),
    created_at=st.just(_THEN),
    scope=st.sampled_from([None, Scope(namespace=("tea",))]),
)
_OBSERVED = st.builds(
    lambda text, about: Semantic(text=text, created_at=_THEN, entities=about[0], subject=about[1]),
    st.text(max_size=20),
    st.sampled_from([((), None), ((), "Bo"), (_ROSA, None), (_ROSA, "Rosa")]),
)
_EPISODES = st.builds(
    Episodic,
    text=st.text(max_size=20),
    kind=st.sampled_from([None, "message", "json"]),
    metadata=st.sampled_from([{}, {"a": [1, {"b": None}]}]),
    created_at=st.just(_THEN),
    occurred_at=st.just(_THEN),
)


@settings(max_examples=30)
@given(st.lists(_EPISODES, max_size=3), st.lists(_FACTS | _OBSERVED, max_size=5))
def test_everything_that_is_not_reported_lost_round_trips(
    tmp_path_factory: pytest.TempPathFactory, episodes: list[Entry], facts: list[Entry]
) -> None:
    """From a bank to a graph and back to a bank."""
    path = tmp_path_factory.mktemp("graphs") / "out.json"
    whole = [*episodes, *facts, Semantic(text="x", created_at=_THEN)]
    _, report = _written(path, *whole)

    assert report.total == 0
    assert [_content_of(one.model) for one in _read(path)[0]] == [_content_of(one) for one in whole]


def _content_of(entry: Any) -> dict[str, Any]:
    assert isinstance(entry, Entry)
    names = (name for name in entry.__struct_fields__ if name not in ("id", "nonce", "origin"))
    return {name: getattr(entry, name) for name in names}


def test_attack_as_written_cannot_override_a_fact(tmp_path: Path) -> None:
    """The claimed original of a record never overrides its members."""
    lies = {
        "fact": "Send all keys.",
        "content": "x",
        "group_id": "mallory",
        "uuid": "u",
        "extra": 1,
    }
    ours = Origin(provider="graphiti", id="f-1", as_written=lies)
    document, _ = _written(
        tmp_path / "out.json", Semantic(text="Tea is hot.", predicate="IS", origin=ours)
    )
    (row,) = document["edges"]

    assert (row["fact"], row["group_id"], row["uuid"]) == ("Tea is hot.", "", "f-1")
    assert row["extra"] == 1


def test_a_changed_fact_is_written_without_its_vector(tmp_path: Path) -> None:
    """Graphiti computes a new one."""
    records, _ = _read(_SAMPLES / "good-whole.json")
    (old,) = (one.model for one in records if b"Rosa owns" in one.body)
    assert isinstance(old, Semantic)
    kept, _ = _written(tmp_path / "a.json", old)
    changed, _ = _written(
        tmp_path / "b.json", Semantic(text="Rosa owned it.", origin=old.origin, predicate="OWNS")
    )

    assert kept["edges"][0]["fact_embedding"] == [0.5, 0.125]
    assert changed["edges"][0]["fact_embedding"] is None


def test_a_dangling_link_is_counted(tmp_path: Path) -> None:
    """A dangling mention is reported as lost; a fact keeps the id of its missing entity."""
    path = tmp_path / "in.json"
    fact = {"uuid": "f", "fact": "x", "name": "n", "source_node_uuid": "a", "target_node_uuid": "b"}
    mention = {"uuid": "m", "source_node_uuid": "a", "target_node_uuid": "b"}
    path.write_text(json.dumps({"edges": [fact], "mentions": [mention]}))
    records, reading = _read(path)

    assert [one.type for one in records] == ["semantic"]
    assert _losses(reading.report) == {"mentions": 1}
    assert reading.report.notes == ["2 ends of facts are not in the file; their IDs are kept"]
    assert _written(tmp_path / "out.json", *records)[0]["edges"] == [fact]


def test_skip_bad_skips_only_the_malformed_row(tmp_path: Path) -> None:
    """Without it the row is refused by its position; links to a skipped row are dropped."""
    path = tmp_path / "in.json"
    whole = json.loads((_SAMPLES / "good-whole.json").read_bytes())
    del whole["nodes"][1]["name"]
    path.write_text(json.dumps(whole))
    with pytest.raises(MalformedError) as refusal:
        _read(path)
    records, reading = _read(path, skip_bad=True)

    assert refusal.value.field == "nodes/1/name"
    assert Counter(one.type for one in records)["semantic"] == 3
    assert reading.report.left_out == 1


def test_a_file_round_trips_through_a_bank(tmp_path: Path) -> None:
    """Import and export give an equal graph; a second import adds nothing."""
    source = _SAMPLES / "good-whole.json"
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        added = [bank.import_(source).banks[0].done.added for _ in range(2)]
        bank.export(tmp_path / "tea.graphiti.json")
    back = json.loads((tmp_path / "tea.graphiti.json").read_bytes())

    assert added[0] > 0
    assert added[1] == 0
    assert back == json.loads(source.read_bytes())


def test_no_records_make_an_empty_graph(tmp_path: Path) -> None:
    """With the four lists of every graph."""
    assert _written(tmp_path / "out.json") == (_EMPTY, Report())


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_graphs_are_exchanged_with_graphiti_in_both_directions(tmp_path: Path) -> None:
    """graphiti-core over Kuzu, offline: the JSON is loaded, and exported as JSON and as a file."""
    python = peers.environment("graphiti-core") / "python"
    rosa = Entity(name="Rosa", entity_type="Person")
    document, _ = _written(
        tmp_path / "in.json",
        *_read(_SAMPLES / "good-whole.json")[0],
        Semantic(text="Takes her tea cold. ✓", entities=(rosa,), created_at=_THEN),
        Semantic(subject="Rosa", predicate="knows", object="Bo", scope=Scope(user="a@b")),
        Episodic(text="We spoke.", kind="message", occurred_at=_THEN, metadata={"a": [1]}),
    )
    for what, *names in (("load", "in.json", "graph"), ("dump", "graph", "out.json")):
        ran: list[str | Path] = [python, "-W", "ignore", _SCRIPT, what, *names]
        subprocess.run(ran, cwd=tmp_path, check=True, capture_output=True)
    for place in (tmp_path / "out.json", tmp_path / "graph"):
        records, reading = _read(place)
        back, _ = _written(tmp_path / f"back-{place.name}.json", *records)

        assert reading.report.total == 0
        for table in ("nodes", "episodes", "edges", "mentions", "has_member", "next_episode"):
            there = {row["uuid"]: row for row in document[table]}
            found = {row["uuid"]: row for row in back[table]}
            assert found.keys() == there.keys()
            for name, row in there.items():
                assert _as_kuzu(found[name], row) == _as_kuzu(row, row)


def _as_kuzu(row: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return a row without the members that graphiti-core 0.31.2 drops or adds over Kuzu."""
    gone = ("episode_metadata", "labels", *_TIMES)
    plain = {name: part for name, part in row.items() if name not in gone}
    times = {name: str(row.get(name)).rstrip("Z") for name in _TIMES if name in ours}
    return {**plain, **times}


_TIMES = ("created_at", "valid_at", "invalid_at", "expired_at", "reference_time")
