"""How memory files are printed."""

from collections.abc import Sequence

from satchel.actions.filing.operations import FileAudit, FileContent, FileDiff, FileLine
from satchel.files import MemoryMeta
from satchel.files.beyond import Synced
from satchel.files.exchange.folders import Alike
from satchel.files.exchange.memory_stores import Moved
from satchel.files.keeping.collected import Collected
from satchel.files.keeping.manifest import Version
from satchel.files.looking import Found
from satchel.files.promoting import Decision
from satchel.surfaces.cli._console import count, line, message, print_raw, size, table

_SHOWN = 12


def show_written(result: MemoryMeta, _: object) -> None:
    """Print the version of a file that was written."""
    line(f"{result.path} version {result.version}, {result.sha256}")


def show_moved(result: Sequence[str], _: object) -> None:
    """Print how many files were moved."""
    line(f"{count(len(result), 'file')} moved")


def show_deleted(result: Sequence[str], _: object) -> None:
    """Print how many files were deleted."""
    line(f"{count(len(result), 'file')} deleted")


def show_list(result: Sequence[FileLine], _: object) -> None:
    """Print files as a table."""
    if not result:
        message("no files")
        return
    table(["path", "size", "version", "changed", "by"], map(_row, result))


def _row(file: FileLine) -> list[object]:
    if not file.managed:
        return [file.path, "", "", "by another program; import it: satchel file sync", ""]
    by = file.updated_by or ""
    return [file.path, size(file.bytes or 0), file.version or "", file.updated_at or "", by]


def show_content(result: FileContent, _: object) -> None:
    """Print a file, byte for byte."""
    print_raw(result.content)


def show_lines(result: Sequence[Found], _: object) -> None:
    """Print the lines that match."""
    for each in result:
        line(f"{each.path}:{each.line}: {each.text}")
    if not result:
        message("nothing found")


def show_history(result: Sequence[Version], _: object) -> None:
    """Print the versions of a file."""
    if not result:
        message("no versions")
        return
    rows: list[list[object]] = [
        [
            *(each.version, each.op, each.sha[:_SHOWN], size(each.bytes)),
            *(each.at, each.actor, each.reason),
        ]
        for each in result
    ]
    table(["version", "change", "sha256", "size", "when", "by", "why"], rows)


def show_diff(result: FileDiff, _: object) -> None:
    """Print how two versions differ."""
    print_raw(result.diff.encode())


def show_audit(result: FileAudit, _: object) -> None:
    """Print events, or whether they verify."""
    if result.verified is not None:
        line(f"{count(result.verified, 'event')}, {'verified' if result.ok else 'not verified'}")
        for problem in result.problems:
            line(f"  {problem}")
        return
    rows: list[list[object]] = [
        [
            each.get("ts", ""),
            f"{each.get('op', '')} {each.get('error', '')}".strip(),
            each.get("path", ""),
            each.get("actor", ""),
            each.get("reason", ""),
        ]
        for each in result.events
    ]
    table(["when", "event", "path", "by", "why"], rows)


def show_promoted(result: Sequence[Decision], _: object) -> None:
    """Print which proposals were promoted, or would be."""
    stay = [each for each in result if each.reason is not None]
    line(f"proposals allowed: {len(result) - len(stay):,} of {len(result):,}")
    for each in result:
        if each.reason is None:
            line(f"  {each.proposal} -> {each.target}")
        else:
            message(f"  not promoted: {each.proposal}: {each.reason}")


def show_synced(result: Synced | Alike, _: object) -> None:
    """Print what was synchronised."""
    if isinstance(result, Synced):
        created, changed, deleted = map(len, (result.created, result.changed, result.deleted))
        line(f"{created:,} new, {changed:,} changed, {deleted:,} deleted")
        skipped: Sequence[str] = result.refused
    else:
        deleted = len(result.deleted_in_store) + len(result.deleted_in_folder)
        line(
            f"{len(result.to_store):,} to the store, {len(result.to_folder):,} to the folder,"
            f" {deleted:,} deleted"
        )
        for path in result.conflicts:
            message(f"  changed on both sides, kept twice: {path}")
        skipped = result.left_out
    for problem in skipped:
        message(f"  skipped: {problem}")


def show_exchanged(result: Moved, _: object) -> None:
    """Print how many memories were moved."""
    line(f"{len(result.moved):,} moved, {len(result.unchanged):,} unchanged")
    for problem in result.lost:
        message(f"  skipped: {problem}")


def show_collected(result: Collected, _: object) -> None:
    """Print what was removed."""
    line(f"{count(result.removed, 'pack')} removed, {result.waiting:,} waiting")
    if result.rewritten:
        line(f"  what is still used was copied from {count(result.rewritten, 'pack')}")
