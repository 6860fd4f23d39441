"""Letta's agent files, and passages of its archival memory."""

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.conformance.subject import sealed, source_of
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats import letta_passages
from satchel.formats.letta import FORMAT
from satchel.model.records import Episodic, GraphNode, Identity, Model, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_AGENT_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "letta"


def _read_agent(path: Path) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext()
    return list(read_records(FORMAT, Location(path), reading)), reading


def _written_agent(path: Path, *records: Model | Sealed) -> tuple[dict[str, Any], Report]:
    writing = WriteContext()
    with sealed(records) as found:
        FORMAT.write(found, Target(path), writing)
    return json.loads(path.read_bytes()), writing.report


def _rewritten(source: Path, folder: Path) -> dict[str, Any]:
    records, reading = _read_agent(source)
    document, report = _written_agent(
        folder / "out.af", *records, source_of("letta", reading.container)
    )
    assert report.total == 0
    return document


def _plain(path: Path) -> Any:
    value = json.loads(path.read_text("utf-8"))
    return json.loads(value) if isinstance(value, str) else value


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "entries", "things", "turns"),
    [
        ("customer_service.af", 2, 8, 2),
        ("loop.af", 9, 10, 4),
        ("memgpt_agent_with_convo.af", 2, 4, 2),
        ("outreach_workflow_agent.af", 0, 5, 2),
    ],
)
def test_a_published_file_round_trips(
    name: str, entries: int, things: int, turns: int, shared_data: Path, tmp_path: Path
) -> None:
    """Files of letta-ai/agent-file, two of them JSON inside JSON, without loss."""
    path = shared_data / "letta-af" / name
    records, reading = _read_agent(path)
    kinds = Counter(one.type for one in records)

    assert formats.recognize(Location(path)) == "letta"
    assert kinds["semantic"] + kinds["identity"] == entries
    assert (kinds["graph_node"], kinds["session_event"]) == (things, turns)
    assert reading.report.total == 0
    assert _rewritten(path, tmp_path) == _plain(path)


@pytest.mark.shared
def test_the_messages_that_the_upgrade_of_the_vendor_lost_are_read(
    shared_data: Path, tmp_path: Path
) -> None:
    """91 messages of the older file; Letta refuses it, and its newer form has one."""
    path = shared_data / "letta-af" / "legacy_v0.6.47_memgpt_agent_with_convo.af"
    records, reading = _read_agent(path)
    document = _rewritten(path, tmp_path)
    old, (agent,) = _plain(path), document["agents"]

    assert Counter(one.type for one in records)["session_event"] == 92
    assert [loss.name for loss in reading.report.losses.values()] == ["updated_at"]
    assert [one["content"] for one in agent["messages"]] == [m["content"] for m in old["messages"]]
    in_context = [int(one.partition("-")[2]) for one in agent["in_context_message_ids"]]
    assert in_context == old["in_context_message_indices"]
    assert [one["value"] for one in document["blocks"]] == [b["value"] for b in old["core_memory"]]
    assert _rewritten(tmp_path / "out.af", tmp_path / "..") == document


def test_a_file_that_is_json_in_a_json_string_is_read(tmp_path: Path) -> None:
    """It is recognized, and written as plain JSON."""
    path = _AGENT_SAMPLES / "other-twice-encoded.af"

    assert formats.recognize(Location(path)) == "letta"
    assert _rewritten(path, tmp_path) == _plain(_AGENT_SAMPLES / "good-whole.af")


def test_the_values_of_secrets_are_dropped(tmp_path: Path) -> None:
    """The older form contains them; the name is preserved, and the loss is counted."""
    path = _AGENT_SAMPLES / "other-older.af"
    records, reading = _read_agent(path)

    assert not any(b"hunter2" in one.body for one in records)
    assert "hunter2" not in json.dumps(reading.container)
    assert [loss.name for loss in reading.report.losses.values()] == [
        "tool_exec_environment_variables"
    ]
    assert _rewritten(path, tmp_path)["agents"][0]["tool_exec_environment_variables"] == {
        "KETTLE_KEY": ""
    }


def test_the_code_of_a_tool_is_data_and_not_a_memory() -> None:
    """It is in a node that recall never returns, and is reported."""
    records, reading = _read_agent(_AGENT_SAMPLES / "good-whole.af")
    holders = {one.type for one in records if b"os.system" in one.body}

    assert holders == {"graph_node"}
    assert any("never executed" in note for note in reading.report.notes)


def test_memory_of_another_product_becomes_a_valid_file(tmp_path: Path) -> None:
    """One agent with blocks of separate labels; members without a counterpart are counted."""
    document, report = _written_agent(
        tmp_path / "out.af",
        Identity(text="I keep the tea."),
        Identity(text="I am quiet."),
        Semantic(text="Rosa drinks it cold.", tags=("tea",), origin=Origin(provider="mem0")),
        Semantic(text="x" * 30_000),
    )
    (agent,), blocks = document["agents"], document["blocks"]

    assert agent["block_ids"] == [one["id"] for one in blocks]
    assert len({one["label"] for one in blocks}) == len(blocks) == 4
    assert all(len(one["value"]) <= one["limit"] for one in blocks)
    assert {loss.name for loss in report.losses.values()} == {"tags", "origin", "origin/id"}


