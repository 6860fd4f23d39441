"""Paths of memory files, and the location of the store of a key."""

import fnmatch
import hashlib
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from satchel.errors import AccessDenied, MemoryStoreError

LONGEST_PART = 255
"""Most bytes of UTF-8 in one part of a path, the limit of file systems."""

LONGEST_PATH = 1_024
"""Most bytes of UTF-8 in a path."""

MOST_PARTS = 64

TRANSCRIPT = "messages.json"

OWN = "meta/.satchel"
"""Folder of the manifest, the lock and temporary files."""

_FOLDERS = frozenset({"audit", "meta", "versions"})
_RESERVED = _FOLDERS | {TRANSCRIPT}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LONGEST_SIDECAR = 250  # with ".json", the limit of file systems
_SHOWN = 200


def check_path(value: Any) -> str:
    """Return a normalized path: parts joined by one ``/``, in NFC.

    Raises:
        MemoryStoreError: If it is empty, absolute, too long, or has a part ``..`` or a forbidden
            character.
    """
    if isinstance(value, PurePosixPath):
        value = str(value)
    if not isinstance(value, str):
        raise MemoryStoreError(f"a path must be text, not {type(value).__name__}")
    if value.startswith("/"):
        raise MemoryStoreError("a path must be relative", path=_shown(value))
    parts = [part for part in value.split("/") if part not in {"", "."}]
    if not parts:
        raise MemoryStoreError("Empty path", path=_shown(value))
    if ".." in parts:
        raise MemoryStoreError("path traversal: a part is '..'", path=_shown(value))
    for part in parts:
        _check_part(part, value)
    path = unicodedata.normalize("NFC", "/".join(parts))
    parts = path.split("/")
    if len(path.encode()) > LONGEST_PATH:
        raise MemoryStoreError(
            f"a path can have at most {LONGEST_PATH:,} bytes", path=_shown(value)
        )
    if max(len(part.encode()) for part in parts) > LONGEST_PART:
        raise MemoryStoreError(
            f"a path segment can have at most {LONGEST_PART} bytes", path=_shown(value)
        )
    if len(parts) > MOST_PARTS:
        raise MemoryStoreError(f"a path can have at most {MOST_PARTS} segments", path=_shown(value))
    return path


def check_public_path(value: Any) -> str:
    """Return a normalized path that is not reserved.

    Raises:
        MemoryStoreError: As ``check_path``.
        AccessDenied: If it is the transcript, or in a reserved folder.
    """
    path = check_path(value)
    if is_reserved(path):
        hint = "Change messages with append() and extend()." if path == TRANSCRIPT else None
        raise AccessDenied(f"{_shown(path)} is reserved for the store", path=path, hint=hint)
    return path


def is_reserved(path: str) -> bool:
    """Return whether the first part of a path is reserved, in any case of letters."""
    return _folded(path.split("/", 1)[0]) in _RESERVED


def is_own(name: str) -> bool:
    """Return whether a name is exactly a reserved one."""
    return name in _RESERVED


def prefix_of(value: Any) -> str:
    """Return the normalized path of a folder; empty for the store itself.

    Raises:
        MemoryStoreError: As ``check_path``.
    """
    if isinstance(value, str) and value in {"", "."}:
        return ""
    return check_path(value)


class Prefixes:
    """Folders and files that direct writes may not change.

    They are compared by part and ignoring case: ``memory/`` covers ``Memory/x`` and ``memory``, but
    not ``memory2``.

    Args:
        prefixes: The prefixes; a string is one prefix.

    Raises:
        MemoryStoreError: If one is absolute, empty, or not a path.
    """

    def __init__(self, prefixes: Iterable[str] | str) -> None:
        prefixes = (prefixes,) if isinstance(prefixes, str) else tuple(prefixes)
        self.paths = tuple(dict.fromkeys(check_path(prefix) for prefix in prefixes))
        self._parts = [tuple(map(_folded, path.split("/"))) for path in self.paths]

    def refuse(self, path: str) -> None:
        """Require that a path is in none of them.

        Raises:
            AccessDenied: If it is; the error names the prefix.
        """
        parts = tuple(map(_folded, path.split("/")))
        for prefix, spelled in zip(self._parts, self.paths, strict=True):
            if parts[: len(prefix)] == prefix:
                raise AccessDenied(
                    f"{spelled}/ is read-only",
                    path=path,
                    hint="Write a proposal elsewhere, and promote it: satchel file promote.",
                )

    def holds_some(self, folder: str) -> bool:
        """Return whether a folder contains one of them, or is in one."""
        parts = tuple(map(_folded, folder.split("/")))
        return any(
            parts[: len(prefix)] == prefix[: len(parts)] or parts == prefix[: len(parts)]
            for prefix in self._parts
        )


def encoded(path: str) -> str:
    """Return the name of a path in ``meta/`` and ``versions/``, without a suffix.

    As in Flyte, it is the whole path in one name; if that is too long, the digest of the path after
    a character that no such name starts with.
    """
    name = quote(path, safe="")
    if len(name) > _LONGEST_SIDECAR:
        return "%" + hashlib.sha256(path.encode()).hexdigest()
    return name


def decoded(name: str) -> str | None:
    """Return the path of a name of ``encoded``; None if it is a digest."""
    return None if len(name) == 65 and name[0] == "%" else unquote(name)  # noqa: PLR2004


