"""Supported agent hosts, and the paths of their configuration files."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple


class Host(StrEnum):
    """An agent host."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    GEMINI = "gemini"


class HostPath(NamedTuple):
    """A configuration file of a host."""

    everywhere: str
    """The file for all projects, below the home directory."""

    project: str
    """The file for one project, below its folder."""


class HostConfig(NamedTuple):
    """Configuration files of a host: servers, hooks and skills."""

    servers: HostPath
    form: Literal["json", "toml"]
    table: str
    """The member with the servers by name."""

    skill: HostPath
    hooks: HostPath | None = None
    """JSON, with the events under ``hooks``; None for a host without."""

    hooks_of: str = "hooks/hooks.json"
    """The plugin's own file of hooks, in the form of this host."""


_SKILL = "skills/satchel/SKILL.md"

HOSTS = {
    Host.CLAUDE_CODE: HostConfig(
        HostPath(".claude.json", ".mcp.json"),
        "json",
        "mcpServers",
        HostPath(f".claude/{_SKILL}", f".claude/{_SKILL}"),
        HostPath(".claude/settings.json", ".claude/settings.json"),
    ),
    Host.CODEX: HostConfig(
        HostPath(".codex/config.toml", ".codex/config.toml"),
        "toml",
        "mcp_servers",
        HostPath(f".agents/{_SKILL}", f".agents/{_SKILL}"),
        HostPath(".codex/hooks.json", ".codex/hooks.json"),
    ),
    Host.CURSOR: HostConfig(
        HostPath(".cursor/mcp.json", ".cursor/mcp.json"),
        "json",
        "mcpServers",
        HostPath(f".cursor/{_SKILL}", f".cursor/{_SKILL}"),
        HostPath(".cursor/hooks.json", ".cursor/hooks.json"),
        "hooks/cursor.json",
    ),
    Host.GEMINI: HostConfig(
        HostPath(".gemini/settings.json", ".gemini/settings.json"),
        "json",
        "mcpServers",
        HostPath(f".gemini/{_SKILL}", f".gemini/{_SKILL}"),
    ),
}
"""By host. Source: the hosts' own documentation, 2026."""


class HostTranscripts(NamedTuple):
    """Where a host stores conversations, until it deletes them."""

    variable: str
    """Variable with its folder, instead of the default one."""

    folder: str
    """The default folder, below the home directory."""

    transcripts: tuple[str, ...]
    """Folders below it."""

    form: str
    """The format of transcripts."""

    memories: str
    """Pattern of the folders below it with memory files."""


KEPT = {
    Host.CLAUDE_CODE: HostTranscripts(
        "CLAUDE_CONFIG_DIR", ".claude", ("projects",), "claude_code", "projects/*/memory"
    ),
    Host.CODEX: HostTranscripts(
        "CODEX_HOME", ".codex", ("sessions", "archived_sessions"), "codex", "memories"
    ),
}
"""Folders of transcripts, by host."""


def path_of(host: Host, location: HostPath, project: Path | None) -> Path:
    """Return the path of a configuration file: of one project, or of all of a user's projects."""
    if project is not None:
        return project.resolve() / location.project
    path = Path.home() / location.everywhere
    moved = os.environ.get(KEPT[host].variable) if host in KEPT else None
    if moved and location.everywhere.startswith(KEPT[host].folder):
        # With another folder, files that are beside the default folder are in it.
        path = Path(moved) / location.everywhere.removeprefix(KEPT[host].folder + "/")
    return path.resolve()  # users keep such files elsewhere, and link to them
