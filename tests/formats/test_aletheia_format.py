"""Agent files of Aletheia: what its programs write, and conversations that can be continued."""

import json
from pathlib import Path
from typing import Any

import pytest

from satchel.conformance.formats import leaves
from satchel.conformance.subject import ReadResult, Subject, sealed, source_of
from satchel.crypto.canonical import decode_foreign
from satchel.errors import LimitError, MalformedError
from satchel.model.records import Edge, FileVersion, GraphNode, Model, Semantic, SessionEvent
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "aletheia"
SUBJECT = Subject("aletheia", formats["aletheia"], SAMPLES)
PROGRAMS = ["typescript", "rust"]


def rewritten(found: ReadResult, name: str = "again.agent.json") -> Any:
    """Return the document that is written from the read records."""
    records = [*found.records, source_of("aletheia", found.container)]
    with sealed(records) as held, SUBJECT.written(held, name) as (path, report):
        assert report.total == 0
        return json.loads(path.read_bytes())


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_value_of_a_program_file_is_in_a_record_or_reported_lost(program: str) -> None:
    """Each text and number is in a record, in the container, or reported as lost."""
    sample = SAMPLES / f"other-{program}.agent.json"
    found = SUBJECT.take(sample)
    values = [decode_foreign([one.value for one in found.records]), decode_foreign(found.container)]
    kept = leaves([*values, rewritten(found)])
    assert [one for one in leaves(json.loads(sample.read_bytes())) if one not in kept] == []
    assert found.report.total == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_file_is_written_as_version_1_and_round_trips(program: str) -> None:
    """Reading and writing it again changes nothing."""
    first = rewritten(SUBJECT.take(SAMPLES / f"other-{program}.agent.json"))
    second = rewritten(SUBJECT.take_bytes(json.dumps(first).encode(), like=Path("a.agent.json")))
    assert first["version"] == 1
    assert {*first} >= {"nous", "workspace", "memory", "sessions", "distillation"}
    assert second == first


def test_facts_that_the_rust_program_forgot_are_expired() -> None:
    """They are not shown."""
    found = SUBJECT.take(SAMPLES / "other-rust.agent.json")
    facts = [one.model for one in found.records if isinstance(one.model, Semantic)]
    assert [one.expires_at for one in facts] == [None, "2026-03-01T00:00:00.000000Z"]
    assert [one.valid_until for one in facts] == [None, None]


def test_edges_of_the_typescript_program_find_their_nodes_by_name() -> None:
    """Its nodes have no ids."""
    found = SUBJECT.take(SAMPLES / "other-typescript.agent.json")
    nodes = {one.id: one.model.name for one in found.records if isinstance(one.model, GraphNode)}
    edge = next(one.model for one in found.records if isinstance(one.model, Edge))
    assert (nodes[edge.source], edge.kind, nodes[edge.target]) == ("Rosa", "LIKES", "Tea")


def test_the_main_session_is_the_active_primary_session() -> None:
    """Not the first in the list."""
    found = SUBJECT.take(SAMPLES / "other-typescript.agent.json")
    assert found.container["primary"] == "ses_9f"
    sessions = rewritten(found)["sessions"]
    assert sessions["primary"]["id"] == "ses_9f"
    assert [one["id"] for one in sessions["others"]] == ["ses_a0"]


def test_attack_forks_in_reverse_order_are_read_in_bounded_time() -> None:
    """Thousands of forks, each from the next one; cycles, and forks of themselves."""
    count = 2_000
    begins = [
        {"session": f"s{number + 1}", "at": f"s{number + 1}/m", "after": count - 1 - number}
        for number in range(count - 1)
    ]
    message = {"id": "m", "role": "user", "content": "x", "metadata": {}}
    others = [
        {"id": f"s{number}", "messages": [message], **({"forkedFrom": one} if one else {})}
        for number, one in enumerate([*begins, None])
    ]
    ring = [
        {"id": "a", "messages": [message], "forkedFrom": {"session": "b", "at": "b/m", "after": 1}},
        {"id": "b", "messages": [message], "forkedFrom": {"session": "a", "at": "a/m", "after": 1}},
        {"id": "c", "messages": [message], "forkedFrom": {"session": "c", "at": "c/m", "after": 1}},
    ]
    value = json.loads((SAMPLES / "good-small.agent.json").read_bytes())
    value["sessions"] = {"primary": None, "background": [], "others": [*others, *ring]}
    found = SUBJECT.take_bytes(json.dumps(value).encode(), like=Path("a.agent.json"))
    events = [one.model for one in found.records if isinstance(one.model, SessionEvent)]
    starts = [one.event for one in events if one.event != "message"]
    assert len(events) == 2 * (count + 3)
    assert starts.count("fork") == count  # all but the first, and one of the ring
    assert sum(loss.count for loss in found.report.losses.values()) == 2


