"""Writing all of an agent to one file: an agent file, or a sealed artifact with the same in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import msgspec

from satchel.actions.agents.agents import Agent, agent_called
from satchel.actions.agents.history import MOST_RECEIPTS, History, history_of
from satchel.actions.agents.telling import Telling, container_before, names_in
from satchel.actions.agents.workspace import File, LeftOut, Workspace, WorkspaceRules
from satchel.actions.config import Settings
from satchel.actions.configured.activating import without_nulls
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.moving.exporting import Part, export_part
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.paths.permission import file_to_write
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import again_if_disturbed
from satchel.disk.contained import parts_of
from satchel.errors import UsageError
from satchel.formats._aletheia.rows import binary_files, text_files
from satchel.formats._aletheia.shape import NAMED, source_of
from satchel.ledger.view import View
from satchel.memory.records import FileVersion, Model, Source
from satchel.memory.times import now
from satchel.screen.records import scrubbed
from satchel.seal.artifact.statement import FileScope
from satchel.seal.encoding.carry import carry
from satchel.seal.sealing import seal
from satchel.transfer.exporting import Outgoing, Taken, take_out
from satchel.transfer.writing import chosen_format

FORMAT = "aletheia"
SEALED = ("pam", "pam_jsonl", "pam_cbor")
"""Formats that hold an agent: its own, and artifacts, which hold everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExportOptions:
    """What an export of an agent is asked to do."""

    export: ExportOptions = field(default_factory=ExportOptions)
    """Its format, key, and what else every export is asked."""

    full: bool = False
    """All conversations with all messages."""

    rules: WorkspaceRules = field(default_factory=WorkspaceRules)


