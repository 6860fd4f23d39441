"""What is done with many memories of a bank at once: vectors, duplicates, and what has to go."""

from typing import Annotated

from fastapi import Response

from satchel.actions.agents.undo import undo
from satchel.actions.erasing.erasing import erase
from satchel.actions.erasing.options import EraseOptions, PruneMemoryOptions, RedactOptions
from satchel.actions.erasing.redacting import redact
from satchel.actions.inferring.duplicates import duplicates
from satchel.actions.inferring.embedding import EmbedOptions, embed_bank
from satchel.actions.opened import opened_bank
from satchel.actions.operating.transfers import list_imports
from satchel.actions.upkeep.pruning import moment_of, prune_memories
from satchel.api.operations import run_on
from satchel.errors import UsageError
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.asking import Asking, Owner, Served
from satchel.surfaces.http.bank_routes import add_route
from satchel.surfaces.http.operations import body
from satchel.surfaces.http.works import Tell, begun, with_progress

router = routes(prefix="/v1/banks/{bank}", tags=["upkeep"])

add_route(router, "GET", "/duplicates", duplicates, caller=Asking)
add_route(router, "GET", "/imports", list_imports)
add_route(router, "POST", "/undo", undo)

_LOCAL = (None, "static", "static-idf", "minilm")


@router.post("/embed", status_code=202)
def embed(
    bank: str,
    options: Annotated[EmbedOptions, body(embed_bank)],
    caller: Owner,
    gateway: Served,
) -> Response:
    """Compute the vectors that memories lack, as a job. Only by a model on this machine."""
    if options.model not in _LOCAL:
        raise UsageError(
            "the operator configures models elsewhere, which cost money",
            field="model",
            hint="Choose from: static, static-idf, minilm.",
        )

    def work(tell: Tell) -> object:
        return caller.run(bank, embed_bank, with_progress(options, tell))

    return begun(gateway.works, "embed", work)


@router.post("/erase", status_code=202)
def erase_memories(
    bank: str, options: Annotated[EraseOptions, body(erase)], caller: Owner, gateway: Served
) -> Response:
    """Erase memories permanently, as a job; its result lists remnants that were found."""

    def work(_: Tell) -> object:
        return run_on(caller.bank(bank), erase, options)

    return begun(gateway.works, "erase", work)


@router.post("/redact", status_code=202)
def redact_memories(
    bank: str, options: Annotated[RedactOptions, body(redact)], caller: Owner, gateway: Served
) -> Response:
    """Redact personal data and secrets in memories, as a job."""

    def work(_: Tell) -> object:
        return run_on(caller.bank(bank), redact, options)

    return begun(gateway.works, "redact", work)


@router.post("/prune", status_code=202)
def prune(
    bank: str,
    options: Annotated[PruneMemoryOptions, body(prune_memories)],
    _: Owner,
    gateway: Served,
) -> Response:
    """Erase what was superseded before a time, as a job."""
    moment_of(options.superseded_before)  # refused before the job begins

    def work(tell: Tell) -> object:
        with opened_bank(gateway.settings, bank, writes=not options.dry_run) as opened:
            return prune_memories.run(opened, with_progress(options, tell))

    return begun(gateway.works, "prune", work)
