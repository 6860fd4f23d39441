"""``satchel amplihack``: export, import, tree and clean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bank_kit import owner

from satchel.amplihack.roles import chosen_settings, open_agents
from satchel.amplihack.sessions import SessionLearning

if TYPE_CHECKING:
    from tests.cli.conftest import Run


SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "amplihack"


def test_an_agent_round_trips_through_a_file(satchel: Run, tmp_path: Path) -> None:
    """Under the given name; the counts are those of the file."""
    came = satchel("amplihack", "import", "--agent", "builder", "-i", SAMPLES / "good-rust.json")
    assert came.status == 0
    assert "Source agent: harbour-agent" in came.out
    assert "semantic_nodes_imported: 3" in came.out
    assert "edges_imported: 6" in came.out
    output = tmp_path / "out.json"
    went = satchel("amplihack", "export", "--agent", "builder", "-o", output)
    assert went.status == 0
    assert "transitioned_to_edge_count: 1" in went.out

    before = json.loads((SAMPLES / "good-rust.json").read_bytes())
    after = json.loads(output.read_bytes())
    for one in (before, after):
        del one["exported_at"], one["agent_name"]
    assert after == before


def test_a_dangling_edge_is_reported_with_exit_status_1(satchel: Run, tmp_path: Path) -> None:
    """Unless the loss is accepted."""
    document = json.loads((SAMPLES / "good-rust.json").read_bytes())
    document["supersedes_edges"][0]["target_id"] = "nowhere"
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    ran = satchel("amplihack", "import", "--agent", "a", "-i", path)
    assert ran.status == 1
    assert "errors: 1" in ran.out
    assert "supersedes_edges/0/target_id: its target is not in the file: 'nowhere'" in ran.err
    accepted = satchel("amplihack", "import", "--agent", "a", "-i", path, "--accept-loss", "record")
    assert accepted.status == 0


def test_amplihack_import_reports_conflicts_with_their_ids(satchel: Run, tmp_path: Path) -> None:
    """Amplihack silently drops the newer text (defect 2)."""
    first = ["amplihack", "import", "--agent", "a", "-i"]
    assert satchel(*first, SAMPLES / "good-rust.json").status == 0
    document = json.loads((SAMPLES / "good-rust.json").read_bytes())
    document["semantic_nodes"][0]["content"] = "newer"
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    ran = satchel(*first, path, "--merge")
    assert "other versions of what the agent had: 1" in ran.err
    assert "'sem-1' of amplihack" in ran.err
    assert satchel(*first, path, "--merge", "--on-conflict", "error").status == 1


def test_a_dry_run_of_amplihack_import_changes_nothing(satchel: Run) -> None:
    """It reports what would be imported."""
    path = SAMPLES / "good-rust.json"
    ran = satchel("amplihack", "import", "--agent", "a", "-i", path, "--dry-run")
    assert ran.status == 0
    assert "Would import" in ran.out
    assert satchel("amplihack", "export", "--agent", "a", "-o", "out.json").status == 2


def store_learnings(backend: str = "sqlite") -> None:
    """Store learnings of two agents."""
    with open_agents(chosen_settings(backend), owner=owner) as agents:
        for session, agent, kind, what in (
            ("sess-B", "builder", "learning", "learning"),
            ("test_1", "reviewer", "decision", "decision"),
            ("test_1", "reviewer", "conversation", "chat"),
        ):
            said = SessionLearning(
                session_id=session,
                agent_id=agent,
                memory_type=kind,
                content=f"Something that {agent} took from a {what}",
                importance=5,
            )
            assert agents.store_session_learning(said)


@pytest.mark.parametrize("backend", ["sqlite", "graph-db"])
def test_the_tree_shows_sessions_memories_and_agents(satchel: Run, backend: str) -> None:
    """As amplihack draws it, with the same icons on every backend."""
    store_learnings(backend)
    ran = satchel("amplihack", "tree", "--backend", backend)
    assert ran.out.splitlines() == [
        f"🧠 Memory Graph (Backend: {backend})",
        "├── 📅 Sessions (2)",
        "│   ├── test_1 (2 memories)",
        "│   │   ├── 📌 Decision: Something that reviewer took from a decision (★★★★★☆☆☆☆☆ 5/10)",
        "│   │   └── 📝 Conversation: Something that reviewer took from a chat (★★★★★☆☆☆☆☆ 5/10)",
        "│   └── sess-B (1 memories)",
        "│       └── 💡 Learning: Something that builder took from a learning (★★★★★☆☆☆☆☆ 5/10)",
        "└── 👥 Agents (2)",
        "    ├── builder (1 memories)",
        "    └── reviewer (2 memories)",
    ]


def test_the_tree_is_filtered_by_session_type_and_depth(satchel: Run) -> None:
    """An unknown type is a usage error."""
    store_learnings()
    only = satchel("amplihack", "tree", "--session", "test_1", "--type", "decision", "--depth", "2")
    assert only.out.splitlines()[1:] == [
        "└── 📅 Sessions (1)",
        "    └── test_1 (1 memories)",
        "        └── 📌 Decision: Something that reviewer took from a decision (★★★★★☆☆☆☆☆ 5/10)",
    ]
    assert "Something" not in satchel("amplihack", "tree", "--depth", "1").out
    assert satchel("amplihack", "tree", "--type", "note").status == 2


def test_an_empty_tree_is_reported_and_creates_nothing(satchel: Run, own_home: Path) -> None:
    """Reading writes nothing."""
    ran = satchel("amplihack", "tree")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "🧠 Memory Graph (Backend: sqlite)",
        "└── (empty - no memories found)",
    ]
    assert "satchel list" in ran.err  # the tree lacks facts and episodes of agents
    assert not own_home.exists()


def test_an_unknown_backend_is_an_error_that_lists_the_known_ones(satchel: Run) -> None:
    """As an option of the command and as a global one."""
    for words in (["amplihack", "tree", "--backend", "x"], ["--backend", "x", "amplihack", "tree"]):
        ran = satchel(*words, "--json")
        assert (ran.status, ran.error["code"]) == (2, "config.invalid")
        assert "kuzu" in ran.error["hint"]


def test_clean_deletes_only_after_confirmation(satchel: Run) -> None:
    """A dry run by default; without a terminal, ``--confirm`` is required."""
    store_learnings()
    ran = satchel("amplihack", "clean")
    assert ran.out.splitlines() == [
        "Found 1 session matching 'test_*'",
        "  test_1 (2 memories)",
        "Dry-run mode: No sessions were deleted.",
    ]
    refused = satchel("amplihack", "clean", "--no-dry-run")
    assert refused.status == 2
    assert "--confirm" in refused.err
    assert "test_1" in satchel("amplihack", "tree").out
    done = satchel("amplihack", "clean", "--no-dry-run", "--confirm")
    assert done.out.splitlines()[-2:] == [
        "Deleted: test_1",
        "Cleanup complete: 1 deleted, 0 errors",
    ]
    assert "test_1" not in satchel("amplihack", "tree").out
    again = satchel("amplihack", "clean", "--no-dry-run", "--confirm")
    assert again.status == 0
    assert "Found 0 sessions" in again.out


def test_escapes_in_session_names_do_not_reach_the_terminal(satchel: Run) -> None:
    """Attack: a session or a memory that clears the screen."""
    nasty = "\x1b[2J\u202eevil"
    assert satchel("remember", f"{nasty} memory", "--run", nasty).status == 0
    ran = satchel("amplihack", "tree")
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
