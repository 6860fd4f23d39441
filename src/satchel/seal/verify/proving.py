"""Proving entries batch by batch; large files on all cores, where that is safe.

Processes are forked only while this one has a single thread, since a fork copies locks that other
threads may hold; elsewhere, and for small files, the work is done here.
"""

import gc
import multiprocessing
import os
import signal
import struct
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from satchel.memory.entries import Semantic
from satchel.seal.artifact.body import BATCH_BYTES, lines_of
from satchel.seal.batches import sort
from satchel.seal.graph import Role
from satchel.seal.limits import Limits

WORTH_IT = 8 * 2**20
"""Bytes of a body from which more processes gain more than they cost."""

_MOST_WORKERS = 8
_MESSAGE_BYTES = 1 << 19
_AHEAD = 2  # batches waiting for each worker
_pack_row = struct.Struct(">32sBQ").pack


class Task(NamedTuple):
    """Some entries of one section, next to each other."""

    section: str
    batch: bytes
    """Lines with their ends."""

    number: int
    """Of the first line, in the body."""

    limits: Limits


class Proof(NamedTuple):
    """What was found about a task's entries."""

    rows: bytes
    """For ``IdIndex.add_rows``: their ids, and those that they refer to."""

    refers: bool
    """Whether any refers to another."""

    roots: int
    """Entries without parents."""

    odd: list[int]
    """Places of entries that need the careful way; nothing about them is in the rest."""


def prove(task: Task) -> Proof:
    """Prove what can be proved of a task's entries in few steps."""
    lines = lines_of(task.batch)
    found = sort(task.section, lines, task.batch, task.limits)
    first, roots = task.number, len(found.proved)
    rows = [_pack_row(raw, Role.ENTRY, first + place) for _, raw, place in found.proved]
    for model, _, place in found.proved:
        if model.parent_ids:
            roots -= 1
            rows += [_pack_row(_raw(one), Role.NEEDED, first + place) for one in model.parent_ids]
        if isinstance(model, Semantic):
            events = model.source_event_ids
            rows += [_pack_row(_raw(one), Role.MENTIONED, first + place) for one in events]
    return Proof(b"".join(rows), len(rows) > len(found.proved), roots, found.odd)


def _raw(identity: str) -> bytes:
    return bytes.fromhex(identity[7:])


class Prover:
    """Hands tasks out and gives proofs back in the same order.

    Args:
        size: Bytes of the body that is going to be looked at.
    """

    def __init__(self, size: int) -> None:
        self._workers = _worker_count(size)
        self._pool: ProcessPoolExecutor | None = None
        self._pending: deque[tuple[Task, Future[Proof]]] = deque()
        if self._workers > 1:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("fork"),
                initializer=_start_worker,
            )

    @property
    def batch_bytes(self) -> int:
        """How much is best handed out at a time: enough to be worth a message to a process."""
        return BATCH_BYTES if self._pool is None else _MESSAGE_BYTES

    def add(self, task: Task) -> Iterator[tuple[Task, Proof]]:
        """Take one task, and yield what is ready before more would pile up."""
        if self._pool is None:
            yield task, prove(task)
            return
        try:
            future = self._pool.submit(prove, task)
        except BrokenProcessPool:
            yield from self.rest()
            yield task, prove(task)
            return
        self._pending.append((task, future))
        if len(self._pending) > self._workers * _AHEAD:
            yield self._next()

    def rest(self) -> Iterator[tuple[Task, Proof]]:
        """Yield what is not given back yet."""
        while self._pending:
            yield self._next()

    def close(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _next(self) -> tuple[Task, Proof]:
        task, future = self._pending.popleft()
        try:
            return task, future.result()
        except BrokenProcessPool:  # a worker was killed; its work is done here
            return task, prove(task)


def _worker_count(size: int) -> int:
    alone = threading.active_count() == 1
    forks = "fork" in multiprocessing.get_all_start_methods()
    if size < WORTH_IT or not alone or not forks:
        return 1
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


def _start_worker() -> None:
    """Leave interrupts to the parent, and look for no cycles: there are none among records."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
