"""Jobs: long operations that run in threads, report progress and can be cancelled.

The worker of a job publishes its state in a registry of the store
(``satchel.bank.job_registry``), so that every server of the store can show, follow and cancel it.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast
from uuid import uuid4

import msgspec
from fastapi import Response

from satchel.bank.job_registry import JobRegistry
from satchel.errors import LockedError, SatchelError, StoreError, UnknownJobError
from satchel.http.answers import answer
from satchel.model.values import now, resolved

_KEPT, _WAITING, _AT_ONCE = 200, 32, 2
_TELL_SECONDS, _SIGN_SECONDS, _LOST_SECONDS = 0.2, 5.0, 60.0
_KEPT_SECONDS, _FREE_SECONDS = 24 * 3600.0, 600.0
_JOB, _OFF = "job/", "off/"

ReportProgress = Callable[[int, int, str | None], None]
State = Literal["waiting", "running", "done", "failed", "cancelled"]


_Options = TypeVar("_Options")


def with_progress(options: _Options, tell: ReportProgress) -> _Options:
    """Return options of an operation with a progress callback."""
    report = {"progress": lambda done, total: tell(done, total, None)}
    return cast("_Options", replace(cast("Any", options), **report))


class JobCancelledError(Exception):
    """The job was cancelled."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a job."""

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

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state not in ("waiting", "running")


class _Note(msgspec.Struct, frozen=True):
    """Entry of a job in the registry."""

    sign: float
    """When its worker last reported, in seconds."""

    shown: JobStatus


class ServerJob:
    """A job.

    Args:
        kind: Name of the operation.
        call: Runs it, given the function that reports progress.
    """

    def __init__(self, kind: str, call: Callable[[ReportProgress], Any]) -> None:
        self.id = uuid4().hex
        self._kind = kind
        self._call = call
        self._began = now()
        self._state: State = "waiting"
        self._step: tuple[int, int, str | None] = (0, 0, None)
        self._off = threading.Event()
        self._ended: str | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self.future: Future[None] | None = None

    def run(self) -> None:
        """Run the job, in a thread."""
        state: State = "failed"
        try:
            self._require_wanted()
            self._state = "running"
            self._result = self._call(self._tell)
            state = "done"
        except JobCancelledError:
            state = "cancelled"
        except BaseException as error:  # noqa: BLE001 - it is told to whoever asks
            self._error = error
        finally:
            self._ended = now()
            self._state = state

    def call_off(self) -> None:
        """Cancel the job at its next step; nothing that it wrote becomes visible."""
        self._off.set()

    def shown(self) -> JobStatus:
        """Return its state."""
        state = self._state
        done, total, record = self._step
        error, problem = self._error, None
        if error is not None:
            plain = {"code": "internal", "message": "something went wrong"}
            problem = error.problem() if isinstance(error, SatchelError) else plain
        return JobStatus(
            id=self.id,
            kind=self._kind,
            state=state,
            began=self._began,
            done=done,
            total=total,
            record=record,
            ended=self._ended,
            result=msgspec.to_builtins(self._result),
            problem=problem,
        )

    async def result(self) -> Any:
        """Wait for its end, and return its result or raise its error."""
        if self.future is not None:
            await asyncio.shield(asyncio.wrap_future(self.future))
        if self._error is not None:
            raise self._error
        return self._result

    def _tell(self, done: int, total: int, record: str | None) -> None:
        self._step = (done, total, record)
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self._off.is_set():
            raise JobCancelledError


