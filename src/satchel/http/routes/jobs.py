"""Jobs: list, show, follow, cancel; and receipts."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Response
from fastapi.responses import StreamingResponse

from satchel.http.admission import Owner, Served, long_lived, routes
from satchel.http.answers import answer
from satchel.http.jobs import JobQueue, JobStatus
from satchel.http.operations import OF_SERVER, query, serves
from satchel.ports.operations import Option, Options, operation
from satchel.receipts.archive import ReceiptListOptions, ReceiptOptions, list_receipts, show_receipt
from satchel.transfer.import_operations import list_jobs

router = routes(prefix="/v1", tags=["jobs"])


@router.get("/jobs")
@serves(list_jobs)
def jobs(gateway: Served, caller: Owner) -> Response:
    """List the jobs of the store's servers, newest first, and interrupted imports."""
    return answer({"jobs": gateway.jobs.statuses(), "cut_short": caller.satchel.jobs()})


@dataclass(frozen=True, slots=True)
class ServerJobOptions(Options):
    """Which job."""

    job: Annotated[str, Option("ID of the job.", argument=True)]


@operation(ServerJobOptions, name="server job show", absent=OF_SERVER)
def show_job(jobs: JobQueue, options: ServerJobOptions) -> JobStatus:
    """Show the state of a server's job, and its result once it is done."""
    return jobs.find(options.job)


@operation(ServerJobOptions, name="server job follow", absent=OF_SERVER)
def follow_job(jobs: JobQueue, options: ServerJobOptions) -> AsyncIterator[bytes]:
    """Follow a server's job as server-sent events: `step`, and `end` once."""
    jobs.find(options.job)
    return jobs.events(options.job)


@operation(ServerJobOptions, name="server job cancel", absent=OF_SERVER)
def cancel_job(jobs: JobQueue, options: ServerJobOptions) -> JobStatus:
    """Cancel a server's job. It stops at its next step, and nothing that it wrote is visible."""
    return jobs.cancel(options.job)


@router.get("/jobs/{job}")
def job(
    options: Annotated[ServerJobOptions, query(show_job, job="job")], gateway: Served, _: Owner
) -> Response:
    """Return the state of a job, and its result once it is done."""
    return answer(show_job.run(gateway.jobs, options))


@router.get("/jobs/{job}/events")
@long_lived
def events(
    options: Annotated[ServerJobOptions, query(follow_job, job="job")], gateway: Served, _: Owner
) -> Response:
    """Follow a job as server-sent events: ``step``, and ``end`` once."""
    return StreamingResponse(follow_job.run(gateway.jobs, options), media_type="text/event-stream")


@router.delete("/jobs/{job}")
def cancel(
    options: Annotated[ServerJobOptions, query(cancel_job, job="job")], gateway: Served, _: Owner
) -> Response:
    """Cancel a job. It stops at its next step, and nothing that it wrote is visible."""
    return answer(cancel_job.run(gateway.jobs, options), 202)


@router.get("/receipts")
def receipts(
    options: Annotated[ReceiptListOptions, query(list_receipts)], gateway: Served, _: Owner
) -> Response:
    """List the newest receipts."""
    return answer(list_receipts.json(list_receipts.run(gateway.settings, options)))


@router.get("/receipts/{receipt}")
def receipt(
    options: Annotated[ReceiptOptions, query(show_receipt, receipt="receipt")],
    gateway: Served,
    _: Owner,
) -> Response:
    """Return a receipt, with the verification of its signature."""
    return answer(show_receipt.run(gateway.settings, options))
