"""Banks as a whole: renamed, copied, merged, deleted, and the configuration that they carry."""

from typing import Annotated

from fastapi import Response

from satchel.actions.keys.ownership import OwnedBank, list_owners
from satchel.actions.opened import find_bank, opened_bank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.upkeep.config_operations import BankConfigSetOptions, set_config, show_config
from satchel.actions.upkeep.operations import (
    BankCopyOptions,
    BankDeleteOptions,
    BankMergeOptions,
    BankRenameOptions,
    copy_bank,
    delete_bank,
    merge_banks,
    rename_bank,
)
from satchel.actions.wiring import opened_store
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.operations import body, query, serves
from satchel.surfaces.http.works import Tell, begun, with_progress

router = routes(prefix="/v1/banks/{bank}", tags=["banks"])


@router.patch("")
def rename(
    options: Annotated[BankRenameOptions, body(rename_bank, bank="bank")],
    caller: Owner,
    gateway: Served,
) -> Response:
    """Rename a bank, as its owner. Its ID stays."""
    done = rename_bank.run(gateway.settings, options)
    caller.forget()
    return answer(done)


@router.delete("")
def delete(
    options: Annotated[BankDeleteOptions, query(delete_bank, bank="bank")],
    caller: Owner,
    gateway: Served,
) -> Response:
    """Delete a bank with all that is in it. Backups still have it."""
    done = delete_bank.run(gateway.settings, options)
    caller.forget()
    return answer(done)


@router.post("/copy", status_code=202)
def copy(
    options: Annotated[BankCopyOptions, body(copy_bank, bank="bank")], _: Owner, gateway: Served
) -> Response:
    """Copy the memories of a bank to a new bank, as a job."""

    def work(tell: Tell) -> object:
        return copy_bank.run(gateway.settings, with_progress(options, tell))

    return begun(gateway.works, "bank copy", work)


@router.post("/merge", status_code=202)
def merge(
    options: Annotated[BankMergeOptions, body(merge_banks, bank="bank")], _: Owner, gateway: Served
) -> Response:
    """Add the current memories of a bank to another bank, as a job; the first stays as it is."""

    def work(tell: Tell) -> object:
        return merge_banks.run(gateway.settings, with_progress(options, tell))

    return begun(gateway.works, "bank merge", work)


@router.get("/owners")
@serves(list_owners)
def owners(bank: str, _: Owner, gateway: Served) -> Response:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    settings = gateway.settings
    require_owner(settings, "banks")
    with opened_store(settings, read_only=True) as store:
        return answer(list_owners(OwnedBank(settings, store, find_bank(store, bank))))


@router.get("/config")
@serves(show_config)
def config(bank: str, _: Owner, gateway: Served) -> Response:
    """Show the effective configuration of a bank, and where each value comes from."""
    with opened_bank(gateway.settings, bank) as opened:
        return answer(show_config(opened))


@router.patch("/config")
def change_config(
    bank: str,
    options: Annotated[BankConfigSetOptions, body(set_config)],
    _: Owner,
    gateway: Served,
) -> Response:
    """Change settings that a bank carries."""
    with opened_bank(gateway.settings, bank, writes=True) as opened:
        return answer(set_config.run(opened, options))
