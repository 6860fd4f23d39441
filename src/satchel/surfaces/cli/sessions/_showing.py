"""How conversations are printed."""

import json

from satchel.continuity.shown import CheckpointShown, MessageShown, SessionShown, StateShown
from satchel.memory.parts import Json
from satchel.surfaces.cli._console import count, dim, gist, line, safe, short, table


def show_tree(sessions: list[SessionShown]) -> None:
    """Print sessions, each fork below what it is from, with where it begins."""
    table(["session", "name", "messages", "from", "last", ""], [_row(one) for one in sessions])


def _row(one: SessionShown) -> list[object]:
    indent = "  " * (one.depth - 1) + "└ " if one.depth else ""
    marks = [
        "archived" if one.archived else "",
        "memories as-of" if one.memories == "as-of" else "",
        count(one.checkpoints, "checkpoint") if one.checkpoints else "",
        one.provider or "",
    ]
    return [
        safe(indent + short(one.id)),
        gist(one.name or ""),
        f"{one.messages:,}",
        dim(from_of(one)),
        dim((one.last_at or "")[:16].replace("T", " ")),
        dim(", ".join(mark for mark in marks if mark)),
    ]


def from_of(one: SessionShown) -> str:
    """Return where a fork begins, in words; empty for what is none."""
    if one.origin is None:
        return ""
    at = f"message {one.origin.number:,}" if one.origin.number else "its beginning"
    mark = "checkpoint, " if one.origin.checkpoint else ""
    return f"{short(one.origin.session)} at {mark}{at}"


def show_messages(messages: list[MessageShown]) -> None:
    """Print messages, one line each."""
    table(
        [],
        [
            [dim(f"{one.number:,}"), one.role or "", safe(gist(said(one))), dim(short(one.id))]
            for one in messages
        ],
    )


def said(one: MessageShown) -> str:
    """Return what a message says, or that it says it otherwise than in words."""
    content = one.content
    if content is None:
        return f"({', '.join(sorted(one.more))})" if one.more else ""
    return content if isinstance(content, str) else json_of(content)


def show_state(state: StateShown) -> None:
    """Print what is kept beside messages, where there is something."""
    if state.thread_summary:
        line("summary: ", safe(gist(state.thread_summary)))
    if state.working_state is not None:
        line("working state: ", safe(gist(json_of(state.working_state))))
    for note in state.notes:
        line(f"note ({note.category}): ", safe(gist(note.content)))


def show_checkpoints(checkpoints: list[CheckpointShown]) -> None:
    """Print points that can be returned to."""
    table(
        ["checkpoint", "name", "at", "why", "made"],
        [
            [
                short(one.id),
                gist(one.name or ""),
                f"message {one.number:,}",
                why_of(one),
                dim((one.created_at or "")[:16].replace("T", " ")),
            ]
            for one in checkpoints
        ],
    )


def why_of(one: CheckpointShown) -> str:
    """Return why a checkpoint was made, in words."""
    number = (one.distillation or {}).get("number")
    return f"distillation {number}" if one.distillation is not None else one.why


def json_of(value: Json) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False)
