"""The MCP server: memory as tools, resources and prompts for agent hosts."""

from importlib.util import find_spec

from satchel.errors import MissingExtraError


def require_extra() -> None:
    """Require what the server needs besides.

    Raises:
        MissingExtraError: If it is not installed.
    """
    if find_spec("mcp") is None:
        raise MissingExtraError(
            "serving MCP needs its SDK", hint="Install it: pip install 'satchel[mcp]'"
        )
