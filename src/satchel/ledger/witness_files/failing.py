"""What can go wrong with the files of a witness, in our words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.disk.writing import target_error
from satchel.errors import PathRefusedError, SatchelError, TargetError, WitnessError

_NOT_OURS_TO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM}


def is_shut(error: OSError | TargetError) -> bool:
    """Tell whether it is the medium that cannot be written, not the disk that fails."""
    cause = error.__cause__ if isinstance(error, TargetError) else error
    return isinstance(cause, OSError) and cause.errno in _NOT_OURS_TO_WRITE


@contextmanager
def looking(path: Path) -> Iterator[None]:
    """Turn what can go wrong while reading into a refusal that names the file."""
    try:
        with _refusing(path):
            yield
    except OSError as error:
        raise WitnessError(
            f"cannot read: {error.strerror}", file=str(path), hint="Check who may read it."
        ) from error


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Turn what can go wrong while writing into an error that names the file."""
    try:
        with _refusing(path):
            yield
    except OSError as error:
        raise target_error(path, error) from error


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Name the file in our own errors, and refuse what is no witness of ours."""
    try:
        yield
    except PathRefusedError as error:
        raise WitnessError(error.message, file=error.file, hint=error.hint) from error
    except SatchelError as error:
        raise error.located(file=str(path)) from error.__cause__