def test_each_event_names_the_previous_event() -> None:
    """The events are a chain from the last one back to the start of the session."""
    found = SUBJECT.take(SAMPLES / "good-whole.agent.json")
    events = [one for one in found.records if isinstance(one.model, SessionEvent)]
    models = [one.model for one in events if isinstance(one.model, SessionEvent)]
    assert {one.session for one in models[1:]} == {events[0].id}
    assert [one.parent for one in models[1:]] == [one.id for one in events[:-1]]
    places = [one.state for one in models[1:]]
    assert [one["step"] for one in places if isinstance(one, dict)] == [*range(1, len(models))]


def test_a_memory_may_be_derived_from_a_later_one() -> None:
    """The order in a file is irrelevant to lineage."""
    vectors = [
        {"id": "c", "text": "c", "metadata": {}, "record": {"parent_ids": ["b"]}},
        {"id": "b", "text": "b", "metadata": {}, "record": {"parent_ids": ["a"]}},
        {"id": "a", "text": "a", "metadata": {}},
    ]
    found = SUBJECT.take_bytes(_document(memory={"vectors": vectors}), like=Path("a.agent.json"))
    contents = {one["text"]: one for one in found.contents if "text" in one}
    assert contents["c"]["parent_ids"] == ["#1"]
    assert contents["b"]["parent_ids"] == ["#0"]


def test_a_cycle_of_parents_is_broken_and_reported() -> None:
    """The link that closes the cycle is counted as lost."""
    vectors = [
        {"id": name, "text": name, "metadata": {}, "record": {"parent_ids": [other]}}
        for name, other in (("a", "b"), ("b", "a"))
    ]
    found = SUBJECT.take_bytes(_document(memory={"vectors": vectors}), like=Path("a.agent.json"))
    assert len(found.records) == 2
    assert {name for name, _ in found.report.losses} == {"parent_ids"}


def test_a_dangling_edge_is_dropped_and_reported() -> None:
    """The rest of the file is read."""
    graph = {"nodes": [{"id": "n"}], "edges": [{"source": "n", "target": "x", "type": "t"}]}
    found = SUBJECT.take_bytes(_document(memory={"graph": graph}), like=Path("a.agent.json"))
    assert [one.type for one in found.records] == ["graph_node"]
    assert found.report.refused[0].field == "memory/graph/edges/target"


def test_a_malformed_memory_is_skipped_and_reported_with_skip_bad() -> None:
    """With its position in the file."""
    vectors = [{"id": "a", "text": 1}, {"id": "b", "text": "b", "metadata": {}}]
    path = SUBJECT.samples / "a.agent.json"
    reading = ReadContext(skip_bad=True)
    with SUBJECT.folder() as folder:
        path = folder / "a.agent.json"
        path.write_bytes(_document(memory={"vectors": vectors}))
        found = list(read_records(SUBJECT.adapter, Location(path), reading))
    assert len(found) == 1
    assert reading.report.refused[0].field == "memory/vectors/0/text"


def test_an_unknown_version_is_refused_by_name() -> None:
    """Its members are not guessed at."""
    with pytest.raises(MalformedError) as refusal:
        SUBJECT.take_bytes(_document(version=7), like=Path("a.agent.json"))
    assert refusal.value.field == "version"


def test_the_settings_in_a_file_are_limited_in_size() -> None:
    """Megabytes of settings are refused before they reach the log."""
    nous = {"id": "a", "config": {"x": "y" * 600_000}}
    with pytest.raises(LimitError):
        SUBJECT.take_bytes(_document(nous=nous), like=Path("a.agent.json"))


def test_a_long_workspace_file_is_split_and_written_whole() -> None:
    """No record is larger than the limit."""
    text = "ü\n" * 300_000
    workspace = {"files": {"a.md": text, "b.md": ""}, "binaryFiles": []}
    found = SUBJECT.take_bytes(_document(workspace=workspace), like=Path("a.agent.json"))
    assert len(found.records) > 3
    assert rewritten(found)["workspace"]["files"] == {"a.md": text, "b.md": ""}


def _document(**changed: Any) -> bytes:
    value = {"version": 1, "exportedAt": "x", "nous": {"id": "a"}, **changed}
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "version",
    [
        *(FileVersion(path=path, text="x") for path in ["", "../up.md", "/etc/passwd", "a//b.md"]),
        FileVersion(path="a.bin", blob="blake3:" + "0" * 64),
    ],
    ids=lambda version: version.path or "none",
)
def test_a_workspace_file_with_an_invalid_path_is_dropped_and_counted_once(
    version: FileVersion,
) -> None:
    """The reader of the program would refuse the whole agent file."""
    records: list[Model] = [Semantic(text="there"), version]
    records.append(FileVersion(path="b.md", text="y"))
    with sealed(records) as held, SUBJECT.written(held, "a.agent.json") as (place, report):
        lost = [(one.name, one.count) for one in report.losses.values()]
        assert lost == [("file_version", 1)]
        read_back = SUBJECT.take(place)
    files = [one.model for one in read_back.records if isinstance(one.model, FileVersion)]
    assert [one.path for one in files] == ["b.md"]
