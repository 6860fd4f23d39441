"""Banks as a whole: renamed, copied, merged, deleted, and the configuration that they carry."""

from fastapi import Response

from satchel.actions.keys.ownership import OwnedBank, list_owners
from satchel.actions.opened import find_bank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.upkeep.config_operations import set_config, show_config
from satchel.actions.upkeep.operations import copy_bank, delete_bank, merge_banks, rename_bank
from satchel.actions.wiring import opened_store
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.bank_routes import add_job, add_route, on_store
from satchel.surfaces.http.operations import serves

router = routes(prefix="/v1/banks/{bank}", tags=["banks"])

add_route(router, "PATCH", "", rename_bank, run=on_store, bank="bank")
add_route(router, "DELETE", "", delete_bank, run=on_store, bank="bank")
add_job(router, "/copy", copy_bank, run=on_store, bank="bank")
add_job(router, "/merge", merge_banks, run=on_store, bank="bank")
add_route(router, "GET", "/config", show_config)
add_route(router, "PATCH", "/config", set_config)


@router.get("/owners")
@serves(list_owners)
def owners(bank: str, _: Owner, gateway: Served) -> Response:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    settings = gateway.settings
    require_owner(settings, "banks")
    with opened_store(settings, read_only=True) as store:
        return answer(list_owners(OwnedBank(settings, store, find_bank(store, bank))))
