"""``satchel amplihack``, with the flags of amplihack's page, and ``satchel hook``."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from satchel.amplihack import operations
from satchel.amplihack.hosts import (
    LONGEST_REQUEST,
    HookRequest,
    Start,
    Stop,
    host_answer,
    parse_hook_request,
)
from satchel.amplihack.operations import AgentBranch, MemoryTree, SessionBranch
from satchel.amplihack.roles import CleanResult
from satchel.amplihack.sessions import MOST_IMPORTANT, MemoryRecord, SessionSummary
from satchel.amplihack.transfer import ExportResult, ImportResult
from satchel.cli._console import activity, count, line, message, print_json, size, state
from satchel.cli._operations import command
from satchel.cli._options import report_receipts, report_refused, report_secrets, show_losses
from satchel.cli._tree import Group
from satchel.ports.operations import Options

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
_MEMORIES = 2
"""Least depth at which memories are shown."""


def show_tree(result: MemoryTree) -> None:
    """Print the tree of sessions and agents."""
    for text in tree_lines(result.backend, result.sessions, result.agents, result.depth):
        line(text)
    if not result.sessions and not result.agents:
        message("note: ", "the tree shows memories of sessions only; for all: satchel list")


def tree_lines(
    backend: str,
    rows: Sequence[SessionBranch],
    counts: Sequence[AgentBranch],
    depth: int | None = None,
) -> Iterator[str]:
    """Yield the lines of the tree.

    Args:
        backend: The kind of store.
        rows: Sessions with their memories.
        counts: Number of memories of each agent; empty for no such branch.
        depth: Greatest depth, from 1; None for no limit.
    """
    yield f"🧠 Memory Graph (Backend: {backend})"
    if not rows and not counts:
        yield "└── (empty - no memories found)"
        return
    yield f"{'├' if counts else '└'}── 📅 Sessions ({len(rows)})"
    stem = "│   " if counts else "    "
    for at, branch in enumerate(rows, 1):
        memories = branch.memories
        is_last = at == len(rows)
        yield f"{stem}{_branch(is_last)} {branch.session.session_id} ({len(memories)} memories)"
        inner = stem + ("    " if is_last else "│   ")
        if depth is None or depth >= _MEMORIES:
            for number, memory in enumerate(memories, 1):
                yield f"{inner}{_branch(number == len(memories))} {memory_line(memory)}"
    if counts:
        yield f"└── 👥 Agents ({len(counts)})"
        for at, each in enumerate(counts, 1):
            yield f"    {_branch(at == len(counts))} {each.agent} ({each.memories} memories)"


def memory_line(memory: MemoryRecord) -> str:
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


def show_cleaned(result: CleanResult) -> None:
    """Print which sessions were forgotten, or would be."""
    line(f"Found {count(len(result.matched), 'session')} matching '{result.pattern}'")
    for matched in result.matched:
        line(f"  {matched.session_id} ({matched.memory_count} memories)")
    if result.dry_run:
        line("Dry-run mode: No sessions were deleted.")
        return
    for session in result.deleted:
        line(f"Deleted: {session}")
    for session, why in result.failed.items():
        message(f"{session}: {why}")
    line(f"Cleanup complete: {len(result.deleted)} deleted, {len(result.failed)} errors")


def show_exported(result: ExportResult) -> int:
    """Print the result of an export."""
    line(f"Exported memory for agent '{result.agent_name}'")
    line(f"  Format: {result.format}")
    line(f"  Output: {result.output_path}")
    if result.file_size_bytes is not None:
        line(f"  Size: {size(result.file_size_bytes)}")
    _show_statistics(result.statistics)
    for note in result.notes:
        message("note: ", note)
    show_losses(result.failed)
    return report_receipts([result.receipt] if result.receipt else [], result.unaccepted)


def show_imported(result: ImportResult) -> int:
    """Print the result of an import."""
    line("Would import memory into agent" if result.dry_run else "Imported memory into agent")
    line(f"  Agent: {result.agent_name}")
    line(f"  Format: {result.format}")
    if result.source_agent is not None:
        line(f"  Source agent: {result.source_agent}")
    line(f"  Merge mode: {result.merge}")
    _show_statistics(result.statistics)
    if result.conflicts:
        message(f"other versions of what the agent had: {result.conflicts:,}")
    for example in result.conflict_examples:
        message("  ", example)
    for loss in result.losses:
        message(f"lost: {loss.name}, {loss.count:,}: {loss.reason}")
    report_refused(result.failed)
    for note in result.notes:
        message("note: ", note)
    return report_receipts(result.receipts, result.unaccepted)


def _show_statistics(statistics: list[tuple[str, str]]) -> None:
    for name, number in statistics:
        line(f"  {name}: {number}")


amplihack = Group(help="Manage the memory of amplihack's agents.")
hook = Group(help="Run the hooks of agent hosts, which read JSON from standard input.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(amplihack, name="amplihack")
    app.add(hook, name="hook")


def _request() -> HookRequest:
    return parse_hook_request(sys.stdin.buffer.read(LONGEST_REQUEST + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest(Options):
    """Request of a host on standard input."""

    request: HookRequest = field(default_factory=_request)


def _name_request(values: dict[str, Any], host: HostRequest) -> None:
    values["request"] = host.request


def _show_start(result: Start, host: HostRequest) -> None:
    print_json(host_answer("SessionStart", result.context, host.request))


def _show_stop(result: Stop, host: HostRequest) -> None:
    print_json(host_answer("Stop", "", host.request))
    message(f"stored {count(len(result.stored), 'learning')}, {result.known:,} known already")
    if result.passed_over:
        message(f"{count(result.passed_over, 'line')} of the transcript could not be read")
    report_secrets(result.secrets, 0)


def _prompts(_: object) -> dict[str, Any]:
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not state.json
    return {"agree": _agree if can_ask else None}


def _agree(sessions: Sequence[SessionSummary]) -> bool:
    for session in sessions:
        message(f"  {session.session_id} ({session.memory_count} memories)")
    message(f"Forget {count(len(sessions), 'session')}? [y/N] ")
    with activity.hidden():
        return sys.stdin.readline().strip().lower() in ("y", "yes")


command(amplihack, operations.show_tree, show_tree)
command(
    amplihack,
    operations.clean_sessions,
    show_cleaned,
    internal=_prompts,
    status=lambda result: int(bool(result.failed)),
)
command(
    amplihack,
    operations.export_agent,
    show_exported,
    status=lambda result: int(bool(result.unaccepted)),
)
command(
    amplihack,
    operations.import_agent,
    show_imported,
    status=lambda result: int(bool(result.unaccepted)),
)
command(hook, operations.start_session, _show_start, extra=HostRequest, prepare=_name_request)
command(
    hook,
    operations.stop_session,
    _show_stop,
    extra=HostRequest,
    prepare=_name_request,
)
