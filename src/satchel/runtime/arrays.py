"""numpy, loaded when it is first needed.

Loaded as it comes, it takes twice the processor time: OpenBLAS starts a thread for each further
processor, each of which spins for 2**26 cycles before it sleeps, and Python looks for cycles in
what is there for good (docs/decisions/0113).
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
"""The logarithm of the cycles for which a thread of OpenBLAS spins; read once, at loading."""

_lock = RLock()


def numpy() -> Any:
    """Return numpy, with what the environment says of its threads as it was.

    Raises:
        ImportError: If it is not installed.
    """
    if "numpy" not in sys.modules:
        with _lock, _frugal():
            import_module("numpy")
    return import_module("numpy")


@contextmanager
def _frugal() -> Iterator[None]:
    """Have threads of libraries that are loaded in the block sleep soon, and no cycles sought."""
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