class JobQueue:
    """The jobs of a store; those that ended some time ago are dropped.

    Args:
        board: The registry that other servers of the store read.
    """

    def __init__(self, board: JobRegistry) -> None:
        self._board = board
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="work")
        self._own = OrderedDict[str, ServerJob]()
        self._lock = threading.Lock()
        self._teller: threading.Thread | None = None
        self._lets_go = False

    def begin(self, kind: str, call: Callable[[ReportProgress], Any]) -> ServerJob:
        """Queue a job.

        Raises:
            LockedError: If too many jobs wait.
            StoreError: If it cannot be registered.
        """
        work = ServerJob(kind, call)
        with self._lock:
            if len(self._own) >= _WAITING:
                raise LockedError("too many jobs are waiting", hint="Retry later.")
            self._own[work.id] = work
        try:
            self._put_up(work.shown())
            work.future = self._pool.submit(self._done, work)
        except BaseException:
            with self._lock:
                del self._own[work.id]
            raise
        self._begin_telling()
        return work

    def listed(self) -> list[JobStatus]:
        """Return all jobs, newest first."""
        found = {name.removeprefix(_JOB): note for name, note in self._board.notes(_JOB).items()}
        with self._lock:
            own = {name: work.shown() for name, work in self._own.items()}
        there = {name: _read(note) for name, note in found.items()} | own
        return sorted(there.values(), key=lambda one: (one.began, one.id), reverse=True)

    def find(self, name: str) -> JobStatus:
        """Return the state of a job of any server.

        Raises:
            UnknownJobError: If there is no such job.
        """
        with self._lock:
            own = self._own.get(name)
        if own is not None:
            return own.shown()
        note = self._board.notes(_JOB + name).get(_JOB + name)
        if note is None:
            raise UnknownJobError("no such job", field="job")
        return _read(note)

    def call_off(self, name: str) -> JobStatus:
        """Cancel a job of any server at its next step.

        Raises:
            UnknownJobError: If there is no such job.
        """
        found = self.find(name)
        with self._lock:
            own = self._own.get(name)
        if own is not None:
            own.call_off()
        elif not found.is_over:
            self._board.put(_OFF + name, b"")
        return found

    async def events(self, name: str) -> AsyncIterator[bytes]:
        """Yield each change of its state as a server-sent event, until it ends.

        Or to the server's: who follows would keep it from ending for as long as the work lasts.
        """
        last = b""
        while True:
            shown = await asyncio.to_thread(self.find, name)
            said = msgspec.json.encode(shown)
            if said != last:
                event = b"end" if shown.is_over else b"step"
                yield b"event: " + event + b"\ndata: " + said + b"\n\n"
                last = said
            if shown.is_over or self._lets_go:
                return
            await asyncio.sleep(_TELL_SECONDS)

    def let_go(self) -> None:
        """End the streams that follow jobs; the jobs continue."""
        self._lets_go = True

    def close(self) -> None:
        """Call off what has not begun, and wait for what is under way."""
        with self._lock:
            own = list(self._own.values())
        for work in own:
            if work.shown().state == "waiting":
                work.call_off()
        self._pool.shutdown(wait=True)

    def _done(self, work: ServerJob) -> None:
        """Do a piece of work, in a thread, and put up how it ended."""
        work.run()
        try:
            self._put_up(work.shown())
            self._board.put(_OFF + work.id, None)
        finally:
            with self._lock:
                del self._own[work.id]

    def _put_up(self, shown: JobStatus) -> None:
        self._board.put(_JOB + shown.id, msgspec.json.encode(_Note(time.time(), shown)))

    def _begin_telling(self) -> None:
        with self._lock:
            if self._teller is None:
                self._teller = threading.Thread(target=self._tell, name="telling", daemon=True)
                self._teller.start()

    def _tell(self) -> None:
        """Put up how work stands, in a thread, for as long as there is some."""
        told = dict[str, tuple[float, JobStatus]]()
        with suppress(StoreError):  # what is told late is told by how it ends
            self._tidy_up()
        while True:
            with self._lock:
                own = list(self._own.values())
                if not own:
                    self._teller = None
                    return
            with suppress(StoreError):
                self._tell_of(own, told)
            time.sleep(_TELL_SECONDS)

    def _tell_of(self, own: list[ServerJob], told: dict[str, tuple[float, JobStatus]]) -> None:
        off, at = self._board.notes(_OFF), time.monotonic()
        for work in own:
            if _OFF + work.id in off:
                work.call_off()
            shown = work.shown()
            last, before = told.get(work.id, (0.0, None))
            if not shown.is_over and (shown != before or at - last > _SIGN_SECONDS):
                self._put_up(shown)
                told[work.id] = at, shown

    def _tidy_up(self) -> None:
        """Take down what ended long ago, and the oldest of what is too much."""
        notes = {
            name: msgspec.json.decode(note, type=resolved(_Note))
            for name, note in self._board.notes(_JOB).items()
        }
        over = sorted(
            (name for name, note in notes.items() if _as_it_is(note).is_over),
            key=lambda name: notes[name].sign,
        )
        most = len(over) - _KEPT
        for number, name in enumerate(over):
            if number < most or notes[name].sign < time.time() - _KEPT_SECONDS:
                self._board.put(name, None)
                self._board.put(_OFF + name.removeprefix(_JOB), None)


def start_job(works: JobQueue, kind: str, call: Callable[[ReportProgress], Any]) -> Response:
    """Begin a piece of work, and return the answer that says so, and where to ask for it.

    Raises:
        LockedError: If too many jobs wait.
    """
    work = works.begin(kind, call)
    return answer(work.shown(), 202, {"Location": f"/v1/jobs/{work.id}"})


def retry_while_locked(call: Callable[[], Any], tell: ReportProgress) -> Any:
    """Call a function, after a call that excludes it has ended, and return its result.

    Raises:
        LockedError: If that takes too long.
    """
    until = time.monotonic() + _FREE_SECONDS
    while True:
        try:
            return call()
        except LockedError:
            if time.monotonic() > until:
                raise
        tell(0, 0, None)
        time.sleep(_TELL_SECONDS)


def _read(note: bytes) -> JobStatus:
    return _as_it_is(msgspec.json.decode(note, type=resolved(_Note)))


def _as_it_is(note: _Note) -> JobStatus:
    """Return a registry entry; a job without a live worker has failed."""
    if note.shown.is_over or note.sign > time.time() - _LOST_SECONDS:
        return note.shown
    problem = {
        "code": "job.lost",
        "message": "the server that ran this job has ended",
        "hint": "Unfinished work is not visible. Start the job again.",
    }
    return msgspec.structs.replace(note.shown, state="failed", problem=problem)
