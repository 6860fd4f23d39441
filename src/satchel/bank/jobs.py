"""One piece of work that is under way or was cut short, as a value."""

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from blake3 import blake3

from satchel.crypto.sealed_records import seal
from satchel.errors import UsageError
from satchel.ledger.erasure import FINGERPRINTS
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import LogImport
from satchel.ledger.view import View
from satchel.model.records import Status
from satchel.model.values import now, resolved

if TYPE_CHECKING:
    import asyncio

SIDE = "import/"
"""What the names of the values begin with; the id of the source record follows."""


class ImportJournal(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What an import under way has to remember; kept beside the log, gone when it is complete."""

    asked: str
    """What was asked for: the digest of the input and the options."""

    seed: bytes
    """Of all nonces."""

    at: str
    """When it began."""

    source: str = ""
    """Id of its source record, once that is logged."""

    records: int = 0
    """How many records it is going to log."""

    request: dict[str, Any] = {}
    """How it was asked for, so that it can be gone on with: the file, and the options by name."""


def new_journal(asked: str, request: dict[str, Any] | None = None) -> ImportJournal:
    """Return the journal of an import that begins."""
    return ImportJournal(asked=asked, seed=os.urandom(32), at=now(), request=request or {})


def journals(view: View) -> Iterator[ImportJournal]:
    """Yield those of the imports into a bank that are under way, or were killed."""
    under_way = {one.source for one in view.imports() if not (one.complete or one.undone)}
    for name, value in view.side(SIDE).items():
        journal = msgspec.json.decode(value, type=resolved(ImportJournal))
        if name == SIDE + journal.source and journal.source in under_way:
            yield journal


_DIGITS = 12


class JobPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job has done to one bank."""

    bank: str
    """Its id."""

    source: str
    """Id of the source record of the import."""

    done: int
    """Records that are logged, which nobody sees yet."""

    total: int
    """Records that are to be logged; 0 where that was not kept."""

    name: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An import that is not complete."""

    id: str
    kind: Literal["import"]
    state: Literal["running", "waiting"]
    """``waiting`` to be resumed or cancelled."""

    at: str
    """When it began."""

    input: str | None
    """What is imported, when that is known."""

    options: dict[str, Any]
    """As it was asked for, where it differs from the defaults."""

    parts: list[JobPart]

    @property
    def done(self) -> int:
        """Records that are logged."""
        return sum(one.done for one in self.parts)

    @property
    def total(self) -> int:
        """Records that are to be logged, in the banks that it reached."""
        return sum(one.total for one in self.parts)


def job_id(journal: ImportJournal) -> str:
    """Return by what a job is called; its parts in several banks share it."""
    return blake3(journal.seed, derive_key_context="satchel 2026 job id").hexdigest()[:_DIGITS]


def jobs_of(
    found: Iterable[tuple[ImportJournal, JobPart]], running: Mapping[str, bool] | None = None
) -> list[Job]:
    """Return the jobs that journals tell of, the oldest first.

    Args:
        found: Each journal, with what it did to its bank.
        running: By the id of a job, whether a process is at it.
    """
    parts = dict[str, list[JobPart]]()
    first = dict[str, ImportJournal]()
    for journal, part in found:
        name = job_id(journal)
        parts.setdefault(name, []).append(part)
        first.setdefault(name, journal)
    jobs = [
        Job(
            id=name,
            kind="import",
            state="running" if (running or {}).get(name) else "waiting",
            at=journal.at,
            input=journal.request.get("input"),
            options={k: v for k, v in journal.request.items() if k != "input"},
            parts=parts[name],
        )
        for name, journal in first.items()
    ]
    return sorted(jobs, key=lambda job: (job.at, job.id))


class ProgressStep(NamedTuple):
    """One step of some work."""

    done: int
    """Records that are done."""

    total: int
    """Records that there are."""

    record: str | None
    """Id of the last one that is done, where there is one."""


OnStep = Callable[[ProgressStep], None]
"""Is told of each step that is done; what it raises ends the work."""


OnRecord = Callable[[int, int, str | None], Any]
"""Called with records done, records there are, and the id of the last one; may be ``async``.

What it raises ends the transfer, and is raised by the call; a note on it says what that leaves.
"""

AWAITING: ContextVar["asyncio.AbstractEventLoop | None"] = ContextVar("AWAITING", default=None)
"""The loop in which somebody waits for the call of this thread; None where nobody awaits."""


def teller(callback: OnRecord | None) -> OnStep | None:
    """Return what tells a caller of each step.

    Raises:
        UsageError: When it is called, if the callback is ``async`` and no loop could run it.
    """
    if callback is None:
        return None

    def tell(step: ProgressStep) -> None:
        loop = AWAITING.get()
        if loop is not None:  # in the loop of whoever awaits the call, and its thread
            import asyncio

            asyncio.run_coroutine_threadsafe(_called(callback, step), loop).result()
            return
        said = callback(*step)
        if inspect.isawaitable(said):
            _run(said)

    return tell


async def _called(callback: OnRecord, step: ProgressStep) -> None:
    said = callback(*step)
    if inspect.isawaitable(said):
        await said


def _run(said: Awaitable[Any]) -> None:
    """Wait for what an ``async`` callback does, in a loop of its own."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_whole(said))
        return
    if inspect.iscoroutine(said):
        said.close()
    raise UsageError(
        "an async callback cannot run while the event loop waits for this call",
        hint="Use satchel.aio, or a plain callback.",
    )


async def _whole(said: Awaitable[Any]) -> None:
    await said


_TOLD_AFTER = 500
"""Records of an import that is taken back, between two reports of progress."""


def side_name(place: int) -> str:
    """Return the name of the value that an import leaves.

    Args:
        place: Of its source record in the log.
    """
    return f"{FINGERPRINTS}{place}"


def revert_import(
    ledger: Ledger,
    source: str,
    reason: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Undo an import: what came with it goes, what it replaced or deleted is there again.

    What was replaced once more since then, by something else, stays replaced.

    Args:
        ledger: The bank.
        source: Id of the import's source record.
        reason: For whoever reads the log.
        progress: Called with the records of it that were looked at, and all of them.

    Returns:
        The ids of what stays replaced.
    """
    at = now()
    with ledger.reading() as view:
        found = next(one for one in view.imports() if one.source == source)
        again = list(_taken_over(view, found, progress)) if found.complete else []
    state = "deleted" if found.complete else "rejected"
    records = [seal(Status(target=source, state=state, reason=reason, at=at))]  # type: ignore[arg-type]
    for target, by in again:
        status = Status(target=target, state="superseded", by=by, reason=reason, at=at)
        records.append(seal(status))
    ledger.append(records, side={side_name(found.place): None, SIDE + source: None})
    return [target for target, _ in again]


def _taken_over(
    view: View, found: LogImport, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, str]]:
    """Yield what the import retired and somebody else has put another thing in the place of."""
    for number, one in enumerate(view.imported(found.source), 1):
        if progress is not None and number % _TOLD_AFTER == 0:
            progress(number, max(number, found.records))
        if not isinstance(one.model, Status) or one.model.state not in ("superseded", "deleted"):
            continue
        target = view.get([one.model.target]).get(one.model.target)
        if target is None or target.row.slot is None:
            continue
        current = view.current(target.row.slot)
        if current is not None and current.row.batch != found.place:
            yield target.record.id, current.record.id
