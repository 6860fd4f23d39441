"""Every shared sample: its records, and the losses in its receipt.

The numbers were counted by hand: rows, nodes, edges, observations and relations, messages with
one session per conversation, blocks, tools with their agent.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from satchel.config.settings import load_settings
from satchel.errors import EmptyInputError, InputError, MalformedError, UnknownFormatError
from satchel.errors import SatchelError as Refusal
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats
from satchel.transfer.folders import input_to_read

pytestmark = pytest.mark.shared

_TEN = {"episodic": 3, "semantic": 7, "edge": 14}
_SDK = {"episodic": 3, "semantic": 3, "procedural": 1, "working": 1, "identity": 1}
_GRAPH = {"graph_node": 2, "episodic": 1, "semantic": 2, "edge": 5}
_CHAT = {"session_event": 40, "identity": 2}
_ENGINE = "internal state for resuming a run"

READ: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "ama/cli_10.ama.jsonl": ("ama", {"semantic": 10}, {}),
    "ama/engine_10.ama.jsonl": ("ama", {"semantic": 10}, {}),
    "ama/schema_10_embeddings_entities.ama.jsonl": ("ama", {"semantic": 4, "episodic": 6}, {}),
    "ama/sqlite_10.ama.jsonl": ("ama", {"semantic": 10}, {}),
    "amplihack/amplihack-python-v1.1.json": ("amplihack", _TEN, {}),
    "amplihack/amplihack-rs-agent-core.json": (
        "amplihack",
        {"episodic": 1, "semantic": 3, "edge": 1},
        {},
    ),
    "amplihack/amplihack-rs-sqlite-v1.1.json": ("amplihack", _TEN, {}),
    "amplihack/memory-lib-python-v1.0.json": ("amplihack", _TEN | {"edge": 11}, {}),
    "amplihack/edge_cases/dangling.json": ("amplihack", _TEN, {"record: malformed": 2}),
    "amplihack/edge_cases/dupid.json": ("amplihack", _TEN | {"semantic": 8}, {}),
    "amplihack/edge_cases/null.json": ("amplihack", _TEN, {}),
    "amplihack/edge_cases/unknown.json": ("amplihack", _TEN, {}),
    "amplihack/raw/amplihack-rs-flat-memory.db": (
        "amplihack_flat",
        {"session_event": 2, "semantic": 2},
        {},
    ),
    "amplihack/raw/amplihack-rs-sqlite-raw.db": ("amplihack_db", _TEN | {"edge": 28}, {}),
    "chat-exports/chatgpt_export": ("chatgpt", _CHAT, {}),
    "chat-exports/chatgpt_export/conversations.json": ("chatgpt", _CHAT, {}),
    "chat-exports/claude_export": (
        "claude",
        {"session_event": 9, "semantic": 4, "graph_node": 1, "file_version": 1},
        {},
    ),
    "chat-exports/claude_export/conversations.json": ("claude", {"session_event": 9}, {}),
    "chat-exports/claude_export/memories.json": ("claude", {"semantic": 4}, {}),
    "chat-exports/claude_export/projects.json": (
        "claude",
        {"graph_node": 1, "file_version": 1},
        {},
    ),
    "chroma/collection_get.json": ("chroma_get", {"semantic": 2}, {}),
    "chroma/db": ("chroma", {"semantic": 2}, {}),
    "cognee/zep_cogx": ("cognee", {"graph_node": 4, "semantic": 4, "edge": 8}, {}),
    "graphiti/export_falkor.json": ("graphiti", _GRAPH, {}),
    "graphiti/original_falkor.json": ("graphiti", _GRAPH, {}),
    "langgraph/checkpoints.sqlite": (
        "langgraph_checkpoints",
        {"semantic": 2, "session_event": 53},
        {
            f"channel_versions: {_ENGINE}": 22,
            f"versions_seen: {_ENGINE}": 22,
            f"updated_channels: {_ENGINE}": 21,
            "writes: steps of a run; their results are in the checkpoints": 34,
        },
    ),
    "langgraph/get_item.json": ("langgraph_items", {"semantic": 1}, {}),
    "langgraph/search_all.json": ("langgraph_items", {"semantic": 4}, {}),
    "langgraph/store.db": ("langgraph", {"semantic": 4}, {}),
    "letta-af/customer_service.af": (
        "letta",
        {"semantic": 1, "identity": 1, "graph_node": 8, "session_event": 2},
        {},
    ),
    "letta-af/legacy_v0.6.47_memgpt_agent_with_convo.af": (
        "letta",
        {"semantic": 1, "identity": 1, "graph_node": 7, "session_event": 92},
        {"updated_at: the newer format has no such member": 1},
    ),
    "letta-af/loop.af": (
        "letta",
        {"semantic": 8, "identity": 1, "graph_node": 10, "session_event": 4},
        {},
    ),
    "letta-af/memgpt_agent_with_convo.af": (
        "letta",
        {"semantic": 1, "identity": 1, "graph_node": 4, "session_event": 2},
        {},
    ),
    "letta-af/outreach_workflow_agent.af": ("letta", {"graph_node": 5, "session_event": 2}, {}),
    "mcp-memory/memory.jsonl": ("mcp_memory", {"semantic": 8}, {}),
    "mcp-memory/memory_with_extras.jsonl": (
        "mcp_memory",
        {"semantic": 11},
        {"line: neither an entity nor a relation: the server deletes such lines": 1},
    ),
    "mcp-memory/read_graph.json": ("mcp_memory", {"semantic": 8}, {}),
    "mem0/get_all_ada.json": ("mem0", {"semantic": 3}, {}),
    "mem0/get_one.json": ("mem0", {"semantic": 1}, {}),
    "mem0/mem0_get_all.json": ("mem0", {"semantic": 3}, {}),
    "mem0/mem0_list.json": ("mem0", {"semantic": 3}, {}),
    "mem0/qdrant_points.json": ("qdrant_points", {"semantic": 5}, {}),
    "pam-sdk/01_signed.pam": ("pam_sdk", _SDK, {}),
    "pam-sdk/01_signed.pam.cbor": ("pam_sdk", _SDK, {}),
    "pam-sdk/02_disclosed_sdk_descendants.pam": (
        "pam_sdk",
        {"semantic": 2, "procedural": 1, "working": 1},
        {"parent_ids: not in the file": 2, "source_event_ids: not in the file": 1},
    ),
    "pam-sdk/03_disclosed_spec_ancestors.pam": ("pam_sdk", {"episodic": 2, "semantic": 3}, {}),
    "pam-sdk/05_tampered_envelope_undetected.pam": ("pam_sdk", _SDK, {}),
    "pam-sdk/09_dangling_parent.pam": (
        "pam_sdk",
        {"semantic": 1},
        {"parent_ids: not in the file": 1},
    ),
    "qdrant/scroll.json": ("qdrant_points", {"semantic": 2}, {}),
}
"""Format, records by type, and losses by name and reason."""

REFUSED: dict[str, type[Refusal]] = {
    "amplihack/edge_cases/inttag.json": MalformedError,
    "amplihack/edge_cases/ver.json": MalformedError,
    "cognee/m0_cogx": EmptyInputError,
    "mcp-memory/memory_bad_line.jsonl": MalformedError,
    "pam-sdk/04_tampered_text.pam": MalformedError,
}
"""Invalid samples, which every reader refuses."""

PARTS = {
    *("chat-exports/chatgpt_export/user.json", "chat-exports/claude_export/users.json"),
    *(f"cognee/m0_cogx/{name}" for name in ("manifest.json",)),
    *(f"cognee/zep_cogx/{name}" for name in ("manifest.json", "nodes.jsonl")),
    *(f"cognee/zep_cogx/{name}" for name in ("entities.jsonl", "facts.jsonl")),
    "pam-sdk/signer.pub",
}
"""Parts of a folder that is read as a whole, and keys: not memories by themselves."""

LIVE = ("mem0/history.db", "mem0/qdrant/", "qdrant/db/", "chroma/db/")
"""Stores of live products, which tests/connectors reads."""

ELSEWHERE = ("beam/", "injection/", "locomo/", "qmsum/")
"""Not memories of a product: tests/evaluation and tests/rehydrate read them."""


def _read(path: Path) -> tuple[str, Counter[str], ReadContext]:
    with input_to_read(load_settings(), path) as file:
        place, reading = Location(file.path, held=file), ReadContext()
        name = formats.recognize(place)
        found = Counter(record.type for record in read_records(formats[name], place, reading))
    return name, found, reading


@pytest.mark.parametrize("sample", READ)
def test_a_sample_is_read_with_the_expected_losses(sample: str, shared_data: Path) -> None:
    """Its format is recognized, and each item is a record or counted as lost."""
    name, found, reading = _read(shared_data / sample)
    lost = {f"{one.name}: {one.reason}": one.count for one in reading.report.losses.values()}

    assert (name, dict(found), lost) == READ[sample]
    assert reading.missing == 0


@pytest.mark.parametrize("sample", REFUSED)
def test_an_invalid_sample_is_refused_with_its_file(sample: str, shared_data: Path) -> None:
    """No record is imported."""
    with pytest.raises(InputError) as refusal:
        _read(shared_data / sample)

    assert type(refusal.value) is REFUSED[sample]
    assert str(shared_data / sample) in str(refusal.value)


@pytest.mark.parametrize("sample", sorted(PARTS))
def test_a_part_of_an_export_alone_is_not_recognized(sample: str, shared_data: Path) -> None:
    """So half an export is not imported unnoticed."""
    with pytest.raises(UnknownFormatError):
        _read(shared_data / sample)


def test_no_sample_is_skipped(shared_data: Path) -> None:
    """Every sample has to be in one of the tables."""
    known: list[Any] = [*READ, *REFUSED, *PARTS]
    names = [str(one.relative_to(shared_data)) for one in shared_data.rglob("*") if one.is_file()]
    left = [
        name for name in names if name not in known and not name.startswith((*LIVE, *ELSEWHERE))
    ]

    assert left == []
