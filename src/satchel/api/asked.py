"""What callers of the Python API ask for, as the actions take it."""

from collections.abc import Mapping
from typing import Any

from satchel.actions.paths.permission import (
    Permission,
)

Options = Mapping[str, Any]


def known(verb: str, said: Any, arguments: Any) -> dict[str, Any]:
    """Return arguments, once it is clear that there are such: else they would become members."""
    for name in said:
        if name not in arguments.__optional_keys__:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")
    return dict(said)


def permission_of(options: dict[str, Any]) -> Permission:
    """Take what a call says of where its path may lead out of its arguments."""
    names = ("allowed_roots", "allow_uncontained")
    return Permission(**{name: options.pop(name) for name in names if name in options})
