"""Files that hold a secret: read only where nobody else could have read or replaced it."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from satchel.errors import PathRefusedError


class Exposure(NamedTuple):
    """Why a file with a secret is refused."""

    problem: str
    command: str
    """What puts it right."""


def require_secret(path: Path, found: os.stat_result, what: str) -> None:
    """Refuse a file with a secret that others may know or replace.

    Args:
        path: The file.
        found: Its status, once it is open.
        what: What it holds, for a sentence.

    Raises:
        PathRefusedError: If they may.
    """
    exposed = exposure(path, found)
    if exposed is not None:
        raise PathRefusedError(
            f"{what} is not safe: {exposed.problem}",
            file=str(path),
            hint=f"If not, restrict it: {exposed.command}",
        )


def exposure(path: Path, found: os.stat_result | None = None) -> Exposure | None:
    """Return why others may know or replace the secret in a file; None where nobody can.

    Args:
        path: The file.
        found: Its status, where it is open; of the file at the path otherwise.

    Raises:
        OSError: If it cannot be looked at.
    """
    status = path.stat() if found is None else found
    if not stat.S_ISREG(status.st_mode):  # a pipe is its reader's alone
        return None
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), 0):
        return Exposure(f"another user owns it (user {status.st_uid})", f"chown $USER {path}")
    if mode & 0o077:
        return Exposure(f"others may read it (mode {mode:04o})", f"chmod 600 {path}")
    folder = path.absolute().parent
    above = folder.stat()
    if above.st_uid not in (os.geteuid(), 0):
        return Exposure(
            f"another user owns its folder (user {above.st_uid})", f"chown $USER {folder}"
        )
    mode = stat.S_IMODE(above.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return Exposure(f"others may replace it (folder of mode {mode:04o})", f"chmod 700 {folder}")
    return None
