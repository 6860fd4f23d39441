"""The names that agents may have where a path is made of one: amplihack's layout of files.

Nothing in such a name can lead out of a folder, hide a file, or mean something to a shell.
"""

import re

from satchel.errors import UsageError

PATTERN = r"[a-zA-Z0-9][a-zA-Z0-9_\-]{0,63}"
"""All that a name may be, from its first to its last character."""

_NAME = re.compile(PATTERN, re.ASCII)
_SHOWN = 80


def is_agent_name(text: str) -> bool:
    """Tell whether an agent may have a name."""
    return _NAME.fullmatch(text) is not None


def agent_name(text: str) -> str:
    """Return the name of an agent, before a path is made of it.

    Raises:
        UsageError: If no agent may have it.
    """
    if not is_agent_name(text):
        raise UsageError(
            f"not a valid agent name: {text[:_SHOWN]!r}",
            field="agent",
            hint="1 to 64 letters, digits, _ and -, the first a letter or a digit.",
        )
    return text
