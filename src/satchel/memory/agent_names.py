"""Names of agents: the only names from which a path is ever built.

Source: ``amplihack``'s own Python classes, whose Rust successor lets far more through.
"""

import re

from satchel.errors import UsageError

_ALLOWED = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_\-]{0,63}")
_SHOWN = 64


def require_agent_name(name: str) -> str:
    """Return a name from which a path may be built.

    Args:
        name: 1 to 64 ASCII letters, digits, ``_`` and ``-``; the first is a letter or a digit.

    Raises:
        UsageError: If it is any other text.
    """
    if _ALLOWED.fullmatch(name) is None:
        raise UsageError(
            f"not the name of an agent: {name[:_SHOWN]!r}",
            field="agent",
            hint="Up to 64 letters, digits, _ and -, beginning with a letter or a digit.",
        )
    return name
