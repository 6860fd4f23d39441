"""Long work: how it stands, followed as it goes, called off; and the receipts of what was done."""

from typing import Annotated

from fastapi import Response
from fastapi.responses import StreamingResponse

from satchel.actions.operating.transfers import (
    ReceiptListOptions,
    ReceiptOptions,
    list_jobs,
    list_receipts,
    show_receipt,
)
from satchel.surfaces.http.admission import lasts, routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.operations import query, serves

router = routes(prefix="/v1", tags=["jobs"])


@router.get("/jobs")
@serves(list_jobs)
def jobs(gateway: Served, caller: Owner) -> Response:
    """List the work of the store's servers, the newest first, and imports that were cut short."""
    return answer({"jobs": gateway.works.listed(), "cut_short": caller.satchel.jobs()})


@router.get("/jobs/{job}")
def show_job(job: str, gateway: Served, _: Owner) -> Response:
    """Return how a job stands; its result once it is done."""
    return answer(gateway.works.find(job))


@router.get("/jobs/{job}/events")
@lasts
def follow_job(job: str, gateway: Served, _: Owner) -> Response:
    """Follow a job as server-sent events: ``step``, and ``end`` once."""
    gateway.works.find(job)
    return StreamingResponse(gateway.works.events(job), media_type="text/event-stream")


@router.delete("/jobs/{job}")
def cancel_job(job: str, gateway: Served, _: Owner) -> Response:
    """Call a job off; it stops at its next step, and nobody sees what it had written."""
    return answer(gateway.works.call_off(job), 202)


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
    """Return a receipt, and whether its signature holds."""
    return answer(show_receipt.run(gateway.settings, options))
