"""Members of rows of other products, which may hold anything."""

from collections.abc import Mapping
from typing import Any

from satchel.errors import MalformedError


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Return a member that has to be a text.

    Raises:
        MalformedError: If it is none.
    """
    part = row.get(name)
    if type(part) is not str:
        problem = "is missing" if name not in row else "is not text"
        raise MalformedError(f"`{name}` {problem}", field=name)
    return part
