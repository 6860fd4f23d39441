"""``satchel connect``: add Satchel to the configuration of an agent host, or remove it.

Everything else in the host's files is kept. The entries are those of the plugin, the folder beside
this module, which a host can also load itself: the MCP server, hooks for the start and the end of a
session, and a skill.
"""

import json
import re
import shlex
import shutil
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from difflib import unified_diff
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from satchel.bank.connections import configured_store, has_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import bank_exists, default_bank
from satchel.config.files import with_table
from satchel.config.settings import Settings, invocation
from satchel.errors import ContainmentError, LimitError, MalformedError, UsageError
from satchel.ports.operations import Option, Options, PathText, operation
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input, target_error
from satchel.runtime.private_files import make_folders
from satchel.setup.hosts import HOSTS, Host, HostConfig, HostPath, path_of

_MOST_BYTES = 64 << 20
_INDENT = re.compile(r"\s*\{\r?\n([ \t]+)\S")
_USUAL_INDENT = "  "
_LINKED = (
    "Replace the link with a regular file or folder of the project, or drop --project to connect "
    "all projects."
)

Parse = Callable[[str, Path], dict[str, Any]]


class HostFile(NamedTuple):
    """A file of a host."""

    path: Path
    text: str | None
    """None if it does not exist."""

    project: Path | None = None
    """The project's folder, which it may not lead out of; None for a user's file."""

    @property
    def backup(self) -> Path:
        """Path of its backup."""
        return self.path.with_name(f"{self.path.name}.before-satchel")

    def restored_text(
        self, value: Mapping[str, Any], parse: Parse, text: str, bare: Mapping[str, Any]
    ) -> str | None:
        """Return the text of the file after the removal of the additions.

        It is the backup, byte for byte, unless the file was changed by others since.

        Args:
            value: The value after the removal.
            parse: Parses the file.
            text: The text of that value.
            bare: The value without members that such a file always has.
        """
        before = read_host_file(self.backup, self.project).text
        if before is not None:
            was = _filled(parse(before, self.backup))
            if was in (_filled(value), _filled(bare)):
                return before
        return text if bare or before is not None else None

    def write(self, text: str | None, *, keeps: bool) -> Path | None:
        """Write or delete the file atomically, and return the path of its backup.

        Args:
            text: The new text; None to delete it.
            keeps: Whether to back up the present file.

        Raises:
            TargetError: If it cannot be written; it is unchanged then.
        """
        require_inside(self.path, self.project)
        require_inside(self.backup, self.project)
        make_folders(self.path.parent)
        if keeps and self.text is not None:
            _write(self.backup, self.text, PRIVATE_FILE)
        if text is None:
            _remove(self.path)
        else:
            exists = self.path.exists()
            _write(self.path, text, self.path.stat().st_mode & 0o777 if exists else PRIVATE_FILE)
        if read_host_file(self.backup, self.project).text == (text or ""):
            _remove(self.backup)  # restored
        return self.backup if self.backup.exists() else None


def read_host_file(path: Path, project: Path | None = None) -> HostFile:
    """Read a file of a host.

    Args:
        path: The file.
        project: The project's folder, which it may not lead out of.

    Raises:
        ContainmentError: If a part of the path is a link out of the project.
        LimitError: If it is too large.
        MalformedError: If it is not text.
        UnreadableError: If it cannot be read.
    """
    require_inside(path, project)
    if not path.exists():
        return HostFile(path, None, project)
    with open_input(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LimitError(f"a file can have at most {_MOST_BYTES:,} bytes", file=str(path))
    try:
        return HostFile(path, data.decode(), project)
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=str(path), byte=error.start) from None


