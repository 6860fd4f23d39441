"""The hosts that are known, and where each keeps what it is told."""

from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple


class Host(StrEnum):
    """A program that runs agents."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    GEMINI = "gemini"


class Place(NamedTuple):
    """Where something is told to a host."""

    everywhere: str
    """The file for all projects, below the home directory."""

    project: str
    """That of one project, below its folder."""


class Known(NamedTuple):
    """How a host is told of servers and hooks."""

    servers: Place
    form: Literal["json", "toml"]
    table: str
    """The member that has the servers by name."""

    hooks: Place | None = None
    """JSON, with the events under ``hooks``; None for a host without."""


HOSTS = {
    Host.CLAUDE_CODE: Known(
        Place(".claude.json", ".mcp.json"),
        "json",
        "mcpServers",
        Place(".claude/settings.json", ".claude/settings.json"),
    ),
    Host.CODEX: Known(Place(".codex/config.toml", ".codex/config.toml"), "toml", "mcp_servers"),
    Host.CURSOR: Known(Place(".cursor/mcp.json", ".cursor/mcp.json"), "json", "mcpServers"),
    Host.GEMINI: Known(
        Place(".gemini/settings.json", ".gemini/settings.json"), "json", "mcpServers"
    ),
}
"""By host. Source: the hosts' own documentation, 2026."""


class Kept(NamedTuple):
    """What a host keeps of conversations, until it deletes it."""

    variable: str
    """Names its folder, in place of the usual one."""

    folder: str
    """The usual one, below the home directory."""

    transcripts: tuple[str, ...]
    """Folders below it."""

    form: str
    """The format of transcripts."""

    memories: str
    """Which folders below it are memory, as a pattern."""


KEPT = {
    Host.CLAUDE_CODE: Kept(
        "CLAUDE_CONFIG_DIR", ".claude", ("projects",), "claude_code", "projects/*/memory"
    ),
    Host.CODEX: Kept(
        "CODEX_HOME", ".codex", ("sessions", "archived_sessions"), "codex", "memories"
    ),
}
"""By host, where transcripts are."""

HOOKS = {"SessionStart": "session-start", "Stop": "session-stop"}
"""By event, the verb of ``satchel hook`` that it runs."""


def path_of(place: Place, project: Path | None) -> Path:
    """Return the file of a place: of one project, or of everything this person does."""
    found = Path.home() / place.everywhere if project is None else project / place.project
    return found.resolve()  # people keep such files elsewhere, and link to them
