"""``satchel agent``: whole agents, out of one file and into one."""

import sys
from pathlib import Path
from typing import Annotated

import click
import msgspec

from satchel.actions.agents.agents import list_agents, show_agent
from satchel.actions.agents.exporting import (
    AgentExported,
    AgentExportOptions,
    agent_format,
    export_agent,
)
from satchel.actions.agents.importing import (
    AgentImported,
    AgentImportOptions,
    OnAgent,
    import_agent,
)
from satchel.actions.agents.workspace import MIB, WorkspaceRules
from satchel.actions.importing.imported import ImportOptions
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.moving.exported import ExportOptions, is_signed
from satchel.seal.verify.verification import Outcome
from satchel.surfaces.cli._console import (
    count,
    facts,
    line,
    message,
    print_json,
    progress,
    size,
    state,
    table,
)
from satchel.surfaces.cli._options import (
    Accept,
    AcceptLoss,
    DryRun,
    FailOnLoss,
    Force,
    IncludeEmbeddings,
    Json,
    Owner,
    ReceiptFile,
    Scrub,
    SignWith,
    Unsigned,
    owner_key,
    show_losses,
    tell_receipts,
    tell_secrets,
)
from satchel.surfaces.cli._stdout import NAME, output_file
from satchel.surfaces.cli._tree import Argument, Group, Option

agent = Group(
    help="Whole agents: memory, conversations, files and settings, in one file.",
)
_SHOWN = 10

_MOST_ACTIVE = 20


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(agent, name="agent")


Agent = Annotated[str, Argument(metavar="AGENT", help="The agent's id.")]


@agent.command("list")
def list_command(as_json: Json = False) -> None:
    """List the agents that the configuration names; each is a table `[agents.<id>]`.

    Example: `satchel agent list`
    """
    found = list_agents(state.settings)
    if as_json:
        print_json(found)
        return
    if not found:
        message(f"No agents yet. Each is a table [agents.<id>] of {state.settings.file}.")
        return
    rows: list[list[object]] = [
        [one.id, one.name, one.bank, one.workspace or "", _standing(one.archived, one.problem)]
        for one in found
    ]
    table(["agent", "name", "bank", "workspace", ""], rows)


def _standing(archived: bool, problem: str | None) -> str:
    return problem or ("archived" if archived else "active")


@agent.command("show")
def show_command(wanted: Agent, as_json: Json = False) -> None:
    """Show what an agent consists of.

    Example: `satchel agent show syn`
    """
    found = show_agent(state.settings, wanted)
    if as_json:
        print_json(found)
        return
    facts(
        [
            ("agent", found.id),
            ("name", found.name),
            ("model", found.model or "not said"),
            ("bank", found.bank),
            ("workspace", found.workspace or "none"),
            ("active", "no, archived" if found.archived else "yes"),
            ("settings", ", ".join(sorted(found.config)) or "none"),
        ]
    )


