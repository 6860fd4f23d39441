"""Rehydration, quarantine and promotion."""

from typing import Annotated

from fastapi import Response

from satchel.actions.waking import promoting, quarantining, rehydrating
from satchel.actions.waking.options import (
    PromoteOptions,
    QuarantineListOptions,
    RehydrateOptions,
    ReleaseOptions,
    ReviewOptions,
    ScanOptions,
)
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner
from satchel.surfaces.http.operations import body, query, serves

router = routes(prefix="/v1/banks/{bank}", tags=["waking"])


@router.post("/rehydrate")
@takes(Takes.TEXT)
def rehydrate(
    bank: str,
    options: Annotated[RehydrateOptions, body(rehydrating.rehydrate_memories)],
    caller: Asking,
) -> Response:
    """Return memory as delimited text and messages for a model, within a budget of tokens."""
    return answer(caller.run(bank, rehydrating.rehydrate_memories, options))


@router.get("/quarantine")
def list_quarantine(
    bank: str,
    options: Annotated[QuarantineListOptions, query(quarantining.list_quarantine)],
    caller: Owner,
) -> Response:
    """List quarantined memories, newest first."""
    return answer(caller.run(bank, quarantining.list_quarantine, options))


@router.get("/quarantine/{memory}")
@serves(quarantining.show_held)
def show_held(bank: str, memory: str, caller: Owner) -> Response:
    """Show a quarantined memory, why it is in quarantine, and what is found in it."""
    return answer(caller.bank(bank).quarantine.show(memory))


@router.post("/quarantine/scan")
def scan(
    bank: str, options: Annotated[ScanOptions, body(quarantining.screen_bank)], caller: Owner
) -> Response:
    """Scan all memories for text that reads like a prompt; quarantine what is from outside."""
    return answer(caller.run(bank, quarantining.screen_bank, options))


@router.post("/quarantine/add")
def add_to_quarantine(
    bank: str, options: Annotated[ReviewOptions, body(quarantining.quarantine)], caller: Owner
) -> Response:
    """Quarantine memories: not recalled, listed or provided until they are released."""
    moved = caller.run(bank, quarantining.quarantine, options)
    return answer(quarantining.quarantine.json(moved))


@router.post("/quarantine/release")
def release(
    bank: str, options: Annotated[ReleaseOptions, body(quarantining.release)], caller: Owner
) -> Response:
    """Release memories from quarantine, and provide them although they read like a prompt."""
    moved = caller.run(bank, quarantining.release, options)
    return answer(quarantining.release.json(moved))


@router.post("/quarantine/reject")
def reject(
    bank: str, options: Annotated[ReviewOptions, body(quarantining.reject)], caller: Owner
) -> Response:
    """Reject memories as false."""
    moved = caller.run(bank, quarantining.reject, options)
    return answer(quarantining.reject.json(moved))


@router.post("/promote")
def promote(
    bank: str, options: Annotated[PromoteOptions, body(promoting.promote)], caller: Owner
) -> Response:
    """Raise the trust of memories, or of all of an import by its source record."""
    moved = caller.run(bank, promoting.promote, options)
    return answer(promoting.promote.json(moved))
