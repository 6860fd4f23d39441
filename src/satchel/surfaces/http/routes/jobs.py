"""Long work: how it stands, followed as it goes, called off; and the receipts of what was done."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served

router = APIRouter(prefix="/v1", tags=["jobs"])


@router.get("/jobs")
def list_jobs(gateway: Served, caller: Owner) -> Response:
    """List this server's work, the newest first, and imports that were cut short before."""
    work = [one.shown() for one in gateway.works.listed()]
    return answer({"jobs": work, "cut_short": caller.satchel.jobs()})


@router.get("/jobs/{job}")
def show_job(job: str, gateway: Served, _: Owner) -> Response:
    """Return how a job stands; its result once it is done."""
    return answer(gateway.works.find(job).shown())


@router.get("/jobs/{job}/events")
def follow_job(job: str, gateway: Served, _: Owner) -> Response:
    """Follow a job as server-sent events: ``step``, and ``end`` once."""
    return StreamingResponse(gateway.works.find(job).events(), media_type="text/event-stream")


@router.delete("/jobs/{job}")
def cancel_job(job: str, gateway: Served, _: Owner) -> Response:
    """Call a job off; it stops at its next step, and nobody sees what it had written."""
    work = gateway.works.find(job)
    work.call_off()
    return answer(work.shown(), 202)


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
