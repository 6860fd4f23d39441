"""Processes: work in a forked process beside this one, and cleanup after a fork.

A process is forked only while this one has a single thread, since a fork copies locks that other
threads may hold. Work that the other process fails at, or does not finish because it was killed, is
repeated here; its errors are not passed on. After a fork, locks that other threads of the parent
hold stay locked in the child, so objects reset theirs with ``in_child``.
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
    """The other process ended before it was done."""


def may_fork() -> bool:
    """Return whether a process can be forked here, and is useful."""
    import multiprocessing

    return (
        threading.active_count() == 1
        and sys.platform == "linux"
        and "fork" in multiprocessing.get_all_start_methods()
        and len(os.sched_getaffinity(0)) > 1
    )


@contextmanager
def run_in_fork(frames: Callable[[], Iterable[bytes]]) -> Iterator[Iterator[memoryview]]:
    """Run work in a forked process and yield its frames, in order.

    The process is killed when the block ends. The pipe between the two limits how far it is ahead.

    Args:
        frames: The work; nothing else of this process continues there.

    Raises:
        UnfinishedError: From the iterator, if the other process fails or is killed.
    """
    import multiprocessing

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with suppress(OSError):  # over the user's limit; the pipe then has its default size
        fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, _AHEAD)
    process = context.Process(target=_run, args=(receiver, sender, frames), daemon=True)
    is_frozen = gc.get_freeze_count() > 0
    try:
        gc.freeze()  # the collector would copy the memory that both share
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
    with suppress(Exception):  # the parent repeats the work, and meets the same error
        for frame in frames():
            sender.send_bytes(_GO + frame)
        sender.send_bytes(_END)


_wanted: list["weakref.WeakMethod[Callable[[], Any]]"] = []


def in_child(method: Callable[[], Any]) -> None:
    """Call a method in each process forked from this one, as long as its object exists."""
    _wanted.append(weakref.WeakMethod(method, _wanted.remove))


def _call_all() -> None:
    for each in tuple(_wanted):
        method = each()
        if method is not None:
            method()


os.register_at_fork(after_in_child=_call_all)
