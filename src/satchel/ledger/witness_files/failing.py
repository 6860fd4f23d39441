"""What can go wrong with the files of a witness, in our words."""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from satchel.disk.writing import target_error
from satchel.errors import PathRefusedError, SatchelError, TargetError, WitnessError

_NOT_OURS_TO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM}


def is_shut(error: OSError | TargetError) -> bool:
    """Tell whether it is the medium that cannot be written, not the disk that fails."""
    cause = error.__cause__ if isinstance(error, TargetError) else error
    return isinstance(cause, OSError) and cause.errno in _NOT_OURS_TO_WRITE


def looking(path: Path) -> AbstractContextManager[None]:
    """Turn what can go wrong in a block that reads into a refusal that names the file."""
    return _Naming(path, _unreadable)


def changing(path: Path) -> AbstractContextManager[None]:
    """Turn what can go wrong in a block that writes into an error that names the file."""
    return _Naming(path, target_error)


class _Naming:
    """Names the file in our own errors, and refuses what is no witness of ours."""

    __slots__ = ("_say", "path")

    def __init__(self, path: Path, say: Callable[[Path, OSError], SatchelError]) -> None:
        self.path = path
        self._say = say

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PathRefusedError):
            raise WitnessError(error.message, file=error.file, hint=error.hint) from error
        if isinstance(error, SatchelError):
            error.located(file=str(self.path))  # and it goes on
        elif isinstance(error, OSError):
            raise self._say(self.path, error) from error


def _unreadable(path: Path, error: OSError) -> WitnessError:
    return WitnessError(
        f"cannot read: {error.strerror}", file=str(path), hint="Check its permissions."
    )