def require_inside(path: Path, project: Path | None) -> None:
    """Require that no part of a path below a project's folder is a link.

    An untrusted project may have a link to a configuration file of all projects, or of another
    program. A hard link counts as well: the same file may have another name elsewhere.

    Raises:
        ContainmentError: If there is one, which is named.
    """
    if project is None:
        return
    step = project
    for part in path.relative_to(project).parts:
        step /= part
        try:
            seen = step.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise target_error(step, error) from error
        if stat.S_ISLNK(seen.st_mode):
            raise ContainmentError(
                "a symbolic link points outside the project", file=str(step), hint=_LINKED
            )
        if step == path and stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
            raise ContainmentError(
                "the file has another hard link, which may be outside the project",
                file=str(step),
                hint=_LINKED,
            )


def json_of(text: str, path: Path) -> dict[str, Any]:
    """Parse a JSON file; an empty file is an empty object.

    Raises:
        MalformedError: If it is not a JSON object.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        hint = "Nothing was changed. Remove the comments, or add the entry by hand."
        raise MalformedError("not JSON", file=str(path), line=line, hint=hint) from None
    if not isinstance(value, dict):
        raise MalformedError("not an object", file=str(path))
    return value


def toml_of(text: str, path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        MalformedError: If it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"not TOML: {error}", file=str(path)) from None


def dumped(value: Mapping[str, Any], like: str | None) -> str:
    """Return JSON with the indentation of another text."""
    indent = _INDENT.match(like or "")
    text = json.dumps(value, indent=indent[1] if indent else _USUAL_INDENT, ensure_ascii=False)
    return text if like and not like.endswith("\n") else text + "\n"


def _filled(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value without empty tables."""
    return {name: member for name, member in value.items() if member != {}}


def _write(path: Path, text: str, mode: int) -> None:
    try:
        with atomic_write(path, mode=mode) as file:
            file.write(text.encode())
    except OSError as error:
        raise target_error(path, error) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise target_error(path, error) from error


SERVER = "satchel"
"""Name of the server in a host's configuration."""

PLUGIN = files("satchel.setup") / "plugin"
"""The installed plugin."""

_OURS = "hook session-"
_SKILL = "skills/satchel/SKILL.md"


def _known_host(value: str) -> str:
    if value not in set(Host):
        known = ", ".join(Host)
        raise UsageError(f"unknown host {value!r}", field="host", hint=f"Choose from: {known}.")
    return value


@dataclass(frozen=True, slots=True)
class ConnectOptions(Options):
    """Which host to connect, and how."""

    host: Annotated[
        str,
        Option(
            f"Agent host: {', '.join(Host)}.",
            argument=True,
            parse=_known_host,
            values="|".join(Host),
        ),
    ]
    _: KW_ONLY
    bank: Annotated[
        str | None,
        Option("Bank that the host uses. Default: the default bank as it is now.", values="bank"),
    ] = None
    project: Annotated[
        PathText | None,
        Option("Only for the project in this folder. Default: for all projects.", metavar="FOLDER"),
    ] = None
    hooks: Annotated[
        bool,
        Option("Add hooks: sessions start with relevant memories, and their findings are stored."),
    ] = False
    plugin: Annotated[
        bool, Option("Add the whole plugin: the hooks, and a skill that guides the agent.")
    ] = False
    remove: Annotated[bool, Option("Remove what was added.")] = False
    dry_run: Annotated[bool, Option("Print the changes as a diff, and change nothing.")] = False


class HostFileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for a file of a host."""

    path: str
    changed: bool
    entry: dict[str, Any] | None = None
    """Our entries in it; None if there are none."""

    backup: str | None = None
    """Path of the backup."""

    diff: str | None = None
    """In a dry run, the change as a unified diff."""


class ConnectResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of connecting a host."""

    host: str
    files: list[HostFileChange]
    dry_run: bool = False