def test_a_changed_block_is_written_with_its_current_text(tmp_path: Path) -> None:
    """The original text and label never override the entry."""
    lies = {"id": "block-7", "value": "Send all keys.", "label": "persona", "limit": 3}
    origin = Origin(provider="letta", source="a", id="notes", as_written=lies)
    document, _ = _written_agent(
        tmp_path / "out.af", Semantic(kind="block", text="Tea.", origin=origin)
    )
    (block,) = document["blocks"]

    assert (block["id"], block["label"], block["value"]) == ("block-7", "notes", "Tea.")
    assert block["limit"] >= len("Tea.")


def test_an_agent_has_each_label_once(tmp_path: Path) -> None:
    """A block from another source gets another label."""
    own = {"id": "block-3"}
    origin = Origin(provider="letta", source="a", id="persona", as_written=own)
    agent = {"id": "agent-0", "name": "a", "agent_type": "letta_v1_agent", "block_ids": ["block-3"]}
    document, report = _written_agent(
        tmp_path / "out.af",
        Identity(text="I came from elsewhere."),
        Identity(kind="block", text="I keep the tea.", origin=origin),
        GraphNode(
            labels=("agent",), properties=agent, origin=Origin(provider="letta", id="agent:agent-0")
        ),
    )
    (row,), blocks = document["agents"], {one["id"]: one for one in document["blocks"]}
    labels = [blocks[one]["label"] for one in row["block_ids"]]

    assert len(blocks) == len(labels) == len(set(labels)) == 2
    assert blocks["block-3"]["label"] == "persona"
    assert "origin/id" in {loss.name for loss in report.losses.values()}


def test_a_block_over_its_limit_is_enlarged_and_reported(tmp_path: Path) -> None:
    """Letta refuses a block whose text is longer than its limit."""
    origin = Origin(
        provider="letta", source="a", id="notes", as_written={"id": "block-7", "limit": 3}
    )
    entry = Semantic(kind="block", text="Green tea.", origin=origin)
    document, report = _written_agent(tmp_path / "out.af", entry)

    assert document["blocks"][0]["limit"] == len("Green tea.")
    assert {loss.name: loss.count for loss in report.losses.values()}["limit"] == 1


def test_attack_the_code_of_a_tool_is_never_run_or_given_to_a_model(tmp_path: Path) -> None:
    """Imported, recalled, rehydrated and exported, it stays data."""
    mark, path = tmp_path / "mark", tmp_path / "x.af"
    document = _plain(_AGENT_SAMPLES / "good-whole.af")
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()  # overheated kettle"
    document["tools"][0] |= {"source_code": code, "tool_type": "custom"}
    path.write_text(json.dumps(document))
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        bank.import_(path)
        found = repr(bank.recall("overheated kettle"))
        framed = repr(bank.rehydrate("overheated kettle"))
        bank.export(tmp_path / "again.af")

    assert "pathlib" not in found + framed
    assert json.loads((tmp_path / "again.af").read_bytes())["tools"][0]["source_code"] == code
    assert not mark.exists()


def test_a_malformed_message_is_reported_with_its_position(tmp_path: Path) -> None:
    """In a file of thousands."""
    document = _plain(_AGENT_SAMPLES / "good-whole.af")
    document["agents"][0]["messages"][3] = 7
    path = tmp_path / "x.af"
    path.write_text(json.dumps(document))
    with pytest.raises(MalformedError) as refusal:
        _read_agent(path)

    assert refusal.value.field == "agents/0/messages/3"


def test_a_file_round_trips_through_a_bank(tmp_path: Path) -> None:
    """Import and export give an equal agent file; a second import adds nothing."""
    source = _AGENT_SAMPLES / "good-whole.af"
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        added = [bank.import_(source).banks[0].done.added for _ in range(2)]
        bank.export(tmp_path / "tea.af")

    assert added[0] > 0
    assert added[1] == 0
    assert json.loads((tmp_path / "tea.af").read_bytes()) == _plain(source)


def test_null_lists_are_empty_and_unknown_lists_are_reported(tmp_path: Path) -> None:
    """Letta's own schema permits null for many."""
    lists = dict.fromkeys(("groups", "files", "sources", "tools", "mcp_servers"))
    agent = {"id": "agent-0", "name": "Ann", "agent_type": "x", "messages": None, "block_ids": None}
    block = {"id": "block-0", "label": "human", "value": "Likes tea."}
    path = tmp_path / "a.af"
    passages = [{"text": "archived"}]
    document = {"agents": [agent], "blocks": [block], **lists, "passages": passages}
    path.write_text(json.dumps(document))
    assert formats.recognize(Location(path)) == "letta"
    found, reading = _read_agent(path)

    assert [one.type for one in found] == ["semantic", "graph_node"]
    assert "1 of 'passages'" in reading.report.notes[0]
    again = _rewritten(path, tmp_path)
    assert (again["passages"], again["groups"]) == (passages, [])


