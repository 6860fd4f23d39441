"""``convert``, ``inspect`` and ``verify``."""

from pathlib import Path
from typing import Annotated

import msgspec
from rich.text import Text

from satchel.actions.converting import PROFILES, Conversion, ConvertOptions, convert
from satchel.actions.inspecting import Overview, inspect
from satchel.actions.signing import signing_key
from satchel.actions.verifying import VerifyOptions, verify
from satchel.disk.reading import OpenFile
from satchel.errors import UsageError
from satchel.ports.registry import formats
from satchel.seal.artifact.statement import SourceAgent
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome, Verification
from satchel.surfaces.cli import _passphrase
from satchel.surfaces.cli._console import (
    bytes_in,
    count,
    facts,
    is_long,
    line,
    message,
    print_json,
    progress,
    safe,
    size,
    state,
    table,
)
from satchel.surfaces.cli._options import (
    Accept,
    AcceptLoss,
    AgentName,
    DryRun,
    EncryptPassphrase,
    EncryptTo,
    FailOnLoss,
    Force,
    IgnoreSidecar,
    Json,
    ReceiptFile,
    SignWith,
    SkipBad,
    TextMember,
    Unsigned,
    WithSidecar,
    lock_of,
    show_losses,
    show_plan,
    tell_receipts,
    tell_refused,
)
from satchel.surfaces.cli._stdin import stdin_as_file
from satchel.surfaces.cli._stdout import NAME, output_file
from satchel.surfaces.cli._tree import Argument, Group, Option

Trusted = Annotated[
    list[str] | None,
    Option("--key", help="Believe this key as well: did:key, hex or a file. Repeatable."),
]
_STYLE = {Outcome.GOOD: "bold green", Outcome.OLDER: "bold yellow"}
_MARK = {"passed": Text("ok", "green"), "failed": Text("no", "red"), "not run": Text("-", "dim")}


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("convert")(convert_command)
    app.command("inspect")(inspect_command)
    app.command("verify")(verify_command)


