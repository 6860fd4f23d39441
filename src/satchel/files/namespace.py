"""Where the store of a key is: ``{storage_root}/agents/memory-store/v0/{org}/.../{key}``."""

import os
import re
import secrets
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from satchel.errors import MemoryStoreError
from satchel.files.paths import key_checked

NAMESPACE = "agents/memory-store"
SCHEMA_VERSION = "v0"

SCHEMES = ("memory", "sqlite", "s3", "gs", "az")
"""Remote places; a path, or ``file://``, is a folder of this machine."""

_SCRATCH = re.compile(r"/+(?:rd|raw_data)/[^/]+/*$")
_ODD = re.compile(r"[\x00-\x1f\x7f]")


class Namespace(NamedTuple):
    """The folder that keys are in."""

    storage_root: str
    org: str
    project: str
    domain: str

    def path(self, key: str) -> str:
        """Return the place of a key's store."""
        return (
            f"{self.storage_root}/{NAMESPACE}/{SCHEMA_VERSION}/"
            f"{self.org}/{self.project}/{self.domain}/{key_checked(key)}"
        )

    def unnamed(self) -> str:
        """Return a place that nobody has, for a store without a key."""
        return f"{self.storage_root}/{NAMESPACE}/unnamed/{secrets.token_hex(16)}"


def namespace(
    org: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    storage_root: str | os.PathLike[str] | None = None,
) -> Namespace:
    """Return the folder that is meant; what is not said comes from the configuration.

    Raises:
        MemoryStoreError: If a part is no single plain name, or the root is no place.
        ConfigError: If the configuration is wrong.
    """
    said = (storage_root, org, project, domain)
    known = {} if all(one is not None for one in said) else _configured()
    root = known["storage_root"] if storage_root is None else os.fspath(storage_root)
    return Namespace(
        root_checked(root),
        key_checked(known["org"] if org is None else org, "org"),
        key_checked(known["project"] if project is None else project, "project"),
        key_checked(known["domain"] if domain is None else domain, "domain"),
    )


def root_checked(said: str) -> str:
    """Return a storage root, without the scratch folder of a run that it may end with.

    Raises:
        MemoryStoreError: If it is empty, relative to nothing known, or of an unknown scheme.
    """
    if not said or _ODD.search(said):
        raise MemoryStoreError(f"not a storage root: {said!r}", path="storage_root")
    scheme, separator, _ = said.partition("://")
    if separator and scheme not in {*SCHEMES, "file"}:
        raise MemoryStoreError(
            f"a storage root must be a path, or start with one of {', '.join(SCHEMES)} and ://",
            path="storage_root",
        )
    if ".." in re.split(r"[/\\]", said):
        raise MemoryStoreError("a storage root cannot contain '..'", path="storage_root")
    if not separator:
        said = str(Path(said).expanduser().absolute())
    return _SCRATCH.sub("", said).rstrip("/") or "/"


def folder_of(place: str) -> Path | None:
    """Return the folder that a place is on this machine; None for one elsewhere.

    Raises:
        MemoryStoreError: If it is no place.
    """
    if "://" not in place:
        return Path(place).expanduser().absolute()
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise MemoryStoreError(f"not a valid location: {error}", path="storage_root") from None
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise MemoryStoreError(
                "a file:// location must be on this machine", path="storage_root"
            )
        return Path(unquote(parts.path))
    if parts.scheme not in SCHEMES:
        raise MemoryStoreError(f"unknown scheme {parts.scheme}://", path="storage_root")
    return None


def _configured() -> dict[str, Any]:
    """Return what the person configured, which is read by a layer above this one.

    So by its name: a program that says nothing gets what the command line would give it.
    """
    settings = import_module("satchel.config.settings").load_settings()
    files = settings.options.files
    return {
        "storage_root": files.storage_root or str(settings.home / "files"),
        "org": files.org,
        "project": files.project,
        "domain": files.domain,
    }
