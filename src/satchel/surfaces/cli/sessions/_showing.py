"""How conversations are printed."""

import json
import shutil

from satchel.continuity.shown import CheckpointShown, MessageShown, SessionShown, StateShown
from satchel.memory.messages import spoken_in
from satchel.memory.parts import Json
from satchel.surfaces.cli._console import count, dim, gist, line, safe, short, table

_COLUMNS, _LEAST_NAME, _DEEPEST = 80, 8, 6


def show_tree(sessions: list[SessionShown]) -> None:
    """Print sessions, each fork below what it is from, with the message that it begins after.

    Names are cut to what a line has room for, 80 columns where there is no terminal; the rest
    that a terminal has room for is when something was last said.
    """
    from rich.cells import cell_len

    rows = [_row(one) for one in sessions]
    head = ["session", "name", "messages", "from message", "", "last"]
    width = shutil.get_terminal_size((_COLUMNS, 1)).columns
    widths = [max(cell_len(row[at]) for row in [head, *rows]) + 2 for at in range(len(head))]
    widths[-1] -= 2
    if width < sum(widths):
        head, rows = head[:-1], [row[:-1] for row in rows]
        widths[-2:] = [widths[-2] - 2]
    room = max(_LEAST_NAME, width - sum(widths) + widths[1] - 2)
    shown = [[one[0], _fitted(one[1], room), one[2], *map(dim, one[3:])] for one in rows]
    table(head, shown)


def _row(one: SessionShown) -> list[str]:
    depth = one.depth - 1
    indent = "  " * min(depth, _DEEPEST) + (f"+{depth - _DEEPEST}" if depth > _DEEPEST else "")
    marks = [
        "archived" if one.archived else "",
        "as-of" if one.memories == "as-of" else "",
        count(one.checkpoints, "point") if one.checkpoints else "",
        one.provider or "",
    ]
    begins, origin = "", one.origin
    if origin is not None:
        begins = f"{origin.number:,}" + (" (checkpoint)" if origin.checkpoint else "")
    return [
        (indent + "└ " if one.depth else "") + short(one.id),
        gist(one.name or ""),
        f"{one.messages:,}",
        begins,
        ", ".join(mark for mark in marks if mark),
        (one.last_at or "")[:16].replace("T", " "),
    ]


def _fitted(text: str, room: int) -> str:
    """Return as much of a text as so many columns show."""
    from rich.cells import cell_len, set_cell_size

    whole = safe(text).plain
    return whole if cell_len(whole) <= room else set_cell_size(whole, room - 1).rstrip() + "…"


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
    if isinstance(content, str):
        return content
    parts = [one.text or "", *(f"[{name}]" for name in one.attachments)]
    is_plain = bool(one.attachments) or spoken_in(content) is not None
    return " ".join(filter(None, parts)) if is_plain else json_of(content)


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
