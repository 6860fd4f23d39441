"""``satchel rehydrate``, ``satchel quarantine`` and ``satchel promote``."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.options import TrustedKeys, UnsafeAccept
from satchel.actions.waking import promoting, quarantining
from satchel.actions.waking.options import (
    FileFormat,
    RehydrateOptions,
)
from satchel.actions.waking.rehydrating import MemoryFile, from_file, rehydrate_memories
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options, PathText
from satchel.rehydrate.rehydrated import Rehydrated
from satchel.surfaces.cli._console import print_json, state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.waking._showing import (
    show_added,
    show_context,
    show_held,
    show_promoted,
    show_quarantine,
    show_rejected,
    show_released,
    show_scan,
)

quarantine = Group(help="Review memories that are neither recalled nor provided as context.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(Options):
    """Where memory comes from besides a bank, and what is printed."""

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
    command(app, promoting.promote, show_promoted, bank=_to_change)


@contextmanager
def _source(
    bank: str | None, _: RehydrateOptions, extra: ContextOptions
) -> Iterator[OpenBank | MemoryFile]:
    if extra.file is None:
        with opened_bank(state.settings, bank) as opened:
            yield opened
        return
    if bank is not None:
        raise UsageError("a file or a bank, not both", field="bank", hint="Drop FILE or --bank.")
    yield MemoryFile(state.settings, Path(extra.file), from_file(extra))


def _show(result: Rehydrated, extra: ContextOptions) -> None:
    if extra.messages is None:
        show_context(result, explain=extra.explain)
    else:
        print_json(result.messages[extra.messages])


def _to_read(bank: str | None, _: object) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank)


def _to_change(bank: str | None, options: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank, writes=not options.dry_run)


command(quarantine, quarantining.list_quarantine, show_quarantine, bank=_to_read)
command(quarantine, quarantining.show_held, show_held, bank=_to_read)
command(quarantine, quarantining.screen_bank, show_scan, bank=_to_change, label="scanning")
command(quarantine, quarantining.quarantine, show_added, bank=_to_change)
command(quarantine, quarantining.release, show_released, bank=_to_change)
command(quarantine, quarantining.reject, show_rejected, bank=_to_change)
