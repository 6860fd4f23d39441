"""What is done with many memories of a bank at once: vectors, duplicates, and what has to go."""

from satchel.actions.agents.undo import undo
from satchel.actions.erasing.erasing import erase
from satchel.actions.erasing.redacting import redact
from satchel.actions.inferring.embedding import EmbedOptions, embed_bank
from satchel.actions.memories.duplicates import duplicates
from satchel.actions.operating.transfers import list_imports
from satchel.actions.upkeep.pruning import moment_of, prune_memories
from satchel.errors import UsageError
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.asking import Asking
from satchel.surfaces.http.bank_routes import add_job, add_route

router = routes(prefix="/v1/banks/{bank}", tags=["upkeep"])

_LOCAL = (None, "static", "static-idf", "minilm")


def _require_local(options: EmbedOptions) -> None:
    """Refuse a model that is not on this machine."""
    if options.model not in _LOCAL:
        raise UsageError(
            "remote models, which cost money, are configured by the operator",
            field="model",
            hint="Choose from: static, static-idf, minilm.",
        )


add_job(router, "/embed", embed_bank, check=_require_local)
add_route(router, "GET", "/duplicates", duplicates, caller=Asking)
add_job(router, "/erase", erase)
add_job(router, "/redact", redact)
add_job(
    router, "/prune", prune_memories, check=lambda options: moment_of(options.superseded_before)
)
add_route(router, "GET", "/imports", list_imports)
add_route(router, "POST", "/undo", undo)
