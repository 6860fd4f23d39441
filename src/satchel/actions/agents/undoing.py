"""Taking an agent back that was imported: its memory, its files, and that it is configured."""

from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.agents.staging import Placed, take_back
from satchel.actions.agents.writing_config import say
from satchel.actions.config import Settings
from satchel.actions.importing.undoing import Progress, Undone, undo_import, undo_in
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.disk.contained import ContainedFolder
from satchel.errors import UnreadableError
from satchel.type_info import resolved

_FOLDER = ("agents", "imports")
_MOST = 1 << 26


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an import of an agent changed besides the bank."""

    agent: str
    bank: str
    before: dict[str, Any] | None = None
    """What the configuration said of the agent; None for nothing."""

    files: Placed = msgspec.field(default_factory=Placed)


def keep_record(settings: Settings, source: str, record: Record) -> None:
    """Remember what an import of an agent changes, before it does.

    Raises:
        TargetError: If it cannot be written.
    """
    with ContainedFolder(_folder(settings), create=True, private=True) as folder:
        folder.write(_name(source), msgspec.json.encode(record))


def undo(
    settings: Settings,
    bank: str | None,
    wanted: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
) -> Undone:
    """Take an import back; where it was that of an agent, its files and settings as well.

    Args and Raises: as ``undo_import``.
    """
    require_owner(settings, "undo")
    done = undo_import(settings, bank, wanted, reason=reason, dry_run=dry_run)
    return with_agent(settings, done)


def undo_agent_in(
    bank: OpenBank,
    wanted: str | None = None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Undone:
    """Take an import into an open bank back; see ``undo``."""
    require_owner(bank.settings, "undo")
    done = undo_in(bank, wanted, reason=reason, dry_run=dry_run, progress=progress)
    return with_agent(bank.settings, done)


def with_agent(settings: Settings, done: Undone) -> Undone:
    """Take back what an import changed besides the bank, where it was that of an agent.

    Raises:
        TargetError: If a file cannot be put back; it can be done again.
    """
    require_owner(settings, "undo")
    record = _record_of(settings, done.source)
    if record is None:
        return done
    if done.dry_run:
        return msgspec.structs.replace(done, agent=record.agent)
    stays = take_back(record.files)
    say(settings, record.agent, record.before)
    with ContainedFolder(_folder(settings), private=True) as folder:
        folder.remove(_name(done.source))
    return msgspec.structs.replace(done, agent=record.agent, stays=stays)


def _record_of(settings: Settings, source: str) -> Record | None:
    if not _folder(settings).is_dir():
        return None
    with ContainedFolder(_folder(settings), private=True) as folder:
        try:
            return msgspec.json.decode(
                folder.read(_name(source), limit=_MOST), type=resolved(Record)
            )
        except UnreadableError:
            return None


def _folder(settings: Settings) -> Path:
    return settings.home.joinpath(*_FOLDER)


def _name(source: str) -> str:
    return f"{source.removeprefix('blake3:')}.json"
