"""``satchel amplihack tree`` and ``clean``: sessions, and how some are forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bank_kit import owner

from satchel.amplihack.roles import chosen_settings, open_agents
from satchel.amplihack.sessions import SessionLearning

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def teach(backend: str = "sqlite") -> None:
    """Let two agents learn something."""
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
    teach(backend)
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


def test_the_tree_can_be_narrowed(satchel: Run) -> None:
    """By session, type and depth."""
    teach()
    only = satchel("amplihack", "tree", "--session", "test_1", "--type", "decision", "--depth", "2")
    assert only.out.splitlines()[1:] == [
        "└── 📅 Sessions (1)",
        "    └── test_1 (1 memories)",
        "        └── 📌 Decision: Something that reviewer took from a decision (★★★★★☆☆☆☆☆ 5/10)",
    ]
    assert "Something" not in satchel("amplihack", "tree", "--depth", "1").out
    assert satchel("amplihack", "tree", "--type", "note").status == 2


def test_an_empty_tree_is_reported_and_creates_nothing(satchel: Run, own_home: Path) -> None:
    """Looking is not writing."""
    ran = satchel("amplihack", "tree")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "🧠 Memory Graph (Backend: sqlite)",
        "└── (empty - no memories found)",
    ]
    assert "satchel list" in ran.err  # facts and episodes of an agent are no part of the tree
    assert not own_home.exists()


def test_an_unknown_backend_is_an_error_that_names_the_known_ones(satchel: Run) -> None:
    """No silent degradation; the same before the verb and behind it."""
    for words in (["amplihack", "tree", "--backend", "x"], ["--backend", "x", "amplihack", "tree"]):
        ran = satchel(*words, "--json")
        assert (ran.status, ran.error["code"]) == (2, "config.invalid")
        assert "kuzu" in ran.error["hint"]


def test_clean_only_lists_by_default(satchel: Run) -> None:
    """Dry by default; where nobody is there to ask, it has to be said."""
    teach()
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


def test_a_name_that_drives_a_terminal_is_shown_as_escapes(satchel: Run) -> None:
    """Attack: a session or a memory that clears the screen of whoever looks at the tree."""
    nasty = "\x1b[2J\u202eevil"
    assert satchel("remember", f"{nasty} memory", "--run", nasty).status == 0
    ran = satchel("amplihack", "tree")
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
