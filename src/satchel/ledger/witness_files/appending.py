"""Changing a witness file: one line more, or fewer old ones. The caller holds the bank's lock."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from satchel.disk.kept import opened
from satchel.disk.writing import PRIVATE_FILE, left_behind, writing
from satchel.ledger.witness_files.lines import Tail, all_lines
from satchel.ledger.witness_files.order import checked_lines

COMPACT_BYTES = 1 << 20
"""Each time a file grows past a multiple of this it is compacted to at most half of it."""


def append(handle: int, after: Tail, line: bytes) -> None:
    """Put a line after the newest one, over what a crash left there, and force it to disk.

    Raises:
        OSError: If the system refuses; the file ends where the newest line did.
    """
    rest = line if after.closed else b"\n" + line
    place = after.end
    try:
        if after.size != after.end:
            os.ftruncate(handle, after.end)
        while rest:
            written = os.pwrite(handle, rest, place)
            place, rest = place + written, rest[written:]
        os.fdatasync(handle)
    except BaseException:
        # Also a whole line that could not be forced: its pages count as written now, so only
        # writing it again would make it durable.
        with suppress(OSError):
            os.ftruncate(handle, after.end)
        raise


def compact(path: Path, bank: str) -> None:
    """Rewrite a file with fewer old heads, in one step.

    Kept are the newest head, the first, the last of each epoch, and every 2^k-th of the others.
    The guarantee stays: a rollback is detected by the newest head alone, since every sound state
    of the store has that head as a prefix. Older ones only help to say when a fork began, to
    within 2^k commits.

    Raises:
        OSError: If the system refuses; the file is as it was.
        TargetError: The same.
        WitnessError: If a line is damaged; the file is as it was, so that nothing is hidden.
    """
    for stale in left_behind(path):
        stale.unlink()  # left by a crash; whoever holds the lock is the only one who writes here
    with opened(path, os.O_RDONLY) as handle:
        lines = all_lines(handle)
    epochs = [found.head.epoch for found in checked_lines(lines, bank)]
    kept = _kept(lines, epochs)
    if len(kept) < len(lines):
        with writing(path, mode=PRIVATE_FILE) as stream:
            stream.writelines(lines[n] + b"\n" for n in kept)


def _kept(lines: Sequence[bytes], epochs: Sequence[int]) -> list[int]:
    last = len(lines) - 1
    marks = {0, last} | {n for n in range(last) if epochs[n] != epochs[n + 1]}
    step = 1
    while step <= last:
        kept = [n for n in range(len(lines)) if n in marks or n % step == 0]
        if sum(len(lines[n]) + 1 for n in kept) <= COMPACT_BYTES // 2:
            return kept
        step *= 2
    return sorted(marks & set(range(len(lines))))
