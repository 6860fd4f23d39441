"""Finding a store by its address: ``sqlite:///path/to/file.db``, or a plain path."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from satchel.errors import UsageError
from satchel.ports.store import Store

Opener = Callable[[str, bool], Store]
"""Opens the store at what comes after ``SCHEME://``, for reading only or not."""


def open_store(address: str, *, read_only: bool = False) -> Store:
    """Open the store at an address.

    Args:
        address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, or the path of a file.
        read_only: Whether nothing is going to be written.

    Raises:
        UsageError: If the address names no kind of store that is known here.
        StoreError: If it cannot be opened.
    """
    scheme, there = split_address(address)
    return _SCHEMES[scheme](there, read_only)


def split_address(address: str) -> tuple[str, str]:
    """Return the kind of store that an address names, and where it is.

    Raises:
        UsageError: If the kind is not known here.
    """
    if "://" not in address:
        return "sqlite", address
    parts = urlsplit(address)
    if parts.scheme not in _SCHEMES or parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"not the address of a store: {address}",
            field="store",
            hint="Write it as sqlite:///path/to/file.db; four slashes for an absolute path.",
        )
    return parts.scheme, unquote(parts.path.removeprefix("/"))


def local_path(address: str) -> Path | None:
    """Return the file that an address names; None for a store that is no file here."""
    return Path(split_address(address)[1]).expanduser()


def _sqlite(path: str, read_only: bool) -> Store:  # noqa: FBT001 - called by table only
    from satchel.stores.sqlite import SqliteStore

    return SqliteStore(Path(path).expanduser(), read_only=read_only)


_SCHEMES: dict[str, Opener] = {"sqlite": _sqlite}
