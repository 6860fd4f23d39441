"""``satchel agent``: whole agents, exported to one file and imported from one."""

import sys
from typing import Any

import click

from satchel.agents import operations
from satchel.agents.agents import Agent, AgentLine
from satchel.agents.export import AgentExportResult
from satchel.agents.imports import AgentImportResult, OnAgent
from satchel.cli._console import count, line, message, print_facts, size, state, table
from satchel.cli._operations import command
from satchel.cli._options import report_receipt, report_receipts, report_secrets, show_losses
from satchel.cli._tree import Group
from satchel.receipts.receipt import undo_command

_SHOWN, _MOST_ACTIVE = 10, 20


def show_list(result: list[AgentLine]) -> None:
    """Print agents as a table."""
    if not result:
        message("No agents yet. Each is a table [agents.ID] of the configuration.")
        return
    rows: list[list[object]] = [
        [each.id, each.name, each.bank, each.workspace or "", _state(each)] for each in result
    ]
    table(["agent", "name", "bank", "workspace", "state"], rows)


def _state(agent: AgentLine) -> str:
    return agent.problem or ("archived" if agent.archived else "active")


def show_agent(result: Agent) -> None:
    """Print what an agent consists of."""
    print_facts(
        [
            ("agent", result.id),
            ("name", result.name),
            ("model", result.model or "not set"),
            ("bank", result.bank),
            ("workspace", result.workspace or "none"),
            ("active", "no, archived" if result.archived else "yes"),
            ("settings", ", ".join(sorted(result.config)) or "none"),
        ]
    )


def show_exported(done: AgentExportResult) -> int:
    """Print what an export wrote and skipped."""
    export = done.export
    would = "would write " if export.dry_run else ""
    line(f"{done.agent} -> {export.format}: {would}", count(export.entries, "memory"))
    print_facts(
        [
            ("messages", f"{done.messages:,} of {done.messages_there:,}"),
            ("files", f"{done.texts:,} with text, {done.binaries:,} others"),
        ]
    )
    if export.output_bytes is not None:
        written = f"{export.output}  {size(export.output_bytes)}  {export.output_digest}"
        print_facts([("written", written)])
    if export.signed_by:
        print_facts([("signed by", export.signed_by)])
    if done.lossless:
        message("The file includes the whole agent.")
    for omitted in done.report["omittedSections"]:
        if omitted["count"]:
            message(
                f"not included: {omitted['count']:,} of {omitted['section']}: ", omitted["reason"]
            )
    for cut in done.report["truncations"]:
        section = cut["section"].rpartition(".")[2]
        message(
            f"cut: the last {cut['kept']:,} of {cut['original']:,} {section};"
            " --full includes them all"
        )
    for file in done.left_out[:_SHOWN]:
        message("  ", file.path, ": ", file.reason)
    report_secrets(export.secrets, export.secrets_kept)
    for note in export.notes:
        message("note: ", note)
    show_losses(export.losses, dry_run=export.dry_run)
    return report_receipt(export.receipt, export.receipt_problem, export.unaccepted)


_CONFLICTS = {
    "renamed": "with the id of another one, stored beside it under a new id",
    "skipped": "other versions of what the bank has, skipped",
}
"""Texts for items whose ID exists with other contents."""


def show_imported(done: AgentImportResult) -> int:
    """Print the result of an import."""
    if done.how == "known":
        line(f"{done.agent}: this file was imported before; nothing changed")
        return 0
    would = "would be" if done.dry_run else "is now"
    line(f"{done.came_as} {would} {done.agent} ({done.how})")
    print_facts(_rows_of(done))
    for name in done.files.differ[:_SHOWN]:
        message("kept, although the file has other text: ", name)
    for path in done.files.active[:_MOST_ACTIVE]:
        message(f"not written, since a tool would run or obey it: {path}", style="yellow")
    if done.files.active:
        message(
            f"{len(done.files.active):,} such files; to write them, review the file, then: "
            "satchel undo, and import with --active-files"
        )
    if done.files.not_in_file:
        message(f"binary files without their contents: {len(done.files.not_in_file):,}")
    if done.lossless is False:
        message("The file does not include the whole agent: see its exportMetadata.")
    memory = done.memory
    for note in [*done.notes, *(memory.notes if memory is not None else ())]:
        message("note: ", note)
    if memory is not None:
        show_losses(memory.losses)
        report_secrets(memory.secrets, memory.secrets_kept)
    return 0 if memory is None else report_receipts(memory.receipts, memory.unaccepted)


def _rows_of(done: AgentImportResult) -> list[tuple[str, object]]:
    memory, files = done.memory, done.files
    rows: list[tuple[str, object]] = [("bank", done.bank)]
    banks = memory.banks if memory is not None else []
    rows.append(
        ("memory", f"{sum(bank.done.added + bank.done.others for bank in banks):,} records")
    )
    for name, words in _CONFLICTS.items():
        count = sum(
            getattr(bank.done, name) + getattr(bank.done, f"others_{name}") for bank in banks
        )
        if count:
            rows.append(("", f"{count:,} {words}"))
    near = sum(bank.done.near for bank in banks)
    if near:
        rows.append(("", f"{near:,} skipped: others are nearly the same; see --near-duplicates"))
    if files.folder:
        rows.append(("files", f"{files.written:,} in {files.folder}"))
    if files.kept:
        rows.append(("", f"the previous folder is now {files.kept}"))
    if done.undo is not None:
        rows.append(("undo", undo_command(done.undo, None, done.bank)))
    return rows


agent = Group(help="Manage whole agents: memory, conversations, files and settings.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(agent, name="agent")


def _prompts(_: object) -> dict[str, Any]:
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not state.json
    return {"ask": _ask if can_ask else None}


def _ask(agent: str) -> OnAgent:
    choices = [each.value for each in OnAgent if each is not OnAgent.PROMPT]
    question = f"There is an agent {agent} already: {', '.join(choices)}?"
    answer = click.prompt(question, default="fail", err=True)
    return OnAgent(answer) if answer in choices else OnAgent.FAIL


command(agent, operations.list_agents, show_list)
command(agent, operations.show_agent, show_agent)
command(
    agent,
    operations.export_agent,
    show_exported,
    label="exporting",
    status=lambda result: int(bool(result.export.unaccepted)),
)
command(
    agent,
    operations.import_agent,
    show_imported,
    internal=_prompts,
    status=lambda result: int(result.memory is not None and bool(result.memory.unaccepted)),
)