class AgentExported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an export of an agent did."""

    agent: str
    export: Export
    messages: int
    """Of the main conversation that went along."""

    messages_there: int
    texts: int
    """Files with text that went along."""

    binaries: int
    """Other files, of which at least the name did."""

    left_out: list[LeftOut] = []
    """Files that stayed behind; the first thousand."""

    lossless: bool = True
    report: dict[str, Any] = {}
    """The report inside the file: what was left out, and why."""


def agent_format(output: Path, said: str | None) -> str:
    """Return the format of an agent's export: by name, else by suffix, else an agent file.

    Raises:
        UsageError: If it cannot be written.
    """
    return chosen_format(output, said, otherwise=FORMAT)[0]


def export_agent(
    settings: Settings, wanted: str, output: Path | None, options: AgentExportOptions | None = None
) -> AgentExported:
    """Write all of an agent to a file.

    Args:
        settings: Where the store, the keys and the agents are.
        wanted: The agent's id.
        output: The file; ``<id>-<date>.agent.json`` in the current folder when not given.
        options: What is asked for.

    Raises:
        UnknownAgentError: If there is no such agent.
        UnknownBankError: If its bank is not there.
        PathRefusedError: If its workspace is a link, or the output is outside of the roots.
        UnreadableError: If its workspace cannot be read.
        TargetError: If the output cannot be written.
        UsageError: If its format has no place for an agent.
    """
    require_owner(settings, "agent")
    asked = options or AgentExportOptions()
    agent = agent_called(settings, wanted)
    path = output or Path(f"{agent.id}-{now()[:10]}.agent.json")
    name = agent_format(path, asked.export.format)
    if name not in (FORMAT, *SEALED):
        raise UsageError(
            f"{name} cannot hold a whole agent",
            field="format",
            hint=f"Use one of: {', '.join((FORMAT, *SEALED))}.",
        )
    exporting = replace(asked.export, format=name)
    with (
        opened_bank(settings, agent.bank) as bank,
        file_to_write(settings, path) as outlet,
    ):

        def written() -> AgentExported:
            work = _Exporting(bank, agent, replace(asked, export=exporting))
            return work.told(export_part(bank, outlet, exporting, Part(work.take, _SCOPE)))

        return again_if_disturbed(written)


_SCOPE = FileScope(kind="filter", filter={"agent": True})


class _Exporting:
    """One export of an agent."""

    def __init__(self, bank: OpenBank, agent: Agent, asked: AgentExportOptions) -> None:
        self._bank = bank
        self._agent = agent
        self._asked = asked
        folder = agent.folder
        self._workspace = None if folder is None else Workspace(folder, asked.rules)
        self._history: History | None = None
        self._report: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._names: list[str] = []
        """Of files whose contents did not come here."""

        self._reflections = 0
        self._secrets = 0
        """In the settings of the program that runs the agent; they are replaced."""

    def take(self, view: View, outgoing: Outgoing) -> Taken:
        """Take everything out of the bank and the workspace."""
        files = self._workspace is None
        before = self._before = container_before(view)
        whose = source_of(before.get("nous")) or self._agent.id
        history = self._history = history_of(view, before, full=self._asked.full, files=files)
        found = take_out(view, history, outgoing, self._asked.export.progress)
        if self._workspace is not None:
            for file in chain(self._workspace.files(), self._named()):
                for version in _versions(file, whose):
                    outgoing.builder.add(seal(outgoing.screening(version)))
                found.others += 1
        around = self._around(history)
        if not self._asked.rules.secrets:
            around, secrets = scrubbed(around)
            self._secrets = len(secrets)
        self._report = self._told_inside()
        container = {**cast("Source", around).container, "exportMetadata": self._report}
        around = msgspec.structs.replace(cast("Source", around), container=container)
        outgoing.builder.add(seal(around))
        found.others += 1
        return found

    def told(self, done: Export) -> AgentExported:
        """Return what the export did."""
        history, workspace = cast("History", self._history), self._workspace
        return AgentExported(
            agent=self._agent.id,
            export=done,
            messages=history.taken,
            messages_there=history.messages,
            texts=workspace.texts if workspace else 0,
            binaries=workspace.binaries if workspace else 0,
            left_out=workspace.left if workspace else [],
            lossless=bool(self._report["lossless"]) and not done.losses,
            report=self._report,
        )

    def _named(self) -> Iterator[File]:
        """Yield the binary files of which only the names came, and that are not there now."""
        folder = self._agent.folder
        assert folder is not None  # noqa: S101 - asked where there is a workspace
        for name in names_in(self._before):
            if not folder.joinpath(*parts_of(name)).exists():
                self._names.append(name)
                yield File(path=name, binary={})

    def _around(self, history: History) -> Model:
        """Return the record of what is around the memory in the file."""
        before, agent = self._before, self._agent
        old = before.get("nous")
        old = old if isinstance(old, dict) else {}
        config: Any = carry(agent.config)
        if without_nulls(old.get("config")) == config:  # what TOML cannot say is said again
            config = old.get("config")
        nous = {**old, "id": agent.id, "name": agent.name, "model": agent.model, "config": config}
        nous["model"] = agent.model or old.get("model")
        came = source_of(old)
        if came and came != agent.id:
            nous["cameFrom"] = came
        distillation = dict(before.get("distillation") or {})
        distillation["receipts"] = [*(distillation.get("receipts") or []), *history.receipts]
        reflections = distillation.get("reflections") or []
        self._reflections = len(reflections)
        distillation["reflections"] = reflections[-MOST_RECEIPTS:]
        workspace = dict(before.get("workspace") or {})
        if self._workspace is not None:
            links = msgspec.to_builtins(self._workspace.links)
            workspace |= {"symlinks": links} if links else {}
        named = [*self._names]
        if self._workspace is not None and not self._asked.rules.binary:
            named = [*self._workspace.named, *named]
        container: dict[str, Any] = {
            **{
                name: before[name]
                for name in ("fields", "memory", "graph", "order")
                if name in before
            },
            "nous": nous,
            "workspace": workspace,
            "distillation": distillation,
            "sessions": {**(before.get("sessions") or {}), "background": history.background},
            "others": history.full,
            **({NAMED: named} if named else {}),
            "whole": True,
            **({"primary": history.primary} if history.primary else {}),
        }
        return Source(provider=FORMAT, format=FORMAT, container=container, at=now())

    def _told_inside(self) -> dict[str, Any]:
        """Return the report inside the file: what is not in it, and why."""
        telling = Telling(self._before)
        telling.sessions(cast("History", self._history))
        telling.receipts("reflections", self._reflections)
        telling.workspace(self._workspace, len(self._names))
        telling.settings(self._secrets)
        return telling.report()


def _versions(file: File, agent: str) -> list[FileVersion]:
    """Return a file as records, in parts where it is long."""
    if file.text is not None:
        return text_files(file.path, file.text, agent)
    return binary_files(file.binary or {}, file.path, agent)