@agent.command("export")
def export_command(
    wanted: Agent,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="File to write, - for stdout; AGENT-DATE.agent.json otherwise.",
        ),
    ] = None,
    format_: Annotated[
        str | None,
        Option("--format", help="aletheia (an agent file), pam, pam_jsonl or pam_cbor."),
    ] = None,
    full: Annotated[
        bool, Option("--full", help="All conversations, with all of their messages.")
    ] = False,
    include_binary: Annotated[
        bool, Option("--include-binary", help="The contents of binary files as well.")
    ] = False,
    include_secrets: Annotated[
        bool,
        Option("--include-secrets", help="Files that look like secrets as well. Take care."),
    ] = False,
    max_file: Annotated[
        int, Option("--max-file-size", minimum=1, maximum=8, help="MiB of the largest file.")
    ] = 4,
    embeddings: IncludeEmbeddings = False,
    sign_with: SignWith = None,
    unsigned: Unsigned = False,
    force: Force = False,
    fail_on_loss: FailOnLoss = False,
    accept_loss: AcceptLoss = None,
    receipt: ReceiptFile = None,
    scrub: Scrub = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Write all of an agent to one file: memory, main conversation, files, settings.

    Of the main conversation, what came after the last distillation goes along, 500 messages at
    most; `--full` takes all of everything. The file itself says what was left out, and why. A name
    that ends in .gz is compressed; .pam is sealed and signed, with the same in it.

    Example: `satchel agent export syn --output syn.agent.json.gz`
    """
    path = output or Path(f"{wanted}.agent.json")
    name = agent_format(path, format_)
    signs = is_signed(path, name) and not unsigned and not dry_run
    with (
        progress("exporting", True, records=True) as tell,
        output_file(path, name) as written,
    ):
        exporting = ExportOptions(
            format=name,
            key=owner_key(sign_with) if signs else None,
            overwrite=force,
            fail_on_loss=fail_on_loss,
            accept_loss=tuple(accept_loss or ()),
            receipt=receipt,
            scrub_secrets=scrub,
            embeddings=embeddings,
            dry_run=dry_run,
            progress=None if tell is None else lambda done, total, _: tell(done, total),
        )
        rules = WorkspaceRules(
            binary=include_binary, secrets=include_secrets, file_bytes=max_file * MIB
        )
        options = AgentExportOptions(export=exporting, full=full, rules=rules)
        named = None if output is None else written
        done = export_agent(state.settings, wanted, named, options)
    if written != path:
        done = msgspec.structs.replace(
            done, export=msgspec.structs.replace(done.export, output=NAME)
        )
    if as_json:
        print_json(done)
    else:
        _show_exported(done)
    told = done.export
    return tell_receipts([told.receipt] if told.receipt else [], told.unaccepted)


def _show_exported(done: AgentExported) -> None:
    told = done.export
    would = "would write " if told.dry_run else ""
    line(f"{done.agent} -> {told.format}: {would}", count(told.entries, "memory"))
    facts(
        [
            ("messages", f"{done.messages:,} of {done.messages_there:,}"),
            ("files", f"{done.texts:,} with text, {done.binaries:,} others"),
        ]
    )
    if told.output_bytes is not None:
        written = f"{told.output}  {size(told.output_bytes)}  {told.output_digest}"
        facts([("written", written)])
    if told.signed_by:
        facts([("signed by", told.signed_by)])
    if done.lossless:
        message("everything of the agent is in it")
    for one in done.report["omittedSections"]:
        if one["count"]:
            message(f"left out: {one['count']:,} of {one['section']}: ", one["reason"])
    for one in done.report["truncations"]:
        what = one["section"].rpartition(".")[2]
        message(
            f"cut: the last {one['kept']:,} of {one['original']:,} {what}; --full includes them all"
        )
    for file in done.left_out[:_SHOWN]:
        message("  ", file.path, ": ", file.reason)
    tell_secrets(told.secrets, told.secrets_kept)
    for note in told.notes:
        message("note: ", note)
    show_losses(told.losses, dry_run=told.dry_run)


@agent.command("import")
def import_command(
    file: Annotated[
        Path, Argument(metavar="FILE", help="An agent file, or a sealed artifact of one.")
    ],
    name: Annotated[
        str | None, Option("--name", help="Its id here; as the file says otherwise.")
    ] = None,
    on_conflict: Annotated[
        OnAgent,
        Option("--on-conflict", help="What to do where there is an agent of that id."),
    ] = OnAgent.PROMPT,
    workspace: Annotated[
        Path | None,
        Option("--workspace", help="Folder for its files; below the home otherwise."),
    ] = None,
    near: Annotated[
        NearDuplicates | None,
        Option(
            "--near-duplicates",
            help="What to do with memories that say what another one says; a merge skips them.",
        ),
    ] = None,
    embed: Annotated[
        bool, Option("--embed/--no-embed", help="Make the vectors of its memories.")
    ] = True,
    active_files: Annotated[
        bool,
        Option(
            "--active-files",
            help="Also write files that a tool runs or obeys: .git/hooks, .claude, .envrc, ...",
        ),
    ] = False,
    scrub: Scrub = False,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = None,
    receipt: ReceiptFile = None,
    accept: Accept = None,
    trusted: Annotated[
        list[str] | None,
        Option("--trusted", help="Believe this key as well: did:key, hex or a file."),
    ] = None,
    key: Owner = None,
    as_json: Json = False,
) -> int:
    """Make an agent of a file: its memory, conversations, files, and that it is configured.

    Everything gets new ids here, so the agent that the file came from is never touched. All of it
    is read and checked first; `satchel undo` takes all of it back. The same file a second time
    changes nothing.

    Example: `satchel agent import syn.agent.json.gz --name syn-2`
    """
    asked = ImportOptions(
        accept_loss=tuple(accept_loss or ()),
        receipt=receipt,
        scrub_secrets=scrub,
        unsafe_accept=frozenset(Outcome(one.value) for one in accept or ()),
        trusted_keys=tuple(trusted or ()),
    )
    options = AgentImportOptions(
        name=name,
        on_conflict=on_conflict,
        ask=_ask if sys.stdin.isatty() and sys.stderr.isatty() and not as_json else None,
        workspace=workspace,
        near_duplicates=near,
        embed=embed,
        active_files=active_files,
        dry_run=dry_run,
        memory=asked,
    )
    done = import_agent(state.settings, file, lambda: owner_key(key), options)
    if as_json:
        print_json(done)
    else:
        _show_imported(done)
    told = done.memory
    return tell_receipts(told.receipts, told.unaccepted) if told is not None else 0


_CONFLICTS = {
    "renamed": "with the id of another one, stored beside it under a new id",
    "skipped": "other versions of what the bank has, skipped",
}
"""What became of things that have one id and say something else."""


def _ask(wanted: str) -> OnAgent:
    choices = [one.value for one in OnAgent if one is not OnAgent.PROMPT]
    answer = click.prompt(
        f"There is an agent {wanted} already: {', '.join(choices)}?", default="fail", err=True
    )
    return OnAgent(answer) if answer in choices else OnAgent.FAIL


def _show_imported(done: AgentImported) -> None:
    if done.how == "known":
        line(f"{done.agent}: this very file is in it already; nothing changed")
        return
    would = "would be" if done.dry_run else "is"
    line(f"{done.came_as} {would} {done.agent} here ({done.how})")
    facts(_rows_of(done))
    for name in done.files.differ[:_SHOWN]:
        message("stays as it is, and says something else than the file: ", name)
    for path in done.files.active[:_MOST_ACTIVE]:
        message(f"not written, since a tool would run or obey it: {path}", style="yellow")
    if done.files.active:
        message(
            f"{len(done.files.active):,} such files; to have them, look at the file and import it"
            " again: satchel undo, then --active-files"
        )
    if done.files.not_in_file:
        message(f"binary files whose contents did not come: {len(done.files.not_in_file):,}")
    if done.lossless is False:
        message("the file says that it does not hold all of the agent: exportMetadata in it")
    told = done.memory
    for note in [*done.notes, *(told.notes if told is not None else ())]:
        message("note: ", note)
    if told is not None:
        show_losses(told.losses)
        tell_secrets(told.secrets, told.secrets_kept)


def _rows_of(done: AgentImported) -> list[tuple[str, object]]:
    told, files = done.memory, done.files
    rows: list[tuple[str, object]] = [("bank", done.bank)]
    banks = told.banks if told is not None else []
    rows.append(("memory", f"{sum(one.done.added + one.done.others for one in banks):,} records"))
    for name, words in _CONFLICTS.items():
        count = sum(getattr(one.done, name) + getattr(one.done, f"others_{name}") for one in banks)
        if count:
            rows.append(("", f"{count:,} {words}"))
    near = sum(one.done.near for one in banks)
    if near:
        rows.append(("", f"{near:,} left out, as others say the same; see --near-duplicates"))
    if files.folder:
        rows.append(("files", f"{files.written:,} in {files.folder}"))
    if files.kept:
        rows.append(("", f"the folder that was there is now {files.kept}"))
    if done.undo is not None:
        rows.append(("undo", f"satchel undo {done.undo[:23]} --bank {done.bank}"))
    return rows