def convert_command(
    source: Annotated[Path, Argument(metavar="IN", help="File to read; - for stdin.")],
    output: Annotated[Path, Argument(metavar="OUT", help="File to write; - for stdout.")],
    from_: Annotated[
        str | None, Option("--from", help="Format of IN; recognised by default.", values="format")
    ] = None,
    to: Annotated[
        str | None, Option("--to", help="Format of OUT; from its name by default.", values="format")
    ] = None,
    profile: Annotated[
        str | None, Option(help=f"Write for another reader: {', '.join(PROFILES)}.")
    ] = None,
    sign_with: SignWith = None,
    unsigned: Unsigned = False,
    encrypt_to: EncryptTo = None,
    encrypt_passphrase: EncryptPassphrase = False,
    accept: Accept = None,
    trusted: Trusted = None,
    agent: AgentName = None,
    force: Force = False,
    fail_on_loss: FailOnLoss = False,
    skip_bad: SkipBad = False,
    text_member: TextMember = None,
    accept_loss: AcceptLoss = None,
    sidecar: WithSidecar = False,
    ignore_sidecar: IgnoreSidecar = False,
    receipt: ReceiptFile = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Convert memory from one format to another.

    A new artifact (.pam.jsonl, .pam, .pam.cbor, each also as .gz) is sealed and signed; between
    these three the seal is kept. What was written is read again and compared. What the target
    cannot hold is counted and named, and makes the exit status 1, unless `--accept-loss` names it.

    Example: `satchel convert mem0.json memory.pam.jsonl`
    """
    with (
        stdin_as_file(source) as file,
        progress("converting", is_long(_size_of(file))) as tell,
        output_file(output, to) as path,
    ):
        if path != output and sidecar:
            raise UsageError(
                "a sidecar is beside a file, and standard output is none", field="output"
            )
        options = ConvertOptions(
            source_format=from_,
            target_format=to,
            profile=profile,
            key=None if unsigned or dry_run else _key(sign_with, to, output, profile),
            lock=lock_of(encrypt_to, encrypt_passphrase),
            overwrite=force,
            fail_on_loss=fail_on_loss,
            skip_bad=skip_bad,
            text_member=text_member,
            accept_loss=tuple(accept_loss or ()),
            sidecar=sidecar,
            ignore_sidecar=ignore_sidecar,
            receipt=receipt,
            dry_run=dry_run,
            unsafe_accept=frozenset(Outcome(found.value) for found in accept or ()),
            source_agent=SourceAgent(name=agent) if agent else None,
            trusted_keys=tuple(trusted or ()),
            on_progress=tell,
        )
        done = convert(file, path, state.settings, options)
    if path != output:
        done = msgspec.structs.replace(done, output=NAME)
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        _show_conversion(done)
    return tell_receipts([done.receipt] if done.receipt else [], done.unaccepted)


def _key(name: str | None, to: str | None, output: Path, profile: str | None) -> SigningKey | None:
    """Return the key to sign with, where the target is sealed at all."""
    target = PROFILES.get(profile or "") or to or formats.by_suffix(output.name)
    if target is None or target not in formats or not formats[target].info.traits.sealed:
        return None
    wanted = name or state.settings.options.keys.name
    ring = state.settings.keyring
    protected = wanted in ring.names() and ring.read(wanted).protected
    key, made = signing_key(state.settings, name, passphrase=_passphrase.existing(needed=protected))
    if made:
        message(f"Made your signing key {wanted!r} in {ring.folder}: {key.did}")
    return key


def _size_of(file: Path | OpenFile) -> int:
    return file.status.st_size if isinstance(file, OpenFile) else bytes_in(file)


def _show_conversion(done: Conversion) -> None:
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
        ("records", ", ".join(f"{number:,} {name}" for name, number in done.records.items())),
    ]
    if done.source_outcome:
        rows.append(("input is", done.source_outcome))
    if done.same_seal:
        rows.append(("seal", "kept: the same statement and signatures"))
    if done.signed_by:
        rows.append(("signed by", done.signed_by))
    if done.read_back:
        rows.append(("read back", done.read_back))
    facts(rows)
    for note in done.notes:
        message("note: ", note)
    show_losses(done.losses, dry_run=done.dry_run)
    tell_refused(done.refused)
    if done.plan is not None:
        show_plan(done.plan)


def inspect_command(
    file: Annotated[Path, Argument(help="File to look into.")],
    from_: Annotated[
        str | None, Option("--from", help="Its format; recognised by default.", values="format")
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what a file holds, without changing anything.

    Example: `satchel inspect mem0.json`
    """
    found = inspect(file, state.settings, from_)
    if as_json:
        print_json(found)
    else:
        _show_overview(found)
    return 0


def _show_ignored(found: Overview) -> None:
    for loss in found.losses:
        message(f"not read: {loss.name}, {loss.count:,}: {loss.reason}")
    for note in found.notes:
        message("note: ", note)


def _show_overview(found: Overview) -> None:
    line(f"{found.title} ({found.format}), {size(found.bytes)}")
    rows: list[tuple[str, object]] = [("records", _tally(found.records))]
    for name, tally in (
        ("users", found.users),
        ("agents", found.agents),
        ("tags", found.tags),
        ("kept as is", found.kept_as_written),
    ):
        if tally:
            rows.append((name, _tally(tally)))
    if found.runs:
        rows.append(("runs", f"{found.runs:,}"))
    if found.earliest:
        rows.append(("created", f"{found.earliest} to {found.latest}"))
    if found.undated:
        rows.append(("undated", f"{found.undated:,}"))
    if found.expired:
        rows.append(("expired", f"{found.expired:,}"))
    if found.secrets:
        rows.append(("secrets", Text(_tally(found.secrets), "yellow")))
    if found.outcome:
        rows.append(
            ("verdict", Text(found.outcome, _STYLE.get(Outcome(found.outcome), "bold red")))
        )
    facts(rows)
    _show_ignored(found)


def _tally(tally: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in tally.items())


def verify_command(
    file: Annotated[Path, Argument(help="Sealed file.")],
    deep: Annotated[bool, Option("--deep", help="Look at every record, whoever signed.")] = False,
    entry: Annotated[
        str | None,
        Option("--entry", help="Follow this entry's chain back to its roots (id or start)."),
    ] = None,
    trusted: Trusted = None,
    threshold: Annotated[
        int | None, Option(minimum=1, help="How many trusted keys must have signed.")
    ] = None,
    require_fresh: Annotated[
        bool, Option("--require-fresh", help="Refuse an older copy than the newest seen.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Prove that a sealed file is as a trusted signer left it.

    Exit status: 0 good or older, 3 unsigned, stranger, tampered, incomplete, fork, entries-only
    (and older with --require-fresh), 4 malformed.

    Example: `satchel verify memory.pam.jsonl --deep`
    """
    total = bytes_in(file)
    with progress("verifying", is_long(total)) as tell:
        found = verify(
            file,
            state.settings,
            VerifyOptions(
                deep=deep,
                require_fresh=require_fresh,
                entry=entry,
                keys=tuple(trusted or ()),
                threshold=threshold,
                on_progress=tell,
            ),
        )
    if as_json:
        print_json(found.to_json())
    else:
        _show_verification(found)
    return found.exit_status


def _show_verification(found: Verification) -> None:
    also = [outcome.value for outcome in found.outcomes[1:]]
    line(
        Text(found.outcome.value, _STYLE.get(found.outcome, "bold red")),
        f" (also {', '.join(also)})" if also else "",
        f"  {found.file}",
    )
    table(
        ["", "step", "", "found"],
        [[step.number, step.name, _MARK[step.state], step.detail] for step in found.steps],
    )
    for signer in found.signers:
        verdict = signer.standing if signer.valid else f"invalid: {signer.problem}"
        name = f"{signer.name} " if signer.name else ""
        line(f"signature  {name}{signer.key}  {verdict}")
    for finding in found.findings:
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
    for note in found.notes:
        message("note: ", note)
    if found.chain:
        table(
            ["entry", "", "parents"],
            [[link.id, link.state, len(link.parents)] for link in found.chain],
        )
    if found.outcome is Outcome.STRANGER:
        message("If you know this key is theirs: satchel key trust DID --name NAME")
    elif Outcome.STRANGER in found.outcomes:
        message("If you have its signer's key: satchel key trust KEY --profile pam-sdk-1.0")
