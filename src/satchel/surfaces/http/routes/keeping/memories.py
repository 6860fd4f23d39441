"""What is done with many memories of a bank at once: vectors, duplicates, and what has to go."""

from typing import Annotated

from fastapi import Response

from satchel.actions.importing.undoing import list_imports
from satchel.actions.inferring.duplicates import DuplicatesOptions, duplicates
from satchel.actions.inferring.embedding import EmbedOptions, embed_bank
from satchel.actions.opened import opened_bank
from satchel.actions.upkeep.pruning import moment_of, prune
from satchel.api.sharing.removing import EraseArguments, RedactArguments
from satchel.errors import UsageError
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner, Served
from satchel.surfaces.http.operations import body, query
from satchel.surfaces.http.routes.keeping.bodies import (
    Erasing,
    Pruning,
    Redacting,
    Undoing,
)
from satchel.surfaces.http.works import Tell, begun, with_progress

router = routes(prefix="/v1/banks/{bank}", tags=["upkeep"])

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


@router.get("/duplicates")
def list_duplicates(
    bank: str, options: Annotated[DuplicatesOptions, query(duplicates)], caller: Asking
) -> Response:
    """List memories that repeat an earlier one, for review. Nothing is changed."""
    return answer(caller.run(bank, duplicates, options))


@router.post("/erase", status_code=202)
def erase(bank: str, body: Erasing, caller: Owner, gateway: Served) -> Response:
    """Erase memories for good, as a job; its result says what was looked through afterwards."""

    def work(_: Tell) -> object:
        asked = EraseArguments(
            where=body.where, cascade=body.cascade, reason=body.reason, dry_run=body.dry_run
        )
        return caller.bank(bank).erase(body.ids, **asked)

    return begun(gateway.works, "erase", work)


@router.post("/redact", status_code=202)
def redact(bank: str, body: Redacting, caller: Owner, gateway: Served) -> Response:
    """Replace personal data and secrets in memories, as a job."""

    def work(_: Tell) -> object:
        asked = RedactArguments(
            where=body.where,
            kinds=body.kinds,
            texts=body.texts,
            fields=body.fields,
            detector=body.detector,
            dry_run=body.dry_run,
        )
        return caller.bank(bank).redact(body.ids, **asked)

    return begun(gateway.works, "redact", work)


@router.post("/prune", status_code=202)
def prune_bank(bank: str, body: Pruning, _: Owner, gateway: Served) -> Response:
    """Erase what was superseded before a moment, as a job."""
    before = moment_of(body.superseded_before)

    def work(tell: Tell) -> object:
        with opened_bank(gateway.settings, bank, writes=not body.dry_run) as opened:
            return prune(
                *(opened, before),
                deleted=body.deleted,
                reason=body.reason,
                dry_run=body.dry_run,
                progress=lambda done, total: tell(done, total, None),
            )

    return begun(gateway.works, "prune", work)


@router.get("/imports")
def imports(bank: str, _: Owner, gateway: Served) -> Response:
    """List the imports into a bank, in the order in which they began."""
    return answer({"imports": list_imports(gateway.settings, bank)})


@router.post("/undo")
def undo(bank: str, body: Undoing, caller: Owner) -> Response:
    """Take an import back: what came with it goes, what it replaced is there again."""
    return answer(caller.bank(bank).undo(body.source, reason=body.reason))
