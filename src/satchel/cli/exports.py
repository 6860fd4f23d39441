"""``satchel export``, ``disclose`` and ``diff``."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from satchel.cli._console import count, line, message, print_facts, safe, size, state
from satchel.cli._operations import command, open_to_read
from satchel.cli._options import (
    Encryption,
    output_file,
    owner_key,
    path_or_address,
    read_passphrase,
    report_receipt,
    report_secrets,
    show_losses,
    show_plan,
)
from satchel.cli._tree import Group
from satchel.config.options import OWN
from satchel.errors import UsageError
from satchel.transfer.comparison import Comparison, UnpairedEntry, diff
from satchel.transfer.disclosure import disclose_memories
from satchel.transfer.export_operations import (
    ExportRequest,
    ExportSource,
    check,
    export,
    opened_source,
)
from satchel.transfer.export_records import Export

_DIFFERENT = 1


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        export,
        _show_export,
        bank=_source,
        label="exporting",
        extra=Encryption,
        prepare=read_passphrase,
        status=lambda done: int(bool(done.unaccepted)),
    )
    command(
        app,
        disclose_memories,
        _show_disclosure,
        bank=open_to_read,
        extra=Encryption,
        prepare=read_passphrase,
        status=lambda done: int(bool(done.unaccepted)),
    )
    command(
        app,
        diff,
        _show_comparison,
        label="comparing",
        status=lambda found: 0 if found.is_same else _DIFFERENT,
    )


@contextmanager
def _source(bank: str | None, options: ExportRequest, _: Encryption) -> Iterator[ExportSource]:
    output = path_or_address(str(options.path))
    with output_file(output, options.to) as path:
        if path != output and options.sidecar:
            raise UsageError(
                "a sidecar cannot be written for standard output", field="--sidecar", hint="Use -o."
            )
        check(options, path)
        with opened_source(state.settings, bank, lambda: owner_key(None)) as source:
            yield ExportSource(bank=source, output=path, permission=OWN, key=owner_key)


def _show_export(done: Export, _: Encryption) -> int:
    what = "would write " if done.dry_run else ""
    line(f"{done.name or done.bank} -> {done.format}: {what}", count(done.entries, "memory"))
    rows: list[tuple[str, object]] = [
        ("bank", f"{done.bank}  {count(done.size, 'record')}, epoch {done.epoch}"),
        ("records", ", ".join(f"{name} {number:,}" for name, number in done.records.items())),
    ]
    if done.written is not None:
        rows.append(("written", f"{done.written:,} to {done.output}"))
    if done.known:
        rows.append(("", f"{done.known:,} already existed with the same content"))
    if done.output_bytes is not None:
        written = f"{done.output}  {size(done.output_bytes)}  {done.output_digest}"
        rows.append(("written", written))
    if done.sidecar:
        rows.append(("sidecar", done.sidecar))
    if done.signed_by:
        rows.append(("signed by", done.signed_by))
    if done.read_back:
        rows.append(("read back", done.read_back))
    print_facts(rows)
    report_secrets(done.secrets, done.secrets_kept)
    for note in done.notes:
        message("note: ", note)
    show_losses(done.losses, dry_run=done.dry_run)
    if done.plan is not None:
        show_plan(done.plan)
    return report_receipt(done.receipt, done.receipt_problem, done.unaccepted)


def _show_comparison(comparison: Comparison) -> None:
    line(
        "no differences: " if comparison.is_same else "different: ",
        f"{comparison.same:,} the same, {comparison.only_a:,} only in A, ",
        f"{comparison.only_b:,} only in B, {comparison.changed:,} changed",
    )
    print_facts(
        [
            ("A", f"{comparison.a}  {count(comparison.a_entries, 'memory')}"),
            ("B", f"{comparison.b}  {count(comparison.b_entries, 'memory')}"),
        ]
    )
    for memory in comparison.first_only_a:
        line(Text("- ", "red"), _unpaired(memory))
    _more(comparison.only_a, len(comparison.first_only_a), "only in A")
    for memory in comparison.first_only_b:
        line(Text("+ ", "green"), _unpaired(memory))
    _more(comparison.only_b, len(comparison.first_only_b), "only in B")
    for pair in comparison.first_changed:
        line(Text("~ ", "yellow"), ", ".join(pair.fields))
        line(Text("  - ", "red"), _unpaired(pair.a))
        line(Text("  + ", "green"), _unpaired(pair.b))
    _more(comparison.changed, len(comparison.first_changed), "changed")
    for note in comparison.notes:
        message("note: ", note)


def _more(number: int, printed: int, noun: str) -> None:
    if number > printed:
        message(f"  and {number - printed:,} more {noun}: --limit")


def _unpaired(entry: UnpairedEntry) -> Text:
    named = f"  [{entry.origin}]" if entry.origin else ""
    return safe(f"{entry.id[7:19]} {entry.type}{named}  {entry.text or ''}".rstrip())


def _show_disclosure(done: Export, _: Encryption) -> None:
    line(f"{done.name or done.bank} -> {done.format}: ", count(done.entries, "memory"))
    rows: list[tuple[str, object]] = [
        ("records", ", ".join(f"{name} {number:,}" for name, number in done.records.items())),
        ("head", f"{count(done.size, 'record')}, epoch {done.epoch}"),
    ]
    if done.output_bytes is not None:
        rows.append(("written", f"{done.output}  {size(done.output_bytes)}"))
    if done.read_back:
        rows.append(("verified", done.read_back))
    print_facts(rows)
    for note in done.notes:
        message("note: ", note)
    if done.plan is not None:
        show_plan(done.plan)
    report_receipt(done.receipt, done.receipt_problem, done.unaccepted)
