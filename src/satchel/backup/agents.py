"""Files and settings of agents in backups: back up and restore."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from blake3 import blake3

from satchel.agents.agents import Agent, agent_of, table_of, write_agent_config
from satchel.agents.staged_files import Staging
from satchel.agents.workspace import Workspace, WorkspaceRules
from satchel.backup.contents import AgentContents, files_of, read_agent_contents, write_agent
from satchel.backup.manifests import AgentBackup, BankBackup, Manifest
from satchel.backup.options import RestoreOptions
from satchel.backup.storage import Packs
from satchel.bank.connections import local_path
from satchel.config.settings import Settings
from satchel.config.tables import AgentSettings
from satchel.crypto.canonical import decode_foreign, encode_foreign
from satchel.errors import (
    InputError,
    PathRefusedError,
    TargetExistsError,
    UnknownAgentError,
    UsageError,
    VerificationError,
)
from satchel.model.records import Source
from satchel.model.values import is_agent_name, now, resolved
from satchel.runtime.contained_folder import ContainedFolder
from satchel.screening.records import scrubbed

_MOST_NAMED = 20


class RestoredAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of restoring the files and settings of an agent."""

    id: str
    folder: str | None = None
    """Folder of its files; None if it has none."""

    files: int = 0
    same: bool = False
    """Whether all files existed unchanged."""

    aside: str | None = None
    """Where the previous folder was moved to."""

    configured: bool = False
    """Whether the agent was added to the configuration."""

    notes: list[str] = []


class _Plan(NamedTuple):
    """One agent, and the target of its files."""

    part: AgentBackup
    contents: AgentContents
    folder: Path | None
    """None if it has no files."""

    same: bool
    """Whether all its files exist unchanged."""

    table: dict[str, object] | None
    """Table for the configuration; None if it already has the agent."""


def agents_in(manifest: Manifest, names: Sequence[str]) -> list[AgentBackup]:
    """Return the named agents of a backup.

    Raises:
        UnknownAgentError: If one is not in it.
    """
    known = {part.id: part for part in manifest.agents}
    for name in names:
        if name not in known:
            raise UnknownAgentError(
                f"the backup has no agent {name[:80]!r}",
                file=manifest.id,
                hint=f"It has: {', '.join(known) or 'none'}. See: satchel backup list.",
            )
    return [known[name] for name in dict.fromkeys(names)]


class AgentsRestore:
    """The restore of agents of one backup.

    The constructor performs all checks, before anything is written.

    Args:
        settings: Settings of the machine.
        parts: The agents.
        packs: Packs of the backup.
        options: Options of the restore.

    Raises:
        VerificationError: If the data does not verify, or is invalid for an agent.
        EncryptionError: If no identity here decrypts it.
        TargetExistsError: If there are other files, and they may not be replaced.
        UsageError: If several agents would go into one folder.
    """

    def __init__(
        self,
        settings: Settings,
        parts: Sequence[AgentBackup],
        packs: Packs,
        options: RestoreOptions,
    ) -> None:
        self._settings, self._packs, self._options = settings, packs, options
        if options.workspace is not None and len(parts) != 1:
            raise UsageError(
                "a folder can receive the files of one agent only, and the backup has "
                f"{len(parts)}",
                field="workspace",
                hint="Choose one: --agent ID.",
            )
        self._plans = [self._plan(part) for part in parts]

    def __bool__(self) -> bool:
        return bool(self._plans)

    def put(self) -> Iterator[RestoredAgent]:
        """Restore each agent, and yield the results.

        Raises:
            TargetError: If something cannot be written; existing files are kept, possibly renamed.
        """
        for plan in self._plans:
            part, contents = plan.part, plan.contents
            aside, notes = None, list(_notes(contents))
            if plan.folder is not None and not plan.same and not self._options.dry_run:
                with Staging(plan.folder) as staging:
                    for path, data in files_of(part, contents, self._packs):
                        staging.lay(path, data)
                    aside = staging.put(merge=False).kept
            if plan.table is not None and not self._options.dry_run:
                write_agent_config(self._settings, part.id, plan.table)
            yield RestoredAgent(
                id=part.id,
                folder=None if plan.folder is None else str(plan.folder),
                files=part.files,
                same=plan.same,
                aside=aside,
                configured=plan.table is not None,
                notes=notes,
            )

    def _plan(self, part: AgentBackup) -> _Plan:
        if not is_agent_name(part.id):
            raise VerificationError(f"the backup has an agent with an invalid ID: {part.id!r}")
        contents = read_agent_contents(part, self._packs)
        known = self._settings.options.agents.get(part.id)
        configured = None if known is None else agent_of(part.id, known)
        requested = self._options.workspace
        folder = None if requested is None else Path(requested)
        if folder is None and configured is not None:
            folder = configured.folder
        if folder is None and contents.files:
            folder = self._settings.home / "agents" / part.id / "workspace"
        folder = None if folder is None or not contents.files else folder.expanduser().absolute()
        same = folder is not None and _has_all_files(folder, contents)
        if (
            folder is not None
            and os.path.lexists(folder)
            and not same
            and not self._options.overwrite
        ):
            raise TargetExistsError(
                f"the files of the agent {part.id} differ from those in the backup",
                file=str(folder),
                hint="To replace the folder (it is renamed, not deleted): --overwrite. To use "
                "another folder: --agent ID --workspace FOLDER. To restore no files: --no-files.",
            )
        return _Plan(part, contents, folder, same, self._table(part, contents, folder))

    def _table(
        self, part: AgentBackup, contents: AgentContents, folder: Path | None
    ) -> dict[str, object] | None:
        """Return the table for an agent that the configuration does not have."""
        known = self._settings.options.agents.get(part.id)
        if known is not None or self._options.workspace is not None:
            return None
        try:
            agent_settings = msgspec.convert(decode_foreign(contents.said), resolved(AgentSettings))
        except (msgspec.ValidationError, InputError) as error:
            raise VerificationError(f"the settings of the agent {part.id}: {error}") from None
        workspace = None if folder is None else str(folder)
        return table_of(
            agent_of(part.id, msgspec.structs.replace(agent_settings, workspace=workspace))
        )


