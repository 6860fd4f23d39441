"""Opening what a person named, with an error that says what is wrong with it."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from satchel.errors import SatchelError, UnreadableError


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading, and name it in errors that escape.

    Raises:
        UnreadableError: If there is no such file, it is a directory, a pipe or a device, or
            permission is missing.
    """
    with open_regular(path) as stream:
        try:
            yield stream
        except SatchelError as error:
            raise error.located(file=str(path)) from error.__cause__
        except OSError as error:
            raise unreadable(path, error) from error


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; the caller closes it.

    Opened without blocking, so that a pipe laid in a file's place cannot hang the program.

    Raises:
        UnreadableError: As ``reading``.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise UnreadableError(f"not a file name: {error}", file=repr(str(path))) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise UnreadableError(f"this is {what}", file=str(path), hint="Name a file.")
    return os.fdopen(handle, "rb")


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """Return the error to raise when the system refuses to read ``path``."""
    hints = {
        FileNotFoundError: "Check the name.",
        PermissionError: "Check who may read it.",
    }
    return UnreadableError(
        f"cannot read: {error.strerror or error}", file=str(path), hint=hints.get(type(error))
    )
