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

_MOST_ENDED, _WAITING, _AT_ONCE = 200, 32, 2
_PUBLISH_SECONDS, _SIGN_SECONDS, _LOST_SECONDS = 0.2, 5.0, 60.0
_RETAINED_SECONDS, _FREE_SECONDS = 24 * 3600.0, 600.0
_JOB, _CANCELLED = "job/", "off/"

ReportProgress = Callable[[int, int, str | None], None]
State = Literal["waiting", "running", "done", "failed", "cancelled"]


_Options = TypeVar("_Options")


def with_progress(options: _Options, report: ReportProgress) -> _Options:
    """Return options of an operation with a progress callback."""
    changed = {"progress": lambda done, total: report(done, total, None)}
    return cast("_Options", replace(cast("Any", options), **changed))


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

    status: JobStatus = msgspec.field(name="shown")


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
        self._cancelled = threading.Event()
        self._ended: str | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self.future: Future[None] | None = None

    def run(self) -> None:
        """Run the job, in a thread."""
        state: State = "failed"
        try:
            self._require_not_cancelled()
            self._state = "running"
            self._result = self._call(self._report)
            state = "done"
        except JobCancelledError:
            state = "cancelled"
        except BaseException as error:  # noqa: BLE001 - ``status`` and ``result`` report it
            self._error = error
        finally:
            self._ended = now()
            self._state = state

    def cancel(self) -> None:
        """Cancel the job at its next step; nothing that it wrote becomes visible."""
        self._cancelled.set()

    def status(self) -> JobStatus:
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

    def _report(self, done: int, total: int, record: str | None) -> None:
        self._step = (done, total, record)
        self._require_not_cancelled()

    def _require_not_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise JobCancelledError


