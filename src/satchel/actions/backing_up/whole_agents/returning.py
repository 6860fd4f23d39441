"""What an agent is besides its memory, on its way back: its files, and that it is configured."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from blake3 import blake3

from satchel.actions.agents.agents import agent_of
from satchel.actions.agents.staging import Staging
from satchel.actions.agents.writing_config import say, table_of
from satchel.actions.backing_up.options import RestoreOptions
from satchel.actions.backing_up.restored import RestoredAgent
from satchel.actions.config import Settings
from satchel.actions.configured.sections import AgentSettings
from satchel.backup.folders import Told, files_of, told_of
from satchel.backup.manifests import AgentPart, Manifest
from satchel.backup.pieces.packs import Packs
from satchel.disk.contained import ContainedFolder
from satchel.errors import (
    InputError,
    PathRefusedError,
    TargetExistsError,
    UnknownAgentError,
    UsageError,
    VerificationError,
)
from satchel.memory.agent_names import is_agent_name
from satchel.seal.encoding.carry import restore
from satchel.type_info import resolved

_MOST_NAMED = 20


class _Plan(NamedTuple):
    """One agent, and where its files go."""

    part: AgentPart
    told: Told
    folder: Path | None
    """None for no files."""

    same: bool
    """Whether all of its files are there."""

    table: dict[str, object] | None
    """What the configuration is to say of it; None where it says something already."""


def agents_in(manifest: Manifest, wanted: Sequence[str]) -> list[AgentPart]:
    """Return the agents of a backup that are named.

    Raises:
        UnknownAgentError: If one is not in it.
    """
    known = {part.id: part for part in manifest.agents}
    for name in wanted:
        if name not in known:
            raise UnknownAgentError(
                f"the backup has no agent {name[:80]!r}",
                file=manifest.id,
                hint=f"It has: {', '.join(known) or 'none'}. See: satchel backup list.",
            )
    return [known[name] for name in dict.fromkeys(wanted)]


class AgentsBack:
    """Agents of one backup on their way back.

    All that can be refused is, when one is made: nothing is written then.

    Args:
        settings: The surroundings.
        parts: The agents.
        packs: Where they are kept.
        asked: What is asked of the restore.

    Raises:
        VerificationError: If something is not what was kept, or could not be that of an agent.
        EncryptionError: If nothing here opens it.
        TargetExistsError: If there are other files, and they are not to give way.
        UsageError: If several agents are to go into one folder.
    """

    def __init__(
        self, settings: Settings, parts: Sequence[AgentPart], packs: Packs, asked: RestoreOptions
    ) -> None:
        self._settings, self._packs, self._asked = settings, packs, asked
        if asked.workspace is not None and len(parts) != 1:
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
        """Put each back, and yield what became of it.

        Raises:
            TargetError: If something cannot be written; what was there is there then, or beside.
        """
        for plan in self._plans:
            part, told = plan.part, plan.told
            aside, notes = None, list(_notes(told))
            if plan.folder is not None and not plan.same and not self._asked.dry_run:
                with Staging(plan.folder) as staging:
                    for path, data in files_of(part, told, self._packs):
                        staging.lay(path, data)
                    aside = staging.put(merge=False).kept
            if plan.table is not None and not self._asked.dry_run:
                say(self._settings, part.id, plan.table)
            yield RestoredAgent(
                id=part.id,
                folder=None if plan.folder is None else str(plan.folder),
                files=part.files,
                same=plan.same,
                aside=aside,
                configured=plan.table is not None,
                notes=notes,
            )

    def _plan(self, part: AgentPart) -> _Plan:
        if not is_agent_name(part.id):
            raise VerificationError(f"the backup has an agent with an invalid ID: {part.id!r}")
        told = told_of(part, self._packs)
        known = self._settings.options.agents.get(part.id)
        configured = None if known is None else agent_of(part.id, known)
        said = self._asked.workspace
        folder = None if said is None else Path(said)
        if folder is None and configured is not None:
            folder = configured.folder
        if folder is None and told.files:
            folder = self._settings.home / "agents" / part.id / "workspace"
        folder = None if folder is None or not told.files else folder.expanduser().absolute()
        same = folder is not None and _has(folder, told)
        if (
            folder is not None
            and os.path.lexists(folder)
            and not same
            and not self._asked.overwrite
        ):
            raise TargetExistsError(
                f"the files of the agent {part.id} differ from those in the backup",
                file=str(folder),
                hint="To replace the folder (it is renamed, not deleted): --overwrite. To use "
                "another folder: --agent ID --workspace FOLDER. To restore no files: --no-files.",
            )
        return _Plan(part, told, folder, same, self._table(part, told, folder))

    def _table(self, part: AgentPart, told: Told, folder: Path | None) -> dict[str, object] | None:
        """Return what the configuration is to say of an agent that it does not have."""
        known = self._settings.options.agents.get(part.id)
        if known is not None or self._asked.workspace is not None:
            return None
        try:
            said = msgspec.convert(restore(told.said), resolved(AgentSettings))
        except (msgspec.ValidationError, InputError) as error:
            raise VerificationError(f"the settings of the agent {part.id}: {error}") from None
        place = None if folder is None else str(folder)
        return table_of(agent_of(part.id, msgspec.structs.replace(said, workspace=place)))


def _has(folder: Path, told: Told) -> bool:
    """Tell whether a folder has all files of an agent, as they were kept."""
    return not any(changed(folder, told))


def changed(folder: Path, told: Told) -> Iterator[str]:
    """Yield the paths of the files that are not in a folder as they were kept."""
    try:
        opened = ContainedFolder(folder)
    except (InputError, PathRefusedError):
        yield from (one.path for one in told.files)
        return
    with opened:
        for one in told.files:
            try:
                data = opened.read(one.path, limit=one.size)
            except (InputError, PathRefusedError):
                yield one.path
                continue
            if blake3(data).hexdigest() != one.digest:
                yield one.path


def _notes(told: Told) -> Iterator[str]:
    """Yield what somebody has to know who puts files back: what is not among them."""
    for path, reason in list(told.left.items())[:_MOST_NAMED]:
        if reason != "ignored":
            yield f"not in the backup: {path}: {reason}"
    for path, target in list(told.links.items())[:_MOST_NAMED]:
        yield f"not restored: the symbolic link {path}, which led to {target}"
