"""Arguments of calls that no operation declares yet."""

from typing import Any


def known(verb: str, said: Any, arguments: Any) -> dict[str, Any]:
    """Return arguments, once it is clear that there are such: else they would become members."""
    for name in said:
        if name not in arguments.__optional_keys__:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")
    return dict(said)
