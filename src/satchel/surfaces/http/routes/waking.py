"""Waking up: memory as text for a model, and the judgement of what may get there."""

from typing import Annotated

from fastapi import Query, Response

from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner
from satchel.surfaces.http.bodies import Judged, Promotion, Scan, Waking

router = routes(prefix="/v1/banks/{bank}", tags=["waking"])


@router.post("/rehydrate")
@takes(Takes.TEXT)
def rehydrate(bank: str, body: Waking, caller: Asking) -> Response:
    """Return memory as framed text and messages for a model, within a budget of tokens."""
    return answer(caller.bank(bank).rehydrate(body.task, **body.said("task")))


@router.get("/quarantine")
def list_quarantine(
    bank: str, caller: Owner, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """List what is held back until somebody has looked at it, the last that was put there first."""
    return answer(caller.bank(bank).quarantine.list(limit=limit))


@router.get("/quarantine/{memory}")
def show_held(bank: str, memory: str, caller: Owner) -> Response:
    """Return a memory that is held back, why it is, and what is found in it now."""
    return answer(caller.bank(bank).quarantine.show(memory))


@router.post("/quarantine/scan")
def scan(bank: str, body: Scan, caller: Owner) -> Response:
    """Look through all memories for what reads like a prompt; quarantine what is from outside."""
    return answer(caller.bank(bank).quarantine.scan(**body.said()))


@router.post("/quarantine/add")
def add_to_quarantine(bank: str, body: Judged, caller: Owner) -> Response:
    """Put memories into quarantine: not recalled, listed or provided until they are released."""
    moved = caller.bank(bank).quarantine.add(*body.memories, **body.said("memories"))
    return answer({"moved": moved})


@router.post("/quarantine/release")
def release(bank: str, body: Judged, caller: Owner) -> Response:
    """Let memories be provided, out of quarantine where they are in it."""
    found = caller.bank(bank).quarantine.release(*body.memories, **body.said("memories"))
    return answer({"moved": found})


@router.post("/quarantine/reject")
def reject(bank: str, body: Judged, caller: Owner) -> Response:
    """Say that memories are not to be believed."""
    found = caller.bank(bank).quarantine.reject(*body.memories, **body.said("memories"))
    return answer({"moved": found})


@router.post("/promote")
def promote(bank: str, body: Promotion, caller: Owner) -> Response:
    """Trust memories, or all of an import by its source record, further than they earned."""
    found = caller.bank(bank).promote(*body.memories, **body.said("memories"))
    return answer({"promoted": found})
