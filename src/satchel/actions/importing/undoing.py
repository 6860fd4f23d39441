"""Listing the imports into a bank, and taking one back."""

from collections.abc import Callable

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.permitted.owning import require_owner
from satchel.errors import UnknownImportError
from satchel.jobs.undo import take_back
from satchel.ledger.logged import Import

Progress = Callable[[int, int], None]

_LEAST_DIGITS = 6


class ImportLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One import in a listing."""

    source: str
    format: str
    at: str | None
    records: int
    state: str
    """``complete``, ``begun`` (killed, or running) or ``undone``."""

    digest: str | None = None


class Undone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What taking an import back did."""

    source: str
    records: int
    already: bool = False
    """Whether it was undone before."""

    replaced: list[str] = []
    """Memories that the import had replaced and that stay so, as others replaced them again."""

    agent: str | None = None
    """The agent that was taken back with it, its files and settings too; None for memory alone."""

    stays: list[str] = []
    """Files of that agent that were changed since, and so stay."""

    dry_run: bool = False


def list_imports(settings: Settings, bank: str | None) -> list[ImportLine]:
    """Return the imports into a bank, in the order in which they began."""
    with opened_bank(settings, bank) as opened:
        return list_imports_in(opened)


def list_imports_in(bank: OpenBank) -> list[ImportLine]:
    """Return the imports into an open bank, in the order in which they began."""
    require_owner(bank.settings, "undo")
    with bank.ledger.reading() as view:
        found = view.imports()
        sources = view.get([one.source for one in found])
        lines = []
        for one in found:
            value = sources[one.source].record.value
            lines.append(
                ImportLine(
                    source=one.source,
                    format=value["format"],
                    at=value.get("at"),
                    records=one.records,
                    state=_state(one),
                    digest=value.get("digest"),
                )
            )
        return lines


def undo_import(
    settings: Settings,
    bank: str | None,
    wanted: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
) -> Undone:
    """Take an import back: what came with it goes, what it replaced is there again.

    Args:
        settings: Where the store and the keys are.
        bank: The bank; see ``opened_bank``.
        wanted: Id of its source record, or the start of that; None for the last one that holds.
        reason: For whoever reads the log.
        dry_run: Whether to leave everything as it is.

    Raises:
        UnknownImportError: If there is no such import.
    """
    require_owner(settings, "undo")
    with opened_bank(settings, bank, writes=not dry_run) as opened:
        return undo_in(opened, wanted, reason=reason, dry_run=dry_run)


def undo_in(
    bank: OpenBank,
    wanted: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Undone:
    """Take an import into an open bank back; see ``undo_import``.

    Args:
        bank: The bank.
        wanted: As ``undo_import``.
        reason: For whoever reads the log.
        dry_run: Whether to leave everything as it is.
        progress: Called with the records of it that were looked at, and all of them.
    """
    require_owner(bank.settings, "undo")
    with bank.ledger.reading() as view:
        one = _chosen_import(view.imports(), wanted)
    replaced = list[str]()
    if not one.undone and not dry_run:
        replaced = take_back(bank.ledger, one.source, reason, progress)
        bank.tell("on_undo", [one.source], {"records": one.records})
    return Undone(
        source=one.source,
        records=one.records,
        already=one.undone,
        replaced=replaced,
        dry_run=dry_run,
    )


def _chosen_import(found: list[Import], wanted: str | None) -> Import:
    if wanted is None:
        there = [one for one in found if not one.undone][-1:]
    else:
        digits = wanted.removeprefix("blake3:")
        enough = len(digits) >= _LEAST_DIGITS
        start = "blake3:" + digits
        there = [one for one in found if enough and one.source.startswith(start)]
    if len(there) != 1:
        what = "an import" if wanted is None else f"one import {wanted!r}"
        raise UnknownImportError(f"there is not {what} here", hint="See: satchel bank imports")
    return there[0]


def _state(one: Import) -> str:
    if one.undone:
        return "undone"
    return "complete" if one.complete else "begun"
