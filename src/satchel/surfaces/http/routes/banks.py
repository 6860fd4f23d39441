"""Banks: listed, made, counted."""

from typing import Annotated

from fastapi import Response

from satchel.actions.memories import counting
from satchel.actions.upkeep.operations import BankCreateOptions, create_bank, list_banks
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner
from satchel.surfaces.http.operations import body, serves

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
@serves(counting.show_stats)
def count_bank(bank: str, caller: Asking) -> Response:
    """Count what is in a bank; every memory is verified."""
    return answer(caller.bank(bank).stats())
