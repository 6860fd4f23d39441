"""Digests of a folder, to detect changes."""

import hashlib
from pathlib import Path

NOT_DATA = ("-shm", ".lock", ".opening")
"""Suffixes of files without data: shared memory, and locks."""


def folder_state(folder: Path) -> dict[str, str]:
    """Return mode and digest of each file of a folder, and the modes of its folders, by name."""
    found = dict[str, str]()
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(NOT_DATA) or path.is_symlink():
            continue
        data = b"" if path.is_dir() else path.read_bytes()
        if path.name.endswith("-wal") and not data:
            continue
        mode = path.stat().st_mode
        found[str(path.relative_to(folder))] = f"{mode:o} {hashlib.sha256(data).hexdigest()}"
    return found
