"""``satchel amplihack tree``."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from satchel.actions.amplihack.resolving import open_agents
from satchel.actions.amplihack.sessions import MOST_IMPORTANT, MemoryRecord, SessionRows
from satchel.surfaces.cli._console import line, message, print_json
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Option
from satchel.surfaces.cli.amplihack._backend import Backend, settings_of

ICONS = {
    "conversation": "📝",
    "decision": "📌",
    "pattern": "💡",
    "context": "🔧",
    "learning": "💡",
    "artifact": "📄",
}
_OTHER = "❓"
_TITLE = 50
_MEMORIES, _AGENTS = 2, 2
"""Depth from which on memories are shown; and up to which the agents are not."""


class MemoryType(StrEnum):
    """What a flat memory may be."""

    CONVERSATION = "conversation"
    DECISION = "decision"
    PATTERN = "pattern"
    CONTEXT = "context"
    LEARNING = "learning"
    ARTIFACT = "artifact"


def tree_command(
    session: Annotated[str | None, Option("--session", help="Only this session.")] = None,
    memory_type: Annotated[
        MemoryType | None, Option("--type", help="Only memories of this type.")
    ] = None,
    depth: Annotated[
        int | None,
        Option(
            "--depth",
            minimum=1,
            help="1: sessions; 2: their memories; from 3 on the agents as well.",
        ),
    ] = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Show the sessions of all agents with their memories, and how many each agent has.

    Example: `satchel amplihack tree --type learning`
    """
    with open_agents(settings_of(backend), read_only=True) as agents:
        rows = agents.load_session_rows(session, memory_type)
        counts = agents.collect_agent_counts() if depth is None or depth > _AGENTS else []
        name = agents.backend_name()
    if as_json:
        print_json(
            {
                "backend": name,
                "sessions": [{"session": one, "memories": memories} for one, memories in rows],
                "agents": [{"agent": agent, "memories": number} for agent, number in counts],
            }
        )
        return
    for text in drawn(name, rows, counts, depth):
        line(text)
    if not rows and not counts:
        message("note: ", "the tree has memories of sessions; for all others: satchel list")


def drawn(
    backend: str, rows: SessionRows, counts: list[tuple[str, int]], depth: int | None = None
) -> Iterator[str]:
    """Yield the lines of the tree.

    Args:
        backend: The kind of store.
        rows: Sessions with their memories.
        counts: Memories of each agent; empty for no such branch.
        depth: How deep, from 1; None for all of it.
    """
    yield f"🧠 Memory Graph (Backend: {backend})"
    if not rows and not counts:
        yield "└── (empty - no memories found)"
        return
    yield f"{'├' if counts else '└'}── 📅 Sessions ({len(rows)})"
    stem = "│   " if counts else "    "
    for at, (summary, memories) in enumerate(rows, 1):
        is_last = at == len(rows)
        yield f"{stem}{_branch(is_last)} {summary.session_id} ({len(memories)} memories)"
        inner = stem + ("    " if is_last else "│   ")
        if depth is None or depth >= _MEMORIES:
            for number, memory in enumerate(memories, 1):
                yield f"{inner}{_branch(number == len(memories))} {described(memory)}"
    if counts:
        yield f"└── 👥 Agents ({len(counts)})"
        for at, (agent, number) in enumerate(counts, 1):
            yield f"    {_branch(at == len(counts))} {agent} ({number} memories)"


def described(memory: MemoryRecord) -> str:
    """Return a memory as a line of the tree."""
    icon = ICONS.get(memory.memory_type, _OTHER)
    title = " ".join(memory.title.split())[:_TITLE]
    parts = [f"{icon} {memory.memory_type.capitalize()}: {title}"]
    if memory.importance is not None:
        stars = "★" * memory.importance + "☆" * (MOST_IMPORTANT - memory.importance)
        parts.append(f"({stars} {memory.importance}/{MOST_IMPORTANT})")
    confidence = memory.metadata.get("confidence", memory.confidence)
    if isinstance(confidence, int | float):
        parts.append(f"(confidence: {confidence})")
    used = memory.metadata.get("usage_count")
    if isinstance(used, int):
        parts.append(f"(used: {used}x)")
    return " ".join(parts)


def _branch(is_last: bool) -> str:
    return "└──" if is_last else "├──"
