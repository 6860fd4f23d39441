"""Open file descriptors of this process."""

import os
from contextlib import suppress


def descriptors() -> set[tuple[str, str]]:
    """Return each open descriptor with its target.

    For ``descriptors() <= before``: what earlier tests left may be closed by the garbage collector
    meanwhile, so that their number tells nothing.
    """
    found = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, not paths
        with suppress(FileNotFoundError):  # the one that lists them
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))  # noqa: PTH115 - may be no path
    return found
