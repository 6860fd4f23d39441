"""``satchel rehydrate``, ``satchel quarantine`` and ``satchel promote``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from satchel.bank.changes import MemoryChange
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._console import (
    count,
    excerpt,
    line,
    message,
    print_json,
    short,
    show_changes,
    state,
)
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._tree import Group
from satchel.config.options import TrustedKeys, UnsafeAccept
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options, PathText
from satchel.rehydrate import quarantine as quarantine_operations
from satchel.rehydrate.operations import MemoryFile, from_file, rehydrate_memories
from satchel.rehydrate.options import FileFormat, RehydrateOptions
from satchel.rehydrate.quarantine import (
    QuarantinedMemory,
    QuarantineList,
    QuarantineScan,
    TrustPromotion,
)
from satchel.rehydrate.request import ContextMemory, RehydrateResult

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


def show_held(result: QuarantinedMemory) -> None:
    """Print a quarantined memory, with the findings in it."""
    _show_head(result)
    for row in result.memory.text.splitlines():
        line("  ", row)
    for finding in result.findings:
        line("  found: ", finding, style="yellow")


def _show_head(held: QuarantinedMemory) -> None:
    memory, since = held.memory, (held.since or "")[:10]
    parts = filter(None, (short(memory.id), memory.type, held.trust, since))
    line("  ".join(parts), style="dim")
    line("  ", excerpt(memory.text))
    if held.reason:
        line("  quarantined: ", held.reason, style="yellow")


def show_scan(result: QuarantineScan) -> None:
    """Print the memories that read like a prompt."""
    done = "would be quarantined" if result.dry_run else "quarantined"
    for each in result.flagged:
        memory = each.memory
        line("  ".join((short(memory.id), memory.type, each.trust)), style="dim")
        line("  ", excerpt(memory.text))
        what = done if each.quarantined else "withheld from context"
        line(f"  {what}: ", "; ".join(each.reasons), style="yellow")
    for note in result.notes:
        message(note)
    message(
        f"{count(result.memories, 'memory')} scanned, {len(result.flagged):,} read like a prompt"
    )


def show_added(result: list[MemoryChange]) -> None:
    """Print which memories were or would be quarantined."""
    show_changes(result, "quarantined", "is quarantined already, or not current")


def show_released(result: list[MemoryChange]) -> None:
    """Print which memories were or would be released."""
    show_changes(result, "released", "is not withheld")
    if not result:
        message("None of your own memories was quarantined on reading.")


def show_rejected(result: list[MemoryChange]) -> None:
    """Print which memories were or would be rejected."""
    show_changes(result, "rejected", "is not current")


def show_promoted(result: list[TrustPromotion]) -> None:
    """Print the new trust of each memory."""
    for each in result:
        done = "would be trusted" if each.dry_run else "trusted"
        what = f"{done} as {each.after}, not {each.before}"
        line(short(each.id), f"  {each.type}  {what if each.is_changed else 'unchanged'}")


def show_context(result: RehydrateResult, *, explain: bool) -> None:
    """Print text for a model; withheld memories are reported on standard error."""
    for row in result.text.split("\n") if result.text else []:
        line(row)
    if explain:
        for number, stage in enumerate(result.stages, 1):
            message(f"{number} {stage.name}: {stage.detail} ({stage.entries:,} left)")
        for memory in result.entries[:_MOST_EXPLAINED]:
            message(_why(memory))
    message(result.notice)
    for held in result.quarantined[:_MOST_WITHHELD]:
        message(f"withheld: {short(held.id)} {held.type}, {held.trust}: {'; '.join(held.reasons)}")
    for note in result.notes:
        message(note)
    if not result.complete:
        message("Not every memory was considered: give a longer task, or narrow the filters.")


def _why(memory: ContextMemory) -> str:
    parts = memory.parts
    summary = f"  {short(memory.id)} {memory.type} {memory.score:.2f} {memory.form}"
    if parts is None:
        return summary
    similar = "-" if parts.similarity is None else f"{parts.similarity:.2f}"
    penalty = f" x{parts.penalty:g}" if parts.penalty < 1 else ""
    return (
        f"{summary}: recency {parts.recency:.2f}, salience {parts.salience:.2f},"
        f" similarity {similar}, depth {parts.depth:.2f}{penalty}; {memory.trust},"
        f" {memory.tokens} tokens"
    )


quarantine = Group(help="Review memories that are neither recalled nor provided as context.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(Options):
    """Another source of memory, and the output."""

    file: Annotated[
        PathText | None,
        Option("File of any format to use in place of a bank.", argument=True, values="file"),
    ] = None
    format: FileFormat = None
    unsafe_accept: UnsafeAccept = ()
    trusted_keys: TrustedKeys = ()
    messages: Annotated[
        Literal["openai", "anthropic", "gemini"] | None,
        Option("Print messages for this SDK, as JSON."),
    ] = None
    explain: Annotated[
        bool, Option("Report what each stage did, and why each memory is included.")
    ] = False


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, rehydrate_memories, _show, bank=_source, extra=ContextOptions)
    app.add(quarantine, name="quarantine")
    command(app, quarantine_operations.promote, show_promoted, bank=open_to_write)


@contextmanager
def _source(
    bank: str | None, _: RehydrateOptions, extra: ContextOptions
) -> Iterator[OpenBank | MemoryFile]:
    if extra.file is None:
        with open_bank(state.settings, bank) as opened:
            yield opened
        return
    if bank is not None:
        raise UsageError("a file or a bank, not both", field="bank", hint="Drop FILE or --bank.")
    yield MemoryFile(state.settings, Path(extra.file), from_file(extra))


def _show(result: RehydrateResult, extra: ContextOptions) -> None:
    if extra.messages is None:
        show_context(result, explain=extra.explain)
    else:
        print_json(result.messages[extra.messages])


command(quarantine, quarantine_operations.list_quarantine, show_quarantine, bank=open_to_read)
command(quarantine, quarantine_operations.show_held, show_held, bank=open_to_read)
command(
    quarantine, quarantine_operations.screen_bank, show_scan, bank=open_to_write, label="scanning"
)
command(quarantine, quarantine_operations.quarantine, show_added, bank=open_to_write)
command(quarantine, quarantine_operations.release, show_released, bank=open_to_write)
command(quarantine, quarantine_operations.reject, show_rejected, bank=open_to_write)
