"""The MCP server: memory as tools, resources and prompts for agent hosts."""

from importlib.util import find_spec

from satchel.errors import MissingExtraError


def has_extra() -> bool:
    """Return whether the packages of the server are installed."""
    return find_spec("mcp") is not None


def require_extra() -> None:
    """Require the packages of the server.

    Raises:
        MissingExtraError: If one is not installed.
    """
    if not has_extra():
        raise MissingExtraError(
            "serving MCP needs its SDK", hint="Install it: pip install 'satchel[server]'"
        )
