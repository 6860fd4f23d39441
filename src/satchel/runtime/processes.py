"""Work in a process of its own beside this one, where a fork is safe.

A process is forked only while this one has a single thread, since a fork copies locks that other
threads may hold. What the other process fails at, or does not finish because it was killed, is to
be done here: its errors are not passed on.
"""

import fcntl
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_AHEAD = 1 << 20
"""Bytes that the other process may be ahead, so that it seldom waits."""

_GO, _END = b"\0", b"\1"


class UnfinishedError(Exception):
    """The other process did not get to its end."""


def may_fork() -> bool:
    """Tell whether a process can be forked here, and gains something."""
    import multiprocessing

    return (
        threading.active_count() == 1
        and sys.platform == "linux"
        and "fork" in multiprocessing.get_all_start_methods()
        and len(os.sched_getaffinity(0)) > 1
    )


@contextmanager
def run_in_fork(frames: Callable[[], Iterable[bytes]]) -> Iterator[Iterator[memoryview]]:
    """Run work in a forked process, and give what it yields, in its order.

    It is ended when the block ends. The pipe between the two bounds how far it is ahead.

    Args:
        frames: What to run there; nothing else of this process goes on there.

    Raises:
        UnfinishedError: From the iterator, where the other process fails or is killed.
    """
    import multiprocessing

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with suppress(OSError):  # more than a user may have; then it is as large as it was
        fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, _AHEAD)
    process = context.Process(target=_run, args=(receiver, sender, frames), daemon=True)
    is_frozen = gc.get_freeze_count() > 0
    try:
        gc.freeze()  # who looks for cycles in what both share has a copy made of it
        process.start()
        sender.close()  # so that the end of the other process is seen here
        yield _received(receiver)
    finally:
        if not is_frozen:
            gc.unfreeze()
        receiver.close()
        sender.close()
        if process.pid is not None:
            process.kill()
            process.join()
            process.close()


def _received(receiver: "Connection") -> Iterator[memoryview]:
    while True:
        try:
            frame = receiver.recv_bytes()
        except (EOFError, OSError) as error:
            raise UnfinishedError("the reader process ended early") from error
        if frame[:1] == _END:
            return
        yield memoryview(frame)[1:]


def _run(
    receiver: "Connection", sender: "Connection", frames: Callable[[], Iterable[bytes]]
) -> None:
    receiver.close()  # so that this process ends soon after its parent was killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    gc.disable()
    with suppress(Exception):  # the parent does the work again, and meets the same error
        for frame in frames():
            sender.send_bytes(_GO + frame)
        sender.send_bytes(_END)


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
