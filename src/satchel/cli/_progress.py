"""What a person at a terminal sees of work that takes longer than a second: one line, redrawn.

A bar where the work counts what it has done, what is waited for where another program holds a
lock, and otherwise that the work goes on. It is drawn where the work reports something, and by a
timer of the system in between; not by a thread: a process with several threads forks no other.
"""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any

from satchel.runtime.lock_waits import watched

OnProgress = Callable[..., None]
"""Is told how much is done, and of how much."""

_PATIENCE = 1.0
"""Seconds after which something is shown."""

_REDRAWN = 0.1
_STILL_WAITING = 0.5
"""Seconds after which a wait is over that nothing more is heard of."""

_BAR = 24
_UNITS = ("B", "kB", "MB", "GB")
_CLEARED = b"\r\x1b[K"


class ProgressLine:
    """The line of one command."""

    def __init__(self) -> None:
        self._label = ""
        self._unit = "records"
        self._done = self._total = 0
        self._began = self._drawn_at = 0.0
        self._waited = ("", 0.0, 0.0)
        """For what, for how long, and when that was heard."""

        self._is_on = self._is_drawn = self._is_drawing = False
        self._hidden = 0

    @contextmanager
    def shown(self, label: str, unit: str = "records") -> Iterator[OnProgress | None]:
        """Show work while the block lasts, where somebody looks; give what tells how far it is.

        Args:
            label: What is done.
            unit: What is counted: ``records`` or ``bytes``.
        """
        if self._is_on or not _is_seen():
            yield None
            return
        self._began, self._drawn_at, self._is_on = monotonic(), 0.0, True
        self._waited = ("", 0.0, 0.0)
        try:
            with ExitStack() as held:
                held.enter_context(watched(self._wait))
                held.enter_context(_ticking(self._draw))
                yield self.stage(label, unit)
        finally:
            self.clear()
            self._is_on = False

    def stage(self, label: str, unit: str = "records") -> OnProgress:
        """Return what tells how far a stage of the work is; the line is that of the last stage."""

        def tell(done: int, total: int, *_: Any) -> None:
            if done > 0:  # before, an earlier stage may go on
                self._label, self._unit = label, unit
                self._done, self._total = done, total
            self._draw()

        self._label, self._unit = label, unit
        self._done = self._total = 0
        return tell

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Show nothing while the block lasts: something else is printed, or somebody is asked."""
        self._hidden += 1
        self.clear()
        try:
            yield
        finally:
            self._hidden -= 1

    def clear(self) -> None:
        """Remove the line."""
        if self._is_drawn:
            self._is_drawn = False
            _write(_CLEARED)

    def _wait(self, what: str, seconds: float) -> None:
        self._waited = what, seconds, monotonic()
        self._draw()

    def _draw(self) -> None:
        now = monotonic()
        if self._is_drawing or self._hidden or not self._is_on:
            return
        if now - self._began < _PATIENCE or now - self._drawn_at < _REDRAWN:
            return
        self._is_drawing = True  # the timer may come in the middle
        try:
            width = shutil.get_terminal_size().columns
            encoding = sys.stderr.encoding or "ascii"
            line = self._line(now, is_plain=not encoding.lower().startswith("utf"))
            shown = line if len(line) < width else line[: width - 1]
            _write(_CLEARED + shown.encode(encoding, "replace"))
            self._is_drawn, self._drawn_at = True, now
        finally:
            self._is_drawing = False

    def _line(self, now: float, *, is_plain: bool) -> str:
        what, seconds, heard_at = self._waited
        if what and now - heard_at < _STILL_WAITING:
            return f"waiting {_clock(seconds)} for {what}"
        full, rest = ("#", "-") if is_plain else ("━", "─")
        elapsed = now - self._began
        done = min(self._done, self._total)
        if done <= 0:
            at = int(elapsed / _REDRAWN) % _BAR
            bar = rest * at + full + rest * (_BAR - at - 1)
            return f"{self._label} {bar}  {_clock(elapsed)}"
        filled = _BAR * done // self._total
        left = _clock(elapsed / done * (self._total - done))
        amount = f"{self._amount(done)}/{self._amount(self._total)}"
        return f"{self._label} {full * filled}{rest * (_BAR - filled)}  {amount}  {left} left"

    def _amount(self, number: int) -> str:
        return amount_of_bytes(number) if self._unit == "bytes" else f"{number:,}"


activity = ProgressLine()
"""Of the one command that this process runs."""


def amount_of_bytes(bytes_: int) -> str:
    """Return a size for a person."""
    value, units = float(bytes_), list(_UNITS)
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004 - decimal units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _is_seen() -> bool:
    """Tell whether somebody looks at a terminal that can redraw a line."""
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


@contextmanager
def _ticking(draw: Callable[[], None]) -> Iterator[None]:
    """Have the line redrawn also while nothing is reported, where the system's timer is free."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def tick(*_: object) -> None:
        with suppress(Exception):  # nothing of this is worth the work that it interrupts
            draw()

    signal.signal(signal.SIGALRM, tick)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _REDRAWN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _write(data: bytes) -> None:
    with suppress(OSError, ValueError):  # a terminal that is gone
        os.write(sys.stderr.fileno(), data)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