class JobQueue:
    """The jobs of a store; those that ended some time ago are dropped.

    Args:
        board: The registry that other servers of the store read.
    """

    def __init__(self, board: JobRegistry) -> None:
        self._board = board
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="job")
        self._own = OrderedDict[str, ServerJob]()
        self._lock = threading.Lock()
        self._publisher: threading.Thread | None = None
        self._streams_end = False

    def begin(self, kind: str, call: Callable[[ReportProgress], Any]) -> ServerJob:
        """Queue a job.

        Raises:
            LockedError: If too many jobs wait.
            StoreError: If it cannot be registered.
        """
        job = ServerJob(kind, call)
        with self._lock:
            if len(self._own) >= _WAITING:
                raise LockedError("too many jobs are waiting", hint="Retry later.")
            self._own[job.id] = job
        try:
            self._publish(job.status())
            job.future = self._pool.submit(self._run, job)
        except BaseException:
            with self._lock:
                del self._own[job.id]
            raise
        self._start_publisher()
        return job

    def statuses(self) -> list[JobStatus]:
        """Return all jobs, newest first."""
        notes = {name.removeprefix(_JOB): note for name, note in self._board.notes(_JOB).items()}
        with self._lock:
            own = {name: job.status() for name, job in self._own.items()}
        statuses = {name: _decode_status(note) for name, note in notes.items()} | own
        return sorted(statuses.values(), key=lambda status: (status.began, status.id), reverse=True)

    def find(self, name: str) -> JobStatus:
        """Return the state of a job of any server.

        Raises:
            UnknownJobError: If there is no such job.
        """
        with self._lock:
            own = self._own.get(name)
        if own is not None:
            return own.status()
        note = self._board.notes(_JOB + name).get(_JOB + name)
        if note is None:
            raise UnknownJobError("no such job", field="job")
        return _decode_status(note)

    def cancel(self, name: str) -> JobStatus:
        """Cancel a job of any server at its next step.

        Raises:
            UnknownJobError: If there is no such job.
        """
        status = self.find(name)
        with self._lock:
            own = self._own.get(name)
        if own is not None:
            own.cancel()
        elif not status.is_over:
            self._board.put(_CANCELLED + name, b"")
        return status

    async def events(self, name: str) -> AsyncIterator[bytes]:
        """Yield each change of its state as a server-sent event, until it ends.

        The stream also ends with the server, which would otherwise wait for the job.
        """
        last = b""
        while True:
            status = await asyncio.to_thread(self.find, name)
            data = msgspec.json.encode(status)
            if data != last:
                event = b"end" if status.is_over else b"step"
                yield b"event: " + event + b"\ndata: " + data + b"\n\n"
                last = data
            if status.is_over or self._streams_end:
                return
            await asyncio.sleep(_PUBLISH_SECONDS)

    def end_streams(self) -> None:
        """End the streams that follow jobs; the jobs continue."""
        self._streams_end = True

    def close(self) -> None:
        """Cancel the jobs that have not begun, and wait for those that run."""
        with self._lock:
            own = list(self._own.values())
        for job in own:
            if job.status().state == "waiting":
                job.cancel()
        self._pool.shutdown(wait=True)

    def _run(self, job: ServerJob) -> None:
        """Run a job, in a thread, and publish its end."""
        job.run()
        try:
            self._publish(job.status())
            self._board.put(_CANCELLED + job.id, None)
        finally:
            with self._lock:
                del self._own[job.id]

    def _publish(self, status: JobStatus) -> None:
        self._board.put(_JOB + status.id, msgspec.json.encode(_Note(time.time(), status)))

    def _start_publisher(self) -> None:
        with self._lock:
            if self._publisher is None:
                self._publisher = threading.Thread(
                    target=self._publish_all, name="job-publisher", daemon=True
                )
                self._publisher.start()

    def _publish_all(self) -> None:
        """Publish the state of the jobs that run here, in a thread, until none is left."""
        published = dict[str, tuple[float, JobStatus]]()
        with suppress(StoreError):  # the end of each job is published anyway
            self._prune()
        while True:
            with self._lock:
                own = list(self._own.values())
                if not own:
                    self._publisher = None
                    return
            with suppress(StoreError):
                self._publish_changes(own, published)
            time.sleep(_PUBLISH_SECONDS)

    def _publish_changes(
        self, own: list[ServerJob], published: dict[str, tuple[float, JobStatus]]
    ) -> None:
        cancelled, moment = self._board.notes(_CANCELLED), time.monotonic()
        for job in own:
            if _CANCELLED + job.id in cancelled:
                job.cancel()
            status = job.status()
            published_at, previous = published.get(job.id, (0.0, None))
            if not status.is_over and (status != previous or moment - published_at > _SIGN_SECONDS):
                self._publish(status)
                published[job.id] = moment, status

    def _prune(self) -> None:
        """Remove the entries of jobs that ended long ago, and the oldest beyond the limit."""
        notes = {
            name: msgspec.json.decode(note, type=resolved(_Note))
            for name, note in self._board.notes(_JOB).items()
        }
        over = sorted(
            (name for name, note in notes.items() if _current_status(note).is_over),
            key=lambda name: notes[name].sign,
        )
        most = len(over) - _MOST_ENDED
        for number, name in enumerate(over):
            if number < most or notes[name].sign < time.time() - _RETAINED_SECONDS:
                self._board.put(name, None)
                self._board.put(_CANCELLED + name.removeprefix(_JOB), None)


def start_job(jobs: JobQueue, kind: str, call: Callable[[ReportProgress], Any]) -> Response:
    """Start a job, and return a 202 response with its state and its URL.

    Raises:
        LockedError: If too many jobs wait.
    """
    job = jobs.begin(kind, call)
    return answer(job.status(), 202, {"Location": f"/v1/jobs/{job.id}"})


def retry_while_locked(call: Callable[[], Any], report: ReportProgress) -> Any:
    """Call a function, again while another call holds its lock, and return its result.

    Raises:
        LockedError: If the lock is held for too long.
    """
    until = time.monotonic() + _FREE_SECONDS
    while True:
        try:
            return call()
        except LockedError:
            if time.monotonic() > until:
                raise
        report(0, 0, None)
        time.sleep(_PUBLISH_SECONDS)


def _decode_status(note: bytes) -> JobStatus:
    return _current_status(msgspec.json.decode(note, type=resolved(_Note)))


def _current_status(note: _Note) -> JobStatus:
    """Return a registry entry; a job without a live worker has failed."""
    if note.status.is_over or note.sign > time.time() - _LOST_SECONDS:
        return note.status
    problem = {
        "code": "job.lost",
        "message": "the server that ran this job has ended",
        "hint": "Unfinished work is not visible. Start the job again.",
    }
    return msgspec.structs.replace(note.status, state="failed", problem=problem)
