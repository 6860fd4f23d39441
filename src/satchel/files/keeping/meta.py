"""What is known of a memory file besides its text, and the sidecar that says it in the folder."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from satchel.files.keeping.manifest import FileRow

_FIELDS = ("path", "sha256", "updated_at", "updated_by", "reason", "bytes")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_SIDECAR = 1 << 20


@dataclass(frozen=True)
class MemoryMeta:
    """A memory file at one moment."""

    path: str
    sha256: str
    """Of its bytes, 64 lower-case hexadecimal digits."""

    updated_at: str
    """UTC, ISO 8601 with microseconds; later changes of a store have later times."""

    updated_by: str
    reason: str
    bytes: int
    version: int | None = field(default=None, compare=False)
    """The number of this state of the path, from 1; None where nobody counted."""

    @classmethod
    def of(cls, row: FileRow) -> "MemoryMeta":
        """Return what the manifest knows."""
        return cls(
            path=row.path,
            sha256=row.sha,
            updated_at=row.at,
            updated_by=row.actor,
            reason=row.reason,
            bytes=row.bytes,
            version=row.version,
        )


def sidecar(meta: MemoryMeta, before: bytes | None) -> bytes:
    """Return the sidecar of a file: the page's six fields, and what others wrote into it.

    Args:
        meta: What it says.
        before: The sidecar that there is; a damaged one is replaced.
    """
    other = {k: v for k, v in _read(before).items() if k not in _FIELDS}
    said = {name: getattr(meta, name) for name in _FIELDS}
    return json.dumps({**said, **other}, indent=2).encode()


def from_sidecar(data: bytes | None, path: str, sha: str) -> MemoryMeta | None:
    """Return what a sidecar says of a file; None unless it is of this very content."""
    found = _read(data)
    if found.get("path") != path or found.get("sha256") != sha:
        return None
    size = found.get("bytes")
    return MemoryMeta(
        path=path,
        sha256=sha,
        updated_at=str(found.get("updated_at", "")),
        updated_by=str(found.get("updated_by", "")),
        reason=str(found.get("reason", "")),
        bytes=size if isinstance(size, int) else 0,
    )


def _read(data: bytes | None) -> dict[str, Any]:
    if data is None or len(data) > _LARGEST_SIDECAR:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def moment(microseconds: int) -> str:
    """Return a time as it is written here; sorted as text they are sorted as times."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def version_name(at: str, sha: str) -> str:
    """Return the name of a version's file."""
    return f"{at.replace(':', '-')}_{sha}.txt"
