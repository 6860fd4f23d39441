"""Types that msgspec decodes into, safe to use for the first time in several threads at once.

msgspec works out what a type holds when it is first used, and keeps that on the class. It does so
before it is complete, and runs Python code while it completes it: another thread that uses the
type meanwhile reads what is not there yet, and the process crashes. So whoever names a type to
msgspec names ``resolved(type)``, which has it worked out by one thread.
"""

import os
import threading
from typing import Any, TypeVar

from msgspec.msgpack import Decoder

T = TypeVar("T")

_lock = threading.RLock()
_known: set[Any] = set()


def resolved(kind: T) -> T:
    """Return a type unchanged, once msgspec knows all that it holds.

    Args:
        kind: A class, or anything else that msgspec decodes into.

    Raises:
        TypeError: If msgspec cannot decode into it.
    """
    if kind not in _known:
        with _lock:
            Decoder(kind)  # of msgspec's users the one that takes every type
            _known.add(kind)
    return kind


def _before() -> None:
    _lock.acquire()


def _in_parent() -> None:
    _lock.release()


def _in_child() -> None:
    global _lock  # noqa: PLW0603 - there is one process
    _lock = threading.RLock()


# A fork waits until no type is half worked out: its child could never complete it. What is
# registered first is asked last before a fork, so whoever holds a fork back can still decode.
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
