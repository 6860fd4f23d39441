"""Telling a host of this memory, and taking that back; all else in its files stays."""

import json
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.configured.toml_files import with_table
from satchel.actions.hosts.known import HOOKS, HOSTS, Host, Known, path_of
from satchel.actions.permitted.owning import require_owner
from satchel.disk.private import make_folders
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, target_error, writing
from satchel.errors import LimitError, MalformedError, UsageError

SERVER = "satchel"
"""What the server is called in a host's configuration."""

_MOST_BYTES = 64 << 20
_OURS = "hook session-"
_INDENT = 2


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a host is told."""

    bank: str | None = None
    """Whose memory is meant; the usual one when None."""

    project: Path | None = None
    """Only for the project in this folder; for all when None."""

    hooks: bool = False
    """Whether sessions begin with what is known, and end with what was learned being kept."""

    remove: bool = False
    dry_run: bool = False


class FileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a file of a host."""

    path: str
    changed: bool
    entry: dict[str, Any] | None = None
    """What it has of ours now; None for nothing."""

    backup: str | None = None
    """Where the file is as it was before."""


class Connected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host was told."""

    host: str
    files: list[FileChange]
    dry_run: bool = False


def connect_host(settings: Settings, host: Host, asked: ConnectOptions) -> Connected:
    """Tell a host of this memory, or take that back.

    Each file is written whole or not at all, and kept as it was beside it, once.

    Args:
        settings: The surroundings.
        host: Which.
        asked: What it is told.

    Raises:
        MalformedError: If one of its files cannot be read; nothing is changed then.
        UsageError: If a host has no hooks.
        TargetError: If a file cannot be written.
    """
    require_owner(settings, "connect")
    known = HOSTS[host]
    if asked.hooks and known.hooks is None:
        raise UsageError(
            f"{host} has no hooks for the start and the end of a session", field="hooks"
        )
    plans = [_servers(known, asked)]
    if known.hooks is not None and (asked.hooks or asked.remove):
        plans.append(_hooks(path_of(known.hooks, asked.project), asked))
    done = [plan() for plan in plans]
    return Connected(host=host.value, files=done, dry_run=asked.dry_run)


def _servers(known: Known, asked: ConnectOptions) -> Callable[[], FileChange]:
    """Read the file with the servers, and return what writes it."""
    path = path_of(known.servers, asked.project)
    words = [*command(), "mcp", *(["--bank", asked.bank] if asked.bank else [])]
    entry = None if asked.remove else {"command": words[0], "args": words[1:]}
    text = _text(path)
    if known.form == "toml":
        _toml(text, path)
        made = with_table(text, (known.table, SERVER), entry)
    else:
        value = _json(text, path)
        changed = _with_member(value, known.table, entry, path)
        made = text if changed == value else _dumped(changed)
    return _writer(path, (text, made), entry, asked)


def _hooks(path: Path, asked: ConnectOptions) -> Callable[[], FileChange]:
    text = _text(path)
    value = _json(text, path)
    changed = deepcopy(value)
    events = changed.setdefault("hooks", {})
    if not isinstance(events, dict):
        raise MalformedError("`hooks` is no object", file=str(path), field="hooks")
    for event, verb in HOOKS.items():
        there = events.get(event, [])
        kept = [one for one in there if not _is_ours(one)] if isinstance(there, list) else there
        if not asked.remove and isinstance(kept, list):
            words = [*command(), "hook", verb, *(["--agent", asked.bank] if asked.bank else [])]
            kept.append({"hooks": [{"type": "command", "command": shlex.join(words)}]})
        events[event] = kept
        if not kept:
            del events[event]
    if not events:
        del changed["hooks"]
    made = text if changed == value else _dumped(changed)
    entry = None if asked.remove else {event: f"hook {verb}" for event, verb in HOOKS.items()}
    return _writer(path, (text, made), entry, asked)


def command() -> list[str]:
    """Return how this program is started: whole, since a host may know no PATH of a shell's."""
    found = shutil.which("satchel")
    return [found] if found else [sys.executable, "-m", "satchel"]


def _is_ours(group: object) -> bool:
    inner = group.get("hooks", []) if isinstance(group, dict) else []
    said = [one.get("command") for one in inner if isinstance(one, dict)]
    return bool(said) and all(isinstance(one, str) and _OURS in one for one in said)


def _with_member(
    value: Mapping[str, Any], table: str, entry: dict[str, Any] | None, path: Path
) -> dict[str, Any]:
    changed = deepcopy(dict(value))
    servers = changed.setdefault(table, {})
    if not isinstance(servers, dict):
        raise MalformedError(f"`{table}` is no object", file=str(path), field=table)
    if entry is not None:
        servers[SERVER] = entry
    else:
        servers.pop(SERVER, None)
    if not servers and (table not in value or SERVER in value[table]):
        del changed[table]
    return changed


def _writer(
    path: Path, texts: tuple[str, str], entry: dict[str, Any] | None, asked: ConnectOptions
) -> Callable[[], FileChange]:
    """Return what writes a file; all are read before the first is written."""
    before, after = texts

    def write() -> FileChange:
        changed = before != after
        if asked.dry_run or not changed:
            return FileChange(path=str(path), changed=changed, entry=entry)
        backup = path.with_name(f"{path.name}.before-satchel")
        keeps = bool(before) and not backup.exists()
        make_folders(path.parent)
        if keeps:
            _write(backup, before, PRIVATE_FILE)
        _write(path, after, path.stat().st_mode & 0o777 if path.exists() else PRIVATE_FILE)
        kept = str(backup) if backup.exists() else None
        return FileChange(path=str(path), changed=True, entry=entry, backup=kept)

    return write


def _write(path: Path, text: str, mode: int) -> None:
    try:
        with writing(path, mode=mode) as file:
            file.write(text.encode())
    except OSError as error:
        raise target_error(path, error) from error


def _text(path: Path) -> str:
    if not path.exists():
        return ""
    with reading(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LimitError(f"at most {_MOST_BYTES:,} bytes are changed", file=str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=str(path), byte=error.start) from None


def _json(text: str, path: Path) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        hint = "It is left as it is. Comments have to go, or add the entry by hand."
        raise MalformedError("not JSON", file=str(path), line=line, hint=hint) from None
    if not isinstance(found, dict):
        raise MalformedError("not an object", file=str(path))
    return found


def _toml(text: str, path: Path) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"not TOML: {error}", file=str(path)) from None


def _dumped(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=_INDENT, ensure_ascii=False) + "\n"
