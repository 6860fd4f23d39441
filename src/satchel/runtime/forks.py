"""Forks: what other threads of a parent hold is held for ever in its child, unless it is let go."""

import os
import weakref
from collections.abc import Callable
from typing import Any

_wanted: list["weakref.WeakMethod[Callable[[], Any]]"] = []


def in_child(method: Callable[[], Any]) -> None:
    """Call a method in each process that is forked from this one, as long as its object lives."""
    _wanted.append(weakref.WeakMethod(method, _wanted.remove))


def _call_all() -> None:
    for each in tuple(_wanted):
        method = each()
        if method is not None:
            method()


os.register_at_fork(after_in_child=_call_all)
