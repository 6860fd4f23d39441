"""How rehydrated, quarantined and promoted memories are printed."""

from satchel.actions.memories.changing import MemoryChange
from satchel.actions.waking.promoting import Promoted
from satchel.actions.waking.quarantining import Held, QuarantineList, Screened
from satchel.rehydrate.rehydrated import Rehydrated, Shown
from satchel.surfaces.cli._console import count, gist, line, message, short

_MOST_EXPLAINED = 200
_MOST_WITHHELD = 20


def show_quarantine(result: QuarantineList) -> None:
    """Print quarantined memories."""
    for each in result.held:
        _show_head(each)
    for note in result.notes:
        message(note)
    if not result.held:
        message("No memory is quarantined.")
    if result.more:
        message("More: --limit")


def show_held(result: Held) -> None:
    """Print a quarantined memory, and what is found in it."""
    _show_head(result)
    for row in result.memory.text.splitlines():
        line("  ", row)
    for finding in result.findings:
        line("  found: ", finding, style="yellow")


def _show_head(held: Held) -> None:
    memory, since = held.memory, (held.since or "")[:10]
    parts = filter(None, (short(memory.id), memory.type, held.trust, since))
    line("  ".join(parts), style="dim")
    line("  ", gist(memory.text))
    if held.reason:
        line("  quarantined: ", held.reason, style="yellow")


def show_scan(result: Screened) -> None:
    """Print the memories that read like a prompt."""
    done = "would be quarantined" if result.dry_run else "quarantined"
    for each in result.flagged:
        memory = each.memory
        line("  ".join((short(memory.id), memory.type, each.trust)), style="dim")
        line("  ", gist(memory.text))
        what = done if each.quarantined else "withheld from context"
        line(f"  {what}: ", "; ".join(each.reasons), style="yellow")
    for note in result.notes:
        message(note)
    message(f"{count(result.memories, 'memory')}, {len(result.flagged):,} like a prompt")


def show_added(result: list[MemoryChange]) -> None:
    """Print which memories were quarantined, or would be."""
    _show_moved(result, "quarantined", "is quarantined already, or not current")


def show_released(result: list[MemoryChange]) -> None:
    """Print which memories were released, or would be."""
    _show_moved(result, "released", "is not withheld")
    if not result:
        message("None of your own memories was quarantined on reading.")


def show_rejected(result: list[MemoryChange]) -> None:
    """Print which memories were rejected, or would be."""
    _show_moved(result, "rejected", "is not current")


def _show_moved(result: list[MemoryChange], changed: str, unchanged: str) -> None:
    for each in result:
        done = f"would be {changed}" if each.dry_run else changed
        what = done if each.is_changed else unchanged
        line(short(each.id), f"  {what}  ", gist(each.text))


def show_promoted(result: list[Promoted]) -> None:
    """Print how far each memory is trusted now, or would be."""
    for each in result:
        done = "would be trusted" if each.dry_run else "trusted"
        what = f"{done} as {each.after}, not {each.before}"
        line(short(each.id), f"  {each.type}  {what if each.is_changed else 'unchanged'}")


def show_context(result: Rehydrated, *, explain: bool) -> None:
    """Print text for a model; what is withheld goes to standard error."""
    for row in result.text.split("\n") if result.text else []:
        line(row)
    if explain:
        for number, stage in enumerate(result.stages, 1):
            message(f"{number} {stage.name}: {stage.detail} ({stage.entries:,} left)")
        for one in result.entries[:_MOST_EXPLAINED]:
            message(_why(one))
    message(result.notice)
    for held in result.quarantined[:_MOST_WITHHELD]:
        message(f"withheld: {short(held.id)} {held.type}, {held.trust}: {'; '.join(held.reasons)}")
    for note in result.notes:
        message(note)
    if not result.complete:
        message("Not every memory was considered: give a longer task, or narrow the filters.")


def _why(one: Shown) -> str:
    parts = one.parts
    told = f"  {short(one.id)} {one.type} {one.score:.2f} {one.form}"
    if parts is None:
        return told
    similar = "-" if parts.similarity is None else f"{parts.similarity:.2f}"
    penalty = f" x{parts.penalty:g}" if parts.penalty < 1 else ""
    return (
        f"{told}: recency {parts.recency:.2f}, salience {parts.salience:.2f},"
        f" similarity {similar}, depth {parts.depth:.2f}{penalty}; {one.trust}, {one.tokens} tokens"
    )
