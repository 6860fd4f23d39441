"""Banks: listed, made, counted."""

from typing import Annotated

from fastapi import Response

from satchel.admin import statistics
from satchel.admin.bank_operations import (
    BankCreateOptions,
    copy_bank,
    create_bank,
    delete_bank,
    list_banks,
    merge_banks,
    rename_bank,
)
from satchel.admin.settings_operations import set_config, show_config
from satchel.bank.connections import configured_store
from satchel.bank.key_operations import OwnedBank, list_owners
from satchel.bank.open_bank import find_bank
from satchel.bank.owner_rights import require_owner
from satchel.http.admission import AnyCaller, Owner, Served, routes
from satchel.http.answers import answer
from satchel.http.bank_routes import add_job, add_route, on_store
from satchel.http.operations import body, serves

router = routes(prefix="/v1/banks", tags=["banks"])


@router.get("")
@serves(list_banks)
def list_(caller: Owner) -> Response:
    """List the banks of the store. Each is opened and verified."""
    return answer(list_banks.json(caller.satchel.list_banks()))


@router.post("", status_code=201)
def create(options: Annotated[BankCreateOptions, body(create_bank)], caller: Owner) -> Response:
    """Create a bank."""
    made = caller.satchel.create_bank(options.name)
    created = {"id": made.id, "name": made.name}
    return answer(created, 201, {"Location": f"/v1/banks/{made.id}"})


@router.get("/{bank}")
@serves(statistics.show_stats)
def count_bank(bank: str, caller: AnyCaller) -> Response:
    """Count what is in a bank; every memory is verified."""
    return answer(caller.bank(bank).stats())


bank_router = routes(prefix="/v1/banks/{bank}", tags=["banks"])

add_route(bank_router, "PATCH", "", rename_bank, run=on_store, bank="bank")
add_route(bank_router, "DELETE", "", delete_bank, run=on_store, bank="bank")
add_job(bank_router, "/copy", copy_bank, run=on_store, bank="bank")
add_job(bank_router, "/merge", merge_banks, run=on_store, bank="bank")
add_route(bank_router, "GET", "/config", show_config)
add_route(bank_router, "PATCH", "/config", set_config)


@bank_router.get("/owners")
@serves(list_owners)
def owners(bank: str, _: Owner, gateway: Served) -> Response:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    settings = gateway.settings
    require_owner(settings, "banks")
    with configured_store(settings, read_only=True) as store:
        return answer(list_owners(OwnedBank(settings, store, find_bank(store, bank))))
