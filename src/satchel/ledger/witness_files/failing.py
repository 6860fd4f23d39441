"""What can go wrong with the files of a witness, in our words."""

import errno
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
    return _Looking(path)


def changing(path: Path) -> AbstractContextManager[None]:
    """Turn what can go wrong in a block that writes into an error that names the file."""
    return _Changing(path)


class _Naming:
    """Names the file in our own errors, and refuses what is no witness of ours."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PathRefusedError):
            raise WitnessError(error.message, file=error.file, hint=error.hint) from error
        if isinstance(error, SatchelError):
            error.located(file=str(self.path))  # and it goes on
        elif isinstance(error, OSError):
            raise self.refused(error) from error

    def refused(self, error: OSError) -> SatchelError:
        """Return what to say instead of what the system says."""
        raise NotImplementedError


class _Looking(_Naming):
    __slots__ = ()

    def refused(self, error: OSError) -> SatchelError:
        return WitnessError(
            f"cannot read: {error.strerror}", file=str(self.path), hint="Check who may read it."
        )


class _Changing(_Naming):
    __slots__ = ()

    def refused(self, error: OSError) -> SatchelError:
        return target_error(self.path, error)
