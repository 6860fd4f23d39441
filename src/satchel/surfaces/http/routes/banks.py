"""Banks: listed, made, counted."""

from fastapi import Response

from satchel.actions.memories import operations
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking, Owner
from satchel.surfaces.http.bodies import NewBank
from satchel.surfaces.http.operations import serves

router = routes(prefix="/v1/banks", tags=["banks"])


@router.get("")
def list_banks(caller: Owner) -> Response:
    """List the banks of the store, each opened and proved."""
    return answer({"banks": caller.satchel.banks()})


@router.post("", status_code=201)
def create_bank(body: NewBank, caller: Owner) -> Response:
    """Make a bank."""
    made = caller.satchel.create_bank(body.name)
    said = {"id": made.id, "name": made.name}
    return answer(said, 201, {"Location": f"/v1/banks/{made.id}"})


@router.get("/{bank}")
@serves(operations.stats)
def count_bank(bank: str, caller: Asking) -> Response:
    """Count what is in a bank; every memory is verified."""
    return answer(caller.bank(bank).stats())
