"""Long work: done in threads of its own, told of as it goes, and called off."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal
from uuid import uuid4

import msgspec

from satchel.errors import LockedError, SatchelError, UnknownJobError
from satchel.memory.times import now

_KEPT, _WAITING, _AT_ONCE = 200, 32, 2
_TELL_SECONDS = 0.2

Tell = Callable[[int, int, str | None], None]
State = Literal["waiting", "running", "done", "failed", "cancelled"]


class CalledOffError(Exception):
    """Somebody wants it no longer."""


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of work, as it is told."""

    id: str
    kind: str
    state: State
    began: str
    done: int = 0
    total: int = 0
    record: str | None = None
    ended: str | None = None
    result: Any = None
    problem: dict[str, Any] | None = None


class Work:
    """One piece of work.

    Args:
        kind: What it is.
        call: Does it; is given what tells of its steps.
    """

    def __init__(self, kind: str, call: Callable[[Tell], Any]) -> None:
        self.id = uuid4().hex
        self._kind = kind
        self._call = call
        self._began = now()
        self._state: State = "waiting"
        self._step: tuple[int, int, str | None] = (0, 0, None)
        self._off = threading.Event()
        self._over = threading.Event()
        self._ended: str | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, in a thread."""
        try:
            self._require_wanted()
            self._state = "running"
            self._result = self._call(self._tell)
            self._state = "done"
        except CalledOffError:
            self._state = "cancelled"
        except BaseException as error:  # noqa: BLE001 - it is told to whoever asks
            self._error, self._state = error, "failed"
        finally:
            self._ended = now()
            self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in one way or another."""
        return self._over.is_set()

    def call_off(self) -> None:
        """Have it stop at its next step; what it wrote by then nobody sees."""
        self._off.set()

    def shown(self) -> Shown:
        """Return how it stands."""
        done, total, record = self._step
        error, problem = self._error, None
        if error is not None:
            plain = {"code": "internal", "message": "something went wrong"}
            problem = error.problem() if isinstance(error, SatchelError) else plain
        return Shown(
            id=self.id,
            kind=self._kind,
            state=self._state,
            began=self._began,
            done=done,
            total=total,
            record=record,
            ended=self._ended,
            result=self._result,
            problem=problem,
        )

    async def result(self) -> Any:
        """Wait for it, and return what it returned, or raise what it raised."""
        await asyncio.to_thread(self._over.wait)
        if self._error is not None:
            raise self._error
        return self._result

    async def events(self) -> AsyncIterator[bytes]:
        """Yield how it stands whenever that has changed, as server-sent events, to its end."""
        last = b""
        while True:
            over = self.is_over
            said = msgspec.json.encode(self.shown())
            if said != last:
                name = b"end" if over else b"step"
                yield b"event: " + name + b"\ndata: " + said + b"\n\n"
                last = said
            if over:
                return
            await asyncio.sleep(_TELL_SECONDS)

    def _tell(self, done: int, total: int, record: str | None) -> None:
        self._step = (done, total, record)
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self._off.is_set():
            raise CalledOffError


class Works:
    """All long work of a server; what ended a while ago is forgotten."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="work")
        self._all = OrderedDict[str, Work]()
        self._lock = threading.Lock()

    def begin(self, kind: str, call: Callable[[Tell], Any]) -> Work:
        """Have something done, as soon as others are.

        Raises:
            LockedError: If too much is waiting.
        """
        work = Work(kind, call)
        with self._lock:
            if sum(not one.is_over for one in self._all.values()) >= _WAITING:
                raise LockedError("too much work is waiting", hint="Come again later.")
            over = [name for name, one in self._all.items() if one.is_over]
            for name in over[: max(0, len(self._all) - _KEPT)]:
                del self._all[name]
            self._all[work.id] = work
        self._pool.submit(work.run)
        return work

    def listed(self) -> list[Work]:
        """Return all that is known, the newest first."""
        with self._lock:
            return list(reversed(self._all.values()))

    def find(self, name: str) -> Work:
        """Return one.

        Raises:
            UnknownJobError: If there is none.
        """
        with self._lock:
            found = self._all.get(name)
        if found is None:
            raise UnknownJobError("there is no such job", field="job")
        return found

    def close(self) -> None:
        """Call off what has not begun, and wait for what is under way."""
        for work in self.listed():
            if work.shown().state == "waiting":
                work.call_off()
        self._pool.shutdown(wait=True)
