"""Long work: how it stands, followed as it goes, called off; and the receipts of what was done."""

from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from satchel.surfaces.http.admission import lasts, routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served

router = routes(prefix="/v1", tags=["jobs"])


@router.get("/jobs")
def list_jobs(gateway: Served, caller: Owner) -> Response:
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
def list_receipts(
    caller: Owner, bank: str | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """List the newest receipts."""
    return answer({"receipts": caller.satchel.receipts(bank, limit=limit)})


@router.get("/receipts/{receipt}")
def show_receipt(receipt: str, caller: Owner) -> Response:
    """Return a receipt, and whether its signature holds."""
    return answer(caller.satchel.receipt(receipt))
