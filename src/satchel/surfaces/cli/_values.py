"""What completes the values of options in a shell."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from satchel.errors import SatchelError
from satchel.surfaces.cli._console import state


def values_of(kind: str) -> list[str]:
    """Return the values that a person may mean; none where the store or home cannot be read.

    Args:
        kind: ``bank``, ``format``, ``key``, ``destination``, or choices separated by ``|``.
    """
    list_values = _LISTED.get(kind)
    if list_values is None:
        return kind.split("|")
    if kind in _OWNERS and state.settings.token is not None:
        return []
    with suppress(SatchelError, OSError):
        return sorted(list_values())
    return []


def _banks() -> Iterable[str]:
    from satchel.actions.banks import list_banks

    return [bank.name for bank in list_banks(state.settings) if bank.name]


def _formats() -> Iterable[str]:
    from satchel.ports.registry import formats

    return list(formats)


def _keys() -> Iterable[str]:
    return state.settings.keyring.names()


def _destinations() -> Iterable[str]:
    return state.settings.options.backup.destinations


_LISTED: dict[str, Callable[[], Iterable[str]]] = {
    "bank": _banks,
    "format": _formats,
    "key": _keys,
    "destination": _destinations,
}

_OWNERS = {"bank", "key", "destination"}
"""What the holder of a token is not told."""