@operation(
    ConnectOptions,
    name="connect",
    example="satchel connect claude-code --plugin --dry-run",
    absent={
        "python": "It changes the configuration of programs on this machine.",
        "http": "It changes the configuration of programs on this machine.",
        "mcp": "A person decides which programs use the memory.",
    },
)
def connect(settings: Settings, options: ConnectOptions) -> ConnectResult:
    """Add Satchel's MCP server to an agent host's configuration.

    The entry and the hooks name this home, store and configuration, and the default bank if one was
    chosen: a later `satchel bank use` does not move the agent's memory. Everything else in the
    host's files stays; each file is backed up beside it, and is restored by `--remove`. Restart the
    host afterwards.

    Args:
        settings: The settings.
        options: Which host, and how.

    Raises:
        MalformedError: If one of its files cannot be read; nothing is changed then.
        UsageError: If a host has no hooks.
        ContainmentError: If a link leads one of them out of the project; nothing is changed then.
        TargetError: If a file cannot be written.
    """
    require_owner(settings, "connect")
    host = Host(options.host)
    known = HOSTS[host]
    if options.hooks and known.hooks is None:
        raise UsageError(
            f"{host} has no hooks for the start and the end of a session", field="hooks"
        )
    bank = None if options.remove else options.bank or _default_bank(settings)
    plans = [_servers(settings, _host_file(host, known.servers, options), known, options, bank)]
    if known.hooks is not None and (options.hooks or options.plugin or options.remove):
        file = _host_file(host, known.hooks, options)
        plans.append(_hooks(settings, file, known.hooks_of, options, bank))
    if options.plugin or options.remove:
        plans.append(_skill(_host_file(host, known.skill, options), options))
    done = [plan() for plan in plans]  # read all files before the first write
    return ConnectResult(host=host.value, files=done, dry_run=options.dry_run)


def _host_file(host: Host, location: HostPath, options: ConnectOptions) -> HostFile:
    project = None if options.project is None else Path(options.project)
    path = path_of(host, location, project)
    file = read_host_file(path, None if project is None else project.resolve())
    require_inside(file.backup, file.project)
    return file


def command() -> list[str]:
    """Return the command of this program with full paths, as a host may have no shell's PATH."""
    program = shutil.which("satchel")
    return [program] if program else [sys.executable, "-m", "satchel"]


def _servers(
    settings: Settings, file: HostFile, known: HostConfig, options: ConnectOptions, bank: str | None
) -> Callable[[], HostFileChange]:
    """Return the change of the file with the servers."""
    text = file.text or ""
    parse = toml_of if known.form == "toml" else json_of
    value = parse(text, file.path)
    without = _with_member(value, known.table, None, file.path)
    entry = None
    if not options.remove:
        server = _plugin(".mcp.json")["mcpServers"][SERVER]
        more = ["--bank", bank] if bank else []
        words = invocation(settings, [*server["args"], *more], command())
        entry = {"command": words[0], "args": words[1:]}
    changed = _with_member(value, known.table, entry, file.path)
    if changed == value:
        changed_text = text
    elif known.form == "toml":
        changed_text = with_table(text, (known.table, SERVER), entry)
    else:
        changed_text = dumped(changed, file.text)
    result: str | None = changed_text
    if options.remove and changed != value:
        result = file.restored_text(without, parse, changed_text, without)
    return _writer(file, result, entry, options, is_first=without == value)


def _default_bank(settings: Settings) -> str | None:
    """Return the ID of the default bank if it was chosen, so that a later choice does not move it.

    A bank of the environment is part of the command anyway; one of the configuration is read there.
    """
    chosen = None if settings.options.store.bank else default_bank(settings)
    if chosen is None or not has_store(settings):
        return None
    with configured_store(settings, read_only=True) as store, store.reading() as reader:
        return chosen if bank_exists(reader, chosen) else None


def _hooks(
    settings: Settings, file: HostFile, hooks_of: str, options: ConnectOptions, bank: str | None
) -> Callable[[], HostFileChange]:
    """Return the change of the file with the hooks."""
    value = json_of(file.text or "", file.path)
    ours = _plugin(hooks_of)
    without = _without_hooks(value, file.path)
    changed = without
    if not options.remove:
        changed = {**{name: ours[name] for name in ours if name != "hooks"}, **deepcopy(without)}
        events = changed.setdefault("hooks", {})
        for event, groups in ours["hooks"].items():
            additions = [_localized_hook(settings, group, bank) for group in groups]
            events[event] = [*events.get(event, []), *additions]
    changed_text = (file.text or "") if changed == value else dumped(changed, file.text)
    result: str | None = changed_text
    if options.remove and changed != value:
        bare = {key: member for key, member in without.items() if member != ours.get(key)}
        result = file.restored_text(without, json_of, changed_text, bare)
    entry = None if options.remove else dict(changed["hooks"])
    return _writer(file, result, entry, options, is_first=without == value)