def key_checked(value: Any, label: str = "key") -> str:
    """Return one part of a store's place, validated.

    Raises:
        MemoryStoreError: If it is not a plain name.
    """
    if not isinstance(value, str):
        raise MemoryStoreError(f"a {label} must be text, not {type(value).__name__}", path=label)
    if value in {"", ".", ".."} or "/" in value or "\\" in value:
        raise MemoryStoreError(
            f"{label} must be a single path segment, got {value[:_SHOWN]!r}"
            if value
            else f"{label} must not be empty",
            path=label,
        )
    if value.strip() != value:
        raise MemoryStoreError(
            f"a {label} must not begin or end with a space: {value[:_SHOWN]!r}", path=label
        )
    _check_part(value, value)
    if len(value.encode()) > LONGEST_PART:
        raise MemoryStoreError(f"a {label} can have at most {LONGEST_PART} bytes", path=label)
    return unicodedata.normalize("NFC", value)


def _check_part(part: str, value: str) -> None:
    for sign in part:
        if sign == "\\" or (not sign.isalnum() and unicodedata.category(sign) in _INVISIBLE):
            raise MemoryStoreError(
                f"a path cannot contain the character U+{ord(sign):04X}", path=_shown(value)
            )


def _folded(part: str) -> str:
    return unicodedata.normalize("NFC", part.casefold())


def _shown(path: str) -> str:
    return ascii(path[:_SHOWN])[1:-1]


_Parts = list[re.Pattern[str] | None]


def fitting(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for paths that match a pattern, in time linear in the path."""
    if not pattern or len(pattern) > 1_000:  # noqa: PLR2004
        raise MemoryStoreError("a pattern must be text of at most 1,000 characters")
    parts = [part for part in pattern.split("/") if part]
    if parts.count("**") > 4 or any(part.count("*") > 4 for part in parts):  # noqa: PLR2004
        raise MemoryStoreError("a pattern can have at most four stars in a segment, and four '**'")
    each: _Parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def fits(path: str) -> bool:
        names = path.split("/")
        reached = {0}
        for name in names:
            following: set[int] = set()
            for at in reached:
                following |= _step(each, at, name)
            reached = following
        return len(each) in _skipped(each, reached)

    return fits


def _step(each: _Parts, at: int, name: str) -> set[int]:
    """Return the reachable positions in a pattern after one more part of a path."""
    reachable = set()
    while at < len(each) and each[at] is None:
        reachable.add(at)  # matched by the stars
        at += 1
    here = each[at] if at < len(each) else None
    if here is not None and here.match(name):
        reachable.add(at + 1)
    return reachable


def _skipped(each: _Parts, reached: set[int]) -> set[int]:
    reachable = set(reached)
    for start in reached:
        at = start
        while at < len(each) and each[at] is None:
            at += 1
            reachable.add(at)
    return reachable


NAMESPACE = "agents/memory-store"
SCHEMA_VERSION = "v0"

SCHEMES = ("memory", "sqlite", "s3", "gs", "az")
"""Schemes of remote places; a path, or ``file://``, is a local folder."""

_SCRATCH = re.compile(r"/+(?:rd|raw_data)/[^/]+/*$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Namespace(NamedTuple):
    """The folder of keys."""

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
        """Return a unique place, for a store without a key."""
        return f"{self.storage_root}/{NAMESPACE}/unnamed/{secrets.token_hex(16)}"


def namespace(
    org: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    storage_root: str | os.PathLike[str] | None = None,
) -> Namespace:
    """Return the folder of keys; missing parts come from the configuration.

    Raises:
        MemoryStoreError: If a part is not a plain name, or the root is not a place.
        ConfigError: If the configuration is not valid.
    """
    parts = (storage_root, org, project, domain)
    known = {} if all(one is not None for one in parts) else _configured()
    root = known["storage_root"] if storage_root is None else os.fspath(storage_root)
    return Namespace(
        root_checked(root),
        key_checked(known["org"] if org is None else org, "org"),
        key_checked(known["project"] if project is None else project, "project"),
        key_checked(known["domain"] if domain is None else domain, "domain"),
    )


def root_checked(root: str) -> str:
    """Return a storage root, without a trailing scratch folder of a run.

    Raises:
        MemoryStoreError: If it is empty, has ``..``, or an unknown scheme.
    """
    if not root or _CONTROL.search(root):
        raise MemoryStoreError(f"not a storage root: {root!r}", path="storage_root")
    scheme, separator, _ = root.partition("://")
    if separator and scheme not in {*SCHEMES, "file"}:
        raise MemoryStoreError(
            f"a storage root must be a path, or start with one of {', '.join(SCHEMES)} and ://",
            path="storage_root",
        )
    if ".." in re.split(r"[/\\]", root):
        raise MemoryStoreError("a storage root cannot contain '..'", path="storage_root")
    if not separator:
        root = str(Path(root).expanduser().absolute())
    return _SCRATCH.sub("", root).rstrip("/") or "/"


def folder_of(address: str) -> Path | None:
    """Return the local folder of a place; None for a remote one.

    Raises:
        MemoryStoreError: If it is not a place.
    """
    if "://" not in address:
        return Path(address).expanduser().absolute()
    try:
        parts = urlsplit(address)
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
    """Return the configured parts, read by a higher layer.

    That layer is imported by name, so that programs get the same defaults as the command line.
    """
    settings = import_module("satchel.config.settings").load_settings()
    files = settings.options.files
    return {
        "storage_root": files.storage_root or str(settings.home / "files"),
        "org": files.org,
        "project": files.project,
        "domain": files.domain,
    }
