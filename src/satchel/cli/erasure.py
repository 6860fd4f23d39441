"""``satchel erase``, ``prune`` and ``everything``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import click

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._console import activity, count, line, message, short, size, state
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._options import NAME
from satchel.cli._tree import Group
from satchel.erasure.erase import ErasureResult, erase
from satchel.erasure.prune import MemoryPruneResult, prune_memories
from satchel.erasure.report import PersonReport, report_everything
from satchel.erasure.selection import EraseOptions
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options

_SHOWN = 10
_ELSEWHERE = {"backups": "listed as erased at backup destinations; restores skip it"}
"""What happened to items outside the store, by place; in other places they are removed."""


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        erase,
        _show,
        bank=_open_to_erase,
        label="erasing",
        extra=EraseConfirmOptions,
        status=_status,
    )
    command(app, prune_memories, _show_pruned, bank=open_to_write, label="pruning")
    command(
        app,
        report_everything,
        _show_everything,
        bank=open_to_read,
        label="reading",
        prepare=_default_to_stdout,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseConfirmOptions(Options):
    """Whether to ask for confirmation."""

    yes: Annotated[bool, Option("Do not ask for confirmation.")] = False


@contextmanager
def _open_to_erase(
    bank: str | None, options: EraseOptions, confirmation: EraseConfirmOptions
) -> Iterator[OpenBank]:
    """Open a bank, show what would be erased, and ask for confirmation."""
    is_asked = not confirmation.yes and not options.dry_run
    if is_asked and (options.ids or options.where):
        _require_terminal()
    with open_bank(state.settings, bank, writes=not options.dry_run) as opened:
        if is_asked:
            _show_plan(erase.run(opened, replace(options, dry_run=True, progress=None)))
            _ask()
        yield opened


def _show(done: ErasureResult, _: EraseConfirmOptions) -> None:
    if done.dry_run:
        _show_plan(done)
    else:
        _show_erased(done)


def _status(done: ErasureResult) -> int:
    return 0 if done.dry_run else done.exit_status


def _require_terminal() -> None:
    """Refuse to erase without a terminal for the confirmation."""
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("erasing needs a confirmation", hint="Add --yes, or see --dry-run.")


def _ask() -> None:
    message("This cannot be undone. Erase it? Type yes:")
    with activity.hidden():
        answer = sys.stdin.readline().strip().lower()
    if answer != "yes":
        raise click.Abort


def _show_plan(plan: ErasureResult) -> None:
    line(f"{count(plan.erased, 'record')} would be erased: {plan.chosen:,} selected")
    _show_kinds(plan)
    if plan.derived_left:
        such = ", ".join(short(one) for one in plan.derived_examples[:_SHOWN])
        left = count(plan.derived_left, "record")
        line(f"{left} derived from it would stay; --cascade includes them")
        line(f"  such as {such}")
    _show_arriving(plan)


def _show_kinds(result: ErasureResult) -> None:
    reasons = {
        "version": "other versions",
        "joins": "links to it",
        "derived": "derived from it, or part of it",
    }
    for why, number in result.with_them.items():
        line(f"  {number:,} {reasons[why]}")
    for name, number in result.types.items():
        line(f"  {number:,} {name}")


def _show_arriving(result: ErasureResult) -> None:
    if result.arriving:
        message(
            f"{count(result.arriving, 'record')} of incomplete imports cannot be erased:"
            " resume or undo these imports first",
            style="yellow",
        )


def _show_erased(done: ErasureResult) -> None:
    line(f"{count(done.erased, 'record')} erased, {size(done.bytes)}")
    _show_kinds(done)
    for name, number in done.held.items():
        line(f"  {number:,} {_ELSEWHERE.get(name, f'in {name}')}")
    _show_arriving(done)
    if done.scanned:
        searched = size(sum(location.bytes for location in done.scanned))
        line(f"searched {searched} in {count(len(done.scanned), 'location')}: {_result(done)}")
    for location in [each for each in done.scanned if each.found][:_SHOWN]:
        message(f"  {location.found:,} in {location.name}", style="yellow")
    if done.still_said:
        message(f"{done.still_said:,} or more remaining records contain some of the same text:")
        for example in done.still_said_examples[:_SHOWN]:
            bank, _, identity = example.partition(" ")
            message(f"  {short(identity)} in bank {short(bank)}")
    if done.derived_left:
        message(
            f"{count(done.derived_left, 'record')} derived from it stay; --cascade includes them"
        )
    for name in done.unreached:
        message(f"not searched: {name}")
    for note in done.notes:
        message("note: ", note)
    if done.receipt:
        message(f"report: satchel receipt show {short(done.receipt)}")


def _result(done: ErasureResult) -> str:
    return f"{done.found:,} REMNANTS FOUND" if done.found else "no remnants"


def _show_pruned(done: MemoryPruneResult) -> None:
    verb = "would be erased" if done.dry_run else "erased"
    line(f"{count(done.erased, 'record')} {verb}, {size(done.bytes)}")
    for name, number in done.types.items():
        line(f"  {number:,} {name}")
    if done.blobs:
        line(f"{count(done.blobs, 'unused blob')} removed")
    if not done.erased:
        message(f"nothing was superseded before {done.before}")
    for note in done.notes:
        message("note: ", note)


def _default_to_stdout(values: dict[str, Any]) -> None:
    values.setdefault("output", NAME)


def _show_everything(done: PersonReport) -> None:
    line(f"{count(done.records, 'record')} in {done.output}")