def _skill(file: HostFile, options: ConnectOptions) -> Callable[[], HostFileChange]:
    """Return the change of the skill file; an edited one is not removed."""
    ours = (PLUGIN / _SKILL).read_text("utf-8")
    if not options.remove:
        entry = {"skill": SERVER}
        return _writer(file, ours, entry, options, is_first=file.text != ours)
    text = read_host_file(file.backup, file.project).text if file.text == ours else file.text
    return _writer(file, text, None, options, is_first=False)


def _writer(
    file: HostFile,
    text: str | None,
    entry: dict[str, Any] | None,
    options: ConnectOptions,
    *,
    is_first: bool,
) -> Callable[[], HostFileChange]:
    """Return the change of a file, which is backed up if it has no entries of ours yet."""

    def write() -> HostFileChange:
        exists = file.text is not None
        changed = (text if exists else text or None) != file.text
        if options.dry_run or not changed:
            diff = _diff(file, text) if changed else None
            return HostFileChange(path=str(file.path), changed=changed, entry=entry, diff=diff)
        copy = file.write(text, keeps=is_first)
        backup = str(copy) if copy else None
        return HostFileChange(path=str(file.path), changed=True, entry=entry, backup=backup)

    return write


def _diff(file: HostFile, text: str | None) -> str:
    """Return a change of a file as a unified diff."""
    before = (file.text or "").splitlines(keepends=True)
    after = (text or "").splitlines(keepends=True)
    name = str(file.path)
    old = name if file.text is not None else "/dev/null"
    new = name if text is not None else "/dev/null"
    lines = unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _plugin(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((PLUGIN / name).read_bytes())
    return value


def _localized_hook(settings: Settings, group: dict[str, Any], bank: str | None) -> dict[str, Any]:
    """Return a hook of the plugin with the command of this machine."""
    hook = deepcopy(group)
    for entry in hook.get("hooks", [hook]):
        words = shlex.split(entry["command"])[1:]
        more = ["--bank", bank] if bank else []
        entry["command"] = shlex.join(invocation(settings, [*words, *more], command()))
    return hook


def _without_hooks(value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    changed = deepcopy(dict(value))
    events = changed.get("hooks", {})
    if not isinstance(events, dict):
        raise MalformedError("`hooks` is not an object", file=str(path), field="hooks")
    is_changed = False
    for event, groups in list(events.items()):
        if not isinstance(groups, list):
            continue
        others = [group for group in groups if not _is_ours(group)]
        is_changed = is_changed or others != groups
        if others != groups:
            events[event] = others
            if not others:
                del events[event]
    if is_changed and not events:
        del changed["hooks"]
    return changed


def _is_ours(group: object) -> bool:
    inner = group.get("hooks", [group]) if isinstance(group, dict) else []
    commands = [entry.get("command") for entry in inner if isinstance(entry, dict)]
    return bool(commands) and all(isinstance(entry, str) and _OURS in entry for entry in commands)


def _with_member(
    value: Mapping[str, Any], table: str, entry: dict[str, Any] | None, path: Path
) -> dict[str, Any]:
    changed = deepcopy(dict(value))
    servers = changed.setdefault(table, {})
    if not isinstance(servers, dict):
        raise MalformedError(f"`{table}` is not an object", file=str(path), field=table)
    if entry is not None:
        servers[SERVER] = entry
    else:
        servers.pop(SERVER, None)
    if not servers and (table not in value or SERVER in value[table]):
        del changed[table]
    return changed
