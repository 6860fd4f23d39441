"""``convert``, ``inspect`` and ``verify``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.text import Text

from satchel.artifact.verification import KEY_TRUST_TEXTS, Outcome, Verification
from satchel.cli._console import count, line, message, print_facts, safe, size, state, table
from satchel.cli._operations import command
from satchel.cli._options import (
    Encryption,
    output_file,
    owner_key,
    read_passphrase,
    report_receipt,
    report_refused,
    show_losses,
    show_plan,
    stdin_as_file,
)
from satchel.cli._tree import Group
from satchel.errors import UsageError
from satchel.runtime.files import OpenFile
from satchel.transfer.conversion import Conversion, ConvertRequest, convert_file
from satchel.transfer.verification import (
    FileSource,
    InspectRequest,
    Overview,
    VerifyRequest,
    inspect_file,
    trust_hint,
    verify_file,
)

_STYLE = {Outcome.GOOD: "bold green", Outcome.OLDER: "bold yellow"}
_MARK = {
    "passed": Text("ok", "green"),
    "failed": Text("failed", "red"),
    "not run": Text("-", "dim"),
}


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        convert_file,
        _show_conversion,
        context=_converted,
        label="converting",
        unit="bytes",
        extra=Encryption,
        prepare=read_passphrase,
        status=lambda done: int(bool(done.unaccepted)),
    )
    command(app, inspect_file, _show_overview, context=_read, label="inspecting", unit="bytes")
    command(
        app,
        verify_file,
        _show_verification,
        context=_read,
        label="verifying",
        unit="bytes",
        status=lambda found: found.exit_status,
    )


@contextmanager
def _read(options: InspectRequest | VerifyRequest) -> Iterator[FileSource]:
    with stdin_as_file(Path(options.path)) as file:
        held = file if isinstance(file, OpenFile) else None
        yield FileSource(settings=state.settings, file=held)


@contextmanager
def _converted(options: ConvertRequest, _: Encryption) -> Iterator[FileSource]:
    output = Path(options.output)
    with stdin_as_file(Path(options.source)) as file, output_file(output, options.to) as path:
        if path != output and options.sidecar:
            raise UsageError("a sidecar cannot be written for standard output", field="--sidecar")
        yield FileSource(
            settings=state.settings,
            file=file if isinstance(file, OpenFile) else None,
            output=path if path != output else None,
            key=owner_key,
        )


def _show_conversion(done: Conversion, _: Encryption) -> int:
    line(
        f"{done.source_format} -> {done.target_format}: ",
        count(sum(done.records.values()), "record"),
        f", {size(done.input_bytes)} -> ",
        "nothing yet" if done.output_bytes is None else size(done.output_bytes),
    )
    rows: list[tuple[str, object]] = [
        ("read", f"{done.input}  {done.input_digest}"),
        (
            "would write" if done.dry_run else "written",
            f"{done.output}  {done.output_digest or ''}",
        ),
        ("records", ", ".join(f"{name} {number:,}" for name, number in done.records.items())),
    ]
    if done.source_outcome:
        rows.append(("input is", done.source_outcome))
    if done.same_seal:
        rows.append(("seal", "kept: the same statement and signatures"))
    if done.signed_by:
        rows.append(("signed by", done.signed_by))
    if done.read_back:
        rows.append(("read back", done.read_back))
    print_facts(rows)
    for note in done.notes:
        message("note: ", note)
    show_losses(done.losses, dry_run=done.dry_run)
    report_refused(done.refused)
    if done.plan is not None:
        show_plan(done.plan)
    return report_receipt(done.receipt, done.receipt_problem, done.unaccepted)


def _show_ignored(overview: Overview) -> None:
    for loss in overview.losses:
        message(f"not read: {loss.name}, {loss.count:,}: {loss.reason}")
    for note in overview.notes:
        message("note: ", note)


def _show_overview(overview: Overview) -> None:
    line(f"{overview.title} ({overview.format}), {size(overview.bytes)}")
    rows: list[tuple[str, object]] = [("records", _tally(overview.records))]
    for name, tally in (
        ("users", overview.users),
        ("agents", overview.agents),
        ("tags", overview.tags),
        ("kept as is", overview.kept_as_written),
    ):
        if tally:
            rows.append((name, _tally(tally)))
    if overview.runs:
        rows.append(("runs", f"{overview.runs:,}"))
    if overview.earliest:
        rows.append(("created", f"{overview.earliest} to {overview.latest}"))
    if overview.undated:
        rows.append(("undated", f"{overview.undated:,}"))
    if overview.expired:
        rows.append(("expired", f"{overview.expired:,}"))
    if overview.secrets:
        rows.append(("secrets", Text(_tally(overview.secrets), "yellow")))
    if overview.outcome:
        rows.append(
            ("verdict", Text(overview.outcome, _STYLE.get(Outcome(overview.outcome), "bold red")))
        )
    print_facts(rows)
    if overview.outcome not in (None, Outcome.GOOD):
        message(f"for details: satchel verify {overview.file}")
    _show_ignored(overview)


def _tally(tally: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in tally.items())


def _show_verification(verification: Verification) -> None:
    also = [outcome.value for outcome in verification.outcomes[1:]]
    line(
        Text(verification.outcome.value, _STYLE.get(verification.outcome, "bold red")),
        f" (also {', '.join(also)})" if also else "",
        f"  {verification.file}",
    )
    table(
        ["no.", "step", "result", "details"],
        [[step.number, step.name, _MARK[step.state], step.detail] for step in verification.steps],
    )
    for signer in verification.signers:
        verdict = f"invalid: {signer.problem}"
        if signer.valid:
            verdict = f"valid, by {KEY_TRUST_TEXTS[signer.trust]}"
        name = f"{signer.name} " if signer.name else ""
        line(f"signature  {name}{signer.key}  {verdict}")
    for finding in verification.findings:
        where = "".join(
            f", {name} {value}"
            for name, value in (
                ("line", finding.line),
                ("byte", finding.byte),
                ("field", finding.field),
                ("id", finding.id),
            )
            if value is not None
        )
        line(Text(f"{finding.outcome.value}: ", "red"), safe(finding.message), where)
    for note in verification.notes:
        message("note: ", note)
    if verification.chain:
        table(
            ["entry", "state", "parents"],
            [[link.id, link.state, len(link.parents)] for link in verification.chain],
        )
    if hint := trust_hint(verification):
        message(hint)