def _has_all_files(folder: Path, contents: AgentContents) -> bool:
    """Return whether a folder has all files of an agent, as in the backup."""
    return not any(changed(folder, contents))


def changed(folder: Path, contents: AgentContents) -> Iterator[str]:
    """Yield the paths of files that are missing in a folder or differ from the backup."""
    try:
        opened = ContainedFolder(folder)
    except (InputError, PathRefusedError):
        yield from (file.path for file in contents.files)
        return
    with opened:
        for file in contents.files:
            try:
                data = opened.read(file.path, limit=file.size)
            except (InputError, PathRefusedError):
                yield file.path
                continue
            if blake3(data).hexdigest() != file.digest:
                yield file.path


def _notes(contents: AgentContents) -> Iterator[str]:
    """Yield notes on what is not in the backup or not restored."""
    for path, reason in list(contents.left.items())[:_MOST_NAMED]:
        if reason != "ignored":
            yield f"not in the backup: {path}: {reason}"
    for path, target in list(contents.links.items())[:_MOST_NAMED]:
        yield f"not restored: the symbolic link {path}, which led to {target}"


_EXPECTED = frozenset({"ignored", "memory itself or its backups"})
"""Reasons for skipping files that are not reported."""

_MOST_AGENTS_NAMED = 3
_SIDES = ("", "-wal", "-shm", "-journal", ".key", ".key.next")


def take_agents(
    settings: Settings,
    agents: Sequence[Agent],
    banks: Sequence[BankBackup],
    packs: Packs,
    missing: list[str],
    notes: list[str],
) -> Iterator[AgentBackup]:
    """Back up the files and settings of agents.

    Args:
        settings: Settings of the machine.
        agents: The agents.
        banks: The banks in the same backup.
        packs: Packs to write.
        missing: Receives what could not be read.
        notes: Receives notes on skipped files, by reason.

    Raises:
        TargetError: If something cannot be written.
    """
    ids = {part.name: part.bank for part in banks} | {part.bank: part.bank for part in banks}
    for agent in agents:
        try:
            yield _back_up_agent(settings, agent, ids.get(agent.bank), packs, notes)
        except (InputError, PathRefusedError) as error:
            missing.append(f"the files of the agent {agent.id}: {error}")


def _back_up_agent(
    settings: Settings, agent: Agent, bank: str | None, packs: Packs, notes: list[str]
) -> AgentBackup:
    """Back up the settings and the files of an agent; each file is read consistently.

    The rules are those of an export: text and binary files are included, links are reported and
    never followed, likely secrets are omitted and named, also in the settings.
    """
    stored_settings, secrets = _stored_settings(agent)
    folder = agent.folder
    if folder is None:
        return write_agent(packs, agent.id, bank, (), lambda: AgentContents(said=stored_settings))
    rules = WorkspaceRules(binary=True)
    workspace = Workspace(folder, rules, without=frozenset(_memory_paths(settings)))

    def describe() -> AgentContents:
        return AgentContents(
            said=stored_settings,
            links={skipped.path: skipped.target for skipped in workspace.links},
            left={skipped.path: skipped.reason for skipped in workspace.left},
        )

    files = ((path, data) for path, data, _ in workspace.contents())
    part = write_agent(packs, agent.id, bank, files, describe)
    notes += _skipped_files(agent.id, workspace)
    notes += [f"the agent {agent.id}: {secrets:,} secrets in its settings replaced"][: secrets > 0]
    return part


def _skipped_files(identity: str, workspace: Workspace) -> Iterator[str]:
    """Yield notes on skipped files, a line for each reason, with some names."""
    for reason, number in sorted(workspace.counts.items()):
        if reason in _EXPECTED:
            continue
        names = [entry.path for entry in workspace.left if entry.reason == reason]
        names = names or [entry.path for entry in workspace.links]
        examples = ", ".join(names[:_MOST_AGENTS_NAMED])
        more = f" and {number - _MOST_AGENTS_NAMED:,} more" if number > _MOST_AGENTS_NAMED else ""
        yield f"the agent {identity}: not included: {examples}{more} ({reason})"


def _stored_settings(agent: Agent) -> tuple[dict[str, Any], int]:
    """Return the settings of an agent without secrets, and the number of secrets."""
    source = Source(
        provider="satchel",
        format="toml",
        container={"said": encode_foreign(table_of(agent))},
        at=now(),
    )
    clean, secrets = scrubbed(source)
    return cast("Source", clean).container["said"], len(secrets)


def _memory_paths(settings: Settings) -> Iterator[Path]:
    """Yield the paths of stores and backups, which are never files of an agent."""
    paths = [settings.home, settings.state]
    paths += [Path(path) for path in settings.options.backup.destinations if "://" not in path]
    store = local_path(settings.store)
    if store is not None:
        paths += [store.with_name(store.name + side) for side in _SIDES]
        paths += store.parent.glob(f"{store.name}*")
    yield from (path.expanduser().absolute().resolve() for path in paths)
