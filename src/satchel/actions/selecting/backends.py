"""The kinds of store by the names that people give them."""

from enum import StrEnum

from satchel.errors import ConfigError


class BackendChoice(StrEnum):
    """A kind of store."""

    SQLITE = "sqlite"
    GRAPH_DB = "graph-db"
    POSTGRES = "postgres"


_ALSO = {"kuzu": BackendChoice.GRAPH_DB}
"""Older names."""

_BY_SCHEME = {
    "ladybug": BackendChoice.GRAPH_DB,
    "postgresql": BackendChoice.POSTGRES,
    "sqlite": BackendChoice.SQLITE,
}
_SHOWN = 40


def backend_from(text: str, field: str) -> BackendChoice:
    """Return the kind of store that a person names.

    Args:
        text: ``sqlite``, ``graph-db``, ``postgres``; or ``kuzu``, which means ``graph-db``.
        field: The option, variable or key, for errors.

    Raises:
        ConfigError: If it is anything else: nothing is guessed, in whatever case it is written.
    """
    if text in _ALSO:
        return _ALSO[text]
    if text in set(BackendChoice):
        return BackendChoice(text)
    known = ", ".join([*BackendChoice, *_ALSO])
    raise ConfigError(
        f"unknown backend {text[:_SHOWN]!r}", field=field, hint=f"There are: {known}."
    )


def backend_of(address: str) -> BackendChoice | None:
    """Return the kind of store that an address names; None for one that is not known here."""
    scheme, found, _ = address.partition("://")
    return _BY_SCHEME.get(scheme) if found else BackendChoice.SQLITE
