"""``satchel redact`` and ``recover``: remove personal data from memories, and recover it."""

from typing import Any

from satchel.cli._console import count, line, message, print_json, short
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._options import NAME
from satchel.cli._tree import Group
from satchel.erasure.redaction import RecoveredMemory, RedactionResult, recover, redact

_SHOWN = 20


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        redact,
        _show,
        bank=open_to_write,
        label="redacting",
        status=lambda done: done.exit_status,
    )
    command(app, recover, _show_recovered, bank=open_to_read, prepare=_print_without_file)


def _print_without_file(values: dict[str, Any]) -> None:
    """Print the record if the output is ``-``, as without a file."""
    if values.get("output") == NAME and not values.get("sealed"):
        del values["output"]


def _show(done: RedactionResult) -> None:
    verb = "would be redacted" if done.dry_run else "redacted"
    line(f"{count(done.redacted, 'memory')} {verb}, of {done.looked_at:,} scanned")
    for name, number in done.kinds.items():
        line(f"  {number:,} {name}")
    for entry in done.entries[:_SHOWN]:
        line(f"{short(entry.id)}  {', '.join(entry.fields)}")
    if done.redacted > _SHOWN:
        line(f"and {done.redacted - _SHOWN:,} more")
    if done.kept:
        values = count(done.kept, "value")
        message(f"{values} kept: they identify the memory or its owner; --field includes them")
    if done.recoverable_by and not done.dry_run:
        message(f"the originals can be recovered by {', '.join(done.recoverable_by)}")
    for note in done.notes:
        message("note: ", note)


def _show_recovered(recovered: RecoveredMemory) -> None:
    if recovered.output is None:
        print_json(recovered.record)
    else:
        line(f"{recovered.id} in {recovered.output}")
