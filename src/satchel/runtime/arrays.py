"""numpy, loaded on first use.

A plain import takes twice the processor time: OpenBLAS starts a thread for each further processor,
each of which spins for 2**26 cycles before it sleeps, and Python's cycle collector scans objects
that are never freed (docs/decisions/0113).
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

_PATIENCE, _LEAST = "OPENBLAS_THREAD_TIMEOUT", "4"
"""Logarithm of the cycles for which a thread of OpenBLAS spins; read once, on import."""

_lock = RLock()


def numpy() -> Any:
    """Return numpy, and leave the environment's settings of its threads unchanged.

    Raises:
        ImportError: If numpy is not installed.
    """
    if "numpy" not in sys.modules:
        with _lock, _frugal():
            import_module("numpy")
    return import_module("numpy")


@contextmanager
def _frugal() -> Iterator[None]:
    """Import libraries in the block with threads that sleep early, and without cycle collection."""
    collects, is_said = gc.isenabled(), _PATIENCE in os.environ
    gc.disable()
    if not is_said:
        os.environ[_PATIENCE] = _LEAST
    try:
        yield
    finally:
        if not is_said:
            os.environ.pop(_PATIENCE, None)
        if collects:
            gc.enable()