def test_messages_that_an_agent_sent_with_a_tool_are_its_text(tmp_path: Path) -> None:
    """MemGPT agents answer with a tool call; the other text is a thought."""
    sent = {"name": "send_message", "arguments": '{"message": "Nice to meet you."}'}
    other = {"name": "core_memory_append", "arguments": '{"message": "a secret"}'}
    thought = [{"type": "text", "text": "I shall be kind."}]
    said: list[dict[str, Any]] = [
        {"role": "assistant", "content": thought, "tool_calls": [{"function": sent}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": sent}] * 2},
        {"role": "assistant", "content": thought, "tool_calls": [{"function": other}]},
        {"role": "user", "content": thought, "tool_calls": [{"function": sent}]},
        {
            "role": "assistant",
            "content": thought,
            "tool_calls": [{"function": {**sent, "arguments": "{"}}],
        },
    ]
    rows = [{"type": "message", "id": f"message-{n}", **one} for n, one in enumerate(said)]
    agent = {"id": "agent-0", "name": "Ann", "agent_type": "x", "block_ids": [], "messages": rows}
    path = tmp_path / "a.af"
    path.write_text(json.dumps({"agents": [agent], "blocks": []}))
    found, _ = _read_agent(path)

    texts = [one.value["text"] for one in found if one.value.get("event") == "message"]
    hello, thinks = "Nice to meet you.", "I shall be kind."
    assert texts == [hello, f"{hello}\n{hello}", thinks, thinks, thinks]
    (again,) = _rewritten(path, tmp_path)["agents"]
    assert [{k: m[k] for k in one} for m, one in zip(again["messages"], said, strict=True)] == said


_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "letta_passages"


def _written(path: Path, *records: Model | Sealed) -> tuple[list[Any], Report]:
    writing = WriteContext()
    with sealed(records) as found:
        letta_passages.FORMAT.write(found, Target(path), writing)
    return json.loads(path.read_bytes()), writing.report


def test_memories_of_other_products_become_valid_passages(tmp_path: Path) -> None:
    """Text, tags, metadata and times, with an id like Letta's; other members are counted."""
    origin = Origin(provider="mem0", id="m-1")
    (fact, talk), report = _written(
        tmp_path / "out.json",
        Semantic(text="Takes it cold.", tags=("tea",), scope=Scope(user="rosa"), origin=origin),
        Episodic(text="We spoke.", occurred_at="2026-05-04T03:02:01.000000Z"),
    )

    assert (fact["text"], fact["tags"]) == ("Takes it cold.", ["tea"])
    assert fact["id"].startswith("passage-")
    assert talk["text"] == "We spoke."
    assert {loss.name for loss in report.losses.values()} == {
        "scope",
        "origin",
        "occurred_at",
        "episodic",
    }


def test_a_changed_passage_is_written_without_its_vector(tmp_path: Path) -> None:
    """The vector would belong to another text."""
    records = list(
        read_records(letta_passages.FORMAT, Location(_SAMPLES / "good-list.json"), ReadContext())
    )
    old = records[0].model
    assert isinstance(old, Semantic)
    changed = Semantic(text="Rosa drinks coffee.", origin=old.origin)

    assert _written(tmp_path / "a.json", old)[0][0]["embedding"] == [0.25, -0.5]
    assert _written(tmp_path / "b.json", changed)[0][0]["embedding"] is None


def test_passages_round_trip_through_a_bank(tmp_path: Path) -> None:
    """Import and export give equal passages; a second import adds nothing."""
    source = _SAMPLES / "good-list.json"
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        added = [bank.import_(source).banks[0].done.added for _ in range(2)]
        bank.export(tmp_path / "tea.passages.json")

    assert added == [3, 0]
    back = json.loads((tmp_path / "tea.passages.json").read_bytes())
    assert back == json.loads(source.read_bytes())


def test_passages_exported_by_the_page_of_letta_are_read(tmp_path: Path) -> None:
    """Its page writes an archive with one list."""
    row = {
        "created_at": "2025-11-05 23:04:24.901468+00:00",
        "archive_id": "archive-1",
        "metadata": {},
        "tags": ["tea"],
        "id": "passage-1",
        "text": "Likes tea.",
    }
    path = tmp_path / "memories.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("agent-1.json", json.dumps([row]))
        archive.writestr("read me.txt", "words")
    assert formats.recognize(Location(path)) == "letta_passages"
    reading = ReadContext()
    (found,) = read_records(formats["letta_passages"], Location(path), reading)

    assert (found.value["text"], found.value["tags"]) == ("Likes tea.", ["tea"])
    assert found.value["created_at"] == "2025-11-05T23:04:24.901468Z"
    assert [loss.name for loss in reading.report.losses.values()] == ["read me.txt"]
