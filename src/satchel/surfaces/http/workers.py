"""Several processes that serve one store at one address: begun, looked after, ended together."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from satchel.errors import SatchelError, TargetError

_LEAST_SECONDS, _MOST_FAILURES = 5.0, 3
_PATIENCE_SECONDS = 45.0  # longer than a worker gives what is under way
_LOOK_SECONDS = 0.2


class Workers:
    """Processes that do the same work.

    Whoever begins them has opened nothing and has no threads: each opens what it needs itself. One
    that dies is begun again; when they die as soon as they have begun, all is ended.

    Args:
        count: How many.
        work: Does the work of one until it is told to end by SIGTERM; is given its number.
        close: Called in this process when all are going to end, so that nobody waits at a door
            behind which there is no one.
    """

    def __init__(self, count: int, work: Callable[[int], None], close: Callable[[], None]) -> None:
        self._count = count
        self._work = work
        self._close = close
        self._there = dict[int, tuple[int, float]]()
        self._ending: int | None = None
        self._failures = 0

    def run(self) -> None:
        """Begin them, and wait until they are told to end and have done so.

        Raises:
            KeyboardInterrupt: If it was Ctrl-C that ended them.
            TargetError: If they die as soon as they have begun.
        """
        before = {one: signal.signal(one, self._end) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            for number in range(self._count):
                self._begin(number)
            while self._ending is None:
                self._look_after()
                time.sleep(_LOOK_SECONDS)
            self._close()
            self._end_all()
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
        if self._failures >= _MOST_FAILURES:
            raise TargetError("the server's workers exit right after starting")
        if self._ending == signal.SIGINT:
            raise KeyboardInterrupt

    def _end(self, number: int, _: object) -> None:
        self._ending = number

    def _begin(self, number: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both would write it
        pid = os.fork()
        if pid == 0:
            self._be(number)
        self._there[pid] = number, time.monotonic()

    def _be(self, number: int) -> NoReturn:
        """Be a worker, from here to its end."""
        status = 1
        try:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            self._work(number)
            status = 0
        except SatchelError as error:
            sys.stderr.write(f"a worker of the server: {error.message}\n")
        except KeyboardInterrupt:
            status = 0
        except BaseException:  # noqa: BLE001 - nothing of the parent may be gone on with here
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(status)

    def _look_after(self) -> None:
        """Begin those anew that died."""
        for pid, _ in self._gone():
            number, began = self._there.pop(pid)
            early = time.monotonic() - began < _LEAST_SECONDS
            self._failures = self._failures + 1 if early else 0
            if self._failures >= _MOST_FAILURES:
                self._ending = signal.SIGTERM
                return
            if self._ending is None:
                self._begin(number)

    def _gone(self) -> list[tuple[int, int]]:
        found = []
        with suppress(ChildProcessError):
            while (one := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if one[0] in self._there:
                    found.append(one)
        return found

    def _end_all(self) -> None:
        """Have them end what is under way; who does not in time is killed."""
        for how, patience in ((signal.SIGTERM, _PATIENCE_SECONDS), (signal.SIGKILL, 5.0)):
            for pid in self._there:
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
            until = time.monotonic() + patience
            while self._there and time.monotonic() < until:
                for pid, _ in self._gone():
                    self._there.pop(pid)
                time.sleep(_LOOK_SECONDS / 4)
